package archcheck

import (
	"bufio"
	"cmp"
	_ "embed"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/reprise-tt/reprise/internal/effort"
)

// limits are the project's upper bounds on its size. A number may only fall: a change that shrinks
// something lowers its number.
//
//go:embed limits.txt
var limits string

func readLimits(t *testing.T) map[string]int {
	t.Helper()
	out := map[string]int{}
	for line := range strings.Lines(limits) {
		line, _, _ = strings.Cut(line, "#")
		name, number, ok := strings.Cut(strings.TrimSpace(line), ": ")
		if !ok {
			continue
		}
		n, err := strconv.Atoi(strings.ReplaceAll(number, ",", ""))
		if err != nil {
			t.Fatal(err)
		}
		out[name] = n
	}
	return out
}

func TestSize(t *testing.T) {
	git := exec.Command("git", "ls-files")
	git.Dir = "../.."
	list, err := git.Output()
	if err != nil {
		t.Skip("the files that git tracks can't be listed: ", err)
	}
	is, top := map[string]int{}, map[string]bool{}
	for path := range strings.Lines(string(list)) {
		path = strings.TrimSpace(path)
		is["tracked files"]++
		folder, _, inside := strings.Cut(path, "/")
		if inside && !strings.HasPrefix(folder, ".") {
			top[folder] = true
		}
		page := path == "docs/rationale.md" || path == "docs/performance.md"
		if !page && !strings.HasSuffix(path, ".go") {
			continue
		}
		text, err := os.ReadFile(filepath.Join("../..", path))
		if err != nil {
			t.Fatal(err)
		}
		if page {
			is["lines of docs/rationale.md and docs/performance.md"] += strings.Count(string(text), "\n")
			continue
		}
		for _, line := range longLines(t, string(text), 140) {
			t.Logf("%s:%d has more than 140 columns", path, line)
			is["lines of more than 140 columns"]++
		}
		is["comments of more than 100 columns"] += longComments(string(text), 100)
		if strings.HasSuffix(path, "_test.go") {
			is["bytes of tests in Go"] += len(text)
			continue
		}
		is["bytes of Go without tests"] += len(text)
		is["exported functions and types without a comment"] += uncommented(t, string(text))
		if !inside {
			is["files of the root package"]++
			is["bytes of the root package"] += len(text)
		}
	}
	is["folders at the top"] = len(top)
	limits := readLimits(t)
	for name, n := range is {
		if limit, ok := limits[name]; !ok || n > limit {
			t.Errorf("%s: %d, and %d are allowed: make something smaller", name, n, limit)
		}
	}
}

// uncommented counts the exported functions and types of a package that have no comment, but for
// methods whose names say all.
func uncommented(t *testing.T, text string) (n int) {
	f, err := parser.ParseFile(token.NewFileSet(), "", text, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	if f.Name.Name == "main" {
		return 0
	}
	for _, d := range f.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			hidden := d.Recv != nil && !ast.IsExported(strings.TrimLeft(types.ExprString(d.Recv.List[0].Type), "*"))
			known := d.Recv != nil && slices.Contains([]string{"Error", "Unwrap", "String", "ID", "Len", "Less", "Swap"}, d.Name.Name)
			if d.Name.IsExported() && d.Doc == nil && !hidden && !known {
				n++
			}
		case *ast.GenDecl:
			for _, s := range d.Specs {
				if s, ok := s.(*ast.TypeSpec); ok && s.Name.IsExported() && d.Doc == nil && s.Doc == nil && s.Comment == nil {
					n++
				}
			}
		}
	}
	return n
}

// longLines returns the lines above the limit. It excuses tables, which are composite literals of
// several lines, and lines that are long by a literal of text.
func longLines(t *testing.T, text string, limit int) (lines []int) {
	if strings.HasPrefix(text, "// Code generated") {
		return nil
	}
	for i, line := range strings.Split(text, "\n") {
		if columns(line) > limit && !strings.HasPrefix(strings.TrimSpace(line), "//") {
			lines = append(lines, i+1)
		}
	}
	if len(lines) == 0 {
		return nil
	}
	files := token.NewFileSet()
	f, err := parser.ParseFile(files, "", text, 0)
	if err != nil {
		t.Fatal(err)
	}
	excused := map[int]bool{}
	ast.Inspect(f, func(n ast.Node) bool {
		if n == nil {
			return false
		}
		from, to := files.Position(n.Pos()).Line, files.Position(n.End()).Line
		switch n := n.(type) {
		case *ast.FuncLit:
			for line := from + 1; line < to; line++ {
				excused[line] = false
			}
		case *ast.CompositeLit:
			for line := from; from < to && line <= to; line++ {
				excused[line] = true
			}
		case *ast.BasicLit:
			if n.Kind != token.STRING {
				break
			}
			for line := from; line <= to; line++ {
				excused[line] = excused[line] || from < to || len(n.Value) > limit/3
			}
		}
		return true
	})
	return slices.DeleteFunc(lines, func(line int) bool { return excused[line] })
}

func columns(line string) int { return utf8.RuneCountInString(strings.ReplaceAll(line, "\t", "    ")) }

