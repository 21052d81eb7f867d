package bench

import (
	"errors"
	"strings"
	"testing"

	"github.com/reprise-tt/reprise/internal/bench/probe"
)

// Uprobes see both markers of every operation that is waited for; unless asked for, none is called.
func TestMarkers(t *testing.T) {
	m := probe.Detect()
	for _, f := range []probe.Feature{probe.BPF, probe.Uprobes} {
		if err := m.Missing(f); err != nil {
			t.Skip(err)
		}
	}
	p, err := probe.Start(probe.Config{Kinds: []probe.Kind{probe.Marks}})
	must(t, err)
	r := runFamily(t, "events", Config{Rounds: 3})
	sn, err := p.Snapshot()
	// A second probe on a marker costs next to nothing: this one is gone before the cost is
	// measured.
	must(t, errors.Join(err, p.Close()))
	if r.Markers != nil || sn.Markers.Submitted != 0 || sn.Markers.Completed.Count != 0 {
		t.Errorf("nobody asked: %+v, seen %+v", r.Markers, sn.Markers)
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

// unprobed is a kernel without uprobes.
type unprobed struct{ probe.Machine }

var errUnprobed = errors.New("the test says so")

func (u unprobed) Missing(f probe.Feature) error {
	if f == probe.Uprobes || f == probe.BPF {
		return errors.Join(probe.ErrMissing, errUnprobed)
	}
	return u.Machine.Missing(f)
}

// The report says why it has no times.
func TestMarkersWithoutUprobes(t *testing.T) {
	r := runFamily(t, "events", Config{Rounds: 3, Markers: true, Machine: unprobed{probe.Detect()}})
	m := r.Markers
	if len(m.Operations) != 2 || m.Operations[0].Done != 24 || m.Operations[0].Submitted != 0 || len(m.Costs) != 0 {
		t.Errorf("%+v", m)
	}
	if len(m.LeftOut) != 1 || !strings.Contains(m.LeftOut[0].Why, errUnprobed.Error()) {
		t.Errorf("left out: %+v", m.LeftOut)
	}
	var out strings.Builder
	if err := r.WriteTable(&out); err != nil || !strings.Contains(out.String(), "left out: markers: ") {
		t.Errorf("error %v, table\n%s", err, out.String())
	}
}
