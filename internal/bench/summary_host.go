package bench

import (
	"context"
	"runtime"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/internal/bench/report"
	"github.com/reprise-tt/reprise/kmd"
	"github.com/reprise-tt/reprise/mesh"
)

// executed returns the instructions of the prefetcher, the dispatcher and its subordinate for each
// program of a long trace and for a replay of a trace of one program. The device is synchronous, so
// it is done when Replay returns. now returns the counts so far.
func (s *session) executed(ctx context.Context, x *reprise.Executable, now func() [3]uint64) (each, one [3]float64, err error) {
	// Whole rounds of launch messages, so that each kind of step is in proportion.
	const short, long = 32, 64
	var n [3][3]float64
	for i, programs := range []int{1, short, long} {
		err := s.recorded(ctx, x, programs, func(t *reprise.Trace) error {
			var before [3]uint64
			for range 2 { // the second is warm
				if err := s.finish(ctx); err != nil {
					return err
				}
				before = now()
				if err := t.Replay(ctx); err != nil {
					return err
				}
			}
			for k, v := range now() {
				n[i][k] = float64(v - before[k])
			}
			return nil
		})
		if err != nil {
			return each, one, err
		}
	}
	for k := range each {
		each[k] = (n[2][k] - n[1][k]) / (long - short)
	}
	return each, n[0], nil
}

// summarizeSubmit measures a replay's cost for the host and its bytes.
func summarizeSubmit(ctx context.Context, s *session) error {
	rows := s.rows(
		&report.SummaryRow{
			What: "submit a replay, host", Others: []report.Other{{Quantity: report.InNs(itsCI, 1870), Source: itsCISource}},
			Goals: []report.Quantity{report.InNs("", 40)}, Note: "each sample is the mean of 16 replays, one after the other",
		},
		&report.SummaryRow{
			What:   "bytes of a replay",
			Others: []report.Other{{Quantity: report.InBytes("tt-metal's commands", 256), Source: assemblerSource}},
		},
	)
	err := s.withProbe(ctx, func() error { return s.replays(ctx, s.submitReplay) }, reprise.WithQueueWorkers(0, chip.Range{}))
	if err != nil {
		return err
	}
	f := s.fill(rows[0], "replay/submit/programs=1", "p99", "max")
	if f == nil {
		missing(rows[1:], rows[0].Missing)
		return nil
	}
	rows[1].Now = new(report.InBytes("", *f.Bytes))
	return nil
}

// summarizeInstructions counts the instructions of a queue's cores.
func summarizeInstructions(ctx context.Context, s *session) error {
	shapes := []shape{minimal, common}
	var rows []*report.SummaryRow
	for _, what := range []string{"instructions of a program in a trace: ", "instructions of a replay of one program: "} {
		for _, p := range shapes {
			rows = append(rows, s.rows(&report.SummaryRow{What: what + p.name})...)
		}
	}
	if s.config.CountTarget == nil || s.config.Executed == nil {
		missing(rows, "only an emulated device tells them")
		return nil
	}
	for i, p := range shapes {
		// On a device each: earlier loads influence addresses.
		err := s.open(ctx, s.config.CountTarget, func() error {
			x, err := s.load(ctx, p)
			if err != nil {
				return err
			}
			each, one, err := s.executed(ctx, x, s.config.Executed)
			if err != nil {
				return err
			}
			fillInstructions(rows[i], each, s.dev.Arch(), p, false)
			fillInstructions(rows[len(shapes)+i], one, s.dev.Arch(), p, true)
			if rows[i].More, err = s.traceBytes(ctx, x, rows[i].More); err != nil {
				return err
			}
			return x.Release(ctx)
		}, nil)
		if err != nil {
			return err
		}
	}
	return nil
}

// fillInstructions sets a row to the instructions of prefetcher and dispatcher, beside those of
// tt-metal's firmware.
func fillInstructions(row *report.SummaryRow, n [3]float64, a chip.Arch, p shape, replay bool) {
	row.Now = new(report.InInstructions("", n[0]+n[1]))
	row.More = []report.Quantity{report.InInstructions("prefetcher", n[0]), report.InInstructions("dispatcher", n[1])}
	prefetcher, dispatcher := itsQueuesExecute(a, p, replay)
	its := prefetcher + dispatcher
	row.Others = []report.Other{{Quantity: report.InInstructions("tt-metal's firmware", its), Source: itsQueuesSource}}
	row.Goals = []report.Quantity{report.InInstructions("half of tt-metal's,", its/2)}
}

