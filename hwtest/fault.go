package hwtest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/allocator"
	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/dispatch"
	"github.com/reprise-tt/reprise/dispatch/cq"
	"github.com/reprise-tt/reprise/hwtest/target"
	"github.com/reprise-tt/reprise/kernels"
	"github.com/reprise-tt/reprise/sim"
)

const hangs = "a hanging core holds the card until it is reset"

func faultCases() []testCase {
	var cs []testCase
	for _, p := range processors() {
		cs = append(cs, testCase{name: fmt.Sprintf("kernel hangs on %v", p), unsafe: hangs, needs: needSimulator,
			protects: "a kernel that never ends is a *HangError that names its core, processor and what it waits for",
			fn:       func(t *fixture) { hungKernel(t, p) }})
	}
	for _, c := range brokenCommands() {
		cs = append(cs, testCase{name: "bad command: " + c.name, unsafe: hangs, needs: needSimulator,
			protects: "a command that makes no sense stops its core, whose waypoint says so, instead of writing anywhere",
			fn: func(t *fixture) {
				badCommand(t, c.waypoint, c.onDispatch, c.stall, c.commands)
			}})
	}
	for name, addr := range map[string]uint32{"far beyond L1": 0x7FFF0000, "unmapped registers": 0xFF000000, "misaligned": 0x40001} {
		cs = append(cs, testCase{name: "kernel touches " + name, unsafe: hangs, needs: needSimulator,
			protects: "when the device stops and knows why, that is the cause of the error",
			fn:       func(t *fixture) { wildKernel(t, addr) }})
	}
	return append(cs, []testCase{
		{name: "cancelled while waiting", protects: "a wait ends with its context and the queue stays usable", fn: cancelledWait},
		{name: "deadline while waiting", protects: "a wait ends with its context's deadline", fn: deadlineWait},
		{name: "cancelled before sending", protects: "a wait for room in a full queue ends with its context", fn: cancelledSend},
		{name: "close with work in flight", protects: "closing a device whose queue is full of work ends, and the next open works", fn: closeBusy},
		{name: "close while a kernel hangs", unsafe: hangs, needs: needSimulator, protects: "closing a hanging device ends, and the next open works", fn: closeHung},
		{name: "close until a deadline", unsafe: hangs, needs: needSimulator, protects: "Close cuts off work when its context ends, says so, and the next open works", fn: closeInTime},
		{name: "misuse of raw commands", protects: "commands of an impossible length are refused before they are sent", fn: rawMisuse},
		{name: "after a hang", unsafe: hangs, needs: needSimulator, protects: "a queue that hung says so to everything that follows", fn: afterHang},
		{name: "process is killed", protects: "a process that is killed with SIGKILL in the middle of replays leaves nothing behind, and the next one uses the device at once", fn: killedProcess},
		{name: "foreign things", protects: "buffers and programs of one device aren't used with another", fn: foreignThings},
	}...)
}

// hangTimeout is short, since the case waits for it, and long enough for a slow device to show progress. How slow the
// vendor's simulator is depends on the machine and on what else runs there: what it takes to open the device tells. So it is
// with a card, which may be a virtual one in a machine that is emulated.
func (t *fixture) hangTimeout() time.Duration {
	t.Helper()
	least, times := 2*time.Second, time.Duration(20)
	switch t.device.Kind {
	case target.Emulator:
		return 400 * time.Millisecond * slowdown
	case target.Silicon:
		least, times = 400*time.Millisecond, 2
	}
	t.leave()
	start := time.Now()
	kd, d, err := t.openQueues(dispatch.Options{HangTimeout: t.patience()})
	t.ok(err)
	t.ok(errors.Join(d.Close(t.Context()), kd.Close()))
	return min(max(least, times*time.Since(start)), t.patience())
}

// short opens the device for a case that makes it hang: closing it may fail.
func (t *fixture) short() *fixture {
	t.Helper()
	return t.opened(t.hangTimeout())
}

// leave closes the device that cases of the layer share, where it is the card that the case is about to open.
func (t *fixture) leave() {
	t.Helper()
	if t.device.One() {
		t.ok(t.bench.close(t.Context()))
	}
}

func (t *fixture) opened(hang time.Duration) *fixture {
	t.Helper()
	t.leave()
	d, err := t.open(t.ctx, t.device.Open(), reprise.WithHangTimeout(hang))
	t.ok(err)
	t.Cleanup(func() { _ = d.Close(context.Background()) })
	u := *t
	u.useDevice(d)
	return &u
}

