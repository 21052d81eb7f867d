package hwtest

import (
	"bufio"
	"bytes"
	"errors"
	"os/exec"
	"slices"
	"strings"
	"time"

	"github.com/reprise-tt/reprise/hwtest/target"
	"github.com/reprise-tt/reprise/kmd"
)

// killedProcess kills processes that use the device, with SIGKILL, in the middle of replays. What they had of the
// driver's must come back, and the next process must be able to use the device at once.
func killedProcess(t *fixture) {
	if len(t.config.victim) == 0 {
		t.Skip("nobody said how to start a second process: hwtest.Config.Victim")
	}
	d, end, err := t.device.Share()
	if errors.Is(err, target.ErrNotShared) {
		t.Skip(err)
	}
	t.ok(err)
	t.Cleanup(func() { t.ok(end()) })
	u := *t
	u.device = d
	u.needsCleanup()
	free := u.windows()
	for range t.size(2, 1) {
		u.killOne(free)
		// The next process, then this one.
		second, _, stderr := u.start("--once")
		if err := second.Wait(); err != nil {
			t.Fatalf("the process after the killed one: %v: %s", err, stderr)
		}
		u.sub("this process", (*fixture).worksAgain)
	}
}

// needsCleanup skips the case where the driver can't stop a killed process's cores: they would go on writing to memory
// that is no longer its own.
func (t *fixture) needsCleanup() {
	t.Helper()
	kd, err := kmd.Open(t.ctx, t.device.Open())
	t.ok(err)
	has := kd.Has(kmd.FeatureNOCCleanup)
	t.ok(kd.Close())
	if !has {
		t.Skipf("the driver has no %v, and nothing else stops what a killed process has started", kmd.FeatureNOCCleanup)
	}
}

// start starts a process that uses the device.
func (t *fixture) start(args ...string) (*exec.Cmd, *bufio.Scanner, *bytes.Buffer) {
	t.Helper()
	argv := slices.Concat(t.config.victim, []string{t.device.Given}, args)
	cmd := exec.CommandContext(t.ctx, argv[0], argv[1:]...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	t.ok(err)
	return cmd, bufio.NewScanner(out), &stderr
}

// killOne kills a process while it replays, and waits until nothing of it is left.
func (t *fixture) killOne(free int) {
	t.Helper()
	victim, lines, stderr := t.start()
	for lines.Scan() && lines.Text() != VictimRunning {
	}
	pid := victim.Process.Pid
	if got := t.held(pid); lines.Text() == VictimRunning && !got.locked {
		t.Errorf("process %d holds nothing: %+v", pid, got)
	}
	t.ok(victim.Process.Kill())
	if err := victim.Wait(); err == nil || !strings.Contains(err.Error(), "killed") {
		t.Fatalf("process %d ended with %v before it was killed: %s", pid, err, stderr)
	}
	if stderr.Len() > 0 {
		t.Errorf("process %d: %s", pid, stderr)
	}
	for end := time.Now().Add(t.patience()); ; time.Sleep(10 * time.Millisecond) {
		// The kernel has cleaned up when a process is gone; a card that is served hears of it a little later.
		got, windows := t.held(pid), t.windows()
		if !got.locked && got.files == 0 && windows == free {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("process %d is dead and still holds %+v; %d windows are free, want %d", pid, got, windows, free)
		}
	}
}

// holding is what a process has of the driver's.
type holding struct {
	locked bool
	files  int // as far as the system tells
}

func (t *fixture) held(pid int) (h holding) {
	t.Helper()
	for _, p := range kmd.Inspect(t.ctx, t.device.Open()).Holders {
		if p.PID == pid {
			h.files = p.Files
		}
	}
	kd, err := kmd.Open(t.ctx, t.device.Open())
	t.ok(err)
	_, h.locked, err = kd.TestLock(kmd.LockPCIeDMA)
	t.ok(errors.Join(err, kd.Close()))
	return h
}

// windows counts the windows that a process can get. On silicon others would miss them meanwhile, so there it is 0.
func (t *fixture) windows() (n int) {
	t.Helper()
	if t.device.Kind == target.Silicon {
		return 0
	}
	kd, err := kmd.Open(t.ctx, t.device.Open())
	t.ok(err)
	for ; err == nil; n++ {
		_, err = kd.OpenWindow(2<<20, kmd.WriteCombined)
	}
	if !errors.Is(err, kmd.ErrBusy) {
		t.Errorf("after %d windows: %v", n, err)
	}
	t.ok(kd.Close())
	return n
}
