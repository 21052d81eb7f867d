package reprise

import (
	"errors"
	"fmt"
	"slices"

	"github.com/reprise-tt/reprise/dispatch/cq"
	"github.com/reprise-tt/reprise/tracebuf"
	"github.com/reprise-tt/reprise/tracebuf/flow"
)

// edges are the events inside a capture on several queues of a device: what was recorded after a Wait runs, at every
// replay, after what was recorded before the Record of the same event.
type edges struct {
	rs       []*Recorder // of the device
	recorded []uint32    // recordings so far, by queue
	newest   map[*Event]edge
}

// edge is a recording inside a capture.
type edge struct {
	queue  int
	number uint32 // among the recordings of the queue's part
}

func newEdges(r *Recorder) *edges {
	return &edges{rs: []*Recorder{r}, recorded: make([]uint32, len(r.d.queues)), newest: map[*Event]edge{}}
}

// any reports whether an event was recorded. Then every queue has to have a part, which clears what others count there.
func (s *edges) any() bool {
	return slices.ContainsFunc(s.recorded, func(n uint32) bool { return n > 0 })
}

var (
	errOneQueue = fmt.Errorf("this capture is of one queue of the device, where everything is in order anyway: name the other queues when the capture starts: %w", ErrInCapture)
	errOutside  = fmt.Errorf("it wasn't recorded in this capture, and a replay can't wait for what happens outside: wait on the queues before the replay: %w", ErrInCapture)
)

// Record records an event into a capture over several queues of a device: a place that a WaitEvent in another queue's
// part can refer to, by the newest recording at that moment. The event's recordings outside of the capture are untouched. An
// error also ends the capture.
func (r *Recorder) Record(e *Event) error {
	return r.addEvent(opRecord, e, func() error {
		s := r.edges
		s.recorded[r.q.ID()]++
		at := edge{queue: r.q.ID(), number: s.recorded[r.q.ID()]}
		s.newest[e] = at
		return r.addEdge("record event", e, tracebuf.Edge{Kind: tracebuf.EdgeRecord, Number: at.number})
	})
}

// WaitEvent holds what is recorded into this queue's part from now on, at every replay, until the place of the event's newest
// recording in this capture is reached: everything before it has run and all its results are in memory. An event that
// wasn't recorded in this capture can't be waited for. An error also ends the capture.
func (r *Recorder) WaitEvent(e *Event) error {
	return r.addEvent(opWaitEvent, e, func() error {
		at, ok := r.edges.newest[e]
		if !ok {
			return errOutside
		}
		if at.queue == r.q.ID() {
			return nil // it is before this place anyway
		}
		return r.addEdge("wait for event", e, tracebuf.Edge{Kind: tracebuf.EdgeWait, Queue: at.queue, Number: at.number})
	})
}

// addEvent checks what can be checked of a Record or a Wait, and turns its error into the capture's.
func (r *Recorder) addEvent(op captureOp, e *Event, add func() error) error {
	what := op.what()
	if e != nil {
		what = fmt.Sprintf("%s %q", what, e.Name())
	}
	if err := r.checkEvent(e, add); err != nil {
		return r.refused(what, err)
	}
	return nil
}

func (r *Recorder) checkEvent(e *Event, add func() error) error {
	r.c.mu.Lock()
	defer r.c.mu.Unlock()
	switch {
	case e == nil:
		return errors.New("no event: it is nil")
	case e.d != r.d:
		return ErrWrongDevice
	case r.edges == nil:
		return errOneQueue
	case r.c.ended.Load():
		return ErrCaptureEnded
	case r.control.used || len(r.control.open) > 0:
		return errFlowEdges
	}
	return add()
}

// addEdge records an edge.
func (r *Recorder) addEdge(what string, e *Event, edge tracebuf.Edge) error {
	commands, err := r.q.edge(nil, r.peers(), edge, r.state.Expected)
	if err == nil {
		r.control.last = node{Kind: flow.Reset, Name: what + " " + e.Name()} // it is no program
		r.rec.AddEdge(r.control.last.Name, edge, commands)
	}
	return err
}

// appendEnd records the end of a part that has edges.
func (r *Recorder) appendEnd() error {
	if r.edges == nil {
		return nil
	}
	end := tracebuf.Edge{Kind: tracebuf.EdgeEnd}
	commands, err := r.q.edge(nil, r.peers(), end, r.state.Expected)
	if err == nil && len(commands) > 0 {
		r.rec.AddEdge("end of the part", end, commands)
	}
	return err
}

// peers are the other queues of the device in the capture, with their recordings so far.
func (r *Recorder) peers() []tracebuf.Peer {
	var out []tracebuf.Peer
	for _, o := range r.edges.rs {
		if o != r {
			out = append(out, tracebuf.Peer{Dispatcher: o.q.dispatcher(), Recorded: r.edges.recorded[o.q.ID()]})
		}
	}
	return out
}

// edge appends the commands of an edge of a part of the queue.
func (q *Queue) edge(dst []byte, peers []tracebuf.Peer, e tracebuf.Edge, expected cq.Count) ([]byte, error) {
	return tracebuf.AppendEdge(dst, cq.Layout(q.d.Arch()), uint16(q.d.disp.Chip().Params().Stream.FirstDispatch), q.dispatcher(), peers, e,
		uint32(expected))
}

func (q *Queue) dispatcher() tracebuf.Dispatcher {
	return tracebuf.Dispatcher{Queue: q.ID(), Core: q.q.DispatchCore(), Word: q.q.EdgeWord()}
}