// A tab has four columns.
func longComments(text string, limit int) (n int) {
	if strings.HasPrefix(text, "// Code generated") {
		return 0
	}
	output := false
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\n")
		comment, is := strings.CutPrefix(strings.TrimLeft(line, "\t"), "// ")
		output = is && (output || strings.Contains(comment, "utput:"))
		if !is || output || strings.HasPrefix(comment, "  ") || strings.Contains(comment, "://") {
			continue
		}
		if columns(line) > limit {
			n++
		}
	}
	return n
}

func TestCircles(t *testing.T) {
	limits := readLimits(t)
	for name, n := range circles(t) {
		if limit := cmp.Or(limits["circle of "+cmp.Or(name, "the root package")], limits["circle of another package"]); n > limit {
			t.Errorf("%q: %d files depend on each other in a circle, and %d may: cut the package apart", name, n, limit)
		}
	}
}

func circles(t *testing.T) map[string]int {
	t.Helper()
	exports := map[string]string{} // files with what packages export, by import path
	out := goList(t, nil, "-export", "-deps", "-f", "{{.ImportPath}}\t{{.Export}}", module+"/...")
	for line := range strings.Lines(out) {
		path, file, _ := strings.Cut(strings.TrimSpace(line), "\t")
		exports[path] = file
	}
	fset := token.NewFileSet()
	imported := importer.ForCompiler(fset, "gc", func(path string) (io.ReadCloser, error) {
		file, err := os.Open(exports[path])
		if err != nil {
			return nil, err
		}
		return struct {
			io.Reader
			io.Closer
		}{bufio.NewReader(file), file}, nil
	})
	found := map[string]int{}
	for line := range strings.Lines(goList(t, nil, "-f", "{{.ImportPath}}\t{{.Dir}}\t{{join .GoFiles \"\\t\"}}", module+"/...")) {
		fields := strings.Split(strings.TrimSpace(line), "\t")
		n, err := circle(fset, imported, fields[0], fields[1], fields[2:])
		if err != nil {
			t.Fatal(err)
		}
		found[strings.TrimPrefix(strings.TrimPrefix(fields[0], module), "/")] = n
	}
	return found
}

func circle(fset *token.FileSet, imported types.Importer, path, dir string, names []string) (int, error) {
	var files []*ast.File
	edges := map[string]map[string]bool{}
	for _, name := range names {
		if name == "" {
			continue
		}
		f, err := parser.ParseFile(fset, filepath.Join(dir, name), nil, parser.SkipObjectResolution)
		if err != nil {
			return 0, err
		}
		files = append(files, f)
		edges[filepath.Join(dir, name)] = map[string]bool{}
	}
	info := &types.Info{Uses: map[*ast.Ident]types.Object{}}
	cfg := types.Config{Importer: imported, FakeImportC: true}
	pkg, err := cfg.Check(path, fset, files, info)
	if err != nil {
		return 0, fmt.Errorf("%s: %w", path, err)
	}
	for id, o := range info.Uses {
		if o.Pkg() != pkg {
			continue
		}
		_, method := o.(*types.Func)
		v, variable := o.(*types.Var)
		if o.Parent() != pkg.Scope() && !method && !(variable && v.IsField()) {
			continue // local
		}
		from, to := fset.Position(id.Pos()).Filename, fset.Position(o.Pos()).Filename
		if from != to && edges[from] != nil && edges[to] != nil {
			edges[from][to] = true
		}
	}
	return largest(edges), nil
}

// (Tarjan)
func largest(edges map[string]map[string]bool) (most int) {
	index, low, on := map[string]int{}, map[string]int{}, map[string]bool{}
	var stack []string
	var visit func(string)
	visit = func(v string) {
		index[v] = len(index) + 1
		low[v] = index[v]
		stack = append(stack, v)
		on[v] = true
		for w := range edges[v] {
			if index[w] == 0 {
				visit(w)
				low[v] = min(low[v], low[w])
			} else if on[w] {
				low[v] = min(low[v], index[w])
			}
		}
		if low[v] != index[v] {
			return
		}
		for n := 1; ; n++ {
			w := stack[len(stack)-1]
			stack = stack[:len(stack)-1]
			on[w] = false
			if w == v {
				most = max(most, n)
				return
			}
		}
	}
	for v := range edges {
		if index[v] == 0 {
			visit(v)
		}
	}
	return most
}

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

// The program of docs/serving.md builds and works as a user's module, which has nothing of this
// repository but a replace.
func TestServer(t *testing.T) {
	effort.Long(t)
	if _, err := exec.LookPath("go"); err != nil {
		t.Skip(err)
	}
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	read := func(name string) string {
		p, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			t.Fatal(err)
		}
		return string(p)
	}
	_, program, _ := strings.Cut(read("docs/serving.md"), "```go\n")
	program, _, ok := strings.Cut(program, "```\n")
	if !ok || strings.Contains(program, "/internal") {
		t.Fatal("the page has no program, or one that others can't build")
	}
	dir := t.TempDir()
	for name, text := range map[string]string{"main.go": program, "main_test.go": read("internal/archcheck/testdata/server_test.go.txt"),
		"go.sum": read("go.sum"), "go.mod": fmt.Sprintf("module example.com/serve\n\ngo 1.26\n\nrequire %s v0.0.0\n\nreplace %[1]s => %q\n",
			"github.com/reprise-tt/reprise", root)} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	c := exec.Command("go", "test", "-count=1", ".")
	c.Dir, c.Env = dir, append(os.Environ(), "GOFLAGS=-mod=mod", "GOPROXY=off", "GOWORK=off")
	if out, err := c.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
