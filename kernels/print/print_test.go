package print_test

import (
	"bytes"
	_ "embed"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/internal/devtest"
	"github.com/reprise-tt/reprise/internal/expect"
	"github.com/reprise-tt/reprise/kernels"
	"github.com/reprise-tt/reprise/kernels/print"
	"github.com/reprise-tt/reprise/sim"
	"github.com/reprise-tt/reprise/sim/ttsim/ttsimtest"
)

func TestMain(m *testing.M) { ttsimtest.Main(m) }

func onAll(t *testing.T, run func(*devtest.Bench)) {
	devtest.OnEmulators(t, run)
	for _, library := range []string{ttsimtest.Wormhole, ttsimtest.Blackhole} {
		t.Run(library, func(t *testing.T) { run(devtest.Open(t, ttsimtest.Card(t, library))) })
	}
}

func TestToLog(t *testing.T) {
	var out bytes.Buffer
	h := print.ToLog(slog.NewTextHandler(&out, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return a
	}}))
	h(print.Record{
		Device: "a", Core: chip.Core{X: 1, Y: 2}, Processor: chip.TRISC1, Program: "p", Kernel: "k", Time: 77, Level: slog.LevelWarn,
		Text: "two \"words\"\x1b", File: "k.c", Line: 5,
	})
	h(print.Record{Level: slog.LevelDebug, Text: "too low"})
	h(print.Record{Text: "lost 3 lines", Lost: 3})
	want := []string{
		`level=WARN msg="two \"words\"\x1b" core=(1,2) processor=TRISC1 cycles=77 device=a program=p kernel=k file=k.c line=5`,
		`level=INFO msg="lost 3 lines" core=(0,0) processor=BRISC cycles=0 lost=3`,
	}
	expect.NoDiff(t, strings.TrimSpace(out.String()), strings.Join(want, "\n"), "printed")
}

//go:embed testdata/cppKernel.cc
var cppKernel string

func TestDPRINT(t *testing.T) {
	onAll(t, func(b *devtest.Bench) {
		im := compile(b, "kernel.cpp", cppKernel)
		l, got := listen(b, print.Options{})
		for _, p := range []chip.Processor{chip.BRISC, chip.NCRISC} {
			*got = nil
			run(b, program(im, p, chip.Single(0, 0), 3))
			b.Must(l.Drain())
			printed(b, p, *got, "x 3 -3 ff 1.5    42", "abdabd2", "3.14", "if",
				"a line of 1 several statements, with a literal that is longer than others are so that it takes more of the section17-8",
				"told 3", "told -5", "data 0", "no newline")
		}
	})
}

//go:embed testdata/bracesKernel.cc
var bracesKernel string

func TestDPRINTFormat(t *testing.T) {
	onAll(t, func(b *devtest.Bench) {
		im := compile(b, "kernel.cpp", bracesKernel)
		l, got := listen(b, print.Options{})
		run(b, program(im, chip.BRISC, chip.Single(0, 0), 3))
		b.Must(l.Drain())
		printed(b, "formats", *got, "x 3 -3|   42|42   | 42  |***42|", "0xff 0000BEEF 101 +7 1.500 2.000000e+00",
			"some before 1, some again, {}", "some  |  some|2 1099511627776", "no value, and a stream", "{1} {} }   2, 0323",
			"if 3", "data 0")
	})
}

func TestDPRINTFormatRefused(t *testing.T) {
	for _, call := range []string{`"{} and {}\n", 1`, `"{}\n", 2, 3`, `"{{}}\n", 1`, `"{1}\n", 1`, `"{0}\n", 1, 2`, `"x\n", 1`,
		`"{:4}\n"`} {
		_, err := kernels.Compile(t.Context(), kernels.Source{
			Path: "k.cpp", Arch: chip.Blackhole, Prints: true, Text: "#include \"api/debug/device_print.h\"\nvoid kernel_main() { DEVICE_PRINT(" +
				call + "); }\n",
		})
		if errors.Is(err, kernels.ErrNoCompiler) {
			t.Skip(err)
		}
		if err == nil || !strings.Contains(err.Error(), "placeholders than there are values") {
			t.Errorf("DEVICE_PRINT(%s): %v", call, err)
		}
	}
}

//go:embed testdata/tileKernel.cc
var tileKernel string

