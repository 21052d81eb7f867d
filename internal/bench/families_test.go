package bench

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/dispatch"
	"github.com/reprise-tt/reprise/dispatch/abi"
	"github.com/reprise-tt/reprise/internal/bench/measure"
	"github.com/reprise-tt/reprise/internal/bench/probe"
	"github.com/reprise-tt/reprise/internal/bench/report"
	"github.com/reprise-tt/reprise/internal/debug/live"
	"github.com/reprise-tt/reprise/internal/debug/stack"
	"github.com/reprise-tt/reprise/internal/effort"
	"github.com/reprise-tt/reprise/internal/expect"
	"github.com/reprise-tt/reprise/kmd"
	"github.com/reprise-tt/reprise/mesh"
	"github.com/reprise-tt/reprise/sim"
	"github.com/reprise-tt/reprise/tracebuf"
	"github.com/reprise-tt/reprise/tracebuf/flow"
)

func TestStreamFigures(t *testing.T) {
	effort.Long(t)
	const messages = 20
	r := runFamily(t, "streams", Config{iterations: messages})
	names := map[string][]string{} // by parameters
	for _, f := range r.Figures {
		per, params := messages, ""
		for _, p := range f.Params {
			if params += " " + p.Key + " " + p.Value; p.Key == "pace" {
				per = 1
			}
		}
		names[params] = append(names[params], f.Name)
		if f.P50 <= 0 || f.PerSample != per {
			t.Errorf("%s: %v ns, %d in a sample", f.ID(), f.P50, f.PerSample)
		}
	}
	want := map[string][]string{}
	for _, p := range paces[:2] {
		want[" bytes 4 pace "+p.name] = []string{"round_trip", "queue_read"}
	}
	for _, n := range streamSizes {
		want[fmt.Sprint(" bytes ", n)] = []string{"to_host", "to_device", "queue_read"}
	}
	noDiff(t, names, want, "figures")
}

// Cards are measured first, then all chips, also those that only cards lead to.
func TestMeshFigures(t *testing.T) {
	effort.Long(t)
	for _, tt := range []struct {
		make func(...sim.Option) *sim.Machine
		want []string
	}{
		{sim.N300, []string{"open [{chips 1}]", "replay for each chip [{chips 1}]", "replay for each chip [{chips 2} {behind 1}]"}},
		{sim.P300, []string{"open [{chips 1}]", "open [{chips 2}]", "replay for each chip [{chips 1}]", "replay for each chip [{chips 2}]"}},
	} {
		m := tt.make()
		t.Run(m.String(), func(t *testing.T) {
			r := runFamily(t, "mesh", Config{Target: m.Card(0), Mesh: mesh.Cards(m.Cards()...)})
			var got []string
			for _, f := range r.Figures {
				if f.P50 <= 0 {
					t.Errorf("%s %v takes %v ns", f.Name, f.Params, f.P50)
				}
				got = append(got, fmt.Sprint(strings.TrimPrefix(f.Name, "mesh/"), " ", f.Params))
			}
			noDiff(t, got, tt.want, "figures")
			must(t, m.Close())
		})
	}
}

func TestTileOperationsCompute(t *testing.T) {
	effort.Long(t)
	for arch, device := range map[chip.Arch]func(...sim.Option) *sim.Card{chip.Wormhole: sim.Wormhole, chip.Blackhole: sim.Blackhole} {
		t.Run(arch.String(), func(t *testing.T) {
			r := runFamily(t, "tensix", Config{Target: device(sim.Strict(1)), Against: &Against{Target: device(), Name: "the other"}})
			found := map[string]*report.Figure{}
			for _, f := range r.Figures {
				found[f.ID()] = f
			}
			for _, op := range tileOperations {
				id := fmt.Sprintf("tensix/tile/op=%s", op.name)
				if f := found[id]; f == nil || len(f.Ratios) > 1 || len(f.Ratios) == 1 && f.Ratios[0].To != "the other" {
					t.Errorf("%s: %+v", id, f)
				}
				if found[id+"/device=the other"] == nil {
					t.Errorf("%s isn't measured of the other device", id)
				}
			}
		})
	}
}

