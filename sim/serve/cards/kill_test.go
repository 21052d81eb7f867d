//go:build linux

package cards_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/dispatch/firmware/relay"
	"github.com/reprise-tt/reprise/hwtest"
	"github.com/reprise-tt/reprise/hwtest/target"
	"github.com/reprise-tt/reprise/internal/effort"
	"github.com/reprise-tt/reprise/kmd"
	"github.com/reprise-tt/reprise/sim"
	"github.com/reprise-tt/reprise/sim/serve/cards"
)

const asUser = "reprise-card-user"

func user(what, path string) int {
	var c kmd.Target = cards.Socket(path)
	what, far := strings.CutPrefix(what, "far-")
	if far {
		d, err := target.Parse("far:socket:"+path, nil)
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		c = d.Open()
	}
	if err := hwtest.Victim(context.Background(), c, what == "once", os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

const files = 2*hwtest.VictimQueues + 1

func (s *served) start(t *testing.T, what string) (*exec.Cmd, *bufio.Scanner, *bytes.Buffer) {
	t.Helper()
	cmd := exec.Command(os.Args[0], asUser, what, s.path)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	return cmd, bufio.NewScanner(out), &stderr
}

func TestKilledProcess(t *testing.T) {
	onCards(t, func(t *testing.T, s *served) {
		d := value(s.Driver())(t)
		free := s.resources(t, true)
		for range 2 {
			victim, lines, stderr := s.start(t, "forever")
			for lines.Scan() && lines.Text() != hwtest.VictimRunning {
			}
			if n := d.Node(0).OpenFiles(); n != files {
				t.Errorf("%d files are open, want the victim's %d", n, files)
			}
			if got := s.resources(t, false); !got.locked || got.windows >= free.windows {
				t.Errorf("the victim holds nothing: %+v, and free are %+v", got, free)
			}
			c := kmd.Inspect(t.Context(), cards.Socket(s.path))
			if len(c.Holders) != 1 || c.Holders[0].PID != victim.Process.Pid || c.Holders[0].Files != files || c.Holders[0].Name == "" {
				t.Errorf("holders %v, want process %d with %d files", c.Holders, victim.Process.Pid, files)
			}
			must(t, victim.Process.Kill())
			if err := victim.Wait(); err == nil || !strings.Contains(err.Error(), "killed") {
				t.Errorf("the victim ended with %v: %s", err, stderr)
			}
			if stderr.Len() > 0 {
				t.Errorf("the victim: %s", stderr)
			}
			s.quiet(t)
			if got := s.resources(t, true); got != free {
				t.Errorf("held after the victim's end: %+v, want %+v", got, free)
			}

			second, _, stderr := s.start(t, "once")
			if err := second.Wait(); err != nil {
				t.Errorf("the second process: %v: %s", err, stderr)
			}
		}
	})
}

func TestKilledProcessOfFarChip(t *testing.T) {
	effort.Long(t)
	m := sim.N300(sim.Resident())
	t.Cleanup(func() { must(t, m.Close()) })
	s := offer(t, m.Card(0))
	d := value(s.Driver())(t)
	for range 3 {
		victim, lines, stderr := s.start(t, "far-forever")
		for lines.Scan() && lines.Text() != hwtest.VictimRunning {
		}
		if lines.Text() != hwtest.VictimRunning {
			t.Fatalf("the victim doesn't run: %s", stderr)
		}
		time.Sleep(2 * time.Millisecond) // somewhere in its work
		must(t, victim.Process.Kill())
		if err := victim.Wait(); err == nil || !strings.Contains(err.Error(), "killed") {
			t.Fatalf("the victim ended with %v: %s", err, stderr)
		}
		for deadline := time.Now().Add(20 * time.Second); d.Node(0).OpenFiles() != 0; time.Sleep(time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("%d files are still open", d.Node(0).OpenFiles())
			}
		}
		near := value(kmd.Open(t.Context(), s.Card))(t)
		ch := s.Chip().Topology()
		for x := range uint8(10) {
			for y := range uint8(12) {
				if xy := (chip.XY{X: x, Y: y}); ch.Tile(xy).Kind == chip.Ethernet { // of which one carried the queues
					v, err := near.Read32(xy, relay.State)
					for deadline := time.Now().Add(20 * time.Second); err == nil && v == relay.Running && time.Now().Before(deadline); {
						time.Sleep(time.Millisecond) // it ends at its next look
						v, err = near.Read32(xy, relay.State)
					}
					if err != nil || v == relay.Running {
						t.Errorf("the program on Ethernet tile %v still runs: %v", xy, err)
					}
				}
			}
		}
		must(t, near.Close())
		second, _, stderr := s.start(t, "far-once")
		if err := second.Wait(); err != nil {
			t.Fatalf("the second process: %v: %s", err, stderr)
		}
		for i := range m.Spec().Chips {
			if err := m.Chip(i).Fault(); err != nil {
				t.Fatalf("chip %d: %v", i, err)
			}
		}
	}
}

func (s *served) quiet(t *testing.T) {
	t.Helper()
	d := value(s.Driver())(t)
	for deadline := time.Now().Add(20 * time.Second); d.Node(0).OpenFiles() != 0; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%d files are still open", d.Node(0).OpenFiles())
		}
	}
	held := map[chip.XY]bool{}
	for _, c := range queueCores(s.Chip().Topology()) {
		xy := value(s.Chip().Topology().Virtual(c))(t)
		held[xy] = true
	}
	var before []uint64
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		if err := s.Chip().Fault(); err != nil {
			t.Fatalf("the chip: %v", err)
		}
		var now []uint64
		for _, c := range s.Chip().Cores() {
			now = append(now, c.Retired)
			if held[c.Virtual] {
				t.Fatalf("processor %v of the queue core at %v isn't in reset", c.Core, c.Virtual)
			}
		}
		if len(now) > 0 && slices.Equal(now, before) {
			return
		}
		if before = now; time.Now().After(deadline) {
			t.Fatal("processors still run")
		}
	}
}

// queueCores are the cores of the command queues (package dispatch, queueCores).
func queueCores(c *chip.Chip) (l []chip.Core) {
	w, h := c.Grid()
	for i := range 2 * hwtest.VictimQueues {
		if c.Arch() == chip.Wormhole {
			l = append(l, chip.Core{X: i, Y: h - 1})
		} else {
			l = append(l, chip.Core{X: w - 1, Y: i})
		}
	}
	return l
}

type resources struct {
	windows, regions int
	locked           bool
}

// Outbound regions are counted only if nothing runs (see hwtest.Victim).
func (s *served) resources(t *testing.T, quiet bool) (r resources) {
	t.Helper()
	d := value(kmd.Open(t.Context(), s.Card))(t)
	var err error
	for ; err == nil; r.windows++ {
		_, err = d.OpenWindow(2<<20, kmd.WriteCombined)
	}
	if !errors.Is(err, kmd.ErrBusy) {
		t.Errorf("after %d windows: %v", r.windows, err)
	}
	for err = nil; err == nil && quiet; r.regions++ {
		_, err = d.PinHostMemory(4096)
	}
	if quiet && !errors.Is(err, kmd.ErrBusy) {
		t.Errorf("after %d pins: %v", r.regions, err)
	}
	if _, r.locked, err = d.TestLock(kmd.LockPCIeDMA); err != nil {
		t.Error(err)
	}
	must(t, d.Close())
	return r
}