//go:embed testdata/fillKernel.cc
var fillKernel string

// Emulators take turns with some formats; other backends have all.
func formats(b *devtest.Bench) []kernels.Format {
	switch b.Dev.Name() {
	case sim.Wormhole().String():
		return []kernels.Format{kernels.FP32}
	case sim.Blackhole().String():
		return []kernels.Format{kernels.BFP8}
	}
	return []kernels.Format{kernels.BF16, kernels.FP32, kernels.BFP8}
}

func TestTiles(t *testing.T) {
	onAll(t, func(b *devtest.Bench) {
		for _, out := range formats(b) {
			wide := out == kernels.FP32
			fill := compile(b, "fill.cpp", fillKernel) // first: it skips the test where there is no compiler
			c, err := kernels.CompileCompute(b.Ctx, kernels.ComputeSource{
				Source:  kernels.Source{Path: "tiles.cpp", Text: tileKernel, Arch: b.Dev.Arch(), Prints: true},
				Formats: map[int]kernels.Format{16: out}, WideDst: wide,
			})
			b.Must(err)
			cores := []chip.Range{chip.Single(0, 1)}
			p := &reprise.Program{Name: "tiles", CircularBuffers: []reprise.CircularBuffer{
				{Index: 0, Cores: cores, PageSize: 2048, Pages: 2}, {Index: 16, Cores: cores, PageSize: out.TileBytes(), Pages: 2},
			}}
			p.Kernels = append(p.Kernels, reprise.Kernel{Name: "fill", Image: fill, Cores: cores})
			for i, im := range c.Images() {
				p.Kernels = append(p.Kernels, reprise.Kernel{Name: []string{"unpack", "math", "pack"}[i], Image: im,
					Processor: chip.TRISC0 + chip.Processor(i), Cores: cores})
			}
			l, got := listen(b, print.Options{})
			run(b, p)
			b.Must(l.Close())
			by := map[string][]string{}
			time := uint64(0)
			for _, r := range *got {
				by[r.Kernel] = append(by[r.Kernel], r.Text)
				if r.Time < time {
					b.Errorf("%+v after %d", r, time)
				}
				time = r.Time
			}
			value := func(h, w int) string {
				if h == 0 && w&3 == 0 {
					return "0"
				}
				return fmt.Sprintf("%.6g", 2+float64(4*h+w&3|(4*h))/64)
			}
			row := func(h int, ws ...int) string {
				var vs []string
				for _, w := range ws {
					vs = append(vs, value(h, w))
				}
				return strings.Join(vs, " ")
			}
			all := make([]int, 32)
			for w := range all {
				all[w] = w
			}
			var dst []string
			for h := range 32 {
				dst = append(dst, row(h, all...))
			}
			want := map[string][]string{
				"fill":   {row(1, 0, 16)},
				"unpack": {"in " + row(0, 0, 1, 2, 3), row(1, 0, 1, 2, 3), row(2, 0, 1, 2, 3), row(3, 0, 1, 2, 3)},
				"math":   append(dst, "<tile slice: the math thread has no circular buffers>"),
				"pack":   {row(0, 0, 16), row(16, 0, 16)},
			}
			expect.NoDiff(b, by, want, "%v", out)
		}
	})
}

type l1 struct {
	mu    sync.Mutex
	mem   [print.AreaSize]byte
	visit func()
}

func (*l1) Name() string              { return "played" }
func (*l1) PrintArea() (uint32, bool) { return 0, true }
func (*l1) PrintEpoch() uint64        { return 0 }

func (d *l1) Printing(since uint64) ([]*print.Program, uint64) {
	if since == 1 {
		return nil, 1
	}
	return []*print.Program{{Name: "both", Cores: []chip.Range{chip.Single(0, 0)},
		Kernels: []print.Kernel{{Processor: chip.BRISC}, {Processor: chip.NCRISC}}}}, 1
}

func (d *l1) OnPrinting(f func()) func() {
	d.visit = f
	return func() {}
}

func (d *l1) ReadL1(_ chip.Core, addr uint32, p []byte) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	copy(p, d.mem[addr:])
	return nil
}

func (d *l1) WriteL1(_ chip.Core, addr uint32, p []byte) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	copy(d.mem[addr:], p)
	return nil
}

func (d *l1) word(p chip.Processor, i int) []byte { return d.mem[32*int(p)+4*i:] }

