package bench

import (
	"context"
	"runtime"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/kmd"
	"github.com/reprise-tt/reprise/mesh"
)

// summarizeSubmit measures what a replay costs the host, and what it sends.
func summarizeSubmit(ctx context.Context, s *session) error {
	rows := s.rows(
		&SummaryRow{
			What: "submit a replay, host", Others: []Other{{Quantity{itsCI, 1870, unitNs}, itsCISource}},
			Goals: []Quantity{{"", 40, unitNs}}, Note: "each sample is the mean of 16 replays, one after the other",
		},
		&SummaryRow{What: "bytes of a replay", Others: []Other{{Quantity{"tt-metal's commands", 256, unitBytes}, assemblerSource}}},
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
	rows[1].Now = &Quantity{"", *f.Bytes, unitBytes}
	return nil
}

// summarizeInstructions counts what the cores of a queue execute, on a device of its own.
func summarizeInstructions(ctx context.Context, s *session) error {
	shapes := []shape{minimal, common}
	var rows []*SummaryRow
	for _, what := range []string{"instructions of a program in a trace: ", "instructions of a replay of one program: "} {
		for _, p := range shapes {
			rows = append(rows, s.rows(&SummaryRow{What: what + p.name})...)
		}
	}
	if s.config.CountTarget == nil || s.config.Executed == nil {
		missing(rows, "only an emulated device tells them")
		return nil
	}
	for i, p := range shapes {
		// Each on a device of its own: what was loaded before has a part in where things lie.
		err := s.open(ctx, s.config.CountTarget, func() error {
			x, err := s.load(ctx, p)
			if err != nil {
				return err
			}
			each, one, err := s.executed(ctx, x, s.config.Executed)
			if err != nil {
				return err
			}
			rows[i].executed(each, s.dev.Arch(), p, false)
			rows[len(shapes)+i].executed(one, s.dev.Arch(), p, true)
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

// executed gives a row the instructions of the prefetcher and the dispatcher, beside those of tt-metal's firmware.
func (row *SummaryRow) executed(n [3]float64, a chip.Arch, p shape, replay bool) {
	row.Now = &Quantity{"", n[0] + n[1], unitInstructions}
	row.More = []Quantity{{"prefetcher", n[0], unitInstructions}, {"dispatcher", n[1], unitInstructions}}
	prefetcher, dispatcher := itsQueuesExecute(a, p, replay)
	its := prefetcher + dispatcher
	row.Others = []Other{{Quantity{"tt-metal's firmware", its, unitInstructions}, itsQueuesSource}}
	row.Goals = []Quantity{{"half of tt-metal's,", its / 2, unitInstructions}}
}

// traceBytes adds what a program takes in a long trace, whose last runs wait for kernel-config memory as all others do.
func (s *session) traceBytes(ctx context.Context, x *reprise.Executable, to []Quantity) ([]Quantity, error) {
	const programs = 20
	t, err := s.record(ctx, x, programs)
	if err != nil {
		return nil, err
	}
	size := t.Parts()[0].Steps[programs-1].Size
	return append(to, Quantity{"in the trace", float64(size), unitBytes}), t.Release(ctx)
}

// summarizeCapture measures recording a program and writing the trace.
func summarizeCapture(ctx context.Context, s *session) error {
	var rows []*SummaryRow
	shapes := []shape{common, worst}
	for _, p := range shapes {
		rows = append(rows, s.rows(&SummaryRow{
			What: "capture a program: " + p.name, Others: []Other{{Quantity{itsCI, capturePeers(p)[0].Ns, unitNs}, itsCISource}},
			Goals: []Quantity{{"", 3_000, unitNs}},
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

// summarizeWaits measures how late a wait notices, and the share of a processor that it takes.
func summarizeWaits(ctx context.Context, s *session) error {
	rows := s.rows(
		&SummaryRow{What: "a wait's lateness, change after 4 to 8 ms"},
		&SummaryRow{What: "a wait's lateness, change after 4 ms each time", Goals: []Quantity{
			{"p50", 20_000, unitNs}, {"p90", 100_000, unitNs}, {"processor", 0.1, unitShare},
		}},
		&SummaryRow{What: "the same beside a busy processor"},
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
			rows[i].More = append(rows[i].More, Quantity{"processor", f.Mean / float64(w.mean()), unitShare})
		}
		if f, ok := s.report.Figure("wake/wait/pace=" + spinningPace.name + "/comes=" + comesAgain.name); ok {
			rows[i].Others = append(rows[i].Others, Other{Quantity: Quantity{"spinning", f.P50, unitNs}})
		}
	}
	return nil
}

// summarizeDemo runs a whole network, from opening the device to closing it.
func summarizeDemo(ctx context.Context, s *session) error {
	rows := s.rows(&SummaryRow{What: "the integer network, from open to close"})
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
		rows[0].Others = []Other{{Quantity{quotedSimulator, quoted, unitNs}, ttsimBeside}}
	}
	s.fillWhole(rows[0], w)
	rows[0].part("a 25th of the simulator's,", 25)
	return nil
}

// part makes it the goal to take a part of what the first of the others takes.
func (row *SummaryRow) part(name string, of float64) {
	if len(row.Others) > 0 {
		row.Goals = []Quantity{{name, row.Others[0].Value / of, unitNs}}
	}
}

// summarizeChips measures opening the chips of a machine.
func summarizeChips(ctx context.Context, s *session) error {
	all := s.config.Mesh
	if len(all) == 0 {
		missing(s.rows(&SummaryRow{What: "open several chips"}), "no machine with several chips was named")
		return nil
	}
	chips := param("chips", len(all))
	rows := s.rows(&SummaryRow{What: "open " + chips.Value + " chips"})
	if len(all) == 32 {
		rows[0].Goals = []Quantity{{"", 0.5e9, unitNs}}
	}
	defer func(arch string) { s.report.Arch = arch }(s.report.Arch)
	if err := s.most(fewRounds, func() error { return s.openMesh(ctx, mesh.Machine(all)) }); err != nil {
		return err
	}
	s.fill(rows[0], (&Figure{Family: "mesh", Name: "open", Params: []Param{chips}}).ID())
	return nil
}
