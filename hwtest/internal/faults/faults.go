// Package faults has the cases of hangs, lost devices and processes that are killed.
package faults

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"os/exec"
	"slices"
	"strings"
	"time"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/dispatch"
	"github.com/reprise-tt/reprise/dispatch/cq"
	"github.com/reprise-tt/reprise/hwtest/rig"
	"github.com/reprise-tt/reprise/hwtest/target"
	"github.com/reprise-tt/reprise/kmd"
	"github.com/reprise-tt/reprise/sim"
)

// Cases are the cases of what goes wrong.
func Cases() (cs rig.Table) {
	rig.Each(&cs, "kernel hangs on %v", "an endless kernel is a *HangError with core, processor and waypoint",
		hungKernel, rig.Processors()...).Hang()
	for _, c := range brokenCommands() {
		cs.AddHang("bad command: "+c.name, "a senseless command stops its core at a waypoint",
			func(t *rig.T) { badCommand(t, c) })
	}
	for _, wild := range []struct {
		name string
		addr uint32
	}{{"far beyond L1", 0x7FFF0000}, {"misaligned", 0x40001}, {"unmapped registers", 0xFF000000}} {
		cs.AddHang("kernel touches "+wild.name, "when the device stops and knows why, that is the cause of the error",
			func(t *rig.T) { wildKernel(t, wild.addr) })
	}
	cs.Add("cancelled while waiting", "a wait ends with its context and the queue stays usable", cancelledWait)
	cs.Add("cancelled before sending", "a wait for room in a full queue ends with its context", cancelledSend)
	cs.Add("close with work in flight", "closing a device whose queue is full of work ends, and the next open works", closeBusy)
	cs.AddHang("close while a kernel hangs", "closing a hanging device ends, and the next open works", func(t *rig.T) {
		u := t.Opened(t.Patience()) // nothing waits for the kernel
		u.Start(u.Load(u.Spin(u.PerWorker(16), chip.TRISC0, u.Grid().End.Range())))
		// No program waits for the worker next.
		if err := u.Dev.Close(t.Context()); err != nil {
			t.Logf("close: %v", err)
		}
		t.WorksAgain()
	})
	cs.AddHang("close until a deadline", "Close cuts off work when its context ends, says so, and the next open works", func(t *rig.T) {
		u := t.Opened(t.Patience())
		x := u.Load(u.Spin(u.PerWorker(16), chip.BRISC, u.Grid().Start.Range()))
		u.Start(x)
		u.Start(x) // it waits for the worker, and so do the queue's kernels
		ctx, cancel := context.WithTimeout(u.Ctx, 10*time.Millisecond)
		defer cancel()
		t.Fails("close", u.Dev.Close(ctx), context.DeadlineExceeded)
		t.WorksAgain()
	})
	cs.Add("process is killed", "a process that is killed amid replays leaves nothing behind", killedProcess)
	cs.Add("foreign things", "buffers and programs of one device aren't used with another", foreignThings)
	cs.AddHang("dispatcher is stopped", "a dispatcher that is held in reset is a *HangError that says so", stoppedDispatcher)
	cs.Add("card off the bus", "a card that answers all ones is a *LostError, which later calls return too",
		offTheBus).Needs = rig.NeedEmulator
	cs.Add("double release", "a second release is ErrReleased and takes no memory from its new owner", doubleRelease)
	return cs
}

func hungKernel(t *rig.T, p chip.Processor) {
	u := t.Short()
	b := u.PerWorker(16)
	at := chip.Core{X: 2, Y: 3}
	u.Start(u.Load(u.Spin(b, p, at.Range())))
	hang := noProgress(u, u.Queue)
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
	if !found {
		t.Errorf("the report doesn't have core %v", at)
	}
	t.Says(errors.New(hang.Detail()), at.String())
	_ = u.Dev.Close(t.Context())
	t.WorksAgain()
}

func wildKernel(t *rig.T, addr uint32) {
	u := t.Short()
	b := u.PerWorker(16)
	u.Start(u.Load(rig.OneKernel(reprise.Kernel{
		Name: "touch", Image: u.Own("touch"), Processor: chip.BRISC, Cores: rig.On(1, 1), Args: rig.Args(addr, b.Addr()),
	}, b)))
	err := u.Queue.Wait(u.Ctx)
	var hang *dispatch.HangError
	card := t.Device.Kind == target.Silicon
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
	if t.Device.One() {
		t.OK(u.Dev.Recover(u.Ctx))
		u.Works("after the device was recovered")
	}
	_ = u.Dev.Close(t.Context())
	t.WorksAgain()
}

