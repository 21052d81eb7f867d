package cards

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http/httptest"
	"os"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"
	"go.uber.org/goleak"

	"github.com/reprise-tt/reprise/allocator"
	"github.com/reprise-tt/reprise/cmd/reprise/internal/cli"
	"github.com/reprise-tt/reprise/internal/devtest"
	"github.com/reprise-tt/reprise/internal/expect"
	"github.com/reprise-tt/reprise/internal/promtext/promtest"
	"github.com/reprise-tt/reprise/internal/usage"
)

const gib = 1 << 30

// snapshot is a card that two processes share, an emulated device of each, and an unreadable file.
func snapshot() *usage.Snapshot {
	at := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	card := usage.Device{Name: "/dev/tenstorrent/0", PCI: "0000:01:00.0", Serial: "0100014511000001", Arch: "wormhole", NUMANode: 1}
	inside := card
	inside.Name = "/dev/tenstorrent/3" // a container calls it so
	emulated := usage.Device{Name: "emulated blackhole 0", PCI: "0000:01:00.0", Arch: "blackhole", NUMANode: -1, Emulated: true}
	memory := func(dram uint64) []usage.Record {
		return []usage.Record{
			{Kind: allocator.DRAM, Updates: 5, Usage: allocator.Usage{Capacity: 12 * gib, Allocated: dram, Peak: 2 * dram, Extents: 3}},
			{Kind: allocator.L1Small, Updates: 1},
		}
	}
	entry := func(pid int, command string, d usage.Device, dram uint64, log string) usage.Entry {
		return usage.Entry{PID: pid, Command: command, Opened: at, Device: d, Memory: memory(dram), Path: "/dev/shm/reprise." + log,
			Foreign: pid == 300, UID: 1 << 30} // no user's
	}
	return &usage.Snapshot{
		Time: at.Add(90 * time.Second), Dead: 2, Problems: []error{errors.New("/dev/shm/reprise.9.0000000f: not a usage log")},
		Entries: []usage.Entry{entry(100, "train", card, 6*gib, "100.0000000a"), entry(100, "train", emulated, gib, "100.0000000b"),
			entry(200, `a"b\c`, inside, 3*gib, "200.0000000c"), entry(300, "other", emulated, 0, "300.0000000d")},
	}
}

// A card is one device whatever a process calls it, and two emulated cards are two.
func TestMonitorGroupsByCard(t *testing.T) {
	r := newMonitorReport(snapshot())
	type device struct {
		Name string
		PIDs []int
		DRAM monitorTotal
	}
	var got []device
	for _, d := range r.Devices {
		g := device{Name: d.label(), DRAM: d.Memory[0]}
		for _, p := range d.Processes {
			g.PIDs = append(g.PIDs, p.PID)
		}
		got = append(got, g)
	}
	want := []device{
		{"0000:01:00.0", []int{100, 200}, monitorTotal{"DRAM", 12 * gib, 9 * gib}},
		{"emulated blackhole 0", []int{100}, monitorTotal{"DRAM", 12 * gib, gib}},
		{"emulated blackhole 0", []int{300}, monitorTotal{"DRAM", 12 * gib, 0}},
	}
	expect.NoDiff(t, got, want, "devices")
}

func TestMonitorSumsDontWrap(t *testing.T) {
	s := snapshot()
	s.Entries[0].Memory[0].Allocated = math.MaxUint64
	expect.Equal(t, newMonitorReport(s).Devices[0].Memory[0].Allocated, math.MaxUint64, "the sum")
	expect.Equal(t, share(math.MaxUint64, 1), 1, "a share")
}

func TestMonitorTable(t *testing.T) {
	var b bytes.Buffer
	devtest.Must(t, cli.Print(&b, newMonitorReport(snapshot()).print))
	want := string(expect.Value(os.ReadFile("testdata/table.txt"))(t))
	expect.NoDiff(t, b.String(), want, "b.String()")
}

func TestMonitorActivity(t *testing.T) {
	s := snapshot()
	s.Entries[0].Activity = usage.Activity{Samples: 10, Workers: 80, Busy: 200, Kernels: 77}
	s.Entries[0].Queues = []usage.QueueActivity{{Samples: 10, FetchIdle: 5, FetchBlocked: 1, DispatchIdle: 2, DispatchBlocked: 8},
		{Samples: 10}}
	r := newMonitorReport(s)
	recent := 0.125
	r.Devices[0].Processes[0].Activity.Recent = &recent
	var b bytes.Buffer
	devtest.Must(t, cli.Print(&b, r.printActivity))
	want := `
DEVICE        PID  WORKERS  BUSY NOW    BUSY  KERNELS  QUEUE  PREFETCHER IDLE  BLOCKED  DISPATCHER IDLE  BLOCKED
0000:01:00.0  100       80    12.5 %  25.0 %       77      0           50.0 %   10.0 %           20.0 %   80.0 %
                                                           1            0.0 %    0.0 %            0.0 %    0.0 %
`
	expect.NoDiff(t, b.String(), want, "b.String()")
	var text strings.Builder
	_, err := r.metrics().WriteTo(&text)
	devtest.Must(t, err)
	series, err := promtest.Parse(text.String())
	devtest.Must(t, err)
	const dev, of = `{device="0000:01:00.0",`, `pid="100",command="train",log="reprise.100.0000000a"}`
	for key, want := range map[string]float64{
		`reprise_worker_samples_total` + dev + of: 800, `reprise_worker_busy_samples_total` + dev + of: 200, `reprise_kernels_total` + dev + of: 77,
		`reprise_queue_samples_total` + dev + `queue="0",core="prefetcher",state="working",` + of: 4,
		`reprise_queue_samples_total` + dev + `queue="0",core="dispatcher",state="blocked",` + of: 8,
	} {
		if got, ok := series[key]; !ok || got != want {
			t.Errorf("%s is %v, want %v", key, got, want)
		}
	}
}

