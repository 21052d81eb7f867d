package faults

import (
	"bufio"
	"bytes"
	"errors"
	"os/exec"
	"slices"
	"strings"
	"time"

	"github.com/reprise-tt/reprise/hwtest/rig"
	"github.com/reprise-tt/reprise/hwtest/target"
	"github.com/reprise-tt/reprise/kmd"
)

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