func TestWakeReport(t *testing.T) {
	effort.Long(t)
	r := runFamily(t, "wake", Config{})
	want := len(paces) * len(arrivals)
	for _, a := range arrivals {
		if a.after >= time.Millisecond && !a.busy {
			want += len(paces) // the processor's time
		}
	}
	expect.Equal(t, len(r.Figures), want, "figures for %d paces and %d arrivals", len(paces), len(arrivals))
	for _, f := range r.Figures {
		if f.Samples == 0 || !slices.ContainsFunc(f.Params, func(p report.Param) bool { return p.Key == "pace" }) {
			t.Errorf("%s: %d samples", f.ID(), f.Samples)
		}
	}
}

// With one processor a goroutine that is busy and the waiter would wait for each other.
func TestBusyWakeNeedsTwoProcessors(t *testing.T) {
	effort.Long(t)
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	r := runFamily(t, "wake", Config{})
	if len(r.LeftOut) != 1 || r.LeftOut[0].Family != "wake/comes=4ms-again-busy" {
		t.Errorf("left out: %+v", r.LeftOut)
	}
	if want := (5 + 3) * len(paces); len(r.Figures) != want { // and the processor's time of the longer ones
		t.Errorf("%d figures, want %d", len(r.Figures), want)
	}
	for _, f := range r.Figures {
		if slices.ContainsFunc(f.Params, func(p report.Param) bool { return p.Value == comesBusy.name }) {
			t.Errorf("%s is measured", f.ID())
		}
	}
}

// Workers without a program look at the go signal, and that is all: a chip of which two workers are
// busy costs what two workers cost.
func TestEmulatorWork(t *testing.T) {
	effort.Long(t)
	var out strings.Builder
	fmt.Fprintln(
		&out,
		"# Instructions and bytes over the NoCs for each page of 4 KiB that a program copies, on the synchronous emulator, and what\n"+
			"# all workers without a program execute while it runs once, with 10 pages for each worker that has it. Write anew: go test ./bench -run TestEmulatorWork -update-counts",
	)
	for _, arch := range []chip.Arch{chip.Wormhole, chip.Blackhole} {
		fmt.Fprintf(&out, "\n%v\n%-10s %8s %12s %10s %10s\n", arch, "program", "workers", "instructions", "bytes", "others")
		for _, add := range []bool{false, true} {
			for _, workers := range []int{1, 2, 0} {
				w := workload{workers: workers, page: 4 << 10, add: add}
				each := emulatorWork(t, arch, &w)
				fmt.Fprintf(&out, "%-10s %8d %12.1f %10.1f %10.0f\n", map[bool]string{false: "copy", true: "copy, add"}[add], w.workers,
					each[0], each[1], each[2])
			}
		}
	}
	unchanged(t, "emulator.txt", out.String())
}

func emulatorWork(t *testing.T, arch chip.Arch, w *workload) (each [3]float64) {
	t.Helper()
	ctx := t.Context()
	card, dev := openSynchronous(t, arch, chip.Harvesting{})
	defer dev.Close(ctx)
	grid := dev.Queue(0).Workers()
	if w.workers == 0 {
		w.workers = grid.Size()
	}
	others := func() (n uint64) {
		i := 0
		for core := range grid.Cores() {
			busy := core.Y == grid.Start.Y && core.X-grid.Start.X < w.workers || w.workers == grid.Size()
			if i++; busy {
				continue
			}
			xy := value(card.Chip().Topology().Physical(core))(t)
			for p := range chip.Processor(chip.NumProcessors) {
				n += card.Chip().Retired(xy, p)
			}
		}
		return n
	}
	const few, many = 2, 10
	var did [2][3]float64
	for i, pages := range []int{few, many} {
		w.pages = pages
		x, err := w.load(&session{ctx: ctx}, dev)
		must(t, err)
		run := func() {
			t.Helper()
			must(t, errors.Join(dev.Queue(0).Run(ctx, x), dev.Queue(0).Wait(ctx)))
		}
		run() // the first brings the kernels
		before, idle := card.Chip().Work(), others()
		run()
		after := card.Chip().Work()
		did[i] = [3]float64{float64(after.Instructions - before.Instructions), float64(after.NoCBytes - before.NoCBytes),
			float64(others() - idle)}
		must(t, x.Release(ctx))
	}
	for i := range 2 {
		each[i] = (did[1][i] - did[0][i]) / float64((many-few)*w.workers)
	}
	each[2] = did[1][2]
	return each
}

