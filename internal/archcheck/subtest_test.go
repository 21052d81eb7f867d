package archcheck

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"slices"
	"strings"
	"testing"
)

// Skip or Fatal of the outer test would end the wrong goroutine, which the testing package reports
// as a failure.
func TestSubtestsEndThemselves(t *testing.T) {
	for _, path := range testFiles(t) {
		fset := token.NewFileSet()
		f, err := parser.ParseFile(fset, path, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range f.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && fn.Body != nil && slices.Contains(parameters(fn.Type), "t") {
				for _, at := range outerEnds(fn.Body, false) {
					t.Errorf("%v: the test around this subtest is ended: end the subtest", fset.Position(at))
				}
			}
		}
	}
}

func outerEnds(n ast.Node, inside bool) (out []token.Pos) {
	ast.Inspect(n, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncLit:
			if !slices.Contains(parameters(n.Type), "t") { // which would be another t
				out = append(out, outerEnds(n.Body, inside || hasTest(n.Type))...)
			}
			return false
		case *ast.SelectorExpr:
			x, ok := n.X.(*ast.Ident)
			if inside && ok && x.Name == "t" && slices.Contains([]string{"Fatal", "Fatalf", "FailNow", "Skip", "Skipf", "SkipNow"},
				n.Sel.Name) {
				out = append(out, n.Pos())
			}
		}
		return true
	})
	return out
}

func parameters(f *ast.FuncType) (names []string) {
	for _, p := range f.Params.List {
		for _, n := range p.Names {
			names = append(names, n.Name)
		}
	}
	return names
}

func hasTest(f *ast.FuncType) bool {
	return slices.ContainsFunc(f.Params.List, func(p *ast.Field) bool {
		star, ok := p.Type.(*ast.StarExpr)
		if !ok {
			return false
		}
		switch x := star.X.(type) {
		case *ast.Ident:
			return strings.EqualFold(x.Name, "bench")
		case *ast.SelectorExpr:
			return x.Sel.Name == "Bench" || x.Sel.Name == "T"
		}
		return false
	})
}

func testFiles(t *testing.T) (paths []string) {
	t.Helper()
	root := os.DirFS("../..")
	err := fs.WalkDir(root, ".", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && path != "." && strings.HasPrefix(d.Name(), "."):
			return fs.SkipDir
		case strings.HasSuffix(path, "_test.go"):
			paths = append(paths, "../../"+path)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return paths
}
