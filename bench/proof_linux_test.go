//go:build amd64 || arm64 || riscv64

package bench

import (
	"context"
	"encoding/json"
	"errors"
	"math"
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
	"github.com/reprise-tt/reprise/bench/probe"
	"github.com/reprise-tt/reprise/sim"
)

// So many replays fit into the rings of the queue and of the emulator's interface.
const proofBurst = 200

// proof is what the child of TestReplaysAreNoSystemCalls found out.
type proof struct {
	Replays  int
	Syscalls map[string]uint64 // of the submitting thread, while it submits
	Waiting  uint64            // of the same thread, while it waits
	Mallocs  uint64            // of the whole process, in the burst with the fewest: the emulator may allocate now and then
	Lost     probe.Lost
}

// Replays are no system call and no allocation: counted by the kernel, for the thread that submits, from each
// burst's first replay to its last, all bursts together. Between bursts, while the device catches up,
// the thread sleeps until another one has waited for it, and the kernel's count of that is kept apart; that it isn't zero
// shows that the count counts.
//
// Two things are kept out, both of Go and of the emulator and not of a replay. Go's scheduler interrupts threads with a
// signal, which ends in a call: the child turns that off. And an emulated device is a thread of this process, which
// would have to be woken if it slept: it stays awake. On a machine with more to do than processors,
// a thread that is interrupted while it holds a lock of Go's runtime makes others sleep now and then, so the test has
// several attempts; each attempt counts all of its replays.
func TestReplaysAreNoSystemCalls(t *testing.T) {
	m := probe.Detect()
	if *proofReplays == 0 {
		t.Skip("give -replays 100000: on a busy machine the Go scheduler's own system calls are counted too")
	}
	for _, f := range []probe.Feature{probe.BPF, probe.RawTracepoints} {
		if err := m.Missing(f); err != nil {
			t.Skip(err)
		}
	}
	if runtime.NumCPU() < 2 {
		t.Skip("the device that stays awake and the host need a processor each")
	}
	const attempts = 5
	for n := 1; ; n++ {
		p := proveInChild(t)
		if p.Replays < *proofReplays || p.Lost.Any() {
			t.Fatalf("%d replays, lost %+v", p.Replays, p.Lost)
		}
		if p.Waiting == 0 {
			t.Fatal("no system calls while the thread slept: nothing was counted")
		}
		if len(p.Syscalls) == 0 && p.Mallocs == 0 {
			t.Logf("%d replays, attempt %d: no system call, no allocation", p.Replays, n)
			return
		}
		if n == attempts {
			t.Fatalf("%d replays: system calls %v and %d allocations, want none", p.Replays, p.Syscalls, p.Mallocs)
		}
		t.Logf("%d replays, attempt %d: system calls %v, %d allocations", p.Replays, n, p.Syscalls, p.Mallocs)
	}
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

// prove is the child.
func prove(ctx context.Context) (_ *proof, err error) {
	debug.SetGCPercent(-1)
	d, err := reprise.Open(ctx, sim.Blackhole(sim.Awake()))
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, d.Close()) }()
	s := &session{dev: d}
	x, err := s.load(ctx, shape{name: "smallest", groups: 1, cores: 1})
	if err != nil {
		return nil, err
	}
	q := d.Queue(0)
	tr, err := q.Capture(ctx, "smallest", func(r *reprise.Recorder) error { return r.Run(x) })
	if err != nil {
		return nil, err
	}
	// Waiting yields the thread, which a goroutine that is locked to it can't do cheaply: another one waits.
	begin, done := make(chan struct{}), make(chan error)
	go func() {
		for range begin {
			done <- q.Finish(ctx)
		}
	}()
	defer close(begin)

	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	p, err := probe.Start(probe.Config{Kinds: []probe.Kind{probe.Calls}, Slow: time.Hour})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, p.Close()) }()
	tid := unix.Gettid()
	out := &proof{Syscalls: map[string]uint64{}, Mallocs: math.MaxUint64}
	var before, after runtime.MemStats
	const submitting, waiting = 1, 2
	for out.Replays < *proofReplays {
		runtime.ReadMemStats(&before)
		p.Stage(submitting)
		for range proofBurst {
			if err := tr.Replay(ctx); err != nil {
				return nil, err
			}
		}
		p.Stage(waiting)
		runtime.ReadMemStats(&after)
		out.Replays += proofBurst
		out.Mallocs = min(out.Mallocs, after.Mallocs-before.Mallocs)
		begin <- struct{}{}
		if err := <-done; err != nil {
			return nil, err
		}
	}
	sn, err := p.Snapshot()
	if err != nil {
		return nil, err
	}
	if !slices.Contains(sn.Used, "system calls: raw tracepoints") {
		return nil, errors.New("system calls aren't counted")
	}
	if th, ok := sn.Thread(tid, submitting); ok {
		for _, c := range th.Calls {
			out.Syscalls[c.Name] += c.Count
		}
	}
	if th, ok := sn.Thread(tid, waiting); ok {
		out.Waiting = th.Syscalls()
	}
	out.Lost = sn.Lost
	return out, tr.Release(ctx)
}
