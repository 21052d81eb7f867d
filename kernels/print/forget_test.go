package print_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/internal/devtest"
	"github.com/reprise-tt/reprise/kernels/print"
	"github.com/reprise-tt/reprise/sim"
)

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
		if want := fmt.Sprint("program ", 100*i); r.Program != want || r.Text != "line 0" {
			t.Errorf("line %d: %v, want one of %s", i, r, want)
		}
	}
	if len(*got) != 10 {
		t.Errorf("%d lines of ten programs", len(*got))
	}
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
	if err == nil {
		t.Error("the capture succeeded")
	}
	known("after a capture that failed")
	b.Must(l.Close())
}

// Kernels loaded later, when nobody listens, would wait for the ring's full patience.
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
		if got := patience(); got != 12345 {
			t.Errorf("patience %d while somebody listens, want 12345", got)
		}
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
