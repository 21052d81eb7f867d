package bench

import (
	"errors"
	"io"
	"testing"

	"github.com/reprise-tt/reprise/bench/probe"
)

// failing is a file that takes all writes but one.
type failing struct{ left int }

var errFailing = errors.New("no space left")

func (f *failing) Write(p []byte) (int, error) {
	if f.left--; f.left == -1 {
		return 0, errFailing
	}
	return len(p), nil
}

// What can't be written is an error, wherever in the text that happens.
func TestTextThatCannotBeWritten(t *testing.T) {
	f := &Figure{Family: "f", Name: "x", P50: 1}
	cost, left := []probe.Cost{{Probe: "calls", Event: "call"}}, []probe.LeftOut{{Probe: "faults", Why: "no"}}
	r := &Report{
		Baselines: []*Figure{f}, Figures: []*Figure{f}, Refused: []Refusal{{Figure: "f/y"}}, LeftOut: []LeftOut{{Family: "mesh"}},
		Markers:   &Markers{Operations: []Marked{{Figure: "f/x"}}, Costs: cost, LeftOut: left, Lost: probe.Lost{Ring: 1}},
		Breakdown: &Breakdown{Stages: []StageCost{{Name: "submit"}}, Jitter: []JitterSource{{Name: "tick"}}, Costs: cost, LeftOut: left, Lost: probe.Lost{Ring: 1}},
	}
	for name, write := range map[string]func(io.Writer) error{
		"report": r.WriteTable, "comparison": func(w io.Writer) error { return WriteComparison(w, Compare(r, r)) },
	} {
		const plenty = 1000
		all := &failing{plenty}
		if err := write(all); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		for n := range plenty - all.left {
			if err := write(&failing{n}); !errors.Is(err, errFailing) {
				t.Errorf("%s, of which write %d fails: %v", name, n, err)
			}
		}
	}
}
