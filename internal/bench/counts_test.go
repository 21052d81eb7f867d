package bench

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/sim"
)

var updateCounts = flag.Bool("update-counts", false, "write the files of counts in testdata anew")

// counted are the shapes of tt-metal's pgm_dispatch benchmark.
var counted = []struct {
	shape
	kernelBytes int // size of each kernel; 0 for the smallest there is
}{
	{shape{name: "smallest", cores: 1, groups: 1}, 0},
	{shape{name: "kernels of 256 B", groups: 1}, 256},
	{shape{name: "kernels of 1 KiB", groups: 1}, 1 << 10},
	{shape{name: "kernels of 4 KiB", groups: 1}, 4 << 10},
	{shape{name: "kernels of 12 KiB", groups: 1}, 12 << 10},
	{shape{name: "12 KiB on one core", cores: 1, groups: 1}, 12 << 10},
	{shape{name: "16 arguments", groups: 1, args: 16}, 0},
	{shape{name: "32 arguments", groups: 1, args: 32}, 0},
	{shape{name: "128 arguments", groups: 1, args: 128}, 0},
	{shape{name: "128 arguments, one core", cores: 1, groups: 1, args: 128}, 0},
	{shape{name: "128 common arguments", groups: 1, common: 128}, 0},
	{shape{name: "32 circular buffers", groups: 1, cbs: 32}, 0},
	{shape{name: "4 semaphores", groups: 1, semaphores: 4}, 0},
	{shape{name: "8 kernel groups", groups: 8}, 0},
	{common, 0},
	{worst, 0},
}

// Nothing here depends on the machine's speed.
func TestCounts(t *testing.T) {
	ctx := context.Background()
	var out strings.Builder
	fmt.Fprintln(&out, "# Bytes, commands and allocations. Write anew: go test ./bench -run TestCounts -update-counts")
	for _, target := range []*sim.Card{sim.Wormhole(), sim.Blackhole()} {
		dev, err := reprise.Open(ctx, target)
		must(t, err)
		s := &session{ctx: ctx, dev: dev}
		fmt.Fprintf(&out, "\n%v\n%-24s %8s %8s %7s %8s %8s %7s\n", dev.Arch(), "shape", "run B", "commands", "allocs", "trace B",
			"replay B", "allocs")
		for _, c := range counted {
			prog, err := c.program(dev)
			must(t, err)
			for i := range prog.Kernels {
				k := &prog.Kernels[i]
				k.Image = padded(k.Image, c.kernelBytes)
			}
			s.counts(t, &out, c.name, prog)
		}
		must(t, dev.Close(ctx))
	}
	unchanged(t, "counts.txt", out.String())
}

// captureAllocations are the most that a capture of one program may have: the recorder and the
// trace.
const captureAllocations = 2

// counts writes a line of counts of a program.
func (s *session) counts(t *testing.T, out *strings.Builder, name string, prog *reprise.Program) {
	t.Helper()
	x, err := s.dev.Load(s.ctx, prog)
	must(t, err)
	const programs = 20
	tr, err := s.record(x, programs)
	must(t, err)
	// Later runs of a trace wait for kernel-config memory: the last one is as in a long trace.
	steps := tr.Parts()[0].Steps
	run, err := fewestAllocations(func() error { return s.dev.Queue(0).Run(s.ctx, x) }, s.finish)
	must(t, err)
	replay, err := fewestAllocations(func() error { return tr.Replay(s.ctx) }, s.finish)
	must(t, err)
	var one *reprise.Trace
	capture, err := fewestAllocations(func() (err error) {
		one, err = s.dev.Queue(0).Capture(s.ctx, "one", func(_ context.Context, r *reprise.Recorder) error { return r.Run(x) })
		return err
	}, func() error { return one.Release(s.ctx) })
	must(t, err)
	most := uint64(captureAllocations)
	if raced {
		most++ // what the race detector's calls keep from the stack
	}
	if capture > most {
		t.Errorf("%s: a capture allocates %d times, more than %d", name, capture, most)
	}
	fmt.Fprintf(out, "%-24s %8d %8d %7d %8d %8d %7d\n", name, x.Commands().Bytes, x.Commands().Count, run, steps[programs-1].Size,
		tr.Parts()[0].ReplayBytes, replay)
	must(t, tr.Release(s.ctx))
	must(t, x.Release(s.ctx))
}

// fewestAllocations leaves out those that an emulated device may do now and then.
func fewestAllocations(op func() error, settle func() error) (uint64, error) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	fewest := ^uint64(0)
	for range 8 {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		err := op()
		runtime.ReadMemStats(&after)
		if err == nil {
			err = settle()
		}
		if err != nil {
			return 0, err
		}
		if fewest = min(fewest, after.Mallocs-before.Mallocs); fewest == 0 {
			break
		}
	}
	return fewest, nil
}

func TestSetArgsAllocatesNothing(t *testing.T) {
	ctx := context.Background()
	dev, err := reprise.Open(ctx, sim.Blackhole())
	must(t, err)
	defer dev.Close(ctx)
	x, err := (&session{ctx: ctx, dev: dev}).load(worst)
	must(t, err)
	values := make([]uint32, worst.common)
	set := func(_ chip.Core, args []uint32) { args[0]++ }
	if n := testing.AllocsPerRun(10, func() {
		must(t, x.SetArgs("blank 3", set))
		must(t, x.SetCommonArgs("blank 3", values))
	}); n >= 1 {
		t.Errorf("%v allocations", n)
	}
}

// unchanged compares what a test counted with a file of testdata, or writes the file if asked to.
func unchanged(t *testing.T, name, got string) {
	t.Helper()
	file := filepath.Join("testdata", name)
	if *updateCounts {
		must(t, os.WriteFile(file, []byte(got), 0o644))
	}
	want, err := os.ReadFile(file)
	must(t, err)
	if diff := cmp.Diff(strings.Split(string(want), "\n"), strings.Split(got, "\n")); diff != "" {
		t.Errorf("%s (-want +got); if it is meant to be so: go test ./bench -run %s -update-counts\n%s", file, t.Name(), diff)
	}
}