func TestEmulatorFamily(t *testing.T) {
	var c Config
	r := runFamily(t, "emulator", c)
	if len(r.Figures) != 0 || len(r.LeftOut) != 1 {
		t.Errorf("without an emulator: %d figures, left out %+v", len(r.Figures), r.LeftOut)
	}
	effort.Long(t)
	c.Emulated = func() *sim.Card { return sim.Blackhole() }
	r = runFamily(t, "emulator", c)
	for _, id := range []string{"emulator/instruction/workers=1", "emulator/instruction/workers=2", "emulator/instruction/workers=130",
		"emulator/noc_byte/page=64", "emulator/instruction/chips=2"} {
		f, ok := r.Figure(id)
		if !ok || f.P50 <= 0 || f.Rate == nil || f.Rate.PerSecond != 1e9/f.P50 {
			t.Errorf("%s: %+v", id, f)
		}
	}
}

// blind is an operating system kernel without any of the features.
func blind(f probe.Feature) error {
	return fmt.Errorf("%w: no %s in this test", probe.ErrMissing, f)
}

func runReplay(t *testing.T, m probe.Machine, asked bool) *report.Report {
	t.Helper()
	return runFamily(t, "replay", Config{Programs: []int{1}, EBPF: asked, Machine: m})
}

func TestBreakdownWithoutBPF(t *testing.T) {
	if !testing.Short() {
		if r := runReplay(t, blind, false); r.SyscallsPerReplay != nil || r.Breakdown != nil {
			t.Errorf("without eBPF: %v system calls, breakdown %+v", r.SyscallsPerReplay, r.Breakdown)
		}
	}
	r := runReplay(t, blind, true)
	if r.SyscallsPerReplay != nil || r.Breakdown == nil {
		t.Fatalf("without eBPF: %v system calls, breakdown %+v", r.SyscallsPerReplay, r.Breakdown)
	}
	if b := r.Breakdown; len(b.LeftOut) != 4 || b.Stages[0].Ns <= 0 || b.Stages[0].Faults != nil || b.Stages[1].OffNs != nil {
		t.Errorf("breakdown %+v", b)
	}
	var out bytes.Buffer
	if err := r.WriteTable(&out); err != nil || !strings.Contains(out.String(), "no eBPF in this test") {
		t.Errorf("error %v; the table doesn't say what is missing:\n%s", err, out.String())
	}
}

func TestBreakdown(t *testing.T) {
	m := probe.Detect()
	for _, f := range []probe.Feature{probe.BPF, probe.RawTracepoints, probe.BTF} {
		if err := m(f); err != nil {
			t.Skip(err)
		}
	}
	r := runReplay(t, m, true)
	b := r.Breakdown
	if b == nil || r.SyscallsPerReplay == nil {
		t.Fatalf("breakdown %+v, system calls %v", b, r.SyscallsPerReplay)
	}
	if b.Replays != probeBurst*probeBursts || b.Lost.Any() || len(b.Costs) < 2 {
		t.Errorf("breakdown %+v", b)
	}
	for i, name := range []string{"submit", "wait"} {
		s := b.Stages[i]
		if s.Name != name || s.Ns <= 0 || s.Syscalls == nil || s.Switches == nil || s.OffNs == nil || *s.OffNs < *s.ReadyNs {
			t.Errorf("stage %s: %+v", name, s)
		}
	}
	// The thread that submits sleeps while another one waits.
	if wait := b.Stages[1]; *wait.Syscalls == 0 || *wait.Switches == 0 || *wait.OffNs == 0 {
		t.Errorf("a wait without a system call or a switch: %+v", wait)
	}
}

