package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/internal/bench/measure"
	"github.com/reprise-tt/reprise/internal/bench/report"
	"github.com/reprise-tt/reprise/internal/expect"
	"github.com/reprise-tt/reprise/internal/writertest"
	"github.com/reprise-tt/reprise/kernels"
	"github.com/reprise-tt/reprise/kernels/metal"
	"github.com/reprise-tt/reprise/kmd"
	"github.com/reprise-tt/reprise/sim"
	"github.com/reprise-tt/reprise/sim/ttsim"
	"github.com/reprise-tt/reprise/sim/ttsim/ttsimtest"
	"go.uber.org/goleak"
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
	expect.Equal(t, *one.Bytes, *three.Bytes, "B of a replay of 1 program and of 3")
	expect.Equal(t, *one.Allocs, 0, "allocations for 1")
	expect.Equal(t, *three.Allocs, 0, "allocations for 3")
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

func summarized() *report.Report {
	quoted := &report.Source{From: "its documentation", Date: "1 May 2026"}
	return &report.Report{
		Device: "emu:blackhole", Host: report.Host{OS: "linux", Arch: "amd64", CPUs: 2, Go: "go1.26"}, Rounds: 20, Warmup: 3,
		Summary: []*report.SummaryRow{
			{What: "submit", Now: new(report.Ns.Of("", 66)), More: []report.Quantity{report.Ns.Of("p99", 1300), report.Ns.Of("max", 423e3)},
				Ratio: &report.Ratio{To: report.MemcpySame, Value: 2.4},
				Others: []report.Other{{Quantity: report.Ns.Of("a peer", 1870), Source: quoted},
					{Quantity: report.Ns.Of("a copy", 33), Limit: true}},
				Goals: []report.Quantity{report.Ns.Of("", 40)}, Note: "how"},
			{What: "instructions", Now: new(report.Instructions.Of("", 1975.2)), More: []report.Quantity{report.Bytes.Of("in the trace", 5120)},
				Others: []report.Other{{Quantity: report.Instructions.Of("a peer", 6128), Source: quoted}},
				Goals:  []report.Quantity{report.Instructions.Of("half of its", 3064)}},
			{What: "wait", Now: new(report.Ns.Of("", 12e3)), More: []report.Quantity{report.Share.Of("processor", 0.085)},
				Goals: []report.Quantity{report.Ns.Of("p50", 20e3), report.Share.Of("processor", 0.1)}},
			{What: "network", Now: new(report.Ns.Of("", 2e9)), More: []report.Quantity{report.Ns.Of(onProcessors, 1e9)},
				Others: []report.Other{{Quantity: report.Ns.Of("a peer", 20e9)}, {Quantity: report.Ns.Of(onProcessors, 15e9)}}},
			{What: "several processors", Now: new(report.Times.Of("", 1.02)),
				Others: []report.Other{{Quantity: report.Times.Of("processors", 2), Limit: true}}},
			{What: "chips", Missing: "no machine was named", Others: []report.Other{{Quantity: report.Ns.Of("a peer", 2e9), Source: quoted}}},
		},
	}
}

func TestSummaryTable(t *testing.T) {
	want := string(value(os.ReadFile("testdata/summary.txt"))(t))
	tableOf(t, summarized(), want)
	writertest.EveryWrite(t, summarized().WriteTable)
}

func tableOf(t *testing.T, r *report.Report, want string) {
	t.Helper()
	var out strings.Builder
	must(t, r.WriteTable(&out))
	got := regexp.MustCompile("(─)+|(  ) +").ReplaceAllString(out.String(), "$1$2")
	noDiff(t, strings.Split(got, "\n"), strings.Split(want, "\n"), "table")
}

