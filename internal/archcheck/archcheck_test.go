// Package archcheck holds the module's packages to the layers of docs/architecture.md.
package archcheck

import (
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
const arrows = `
# Programs.
cmd/reprise -> reprise *
cmd/reprise/internal/cards -> chip cmd/reprise/internal/cli hwtest/target internal/promtext internal/usage kmd kmd/remote mesh mesh/topology
cmd/reprise/internal/cli -> chip hwtest/target kmd reprise sim/ttsim
cmd/reprise/internal/code -> chip cmd/reprise/internal/cli kernels kernels/metal
cmd/reprise/internal/debugger -> chip cmd/reprise/internal/cli dispatch dispatch/abi dispatch/postmortem internal/debug/core internal/debug/gdb internal/debug/live kernels kmd kmd/session tracebuf
cmd/reprise/internal/demo -> allocator chip cmd/reprise/internal/cli examples/digits examples/digits/convnet examples/digits/convnet/reference examples/digits/deploy examples/words examples/words/transformer examples/words/transformer/reference hwtest/target kmd kmd/session mesh mesh/hosts mesh/hosts/mpi observe ops ops/graph pipeline reprise sim stream
cmd/reprise/internal/graphs -> cmd/reprise/internal/cli ops/graph ops/graph/view ops/graph/visualizer
cmd/reprise/internal/measures -> chip cmd/reprise/internal/cli cmd/reprise/internal/demo cmd/reprise/internal/sims hwtest hwtest/target internal/bench internal/bench/probe internal/bench/report internal/ttnn mesh sim sim/libttsim sim/ttsim
cmd/reprise/internal/sims -> chip cmd/reprise/internal/cli hwtest/target hwtest/vm hwtest/vm/inside internal/ttnn sim sim/driver sim/libttsim sim/serve sim/serve/cards sim/serve/vfiouser sim/ttsim sim/ttsim/libttsim
cmd/reprise/internal/traces -> allocator chip cmd/reprise/internal/cli dispatch dispatch/abi dispatch/cq hwtest/target kernels/metal kernels/print kmd reprise tracebuf tracebuf/debug tracebuf/flow tracebuf/metaltrace
examples/digits -> chip examples/internal/* internal/images
examples/digits/deploy -> reprise kernels examples/digits allocator chip
examples/digits/convnet -> ops examples/digits examples/internal/* allocator
examples/digits/convnet/reference -> examples/digits examples/digits/convnet examples/internal/* chip sim/emu/tensix/arith
examples/words -> examples/internal/*
examples/words/transformer -> reprise ops stream kernels allocator dispatch/cq chip examples/internal/* internal/images
examples/words/transformer/reference -> examples/words examples/words/transformer examples/internal/* chip sim/emu/tensix/arith
examples/deadlock -> reprise chip kernels/print kernels kmd
examples/deadlock/run -> examples/deadlock hwtest/target
examples/internal/rng -> nothing
examples/internal/bf16 -> ops ops/safetensors
internal/ttnn -> chip internal/debug/stack kernels/metal kmd sim/emu sim/libttsim
internal/bench -> reprise ops allocator internal/bench/measure internal/bench/probe internal/bench/report chip kernels mesh observe stream sim/emu/tensix/arith dispatch dispatch/cq kmd internal/images
internal/bench/measure -> internal/bench/report
internal/bench/probe -> nothing
internal/bench/report -> internal/bench/probe observe
hwtest -> reprise allocator chip kernels kmd hwtest/internal/* hwtest/target
hwtest/internal/rig -> reprise allocator chip dispatch dispatch/abi dispatch/cq kernels kernels/metal kmd hwtest/target internal/images
hwtest/internal/tensix -> reprise allocator chip hwtest/internal/rig sim/emu/tensix/arith sim/emu/tensix/isa
hwtest/internal/* -> reprise allocator chip dispatch* internal/debug/* kernels* kmd mesh observe ops pipeline stream sim tracebuf* hwtest/internal/* hwtest/target  # cases
hwtest/target -> chip kernels kernels/metal kmd kmd/remote kmd/session sim sim/emu sim/serve/cards sim/ttsim sim/waivers mesh/topology internal/seam
hwtest/vm -> hwtest/vm/inside
hwtest/vm/inside -> nothing
hwtest/vm/guest -> hwtest/vm/inside reprise chip hwtest hwtest/target kmd sim/driver sim/driver/* sim/emu allocator

# Tensors and operations.
ops -> reprise ops/catalog ops/graph kernels/print kernels mesh observe allocator chip dispatch internal/images
ops/catalog -> kernels
ops/graph -> nothing
ops/graph/view -> ops/graph
ops/graph/visualizer -> ops/graph
ops/safetensors -> ops

# Many chips, many hosts.
mesh -> reprise allocator chip kernels kmd mesh/topology dispatch
mesh/hosts -> reprise allocator mesh
mesh/hosts/hoststest -> mesh/hosts mesh reprise allocator chip kernels
mesh/hosts/mpi -> mesh/hosts dispatch
mesh/topology -> chip kmd kmd/remote

# Patterns and observers on the API.
pipeline -> reprise allocator dispatch
stream -> reprise allocator
observe -> reprise kernels/print allocator tracebuf tracebuf/debug tracebuf/flow dispatch dispatch/cq chip internal/promtext

# The API: devices, buffers, programs, queues, traces.
reprise -> allocator tracebuf tracebuf/debug tracebuf/flow dispatch dispatch/postmortem dispatch/program dispatch/cq dispatch/abi kernels kernels/metal kmd internal/usage chip

# Where things live, recorded streams, live streams, device code.
allocator -> chip
tracebuf -> tracebuf/flow dispatch/cq dispatch/abi kernels/print chip
tracebuf/flow -> dispatch/cq
tracebuf/metaltrace -> tracebuf dispatch/cq dispatch/abi kernels kernels/metal chip
tracebuf/debug -> tracebuf tracebuf/flow dispatch/cq
dispatch -> dispatch/postmortem dispatch/program dispatch/memmap dispatch/cq dispatch/abi dispatch/firmware dispatch/firmware/relay kernels/print kernels/watch kmd internal/prefetch internal/nap chip
dispatch/postmortem -> dispatch/program dispatch/memmap dispatch/cq dispatch/abi tracebuf tracebuf/flow kernels/print kernels/watch internal/debug/core internal/debug/live internal/debug/stack chip
dispatch/program -> dispatch/memmap dispatch/cq dispatch/abi kernels/print chip
dispatch/memmap -> dispatch/cq dispatch/abi chip
dispatch/abi -> chip
dispatch/firmware -> chip internal/images
dispatch/firmware/relay -> chip internal/images
kernels -> internal/debug/stack chip internal/riscv internal/images
kernels/metal -> kernels dispatch/abi chip

# Debugging of kernels.
internal/debug/gdb -> internal/debug/core chip
internal/debug/live -> internal/debug/core internal/debug/stack dispatch/abi dispatch/firmware chip
internal/debug/core -> chip
internal/debug/stack -> nothing

# The driver boundary.
kmd -> chip internal/seam internal/kabi
kmd/remote -> chip kmd internal/seam internal/kabi
kmd/session -> kmd internal/seam internal/kabi

# Models of a driver and of chips: below the seam.
sim -> chip internal/seam sim/driver sim/emu
sim/driver -> chip internal/seam internal/kabi
sim/driver/* -> chip sim/driver internal/seam internal/kabi  # the model beside a real driver
sim/emu -> chip sim/driver sim/emu/tensix sim/emu/internal/arc sim/emu/internal/check sim/emu/internal/rv32 sim/emu/internal/translate sim/emu/internal/word sim/emu/internal/workers internal/release internal/prefetch
sim/emu/internal/arc -> chip sim/emu/internal/word sim/emu/tensix
sim/emu/internal/check -> chip sim/emu/internal/rv32 sim/emu/internal/word
sim/emu/internal/rv32 -> chip
sim/emu/internal/translate -> sim/emu/internal/rv32
sim/emu/tensix -> chip sim/emu/tensix/arith sim/emu/tensix/isa sim/emu/tensix/internal/lanes sim/emu/tensix/internal/tables
sim/emu/internal/word -> nothing
sim/emu/internal/workers -> nothing
sim/emu/tensix/arith -> nothing
sim/emu/tensix/isa -> chip sim/emu/tensix/internal/tables
sim/emu/tensix/internal/lanes -> nothing
sim/emu/tensix/internal/goldentest -> nothing
sim/emu/tensix/internal/tables -> nothing
sim/emu/tensix/internal/tablegen -> sim/emu/tensix/internal/tables
sim/serve -> nothing
sim/serve/cards -> internal/seam internal/kabi sim/driver sim/serve
sim/serve/function -> sim/serve
sim/serve/vfiouser -> chip sim/driver sim/serve
sim/libttsim -> chip kernels/metal sim sim/driver sim/emu sim/serve sim/serve/cards sim/waivers
sim/waivers -> chip kernels/metal sim/emu
sim/ttsim -> chip internal/seam sim/driver sim/serve sim/serve/function
sim/ttsim/libttsim -> sim/serve/function
sim/ttsim/ttsimtest -> sim/ttsim sim/ttsim/libttsim

# Looking inside.
kernels/print -> chip
kernels/watch -> kernels/print chip

# Shared by the above.
internal/usage -> nothing
internal/promtext -> nothing
internal/promtext/promtest -> nothing
internal/kabi -> nothing
internal/seam -> nothing
internal/release -> nothing
internal/prefetch -> nothing
internal/nap -> nothing
internal/nap/naptest -> nothing
internal/riscv -> chip
internal/images -> chip
internal/fwbuild -> chip dispatch/abi kernels ops/catalog internal/debug/stack internal/riscv internal/images
internal/elftest -> chip
internal/devtest -> reprise allocator dispatch kernels sim chip kmd
`

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
	"internal/bench/measure": {"github.com/HdrHistogram/hdrhistogram-go"},
	"internal/bench/report": {"github.com/HdrHistogram/hdrhistogram-go", "github.com/jedib0t/go-pretty", "golang.org/x/perf",
		"gonum.org/v1/plot"},
	"internal/bench/probe":       {"github.com/cilium/ebpf", "github.com/jedib0t/go-pretty"},
	"ops/graph/visualizer":       {"github.com/ncruces/go-sqlite3/driver"},
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
