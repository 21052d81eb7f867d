package hwtest

import (
	"context"
	"encoding/binary"
	"errors"
	"time"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/allocator"
	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/dispatch"
	"github.com/reprise-tt/reprise/dispatch/abi"
	"github.com/reprise-tt/reprise/kmd"
)

func bringupCases() []testCase {
	return []testCase{
		{name: "all cores report", protects: "after opening every worker's firmware waits in its idle loop with all processors up", fn: allCoresReport},
		{name: "core information", protects: "every worker has its own coordinate in its core information", fn: coreInformation},
		{name: "open close open", protects: "a closed device can be opened again and works", fn: openCloseOpen},
		{name: "closing quiets the chip", protects: "after closing all processors are held in reset", fn: closingQuiets},
		{name: "nothing left", protects: "a device that was just opened has nothing allocated", fn: nothingLeft},
		{name: "two queues", protects: "a device opens with two command queues and both take commands", fn: twoQueues},
		{name: "cancelled open", protects: "an open whose context is over fails and leaves the device free", fn: cancelledOpen},
		{name: "impossible options", protects: "options that no device can fulfil are refused with what to do instead", fn: impossibleOptions},
		{name: "use after close", protects: "everything of a closed device says that it is closed", fn: useAfterClose},
		{name: "close twice", protects: "closing again does nothing", fn: closeTwice},
		{name: "smallest queue memory", protects: "the smallest allowed queue memory works", fn: smallestQueueMemory},
	}
}

// queues opens the device up to its command queues for the length of a case.
func (t *fixture) queues(o dispatch.Options) *fixture {
	t.Helper()
	if o.HangTimeout == 0 {
		o.HangTimeout = t.patience()
	}
	kd, d, err := t.openQueues(o)
	t.ok(err)
	t.Cleanup(func() {
		if err := errors.Join(d.Close(context.WithoutCancel(t.Context())), kd.Close()); err != nil && !t.Failed() {
			t.Errorf("close: %v", err)
		}
	})
	u := *t
	u.useQueues(kd, d)
	return &u
}

// full opens the whole device for the length of a case, which must not share one: a card that is opened twice has one firmware.
func (t *fixture) full(target kmd.Target, opts ...reprise.Option) *fixture {
	t.Helper()
	if t.dev != nil {
		t.Fatalf("the case shares a device with others, and opens another one: a case that does has levelOwn")
	}
	d, err := t.open(t.ctx, target, append([]reprise.Option{reprise.WithHangTimeout(t.patience())}, opts...)...)
	t.ok(err)
	t.Cleanup(func() {
		if err := d.Close(context.WithoutCancel(t.Context())); err != nil && !t.Failed() {
			t.Errorf("close: %v", err)
		}
	})
	u := *t
	u.useDevice(d)
	return &u
}

func allCoresReport(t *fixture) {
	t = t.queues(dispatch.Options{})
	for c := range t.disp.Grid().Cores() {
		if v := t.peek(c, t.l1.Go, 4); v[3] != 0 {
			t.Errorf("core %v: go message % x, want the signal DONE", c, v)
		}
		for p := range uint32(chip.NumProcessors) {
			state := t.peek(c, t.l1.CoreState+p*t.l1.CoreStateSize, 16)
			// BRISC says DONE to the host and goes to its loop a few instructions later.
			for end := time.Now().Add(t.patience()); chip.Processor(p) == chip.BRISC && string(state[:4]) != "IDLE"; {
				if time.Now().After(end) {
					t.Errorf("core %v: BRISC is at %q", c, state[:4])
					break
				}
				state = t.peek(c, t.l1.CoreState+p*t.l1.CoreStateSize, 16)
			}
			if binary.LittleEndian.Uint32(state[:4]) == 0 {
				t.Errorf("core %v: %v hasn't started", c, chip.Processor(p))
			}
		}
	}
}

func coreInformation(t *fixture) {
	t = t.queues(dispatch.Options{})
	for c := range t.ch.Workers() {
		b := t.peek(c, t.l1.CoreInfo, 8)
		if binary.LittleEndian.Uint32(b) != abi.CoreInfoMagic || int(b[4]) != c.X || int(b[5]) != c.Y {
			t.Errorf("core %v has % x", c, b)
		}
	}
}

func openCloseOpen(t *fixture) {
	for i := range 3 {
		t.sub("round", func(t *fixture) {
			t = t.full(t.device.Open())
			b := t.buffer(allocator.DRAM, 64*t.dev.DRAMBanks(), 64)
			want := pattern(uint32(i), b.Size())
			t.ok(t.rq.Write(t.ctx, b, 0, want))
			t.same("read back", want, t.readAll(b))
		})
	}
}

func closingQuiets(t *fixture) {
	// A second opener, which sees what the first one leaves.
	target := t.device.Open()
	kd, err := kmd.Open(t.ctx, target)
	t.ok(err)
	defer func() { t.ok(kd.Close()) }()
	d, err := t.open(t.ctx, target)
	t.ok(err)
	t.useDriver(kd)
	v, err := kd.Read32(t.virtual(chip.Core{}), uint64(t.p.SoftReset))
	t.ok(err)
	if v&t.p.ResetAll != 0 {
		t.Errorf("soft reset of an open device is %#x", v)
	}
	t.ok(d.Close(t.Context()))
	resetRegisters(t)
}