func TestFigureNeedsSteadyClock(t *testing.T) {
	ctx := context.Background()
	card := sim.Blackhole()
	dev := value(reprise.Open(ctx, card))(t)
	defer dev.Close(ctx)
	set := telemetryWriter(t, card, chip.TagAICLK)

	s := &session{ctx: ctx, dev: dev, report: &report.Report{}, runner: measure.Runner{Rounds: 4}}
	s.runner.AIClock = s.aiClock
	moves := 0 // how many more times the clock moves
	op := func(int) error {
		if moves > 0 {
			moves--
			set(uint32(800 + 10*moves))
		}
		return nil
	}
	measure := func(name string) {
		t.Helper()
		must(t, s.measure("test", &measure.Job{Name: name, Do: op, Burst: 1}))
	}
	set(1000)
	measure("steady")
	moves = 40
	measure("moving")
	moves = 2
	measure("settling")

	want := []*report.AIClock{{Before: 1000, During: 1000, After: 1000}, {Before: 800, During: 800, After: 800}}
	var got []*report.AIClock
	for _, f := range s.report.Figures {
		got = append(got, f.AIClock)
	}
	noDiff(t, got, want, "clocks of the figures told")
	if l := s.report.Refused; len(l) != 1 || l[0].Figure != "test/moving" || len(l[0].AIClocks) != clockAttempts {
		t.Fatalf("refused: %+v", l)
	}
	var out bytes.Buffer
	must(t, s.report.WriteTable(&out))
	if !strings.Contains(out.String(), "test/moving: not reported, since the clock of the chip moved") {
		t.Errorf("the table doesn't say what was refused:\n%s", &out)
	}
}

// A device's times are put beside the host's only where its clock runs with the host's.
func TestClockAlongside(t *testing.T) {
	for name, want := range map[string]struct {
		mhz   float64
		along bool
	}{"as told": {1000, true}, "within a hundredth": {1009, true}, "faster": {1350, false}, "an emulator's": {3, false},
		"standing": {0, false}} {
		now, cycles := time.Unix(1, 0), uint64(1)<<63
		read := func() (dispatch.Clock, error) { return dispatch.Clock{Cycles: cycles, Host: now}, nil }
		sleep := func(d time.Duration) {
			now, cycles = now.Add(d), cycles+uint64(want.mhz*float64(d)/1e3)
		}
		ref, along, err := alongside(read, 1000, sleep)
		if err != nil || along != want.along || ref.Cycles != cycles {
			t.Errorf("%s: %t (%v), reading %+v, want %t", name, along, err, ref, want.along)
		}
	}
}

// telemetryWriter plays the firmware that changes a value of its telemetry.
func telemetryWriter(t *testing.T, card kmd.Target, tag chip.TelemetryTag) func(uint32) {
	t.Helper()
	d, err := kmd.Open(context.Background(), card, kmd.WithoutPower())
	must(t, err)
	t.Cleanup(func() { d.Close() })
	arc, xy := &d.Params().ARC, chip.XY{X: 8, Y: 0}
	word := func(addr uint64) uint32 {
		return value(d.Read32(xy, addr))(t)
	}
	table, values := word(arc.ResetUnit+uint64(arc.TelemetryTable)), word(arc.ResetUnit+uint64(arc.TelemetryValues))
	for i := range word(arc.PointerBase + uint64(table) + 4) {
		if e := word(arc.PointerBase + uint64(table+8+4*i)); chip.TelemetryTag(e&0xFFFF) == tag {
			at := arc.PointerBase + uint64(values+4*(e>>16))
			return func(v uint32) { must(t, d.Write32(xy, at, v)) }
		}
	}
	t.Fatalf("no telemetry of tag %d", tag)
	return nil
}