func TestSummaryRows(t *testing.T) {
	other := sim.Blackhole()
	s := &session{
		ctx:    t.Context(),
		config: Config{Target: sim.Wormhole(), Programs: []int{1}, Against: &Against{Target: other, Name: "other"}},
		runner: measure.Runner{Clock: measure.Calibrate(time.Millisecond), Rounds: 2}, report: &report.Report{},
	}
	var ran []kmd.Target
	s.config.Demo = func(ctx context.Context, target kmd.Target) error {
		ran = append(ran, target)
		return s.open(target, func() error { return nil })
	}
	for _, part := range []func(*session) error{
		summarizeSubmit, summarizeDemo, summarizeInstructions, summarizeEmulator, summarizeProcessors, summarizeChips,
	} {
		must(t, part(s))
	}
	rows := map[string]*report.SummaryRow{}
	for _, r := range s.report.Summary {
		if rows[r.What] = r; (r.Now == nil) != (r.Missing != "") {
			t.Errorf("%s: now %v, missing %q", r.What, r.Now, r.Missing)
		}
	}
	submit := rows["submit a replay, host"]
	if f, ok := s.report.Figure(submit.Figure); !ok || submit.Now == nil || submit.Now.Value != f.P50 ||
		submit.Ratio.To != report.MemcpySame ||
		submit.Others[0].Source == nil {
		t.Errorf("a replay: %+v of %+v", submit, f)
	}
	if r := rows["bytes of a replay"]; r.Now == nil || r.Now.Value != 128 {
		t.Errorf("bytes of a replay on Wormhole: %v, want 128", r.Now)
	}
	network := rows["reprise demo's network, from open to close"]
	f, ok := s.report.Figure("summary/demo/device=other")
	if !ok || network.Others[0].Name != "other" || network.Others[0].Value != f.P50 || network.Others[0].Source != nil ||
		network.Goals[0].Value != f.P50/25 {
		t.Errorf("the network beside another device: %+v, its figure %+v", network, f)
	}
	if turns := slices.Compact(ran); !slices.Equal(turns, []kmd.Target{s.config.Target, other, s.config.Target, other}) {
		t.Errorf("the network ran on %v, want the target and the other device in turn, twice", turns)
	}
	if r := rows["open several chips"]; r == nil || r.Missing == "" {
		t.Errorf("chips without a machine: %+v", r)
	}
}

func TestSummaryAlone(t *testing.T) {
	for _, families := range [][]string{{"open", Summarized}, {"replays"}} {
		expect.Fails(t, expect.ErrOf(Run(t.Context(), Config{Families: families})), ErrFamily, "%q", families)
	}
	all, err := pick(nil)
	must(t, err)
	for _, f := range all {
		if f.Name == Summarized {
			t.Error("it is among those that are measured if none is named")
		}
	}
}

var metalQueues = flag.String("metal-queues", "",
	"`folder` of tt-metal's command-queue firmware, whose instructions and clocks are counted beside our own's")

// p100a is what a card of that kind lacks: two columns of cores and a DRAM bank.
var p100a = chip.Harvesting{Tensix: 0x3, DRAM: 0x80}

// Tt-metal's command-queue firmware stands beside this runtime's with the same commands and with
// its own form of them.
func TestMetalInstructions(t *testing.T) {
	if *metalQueues == "" {
		t.Skip("no -metal-queues DIR: a folder with command-queue firmware that tt-metal built")
	}
	fw := value(metal.OpenQueueFirmware(t.Context(), *metalQueues))(t)
	arch, h := fw.Base.Layout.Arch, chip.Harvesting{}
	if fw.Base.L1Banks == 110 {
		h = p100a
	}
	t.Logf("%v, %v: prefetcher, dispatcher, subordinate: a program of many | a replay of one", arch,
		fw.Base.Layout.Revision)
	for _, p := range timed {
		for _, o := range []struct {
			name string
			opts []reprise.Option
		}{
			{"tt-metal's", []reprise.Option{reprise.WithQueueFirmware(*metalQueues)}},
			{"our own, its form", []reprise.Option{reprise.WithStockWireFormat()}},
			{"our own", nil},
		} {
			each, one := instructions(t, arch, h, p, o.opts...)
			t.Logf("%-16s %-18s %8.0f %8.0f %8.0f | %8.0f %8.0f %8.0f", p.name, o.name, each[0], each[1], each[2], one[0], one[1], one[2])
		}
	}
}

var metalWorkers = flag.String("metal", "",
	"`folder` with base firmware and kernels that tt-metal built, which workers run in TestMetalClocks instead of our own")

// Clocks of the vendor's simulator for the programs of TestInstructions. With -metal the workers
// run tt-metal's base firmware and its kernel "blank": command-queue firmware of March 2026 and
// later drives no other workers.
func TestMetalClocks(t *testing.T) {
	if *metalQueues == "" {
		t.Skip("no -metal-queues DIR: a folder with command-queue firmware that tt-metal built")
	}
	fw := value(metal.OpenQueueFirmware(t.Context(), *metalQueues))(t)
	arch := fw.Base.Layout.Arch
	workers := map[chip.Arch]int{chip.Wormhole: 72, chip.Blackhole: 130}[arch]
	if fw.Base.L1Banks != workers {
		t.Skipf("the command-queue firmware is for %d workers, and the vendor's simulator has %d", fw.Base.L1Banks, workers)
	}
	var image *kernels.Image
	var opts []reprise.Option
	if *metalWorkers != "" {
		var base *metal.Firmware
		base, image = metalBlank(t, fw.Base)
		opts = append(opts, reprise.WithFirmware(base.Dir))
	}
	stock := metalClocks(t, arch, image, append(opts, reprise.WithQueueFirmware(*metalQueues))...)
	ours := metalClocks(t, arch, image, opts...)
	t.Logf("%v, %v: tt-metal's clocks, ours, ratio: a program of many | a replay of one",
		arch, fw.Base.Layout.Revision)
	for i, p := range timed {
		a, b := stock[i], ours[i]
		t.Logf("%-16s %8.0f %8.0f %6.2f | %8.0f %8.0f %6.2f", p.name, a.program, b.program, a.program/b.program, a.replay, b.replay,
			a.replay/b.replay)
	}
}

