package print_test

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/dispatch"
	"github.com/reprise-tt/reprise/internal/devtest"
	"github.com/reprise-tt/reprise/internal/effort"
	"github.com/reprise-tt/reprise/kernels"
	"github.com/reprise-tt/reprise/kernels/print"
	"github.com/reprise-tt/reprise/sim"
	"github.com/reprise-tt/reprise/tracebuf"
)

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
	if len(*got) != 0 {
		t.Errorf("again: %v", *got)
	}
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
	run(b, counting(im, 300, 0)) // though nobody reads
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