func (t *fixture) shortQueues() *fixture {
	t.Helper()
	hang := t.hangTimeout()
	kd, d, err := t.openQueues(dispatch.Options{HangTimeout: hang})
	t.ok(err)
	t.Cleanup(func() {
		_ = d.Close(context.WithoutCancel(t.Context()))
		_ = kd.Close()
	})
	u := *t
	u.useQueues(kd, d)
	return &u
}

// worksAgain opens the device anew and uses it.
func (t *fixture) worksAgain() {
	t.Helper()
	u := t.full(t.device.Open())
	f := u.follow()
	x := u.load(u.mixProgram("again", u.grid(), f.b, 4, 0))
	u.runAndWait(x)
	f.run(4, u.grid())
	f.check("after the next open")
}

// spin is a program that waits on one core until the first word of a buffer, which is cleared, has a value.
func (t *fixture) spin(b *reprise.Buffer, p chip.Processor, on chip.Core) *reprise.Program {
	t.Helper()
	t.ok(t.rq.Write(t.ctx, b, 0, make([]byte, b.Size())))
	return &reprise.Program{Name: "spin", Buffers: []*reprise.Buffer{b}, Kernels: []reprise.Kernel{{
		Name: "spin", Image: t.kernel(kernels.Spin), Processor: p, Cores: []chip.Range{on.Range()},
		Args: func(chip.Core) []uint32 { return []uint32{b.Addr(), 0x12345678} },
	}}}
}

func hungKernel(t *fixture, p chip.Processor) {
	u := t.short()
	b := u.perWorker(16)
	at := chip.Core{X: 2, Y: 3}
	x, err := u.dev.Load(u.ctx, u.spin(b, p, at))
	t.ok(err)
	t.ok(u.rq.Run(u.ctx, x))
	err = u.rq.Wait(u.ctx)
	var hang *dispatch.HangError
	if !errors.As(err, &hang) || !errors.Is(err, reprise.ErrTimeout) {
		t.Fatalf("error %v, want a *HangError after no progress", err)
	}
	found := false
	for _, c := range hang.Cores {
		if c.Kind != "worker" {
			continue
		}
		if c.Busy() != (c.Core == at) {
			t.Errorf("%v", c)
		}
		if c.Core == at {
			found = true
			if s := c.Processors[p]; s.Waypoint != "SEMW" || s.Detail != b.Addr() {
				t.Errorf("%v is at %s(%#x), want SEMW(%#x)", p, s.Waypoint, s.Detail, b.Addr())
			}
		}
	}
	if !found || !strings.Contains(hang.Detail(), at.String()) {
		t.Errorf("the report doesn't speak of core %v:\n%s", at, hang.Detail())
	}
	_ = u.dev.Close(t.Context())
	t.worksAgain()
}

func wildKernel(t *fixture, addr uint32) {
	u := t.short()
	b := u.perWorker(16)
	x, err := u.dev.Load(u.ctx, &reprise.Program{Name: "wild", Buffers: []*reprise.Buffer{b}, Kernels: []reprise.Kernel{{
		Name: "touch", Image: u.own("touch"), Processor: chip.BRISC, Cores: []chip.Range{chip.Core{X: 1, Y: 1}.Range()},
		Args: func(chip.Core) []uint32 { return []uint32{addr, b.Addr()} },
	}}})
	t.ok(err)
	t.ok(u.rq.Run(u.ctx, x))
	err = u.rq.Wait(u.ctx)
	var hang *dispatch.HangError
	card := t.device.Kind == target.Silicon
	switch {
	case card && err == nil: // as a real one may
		t.Log("the card went on")
	case !errors.As(err, &hang):
		t.Fatalf("error %v, want a *HangError", err)
	case hang.Cause == nil, !card && errors.Is(err, reprise.ErrTimeout):
		t.Errorf("the cause is %v, although the device knows why it stopped", hang.Cause)
	default:
		t.Logf("cause: %v", hang.Cause)
	}
	if t.device.One() {
		t.ok(u.dev.Recover(u.ctx)) // others don't open a card that has stopped
		f := u.follow()
		u.runAndWait(u.load(u.mixProgram("recovered", u.grid(), f.b, 4, 0)))
		f.run(4, u.grid())
		f.check("after the device was recovered")
	}
	_ = u.dev.Close(t.Context())
	t.worksAgain()
}