func nothingLeft(t *fixture) {
	t = t.full(t.device.Open())
	for _, k := range []allocator.Kind{allocator.DRAM, allocator.L1, allocator.Trace} {
		if s := t.dev.Memory(k); s.Allocated != 0 || s.Extents != 0 {
			t.Errorf("%v: %d B in %d extents", k, s.Allocated, s.Extents)
		}
	}
}

func twoQueues(t *fixture) {
	t = t.full(t.device.Open(), reprise.WithQueues(2))
	if t.dev.Queues() != 2 || t.dev.Queue(1).ID() != 1 {
		t.Fatalf("%d queues, the second is %d", t.dev.Queues(), t.dev.Queue(1).ID())
	}
	b := t.buffer(allocator.DRAM, 4096, 64)
	for i := range 4 {
		want := pattern(uint32(i), b.Size())
		w, r := t.dev.Queue(i%2), t.dev.Queue(i/2)
		t.ok(w.Write(t.ctx, b, 0, want))
		t.ok(w.Wait(t.ctx))
		got := make([]byte, b.Size())
		t.ok(r.Read(t.ctx, b, 0, got))
		t.same("written through one queue, read through the other", want, got)
	}
}

func cancelledOpen(t *fixture) {
	ctx, cancel := context.WithCancel(t.ctx)
	cancel()
	d, err := t.open(ctx, t.device.Open())
	if err == nil {
		t.ok(d.Close(ctx))
		t.Skip("the device opens without waiting for anything")
	}
	if !errors.Is(err, context.Canceled) {
		t.Errorf("error %v, want %v", err, context.Canceled)
	}
	t.full(t.device.Open())
}

func impossibleOptions(t *fixture) {
	for name, o := range map[string]reprise.Option{
		"three queues":       reprise.WithQueues(3),
		"tiny queue memory":  reprise.WithQueueMemory(4096),
		"uneven memory":      reprise.WithQueueMemory(1<<20 + 100),
		"huge trace region":  reprise.WithTraceRegion(1 << 50),
		"huge small buffers": reprise.WithL1Small(1 << 30),
	} {
		d, err := t.open(t.ctx, t.device.Open(), o)
		if err == nil {
			t.Errorf("%s: opened", name)
			t.ok(d.Close(t.Context()))
		}
	}
	t.full(t.device.Open())
}

func useAfterClose(t *fixture) {
	d, err := t.open(t.ctx, t.device.Open())
	t.ok(err)
	u := *t
	u.useDevice(d)
	b := u.buffer(allocator.DRAM, 64, 64)
	x := u.load(u.storeProgram("store", u.grid(), b, 1))
	tr, err := u.rq.Capture(u.ctx, "t", func(_ context.Context, r *reprise.Recorder) error { return r.Run(x) })
	t.ok(err)
	t.ok(d.Close(t.Context()))
	q := d.Queue(0)
	data := make([]byte, 64)
	for name, err := range map[string]error{
		"write":              q.Write(t.ctx, b, 0, data),
		"read":               q.Read(t.ctx, b, 0, data),
		"wait for queue":     q.Wait(t.ctx),
		"run":                q.Run(t.ctx, x),
		"load":               second(d.Load(t.ctx, &reprise.Program{})),
		"new buffer":         second(d.NewBuffer(reprise.BufferConfig{Kind: allocator.DRAM, Size: 64})),
		"replay trace":       tr.Replay(t.ctx),
		"release trace":      tr.Release(t.ctx),
		"release executable": x.Release(t.ctx),
		"capture": second(q.Capture(t.ctx, "t", func(context.Context, *reprise.Recorder) error {
			t.Error("capture on a closed device calls its function")
			return nil
		})),
	} {
		if !errors.Is(err, reprise.ErrClosed) {
			t.Errorf("%s: error %v, want ErrClosed", name, err)
		}
		t.says(err, "reprise: "+name, "the device is closed")
	}
	// Names and sizes are only memory.
	if b.Name() != "test" || x.Name() != "store" || tr.Name() != "t" || len(tr.Parts()[0].Extents) == 0 {
		t.Error("what is known of closed things is lost")
	}
}

func second[A any](_ A, err error) error { return err }

func closeTwice(t *fixture) {
	d, err := t.open(t.ctx, t.device.Open())
	t.ok(err)
	t.ok(d.Close(t.Context()))
	t.ok(d.Close(t.Context()))
}

func smallestQueueMemory(t *fixture) {
	t = t.full(t.device.Open(), reprise.WithQueueMemory(1<<20))
	b := t.buffer(allocator.DRAM, t.size(4<<20, 1<<20), 2048)
	want := pattern(3, b.Size())
	t.ok(t.rq.Write(t.ctx, b, 0, want))
	t.same("several times the queue's memory", want, t.readAll(b))
}
