package reprise_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"strings"
	"testing"
)

// mostNames is how many exported types and functions the package may have. They are its ideas:
// methods, constants and variables belong to them.
const mostNames = 60

// The package stays small enough to be read: what belongs to a topic goes to the topic's package.
// It has no aliases of types, whose fields go doc wouldn't show.
func TestExportedNames(t *testing.T) {
	names := 0
	count := func(n ast.Node) {
		switch n := n.(type) {
		case *ast.FuncDecl:
			if n.Name.IsExported() && n.Recv == nil {
				names++
			}
		case *ast.TypeSpec:
			if n.Name.IsExported() {
				names++
				if n.Assign.IsValid() {
					t.Errorf("%s is an alias: name the type by its own package", n.Name)
				}
			}
		}
	}
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range f.Decls {
			if g, ok := d.(*ast.GenDecl); ok {
				for _, s := range g.Specs {
					count(s)
				}
				continue
			}
			count(d)
		}
	}
	if names > mostNames || names < mostNames/2 {
		t.Errorf("the package has %d exported types and functions, at most %d are wanted", names, mostNames)
	}
}
