// Package archcheck holds the module's packages to the layers of docs/architecture.md.
package archcheck

import (
	"encoding/json"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/reprise-tt/reprise"

// allowed lists, for each package of the module, which others of the module it may import itself. A package that is
// not listed may import nothing of the module. "*" stands for a tree.
var allowed = map[string][]string{
	"":                           {"allocator", "tracebuf", "dispatch", "dispatch/cq", "kernels", "kmd", "internal/usage", "chip"},
	"allocator":                  {"chip"},
	"tracebuf":                   {"dispatch/cq", "chip"},
	"dispatch":                   {"dispatch/cq", "dispatch/firmware", "dispatch/firmware/relay", "kmd", "chip"},
	"dispatch/firmware":          {"chip"},
	"dispatch/firmware/relay":    {"chip"},
	"kernels":                    {"chip", "internal/riscv"},
	"kmd":                        {"chip", "internal/seam", "internal/kabi"},
	"pipeline":                   {""},
	"observe":                    {""},
	"internal/devtest":           {"", "allocator", "kernels", "sim"},
	"mesh/topology":              {"chip", "kmd", "internal/seam", "internal/kabi"},
	"mesh":                       {"", "allocator", "chip", "kernels", "kmd", "mesh/topology"},
	"mesh/hosts":                 {"", "allocator", "mesh"},
	"internal/usage":             {},
	"ops/graph":                  {},
	"ops":                        {"", "ops/graph", "kernels", "mesh", "observe"},
	"ops/graph/view":             {"ops/graph"},
	"ops/graph/visualizer":       {"ops/graph"},
	"kmd/session":                {"kmd", "internal/seam", "internal/kabi"},
	"sim":                        {"chip", "internal/seam", "sim/driver", "sim/emu"},
	"sim/driver":                 {"chip", "internal/seam", "internal/kabi"},
	"sim/driver/*":               {"chip", "sim/driver", "internal/seam", "internal/kabi"},
	"sim/serve":                  {},
	"sim/serve/cards":            {"internal/seam", "internal/kabi", "sim/driver", "sim/serve"},
	"sim/serve/function":         {"sim/serve"},
	"sim/serve/vfiouser":         {"chip", "sim/driver"},
	"sim/emu":                    {"chip", "sim/driver", "sim/emu/tensix"},
	"sim/emu/tensix":             {"chip", "sim/emu/tensix/arith"},
	"sim/emu/tensix/arith":       {},
	"sim/ttsim":                  {"chip", "internal/seam", "sim/driver", "sim/serve", "sim/serve/function"},
	"sim/ttsim/libttsim":         {"sim/serve/function"},
	"sim/ttsim/ttsimtest":        {"sim/ttsim", "sim/ttsim/libttsim"},
	"internal/fwbuild":           {"chip", "kernels", "internal/riscv"},
	"internal/riscv":             {"chip"},
	"internal/kabi":              {},
	"internal/seam":              {},
	"examples/digits":            {"chip", "examples/digits/internal/*"},
	"examples/digits/deploy":     {"", "kernels", "examples/digits"},
	"examples/digits/train":      {"examples/digits", "examples/digits/internal/*"},
	"examples/digits/internal/*": {"examples/digits"},
	"hwtest":                     {"", "allocator", "chip", "dispatch", "dispatch/*", "kernels", "kmd", "mesh", "observe", "pipeline", "sim", "sim/emu/tensix/arith", "tracebuf", "hwtest/target"},
	"hwtest/vm":                  {},
	"hwtest/vm/guest":            {"", "chip", "hwtest", "hwtest/target", "kmd", "sim/driver", "sim/driver/*", "sim/emu"},
	"hwtest/target":              {"chip", "kmd", "kmd/session", "sim", "sim/serve/cards", "sim/ttsim", "mesh/topology", "internal/seam"},
	"bench":                      {"", "allocator", "bench/probe", "chip", "kernels", "mesh", "observe", "sim/emu/tensix/arith"},
	"bench/probe":                {},
	"cmd/reprise":                {"", "*"},
}

// external lists what packages outside of the module the library packages may import.
var external = []string{"golang.org/x/sys", "golang.org/x/sync", "github.com/dustin/go-humanize"}

// externalOf lists what some packages may import beside that.
var externalOf = map[string][]string{
	"sim/ttsim/libttsim":   {"github.com/ebitengine/purego"},
	"bench":                {"github.com/HdrHistogram/hdrhistogram-go", "github.com/jedib0t/go-pretty", "golang.org/x/perf", "gonum.org/v1/plot"},
	"bench/probe":          {"github.com/cilium/ebpf", "github.com/jedib0t/go-pretty"},
	"ops/graph/visualizer": {"modernc.org/sqlite"},
	"cmd/reprise":          {"charm.land/bubbletea/v2", "github.com/alecthomas/kong", "github.com/jedib0t/go-pretty", "golang.org/x/term"},
}

type pkg struct {
	ImportPath string
	Imports    []string
	Standard   bool
}

func list(t *testing.T) []pkg {
	t.Helper()
	cmd := exec.Command("go", "list", "-json=ImportPath,Imports,Standard", module+"/...")
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	var ps []pkg
	for d := json.NewDecoder(strings.NewReader(string(out))); d.More(); {
		var p pkg
		if err := d.Decode(&p); err != nil {
			t.Fatal(err)
		}
		ps = append(ps, p)
	}
	return ps
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

// An arrow of the architecture is an import, and there are no others.
func TestImportsFollowTheLayers(t *testing.T) {
	for _, p := range list(t) {
		name := strings.TrimPrefix(strings.TrimPrefix(p.ImportPath, module), "/")
		for _, imp := range p.Imports {
			if imp == module || strings.HasPrefix(imp, module+"/") {
				other := strings.TrimPrefix(strings.TrimPrefix(imp, module), "/")
				if !slices.ContainsFunc(lookup(allowed, name), func(a string) bool { return match(a, other) }) {
					t.Errorf("%q imports %q: the architecture has no such arrow", name, other)
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

// A rule for a package that was renamed would silently permit nothing or too much.
func TestEveryListedPackageExists(t *testing.T) {
	have := map[string]bool{}
	for _, p := range list(t) {
		have[strings.TrimPrefix(strings.TrimPrefix(p.ImportPath, module), "/")] = true
	}
	for name := range allowed {
		if !strings.HasSuffix(name, "*") && !have[name] {
			t.Errorf("the rules speak of %q, which doesn't exist", name)
		}
	}
}
