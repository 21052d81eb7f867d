// Package archcheck holds the module's packages to the layers of docs/architecture.md.
package archcheck

import (
	_ "embed"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
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
	"sim/ttsim/libttsim":     {"github.com/ebitengine/purego"},
	"mesh/hosts/mpi":         {"github.com/ebitengine/purego"},
	"internal/expect":        {"github.com/google/go-cmp"}, // for tests only
	"internal/bench/measure": {"github.com/HdrHistogram/hdrhistogram-go"},
	"internal/bench/report": {"github.com/HdrHistogram/hdrhistogram-go", "golang.org/x/perf",
		"gonum.org/v1/plot"},
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
		if err := d.Decode(&p); err != nil {
			t.Fatal(err)
		}
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
	if want := slices.Sorted(slices.Values(external)); !slices.Equal(got, want) {
		t.Errorf("the library needs the modules %v, want %v", got, want)
	}
}
