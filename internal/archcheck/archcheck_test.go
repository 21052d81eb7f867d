// Package archcheck holds the module's packages to the layers of docs/architecture.md.
package archcheck

import (
	"bufio"
	stdcmp "cmp"
	_ "embed"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"github.com/reprise-tt/reprise/hwtest"
	"github.com/reprise-tt/reprise/internal/devtest"
	"github.com/reprise-tt/reprise/internal/effort"
	"github.com/reprise-tt/reprise/internal/expect"
)

const module = "github.com/reprise-tt/reprise"

// arrows has the packages of the module that each package may import, from programs at the top to
// the boundary to the chips at the bottom. reprise is the root package. A package without a line
// may import nothing of the module. A name that ends in * stands for a tree.
//
//go:embed arrows.txt
var arrows string

func parseArrows(text string) map[string][]string {
	allowed := map[string][]string{}
	for line := range strings.Lines(text) {
		arrow, _, _ := strings.Cut(line, "#")
		from, to, ok := strings.Cut(arrow, "->")
		if !ok {
			continue
		}
		names := strings.Fields(to)
		for i, n := range names {
			names[i] = strings.TrimPrefix(n, "reprise")
		}
		allowed[strings.TrimPrefix(strings.TrimSpace(from), "reprise")] = names
	}
	return allowed
}

var external = []string{"golang.org/x/sys", "golang.org/x/sync", "github.com/dustin/go-humanize"}

var externalOf = map[string][]string{
	"sim/ttsim/libttsim":         {"github.com/ebitengine/purego"},
	"mesh/hosts/mpi":             {"github.com/ebitengine/purego"},
	"internal/expect":            {"github.com/google/go-cmp"}, // for tests only
	"internal/bench/measure":     {"github.com/HdrHistogram/hdrhistogram-go"},
	"internal/bench/report":      {"github.com/HdrHistogram/hdrhistogram-go", "golang.org/x/perf"},
	"internal/bench/probe":       {"github.com/cilium/ebpf"},
	"ops/graph/visualizer":       {"github.com/ncruces/go-sqlite3/driver"},
	"internal/tables":            {"golang.org/x/term"},
	"cmd/reprise":                {"github.com/alecthomas/kong"},
	"cmd/reprise/internal/cards": {"charm.land/bubbletea/v2"},
	"cmd/reprise/internal/cli":   {"golang.org/x/term"},
	"cmd/reprise/internal/sims":  {"golang.org/x/term"},
}

type pkg struct {
	ImportPath string
	Imports    []string
	Standard   bool
}

func list(t *testing.T) []pkg {
	t.Helper()
	// As where a C compiler is installed: then a C source beside Go files is an error, even if
	// nothing uses cgo.
	out := goList(t, []string{"CGO_ENABLED=1"}, "-json=ImportPath,Imports,Standard", module+"/...")
	var ps []pkg
	for d := json.NewDecoder(strings.NewReader(out)); d.More(); {
		var p pkg
		expect.Must(t, d.Decode(&p))
		ps = append(ps, p)
	}
	return ps
}

func goList(t *testing.T, env []string, args ...string) string {
	t.Helper()
	cmd := exec.Command("go", append([]string{"list"}, args...)...)
	cmd.Env = append(os.Environ(), env...)
	out, err := cmd.Output()
	if err != nil {
		said := ""
		if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
			said = string(exit.Stderr)
		}
		t.Fatalf("go list: %v: %s", err, said)
	}
	return string(out)
}

func match(pattern, name string) bool {
	if tree, ok := strings.CutSuffix(pattern, "*"); ok {
		return strings.HasPrefix(name, tree)
	}
	return pattern == name
}

func lookup(m map[string][]string, name string) []string {
	if v, ok := m[name]; ok {
		return v
	}
	for k, v := range m {
		if strings.HasSuffix(k, "*") && match(k, name) {
			return v
		}
	}
	return nil
}

