package bench

import (
	"cmp"
	"errors"
	"runtime"
	"slices"
	"strconv"
	"time"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/internal/bench/measure"
	"github.com/reprise-tt/reprise/internal/bench/report"
	"github.com/reprise-tt/reprise/kmd"
	"github.com/reprise-tt/reprise/ops"
)

// executed returns the instructions of prefetcher, dispatcher and subordinate for each program of a
// long trace and for a replay of a trace of one.
func (s *session) executed(x *reprise.Executable) (each, one [3]float64, err error) {
	// Whole rounds of launch messages.
	const short, long = 32, 64
	var n [3][3]float64
	for i, programs := range []int{1, short, long} {
		if err := s.recorded(x, programs, func(t *reprise.Trace) error {
			var before [3]uint64
			for range 2 { // the second is warm
				err := s.finish()
				before = s.config.CountTarget.Chip().QueueExecuted()
				if err := errors.Join(err, t.Replay(s.ctx)); err != nil {
					return err
				}
			}
			for k, v := range s.config.CountTarget.Chip().QueueExecuted() {
				n[i][k] = float64(v - before[k])
			}
			return nil
		}); err != nil {
			return each, one, err
		}
	}
	for k := range each {
		each[k] = (n[2][k] - n[1][k]) / (long - short)
	}
	return each, n[0], nil
}

func quote(q report.Quantity, source *report.Source) []report.Other {
	return []report.Other{{Quantity: q, Source: source}}
}

func limit(q report.Quantity) []report.Other { return []report.Other{{Quantity: q, Limit: true}} }

func summarizeSubmit(s *session) error {
	rows := s.rows(
		&report.SummaryRow{What: "submit a replay, host", Others: quote(report.Ns.Of(itsCI, 1870), itsCISource),
			Goals: []report.Quantity{report.Ns.Of("", 40)}, Note: "each sample is the mean of 16 replays, one after the other"},
		&report.SummaryRow{What: "bytes of a replay", Others: quote(report.Bytes.Of("tt-metal's commands", 256), assemblerSource)},
	)
	if err := s.submitReplays(); err != nil {
		return err
	}
	f := s.fill(rows[0], "replay/submit/programs=1", "p99", "max")
	if f == nil {
		missing(rows[1:], rows[0].Missing)
		return nil
	}
	rows[1].Now = new(report.Bytes.Of("", *f.Bytes))
	return nil
}

func summarizeInstructions(s *session) error {
	shapes := []shape{minimal, common}
	var rows []*report.SummaryRow
	for _, what := range []string{"instructions of a program in a trace: ", "instructions of a replay of one program: "} {
		for _, p := range shapes {
			rows = append(rows, s.rows(&report.SummaryRow{What: what + p.name})...)
		}
	}
	if s.config.CountTarget == nil {
		missing(rows, "only an emulated device tells them")
		return nil
	}
	for i, p := range shapes {
		// On a device each: earlier loads influence addresses.
		if err := s.open(s.config.CountTarget, func() error {
			return s.loaded(p, func(x *reprise.Executable) error {
				each, one, err := s.executed(x)
				if err != nil {
					return err
				}
				fillInstructions(rows[i], each, s.dev.Arch(), p, false)
				fillInstructions(rows[len(shapes)+i], one, s.dev.Arch(), p, true)
				const programs = 20 // the last ones wait for kernel-config memory, as all later ones do
				return s.recorded(x, programs, func(t *reprise.Trace) error {
					size := t.Parts()[0].Steps[programs-1].Size
					rows[i].More = append(rows[i].More, report.Bytes.Of("in the trace", float64(size)))
					return nil
				})
			})
		}); err != nil {
			return err
		}
	}
	return nil
}

func fillInstructions(row *report.SummaryRow, n [3]float64, a chip.Arch, p shape, replay bool) {
	row.Now = new(report.Instructions.Of("", n[0]+n[1]))
	row.More = []report.Quantity{report.Instructions.Of("prefetcher", n[0]), report.Instructions.Of("dispatcher", n[1])}
	its := itsQueuesExecute(a, p, replay)
	row.Others = quote(report.Instructions.Of("tt-metal's firmware", its), itsQueuesSource)
	row.Goals = []report.Quantity{report.Instructions.Of("half of tt-metal's,", its/2)}
}