const putWord = 4

func (d *l1) begins(p chip.Processor) {
	d.mu.Lock()
	defer d.mu.Unlock()
	binary.LittleEndian.PutUint32(d.word(p, putWord), binary.LittleEndian.Uint32(d.word(p, putWord))|1)
}

func (d *l1) hands(p chip.Processor, time uint64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	put := binary.LittleEndian.Uint32(d.word(p, putWord)) &^ 1
	b := d.mem[0x100+print.RingSize*int(p)+int(put):]
	binary.LittleEndian.PutUint32(b, 0x52500004)
	binary.LittleEndian.PutUint64(b[8:], time)
	binary.LittleEndian.PutUint32(d.word(p, putWord), put+16)
}

func TestLateLineComesFirst(t *testing.T) {
	d := &l1{}
	var mu sync.Mutex
	var got []uint64
	l, err := print.Listen(d, func(r print.Record) {
		mu.Lock()
		defer mu.Unlock()
		got = append(got, r.Time)
	}, print.Options{})
	expect.Must(t, err)
	defer l.Close()
	check := func(what string, want ...uint64) {
		t.Helper()
		for range 3 {
			d.visit()
		}
		mu.Lock()
		defer mu.Unlock()
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("%s (-want +got):\n%s", what, diff)
		}
	}
	d.hands(chip.BRISC, 100)
	d.hands(chip.NCRISC, 101)
	check("no reader", 100, 101)
	d.begins(chip.BRISC)
	d.hands(chip.NCRISC, 709)
	d.hands(chip.NCRISC, 800)
	check("BRISC may have taken an earlier time", 100, 101)
	d.hands(chip.BRISC, 708)
	check("BRISC has handed its line over", 100, 101, 708, 709, 800)
	d.begins(chip.NCRISC)
	check("nothing is held back", 100, 101, 708, 709, 800)
	d.hands(chip.BRISC, 801)
	expect.Must(t, l.Drain())
	check("a kernel that ended in the middle of a line holds back nothing that is asked for", 100, 101, 708, 709, 800, 801)
}

const zoneKernel = `
#include "reprise/zone.h"

void kernel_main(void) {
    reprise_zone("all");
    for (uint32_t i = 0; i < 2; i++) {
        reprise_zone("turn");
        reprise_zone_begin(wait, "wait");
        uint32_t since = rp_wall_clock_low();
        while (rp_wall_clock_low() - since < 500) {
        }
        reprise_zone_end(wait);
    }
}
`

const metalZoneKernel = `
#include "tools/profiler/kernel_profiler.hpp"
#include "reprise/kernel.h"

void kernel_main() {
    DeviceZoneScopedN("all");
    for (uint32_t i = 0; i < 2; i++) {
        DeviceZoneScopedN("turn");
        {
            DeviceZoneScopedN("wait");
            uint32_t since = rp_wall_clock_low();
            while (rp_wall_clock_low() - since < 500) {
            }
        }
    }
}
`

func TestZones(t *testing.T) {
	onAll(t, func(b *devtest.Bench) {
		for path, text := range map[string]string{"kernel.c": zoneKernel, "metal.cpp": metalZoneKernel} {
			im := build(b, kernels.Source{Path: path, Text: text, Arch: b.Dev.Arch(), Zones: true})
			l, got := listen(b, print.Options{})
			for p := range chip.Processor(chip.NumProcessors) {
				*got = nil
				run(b, program(im, p, chip.Single(1, 2)))
				b.Must(l.Drain())
				rs := *got
				printed(b, p, rs, "wait", "turn", "wait", "turn", "all")
				if len(rs) != 5 {
					b.Fatal(rs)
				}
				for i, r := range rs {
					if !r.Zone || r.Kernel != "kernel" || r.File != "./"+path || r.Line == 0 || r.Start >= r.Time {
						b.Errorf("zone %+v", r)
					}
					for _, in := range map[int][]int{1: {0}, 3: {2}, 4: {1, 3}}[i] {
						if rs[in].Start < r.Start || rs[in].Time > r.Time {
							b.Errorf("%v isn't in %v", rs[in], r)
						}
					}
					if n := r.Time - r.Start; r.Text == "wait" && n < 500 {
						b.Errorf("a wait of 500 cycles took %d", n)
					}
				}
				if rs[1].Time > rs[3].Start {
					b.Errorf("the second turn begins before the first one ends: %v, %v", rs[1], rs[3])
				}
			}
			b.Must(l.Close())
		}
	})
}