// raw is a command of 16 bytes that no builder makes.
func raw(first ...byte) []byte { return append(first, make([]byte, 16-len(first))...) }

// brokenCommand is a command that stops the prefetcher or the dispatcher at a waypoint.
type brokenCommand struct {
	name, waypoint    string
	onDispatch, stall bool
	commands          func(*fixture, *cq.Builder)
}

func brokenCommands() []brokenCommand {
	return []brokenCommand{
		{"dispatcher id 0", "BADC", true, false, opaque(raw(0))},
		{"dispatcher id 18, of a newer revision", "BADC", true, false, opaque(raw(18))},
		{"dispatcher id 255", "BADC", true, false, opaque(raw(255))},
		{"36 runs in a WRITE_PACKED_LARGE", "BADL", true, false, opaque(append(raw(6, 1, 36, 0, 16), make([]byte, 36*12+48)...))},
		{"no destination in a WRITE_PACKED", "BADL", true, false, opaque(raw(5, 0, 0, 0, 0, 0, 16))},
		{"write offset 4", "BADL", true, false, opaque(append(raw(1, 0, 4), make([]byte, 16)...))},
		{"five write offsets", "BADL", true, false, opaque(append(raw(12, 5), make([]byte, 32)...))},
		{"65 words of go signal table", "BADL", true, false, opaque(append(raw(17, 0, 0, 0, 65), make([]byte, 65*4)...))},
		{"notification of sub-device 8", "BADL", true, false, opaque(raw(15, 0, 0, 1))},
		{"prefetcher id 0", "BADC", false, false, bare(0)},
		{"prefetcher id 15, of a newer revision", "BADC", false, false, bare(15)},
		{"prefetcher id 200", "BADC", false, false, bare(200)},
		{"EXEC_BUF without the stall bit", "BADS", false, false, func(_ *fixture, b *cq.Builder) { b.ExecBuf(cq.ExecBuf{Base: 1 << 20, LogPageSize: 12, Pages: 1}) }},
		{"stall bit without EXEC_BUF", "BADS", false, true, func(_ *fixture, b *cq.Builder) { b.Wait(cq.Master, cq.Wait{}) }},
		{"EXEC_BUF_END outside of a trace", "BADS", false, false, func(_ *fixture, b *cq.Builder) { b.ExecBufEnd() }},
		{"EXEC_BUF with pages of 32 bytes", "BADL", false, true, func(_ *fixture, b *cq.Builder) { b.ExecBuf(cq.ExecBuf{Base: 1 << 20, LogPageSize: 5, Pages: 1}) }},
		{"EXEC_BUF without pages", "BADL", false, true, func(_ *fixture, b *cq.Builder) { b.ExecBuf(cq.ExecBuf{Base: 1 << 20, LogPageSize: 12}) }},
		{"commands after an EXEC_BUF", "BADS", false, true, func(_ *fixture, b *cq.Builder) {
			b.ExecBuf(cq.ExecBuf{Base: 1 << 20, LogPageSize: 12, Pages: 1})
			b.Wait(cq.Master, cq.Wait{})
		}},
		{"trace without an end", "BADT", false, true, func(t *fixture, b *cq.Builder) {
			cmds := t.commands(func(b *cq.Builder) {
				for range 4096 / t.layout().PCIeAlign() {
					b.Wait(cq.Master, cq.Wait{})
				}
			})
			t.pokePages(true, 1<<20, 4096, 0, cmds)
			b.ExecBuf(cq.ExecBuf{Base: 1 << 20, LogPageSize: 12, Pages: 1})
		}},
		{"cache overflow", "BADL", false, false, func(_ *fixture, b *cq.Builder) {
			b.PagedToRingbuffer(cq.PagedToRingbuffer{Reset: true, LogPageSize: 12, Base: 1 << 20, Length: 1<<20 + 64})
		}},
		{"payload longer than the commands", "BADL", false, false, func(_ *fixture, b *cq.Builder) {
			at := b.Wait(cq.Master, cq.Wait{})
			cq.Put32(b.Bytes(), at-16+4, 60_000) // the relay's length
		}},
	}
}

