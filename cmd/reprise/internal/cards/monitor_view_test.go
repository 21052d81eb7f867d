package cards

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/reprise-tt/reprise/internal/usage"
)

var colours = regexp.MustCompile("\x1b\\[[0-9;]*m")

// screen is what a view shows, without colours and trailing space.
func screen(v *monitorView) string {
	var out []string
	for l := range strings.Lines(colours.ReplaceAllString(v.View().Content, "")) {
		out = append(out, strings.TrimRight(l, " \n"))
	}
	return strings.Join(out, "\n")
}

func press(v *monitorView, k tea.Key) tea.Cmd {
	_, cmd := v.Update(tea.KeyPressMsg(k))
	return cmd
}

func shown(s *usage.Snapshot, width, height int) *monitorView {
	v := newMonitorView(func() (*MonitorReport, error) { return newMonitorReport(s), nil }, time.Hour)
	v.Update(tea.WindowSizeMsg{Width: width, Height: height})
	v.Update(v.Init()())
	return v
}

// A device that several processes share has bars of its own.
func TestMonitorViewShows(t *testing.T) {
	v := shown(snapshot(), 80, 16)
	want := `0000:01:00.0  /dev/tenstorrent/0  wormhole  board 0100014511000001  node 1
  DRAM     ███████████████░░░░░  75.0 %  9.0 GiB of 12 GiB
    100 train, 1073741824, open for 1m30s
      DRAM     ██████████░░░░░░░░░░  50.0 %  6.0 GiB, peak 12 GiB, 3 extents
    200 a"b\c, 1073741824, open for 1m30s
      DRAM     █████░░░░░░░░░░░░░░░  25.0 %  3.0 GiB, peak 6.0 GiB, 3 extents

emulated blackhole 0
    100 train, 1073741824, open for 1m30s
      DRAM     ██░░░░░░░░░░░░░░░░░░   8.3 %  1.0 GiB, peak 2.0 GiB, 3 extents

emulated blackhole 0
    300 (container) other, 1073741824, open for 1m30s
unreadable: /dev/shm/reprise.9.0000000f: not a usage log

q quit  space now   3 devices, 4 logs, 12:01:30`
	if diff := cmp.Diff(want, screen(v)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// However small the terminal is, lines fit and the last one says what keys do.
func TestMonitorViewFits(t *testing.T) {
	for _, size := range [][2]int{{80, 24}, {40, 10}, {20, 3}, {1, 1}, {300, 100}} {
		v := shown(snapshot(), size[0], size[1])
		lines := strings.Split(screen(v), "\n")
		for i, l := range lines[:len(lines)-1] {
			if n := len([]rune(l)); n > max(size[0], 25) { // a name and the shortest bar
				t.Errorf("%v: line %d has %d characters: %q", size, i, n, l)
			}
		}
		if len(lines) > max(3, size[1]) || !strings.HasPrefix(lines[len(lines)-1], "q quit") {
			t.Errorf("%v: %d lines, the last is %q", size, len(lines), lines[len(lines)-1])
		}
	}
}

// A little memory in use is visible, and much warns.
func TestMonitorBars(t *testing.T) {
	v := newMonitorView(nil, time.Second)
	for _, c := range []struct {
		used, capacity uint64
		full           int
		colour         string
	}{
		{0, 100, 0, "32"}, {1, 1000, 1, "32"}, {50, 100, 10, "32"}, {75, 100, 15, "33"}, {90, 100, 18, "31"},
		{100, 100, 20, "31"}, {1 << 63, 1, 20, "31"}, {5, 0, 1, "32"},
	} {
		got := v.bar("x ", c.used, c.capacity, 20, "")
		if n := strings.Count(got, "█"); n != c.full || strings.Count(got, "░") != 20-c.full ||
			!strings.HasPrefix(got, "x \x1b["+c.colour+"m") {
			t.Errorf("%d of %d: %q, want %d full in colour %s", c.used, c.capacity, got, c.full, c.colour)
		}
	}
}

func TestMonitorViewKeys(t *testing.T) {
	v := shown(snapshot(), 80, 8)
	all := strings.Split(screen(shown(snapshot(), 80, 100)), "\n")
	const page, lines = 6, 14
	for _, c := range []struct {
		key tea.Key
		top int
	}{
		{tea.Key{Code: tea.KeyDown}, 1},
		{tea.Key{Code: tea.KeyPgDown}, 1 + page},
		{tea.Key{Code: tea.KeyUp}, page},
		{tea.Key{Code: tea.KeyEnd}, lines - page},
		{tea.Key{Code: tea.KeyDown}, lines - page},
		{tea.Key{Code: tea.KeyPgUp}, lines - 2*page},
		{tea.Key{Code: tea.KeyHome}, 0},
		{tea.Key{Code: tea.KeyUp}, 0},
		{tea.Key{Code: 'x', Text: "x"}, 0},
	} {
		if cmd := press(v, c.key); cmd != nil {
			t.Errorf("%v starts something", c.key)
		}
		got := strings.Split(screen(v), "\n")
		if v.top != c.top || got[0] != all[c.top] {
			t.Errorf("after %v line %d is first, %q; want %d, %q", c.key, v.top, got[0], c.top, all[c.top])
		}
	}
	for _, k := range []tea.Key{{Code: 'q', Text: "q"}, {Code: 'c', Mod: tea.ModCtrl}, {Code: tea.KeyEscape}} {
		cmd := press(v, k)
		if cmd == nil {
			t.Errorf("%v doesn't end it", k)
		} else if _, ok := cmd().(tea.QuitMsg); !ok {
			t.Errorf("%v doesn't end it", k)
		}
	}
}

// A poll on request replaces the one that is due, so that polls don't multiply.
func TestMonitorViewLooks(t *testing.T) {
	v := shown(snapshot(), 80, 24)
	first := due(v.polls)
	cmd := press(v, tea.Key{Code: tea.KeySpace, Text: " "})
	if cmd == nil {
		t.Fatal("space doesn't poll")
	}
	if _, cmd := v.Update(first); cmd != nil {
		t.Error("the poll that was due before is made as well")
	}
	v.Update(cmd())
	if _, cmd := v.Update(due(v.polls)); cmd == nil {
		t.Error("there is no next poll")
	}
	v.poll = func() (*MonitorReport, error) { return nil, errors.New("gone") }
	_, cmd = v.Update(v.read())
	if _, ok := cmd().(tea.QuitMsg); !ok || v.err == nil {
		t.Errorf("a poll that fails doesn't end it: %v", v.err)
	}
}

func TestMonitorViewOfNothing(t *testing.T) {
	if got := screen(shown(&usage.Snapshot{}, 80, 5)); !strings.HasPrefix(got, "No process of this machine") ||
		!strings.Contains(got, "0 devices, 0 logs") {
		t.Errorf("%q", got)
	}
}

// The whole program shows, polls again, ends by a key and leaves nothing running.
func TestMonitorViewRuns(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	in, keys := io.Pipe()
	defer keys.Close()
	var polls atomic.Int64 // the program doesn't wait for a poll that is under way when it ends
	v := newMonitorView(func() (*MonitorReport, error) {
		if polls.Add(1) == 3 {
			go fmt.Fprint(keys, "q")
		}
		return newMonitorReport(snapshot()), nil
	}, time.Millisecond)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var out bytes.Buffer
	p := tea.NewProgram(v, tea.WithContext(ctx), tea.WithInput(in), tea.WithOutput(&out), tea.WithoutSignalHandler(),
		tea.WithWindowSize(80, 24))
	if _, err := p.Run(); err != nil {
		t.Fatal(err)
	}
	if polls.Load() < 3 || !strings.Contains(out.String(), "/dev/tenstorrent/0") {
		t.Errorf("%d polls, output %q", polls.Load(), out.String())
	}
}
