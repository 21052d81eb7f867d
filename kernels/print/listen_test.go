package print_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/dispatch"
	"github.com/reprise-tt/reprise/internal/devtest"
	"github.com/reprise-tt/reprise/internal/effort"
	"github.com/reprise-tt/reprise/internal/expect"
	"github.com/reprise-tt/reprise/kernels"
	"github.com/reprise-tt/reprise/kernels/print"
	"github.com/reprise-tt/reprise/mesh"
	"github.com/reprise-tt/reprise/sim"
	"github.com/reprise-tt/reprise/tracebuf"
)

func build(t testing.TB, src kernels.Source) *kernels.Image {
	t.Helper()
	var warnings strings.Builder
	src.Warnings = &warnings
	im, err := kernels.Compile(t.Context(), src)
	if errors.Is(err, kernels.ErrNoCompiler) {
		t.Skip(err)
	}
	devtest.Must(t, err)
	if warnings.Len() > 0 {
		t.Error(warnings.String())
	}
	return im
}

func compile(b *devtest.Bench, path, text string) *kernels.Image {
	b.Helper()
	return build(b, kernels.Source{Path: path, Text: text, Arch: b.Dev.Arch(), Prints: true})
}

func program(im *kernels.Image, p chip.Processor, at chip.Range, args ...uint32) *reprise.Program {
	return &reprise.Program{Name: "program", Kernels: []reprise.Kernel{{
		Name: "kernel", Image: im, Processor: p, Cores: []chip.Range{at}, Args: func(chip.Core) []uint32 { return args },
	}}}
}

func run(b *devtest.Bench, p *reprise.Program) {
	b.Helper()
	b.Must(b.Queue.Run(b.Ctx, b.Load(p)))
	b.Must(b.Queue.Wait(b.Ctx))
}

func printed(b *devtest.Bench, what any, rs []print.Record, want ...string) {
	b.Helper()
	var got []string
	for _, r := range rs {
		got = append(got, r.Text)
	}
	expect.NoDiff(b, got, want, "%v", what)
}

func listen(b *devtest.Bench, o print.Options) (*print.Listener, *[]print.Record) {
	b.Helper()
	var got []print.Record
	l, err := print.Listen(b.Dev.Debug(), func(r print.Record) { got = append(got, r) }, o)
	b.Must(err)
	b.Cleanup(func() {
		expect.Fails(b, l.Close(), nil, "l.Close()")
	})
	return l, &got
}

const cKernel = `
#include "reprise/print.h"

void kernel_main(void) {
    uint32_t n = rp_arg(0);
    for (uint32_t i = 0; i < n; i++) {
        reprise_print("position %u of %d", i, n);
    }
    int16_t small = -7;
    volatile float f = 1.5f;
    reprise_print_at(RP_PRINT_WARN, "%d|%5u|%-5x|%08X|%+d|%c|%%", small, 42u, 0xABu, 0xBEEFu, 3, 'x');
    reprise_print("%lld|%.2f|%s|%p", -5000000000ll, f, "text", (void*)0x100);
    reprise_print("done\n");
}
`

func TestListen(t *testing.T) {
	onAll(t, func(b *devtest.Bench) {
		for _, path := range []string{"kernel.c", "kernel.cpp"} {
			im := compile(b, path, cKernel)
			l, got := listen(b, print.Options{})
			for p := range chip.Processor(chip.NumProcessors) {
				*got = nil
				run(b, program(im, p, chip.Single(1, 2), 3))
				b.Must(l.Drain())
				printed(b, p, *got, "position 0 of 3", "position 1 of 3", "position 2 of 3",
					"-7|   42|ab   |0000BEEF|+3|x|%", "-5000000000|1.50|text|0x100", "done")
				time := uint64(0)
				for _, r := range *got {
					if r.Time <= time || r.Processor != p || r.Core != (chip.Core{X: 1, Y: 2}) || r.Program != "program" ||
						r.Kernel != "kernel" {
						b.Errorf("%+v after %d", r, time)
					}
					time = r.Time
				}
				if len(*got) == 6 {
					if r := (*got)[3]; r.Level != 4 || r.Line != 11 || r.File != "./"+path {
						b.Errorf("%+v", r)
					}
				}
			}
			b.Must(l.Close())
		}
	})
}

func ExampleToWriter() {
	var out strings.Builder
	print.ToWriter(&out)(print.Record{Core: chip.Core{X: 1}, Processor: chip.TRISC2, Program: "layer", Kernel: "pack", Text: "tile 3"})
	fmt.Print(out.String())
	// Output: (1,0) TRISC2 layer/pack: tile 3
}