func TestReportTimed(t *testing.T) {
	ns := func(all ...float64) Times { return Times{Ns: all} }
	r := ReportTimed("TT-NN", 3, []TimedChip{{
		Name: "wormhole", Programs: []string{"a/half", "c/two", "a/eight", "b/unfair", "c/one", "b/ours"},
		Reprise: map[string]Times{OpenDevice: ns(1e8, 3e8, 2e8), "a/half": ns(3e6, 2e6), "a/eight": ns(2e6), "b/unfair": ns(2e6),
			"b/ours": {Refused: "it doesn't end"}, "c/one": {Skipped: true}, "c/two": {Skipped: true}},
		With: "ttsim",
		Other: map[string]Times{OpenDevice: ns(4e8), "a/half": ns(1e6, 5e6), "a/eight": ns(16e6),
			"b/unfair": {Refused: "ERROR: no such instruction"}, "b/ours": ns(1e6)},
	}, {
		Name: "blackhole", Programs: []string{"a/half"}, Reprise: map[string]Times{OpenDevice: ns(1e8), "a/half": ns(1e6)},
	}})
	want := string(value(os.ReadFile("testdata/timed.txt"))(t))
	var out strings.Builder
	must(t, r.WriteTable(&out))
	first, _, _ := strings.Cut(out.String(), "\n") // of this machine
	tableOf(t, r, first+"\n"+want)
	if f, ok := r.Figure("ttnn/a/half/chip=wormhole/device=ttsim"); !ok || f.Min != 1e6 {
		t.Errorf("the vendor's figure: %+v", f)
	}
}

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
		dev := value(reprise.Open(ctx, target))(t)
		s := &session{ctx: ctx, dev: dev}
		fmt.Fprintf(&out, "\n%v\n%-24s %8s %8s %7s %8s %8s %7s\n", dev.Arch(), "shape", "run B", "commands", "allocs", "trace B",
			"replay B", "allocs")
		for _, c := range counted {
			prog := value(c.program(dev))(t)
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
	dev := value(reprise.Open(ctx, sim.Blackhole()))(t)
	defer dev.Close(ctx)
	x := value((&session{ctx: ctx, dev: dev}).load(worst))(t)
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
	want := value(os.ReadFile(file))(t)
	expect.NoDiff(t, strings.Split(got, "\n"), strings.Split(string(want), "\n"),
		"%s; if it is meant to be so: go test ./bench -run %s -update-counts", file, t.Name())
}

var timed = []shape{
	minimal,
	{name: "all cores", groups: 1},
	{name: "16 arguments", groups: 1, args: 16},
	{name: "8 kernel groups", groups: 8},
	common,
	worst,
}

// A synchronous chip runs the same way every time, but for rounds of loops that wait, which are
// left out.
func TestInstructions(t *testing.T) {
	effort.Long(t)
	var out strings.Builder
	fmt.Fprintln(
		&out,
		"# Instructions that the cores of a queue execute on the synchronous emulator, without rounds of waiting: for each program of\n"+
			"# a long trace, and for a replay of a trace of one program. Write anew: go test ./bench -run TestInstructions -update-counts",
	)
	for _, arch := range []chip.Arch{chip.Wormhole, chip.Blackhole} {
		fmt.Fprintf(&out, "\n%v\n%-18s %10s %10s %12s | %10s %10s %12s\n", arch, "shape", "prefetch", "dispatch", "subordinate", "prefetch",
			"dispatch", "subordinate")
		for _, p := range timed {
			each, one := instructions(t, arch, chip.Harvesting{}, p)
			fmt.Fprintf(&out, "%-18s %10.1f %10.1f %12.1f | %10.0f %10.0f %12.0f\n", p.name, each[0], each[1], each[2], one[0], one[1], one[2])
		}
	}
	unchanged(t, "instructions.txt", out.String())
}

