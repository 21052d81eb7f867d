package metaltrace_test

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/dispatch"
	"github.com/reprise-tt/reprise/dispatch/cq"
	"github.com/reprise-tt/reprise/internal/devtest"
	"github.com/reprise-tt/reprise/internal/expect"
	"github.com/reprise-tt/reprise/kernels/metal"
	"github.com/reprise-tt/reprise/kmd"
	"github.com/reprise-tt/reprise/sim/ttsim/ttsimtest"
	"github.com/reprise-tt/reprise/tracebuf"
	"github.com/reprise-tt/reprise/tracebuf/metaltrace"
)

func twoPrograms(t *testing.T, arch chip.Arch) (*metalStream, *metaltrace.Trace) {
	m := newMetalStream(t, arch)
	m.program()
	m.program()
	trace, err := m.read(m.bytes())
	if err == nil {
		err = trace.FindLaunches(m.layout)
	}
	devtest.Must(t, err)
	return m, trace
}

func TestArgumentsOfKernels(t *testing.T) {
	for _, arch := range arches {
		_, trace := twoPrograms(t, arch)
		for i := range trace.Steps {
			k := trace.Steps[i].Launches[0].Kernels[0]
			noDiff(t, k.Args, []uint32{0x01010101, 0x01010101, 0x01010101}, "%v, program %d: arguments", arch, i)
			noDiff(t, k.Common, []uint32{0x02020202, 0x02020202, 0, 0}, "%v, program %d: common arguments", arch, i)
		}
	}
}

func TestArgumentsBecomeParameters(t *testing.T) {
	for _, arch := range arches {
		m, trace := twoPrograms(t, arch)
		one, err := m.ch.Virtual(chip.Core{X: 1})
		devtest.Must(t, err)
		f, err := trace.File(metaltrace.FileOptions{
			Name: "named", Target: m.target(),
			Buffers: []tracebuf.Buffer{{Name: "in", Kind: tracebuf.KindDRAM, Addr: 0x01010101 &^ 0x3F, Size: 2048, PageSize: 2048, Stride: 2048}},
			Arguments: []metaltrace.Argument{
				{Name: "first", Step: 0, Processor: chip.BRISC, Index: 0},
				{Name: "both", Step: 0, Processor: chip.BRISC, Index: 1},
				{Name: "both", Step: 1, Processor: chip.BRISC, Index: 1},
				{Name: "core", Step: 1, Processor: chip.BRISC, Index: 2, Core: one},
				{Name: "common", Step: 1, Processor: chip.BRISC, Index: 1, Common: true},
			},
		})
		devtest.Must(t, err)
		expect.Value(metaltrace.Write(f))(t)
		want := []tracebuf.Param{
			{Name: "first", Kind: tracebuf.Arg, Value: 0x01010101}, {Name: "both", Kind: tracebuf.Arg, Value: 0x01010101},
			{Name: "core", Kind: tracebuf.Arg, Value: 0x01010101}, {Name: "common", Kind: tracebuf.Arg, Value: 0x02020202},
		}
		if diff := cmp.Diff(want, f.Image.Params, cmpopts.IgnoreFields(tracebuf.Param{}, "At")); diff != "" {
			t.Errorf("%v: parameters (-want +got):\n%s", arch, diff)
		}
		for i, n := range []int{4, 8, 1, 1} { // common ones are in the command once
			expect.Equal(t, len(f.Image.Params[i].At), n, "%v: %q", arch, want[i].Name)
		}
		second := f.Image.Steps[1].Offset
		for _, at := range f.Image.Params[0].At {
			if at >= second {
				t.Errorf("%v: a word of the first program at +%#x, the second begins at +%#x", arch, at, second)
			}
		}
	}
}

func TestArgumentsRefused(t *testing.T) {
	m, trace := twoPrograms(t, chip.Blackhole)
	for _, c := range []struct {
		why  string
		args []metaltrace.Argument
	}{
		{"the trace has 2 programs", []metaltrace.Argument{{Step: 2}}},
		{"the trace has 2 programs", []metaltrace.Argument{{Step: -1}}},
		{"counted from 0", []metaltrace.Argument{{Index: -1}}},
		{"no such kernel", []metaltrace.Argument{{Processor: chip.NCRISC}}},
		{"no such kernel", []metaltrace.Argument{{Kernel: "reader"}}},
		{"no such kernel", []metaltrace.Argument{{Core: chip.XY{X: 60, Y: 60}}}},
		{"writes no such argument", []metaltrace.Argument{{Index: 3}}},               // past the end of what is written
		{"writes no such argument", []metaltrace.Argument{{Index: 4}}},               // the first common one
		{"writes no such argument", []metaltrace.Argument{{Index: 4, Common: true}}}, // a semaphore
		{"writes no such argument", []metaltrace.Argument{{Index: 1 << 30}}},
		{"there is no buffer \"in\"", []metaltrace.Argument{{Buffer: "in"}}},
		{"buffer \"out\" is at 0x40", []metaltrace.Argument{{Buffer: "out"}}},
		{"use another name", []metaltrace.Argument{{}, {Step: 1, Common: true}}},
	} {
		for i := range c.args {
			c.args[i].Name = "n"
		}
		_, err := trace.File(metaltrace.FileOptions{Name: "refused", Target: m.target(), Arguments: c.args,
			Buffers: []tracebuf.Buffer{{Name: "out", Kind: tracebuf.KindDRAM, Addr: 0x40, Size: 2048, PageSize: 2048, Stride: 2048}}})
		var of *metaltrace.ArgumentError
		if !errors.Is(err, metaltrace.ErrArgument) || !errors.As(err, &of) || !strings.Contains(err.Error(), c.why) ||
			!strings.Contains(err.Error(), `parameter "n"`) {
			t.Errorf("%+v: %v, want %q", c.args, err, c.why)
		}
	}
}