func summarizeCapture(s *session) error {
	var rows []*report.SummaryRow
	shapes := []shape{common, worst}
	for _, p := range shapes {
		rows = append(rows, s.rows(&report.SummaryRow{What: "capture a program: " + p.name,
			Others: quote(report.Ns.Of(itsCI, capturePeers(p)[0].Ns), itsCISource), Goals: []report.Quantity{report.Ns.Of("", 3_000)}})...)
	}
	if err := s.withProbe(func() error { return measureCapture(s) }); err != nil {
		return err
	}
	for i, p := range shapes {
		s.fill(rows[i], "capture/capture/shape="+p.name)
	}
	return nil
}

// summarizeWaits measures lateness and the share of a processor.
func summarizeWaits(s *session) error {
	rows := s.rows(
		&report.SummaryRow{What: "a wait's lateness, change after 4 to 8 ms"},
		&report.SummaryRow{What: "a wait's lateness, change after 4 ms each time", Goals: []report.Quantity{
			report.Ns.Of("p50", 20_000), report.Ns.Of("p90", 100_000), report.Share.Of("processor", 0.1),
		}},
		&report.SummaryRow{What: "the same beside a busy processor"},
	)
	arrivals := []arrival{comesOnce, comesAgain}
	if runtime.GOMAXPROCS(0) < 2 {
		missing(rows[2:], "the waiter and the busy goroutine need a processor each")
	} else {
		arrivals = append(arrivals, comesBusy)
	}
	if err := errors.Join(s.measurePace(defaultPace, arrivals...), s.measurePace(spinningPace, comesAgain)); err != nil {
		return err
	}
	for i, w := range arrivals {
		of := "/pace=" + defaultPace.name + "/comes=" + w.name
		s.fill(rows[i], "wake/wait"+of, "p90")
		if f, ok := s.report.Figure("wake/processor" + of); ok {
			mean := w.after
			if !w.repeat {
				mean = w.after * 3 / 2
			}
			rows[i].More = append(rows[i].More, report.Share.Of("processor", f.Mean/float64(mean)))
		}
		if f, ok := s.report.Figure("wake/wait/pace=" + spinningPace.name + "/comes=" + comesAgain.name); ok {
			rows[i].Others = limit(report.Ns.Of("spinning", f.P50))
		}
	}
	return nil
}

func summarizeDemo(s *session) error {
	rows := s.rows(&report.SummaryRow{What: "reprise demo's network, from open to close"})
	if s.config.Demo == nil {
		missing(rows, "this program has no network")
		return nil
	}
	w := whole{name: "demo"}
	on := func(t kmd.Target) func() error { return func() error { return s.config.Demo(s.ctx, t) } }
	runs := []*run{always(on(s.config.Target))}
	if a := s.config.Against; a != nil {
		runs = append(runs, always(on(a.Target), a.params()...))
	}
	if err := s.most(fewRounds, func() error { return s.measureWhole(w, runs...) }); err != nil {
		return err
	}
	if quoted := map[string]float64{chip.Wormhole.String(): 30.0e9, chip.Blackhole.String(): 38.3e9}[s.report.Arch]; quoted > 0 {
		rows[0].Others = quote(report.Ns.Of(quotedSimulator, quoted), ttsimDemo)
	}
	s.fillWhole(rows[0], w)
	part(rows[0], "a 25th of the simulator's,", 25)
	return nil
}

func summarizeChips(s *session) error {
	all := s.config.Mesh
	if len(all) == 0 {
		missing(s.rows(&report.SummaryRow{What: "open several chips"}), "no machine with several chips was named")
		return nil
	}
	rows := s.rows(&report.SummaryRow{What: "open " + strconv.Itoa(len(all)) + " chips"})
	if len(all) == 32 {
		rows[0].Goals = []report.Quantity{report.Ns.Of("", 0.5e9)}
	}
	defer func(arch string) { s.report.Arch = arch }(s.report.Arch)
	if err := s.most(fewRounds, func() error { return s.openMesh(all) }); err != nil {
		return err
	}
	s.fill(rows[0], report.ID("mesh", "open", report.Params("chips", len(all))...))
	return nil
}

