package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/internal/bench/probe"
	"github.com/reprise-tt/reprise/sim"
)

// So many replays fit into the rings of the queue and of the emulator's interface.
const proofBurst = 200

// Go's scheduler asks a goroutine that has run for 10 ms to make room: not in a burst this short.
const unasked = 5 * time.Millisecond

// proof is what the child of TestReplaysAreNoSystemCalls found out.
type proof struct {
	Replays     int               // in bursts that count
	Syscalls    map[string]uint64 // of the submitting thread, in those
	Interrupted int               // bursts that don't count, because the thread was without a processor in them
	Waiting     uint64            // system calls of the same thread between bursts
	Mallocs     uint64            // of the whole process, in the burst with the fewest
	Lost        probe.Lost
}

// The kernel counts the calls of the thread that submits, in bursts. Between bursts the thread
// sleeps until another one has waited for the device; that calls are counted then shows that the
// count counts.
//
// Three things are no part of a replay. Go's scheduler interrupts threads with a signal, which ends
// in a call: the child turns that off. It also asks a goroutine that has had its processor for 10
// ms to make room, and one that is locked to its thread does so by futex calls (runtime.newstack,
// goschedImpl, stoplockedm): bursts of more than 5 ms, which the kernel has interrupted, don't
// count. And an emulated device is a thread of this process, which would have to be woken: it stays
// awake.
func TestReplaysAreNoSystemCalls(t *testing.T) {
	m := probe.Detect()
	for _, f := range []probe.Feature{probe.BPF, probe.RawTracepoints} {
		if err := m(f); err != nil {
			t.Skip(err)
		}
	}
	if raced {
		t.Skip("the race detector makes calls of its own")
	}
	if runtime.NumCPU() < 2 {
		t.Skip("the device that stays awake and the host need a processor each")
	}
	p := proveInChild(t)
	if p.Replays < *proofReplays || p.Lost.Any() {
		t.Fatalf("%d replays, lost %+v", p.Replays, p.Lost)
	}
	if p.Waiting == 0 {
		t.Fatal("no system calls while the thread slept: nothing was counted")
	}
	if len(p.Syscalls) != 0 || p.Mallocs != 0 {
		t.Fatalf("%d replays: system calls %v and %d allocations, want none", p.Replays, p.Syscalls, p.Mallocs)
	}
	t.Logf("%d replays: no system call, no allocation; %d calls between bursts; %d bursts were interrupted", p.Replays, p.Waiting,
		p.Interrupted)
}

func proveInChild(t *testing.T) proof {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-prove", "-replays", strconv.Itoa(*proofReplays))
	cmd.Env = append(os.Environ(), "GODEBUG=asyncpreemptoff=1")
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	var p proof
	if err := json.Unmarshal(out, &p); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return p
}

func prove(ctx context.Context) (_ *proof, err error) {
	debug.SetGCPercent(-1)
	d, err := reprise.Open(ctx, sim.Blackhole(sim.Awake()), reprise.WithQueueWorkers(0, chip.Range{}))
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, d.Close(ctx)) }()
	s := &session{ctx: ctx, dev: d}
	x, err := s.load(minimal)
	if err != nil {
		return nil, err
	}
	q := d.Queue(0)
	tr, err := q.Capture(ctx, "smallest", func(_ context.Context, r *reprise.Recorder) error { return r.Run(x) })
	if err != nil {
		return nil, err
	}
	// A goroutine that is locked to its thread can't yield it cheaply: another one waits.
	type waited struct {
		at  time.Time // before the thread could go on
		err error
	}
	begin, done := make(chan struct{}), make(chan waited)
	go func() {
		for range begin {
			err := q.Wait(ctx)
			done <- waited{time.Now(), err}
		}
	}()
	defer close(begin)

	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	out := &proof{Syscalls: map[string]uint64{}}
	wait := func() (time.Time, error) {
		begin <- struct{}{}
		w := <-done
		return w.at, w.err
	}
	burst := func() error {
		for range proofBurst {
			if err := tr.Replay(ctx); err != nil {
				return err
			}
		}
		return nil
	}
	// To ask for the number of allocations stops the world: calls are counted in other bursts.
	if out.Mallocs, err = fewestAllocations(burst, func() error { _, err := wait(); return err }); err != nil {
		return nil, err
	}
	p, err := probe.Start(probe.Config{Kinds: []probe.Kind{probe.Calls}, Slow: time.Hour})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, p.Close()) }()
	const between = 0 // the stage; each burst is one of its own
	counted := map[int]bool{}
	for stage := 1; out.Replays < *proofReplays; stage++ {
		if out.Interrupted > 1000+*proofReplays/proofBurst {
			return nil, fmt.Errorf("%d bursts were interrupted: the machine is too busy", out.Interrupted)
		}
		// Behind it the goroutine is scheduled anew, with 10 ms to run.
		start, err := wait()
		if err != nil {
			return nil, err
		}
		p.Stage(uint32(stage))
		err = burst()
		p.Stage(between)
		took := time.Since(start)
		if err != nil {
			return nil, err
		}
		if took > unasked {
			out.Interrupted++
			continue
		}
		counted[stage] = true
		out.Replays += proofBurst
	}
	if _, err := wait(); err != nil {
		return nil, err
	}
	sn, err := p.Snapshot()
	if err != nil {
		return nil, err
	}
	if !slices.Contains(sn.Used, "system calls: raw tracepoints") {
		return nil, errors.New("system calls aren't counted")
	}
	tid := unix.Gettid()
	for i := range sn.Threads {
		switch th := &sn.Threads[i]; {
		case th.TID != tid:
		case th.Stage == between:
			out.Waiting = th.Syscalls()
		case counted[th.Stage]:
			for _, c := range th.Calls {
				out.Syscalls[c.Name] += c.Count
			}
		}
	}
	out.Lost = sn.Lost
	return out, tr.Release(ctx)
}