// opaque relays bytes to the dispatcher as if they were a command.
func opaque(p []byte) func(*fixture, *cq.Builder) {
	return func(_ *fixture, b *cq.Builder) { b.Append(cq.RelayInline{Command: cq.Opaque{Payload: p}}) }
}

// bare is a prefetcher command with nothing but an id.
func bare(id byte) func(*fixture, *cq.Builder) {
	return func(_ *fixture, b *cq.Builder) {
		at := b.Stall()
		b.Bytes()[at] = id
	}
}

func badCommand(t *fixture, waypoint string, onDispatch, stall bool, commands func(*fixture, *cq.Builder)) {
	u := t.shortQueues()
	pre, core := u.q.Cores()
	if onDispatch {
		pre = core
	}
	t.ok(u.q.Send(u.ctx, u.commands(func(b *cq.Builder) { commands(u, b) }), stall))
	err := u.q.Wait(u.ctx)
	var hang *dispatch.HangError
	if !errors.As(err, &hang) {
		t.Fatalf("error %v, want a *HangError", err)
	}
	for _, c := range hang.Cores {
		if c.Core == pre && c.Processors[chip.BRISC].Waypoint != waypoint {
			t.Errorf("%v, want BRISC at %s", c, waypoint)
		}
	}
	if !strings.Contains(hang.Detail(), waypoint) {
		t.Errorf("the report lacks %s:\n%s", waypoint, hang.Detail())
	}
	_ = u.disp.Close(t.Context())
	_ = u.kd.Close()
	t.worksAgain()
}

// blocked makes the dispatcher wait for a word until the returned function is called.
func (t *fixture) blocked() (release func()) {
	t.Helper()
	d := t.dispatchCore()
	t.poke(d, free, make([]byte, 4))
	t.send(func(b *cq.Builder) { b.Wait(cq.Master, cq.Wait{Flags: cq.WaitMemory, Addr: free, Count: 1}) })
	t.waypoint(d, chip.BRISC, "WMEM")
	return func() { t.poke(d, free, []byte{1, 0, 0, 0}) }
}

func cancelledWait(t *fixture) {
	t = t.queues(dispatch.Options{})
	release := t.blocked()
	ctx, cancel := context.WithCancelCause(t.ctx)
	mine := errors.New("a cause of the caller's")
	done := make(chan error, 1)
	go func() { done <- t.q.Wait(ctx) }()
	cancel(mine)
	if err := <-done; !errors.Is(err, mine) {
		t.Errorf("error %v, want the context's cause", err)
	}
	release()
	t.finish()
}

func deadlineWait(t *fixture) {
	t = t.queues(dispatch.Options{})
	release := t.blocked()
	ctx, cancel := context.WithTimeout(t.ctx, 20*time.Millisecond)
	defer cancel()
	if err := t.q.Wait(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("error %v, want %v", err, context.DeadlineExceeded)
	}
	release()
	t.finish()
}

func cancelledSend(t *fixture) {
	t = t.queues(dispatch.Options{QueueMemory: 1 << 20})
	release := t.blocked()
	ctx, cancel := context.WithTimeout(t.ctx, time.Second)
	defer cancel()
	c := t.grid().Start
	sent := 0
	var err error
	for ; err == nil && sent < 3*prefetchEntries; sent++ {
		err = t.q.Send(ctx, t.commands(func(b *cq.Builder) {
			b.WriteLinear(cq.WriteLinear{NOC: t.nocXY(c), Addr: scratch, Data: pattern(uint32(sent), 2000)})
		}), false)
	}
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("after %d batches: error %v, want %v", sent, err, context.DeadlineExceeded)
	}
	release()
	t.finish()
	t.same("the last batch that was taken", pattern(uint32(sent-2), 2000), t.peek(c, scratch, 2000))
}