// summarizeEmulator gives Config.Against the same work, and divides its time by the instructions
// counted here.
func summarizeEmulator(s *session) error {
	instruction := func(what string) *report.SummaryRow {
		return &report.SummaryRow{What: "emulator, an instruction, " + what, Others: quote(report.Ns.Of(quotedSimulator, 4.5), ttsimAlone),
			Goals: []report.Quantity{report.Ns.Of("", 1)}}
	}
	rows := s.rows(instruction("1 worker busy"), instruction("all workers busy"),
		&report.SummaryRow{What: "emulator, a NoC byte, pages of 64 B", Goals: []report.Quantity{report.Ns.Of("", 3)}})
	if s.config.Emulated == nil {
		missing(rows, notEmulated)
		return nil
	}
	works := []struct {
		workload
		less workload // for Config.Against
		whole
	}{{workload: busyWorkers(1)}, {}}
	err := s.emulate(1, func(chips []emulated) error {
		s.report.Arch = chips[0].Arch().String()
		works[1].workload = busyWorkers(chips[0].workers())
		for i := range works {
			w := &works[i]
			params := report.Params("workers", w.workers)
			if err := s.measureWork(chips, w.workload, executed, params); err != nil {
				return err
			}
			w.less = w.workload
			w.less.pages = min(w.pages, pagesOfOther)
			n, err := s.count(chips[0], w.less)
			if err != nil {
				return err
			}
			w.whole = whole{executed.name, params, float64(n)}
		}
		return s.measurePages(chips, 64)
	})
	if err != nil {
		return err
	}
	fill := func(row *report.SummaryRow, name, of string) {
		s.fill(row, "emulator/"+name+of)
		s.addProcessorTime(row, "emulator/"+name+processorSuffix+of)
	}
	for i, w := range works {
		if err := s.measureOther(w.whole, func() (func() error, error) {
			x, err := w.less.load(s, s.dev)
			return runToEnd(s.ctx, s.dev, x), err
		}); err != nil {
			return err
		}
		fill(rows[i], executed.name, "/workers="+strconv.Itoa(w.workers))
		s.fillOther(rows[i], w.whole)
		if s.config.Against != nil {
			rows[i].Note = "the other device did such work too, its time is divided by the instructions that the emulator counts for that"
		}
	}
	fill(rows[2], bytesMoved.name, "/page=64")
	if r := rows[2].Ratio; r != nil && r.To == report.MemcpyPages {
		rows[2].Others = limit(report.Ns.Of("a copy", r.Ns))
	}
	return nil
}

const pagesOfOther = 40

func (s *session) count(c emulated, w workload) (n uint64, err error) {
	x, err := w.load(s, c.Device)
	if err != nil {
		return 0, err
	}
	run := runToEnd(s.ctx, c.Device, x)
	for range 2 {
		before := executed.of(c.card)
		if err := run(); err != nil {
			return 0, err
		}
		n = executed.of(c.card) - before
	}
	return n, x.Release(s.ctx)
}

func summarizePrograms(s *session) error {
	const programs = 100
	w := whole{"replay_to_end", report.Params("programs", programs), 0}
	rows := s.rows(&report.SummaryRow{What: "replay 100 programs, all workers"})
	err := s.inTurn(w, func() (func() error, error) {
		q := s.queue()
		x, err := s.load(common)
		if err != nil {
			return nil, err
		}
		t, err := s.record(x, programs)
		return func() error { return errors.Join(t.Replay(s.ctx), q.Wait(s.ctx)) }, err
	})
	if err != nil {
		return err
	}
	if s.report.Arch == chip.Blackhole.String() {
		rows[0].Others = quote(report.Ns.Of(quotedSimulator, 1.37e9), ttsimBeside)
	}
	s.fillWhole(rows[0], w)
	part(rows[0], "a 100th of the simulator's,", 100)
	return nil
}

func summarizeProcessors(s *session) error {
	processors := runtime.GOMAXPROCS(0)
	rows := s.rows(
		&report.SummaryRow{What: "one emulated chip on all processors: RISC-V cores",
			Note: "with the option parallel; else one goroutine executes the instructions of all tiles"},
		&report.SummaryRow{What: "one emulated chip on all processors: engines",
			Note: "a product of 512 x 512 x 512; with the option parallel, as RISC-V cores"},
	)
	for _, r := range rows {
		r.Others = limit(report.Times.Of("processors", float64(processors)))
		r.Goals = []report.Quantity{report.Times.Of("near", float64(min(processors, 8)))}
	}
	switch {
	case s.config.Parallel == nil:
		missing(rows, notEmulated)
		return nil
	case processors < 2:
		missing(rows, "there is one processor")
		return nil
	}
	return s.open(s.config.Parallel, func() error {
		w := busyWorkers(s.queue().Workers().Size())
		w.pages *= 40 // so that the launch counts for little
		x, err := w.load(s, s.dev)
		if err != nil {
			return err
		}
		if err := s.speedUp(rows[0], "instructions", runToEnd(s.ctx, s.dev, x)); err != nil {
			return err
		}
		b := &opsBench{session: s, ops: ops.New(s.dev)}
		defer b.ops.Release(s.ctx)
		in, err := b.random(0, square, square, square)
		if err != nil {
			return err
		}
		return s.speedUp(rows[1], "engines", func() error {
			_, err := b.ops.Matmul(s.ctx, in[0], in[1], ops.Into(in[2]))
			return errors.Join(err, b.ops.Wait(s.ctx))
		})
	})
}

