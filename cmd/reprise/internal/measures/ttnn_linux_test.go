package measures

import (
	"bytes"
	"context"
	_ "embed"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/cmd/reprise/internal/cli"
	"github.com/reprise-tt/reprise/internal/bench"
	"github.com/reprise-tt/reprise/internal/devtest"
	"github.com/reprise-tt/reprise/internal/ttnn"
	"github.com/reprise-tt/reprise/sim/libttsim"
)

// timing prints what main.py does. The vendor's simulator refuses b/second, the emulator b/third.
//
//go:embed testdata/timing.txt
var timing string

func newTimers(t *testing.T) []*timer {
	t.Helper()
	dir := t.TempDir()
	python, soc := filepath.Join(dir, "python"), filepath.Join(dir, "tt_metal", "soc_descriptors")
	devtest.Must(t, errors.Join(
		os.WriteFile(python, []byte(timing), 0o755), os.MkdirAll(soc, 0o755),
		os.WriteFile(filepath.Join(soc, "wormhole_b0_80_arch.yaml"), nil, 0o644), os.Mkdir(filepath.Join(dir, "programs"), 0o755),
	))
	var timers []*timer
	for _, library := range []string{"reprise.so", "ttsim.so"} {
		timers = append(timers, &timer{script: filepath.Join(dir, "programs", "main.py"), run: ttnn.Run{
			Installation: &ttnn.Installation{Python: python, Dir: dir, Text: "0.77.0", Version: ttnn.Version{Minor: 77}},
			Library:      library, Cache: t.TempDir(), Settings: libttsim.Settings{Machine: "n150"},
		}})
	}
	return timers
}

// A program that ends the simulator does not keep the others from being timed.
func TestBenchTTNNTimes(t *testing.T) {
	c := &benchTTNNCmd{Rounds: 2}
	got, err := c.timeChip(t.Context(), cli.Streams{Err: new(bytes.Buffer)}, chip.Wormhole, newTimers(t))
	devtest.Must(t, err)
	times := func(n int, seconds float64) bench.Times {
		return bench.Times{Ns: slices.Repeat([]float64{seconds * 1e9}, n)}
	}
	skipped := bench.Times{Skipped: true}
	want := &bench.TimedChip{Name: "wormhole", Programs: []string{"a/first", "b/second", "b/third", "c/fourth"},
		Reprise: map[string]bench.Times{"a/first": times(2, 0.25), "b/second": times(2, 0.25),
			"b/third": {Refused: "RuntimeError: no memory"}, "c/fourth": skipped},
		With: "ttsim",
		Other: map[string]bench.Times{"a/first": times(2, 0.25), "b/second": {Refused: "ERROR: UnimplementedFunctionality: x"},
			"b/third": times(2, 0.25), "c/fourth": skipped},
	}
	delete(got.Reprise, bench.OpenDevice) // once for each process
	delete(got.Other, bench.OpenDevice)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestBenchTTNNPatterns(t *testing.T) {
	c := &benchTTNNCmd{Rounds: 1, Patterns: []string{"none"}}
	var wrong *cli.FlagError
	_, err := c.timeChip(t.Context(), cli.Streams{Err: new(bytes.Buffer)}, chip.Wormhole, newTimers(t))
	if !errors.As(err, &wrong) || wrong.Value != "none" {
		t.Error(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if err := newTimers(t)[0].round(ctx, []string{"wait"}); !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
}
