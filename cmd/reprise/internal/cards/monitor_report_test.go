package cards

import (
	"bytes"
	"errors"
	"math"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/reprise-tt/reprise/cmd/reprise/internal/cli"
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
			{Kind: usage.DRAM, Updates: 5, Value: usage.Value{Capacity: 12 * gib, Allocated: dram, Peak: 2 * dram, Extents: 3}},
			{Kind: usage.L1Small, Updates: 1},
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

// A card is one device whatever a process calls it; two emulated cards are two.

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
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("devices (-want +got):\n%s", diff)
	}
}

// A process that claims everything can't make a sum wrap.
func TestMonitorSumsDontWrap(t *testing.T) {
	s := snapshot()
	s.Entries[0].Memory[0].Allocated = math.MaxUint64
	if got := newMonitorReport(s).Devices[0].Memory[0].Allocated; got != math.MaxUint64 {
		t.Errorf("the sum is %d", got)
	}
	if got := share(math.MaxUint64, 1); got != 1 {
		t.Errorf("a share of %v", got)
	}
}

func TestMonitorTable(t *testing.T) {
	var b bytes.Buffer
	if err := cli.Print(&b, newMonitorReport(snapshot()).print); err != nil {
		t.Fatal(err)
	}
	want := `DEVICE                PID              COMMAND  USER        KIND  ALLOCATED  CAPACITY  USE     PEAK     EXTENTS
0000:01:00.0          100              train    1073741824  DRAM  6.0 GiB    12 GiB    50.0 %  12 GiB   3
0000:01:00.0          200              a"b\c    1073741824  DRAM  3.0 GiB    12 GiB    25.0 %  6.0 GiB  3
emulated blackhole 0  100              train    1073741824  DRAM  1.0 GiB    12 GiB    8.3 %   2.0 GiB  3
emulated blackhole 0  300 (container)  other    1073741824  DRAM  0 B        12 GiB    0.0 %   0 B      3
unreadable: /dev/shm/reprise.9.0000000f: not a usage log
`
	if diff := cmp.Diff(want, b.String()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// A series comes once, labels are escaped, every family has a type.
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
		`reprise_process_info{device="0000:01:00.0",name="/dev/tenstorrent/0",serial="0100014511000001",arch="wormhole",numa_node="1",emulated="false",pid="100",uid="1073741824",command="train",log="reprise.100.0000000a"} 1`,
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
