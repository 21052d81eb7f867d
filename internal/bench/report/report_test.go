package report

import (
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/reprise-tt/reprise/internal/expect"
	"github.com/reprise-tt/reprise/internal/writertest"
)

func TestReadReportRefuses(t *testing.T) {
	for _, text := range []string{"", "{}", fmt.Sprintf(`{"schema":%d,"figures":[null]}`, Schema),
		fmt.Sprintf(`{"schema":%d,"baselines":[null]}`, Schema)} {
		if r, err := ReadReport(strings.NewReader(text)); err == nil {
			t.Errorf("%q is read: %+v", text, r)
		}
	}
	for text, want := range map[string]string{`{"schema": x}`: "byte 12: invalid", `{"schema": "1"}`: "byte 14: json: cannot unmarshal"} {
		expect.Says(t, expect.ErrOf(ReadReport(strings.NewReader(text))), nil, want)
	}
}

func TestChance(t *testing.T) {
	for want, s := range map[float64][2][]float64{
		2.0 / 252: {{1, 2, 3, 4, 5}, {6, 7, 8, 9, 10}}, 1: {{1, 1, 1, 1}, {1, 1, 1, 1}},
	} {
		if p := chance(s[0], s[1]); math.Abs(p-want) > 1e-12 {
			t.Errorf("p = %v, want %v", p, want)
		}
	}
	expect.Equal(t, chance(nil, []float64{7, 8, 9}), 1, "p")
}

// A verdict needs a difference that is neither chance nor small nor the machine's.
func TestCompare(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	figure := func(name string, ns, base, noise float64) *Figure {
		f := &Figure{Family: "f", Name: name, P50: ns}
		if base > 0 {
			f.Ratios = []Ratio{{To: MemcpySame, Ns: base, Value: ns / base}}
		}
		for range 20 {
			f.Rounds = append(f.Rounds, ns*(1+noise*rnd.NormFloat64()))
		}
		return f
	}
	spread := func(ns float64) *Figure { // rounds from 10 % below to 10 % above
		f := &Figure{Family: "f", Name: "x", P50: ns}
		for i := range 21 {
			f.Rounds = append(f.Rounds, ns*(0.9+0.01*float64(i)))
		}
		return f
	}
	const quiet, loud = 0.02, 0.12
	for _, tt := range []struct {
		name        string
		old, cur    *Figure
		here, there Verdict // on the same machine, on another
	}{
		{"same", figure("x", 100, 10, quiet), figure("x", 100.5, 10, quiet), Same, Same},
		{"slower", figure("x", 100, 10, quiet), figure("x", 120, 10, quiet), Slower, Slower},
		{"faster", figure("x", 100, 10, quiet), figure("x", 80, 10, quiet), Faster, Faster},
		{"both twice as slow", figure("x", 100, 10, quiet), figure("x", 200, 20, quiet), Same, Same},
		{"only the baseline slower", figure("x", 100, 10, quiet), figure("x", 100, 15, quiet), Same, Faster},
		{"only the baseline faster", figure("x", 100, 10, quiet), figure("x", 100, 7, quiet), Same, Slower},
		{"a little slower among much noise", spread(100), spread(108), Same, Same},
		{"much slower among much noise", figure("x", 100, 10, loud), figure("x", 200, 10, loud), Slower, Slower},
		{"slower, no baseline", figure("x", 100, 0, quiet), figure("x", 120, 0, quiet), Slower, Slower},
	} {
		for _, host := range []struct {
			cpu  string
			want Verdict
		}{{"this", tt.here}, {"another", tt.there}} {
			old, cur := &Report{Host: Host{CPU: "this"}, Figures: []*Figure{tt.old}},
				&Report{Host: Host{CPU: host.cpu}, Figures: []*Figure{tt.cur}}
			if c := Compare(old, cur); len(c) != 1 || c[0].Verdict != host.want {
				t.Errorf("%s, then on %s machine: %+v, want %s", tt.name, host.cpu, c, host.want)
			}
		}
	}
	got := Compare(&Report{Figures: []*Figure{figure("gone", 1, 1, quiet)}}, &Report{Figures: []*Figure{figure("new", 1, 1, quiet)}})
	if len(got) != 2 || got[0].Verdict != New || got[1].Verdict != Gone {
		t.Errorf("a figure that is new and one that is gone: %+v", got)
	}
	// A slower processor alone makes no figure slower.
	reportOf := func(ns, memcpy float64) *Report {
		hot := figure("y", memcpy, 0, quiet)
		hot.Family, hot.Name = "baseline", MemcpyHot
		return &Report{Baselines: []*Figure{hot}, Figures: []*Figure{figure("x", ns, 0, quiet)}}
	}
	for ns, want := range map[float64]Verdict{115: Same, 130: Slower} {
		if c := Compare(reportOf(100, 40), reportOf(ns, 46)); c[0].Verdict != want {
			t.Errorf("from 100 to %v ns on a processor that takes 15 %% longer: %+v, want %s", ns, c, want)
		}
	}
	// The middle halves are for what isn't chance by the test alone.
	if p := chance(spread(100).Rounds, spread(108).Rounds); p >= significance {
		t.Errorf("p = %v", p)
	}
}

// With few rounds the test can't tell even the clearest difference from chance.
func TestCompareNeedsRounds(t *testing.T) {
	reportOf := func(ns, hot, step float64, rounds int) *Report {
		f := &Figure{Family: "f", Name: "x", P50: ns}
		for i := range rounds {
			f.Rounds = append(f.Rounds, ns+step*float64(i))
		}
		return &Report{Baselines: []*Figure{{Family: "baseline", Name: MemcpyHot, P50: hot}}, Figures: []*Figure{f}}
	}
	expect.Equal(t, FewestRounds(), 6, "rounds that docs/cli.md says are enough")
	for _, c := range []struct {
		cur, step float64
		old, new  int
		want      Verdict
	}{
		{306, 1, 0, 0, TooFew}, {306, 1, 3, 100, TooFew}, {306, 1, 100, 3, TooFew}, {306, 1, 4, 4, TooFew}, {306, 1, 5, 5, TooFew},
		{306, 0, 5, 5, TooFew}, // ties make the test more sure of itself than so few rounds are
		{306, 1, 4, 20, Slower}, {306, 1, 6, 6, Slower}, {306, 1, 20, 20, Slower},
		{0, 0, 6, 6, Faster}, // a baseline that took no time, in a report that was edited
	} {
		got := Compare(reportOf(100, 100, c.step, c.old), reportOf(c.cur, min(c.cur, 100), c.step, c.new))[0]
		if got.Verdict != c.want || c.cur == 0 && got.Relative != 0 {
			t.Errorf("from 100 to %v ns, %d and %d rounds: %+v, want %q", c.cur, c.old, c.new, got, c.want)
		}
	}
}

func TestTextThatCannotBeWritten(t *testing.T) {
	r := &Report{}
	for _, write := range []func(io.Writer) error{
		r.WriteTable, r.WriteBenchmark, (&Report{Breakdown: &Breakdown{}}).WriteTable,
		func(w io.Writer) error { return WriteComparison(w, nil) },
	} {
		expect.Fails(t, write(writertest.Full{}), writertest.ErrFull, "write(writertest.Full{})")
	}
}