func noProgress(t *rig.T, q interface{ Wait(context.Context) error }) *dispatch.HangError {
	err := q.Wait(t.Ctx)
	t.Fails("after no progress", err, dispatch.ErrTimeout)
	return t.Hung(err)
}

func raw(first ...byte) []byte { return append(first, make([]byte, 16-len(first))...) }

type brokenCommand struct {
	name, waypoint    string
	onDispatch, stall bool
	commands          func(*rig.T, *cq.Builder)
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
		{"EXEC_BUF without the stall bit", "BADS", false, false, withTrace(12, 1)},
		{"stall bit without EXEC_BUF", "BADS", false, true, func(_ *rig.T, b *cq.Builder) { b.Wait(cq.Master, cq.Wait{}) }},
		{"EXEC_BUF_END outside of a trace", "BADS", false, false, func(_ *rig.T, b *cq.Builder) { b.ExecBufEnd() }},
		{"EXEC_BUF with pages of 32 bytes", "BADL", false, true, withTrace(5, 1)},
		{"EXEC_BUF without pages", "BADL", false, true, withTrace(12, 0)},
		{"commands after an EXEC_BUF", "BADS", false, true, func(t *rig.T, b *cq.Builder) {
			withTrace(12, 1)(t, b)
			b.Wait(cq.Master, cq.Wait{})
		}},
		{"trace without an end", "BADT", false, true, func(t *rig.T, b *cq.Builder) {
			cmds := t.Commands(func(b *cq.Builder) {
				for range 4096 / t.Layout().PCIeAlign() {
					b.Wait(cq.Master, cq.Wait{})
				}
			})
			t.PokePages(true, 1<<20, 4096, 0, cmds)
			withTrace(12, 1)(t, b)
		}},
		{"cache overflow", "BADL", false, false, func(_ *rig.T, b *cq.Builder) {
			b.Append(cq.PagedToRingbuffer{Reset: true, LogPageSize: 12, Base: 1 << 20, Length: 1<<20 + 64})
		}},
		{"payload longer than the commands", "BADL", false, false, func(_ *rig.T, b *cq.Builder) {
			at := b.Wait(cq.Master, cq.Wait{})
			cq.Put32(b.Bytes(), at-16+4, 60_000) // the relay's length
		}},
	}
}

func opaque(p []byte) func(*rig.T, *cq.Builder) {
	return func(_ *rig.T, b *cq.Builder) { b.Append(cq.RelayInline{Command: cq.Opaque{Payload: p}}) }
}

func bare(id byte) func(*rig.T, *cq.Builder) {
	return func(_ *rig.T, b *cq.Builder) {
		at := b.Stall()
		b.Bytes()[at] = id
	}
}

// withTrace appends the execution of a trace at 1 MiB of DRAM.
func withTrace(log, pages uint32) func(*rig.T, *cq.Builder) {
	return func(_ *rig.T, b *cq.Builder) { b.ExecBuf(cq.ExecBuf{Base: 1 << 20, LogPageSize: log, Pages: pages}) }
}

func badCommand(t *rig.T, broken brokenCommand) {
	u := t.ShortQueues()
	at, dispatcher := u.CQ.Cores()
	if broken.onDispatch {
		at = dispatcher
	}
	t.OK(u.CQ.Send(u.Ctx, u.Commands(func(b *cq.Builder) { broken.commands(u, b) }), broken.stall))
	hang := t.Hung(u.CQ.Wait(u.Ctx))
	for _, c := range hang.Cores {
		if c.Core == at && c.Processors[chip.BRISC].Waypoint != broken.waypoint {
			t.Errorf("%v, want BRISC at %s", c, broken.waypoint)
		}
	}
	t.Says(errors.New(hang.Detail()), broken.waypoint)
	_ = u.Dispatch.Close(t.Context())
	_ = u.KMD.Close()
	t.WorksAgain()
}

func cancelledWait(t *rig.T) {
	t = t.Queues(dispatch.Options{})
	release := t.Block()
	ctx, cancel := context.WithCancelCause(t.Ctx)
	mine := errors.New("a cause of the caller's")
	done := make(chan error, 1)
	go func() { done <- t.CQ.Wait(ctx) }()
	cancel(mine)
	t.Fails("the call", <-done, mine)
	release()
	t.Finish()
}

