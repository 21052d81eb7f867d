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

// arrows has a line for each package of the module: the packages of the module that it may import,
// and what it is for, from programs at the top to the boundary to the chips at the bottom. reprise
// is the root package. A package without a line may import nothing of the module, as chip, which is
// data and pure functions. A name that ends in * stands for a tree.
const arrows = `
# Programs.
cmd/reprise                -> reprise *  # the command: everything
cmd/reprise/internal/cards -> chip cmd/reprise/internal/cli hwtest/target internal/promtext internal/usage kmd kmd/remote mesh mesh/topology  # commands about the cards of a machine
cmd/reprise/internal/cli   -> chip hwtest/target kmd reprise sim/ttsim  # what all commands share: where they print, how they name devices, what their errors look like
cmd/reprise/internal/code  -> chip cmd/reprise/internal/cli kernels kernels/metal  # commands that build kernels and read those of tt-metal
cmd/reprise/internal/debugger -> chip cmd/reprise/internal/cli dispatch dispatch/abi dispatch/postmortem internal/debug/core internal/debug/gdb internal/debug/live kernels kmd kmd/session tracebuf  # commands that look into a device that runs or has stopped
cmd/reprise/internal/demo  -> allocator chip cmd/reprise/internal/cli examples/digits examples/digits/convnet examples/digits/convnet/reference examples/digits/deploy examples/words examples/words/transformer examples/words/transformer/reference hwtest/target kmd kmd/session mesh mesh/hosts mesh/hosts/mpi observe ops ops/graph pipeline reprise sim stream  # commands that run networks: demo and generate
cmd/reprise/internal/graphs -> cmd/reprise/internal/cli ops/graph ops/graph/view ops/graph/visualizer  # commands about reports of what ran and what it allocated
cmd/reprise/internal/measures -> chip cmd/reprise/internal/cli cmd/reprise/internal/demo cmd/reprise/internal/sims hwtest hwtest/target internal/bench internal/bench/probe internal/bench/report internal/ttnn mesh sim sim/libttsim sim/ttsim  # commands that measure and test devices
cmd/reprise/internal/sims  -> chip cmd/reprise/internal/cli hwtest/target hwtest/vm hwtest/vm/inside internal/ttnn sim sim/driver sim/libttsim sim/serve sim/serve/cards sim/serve/vfiouser sim/ttsim sim/ttsim/libttsim  # commands that run other programs on emulated cards
cmd/reprise/internal/traces -> allocator chip cmd/reprise/internal/cli dispatch dispatch/abi dispatch/cq hwtest/target kernels/metal kernels/print kmd reprise tracebuf tracebuf/debug tracebuf/flow tracebuf/metaltrace  # commands about recorded traces
examples/digits            -> chip examples/internal/* internal/images  # a network for digits: its data and parameters
examples/digits/deploy     -> reprise kernels examples/digits allocator chip  # digits as programs on a device
examples/digits/convnet    -> ops examples/digits examples/internal/* allocator  # a network of operations for digits
examples/digits/convnet/reference -> examples/digits examples/digits/convnet examples/internal/* chip sim/emu/tensix/arith  # what the engines answer for it
examples/words             -> examples/internal/*  # English words, and tokens for them
examples/words/transformer -> reprise ops stream kernels allocator dispatch/cq chip examples/internal/* internal/images  # a language model of operations
examples/words/transformer/reference -> examples/words examples/words/transformer examples/internal/* chip sim/emu/tensix/arith  # what the engines answer for it
examples/deadlock          -> reprise chip kernels/print kernels kmd  # a program that hangs, for docs/debugging.md
examples/deadlock/run      -> examples/deadlock hwtest/target  # runs it
examples/internal/rng      -> nothing  # random sequences that examples share
examples/internal/bf16     -> ops ops/safetensors  # numbers in bfloat16, and files of weights
internal/ttnn              -> chip internal/debug/stack kernels/metal kmd sim/emu sim/libttsim  # the vendor's Python package, started on emulated machines
internal/bench             -> reprise ops allocator internal/bench/measure internal/bench/probe internal/bench/report chip kernels mesh observe stream sim/emu/tensix/arith dispatch dispatch/cq kmd internal/images  # costs of operations beside baselines
internal/bench/measure     -> internal/bench/report  # timers, baselines and rounds
internal/bench/probe       -> nothing  # what the kernel sees of a process
internal/bench/report      -> internal/bench/probe observe  # figures as tables, comparisons, plots and JSON
hwtest                     -> reprise allocator chip kernels kmd hwtest/internal/* hwtest/target  # what every device must do: lists the cases and runs them
hwtest/internal/rig        -> reprise allocator chip dispatch dispatch/abi dispatch/cq kernels kernels/metal kmd hwtest/target internal/images  # what cases work with; knows none
hwtest/internal/tensix     -> reprise allocator chip hwtest/internal/rig sim/emu/tensix/arith sim/emu/tensix/isa  # cases of the engines
hwtest/internal/*          -> reprise allocator chip dispatch* internal/debug/* kernels* kmd mesh observe ops pipeline stream sim tracebuf* hwtest/internal/* hwtest/target  # cases
hwtest/target              -> chip kernels kernels/metal kmd kmd/remote kmd/session sim sim/emu sim/serve/cards sim/ttsim sim/waivers mesh/topology internal/seam  # devices by name, for the command and the suite
hwtest/vm                  -> hwtest/vm/inside  # boots a virtual machine with cards
hwtest/vm/inside           -> nothing  # what the first program of that machine does
hwtest/vm/guest            -> hwtest/vm/inside reprise chip hwtest hwtest/target kmd sim/driver sim/driver/* sim/emu allocator  # the program in that machine

# Tensors and operations.
ops                        -> reprise ops/catalog ops/graph kernels/print kernels mesh observe allocator chip dispatch internal/images  # tensors, layouts, operations as programs
ops/catalog                -> kernels  # the table of operations: programs, kernels, formats, documentation
ops/graph                  -> nothing  # what ran and what it allocated; others report to it
ops/graph/view             -> ops/graph  # reports as a page for a browser
ops/graph/visualizer       -> ops/graph  # reports in the database of the vendor's visualizer
ops/safetensors            -> ops  # files of weights as host tensors

# Many chips, many hosts.
mesh                       -> reprise allocator chip kernels kmd mesh/topology dispatch  # chips as one
mesh/hosts                 -> reprise allocator mesh  # meshes on several hosts in step
mesh/hosts/hoststest       -> mesh/hosts mesh reprise allocator chip kernels  # tests for engines
mesh/hosts/mpi             -> mesh/hosts dispatch  # the engine of jobs that mpirun starts
mesh/topology              -> chip kmd kmd/remote  # which chips there are

# Patterns and observers on the API.
pipeline                   -> reprise allocator dispatch  # transfers and replays that overlap
stream                     -> reprise allocator  # messages between running kernels and the host
observe                    -> reprise kernels/print allocator tracebuf tracebuf/debug tracebuf/flow dispatch dispatch/cq chip internal/promtext  # timelines, logs, metrics

# The API: devices, buffers, programs, queues, traces.
reprise                    -> allocator tracebuf tracebuf/debug tracebuf/flow dispatch dispatch/postmortem dispatch/program dispatch/cq dispatch/abi kernels kernels/metal kmd internal/usage chip  # ties the layers below together

# Where things live, recorded streams, live streams, device code.
allocator                  -> chip  # banks, holes, layouts
tracebuf                   -> tracebuf/flow dispatch/cq dispatch/abi kernels/print chip  # the image of a trace, its commands, its file
tracebuf/flow              -> dispatch/cq  # the control flow of traces
tracebuf/metaltrace        -> tracebuf dispatch/cq dispatch/abi kernels kernels/metal chip  # traces that tt-metal recorded
tracebuf/debug             -> tracebuf tracebuf/flow dispatch/cq  # traces step by step, in pieces, checked and verified
dispatch                   -> dispatch/postmortem dispatch/program dispatch/memmap dispatch/cq dispatch/abi dispatch/firmware dispatch/firmware/relay kernels/print kernels/watch kmd internal/prefetch internal/nap chip  # command queues
dispatch/postmortem        -> dispatch/program dispatch/memmap dispatch/cq dispatch/abi tracebuf tracebuf/flow kernels/print kernels/watch internal/debug/core internal/debug/live internal/debug/stack chip  # what a device that stopped was doing
dispatch/program           -> dispatch/memmap dispatch/cq dispatch/abi kernels/print chip  # programs as commands, and what they leave on the workers
dispatch/memmap            -> dispatch/cq dispatch/abi chip  # where the parts of a command queue lie
dispatch/abi               -> chip  # what host and firmware agree on, by revision
dispatch/firmware          -> chip internal/images  # what runs on the chip, as images
dispatch/firmware/relay    -> chip internal/images  # what carries queues over Ethernet, as images
kernels                    -> internal/debug/stack chip internal/riscv internal/images  # compiles, loads and relocates kernels
kernels/metal              -> kernels dispatch/abi chip  # kernels and base firmware that tt-metal built

# Debugging of kernels.
internal/debug/gdb         -> internal/debug/core chip  # gdb's remote protocol for processors
internal/debug/live        -> internal/debug/core internal/debug/stack dispatch/abi dispatch/firmware chip  # call stacks of a device that runs or hangs
internal/debug/core        -> chip  # the debug interface of a processor
internal/debug/stack       -> nothing  # call stacks of ELF files, registers and memory

# The driver boundary.
kmd                        -> chip internal/seam internal/kabi  # ioctls, windows, pinned memory
kmd/remote                 -> chip kmd internal/seam internal/kabi  # the driver of chips without a PCI interface
kmd/session                -> kmd internal/seam internal/kabi  # records and plays what passes that boundary

# Models of a driver and of chips: below the seam.
sim                        -> chip internal/seam sim/driver sim/emu  # emulated cards as targets
sim/driver                 -> chip internal/seam internal/kabi  # a model of tt-kmd
sim/driver/*               -> chip sim/driver internal/seam internal/kabi  # the model beside a real driver
sim/emu                    -> chip sim/driver sim/emu/tensix sim/emu/internal/arc sim/emu/internal/check sim/emu/internal/rv32 sim/emu/internal/translate sim/emu/internal/word sim/emu/internal/workers internal/release internal/prefetch  # the emulator
sim/emu/internal/arc       -> chip sim/emu/internal/word sim/emu/tensix  # its ARC processor
sim/emu/internal/check     -> chip sim/emu/internal/rv32 sim/emu/internal/word  # races, and accesses without an order
sim/emu/internal/rv32      -> chip  # instructions of its RISC-V processors
sim/emu/internal/translate -> sim/emu/internal/rv32  # machine code of the host for them
sim/emu/tensix             -> chip sim/emu/tensix/arith sim/emu/tensix/isa sim/emu/tensix/internal/lanes sim/emu/tensix/internal/tables  # the engines of one tile
sim/emu/internal/word      -> nothing  # bytes in memory of words
sim/emu/internal/workers   -> nothing  # goroutines for jobs side by side
sim/emu/tensix/arith       -> nothing  # their arithmetic, the reference of kernel tests
sim/emu/tensix/isa         -> chip sim/emu/tensix/internal/tables  # words of their instructions, and places of their configuration
sim/emu/tensix/internal/lanes -> nothing  # inner loops of their vector unit
sim/emu/tensix/internal/tables -> nothing  # their instructions and configuration
sim/emu/tensix/internal/tablegen -> sim/emu/tensix/internal/tables  # the code that follows from it
sim/emu/tensix/internal/goldentest -> nothing  # what golden tests of the engines share
sim/serve                  -> nothing  # the protocol of cards in other processes
sim/serve/cards            -> internal/seam internal/kabi sim/driver sim/serve  # cards over that protocol
sim/serve/function         -> sim/serve  # PCI functions over that protocol
sim/serve/vfiouser         -> chip sim/driver sim/serve  # cards for virtual machines
sim/libttsim               -> chip kernels/metal sim sim/driver sim/emu sim/serve sim/serve/cards sim/waivers  # emulated machines by the vendor's C interface
sim/waivers                -> chip kernels/metal sim/emu  # what others' programs rely on, for the emulator's checks
sim/ttsim                  -> chip internal/seam sim/driver sim/serve sim/serve/function  # the vendor's simulator
sim/ttsim/libttsim         -> sim/serve/function  # calls the vendor's library, alone with purego
sim/ttsim/ttsimtest        -> sim/ttsim sim/ttsim/libttsim  # the vendor's simulator for tests

# Looking inside.
kernels/print              -> chip  # what kernels print
kernels/watch              -> kernels/print chip  # checks of kernels that failed

# Shared by the above.
internal/usage             -> nothing  # logs of memory use for other processes
internal/promtext          -> nothing  # Prometheus's text format
internal/promtext/promtest -> nothing  # reads that format strictly, for tests
internal/kabi              -> nothing  # the structs of the driver
internal/seam              -> nothing  # open, ioctl, mmap, close
internal/release           -> nothing  # a store that releases what a goroutine has written
internal/prefetch          -> nothing  # memory that is written soon
internal/nap               -> nothing  # short sleeps
internal/nap/naptest       -> nothing  # counts its timers, for tests
internal/riscv             -> chip  # the cross compiler
internal/images            -> chip  # archives of kernel images
internal/fwbuild           -> chip dispatch/abi kernels ops/catalog internal/debug/stack internal/riscv internal/images  # builds the images that are committed
internal/elftest           -> chip  # ELF files for tests
internal/devtest           -> reprise allocator dispatch kernels sim chip kmd  # devices for tests
`

// parseArrows returns the packages that each package may import. The root package's name is "".
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

// external lists the packages outside of the module that every package may import.
var external = []string{"golang.org/x/sys", "golang.org/x/sync", "github.com/dustin/go-humanize"}

// externalOf lists those that some packages may import as well.
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

// goList runs go list with variables and returns what it prints.
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

// Every import of one package by another is one of the arrows.
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

// A row for a package that was renamed would silently permit nothing or too much.
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

// A program that embeds the library downloads few modules.
func TestModulesOfLibrary(t *testing.T) {
	out := goList(t, []string{"GOOS=linux", "GOARCH=amd64"}, "-deps", "-f", "{{with .Module}}{{.Path}}{{end}}", module)
	got := slices.Compact(slices.Sorted(strings.FieldsSeq(out)))
	got = slices.DeleteFunc(got, func(m string) bool { return m == module })
	if want := slices.Sorted(slices.Values(external)); !slices.Equal(got, want) {
		t.Errorf("the library needs the modules %v, want %v", got, want)
	}
}