// BUSY NOW is of the samples between two looks, whatever came before.
func TestMonitorLooks(t *testing.T) {
	dir := t.TempDir()
	l := expect.Value(usage.Create(dir, usage.Device{Name: "card", NUMANode: -1}))(t)
	defer l.Close()
	look := (&MonitorCmd{Dir: dir}).look()
	for i, c := range []struct {
		samples, busy uint64
		want          string
	}{{0, 0, "none"}, {3, 30, "none"}, {5, 25, "0.5"}, {1005, 25, "0"}, {1007, 45, "0"}, {1015, 125, "1"}} {
		l.SetActivity(usage.Activity{Samples: c.samples, Workers: 10, Busy: c.busy})
		r, err := look()
		devtest.Must(t, err)
		got := "none"
		if a := r.Devices[0].Processes[0].Activity; a != nil && a.Recent != nil {
			got = fmt.Sprint(*a.Recent)
		}
		expect.Equal(t, got, c.want, "look %d", i)
	}
	if got, err := (&MonitorCmd{Dir: dir}).look()(); err != nil || got.Devices[0].Processes[0].Activity.Recent != nil {
		t.Errorf("a first look knows what happens now (%v)", err)
	}
}

func TestMonitorMetrics(t *testing.T) {
	h := metricsHandler(func() (*MonitorReport, error) { return newMonitorReport(snapshot()), nil })
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	if got := w.Header().Get("Content-Type"); w.Code != 200 || got != "text/plain; version=0.0.4; charset=utf-8" {
		t.Fatalf("status %d, content type %q", w.Code, got)
	}
	text := w.Body.String()
	for _, line := range []string{
		`# TYPE reprise_memory_allocated_bytes gauge`,
		`reprise_memory_allocated_bytes{device="0000:01:00.0",kind="DRAM",pid="100",command="train",log="reprise.100.0000000a"} 6442450944`,
		`reprise_memory_allocated_bytes{device="emulated blackhole 0",kind="DRAM",pid="100",command="train",log="reprise.100.0000000b"} 1073741824`,
		`reprise_memory_capacity_bytes{device="0000:01:00.0",kind="DRAM",pid="200",command="a\"b\\c",log="reprise.200.0000000c"} 12884901888`,
		`reprise_memory_peak_bytes{device="0000:01:00.0",kind="DRAM",pid="200",command="a\"b\\c",log="reprise.200.0000000c"} 6442450944`,
		`reprise_memory_extents{device="0000:01:00.0",kind="L1_SMALL",pid="100",command="train",log="reprise.100.0000000a"} 0`,
		`# TYPE reprise_memory_updates_total counter`,
		`reprise_memory_updates_total{device="0000:01:00.0",kind="DRAM",pid="100",command="train",log="reprise.100.0000000a"} 5`,
		`reprise_process_info{device="0000:01:00.0",name="/dev/tenstorrent/0",serial="0100014511000001",arch="wormhole",numa_node="1",emulated="false",uid="1073741824",pid="100",command="train",log="reprise.100.0000000a"} 1`,
		`reprise_process_open_time_seconds{device="0000:01:00.0",pid="100",command="train",log="reprise.100.0000000a"} 1.7723664e+09`,
		`reprise_logs{state="live"} 4`,
		`reprise_logs{state="dead"} 2`,
		`reprise_logs{state="unreadable"} 1`,
	} {
		if !strings.Contains(text, line+"\n") {
			t.Errorf("no line %s", line)
		}
	}
	if _, err := promtest.Parse(text); err != nil {
		t.Error(err)
	}
	w = httptest.NewRecorder()
	metricsHandler(func() (*MonitorReport, error) { return nil, errors.New("no such place") }).ServeHTTP(w,
		httptest.NewRequest("GET", "/metrics", nil))
	if w.Code != 500 || !strings.Contains(w.Body.String(), "no such place") {
		t.Errorf("a poll that fails: status %d, %q", w.Code, w.Body)
	}
}

var colours = regexp.MustCompile("\x1b\\[[0-9;]*m")

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

func TestMonitorViewShows(t *testing.T) {
	v := shown(snapshot(), 80, 16)
	want := string(expect.Value(os.ReadFile("testdata/view.txt"))(t))
	expect.NoDiff(t, screen(v), want, "screen(v)")
}

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
		expect.Equal(t, v.top, c.top, "after %v", c.key)
		expect.Equal(t, got[0], all[c.top], "after %v", c.key)
	}
	for _, k := range []tea.Key{{Code: 'q', Text: "q"}, {Code: 'c', Mod: tea.ModCtrl}, {Code: tea.KeyEscape}} {
		if cmd := press(v, k); cmd == nil || cmd() != tea.Quit() {
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

func TestMonitorViewRuns(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	in, keys := io.Pipe()
	defer keys.Close()
	var polls atomic.Int64 // one may be under way when the program ends
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
	expect.Value(p.Run())(t)
	if polls.Load() < 3 || !strings.Contains(out.String(), "/dev/tenstorrent/0") {
		t.Errorf("%d polls, output %q", polls.Load(), out.String())
	}
}
