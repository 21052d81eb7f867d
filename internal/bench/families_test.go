package bench

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/dispatch"
	"github.com/reprise-tt/reprise/internal/bench/measure"
	"github.com/reprise-tt/reprise/internal/bench/probe"
	"github.com/reprise-tt/reprise/internal/bench/report"
	"github.com/reprise-tt/reprise/internal/effort"
	"github.com/reprise-tt/reprise/kmd"
	"github.com/reprise-tt/reprise/mesh"
	"github.com/reprise-tt/reprise/sim"
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
		want[" bytes 4 pace "+p.name] = []string{"round_trip", "to_goroutine", "queue_read"}
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
	if len(r.Figures) != want {
		t.Errorf("%d figures for %d paces and %d arrivals", len(r.Figures), len(paces), len(arrivals))
	}
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
	if b := r.Breakdown; len(b.LeftOut) != 5 || b.Stages[0].Ns <= 0 || b.Stages[0].Faults != nil || b.Stages[1].OffNs != nil {
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

// Uprobes see both markers of every operation that is waited for; unless asked for, none is called.
func TestMarkers(t *testing.T) {
	m := probe.Detect()
	for _, f := range []probe.Feature{probe.BPF, probe.Uprobes} {
		if err := m(f); err != nil {
			t.Skip(err)
		}
	}
	p, err := probe.Start(probe.Config{Kinds: []probe.Kind{probe.Marks}})
	must(t, err)
	r := runFamily(t, "events", Config{Rounds: 3})
	sn, err := p.Snapshot()
	// A second probe on a marker costs next to nothing, so this one is removed before the cost is
	// measured.
	must(t, errors.Join(err, p.Close()))
	if r.Markers != nil || sn.Markers.Submitted != 0 || sn.Markers.Completed.Count != 0 {
		t.Errorf("markers without a request: %+v, seen %+v", r.Markers, sn.Markers)
	}
	r = runFamily(t, "events", Config{Rounds: 3, Markers: true})
	if len(r.Markers.Operations) != 2 || len(r.Markers.LeftOut) != 0 || r.Markers.Lost.Any() {
		t.Fatalf("%+v", r.Markers)
	}
	for i, figure := range []string{"events/record_to_host", "events/there_and_back"} {
		o := r.Markers.Operations[i]
		if o.Figure != figure || o.Done != 24 || o.Submitted != 24 || o.Completed != 24 {
			t.Errorf("24 events: %+v", o)
		}
		if o.MeanNs <= 0 || o.MeanNs > o.MaxNs || o.P50Ns > o.P99Ns || o.P99Ns > o.MaxNs {
			t.Errorf("times out of order: %+v", o)
		}
	}
	if len(r.Markers.Costs) != 1 || r.Markers.Costs[0].Ns <= 0 {
		t.Errorf("what a marker costs: %+v", r.Markers.Costs)
	}
	var out strings.Builder
	if err := r.WriteTable(&out); err != nil || !strings.Contains(out.String(), "for each marker") {
		t.Errorf("error %v, table\n%s", err, out.String())
	}
}

// The report says why it has no times.
func TestMarkersWithoutUprobes(t *testing.T) {
	r := runFamily(t, "events", Config{Rounds: 3, Markers: true, Machine: blind})
	m := r.Markers
	if len(m.Operations) != 2 || m.Operations[0].Done != 24 || m.Operations[0].Submitted != 0 || len(m.Costs) != 0 {
		t.Errorf("%+v", m)
	}
	if len(m.LeftOut) != 1 || !strings.Contains(m.LeftOut[0].Why, "in this test") {
		t.Errorf("left out: %+v", m.LeftOut)
	}
	var out strings.Builder
	if err := r.WriteTable(&out); err != nil || !strings.Contains(out.String(), "left out: markers: ") {
		t.Errorf("error %v, table\n%s", err, out.String())
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