func TestImportsFollowTheLayers(t *testing.T) {
	allowed := parseArrows(arrows)
	for _, p := range list(t) {
		name := strings.TrimPrefix(strings.TrimPrefix(p.ImportPath, module), "/")
		for _, imp := range p.Imports {
			if imp == module || strings.HasPrefix(imp, module+"/") {
				other := strings.TrimPrefix(strings.TrimPrefix(imp, module), "/")
				if !slices.ContainsFunc(lookup(allowed, name), func(a string) bool { return match(a, other) }) {
					t.Errorf("%q imports %q: that is no arrow of the architecture", name, other)
				}
				continue
			}
			if imp == "C" {
				t.Errorf("%q uses cgo", name)
			}
			if first, _, _ := strings.Cut(imp, "/"); !strings.Contains(first, ".") {
				continue // standard library
			}
			ok := slices.ContainsFunc(append(slices.Clone(external), externalOf[name]...), func(e string) bool {
				return imp == e || strings.HasPrefix(imp, e+"/")
			})
			if !ok {
				t.Errorf("%q imports %q: library packages stay with %v", name, imp, external)
			}
		}
	}
}

func TestEveryListedPackageExists(t *testing.T) {
	have := map[string]bool{}
	for _, p := range list(t) {
		have[strings.TrimPrefix(strings.TrimPrefix(p.ImportPath, module), "/")] = true
	}
	for name := range parseArrows(arrows) {
		if !strings.HasSuffix(name, "*") && !have[name] {
			t.Errorf("there is a row for %q, which doesn't exist", name)
		}
	}
}

func TestModulesOfLibrary(t *testing.T) {
	out := goList(t, []string{"GOOS=linux", "GOARCH=amd64"}, "-deps", "-f", "{{with .Module}}{{.Path}}{{end}}", module)
	got := slices.Compact(slices.Sorted(strings.FieldsSeq(out)))
	got = slices.DeleteFunc(got, func(m string) bool { return m == module })
	expect.NoDiff(t, got, slices.Sorted(slices.Values(external)), "the library needs the modules")
}

var update = flag.Bool("update", false, "write generated parts of pages anew")

const longPage = 110

var (
	pageLink    = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	pageHeading = regexp.MustCompile(`(?m)^(#{1,4}) (.+)$`)
	pageCode    = regexp.MustCompile("(?ms)^```.*?^```$")
	notOfAnchor = regexp.MustCompile(`[^\p{L}\p{N}_\- ]`)
)

func page(t *testing.T, path string) string {
	t.Helper()
	b := expect.Value(os.ReadFile(path))(t)
	return pageCode.ReplaceAllString(string(b), "")
}

func anchors(text string) (all map[string]bool, sections []string) {
	all = map[string]bool{}
	for _, m := range pageHeading.FindAllStringSubmatch(text, -1) {
		anchor := strings.ReplaceAll(notOfAnchor.ReplaceAllString(strings.ToLower(m[2]), ""), " ", "-")
		all[anchor] = true
		if m[1] == "##" {
			sections = append(sections, anchor)
		}
	}
	return all, sections
}

func TestPages(t *testing.T) {
	pages := expect.Value(filepath.Glob("../../docs/*.md"))(t)
	for _, path := range append(pages, "../../README.md") {
		text := page(t, path)
		_, sections := anchors(text)
		links := map[string]bool{}
		for _, m := range pageLink.FindAllStringSubmatch(text, -1) {
			link := m[1]
			links[link] = true
			if strings.Contains(link, "://") {
				continue
			}
			file, anchor, _ := strings.Cut(link, "#")
			target := path
			if file != "" {
				target = filepath.Join(filepath.Dir(path), file)
			}
			if _, err := os.Stat(target); err != nil {
				t.Errorf("%s links to %s, which doesn't exist", path, link)
				continue
			}
			if anchor == "" {
				continue
			}
			if all, _ := anchors(page(t, target)); !all[anchor] {
				t.Errorf("%s links to %s, and there is no such heading", path, link)
			}
		}
		if strings.Count(text, "\n") <= longPage || strings.HasSuffix(path, "README.md") {
			continue
		}
		for _, s := range sections {
			if !links["#"+s] {
				t.Errorf("%s is long, and its table of contents lacks #%s", path, s)
			}
		}
	}
}