func TestZonesInFullRing(t *testing.T) {
	b := devtest.Open(t, sim.Blackhole(sim.Seed(1)))
	run(b, program(build(b, kernels.Source{Path: "full.c", Arch: b.Dev.Arch(), Zones: true, Prints: true, Text: `
#include "reprise/zone.h"
void kernel_main(void) {
    reprise_print("first");
    for (uint32_t i = 0; i < 1000; i++) {
        reprise_zone("short");
    }
}
`}), chip.BRISC, chip.Single(0, 0)))
	l, got := listen(b, print.Options{})
	b.Must(l.Close())
	zones, lost, printed := 0, 0, 0
	var cost []uint64
	for i, r := range *got {
		switch {
		case r.Zone:
			zones++
			if before := (*got)[i-1]; before.Zone {
				cost = append(cost, r.Time-before.Time)
			}
		case r.Lost > 0:
			lost += int(r.Lost)
		case r.Text == "first":
			printed++
		default:
			t.Error(r)
		}
	}
	if zones < 30 || zones+lost != 1000 || printed != 1 {
		t.Fatalf("%d zones, %d lost and %d lines", zones, lost, printed)
	}
	// Where a core's slice ends, the clock of the emulator goes on by the longest slice of any
	// core, so a zone there is longer.
	slices.Sort(cost)
	if d := cost[len(cost)/2]; d > 140 {
		t.Errorf("half of the zones took %d cycles or more with all that they cost: %d", d, cost)
	}
}

