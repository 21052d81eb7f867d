package dispatch

import (
	"bytes"
	"testing"

	"github.com/reprise-tt/reprise/dispatch/postmortem"
	"github.com/reprise-tt/reprise/sim"
)

const mostImage = 32 << 20 // bytes of a trace that a dump keeps

func collected(q *Queue) *Dump {
	w := wait{q: q, what: "nothing"}
	q.life.mu.RLock()
	defer q.life.mu.RUnlock()
	return q.d.report.Collect(w.describeLifeLocked(ErrTimeout))
}

func encode(tb testing.TB, d *Dump) []byte {
	tb.Helper()
	var b bytes.Buffer
	if _, err := d.WriteTo(&b); err != nil {
		tb.Fatal(err)
	}
	return b.Bytes()
}

func TestDumpBesideALargeTrace(t *testing.T) {
	d := started(t, sim.Wormhole(), Options{QueueMemory: 1 << 20})
	q := d.Queue(0)
	for _, size := range []int{mostImage, mostImage + 1} {
		q.history.replayed.Store(&Prepared{Name: "trace", Image: make([]byte, size)})
		got, err := postmortem.ReadDump(bytes.NewReader(encode(t, collected(q))))
		if err != nil {
			t.Errorf("a trace of %d B: %v", size, err)
			continue
		}
		if r, ok := got.Region(postmortem.RegionTrace, q.tiles.prefetch); ok != (size <= mostImage) || ok && len(r.Data) != size {
			t.Errorf("a trace of %d B: it is there %v, with %d B", size, ok, len(r.Data))
		}
	}
}

func TestDumpOfForgottenTrace(t *testing.T) {
	d := started(t, sim.Wormhole(), Options{})
	q := d.Queue(0)
	p := &Prepared{Name: "trace", Image: []byte("the trace's commands")}
	q.history.replayed.Store(p)
	dump := collected(q)
	q.Forget(&Prepared{})
	if r, ok := collected(q).Region(postmortem.RegionTrace, q.tiles.prefetch); !ok {
		t.Errorf("after another trace was forgotten, the dump has %v", r)
	}
	q.Forget(p)
	clear(p.Image)
	if r, ok := dump.Region(postmortem.RegionTrace, q.tiles.prefetch); !ok || string(r.Data) != "the trace's commands" {
		t.Errorf("the dump has %q of the trace", r.Data)
	}
	if r, ok := collected(q).Region(postmortem.RegionTrace, q.tiles.prefetch); ok {
		t.Errorf("the dump has %q of a trace that was forgotten", r.Data)
	}
}