func cancelledSend(t *rig.T) {
	t = t.Queues(dispatch.Options{QueueMemory: 1 << 20})
	release := t.Block()
	ctx, cancel := context.WithTimeout(t.Ctx, time.Second)
	defer cancel()
	c := t.Grid().Start
	sent := 0
	var err error
	for ; err == nil && sent < 3*rig.PrefetchEntries; sent++ {
		err = t.CQ.Send(ctx, t.Commands(func(b *cq.Builder) {
			t.WriteTile(b, c, rig.Scratch, rig.Pattern(sent, 2000))
		}), false)
	}
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("after %d batches: error %v, want %v", sent, err, context.DeadlineExceeded)
	}
	release()
	for _, n := range []int{0, 16, 128<<10 + 64} {
		if t.CQ.Send(t.Ctx, make([]byte, n), false) == nil {
			t.Errorf("%d B were sent", n)
		}
	}
	t.Finish()
	t.InL1(c, rig.Scratch, rig.Pattern(sent-2, 2000), "the last batch that was taken")
}

func closeBusy(t *rig.T) {
	opened := t.Device.Open()
	for range t.Size(3, 1) {
		u := t.Unclosed(opened)
		x := u.Load(u.MixProgram("busy", u.Grid(), u.PerWorker(16), 1, 0))
		tr := u.Capture("busy", x)
		for range t.Size(50, 10) {
			u.Start(x)
			t.Replay(tr)
		}
		t.OK(u.Dev.Close(t.Context()))
		if card, ok := opened.(*sim.Card); ok {
			drv, err := card.Driver()
			t.OK(err)
			rig.Equal(t, drv.Node(0).OpenFiles(), 0, "files of the driver that are still open")
		}
	}
	t.WorksAgain()
}

func foreignThings(t *rig.T) {
	if t.Device.One() {
		t.Skip("one card, opened twice, is two users of the same cores")
	}
	a, b := t.Full(), t.Full()
	buf := a.PerWorker(16)
	x := a.Load(a.MixProgram("x", a.Grid(), buf, 1, 0))
	p := make([]byte, 16)
	before := b.Allocated()
	t.AllFail(reprise.ErrWrongDevice, map[string]error{
		`write: buffer "test"`:            b.Queue.Write(t.Ctx, buf, 0, p),
		`read: buffer "test"`:             b.Queue.Read(t.Ctx, buf, 0, p),
		`run: executable "x"`:             b.Queue.Run(t.Ctx, x),
		`load program "y": buffer "test"`: rig.Error(b.Dev.Load(t.Ctx, a.MixProgram("y", a.Grid(), buf, 1, 0))),
		`capture "t"`:                     rig.Error(b.Record("t", rig.Running(x))),
	}, "it belongs to another device")
	b.SameMemory(before)
	t.WaitFor(b.Queue)
}

func stoppedDispatcher(t *rig.T) {
	u := t.ShortQueues()
	core := u.DispatchCore()
	xy, reg := u.Virtual(core), uint64(u.Params.SoftReset)
	u.Store32(xy, reg, u.Load32(xy, reg)|chip.BRISC.ResetBit())
	t.OK(u.CQ.Send(u.Ctx, u.Commands(func(b *cq.Builder) {
		u.WriteTile(b, u.Grid().Start, rig.Scratch, rig.Pattern(1, 64))
	}), false))
	hang := noProgress(u, u.CQ)
	t.Says(errors.New(strings.ReplaceAll(hang.Detail(), "\n", " ")), "(dispatch): held in reset: BRISC")
	_ = u.Dispatch.Close(t.Context())
	_ = u.KMD.Close()
	t.WorksAgain()
}

func offTheBus(t *rig.T) {
	card, ok := t.Device.Open().(*sim.Card)
	if !ok {
		t.Skip("it isn't one card")
	}
	drv, err := card.Driver()
	t.OK(err)
	u := t.Unclosed(card, reprise.WithHangTimeout(time.Minute))
	x := u.Load(u.Spin(u.PerWorker(16), chip.BRISC, u.Grid().Start.Range()))
	u.Start(x)
	end, err := drv.Node(0).Inject("all-ones")
	t.OK(err)
	begun := time.Now()
	err = u.Queue.Wait(u.Ctx)
	_ = rig.As[*dispatch.LostError](t, err)
	first := rig.As[*kmd.LostError](t, err)
	if took := time.Since(begun); took > 20*time.Second {
		t.Errorf("it was found after %v", took)
	}
	t.Fails("run", u.Queue.Run(u.Ctx, x), first)
	t.Fails("wait", u.Queue.Wait(u.Ctx), first)
	end()
	t.OK(u.Dev.Recover(u.Ctx))
	u.Works("after the card came back")
	t.OK(u.Dev.Close(t.Context()))
	t.WorksAgain()
}

