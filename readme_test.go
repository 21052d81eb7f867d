package reprise_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// The lines of Go in README.md are the example's, without its checks of errors.
func TestReadmeShowsTheExample(t *testing.T) {
	readme, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	example, err := os.ReadFile("example_test.go")
	if err != nil {
		t.Fatal(err)
	}
	block := regexp.MustCompile("(?s)```go\n(.*?)```").FindSubmatch(readme)
	if block == nil {
		t.Fatal("README.md has no Go")
	}
	rest := strings.Split(string(example), "\n")
	for line := range strings.Lines(string(block[1])) {
		want := code(line)
		if want == "" {
			continue
		}
		i := 0
		for i < len(rest) && code(rest[i]) != want {
			i++
		}
		if i == len(rest) {
			t.Fatalf("README.md has a line that example_test.go doesn't have, or not in that order:\n%s", line)
		}
		rest = rest[i+1:]
	}
}

func code(line string) string {
	line, _, _ = strings.Cut(line, " // ")
	return strings.TrimSpace(line)
}

// What belongs to a topic goes to its package; go doc shows no fields of aliases.
func TestExportedNames(t *testing.T) {
	const most = 60 // types and functions
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	names := 0
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range f.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && fn.Recv == nil && fn.Name.IsExported() {
				names++
			}
			g, _ := d.(*ast.GenDecl)
			for i := 0; g != nil && g.Tok == token.TYPE && i < len(g.Specs); i++ {
				if s := g.Specs[i].(*ast.TypeSpec); s.Name.IsExported() {
					names++
					if s.Assign.IsValid() {
						t.Errorf("%s is an alias: name the type by its own package", s.Name)
					}
				}
			}
		}
	}
	if names > most || names < most/2 {
		t.Errorf("the package has %d exported types and functions, at most %d are wanted", names, most)
	}
}