func TestForgotten(t *testing.T) {
	b := devtest.Open(t, sim.Blackhole())
	im := compile(b, "kernel.c", counter)
	l, got := listen(b, print.Options{})
	known := func(what string, want ...string) {
		t.Helper()
		var names []string
		programs, version := b.Dev.Debug().Printing(0)
		for _, p := range programs {
			names = append(names, p.Name)
		}
		if diff := cmp.Diff(want, names); diff != "" {
			t.Fatalf("%s: programs that print (-want +got):\n%s", what, diff)
		}
		if again, same := b.Dev.Debug().Printing(version); again != nil || same != version {
			t.Fatalf("%s: %d programs and version %d again, want none and %d", what, len(again), same, version)
		}
	}
	load := func(name string) *reprise.Executable {
		t.Helper()
		p := counting(im, 1, 0)
		p.Name = name
		x, err := b.Dev.Load(b.Ctx, p)
		b.Must(err)
		return x
	}
	known("at first")
	stays := load("stays")
	for i := range 1000 {
		x := load(fmt.Sprint("program ", i))
		if i%100 == 0 {
			b.Must(b.Queue.Run(b.Ctx, x))
		}
		b.Must(x.Release(b.Ctx))
	}
	known("after 1,000 programs", "stays")
	for i, r := range *got {
		want := fmt.Sprint("program ", 100*i)
		expect.Equal(t, r.Program, want, "line %d", i)
		expect.Equal(t, r.Text, "line 0", "line %d", i)
	}
	expect.Equal(t, len(*got), 10, "lines of ten programs")
	twice := load("stays")
	b.Must(stays.Release(b.Ctx))
	known("loaded twice, released once", "stays")
	tr, err := b.Queue.Capture(b.Ctx, "trace", func(_ context.Context, r *reprise.Recorder) error { return r.Run(twice) })
	b.Must(err)
	b.Must(twice.Release(b.Ctx))
	known("in a trace", "stays")
	var file bytes.Buffer
	b.Must(tr.Save(b.Ctx, &file))
	b.Must(tr.Release(b.Ctx))
	known("without the trace")
	loaded, err := b.Dev.LoadTrace(b.Ctx, &file)
	b.Must(err)
	known("in a loaded trace", "stays")
	b.Must(loaded.Replay(b.Ctx))
	b.Must(loaded.Release(b.Ctx))
	known("without the loaded trace")
	if n := len(*got); n != 11 || (*got)[n-1].Text != "line 0" {
		t.Errorf("%d lines: %v", n, *got)
	}
	_, err = b.Queue.Capture(b.Ctx, "fails", func(_ context.Context, r *reprise.Recorder) error {
		x := load("fails")
		b.Must(r.Run(x))
		b.Must(x.Release(b.Ctx))
		return fmt.Errorf("no")
	})
	expect.Error(t, err)
	known("after a capture that failed")
	b.Must(l.Close())
}

// Kernels loaded later, without a listener, would wait for the whole timeout of the ring.
func TestForgottenRingsDontWait(t *testing.T) {
	b := devtest.Open(t, sim.Blackhole())
	im := compile(b, "kernel.c", counter)
	patience := func() uint32 {
		t.Helper()
		addr, ok := b.Dev.Debug().PrintArea()
		headers := make([]byte, print.HeadersSize)
		b.Must(b.Dev.Debug().ReadL1(chip.Core{X: 2, Y: 1}, addr, headers))
		if !ok {
			t.Fatal("the device has no rings")
		}
		return binary.LittleEndian.Uint32(headers[32+8:]) // of NCRISC
	}
	for _, closes := range []bool{true, false} {
		l, _ := listen(b, print.Options{Patience: 12345})
		x, err := b.Dev.Load(b.Ctx, counting(im, 1, 0))
		b.Must(err)
		b.Must(b.Queue.Run(b.Ctx, x))
		b.Must(b.Queue.Wait(b.Ctx))
		b.Must(l.Drain())
		expect.Equal(t, patience(), 12345, "patience")
		b.Must(x.Release(b.Ctx))
		if closes {
			b.Must(l.Close())
		} else {
			b.Must(l.Drain())
		}
		if got := patience(); got != 0 {
			t.Errorf("patience %d after the program was released, want 0 (listener closed: %v)", got, closes)
		}
		b.Must(l.Close())
	}
}