// speedUp sets a row to the ratio of the times on one processor and on all.
func (s *session) speedUp(row *report.SummaryRow, what string, do func() error) error {
	var ratios []float64
	elapsed := func() (time.Duration, error) {
		start := time.Now()
		err := do()
		return time.Since(start), err
	}
	alone := func() (time.Duration, error) {
		defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
		return elapsed()
	}
	w := whole{name: "all_processors", params: report.Params("work", what)}
	err := s.most(fewRounds, func() error {
		return s.measure(Summarized, &measure.Job{Name: w.name, Params: w.params, Sample: func() (float64, error) {
			one, err := alone()
			if err != nil {
				return 0, err
			}
			all, err := elapsed()
			ratios = append(ratios, float64(one)/float64(all))
			return float64(all), err
		}})
	})
	if err != nil {
		return err
	}
	if f := s.fill(row, w.id("")); f != nil {
		row.More = []report.Quantity{report.Ns.Of("on all processors", f.P50)}
		row.Now = new(report.Times.Of("", report.Median(ratios)))
	}
	return nil
}

// Rounds of long measurements, of the target and of Config.Against.
const (
	fewRounds     = 5
	fewestOfOther = 3
)

func (s *session) rows(rows ...*report.SummaryRow) []*report.SummaryRow {
	s.report.Summary = append(s.report.Summary, rows...)
	return rows
}

func missing(rows []*report.SummaryRow, why string) {
	for _, r := range rows {
		r.Missing = why
	}
}

func (s *session) fill(row *report.SummaryRow, id string, percentiles ...string) *report.Figure {
	f, ok := s.report.Figure(id)
	if !ok {
		row.Missing = "the chip's clock moved each time"
		return nil
	}
	row.Figure, row.Now = id, new(report.Ns.Of("", f.P50))
	for _, p := range percentiles {
		row.More = append(row.More, report.Ns.Of(p, map[string]float64{"p90": f.P90, "p99": f.P99, "max": f.Max}[p]))
	}
	if len(f.Ratios) > 0 {
		row.Ratio = &f.Ratios[0]
	}
	return f
}

func (s *session) most(rounds int, do func() error) error {
	was := s.runner
	defer func() { s.runner = was }()
	s.runner.Rounds, s.runner.Warmup = min(was.Rounds, rounds), min(was.Warmup, 1)
	return do()
}

// processorSuffix ends the names of figures of processor time. Rows show their least: other
// programs add to it through shared caches and cores.
const (
	processorSuffix = "_processor_time"
	onProcessors    = "least processor time"
)

type whole struct {
	name   string
	params []report.Param
	of     float64 // the operations of a run; 0 means 1
}

func (w whole) id(suffix string, device ...report.Param) string {
	return w.figure(suffix, device...).ID()
}

func (w whole) figure(suffix string, device ...report.Param) *report.Figure {
	return &report.Figure{Family: Summarized, Name: w.name + suffix, Params: append(slices.Clone(w.params), device...), PerSample: 1}
}

type work func() (do func() error, err error)

type run struct {
	device []report.Param
	round  func(measure func(do func() error) error) error

	wall, busy *measure.Series
}

func always(do func() error, device ...report.Param) *run {
	return &run{device: device, round: func(measure func(func() error) error) error { return measure(do) }}
}