var (
	fails  = expect.Fails
	noDiff = expect.NoDiff
)

func second[V any](_ V, err error) error { return err }

// metalTraces has a folder for each trace that tt-metal's host code assembled: commands.bin,
// kernels-ADDRESS.bin for each kernel buffer in DRAM with its pages in order, and trace.json
// (assembled).
var metalTraces = flag.String("metal-traces", "",
	"`folder` with traces that tt-metal's host code assembled, of kernels in the folder of -metal")

type assembled struct {
	Arch     string   // blackhole or wormhole
	Firmware string   // revision of the workers' base firmware, as package abi names it
	Steps    []string // names of the programs
	Buffers  []struct {
		Name, Kind string // Kind is dram or l1
		Addr       uint64
		Size       int
		PageSize   int `json:"page_size"`
	}
	Copies [][2]string // buffers whose contents are equal after a replay
	L1     struct {
		Buffer string // with a page for each worker
		Expect []struct {
			Core   [2]int // logical
			Offset int
			Words  []uint32
		}
	}
	commands []byte
	kernels  map[uint64][]byte // kernel buffers by their address
	banks    int
}

func openAssembled(t *testing.T, dir string) *assembled {
	t.Helper()
	a := &assembled{kernels: map[uint64][]byte{}}
	b, err := os.ReadFile(filepath.Join(dir, "trace.json"))
	devtest.Must(t, err)
	devtest.Must(t, json.Unmarshal(b, a))
	a.commands, err = os.ReadFile(filepath.Join(dir, "commands.bin"))
	devtest.Must(t, err)
	files := expect.Value(filepath.Glob(filepath.Join(dir, "kernels-*.bin")))(t)
	for _, f := range files {
		var addr uint64
		_, err := fmt.Sscanf(filepath.Base(f), "kernels-%d.bin", &addr)
		devtest.Must(t, err)
		a.kernels[addr], err = os.ReadFile(f)
		devtest.Must(t, err)
	}
	return a
}

func (a *assembled) arch() chip.Arch {
	if a.Arch == "wormhole" {
		return chip.Wormhole
	}
	return chip.Blackhole
}

func (a *assembled) ReadDRAM(bank int, addr uint64, b []byte) error {
	for base, kernels := range a.kernels {
		page := int(addr-base)/2048*a.banks + bank
		at := page*2048 + int(addr-base)%2048
		if addr >= base && at < len(kernels) && int(addr-base)%2048+len(b) <= 2048 {
			clear(b[copy(b, kernels[at:]):])
			return nil
		}
	}
	return fmt.Errorf("no kernels at %#x of bank %d", addr, bank)
}

func TestImportAssembledByMetal(t *testing.T) {
	if *metalTraces == "" || *metalDir == "" {
		t.Skip("no -metal-traces DIR and -metal DIR: traces that tt-metal's host code assembled, and the cache with their kernels")
	}
	cache, err := metal.OpenCache(t.Context(), *metalDir)
	devtest.Must(t, err)
	library := expect.Value(metaltrace.NewLibrary(t.Context(), cache))(t)
	dirs := expect.Value(filepath.Glob(filepath.Join(*metalTraces, "*", "trace.json")))(t)
	for _, path := range dirs {
		dir := filepath.Dir(path)
		t.Run(filepath.Base(dir), func(t *testing.T) {
			a := openAssembled(t, dir)
			i := slices.IndexFunc(metalChips, func(c metalChip) bool { return c.arch == a.arch() })
			a.banks = metalChips[i].dram
			ch, err := chip.New(a.arch(), metalChips[i].Harvesting)
			devtest.Must(t, err)
			trace, f := a.read(t, cache, library)
			var names []string
			for i := range trace.Steps {
				names = append(names, trace.Steps[i].Name())
			}
			noDiff(t, names, a.Steps, "programs")
			t.Run("emulator", func(t *testing.T) { a.replay(t, metalCard(f), f, a.file(t, trace, f, ch)) })
			t.Run("ttsim", func(t *testing.T) {
				variable, h := ttsimtest.Blackhole, chip.Harvesting{Ethernet: 0x3000}
				if a.arch() == chip.Wormhole {
					variable, h = ttsimtest.Wormhole, chip.Harvesting{}
				}
				card := ttsimtest.Card(t, variable)
				ch, err := chip.New(a.arch(), h)
				devtest.Must(t, err)
				a.replay(t, card, f, a.file(t, trace, f, ch))
			})
		})
	}
}