func TestPackagesPage(t *testing.T) {
	const path, begin, end = "../../docs/architecture.md", "<!-- go test ./internal/archcheck -update -->\n", "<!-- end -->\n"
	b := expect.Value(os.ReadFile(path))(t)
	before, rest, ok1 := strings.Cut(string(b), begin)
	got, after, ok2 := strings.Cut(rest, end)
	if !ok1 || !ok2 {
		t.Fatalf("%s has no place for the packages, between %q and %q", path, begin, end)
	}
	docs := map[string]string{}
	for line := range strings.Lines(goList(t, []string{"GOOS=linux", "GOARCH=amd64"}, "-f", "{{.ImportPath}}\t{{.Doc}}", module+"/...")) {
		name, doc, _ := strings.Cut(strings.TrimSpace(line), "\t")
		if _, said, ok := strings.Cut(doc, " "); ok { // Package NAME says ...
			_, doc, _ = strings.Cut(said, " ")
		}
		docs[strings.TrimPrefix(name, module+"/")] = strings.TrimSuffix(doc, ".")
	}
	var want strings.Builder
	want.WriteString("| package | documentation | may import of the module |\n|---|---|---|\n")
	for line := range strings.Lines(arrows) {
		arrow, about, _ := strings.Cut(strings.TrimSpace(line), "#")
		from, to, ok := strings.Cut(arrow, "->")
		if !ok {
			continue
		}
		name, doc := strings.TrimSpace(from), strings.TrimSpace(about)
		if name == "reprise" {
			doc = docs[module]
		} else if d := docs[name]; d != "" {
			doc = d
		}
		fmt.Fprintf(&want, "| `%s` | %s | %s |\n", name, doc, strings.Join(strings.Fields(strings.ReplaceAll(to, "*", `\*`)), ", "))
	}
	if diff := cmp.Diff(want.String(), got); diff != "" && !*update {
		t.Errorf("%s isn't what the packages say, `go test ./internal/archcheck -update` writes it (-want +got):\n%s", path, diff)
	}
	if *update {
		devtest.Must(t, os.WriteFile(path, []byte(before+begin+want.String()+end+after), 0o644))
	}
}

const promisesFile = "testdata/promises.txt"

type promise struct {
	line        int // of the file
	seed, lines string
	text        string
	tests, ttnn []string
	instead     string // what stands in the place of a form that Go doesn't have
}

func readPromises(t *testing.T) []promise {
	t.Helper()
	b := expect.Value(os.ReadFile(promisesFile))(t)
	list := func(s string) []string {
		var out []string
		for e := range strings.SplitSeq(s, ";") {
			if e = strings.TrimSpace(e); e != "" {
				out = append(out, e)
			}
		}
		return out
	}
	var out []promise
	for i, line := range strings.Split(string(b), "\n") {
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		f := append(strings.Split(line, "|"), "", "")[:5]
		for k := range f {
			f[k] = strings.TrimSpace(f[k])
		}
		seed, lines, ok := strings.Cut(f[0], ":")
		if !ok || f[1] == "" {
			t.Fatalf("%s:%d: want SEED:LINES | promise | tests | programs | instead", promisesFile, i+1)
		}
		out = append(out, promise{i + 1, seed, lines, f[1], list(f[2]), list(f[3]), f[4]})
	}
	return out
}

func TestPromises(t *testing.T) {
	promises := readPromises(t)
	tests, programs := testsOfTree(t), programsOfTTNN(t)
	for _, c := range hwtest.Cases() {
		tests["hwtest "+c.Layer+"/"+c.Name] = true
	}
	for _, p := range promises {
		at := fmt.Sprintf("%s:%d: %s:%s", promisesFile, p.line, p.seed, p.lines)
		if len(p.tests) == 0 {
			t.Errorf("%s: no test shows that %s", at, p.text)
		}
		for _, name := range p.tests {
			if !tests[name] {
				t.Errorf("%s: there is no test %s", at, name)
			}
		}
		for _, name := range p.ttnn {
			if !programs[name] {
				t.Errorf("%s: there is no program %s", at, name)
			}
		}
	}
	const file = "../../docs/seeds.md"
	want := promisesPage(promises)
	if *update {
		devtest.Must(t, os.WriteFile(file, []byte(want), 0o644))
	}
	got := expect.Value(os.ReadFile(file))(t)
	expect.NoDiff(t, string(got), want, "%s isn't what %s says, `go test ./internal/archcheck -update` writes it", file, promisesFile)
}

var testFunction = regexp.MustCompile(`(?m)^func ((?:Test|Example|Fuzz)[A-Za-z0-9_]*)\(`)