// measureWhole measures devices in turn.
func (s *session) measureWhole(w whole, runs ...*run) error {
	for _, r := range runs {
		r.wall, r.busy = measure.NewSeries(), measure.NewSeries()
	}
	of := cmp.Or(w.of, 1)
	round, first := -s.runner.Warmup, runs[0]
	f := w.figure("", first.device...)
	err := s.measure(f.Family, &measure.Job{Name: f.Name, Params: f.Params, Sample: func() (ns float64, err error) {
		for i, r := range runs {
			if i > 0 && round >= fewestOfOther {
				break
			}
			var t times
			if err := r.round(func(do func() error) (err error) {
				t, err = timesOf(do)
				return err
			}); err != nil {
				return 0, err
			}
			if i == 0 {
				ns = t.wall / of
			}
			if round >= 0 {
				r.wall.Add(t.wall / of)
				r.wall.End()
				if t.counted {
					r.busy.Add(t.busy / of)
					r.busy.End()
				}
			}
		}
		round++
		return ns, nil
	}})
	if err != nil {
		return err
	}
	add := func(f *report.Figure, of *measure.Series) {
		if len(of.Rounds) > 0 {
			of.Fill(f)
			s.report.Figures = append(s.report.Figures, f)
		}
	}
	for i, r := range runs {
		if i > 0 { // s.measure made the first one's
			add(w.figure("", r.device...), r.wall)
		}
		add(w.figure(processorSuffix, r.device...), r.busy)
	}
	return nil
}

// sampleLasts is the least duration of a sample of processor time: the kernel updates threads'
// times at its ticks, milliseconds late.
const sampleLasts = 100 * time.Millisecond

type times struct {
	wall, busy float64
	counted    bool
}

// timesOf repeats do for at least sampleLasts and returns the mean.
func timesOf(do func() error) (t times, err error) {
	before, counted := measure.TreeTime()
	n, took := 0, time.Duration(0)
	for start := time.Now(); took < sampleLasts; took = time.Since(start) {
		if err := do(); err != nil {
			return t, err
		}
		n++
	}
	after, _ := measure.TreeTime()
	return times{float64(took) / float64(n), float64(after-before) / float64(n), counted}, nil
}

// inTurn closes Config.Against in between: an open simulator keeps polling.
func (s *session) inTurn(w whole, of work) error {
	return s.with(func() error {
		do, err := of()
		if err != nil {
			return err
		}
		runs := []*run{always(do)}
		if a := s.config.Against; a != nil {
			runs = append(runs, &run{device: a.params(), round: func(measure func(func() error) error) error {
				return s.openOther(of, func(do func() error) error {
					if err := do(); err != nil { // to load the kernels
						return err
					}
					return measure(do)
				})
			}})
		}
		return s.most(fewRounds, func() error { return s.measureWhole(w, runs...) })
	})
}

func (s *session) measureOther(w whole, of work) error {
	a := s.config.Against
	if a == nil {
		return nil
	}
	return s.openOther(of, func(do func() error) error {
		return s.most(fewestOfOther, func() error { return s.measureWhole(w, always(do, a.params()...)) })
	})
}

func (s *session) openOther(of work, then func(do func() error) error) error {
	defer func(arch string, dev *reprise.Device) { s.report.Arch, s.dev = arch, dev }(s.report.Arch, s.dev)
	return s.against(func(*Against) error {
		do, err := of()
		if err != nil {
			return err
		}
		return then(do)
	}, patient)
}

// patient is for the vendor's simulator, which takes minutes for a millisecond of silicon.
var patient = reprise.WithHangTimeout(10 * time.Minute)

func (a *Against) params() []report.Param { return report.Params("device", a.Name) }

func (s *session) fillWhole(row *report.SummaryRow, w whole) {
	s.fill(row, w.id(""))
	s.addProcessorTime(row, w.id(processorSuffix))
	s.fillOther(row, w)
}

func (s *session) addProcessorTime(row *report.SummaryRow, id string) {
	if f, ok := s.report.Figure(id); ok {
		row.More = append(row.More, report.Ns.Of(onProcessors, f.Min))
	}
}

// fillOther replaces quotations by measurements of Config.Against.
func (s *session) fillOther(row *report.SummaryRow, w whole) {
	a := s.config.Against
	if a == nil {
		return
	}
	var measured []report.Other
	if f, ok := s.report.Figure(w.id("", a.params()...)); ok {
		measured = append(measured, report.Other{Quantity: report.Ns.Of(a.Name, f.P50)})
	}
	if f, ok := s.report.Figure(w.id(processorSuffix, a.params()...)); ok {
		measured = append(measured, report.Other{Quantity: report.Ns.Of(onProcessors, f.Min)})
	}
	if len(measured) > 0 {
		row.Others = measured
	}
}

// part sets the goal to a fraction of the first other.
func part(row *report.SummaryRow, name string, of float64) {
	if len(row.Others) > 0 {
		row.Goals = []report.Quantity{report.Ns.Of(name, row.Others[0].Value/of)}
	}
}