func doubleRelease(t *rig.T) {
	u := t.Opened(t.Patience())
	use := func(number uint32) (*rig.Mix, *reprise.Executable, *reprise.Trace) {
		f := u.Follow()
		x := f.Load("twice", number)
		return f, x, f.Capture("twice", x)
	}
	replay := func(f *rig.Mix, tr *reprise.Trace) {
		f.Replay(tr)
		f.Check("after a replay")
	}
	f, x, tr := use(1)
	replay(f, tr)
	free := func(context.Context) error { return f.Buffer.Release() }
	for _, release := range []func(context.Context) error{tr.Release, x.Release, free} {
		t.OK(release(t.Ctx))
	}
	g, _, second := use(2) // takes the places that the first ones had
	before := u.Allocated()
	t.AllFail(reprise.ErrReleased, map[string]error{
		"release trace":      tr.Release(t.Ctx),
		"release executable": x.Release(t.Ctx),
		"release buffer":     f.Buffer.Release(),
		"replay trace":       tr.Replay(t.Ctx),
		"run":                u.Queue.Run(t.Ctx, x),
		"write":              u.Queue.Write(t.Ctx, f.Buffer, 0, make([]byte, 16)),
	}, "released already")
	u.SameMemory(before)
	replay(g, second)
}

// killedProcess kills processes amid replays: the driver gets everything back.
func killedProcess(t *rig.T) {
	if len(t.Config.Victim) == 0 {
		t.Skip("hwtest.Config.Victim is not set: it starts a second process")
	}
	d, end, err := t.Device.Share()
	if errors.Is(err, target.ErrNotShared) {
		t.Skip(err)
	}
	t.OK(err)
	t.Ends(end)
	u := *t
	u.Device = d
	needsCleanup(&u)
	free := windows(&u)
	for range t.Size(2, 1) {
		killOne(&u, free)
		second, _, stderr := start(&u, "--once")
		if err := second.Wait(); err != nil {
			t.Fatalf("the process after the killed one: %v: %s", err, stderr)
		}
		u.Sub("this process", (*rig.T).WorksAgain)
	}
}

// needsCleanup skips where the driver can't stop a killed process's cores.
func needsCleanup(t *rig.T) {
	kd, err := kmd.Open(t.Ctx, t.Device.Open())
	t.OK(err)
	has := kd.Has(kmd.FeatureNOCCleanup)
	t.OK(kd.Close())
	if !has {
		t.Skipf("the driver has no %v, and nothing else stops what a killed process has started", kmd.FeatureNOCCleanup)
	}
}

func start(t *rig.T, args ...string) (*exec.Cmd, *bufio.Scanner, *bytes.Buffer) {
	argv := slices.Concat(t.Config.Victim, []string{t.Device.Given}, args)
	cmd := exec.CommandContext(t.Ctx, argv[0], argv[1:]...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	t.OK(err)
	return cmd, bufio.NewScanner(out), &stderr
}

func killOne(t *rig.T, free int) {
	victim, lines, stderr := start(t)
	for lines.Scan() && lines.Text() != rig.VictimRunning {
	}
	pid := victim.Process.Pid
	if got := held(t, pid); lines.Text() == rig.VictimRunning && !got.locked {
		t.Errorf("process %d holds nothing: %+v", pid, got)
	}
	t.OK(victim.Process.Kill())
	if err := victim.Wait(); err == nil || !strings.Contains(err.Error(), "killed") {
		t.Fatalf("process %d ended with %v before it was killed: %s", pid, err, stderr)
	}
	if stderr.Len() > 0 {
		t.Errorf("process %d: %s", pid, stderr)
	}
	for end := time.Now().Add(t.Patience()); ; time.Sleep(10 * time.Millisecond) {
		// A card that is served hears of the end a little later.
		got, windows := held(t, pid), windows(t)
		if !got.locked && got.files == 0 && windows == free {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("process %d is dead and still holds %+v; %d windows are free, want %d", pid, got, windows, free)
		}
	}
}

type holding struct {
	locked bool
	files  int // as far as the system tells
}

func held(t *rig.T, pid int) (h holding) {
	for _, p := range kmd.Inspect(t.Ctx, t.Device.Open()).Holders {
		if p.PID == pid {
			h.files = p.Files
		}
	}
	kd, err := kmd.Open(t.Ctx, t.Device.Open())
	t.OK(err)
	_, h.locked, err = kd.TestLock(kmd.LockPCIeDMA)
	t.OK(err, kd.Close())
	return h
}

// windows counts the windows that a process can get; 0 on silicon, where others would miss them.
func windows(t *rig.T) (n int) {
	if t.Device.Kind == target.Silicon {
		return 0
	}
	kd, err := kmd.Open(t.Ctx, t.Device.Open())
	t.OK(err)
	for ; err == nil; n++ {
		_, err = kd.OpenWindow(2<<20, kmd.WriteCombined)
	}
	if !errors.Is(err, kmd.ErrBusy) {
		t.Errorf("after %d windows: %v", n, err)
	}
	t.OK(kd.Close())
	return n
}