const counter = `
#include "reprise/print.h"

void kernel_main(void) {
    uint32_t n = rp_arg(0);
    for (uint32_t i = 0; i < n; i++) {
        reprise_print("line %u", i);
    }
    RP_WAIT("STOP", n, rp_arg(1) == 0);
}
`

func counting(im *kernels.Image, n, hang uint32) *reprise.Program {
	return program(im, chip.NCRISC, chip.Single(2, 1), n, hang)
}

func TestHang(t *testing.T) {
	b := devtest.Open(t, sim.Blackhole(), reprise.WithHangTimeout(300*time.Millisecond))
	im := compile(b, "kernel.c", counter)
	l, got := listen(b, print.Options{})
	b.Must(b.Queue.Run(b.Ctx, b.Load(counting(im, 5, 1))))
	err := b.Queue.Wait(b.Ctx)
	var h *dispatch.HangError
	if !errors.As(err, &h) {
		t.Fatal(err)
	}
	want := []string{"line 0", "line 1", "line 2", "line 3", "line 4"}
	printed(b, "report", h.Dump.Prints, want...)
	if d := h.Detail(); !strings.Contains(d, "(2,1) NCRISC program/kernel: line 4\n") {
		t.Error(d)
	}
	b.Must(b.Dev.Recover(b.Ctx)) // which drains the rings before they are emptied
	printed(b, "listener", *got, want...)
	*got = nil
	run(b, counting(im, 3, 0))
	b.Must(l.Drain())
	printed(b, "after recovery", *got, want[:3]...)
}

func TestNobodyListens(t *testing.T) {
	b := devtest.Open(t, sim.Wormhole())
	im := compile(b, "kernel.c", counter)
	run(b, counting(im, 200, 0))
	l, got := listen(b, print.Options{})
	b.Must(l.Close())
	rs := *got
	if len(rs) < 10 || rs[0].Lost == 0 || int(rs[0].Lost)+len(rs)-1 != 200 || rs[len(rs)-1].Text != "line 199" {
		t.Errorf("%d records, %v", len(rs), rs)
	}
	l, got = listen(b, print.Options{})
	b.Must(l.Close())
	expect.Equal(t, len(*got), 0, "again: %v", *got)
}

func TestHostGone(t *testing.T) {
	b := devtest.Open(t, sim.Blackhole())
	im := compile(b, "kernel.c", counter)
	free := make(chan struct{})
	var got []print.Record
	l, err := print.Listen(b.Dev.Debug(), func(r print.Record) {
		got = append(got, r)
		if len(got) == 1 {
			<-free
		}
	}, print.Options{Patience: 100_000})
	b.Must(err)
	run(b, counting(im, 300, 0)) // without a reader
	close(free)
	b.Must(l.Close())
	n, lost := 0, uint32(0)
	for _, r := range got {
		if lost += r.Lost; r.Lost == 0 {
			n++
		}
	}
	if n+int(lost) != 300 || lost == 0 || got[len(got)-1].Text != "line 299" {
		t.Errorf("%d lines, %d lost, the last is %v", n, lost, got[len(got)-1])
	}
}

func TestTrace(t *testing.T) {
	devtest.OnEmulators(t, func(b *devtest.Bench) {
		im := compile(b, "kernel.c", counter)
		x := b.Load(counting(im, 2, 0))
		tr, err := b.Queue.Capture(b.Ctx, "counting", func(_ context.Context, r *reprise.Recorder) error { return r.Run(x) })
		b.Must(err)
		var file bytes.Buffer
		b.Must(tr.Save(b.Ctx, &file))
		replay := func(dev *reprise.Device, tr *reprise.Trace) {
			t.Helper()
			var got []print.Record
			l, err := print.Listen(dev.Debug(), func(r print.Record) { got = append(got, r) }, print.Options{Name: "dev"})
			b.Must(err)
			for range 2 {
				b.Must(tr.Replay(b.Ctx))
			}
			b.Must(dev.Queue(0).Wait(b.Ctx))
			b.Must(l.Close())
			printed(b, "replays", got, "line 0", "line 1", "line 0", "line 1")
			if len(got) > 0 && got[0].String() != "dev (2,1) NCRISC program/kernel: line 0" {
				b.Error(got[0])
			}
		}
		replay(b.Dev, tr)
		o := devtest.Open(b.T, map[chip.Arch]*sim.Card{chip.Wormhole: sim.Wormhole(), chip.Blackhole: sim.Blackhole()}[b.Dev.Arch()])
		loaded, err := o.Dev.LoadTrace(b.Ctx, bytes.NewReader(file.Bytes()))
		b.Must(err)
		replay(o.Dev, loaded)
		var again bytes.Buffer
		b.Must(loaded.Save(b.Ctx, &again))
		f, err := tracebuf.Decode(&again)
		b.Must(err)
		if len(f.Image.Programs) != 1 || len(f.Image.Programs[0].Prints) != 1 {
			b.Errorf("saved again: %+v", f.Image.Programs)
		}
	})
}

