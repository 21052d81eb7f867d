package debug

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/dispatch"
	"github.com/reprise-tt/reprise/hwtest/internal/rig"
	"github.com/reprise-tt/reprise/kernels/watch"
)

func watchCases() rig.Table {
	var cs rig.Table
	cs.Add("checks that hold", "a kernel with checks that does nothing wrong ends as without them", checksHold)
	for _, p := range rig.Processors() {
		cs.AddHang(fmt.Sprintf("failed checks of %v", p), "an assertion, misuse of a circular buffer, a bad request and a full stack end the wait with core, kernel and what is wrong",
			func(t *rig.T) { checksFail(t, p) })
	}
	return cs
}

// watched is a program with kernel watch.c, which does what a number says.
func watched(t *rig.T, what uint32, on chip.Processor) *reprise.Program {
	t.Helper()
	cores := []chip.Range{t.Grid().End.Range()}
	return &reprise.Program{
		Name:            "watched",
		CircularBuffers: []reprise.CircularBuffer{{Index: 3, Cores: cores, PageSize: 64, Pages: 2}},
		Kernels: []reprise.Kernel{{
			Name: on.String(), Image: t.Own("watch"), Processor: on, Cores: cores, Args: rig.Args(what),
		}},
	}
}

// watchable skips where kernels can't be watched.
func watchable(t *rig.T) {
	t.Helper()
	if _, ok := t.Dev.Debug().PrintArea(); !ok {
		t.Skip("the workers run tt-metal's base firmware, with which kernels report nothing")
	}
}

func checksHold(t *rig.T) {
	watchable(t)
	for _, p := range rig.Processors() {
		ran(t, watched(t, 0, p))
	}
	fs, err := t.Dev.Debug().Failures()
	t.OK(err)
	if len(fs) != 0 {
		t.Errorf("failed: %v", fs)
	}
}

func checksFail(t *rig.T, on chip.Processor) {
	watchable(t)
	t = t.Short()
	for i, want := range []struct {
		check watch.Check
		says  string
	}{
		{watch.Assertion, "assertion `what < 1 && \"numbers, 100%\"` failed"},
		{watch.CircularBuffer, "circular buffer 3: the kernel pushes 1 page, but has reserved 0"},
		{watch.CircularBuffer, "circular buffer 3: the kernel waits for 3 pages, but the buffer has 2: it would wait for ever"},
		{watch.NoC, "the addresses must be equal modulo 16"},
		{watch.NoC, "tile (15,15) by NoC 0: the chip has no such tile"},
		{watch.NoC, "it is beyond the tile's memory"},
		{watch.Stack, "stack overflow: "},
	} {
		if want.check == watch.NoC && on >= chip.TRISC0 {
			continue
		}
		t.OK(t.Dev.Queue(0).Run(t.Ctx, t.Load(watched(t, uint32(i+1), on))))
		err := t.Dev.Queue(0).Wait(t.Ctx)
		var f *watch.Failure
		var k *dispatch.KernelError
		if want.check == watch.Stack && errors.As(err, &k) { // a strict emulator stops before the kernel's check
			if k.Core != t.Grid().End || k.Processor != on || k.Kernel != on.String() || !strings.Contains(k.Error(), want.says) {
				t.Error(k)
			}
			_ = t.Dev.Close(context.WithoutCancel(t.Ctx)) // it has stopped for good
			return
		}
		if !errors.As(err, &f) {
			t.Fatalf("%s: the wait ended with %v", want.says, err)
		}
		if f.Check != want.check || !strings.Contains(f.Text, want.says) || f.Core != t.Grid().End || f.Processor != on ||
			f.Program != "watched" || f.Kernel != on.String() || f.Offset == 0 {
			t.Errorf("%+v, want %s", f, want.says)
		}
		if f.Check == watch.Assertion && (!strings.HasSuffix(f.File, "watch.c") || f.Line == 0) {
			t.Errorf("at %s:%d", f.File, f.Line)
		}
		t.OK(t.Dev.Recover(t.Ctx))
	}
	ran(t, watched(t, 0, on))
}