// traceBytes adds a program's bytes in a long trace, whose last runs wait for kernel-config memory
// as all later ones do.
func (s *session) traceBytes(ctx context.Context, x *reprise.Executable, to []report.Quantity) ([]report.Quantity, error) {
	const programs = 20
	t, err := s.record(ctx, x, programs)
	if err != nil {
		return nil, err
	}
	size := t.Parts()[0].Steps[programs-1].Size
	return append(to, report.InBytes("in the trace", float64(size))), t.Release(ctx)
}

func summarizeCapture(ctx context.Context, s *session) error {
	var rows []*report.SummaryRow
	shapes := []shape{common, worst}
	for _, p := range shapes {
		rows = append(rows, s.rows(&report.SummaryRow{
			What: "capture a program: " + p.name, Others: []report.Other{{Quantity: report.InNs(itsCI, capturePeers(p)[0].Ns), Source: itsCISource}},
			Goals: []report.Quantity{report.InNs("", 3_000)},
		})...)
	}
	if err := s.withProbe(ctx, func() error { return measureCapture(ctx, s) }); err != nil {
		return err
	}
	for i, p := range shapes {
		s.fill(rows[i], "capture/capture/shape="+p.name)
	}
	return nil
}

// summarizeWaits measures the lateness of waits and their share of a processor.
func summarizeWaits(ctx context.Context, s *session) error {
	rows := s.rows(
		&report.SummaryRow{What: "a wait's lateness, change after 4 to 8 ms"},
		&report.SummaryRow{What: "a wait's lateness, change after 4 ms each time", Goals: []report.Quantity{
			report.InNs("p50", 20_000), report.InNs("p90", 100_000), report.InShare("processor", 0.1),
		}},
		&report.SummaryRow{What: "the same beside a busy processor"},
	)
	arrivals := []arrival{comesOnce, comesAgain}
	if runtime.GOMAXPROCS(0) < 2 {
		missing(rows[2:], "the waiter and the busy goroutine need a processor each")
	} else {
		arrivals = append(arrivals, comesBusy)
	}
	if err := s.measurePace(ctx, defaultPace, arrivals...); err != nil {
		return err
	}
	if err := s.measurePace(ctx, spinningPace, comesAgain); err != nil {
		return err
	}
	for i, w := range arrivals {
		of := "/pace=" + defaultPace.name + "/comes=" + w.name
		s.fill(rows[i], "wake/wait"+of, "p90")
		if f, ok := s.report.Figure("wake/processor" + of); ok {
			rows[i].More = append(rows[i].More, report.InShare("processor", f.Mean/float64(w.mean())))
		}
		if f, ok := s.report.Figure("wake/wait/pace=" + spinningPace.name + "/comes=" + comesAgain.name); ok {
			rows[i].Others = append(rows[i].Others, report.Other{Quantity: report.InNs("spinning", f.P50)})
		}
	}
	return nil
}

func summarizeDemo(ctx context.Context, s *session) error {
	rows := s.rows(&report.SummaryRow{What: "the integer network, from open to close"})
	if s.config.Demo == nil {
		missing(rows, "this program has no network")
		return nil
	}
	w := whole{name: "demo"}
	on := func(t kmd.Target) func(context.Context) error {
		return func(ctx context.Context) error { return s.config.Demo(ctx, t) }
	}
	runs := []*run{always(on(s.config.Target))}
	if a := s.config.Against; a != nil {
		runs = append(runs, always(on(a.Target), a.params()...))
	}
	if err := s.most(fewRounds, func() error { return s.measureWhole(ctx, w, runs...) }); err != nil {
		return err
	}
	if quoted := map[string]float64{chip.Wormhole.String(): 5.8e9, chip.Blackhole.String(): 9.2e9}[s.report.Arch]; quoted > 0 {
		rows[0].Others = []report.Other{{Quantity: report.InNs(quotedSimulator, quoted), Source: ttsimBeside}}
	}
	s.fillWhole(rows[0], w)
	part(rows[0], "a 25th of the simulator's,", 25)
	return nil
}

func summarizeChips(ctx context.Context, s *session) error {
	all := s.config.Mesh
	if len(all) == 0 {
		missing(s.rows(&report.SummaryRow{What: "open several chips"}), "no machine with several chips was named")
		return nil
	}
	chips := report.NewParam("chips", len(all))
	rows := s.rows(&report.SummaryRow{What: "open " + chips.Value + " chips"})
	if len(all) == 32 {
		rows[0].Goals = []report.Quantity{report.InNs("", 0.5e9)}
	}
	defer func(arch string) { s.report.Arch = arch }(s.report.Arch)
	if err := s.most(fewRounds, func() error { return s.openMesh(ctx, mesh.Machine(all)) }); err != nil {
		return err
	}
	s.fill(rows[0], (&report.Figure{Family: "mesh", Name: "open", Params: []report.Param{chips}}).ID())
	return nil
}