func TestZoneOfNothing(t *testing.T) {
	r := print.Record{Zone: true, Text: "a\nb", Start: 10, Time: 30, Processor: chip.TRISC0}
	if got, want := fmt.Sprint(r), "(0,0) TRISC0: zone a\uFFFDb, 20 cycles"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestNoCost(t *testing.T) {
	text := func(header, code string) string {
		return "#include \"" + header + "\"\nvoid kernel_main() { uint32_t n = rp_arg(0); " + code + " rp_store(0x20000, n); }\n"
	}
	prints := text("reprise/print.h", `reprise_print("%u", n * n);`)
	stream := text("debug/dprint.h", `DPRINT << n << "text" << rp_load(0x20000) << ENDL();`)
	zones := text("reprise/zone.h", `reprise_zone("all"); reprise_zone_begin(part, "part"); reprise_zone_end(part);`)
	build := func(path, text string, on bool) *kernels.Image {
		t.Helper()
		return build(t, kernels.Source{Path: path, Text: text, Arch: chip.Wormhole, Prints: on})
	}
	want := build("k.c", text("reprise/kernel.h", ""), false)
	for what, got := range map[string]*kernels.Image{
		"out": build("k.c", prints, false), "zones out": build("k.c", zones, false),
		"in and unused": build("k.c", text("reprise/print.h", ""), true), "DPRINT out": build("k.cpp", stream, false),
	} {
		if !bytes.Equal(got.Text, want.Text) || got.DataSize != want.DataSize || got.BSSSize != want.BSSSize || got.Formats != nil {
			t.Errorf("%s: %d B of text and %d B of formats, want %d and none", what, len(got.Text), len(got.Formats), len(want.Text))
		}
	}
	in := build("k.c", prints, true)
	if len(in.Text)-len(want.Text) > 800 || in.DataSize != want.DataSize {
		t.Errorf("one print takes %d B of text and %d B of data", len(in.Text)-len(want.Text), in.DataSize-want.DataSize)
	}
}

const (
	dprinting = `
#include "debug/dprint.h"
void kernel_main() {
    for (uint32_t i = 0; i < rp_arg(0); i++) {
        DPRINT << i << ENDL();
    }
}
`
	slicing = `
#include "api/dataflow/dataflow_api.h"
#include "debug/dprint.h"
void kernel_main() {
    cb_reserve_back(0, 1);
    for (uint32_t i = 0; i < rp_arg(0); i++) {
        DPRINT << TSLICE(0, 0, SliceRange::h0_w0_32(), TSLICE_OUTPUT_CB, TSLICE_WR_PTR);
    }
}
`
)

func TestCost(t *testing.T) {
	for _, card := range []func() *sim.Card{func() *sim.Card { return sim.Wormhole(sim.Seed(1)) },
		func() *sim.Card { return sim.Blackhole(sim.Seed(1)) }} {
		b := devtest.Open(t, card())
		for _, c := range []struct {
			name, file, text string
			lines            uint32 // that the ring has room for
			most             uint64
		}{{"print", "kernel.c", counter, 20, 90}, {"DPRINT", "kernel.cpp", dprinting, 20, 200}, {"TSLICE", "slice.cpp", slicing, 5, 1000}} {
			im := compile(b, c.file, c.text)
			p := program(im, chip.BRISC, chip.Single(0, 0), c.lines, 0)
			p.CircularBuffers = []reprise.CircularBuffer{{Index: 0, Cores: p.Kernels[0].Cores, PageSize: 2048, Pages: 1}}
			run(b, p)
			l, got := listen(b, print.Options{}) // now: its visits take cycles of the core
			b.Must(l.Close())
			if len(*got) != int(c.lines) {
				b.Fatalf("%s: %d lines: %v", c.name, len(*got), *got)
			}
			var took []uint64
			for i, r := range (*got)[1:] {
				took = append(took, r.Time-(*got)[i].Time)
			}
			slices.Sort(took) // other cores run between the slices of a core
			if d := took[len(took)/2]; d > c.most {
				b.Errorf("%v: %s: half of the lines took %d cycles or more: %v", b.Dev.Arch(), c.name, d, took)
			}
		}
	}
}

// Words of records, as kernels write them.
const (
	magic      = 0x5250
	kindFormat = 0
	kindStream = 1

	itemLiteral  = 1
	itemUnsigned = 2
	itemSigned   = 3
	itemFloat    = 6
	itemEndl     = 11
	itemSlice    = 21
	itemData     = 22
	itemBraces   = 23
)

// fuzzed is a device with one core, whose first processor prints.
type fuzzed struct {
	l1
	program *print.Program
}

func (d *fuzzed) Printing(uint64) ([]*print.Program, uint64) { return []*print.Program{d.program}, 1 }

func FuzzDecode(f *testing.F) {
	entry := append([]byte{0x31, 0, 0, 0, 7, 0, 2, 4},
		"at %u: %5.1f\n\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00./k.c\x00"...)
	p := print.Program{Name: "p", Kernels: []print.Kernel{{Name: "k", Formats: entry}}}
	p.Identify()
	record := func(kind uint32, words ...uint32) (b []byte) {
		for _, w := range append([]uint32{magic<<16 | kind<<8 | uint32(4+len(words)), p.ID, 1, 0}, words...) {
			b = binary.LittleEndian.AppendUint32(b, w)
		}
		return b
	}
	f.Add(entry, record(kindFormat, 0, 3, 0x3FC00000), p.ID)
	f.Add(entry, record(kindStream, itemLiteral<<24, itemSigned<<24, 0xFFFFFFFF, itemEndl<<24), p.ID)
	f.Add(entry, record(kindStream, itemSlice<<24|1<<8|5, 4, 2, itemData<<24|4, 0x3FC04000), p.ID)
	f.Add(append(append([]byte{}, entry[:8]...),
		"{0:>5} {1:#x} {}\n\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00./k.c\x00"...),
		record(kindStream, itemBraces<<24, itemUnsigned<<24, 7, itemFloat<<24, 0x3FC00000), p.ID)
	f.Add([]byte{}, []byte("garbage in a ring"), uint32(0))
	f.Fuzz(func(t *testing.T, formats, ring []byte, id uint32) {
		at := chip.Range{}
		d := &fuzzed{program: &print.Program{ID: id, Name: "p", Cores: []chip.Range{at},
			Kernels: []print.Kernel{{Name: "k", Formats: formats}}}}
		n := copy(d.mem[print.AreaSize-chip.NumProcessors*print.RingSize:][:print.RingSize], ring)
		binary.LittleEndian.PutUint32(d.word(chip.BRISC, putWord), uint32(n))
		text := 0
		for _, r := range print.Left(d, []chip.Core{{}}) {
			text += len(r.Text)
		}
		const maxWidth = 256
		if most := (len(formats) + maxWidth*4 + 64) * (print.RingSize + 64); text > most {
			t.Errorf("%d bytes of text", text)
		}
	})
}