func testsOfTree(t *testing.T) map[string]bool {
	t.Helper()
	const root = "../.."
	out := map[string]bool{}
	err := filepath.WalkDir(root, func(file string, d fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(file, "_test.go") {
			return err
		}
		b, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		dir := strings.TrimPrefix(filepath.ToSlash(filepath.Dir(file)), root+"/")
		if dir == root {
			dir = "reprise"
		}
		for _, m := range testFunction.FindAllStringSubmatch(string(b), -1) {
			out[dir+"."+m[1]] = true
		}
		return nil
	})
	devtest.Must(t, err)
	return out
}

func programsOfTTNN(t *testing.T) map[string]bool {
	t.Helper()
	b := expect.Value(os.ReadFile("../ttnn/testdata/programs/golden.json"))(t)
	var golden struct {
		Wheels map[string]map[string]map[string]json.RawMessage
	}
	devtest.Must(t, json.Unmarshal(b, &golden))
	out := map[string]bool{}
	for _, chips := range golden.Wheels {
		for _, programs := range chips {
			for name := range programs {
				out[name] = true
			}
		}
	}
	return out
}

var seedTitles = map[string]string{
	"000": "tt-enable-tracing",
	"001": "Advanced Performance Optimizations for Models",
	"002": "Metal Trace Optimization",
	"003": "TT-NN Graph Tracing",
	"004": "Trace Buffers in TT-Metal",
}

func promisesPage(promises []promise) string {
	var b strings.Builder
	b.WriteString(`# What the documents of TT-NN and tt-metal promise

    go test ./internal/archcheck -run TestPromises          # each row has tests that exist
    go run ./cmd/reprise hwtest --run '^traces/'            # cases of the conformance suite, written LAYER/NAME here

Reprise replaces the behaviour that five public documents describe. Each row is a promise of one of them, by its lines; the
tests that show it here; and the program that shows the same with TT-NN on the emulated chip (internal/ttnn/testdata/programs).
Generated from internal/archcheck/testdata/promises.txt.

`)
	seeds := slices.Sorted(maps.Keys(seedTitles))
	for i, s := range seeds {
		anchor := strings.ReplaceAll(strings.ToLower(s+" "+seedTitles[s]), " ", "-")
		fmt.Fprintf(&b, "%s[%s](#%s)", map[bool]string{true: "- ", false: " · "}[i == 0], seedTitles[s], anchor)
	}
	b.WriteString("\n")
	for _, s := range seeds {
		fmt.Fprintf(&b, "\n## %s %s\n\n| lines | promise | tests | TT-NN | instead |\n|---|---|---|---|---|\n", s, seedTitles[s])
		for _, p := range promises {
			if p.seed == s {
				fmt.Fprintf(&b, "| %s | %s | %s | %s | %s |\n", p.lines, p.text, code(p.tests), code(p.ttnn), p.instead)
			}
		}
	}
	return b.String()
}

func code(names []string) string {
	quoted := make([]string, len(names))
	for i, n := range names {
		quoted[i] = "`" + strings.TrimPrefix(n, "hwtest ") + "`"
	}
	return strings.Join(quoted, ", ")
}

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
		n := expect.Value(strconv.Atoi(strings.ReplaceAll(number, ",", "")))(t)
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
		text := expect.Value(os.ReadFile(filepath.Join("../..", path)))(t)
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
	f := expect.Value(parser.ParseFile(token.NewFileSet(), "", text, parser.ParseComments))(t)
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
	f := expect.Value(parser.ParseFile(files, "", text, 0))(t)
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
		if limit := stdcmp.Or(limits["circle of "+stdcmp.Or(name, "the root package")], limits["circle of another package"]); n > limit {
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
		n := expect.Value(circle(fset, imported, fields[0], fields[1], fields[2:]))(t)
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
		f := expect.Value(parser.ParseFile(fset, path, nil, 0))(t)
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
	expect.Must(t, err)
	return paths
}

// The program of docs/serving.md builds and works as a user's module, which has nothing of this
// repository but a replace.
func TestServer(t *testing.T) {
	effort.Long(t)
	if _, err := exec.LookPath("go"); err != nil {
		t.Skip(err)
	}
	root := expect.Value(filepath.Abs("../.."))(t)
	read := func(name string) string {
		p := expect.Value(os.ReadFile(filepath.Join(root, name)))(t)
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
		expect.Must(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o666))
	}
	c := exec.Command("go", "test", "-count=1", ".")
	c.Dir, c.Env = dir, append(os.Environ(), "GOFLAGS=-mod=mod", "GOPROXY=off", "GOWORK=off")
	if out, err := c.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