// metalBlank returns the base firmware of -metal that is of the same build as the command queues',
// and the kernel "blank" that was linked with it.
func metalBlank(t *testing.T, of *metal.Firmware) (*metal.Firmware, *kernels.Image) {
	t.Helper()
	cache, err := metal.OpenCache(t.Context(), *metalWorkers)
	must(t, err)
	for _, f := range cache.Firmware {
		if f.Layout.Revision.Name != of.Layout.Revision.Name || f.Layout.Arch != of.Layout.Arch || f.L1Banks != of.L1Banks ||
			f.DRAMBanks != of.DRAMBanks {
			continue
		}
		for i := range cache.Kernels {
			k := &cache.Kernels[i]
			if k.Name != "blank" || k.Processor != chip.BRISC {
				continue
			}
			if image, err := k.Load(); err == nil && f.CheckProcessor(image, chip.BRISC) == nil {
				return f, image
			}
		}
	}
	t.Skipf("%s has no base firmware of %v for a %v with %d workers, or no kernel blank that was linked with it", *metalWorkers,
		of.Layout.Revision, of.Layout.Arch, of.L1Banks)
	return nil, nil
}

// clocks are those of a program in a long trace, and of a replay of a trace of one.
type clocks struct{ program, replay float64 }

// metalClocks returns the clocks for each shape of timed. Kernels are the image, or our own if it
// is nil. The test clocks the simulator itself, so that the machine's load has no part in it. A
// replay lasts until an event after it is in the completion ring.
func metalClocks(t *testing.T, arch chip.Arch, image *kernels.Image, opts ...reprise.Option) (out []clocks) {
	t.Helper()
	ctx := t.Context()
	c := startClocked(t, map[chip.Arch]string{chip.Wormhole: ttsimtest.Wormhole, chip.Blackhole: ttsimtest.Blackhole}[arch])
	cards, err := c.sim.Cards()
	must(t, err)
	var dev *reprise.Device
	c.run(func() { dev, err = reprise.Open(ctx, cards[0], opts...) })
	must(t, err)
	defer c.run(func() { dev.Close(ctx) })
	s := &session{ctx: ctx, dev: dev}
	done := dev.NewEvent("replayed")
	for _, p := range timed {
		prog, err := p.program(dev)
		must(t, err)
		for i := range prog.Kernels {
			if image != nil {
				prog.Kernels[i].Image = image
			}
		}
		var x *reprise.Executable
		c.run(func() { x, err = dev.Load(ctx, prog) })
		must(t, err)
		replay := func(programs, step, times int) float64 {
			var tr *reprise.Trace
			c.run(func() { tr, err = s.record(x, programs) })
			must(t, err)
			var sum uint64
			for i := range times + 1 {
				// The prefetcher looks for an entry every few dozen clocks: replays begin at
				// different ones.
				c.advance(idle + uint64(7*i))
				from := c.sim.Clocks()
				must(t, errors.Join(tr.Replay(ctx), dev.Queue(0).Record(ctx, done)))
				for ended := false; !ended; {
					c.advance(uint64(step))
					ended, err = done.Query()
					must(t, err)
				}
				if i > 0 {
					sum += c.sim.Clocks() - from
				}
			}
			c.run(func() { err = tr.Release(ctx) })
			must(t, err)
			return float64(sum) / float64(times)
		}
		// Whole rounds of launch messages.
		const short, long = 64, 192
		out = append(out, clocks{
			program: (replay(long, 32, 2) - replay(short, 32, 2)) / (long - short),
			replay:  replay(1, 8, 16),
		})
		c.run(func() { err = x.Release(ctx) })
		must(t, err)
	}
	return out
}

// idle is how many clocks the cores of a queue have to finish whatever they did.
const idle = 20_000

// clocked is the vendor's simulator, whose time advances when the test says so.
type clocked struct {
	t   *testing.T
	sim *ttsim.Sim
}

func startClocked(t *testing.T, variable string) *clocked {
	t.Helper()
	return &clocked{t, ttsimtest.Start(t, variable, ttsim.ManualClock())}
}

func (c *clocked) advance(n uint64) {
	c.t.Helper()
	must(c.t, c.sim.Clock(n))
}

// run lets the simulator's time advance while f runs.
func (c *clocked) run(f func()) {
	c.t.Helper()
	ctx, cancel := context.WithCancel(c.t.Context())
	ended := make(chan error, 1)
	go func() {
		var err error
		for ctx.Err() == nil && err == nil {
			err = c.sim.Clock(1000)
		}
		ended <- err
	}()
	f()
	cancel()
	must(c.t, <-ended)
}
