package probe

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/reprise-tt/reprise/internal/expect"
	"github.com/reprise-tt/reprise/internal/writertest"
)

func lackingMachine(lacks ...Feature) Machine {
	return func(f Feature) error {
		if slices.Contains(lacks, f) {
			return fmt.Errorf("%w: no %s here", ErrMissing, f)
		}
		return nil
	}
}

func TestChoose(t *testing.T) {
	all := []Kind{Calls, Scheduler, Faults}
	for _, tt := range []struct {
		name  string
		lacks []Feature
		want  map[Kind]Way // the first way
		why   map[Kind]Feature
	}{
		{"everything", nil,
			map[Kind]Way{Calls: ByRawTracepoint, Scheduler: ByRawTracepoint, Faults: ByFentry}, nil},
		{"no BTF", []Feature{BTF, Fentry},
			map[Kind]Way{Calls: ByRawTracepoint, Scheduler: ByTracepoint, Faults: ByRawTracepoint},
			map[Kind]Feature{Scheduler: BTF, Faults: BTF}},
		{"neither BTF nor tracefs", []Feature{BTF, Fentry, Tracefs},
			map[Kind]Way{Calls: ByRawTracepoint, Faults: ByRawTracepoint},
			map[Kind]Feature{Scheduler: Tracefs, Faults: BTF}},
		{"no fentry", []Feature{Fentry},
			map[Kind]Way{Calls: ByRawTracepoint, Scheduler: ByRawTracepoint, Faults: ByRawTracepoint},
			map[Kind]Feature{Faults: Fentry}},
		{"no capabilities", []Feature{BPF, RawTracepoints, Fentry},
			map[Kind]Way{}, map[Kind]Feature{Calls: BPF, Scheduler: BPF, Faults: BPF}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			m := lackingMachine(tt.lacks...)
			got := map[Kind]Way{}
			for _, k := range all {
				ways, err := choose(m, k)
				if len(ways) > 0 {
					got[k] = ways[0].way
				}
				f, lacking := tt.why[k]
				if lacking != (err != nil) || lacking && !strings.Contains(err.Error(), "no "+string(f)+" here") {
					t.Errorf("%s: error %v, want it to name %q", k, err, f)
				}
			}
			expect.NoDiff(t, got, tt.want, "ways")
		})
	}
}

func TestQuantile(t *testing.T) {
	d := Durations{Count: 100, Max: 5000}
	d.Slots[6], d.Slots[12] = 99, 1
	for q, want := range map[float64]int64{0.5: 128, 0.99: 128, 0.999: 5000, 1: 5000} {
		expect.Equal(t, int64(d.Quantile(q)), want, "quantile %v", q)
	}
	long := Durations{Count: 1, Max: 10 * time.Second} // the last slot has no upper end
	long.Slots[31] = 1
	expect.Equal(t, long.Quantile(0.5), long.Max, "median of one")
	expect.Equal(t, (&Durations{}).Quantile(0.5), 0, "a quantile of nothing")
}

func TestTextThatCannotBeWritten(t *testing.T) {
	s := &Snapshot{Threads: []Thread{{TID: 1, Calls: []Call{{Name: "read"}}}}}
	writertest.EveryWrite(t, s.WriteTable)
}

var must = expect.Must
