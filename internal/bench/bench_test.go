package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/reprise-tt/reprise/internal/bench/report"
	"github.com/reprise-tt/reprise/internal/expect"
	"github.com/reprise-tt/reprise/sim"
	"github.com/reprise-tt/reprise/sim/ttsim/ttsimtest"
)

var (
	proving      = flag.Bool("prove", false, "count system calls as the child of TestReplaysAreNoSystemCalls")
	proofReplays = flag.Int("replays", 10_000, "how many replays TestReplaysAreNoSystemCalls counts")
)

func TestMain(m *testing.M) {
	if ttsimtest.Serving() {
		return
	}
	flag.Parse()
	if *proving {
		p, err := prove(context.Background())
		if err = errors.Join(err, json.NewEncoder(os.Stdout).Encode(p)); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

// Its JSON form has the keys that scripts rely on.
func TestReplayReport(t *testing.T) {
	if testing.Short() {
		t.Skip("slow under the race detector, which sees the same goroutines in TestBreakdown")
	}
	r := runFamily(t, "replay", Config{Rounds: 2, Warmup: 1, Programs: []int{1, 3}})
	var ids []string
	for _, f := range r.Figures {
		ids = append(ids, f.ID())
		if f.Samples == 0 || f.P50 <= 0 || len(f.Rounds) != 2 {
			t.Errorf("%s: %d samples, median %v ns, %d rounds", f.ID(), f.Samples, f.P50, len(f.Rounds))
		}
		if f.Min > f.P50 || f.P50 > f.P99 || f.P99 > f.Max {
			t.Errorf("%s: percentiles out of order: %v, %v, %v, %v", f.ID(), f.Min, f.P50, f.P99, f.Max)
		}
	}
	want := []string{"replay/submit/programs=1", "replay/submit/programs=3", "replay/to_end/programs=1", "replay/to_end/programs=3",
		"replay/stamp", "replay/device/programs=1", "replay/program/programs=1", "replay/device_program/programs=1",
		"replay/device/programs=3", "replay/program/programs=3", "replay/device_program/programs=3"}
	noDiff(t, ids, want, "figures")
	one, _ := r.Figure(want[0])
	three, _ := r.Figure(want[1])
	if *one.Bytes != *three.Bytes || *one.Allocs != 0 || *three.Allocs != 0 {
		t.Errorf("a replay of 1 program sends %v B and allocates %v times, one of 3 programs %v B and %v times", *one.Bytes, *one.Allocs,
			*three.Bytes, *three.Allocs)
	}
	if !slices.ContainsFunc(one.Ratios, func(r report.Ratio) bool { return r.To == report.MemcpySame }) {
		t.Error("no ratio to a copy of the same bytes")
	}

	var out bytes.Buffer
	must(t, r.WriteJSON(&out))
	var keys map[string]any
	must(t, json.Unmarshal(out.Bytes(), &keys))
	for _, k := range []string{
		"host_submit_ns_p50", "memcpy_same_bytes_ns_p50", "nt_store_64B_ns", "bytes_per_replay", "allocs_per_replay",
		"syscalls_per_replay", "programs", "device_instructions_per_program", "device",
	} {
		if _, ok := keys[k]; !ok {
			t.Errorf("the JSON object has no %q", k)
		}
	}
	back := value(report.ReadReport(&out))(t)
	noDiff(t, back, r, "a report differs from what was written")
	for name, write := range map[string]func(*bytes.Buffer) error{
		"table":     func(b *bytes.Buffer) error { return r.WriteTable(b) },
		"histogram": func(b *bytes.Buffer) error { return one.WriteHistogram(b) },
		"benchmark": func(b *bytes.Buffer) error { return r.WriteBenchmark(b) },
	} {
		var b bytes.Buffer
		must(t, write(&b))
		if !strings.Contains(strings.ToLower(b.String()), "replay/submit/programs=1") {
			t.Errorf("the %s doesn't name the figure:\n%s", name, b.String())
		}
	}
}

// runFamily measures one round of an emulated Blackhole unless c says otherwise.
func runFamily(t *testing.T, family string, c Config) *report.Report {
	t.Helper()
	c.Families, c.Rounds, c.Device = []string{family}, max(c.Rounds, 1), "emu:blackhole"
	if c.Target == nil {
		c.Target = sim.Blackhole()
	}
	return value(Run(t.Context(), c))(t)
}

var (
	must   = expect.Must
	noDiff = expect.NoDiff
)

func value[V any](v V, err error) func(expect.TB) V { return expect.Value(v, err) }