func closeBusy(t *fixture) {
	opened := t.device.Open()
	for range t.size(3, 1) {
		d, err := t.open(t.ctx, opened)
		t.ok(err)
		u := *t
		u.useDevice(d)
		b, err := d.NewBuffer(reprise.BufferConfig{Kind: allocator.L1, Size: 16 * d.Grid().Size(), PageSize: 16, Name: "busy"})
		t.ok(err)
		x, err := d.Load(t.ctx, u.mixProgram("busy", d.Grid(), b, 1, 0))
		t.ok(err)
		tr, err := u.rq.Capture(t.ctx, "busy", func(_ context.Context, r *reprise.Recorder) error { return r.Run(x) })
		t.ok(err)
		for range t.size(50, 10) {
			t.ok(u.rq.Run(t.ctx, x))
			t.ok(tr.Replay(t.ctx))
		}
		t.ok(d.Close(t.Context()))
		if card, ok := opened.(*sim.Card); ok {
			drv, err := card.Driver()
			t.ok(err)
			if n := drv.Node(0).OpenFiles(); n != 0 {
				t.Errorf("%d files of the driver are still open", n)
			}
		}
	}
	t.worksAgain()
}

func closeHung(t *fixture) {
	u := t.opened(t.patience()) // nothing waits for the kernel
	b := u.perWorker(16)
	x, err := u.dev.Load(u.ctx, u.spin(b, chip.TRISC0, u.grid().End))
	t.ok(err)
	t.ok(u.rq.Run(u.ctx, x))
	// Whether this is an error depends on the program that waits for the worker next: none does here.
	if err := u.dev.Close(t.Context()); err != nil {
		t.Logf("close: %v", err)
	}
	t.worksAgain()
}

func closeInTime(t *fixture) {
	u := t.opened(t.patience())
	b := u.perWorker(16)
	x, err := u.dev.Load(u.ctx, u.spin(b, chip.BRISC, u.grid().Start))
	t.ok(err)
	for range 2 { // the second run waits for the worker, and so do the queue's kernels
		t.ok(u.rq.Run(u.ctx, x))
	}
	ctx, cancel := context.WithTimeout(u.ctx, 10*time.Millisecond)
	defer cancel()
	if err := u.dev.Close(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("closed with %v, want %v", err, context.DeadlineExceeded)
	}
	t.worksAgain()
}

func rawMisuse(t *fixture) {
	t = t.queues(dispatch.Options{})
	for _, n := range []int{0, 1, 16, 33, t.layout().PCIeAlign() + 16, 128<<10 + 64} {
		if err := t.q.Send(t.ctx, make([]byte, n), false); err == nil {
			t.Errorf("%d B were sent", n)
		}
	}
	t.finish()
}

func afterHang(t *fixture) {
	u := t.short()
	b := u.perWorker(16)
	x, err := u.dev.Load(u.ctx, u.spin(b, chip.BRISC, u.grid().Start))
	t.ok(err)
	t.ok(u.rq.Run(u.ctx, x))
	t0 := u.rq.Wait(u.ctx)
	for name, err := range map[string]error{
		"finish": u.rq.Wait(u.ctx),
		"run":    u.rq.Run(u.ctx, x),
		"write":  u.rq.Write(u.ctx, b, 0, make([]byte, 16)),
		"read":   u.rq.Read(u.ctx, b, 0, make([]byte, 16)),
	} {
		var hang *dispatch.HangError
		if !errors.As(err, &hang) {
			t.Errorf("%s after %v: error %v, want the *HangError", name, t0, err)
		}
	}
}

func foreignThings(t *fixture) {
	if t.device.One() {
		t.Skip("one card, opened twice, is two users of the same cores")
	}
	a, b := t.full(t.device.Open()), t.full(t.device.Open())
	buf := a.perWorker(16)
	x := a.load(a.mixProgram("x", a.grid(), buf, 1, 0))
	p := make([]byte, 16)
	before := b.allocated()
	for name, err := range map[string]error{
		`write: buffer "test"`:            b.rq.Write(t.ctx, buf, 0, p),
		`read: buffer "test"`:             b.rq.Read(t.ctx, buf, 0, p),
		`run: executable "x"`:             b.rq.Run(t.ctx, x),
		`load program "y": buffer "test"`: second(b.dev.Load(t.ctx, a.mixProgram("y", a.grid(), buf, 1, 0))),
		`capture "t"`: second(b.rq.Capture(t.ctx, "t", func(_ context.Context, r *reprise.Recorder) error {
			return r.Run(x)
		})),
	} {
		if !errors.Is(err, reprise.ErrWrongDevice) {
			t.Errorf("%s: error %v, want ErrWrongDevice", name, err)
		}
		t.says(err, name, "it belongs to another device")
	}
	if after := b.allocated(); after != before {
		t.Errorf("allocated before %v, after %v", before, after)
	}
	t.ok(b.rq.Wait(t.ctx))
}