func TestManyLines(t *testing.T) {
	n := uint32(20_000)
	if effort.Hours {
		n = 1_000_000
	}
	b := devtest.Open(t, sim.Blackhole(), reprise.WithHangTimeout(10*time.Minute)) // the kernel runs for a minute if it is long
	im := compile(b, "kernel.c", counter)
	next, lost := uint32(0), false
	l, err := print.Listen(b.Dev.Debug(), func(r print.Record) {
		lost = lost || r.Lost != 0
		next++
	}, print.Options{})
	b.Must(err)
	run(b, counting(im, n, 0))
	b.Must(l.Close())
	if next != n || lost {
		t.Errorf("%d lines of %d, some lost: %v", next, n, lost)
	}
}

func TestGarbage(t *testing.T) {
	b := devtest.Open(t, sim.Wormhole())
	im := compile(b, "kernel.c", counter)
	p := counting(im, 2, 0)
	run(b, p)
	area, ok := b.Dev.Debug().PrintArea()
	if !ok {
		t.Fatal("no area")
	}
	for offset, garbage := range map[uint32][]byte{
		0x100 + 1024: bytes.Repeat([]byte{0xA5}, 1024),           // records
		32 + 16:      {0x5A, 0, 0xC3, 0x7F, 0x5A, 0, 0xC3, 0x7F}, // a header
		32 + 20:      {1, 2, 3, 0x84},                            // its tail
	} {
		b.Must(b.Dev.Debug().WriteL1(chip.Core{X: 2, Y: 1}, area+offset, garbage))
		l, got := listen(b, print.Options{})
		run(b, p)
		run(b, p)
		b.Must(l.Close())
		printed(b, offset, (*got)[max(0, len(*got)-2):], "line 0", "line 1")
	}
}

func TestMesh(t *testing.T) {
	machine := sim.N300()
	t.Cleanup(func() { _ = machine.Close() })
	m, err := mesh.Open(t.Context(), mesh.Cards(machine.Cards()...), mesh.Shape{1, 2})
	devtest.Must(t, err)
	t.Cleanup(func() { _ = m.Close(context.Background()) })
	b := &devtest.Bench{T: t, Ctx: t.Context(), Dev: m.Chip(0, 0).Device}
	im := compile(b, "kernel.c", counter)
	var mu sync.Mutex
	got := map[string][]string{}
	var listeners []*print.Listener
	for _, c := range m.Chips() {
		l, err := print.Listen(c.Device.Debug(), func(r print.Record) {
			mu.Lock()
			defer mu.Unlock()
			got[r.Device] = append(got[r.Device], r.String())
		}, print.Options{Name: c.Coord.String()})
		b.Must(err)
		listeners = append(listeners, l)
	}
	x, err := m.Load(b.Ctx, "count", mesh.Part{Program: func(c *mesh.Chip) (*reprise.Program, error) {
		n := uint32(1)
		if c.Remote {
			n = 2
		}
		return program(im, chip.BRISC, chip.Single(2, 1), n, 0), nil
	}})
	b.Must(err)
	b.Must(m.Queue(0).Run(b.Ctx, x))
	tr, err := m.Queue(0).Capture(b.Ctx, "counts", func(_ context.Context, r *mesh.Recorder) error { return r.Run(x) })
	b.Must(err)
	for range 2 {
		b.Must(tr.Replay(b.Ctx))
	}
	b.Must(m.Queue(0).Wait(b.Ctx))
	for _, l := range listeners {
		b.Must(l.Close())
	}
	near, far := m.Chip(0, 0).Coord.String(), m.Chip(0, 1).Coord.String()
	want := map[string][]string{}
	for range 3 {
		want[near] = append(want[near], near+" (2,1) BRISC program/kernel: line 0")
		want[far] = append(want[far], far+" (2,1) BRISC program/kernel: line 0", far+" (2,1) BRISC program/kernel: line 1")
	}
	expect.NoDiff(t, got, want, "got")
}
