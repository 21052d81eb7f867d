package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/reprise-tt/reprise/cmd/reprise/internal/cli"
	"github.com/reprise-tt/reprise/cmd/reprise/internal/demo"
	"github.com/reprise-tt/reprise/examples/digits"
)

// There is a track for the host and one for each queue, with what was done on them, in order.
func TestDemoTimeline(t *testing.T) {
	images, err := digits.Images()
	must(t, err)
	const batches, batch = 3, 5
	var lines []byte
	for _, m := range images[:batches*batch] {
		lines = m.AppendCSV(lines)
	}
	dir := t.TempDir()
	input, timeline := filepath.Join(dir, "digits.csv"), filepath.Join(dir, "out.json")
	must(t, os.WriteFile(input, lines, 0o644))
	code, out, errs := runs(t.Context(), "demo", "--network", "integer", "--json", "--input", input, "--batch", fmt.Sprint(batch),
		"--timeline", timeline)
	if code != cli.ExitOK {
		t.Fatalf("exit code %d: %s", code, errs)
	}
	var res demo.Result
	must(t, json.Unmarshal([]byte(out), &res))
	if res.Allocs != 0 || res.TimelineFile != timeline {
		t.Errorf("%d allocations for a replay, timeline in %q", res.Allocs, res.TimelineFile)
	}
	file, err := os.ReadFile(timeline)
	must(t, err)
	var trace struct {
		Events []struct {
			Name     string  `json:"name"`
			Phase    string  `json:"ph"`
			Time     float64 `json:"ts"`
			Duration float64 `json:"dur"`
			Process  int     `json:"pid"`
			Thread   int     `json:"tid"`
			Args     struct {
				Name string `json:"name"`
			} `json:"args"`
		} `json:"traceEvents"`
	}
	must(t, json.Unmarshal(file, &trace))
	type track struct{ process, thread int }
	names, count, ends := map[track]string{}, map[[2]string]int{}, map[track]float64{}
	for _, e := range trace.Events {
		at := track{e.Process, e.Thread}
		switch {
		case e.Phase == "M" && e.Name == "thread_name":
			names[at] = e.Args.Name
		case e.Phase == "X":
			name := names[at]
			count[[2]string{name, e.Name}]++
			if strings.HasPrefix(name, "queue") {
				if e.Time < ends[at] {
					t.Errorf("%s: %q at %g, before %g", name, e.Name, e.Time, ends[at])
				}
				ends[at] = e.Time + e.Duration - 1e-3
			}
		}
	}
	for _, tt := range []struct {
		track, name string
		want        int
	}{
		{"host", "eager", 1}, {"host", "replay", 1}, {"host", "replay digits", batches}, {"host", "pending wait layer 2 output", 2*batches + 2},
		{"queue 0", "replay digits", batches}, {"queue 0", "run layer 0", batches + 2}, {"queue 0", "read layer 2 output", 2*batches + 2},
		{"queue 1", "write input", 2*batches + 2}, // once more in each Compile
		{"queue 1", "replay digits", 0},
	} {
		if got := count[[2]string{tt.track, tt.name}]; got != tt.want {
			t.Errorf("%q is %d times on %q, want %d", tt.name, got, tt.track, tt.want)
		}
	}
}
