package report

import (
	"io"
	"testing"

	"github.com/reprise-tt/reprise/internal/bench/probe"
	"github.com/reprise-tt/reprise/internal/writertest"
)

// What can't be written is an error, wherever in the text that happens.
func TestTextThatCannotBeWritten(t *testing.T) {
	f := &Figure{Family: "f", Name: "x", P50: 1}
	cost, left := []probe.Cost{{Probe: "calls", Event: "call"}}, []probe.LeftOut{{Probe: "faults", Why: "no"}}
	r := &Report{
		Baselines: []*Figure{f}, Figures: []*Figure{f}, Refused: []Refusal{{Figure: "f/y"}}, LeftOut: []LeftOut{{Family: "mesh"}},
		Markers: &Markers{Operations: []Marked{{Figure: "f/x"}}, Costs: cost, LeftOut: left, Lost: probe.Lost{Ring: 1}},
		Breakdown: &Breakdown{Stages: []StageCost{{Name: "submit"}}, Jitter: []JitterSource{{Name: "tick"}}, Costs: cost, LeftOut: left,
			Lost: probe.Lost{Ring: 1}},
	}
	for name, write := range map[string]func(io.Writer) error{
		"report": r.WriteTable, "comparison": func(w io.Writer) error { return WriteComparison(w, Compare(r, r)) },
	} {
		t.Run(name, func(t *testing.T) { writertest.EveryWrite(t, write) })
	}
}