func (a *assembled) read(t *testing.T, cache *metal.Cache, library *metaltrace.Library) (*metaltrace.Trace, *metal.Firmware) {
	t.Helper()
	trace, err := metaltrace.Read(a, a.banks, cq.Layout(a.arch()), a.commands, "")
	var several *cq.RevisionError
	if errors.As(err, &several) && len(several.Accepted) > 1 {
		t.Log(err)
		trace, err = metaltrace.Read(a, a.banks, cq.Layout(a.arch()), a.commands, several.Accepted[0])
	}
	devtest.Must(t, err)
	f, err := trace.FindFirmware(library)
	if errors.Is(err, metaltrace.ErrSeveral) {
		t.Log(err)
		i := slices.IndexFunc(cache.Firmware, func(f *metal.Firmware) bool {
			return f.Layout.Arch == a.arch() && f.Layout.Revision.Name == a.Firmware && trace.Identify(library, f) == nil
		})
		if i < 0 {
			t.Fatalf("no firmware of %s has the kernels", a.Firmware)
		}
		return trace, cache.Firmware[i]
	}
	devtest.Must(t, err)
	expect.Equal(t, f.Layout.Revision.Name, a.Firmware, "the firmware")
	return trace, f
}

func (a *assembled) file(t *testing.T, trace *metaltrace.Trace, f *metal.Firmware, ch *chip.Chip) []byte {
	t.Helper()
	o := metaltrace.FileOptions{Name: "assembled", Target: tracebuf.Target{
		Arch: a.arch(), Harvesting: ch.Harvesting(), Banks: a.banks, Revision: cq.Pinned, Layout: f.Layout.Revision.Name}}
	var err error
	o.Target.Workers, o.Target.Dispatch, err = dispatch.DefaultQueue(ch)
	devtest.Must(t, err)
	o.Target.Firmware, err = dispatch.HashFirmware(a.arch(), f.Segments())
	devtest.Must(t, err)
	for _, b := range a.Buffers {
		kind := uint8(tracebuf.KindDRAM)
		if b.Kind == "l1" {
			kind = tracebuf.KindL1
		}
		o.Buffers = append(o.Buffers, tracebuf.Buffer{Name: b.Name, Kind: kind, Addr: b.Addr, Size: b.Size, PageSize: b.PageSize,
			Stride: b.PageSize})
	}
	made, err := trace.File(o)
	devtest.Must(t, err)
	file := expect.Value(metaltrace.Write(made))(t)
	return file
}

func (a *assembled) replay(t *testing.T, card kmd.Target, f *metal.Firmware, file []byte) {
	b := devtest.Open(t, card, reprise.WithFirmware(f.Dir))
	loaded, err := b.Dev.LoadTrace(b.Ctx, bytes.NewReader(file))
	b.Must(err)
	buffers := map[string]*reprise.Buffer{}
	for _, buf := range loaded.Buffers() {
		buffers[buf.Name()] = buf
	}
	r := rand.New(rand.NewPCG(3, 4))
	for range 3 {
		data := make([]byte, buffers["in"].Size())
		for i := 0; i < len(data); i += 2 {
			copy(data[i:], [][]byte{{0x80, 0xBF}, {0, 0}, {0x80, 0x3F}, {0x40, 0x40}}[r.IntN(4)]) // numbers in bfloat16
		}
		b.Must(b.Queue.Write(b.Ctx, buffers["in"], 0, data))
		for _, name := range []string{"mid", "out", a.L1.Buffer} {
			b.Must(b.Queue.Write(b.Ctx, buffers[name], 0, bytes.Repeat([]byte{0xEE}, buffers[name].Size())))
		}
		b.Must(loaded.Replay(b.Ctx))
		read := func(name string) []byte {
			got := make([]byte, buffers[name].Size())
			b.Must(b.Queue.Read(b.Ctx, buffers[name], 0, got))
			return got
		}
		for _, c := range a.Copies {
			if !bytes.Equal(read(c[0]), read(c[1])) {
				t.Errorf("%s differs from %s", c[1], c[0])
			}
		}
		l1 := read(a.L1.Buffer)
		page := buffers[a.L1.Buffer].PageSize()
		width := b.Dev.Grid().End.X + 1
		for _, e := range a.L1.Expect {
			at := (e.Core[1]*width+e.Core[0])*page + e.Offset
			for i, want := range e.Words {
				expect.Equal(t, binary.LittleEndian.Uint32(l1[at+4*i:]), want, "core %v at +%#x", e.Core, e.Offset+4*i)
			}
		}
	}
	if t.Failed() {
		t.Log(strings.Join(a.Steps, "\n"))
	}
}
