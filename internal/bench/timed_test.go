package bench

import (
	"strings"
	"testing"
)

// Of a program's times the least counts, of opening the device the median.
func TestReportTimed(t *testing.T) {
	ns := func(all ...float64) Times { return Times{Ns: all} }
	r := ReportTimed("TT-NN", 3, []TimedChip{{
		Name: "wormhole", Open: Timed{OpenDevice, ns(1e8, 3e8, 2e8), ns(4e8)},
		Programs: []Timed{
			{"a/half", ns(3e6, 2e6), ns(1e6, 5e6)},
			{"a/eight", ns(2e6), ns(16e6)},
			{"b/unfair", ns(2e6), Times{Refused: "ERROR: no such instruction"}},
			{"b/ours", Times{Refused: "it doesn't end"}, ns(1e6)},
		},
		Skipped: []string{"c/two", "c/one"},
	}, {
		Name: "blackhole", Open: Timed{OpenDevice, ns(1e8), Times{}}, Programs: []Timed{{"a/half", ns(1e6), Times{}}},
	}})
	const want = `rounds: 3, of which the fastest counts

 what                                                    now                        peer or limit
─────────────────────────────────────────────────────────────────────────────────────────────────────────────────────
 wormhole: open the device                               200 ms                     ttsim 400 ms = 2 × now, measured
 wormhole: a/half                                        2 ms                       ttsim 1 ms = 0.5 × now, measured
 wormhole: a/eight                                       2 ms                       ttsim 16 ms = 8 × now, measured
 wormhole: b/unfair                                      2 ms [1]                   -
 wormhole: b/ours                                        - [2]                      ttsim 1 ms, measured
 wormhole: ttsim / reprise, geometric mean of 2          2 ×                        -
                                                         a/half, the lowest, 0.5 ×
                                                         a/eight, the highest, 8 ×
 wormhole: programs that reprise refuses                 1 [3]                      -
 wormhole: programs that ttsim refuses                   1 [4]                      -
 wormhole: programs without a time, no single operation  2 [5]                      -
 blackhole: open the device                              100 ms                     -
 blackhole: a/half                                       1 ms                       -
[1] ttsim refuses it: ERROR: no such instruction
[2] not measured: reprise refuses it: it doesn't end
[3] b/ours
[4] b/unfair
[5] c/one, c/two
`
	var out strings.Builder
	must(t, r.WriteTable(&out))
	first, _, _ := strings.Cut(out.String(), "\n") // of this machine
	tableOf(t, r, first+"\n"+want)
	if f, ok := r.Figure("ttnn/a/half/chip=wormhole/device=ttsim"); !ok || f.Min != 1e6 {
		t.Errorf("the vendor's figure: %+v", f)
	}
}
