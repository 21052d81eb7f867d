package bench

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/internal/effort"
	"github.com/reprise-tt/reprise/tracebuf"
	"github.com/reprise-tt/reprise/tracebuf/flow"
)

// An iteration costs no more than a replay of the loop's body. Where it brings its kernels anew,
// which of the dispatcher's waits find at once what they wait for differs: each core's are compared
// to a hundredth.
func TestControlInstructions(t *testing.T) {
	effort.Long(t)
	var out strings.Builder
	fmt.Fprintln(
		&out,
		"# Instructions that the cores of a queue execute on the synchronous emulator, without rounds of waiting, and bytes of commands\n"+
			"# that the prefetcher takes, for an iteration of a loop and for a replay of its body. Write anew: go test ./bench -run TestControlInstructions -update-counts",
	)
	for _, arch := range []chip.Arch{chip.Wormhole, chip.Blackhole} {
		fmt.Fprintf(&out, "\n%-32v %30s | %30s\n%-32s %8s %8s %6s %6s | %8s %8s %6s %6s\n", arch, "iteration", "replay",
			"body", "prefetch", "dispatch", "sub", "bytes", "prefetch", "dispatch", "sub", "bytes")
		for _, b := range loopBodies {
			iteration, replay := controlCosts(t, arch, b)
			fmt.Fprintf(&out, "%-32s %8.1f %8.1f %6.1f %6.0f | %8.1f %8.1f %6.1f %6.0f\n", b.name,
				iteration[0], iteration[1], iteration[2], iteration[3], replay[0], replay[1], replay[2], replay[3])
			more := iteration[0]+iteration[1]+iteration[2] > replay[0]+replay[1]+replay[2] || iteration[3] > replay[3]
			for i := range iteration {
				more = more || iteration[i] > 1.01*replay[i]
			}
			if more {
				t.Errorf("%v, %s: an iteration costs more than a replay: %.0f against %.0f", arch, b.name, iteration, replay)
			}
		}
	}
	unchanged(t, "control.txt", out.String())
}

// controlCosts returns the instructions of prefetcher, dispatcher and subordinate, and the bytes of
// commands.
func controlCosts(t *testing.T, arch chip.Arch, b loopBody) (iteration, replay [4]float64) {
	t.Helper()
	ctx := t.Context()
	card, dev := openSynchronous(t, arch, chip.Harvesting{})
	defer dev.Close(ctx)
	s := &session{ctx: ctx, dev: dev}
	body, err := s.loopBody(b)
	must(t, err)
	const short, long = 8, 24
	// replays returns what all of them execute once all is warm.
	replays := func(tr *reprise.Trace, times int) (n [3]float64) {
		for range 2 {
			before := executedByQueue(t, card, arch, chip.Harvesting{})
			for range times {
				must(t, tr.Replay(ctx))
			}
			must(t, s.finish())
			for i, v := range executedByQueue(t, card, arch, chip.Harvesting{}) {
				n[i] = float64(v - before[i])
			}
		}
		return n
	}
	difference := func(of *[4]float64, a, b [3]float64) {
		for i := range a {
			of[i] = max(0, (b[i]-a[i])/(long-short)) // what isn't waited for differs by a few instructions in all
		}
	}
	one, err := s.captureBody(0, body.record)
	must(t, err)
	difference(&replay, replays(one, short), replays(one, long))
	part := one.Parts()[0]
	replay[3] = float64(part.ReplayBytes + stepBytes(part.Steps))
	var counts [2][3]float64
	for i, n := range []uint32{short, long} {
		loop, err := s.captureBody(n, body.record)
		must(t, err)
		counts[i] = replays(loop, 1)
		steps := loop.Parts()[0].Steps
		first := 0
		for steps[first].Control.Kind != flow.Loop {
			first++
		}
		iteration[3] = float64(stepBytes(steps[first+1:]))
		must(t, loop.Release(ctx))
	}
	difference(&iteration, counts[0], counts[1])
	if body.called != nil {
		called := float64(stepBytes(body.called.Parts()[0].Steps))
		iteration[3], replay[3] = iteration[3]+called, replay[3]+called
	}
	must(t, one.Release(ctx))
	must(t, body.release())
	return iteration, replay
}

// The page on control flow has the table's figures.
func TestControlPage(t *testing.T) {
	table, err := os.ReadFile(filepath.Join("testdata", "control.txt"))
	must(t, err)
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "control-flow.md"))
	must(t, err)
	_, rows, found := strings.Cut(string(table), fmt.Sprintf("\n%v ", chip.Blackhole))
	lines := strings.Split(strings.TrimSpace(rows), "\n")
	if !found || len(lines) != 2+len(loopBodies) {
		t.Fatalf("%d rows of %d bodies", len(lines)-2, len(loopBodies))
	}
	for i, line := range lines[2:] {
		want := "| " + loopBodies[i].name
		for _, f := range strings.Fields(strings.ReplaceAll(strings.TrimPrefix(line, loopBodies[i].name), "|", " ")) {
			v, err := strconv.ParseFloat(f, 64)
			must(t, err)
			s := fmt.Sprintf("%.0f", v)
			if n := len(s); n > 3 {
				s = s[:n-3] + "," + s[n-3:]
			}
			want += " | " + s
		}
		if !strings.Contains(string(page), want+" |\n") {
			t.Errorf("docs/control-flow.md hasn't the row\n%s |", want)
		}
	}
}

func stepBytes(steps []tracebuf.Step) (n int) {
	for _, s := range steps {
		n += s.Size
	}
	return n
}

// A loop's time is that of all its iterations.
func TestControlFigures(t *testing.T) {
	effort.Long(t)
	const iterations = 100
	r := runFamily(t, "control", Config{iterations: iterations})
	if len(r.Figures) != 2*len(loopBodies) {
		t.Fatalf("%d figures of %d bodies", len(r.Figures), len(loopBodies))
	}
	for _, f := range r.Figures {
		if f.P50 <= 0 || f.PerSample != iterations || (f.Name == "iteration") != (len(f.Ratios) == 1) {
			t.Errorf("%s: %v ns, %d in a sample, %d ratios", f.ID(), f.P50, f.PerSample, len(f.Ratios))
		}
	}
}