func openSynchronous(t *testing.T, arch chip.Arch, h chip.Harvesting, opts ...reprise.Option) (*sim.Card, *reprise.Device) {
	t.Helper()
	card := sim.Blackhole(sim.Synchronous(), sim.Seed(1), sim.Harvesting(h))
	if arch == chip.Wormhole {
		card = sim.Wormhole(sim.Synchronous(), sim.Seed(1), sim.Harvesting(h))
	}
	dev := value(reprise.Open(t.Context(), card, opts...))(t)
	return card, dev
}

// instructions returns what prefetcher, dispatcher and subordinate execute for each program of a
// long trace, and for a replay of a trace of one, without rounds of waiting.
func instructions(t *testing.T, arch chip.Arch, h chip.Harvesting, p shape, opts ...reprise.Option) (each, one [3]float64) {
	t.Helper()
	ctx := t.Context()
	card, dev := openSynchronous(t, arch, h, opts...)
	defer dev.Close(ctx)
	s := &session{ctx: ctx, dev: dev, config: Config{CountTarget: card}}
	x, err := s.load(p)
	must(t, err)
	each, one, err = s.executed(x)
	must(t, err)
	return each, one
}

type queueProcessor struct {
	xy        chip.XY // on the chip itself
	processor chip.Processor
}

func queueProcessors(t *testing.T, arch chip.Arch) [3]queueProcessor {
	t.Helper()
	c := value(chip.New(arch, chip.Harvesting{}))(t)
	w, h := c.Grid()
	cores := [2]chip.Core{{X: w - 1, Y: 0}, {X: w - 1, Y: 1}}
	if arch == chip.Wormhole {
		cores = [2]chip.Core{{X: 0, Y: h - 1}, {X: 1, Y: h - 1}}
	}
	var xy [2]chip.XY
	for i, core := range cores {
		xy[i] = value(c.Physical(core))(t)
	}
	return [3]queueProcessor{{xy[0], chip.BRISC}, {xy[1], chip.BRISC}, {xy[1], chip.NCRISC}}
}

// Instructions by which the compiler saves registers are left out.
func TestTimesCost(t *testing.T) {
	if testing.Short() {
		t.Skip("long traces on chips that run in one goroutine")
	}
	for _, arch := range []chip.Arch{chip.Wormhole, chip.Blackhole} {
		ctx := t.Context()
		card, dev := openSynchronous(t, arch, chip.Harvesting{})
		defer dev.Close(ctx)
		s := &session{ctx: ctx, dev: dev}
		x, err := s.load(shape{name: "all cores", groups: 1})
		must(t, err)
		processors := queueProcessors(t, arch)
		notes := notesTimes(t, card, arch, processors[2])
		worker := queueProcessor{physical(t, arch, chip.Core{}), chip.BRISC} // which starts the others
		type counts struct{ times, queue, worker float64 }
		count := func() (n counts) {
			for _, p := range processors {
				for pc, times := range card.Chip().Profile(p.xy, p.processor) {
					n.queue += float64(times)
					if p == processors[2] && notes(pc) {
						n.times += float64(times)
					}
				}
			}
			for _, times := range card.Chip().Profile(worker.xy, worker.processor) {
				n.worker += float64(times)
			}
			return n
		}
		replay := func(programs int) counts {
			tr := value(s.record(x, programs))(t)
			var before counts
			for range 2 { // the second time all is warm
				must(t, s.finish())
				before = count()
				must(t, tr.Replay(ctx))
			}
			must(t, s.finish())
			n := count()
			must(t, tr.Release(ctx))
			return counts{n.times - before.times, n.queue - before.queue, n.worker - before.worker}
		}
		const short, long = 8, 24 // whole rounds of launch messages
		a, b := replay(short), replay(long)
		each := counts{(b.times - a.times) / (long - short), (b.queue - a.queue) / (long - short), (b.worker - a.worker) / (long - short)}
		all := each.queue + each.worker*float64(dev.Grid().Size())
		t.Logf("%v: %.1f instructions for times, of %.1f of the queue and %.1f of each worker: %.2f %%", arch, each.times, each.queue,
			each.worker, 100*each.times/all)
		if each.times < 10 || each.times > 22 || each.times > 0.02*all {
			t.Errorf("%v: %.1f instructions of %.1f for a program", arch, each.times, all)
		}
	}
}

// notesTimes returns whether an instruction of the subordinate is of the code that notes times.
func notesTimes(t *testing.T, card kmd.Target, arch chip.Arch, p queueProcessor) func(pc uint32) bool {
	t.Helper()
	beside, err := kmd.Open(t.Context(), card)
	must(t, err)
	defer beside.Close()
	topo, err := chip.New(arch, chip.Harvesting{})
	must(t, err)
	var c live.Catalogue
	must(t, c.AddQueueKernels(arch))
	var space stack.Space
	for core := range topo.Workers() {
		if xy, err := topo.Virtual(core); err == nil && physical(t, arch, core) == p.xy {
			read := func(addr uint32, b []byte) error { return beside.Read(xy, uint64(addr), b) }
			space, err = c.Modules(abi.Own(arch), read, p.processor)
			must(t, err)
		}
	}
	if len(space) != 2 {
		t.Fatalf("the subordinate's kernel is not found")
	}
	return func(pc uint32) bool {
		for _, f := range space.Unwind(stack.Registers{PC: pc}, nil) {
			if strings.HasPrefix(f.Function, "cq_times_") || f.Function == "rp_wall_clock" {
				return true
			}
		}
		return false
	}
}

func physical(t *testing.T, arch chip.Arch, c chip.Core) chip.XY {
	t.Helper()
	topo := value(chip.New(arch, chip.Harvesting{}))(t)
	return value(topo.Physical(c))(t)
}

// An iteration costs no more than a replay of the loop's body. Where an iteration sends kernels
// again, the dispatcher's waiting varies, so each core's counts are compared to 1 %.
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

func controlCosts(t *testing.T, arch chip.Arch, b loopBody) (iteration, replay [4]float64) {
	t.Helper()
	ctx := t.Context()
	card, dev := openSynchronous(t, arch, chip.Harvesting{})
	defer dev.Close(ctx)
	s := &session{ctx: ctx, dev: dev}
	body := value(s.loopBody(b))(t)
	const short, long = 8, 24
	replays := func(tr *reprise.Trace, times int) (n [3]float64) {
		for range 2 {
			before := card.Chip().QueueExecuted()
			for range times {
				must(t, tr.Replay(ctx))
			}
			must(t, s.finish())
			for i, v := range card.Chip().QueueExecuted() {
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
	one := value(s.captureBody(0, body.record))(t)
	difference(&replay, replays(one, short), replays(one, long))
	part := one.Parts()[0]
	replay[3] = float64(part.ReplayBytes + stepBytes(part.Steps))
	var counts [2][3]float64
	for i, n := range []uint32{short, long} {
		loop := value(s.captureBody(n, body.record))(t)
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
	table := value(os.ReadFile(filepath.Join("testdata", "control.txt")))(t)
	page := value(os.ReadFile(filepath.Join("..", "..", "docs", "control-flow.md")))(t)
	_, rows, found := strings.Cut(string(table), fmt.Sprintf("\n%v ", chip.Blackhole))
	lines := strings.Split(strings.TrimSpace(rows), "\n")
	if !found || len(lines) != 2+len(loopBodies) {
		t.Fatalf("%d rows of %d bodies", len(lines)-2, len(loopBodies))
	}
	for i, line := range lines[2:] {
		want := "| " + loopBodies[i].name
		for _, f := range strings.Fields(strings.ReplaceAll(strings.TrimPrefix(line, loopBodies[i].name), "|", " ")) {
			v := value(strconv.ParseFloat(f, 64))(t)
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
