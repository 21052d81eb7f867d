package tracebuf

import (
	"errors"
	"fmt"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/dispatch/cq"
)

// NoProgram is the Program of steps that run none.
const NoProgram = -1

// EdgeKind is what a step that runs no program does.
type EdgeKind uint8

const (
	// EdgeNone is the kind of a step that runs a program.
	EdgeNone EdgeKind = iota
	// EdgeRecord tells the other parts that everything before it in its own part is done and in
	// memory.
	EdgeRecord
	// EdgeWait holds the steps after it until another part has reached a recording.
	EdgeWait
	// EdgeEnd ends a part: it waits for all recordings of the others and clears the words that
	// count them.
	EdgeEnd
)

func (k EdgeKind) String() string {
	if int(k) < len(edgeNames) {
		return edgeNames[k]
	}
	return fmt.Sprintf("edge(%d)", uint8(k))
}

var edgeNames = [...]string{"none", "record", "wait", "end"}

// Edge is a step between the parts of a trace.
type Edge struct {
	Kind   EdgeKind
	Queue  int    // whose part an EdgeWait waits for
	Number uint32 // which recording of the part, from 1
}

// Dispatcher is a queue as the commands of edges name it.
type Dispatcher struct {
	Queue int
	Core  chip.XY // virtual coordinates
	// Word is the L1 address, a multiple of 16, of a word in every dispatch core that counts the
	// recordings of the queue's part, from 0 in each replay.
	Word uint32
}

// Part is the part of a trace that runs on one queue.
type Part struct {
	Target Target // of a file's further parts, only Workers, Dispatch, Queue and Word are their own
	Image  Image  // of a file's further parts, without Buffers
}

func (t *Target) dispatcher() Dispatcher {
	return Dispatcher{Queue: t.Queue, Core: t.Dispatch, Word: t.Word}
}

// Recorded returns the number of recordings of a part.
func (im *Image) Recorded() uint32 {
	return uint32(im.count(func(s *Step) bool { return s.Edge.Kind == EdgeRecord }))
}

// Runs returns the number of steps that run a program.
func (im *Image) Runs() int { return im.count(func(s *Step) bool { return s.Program != NoProgram }) }

func (im *Image) count(is func(*Step) bool) (n int) {
	for i := range im.Steps {
		if is(&im.Steps[i]) {
			n++
		}
	}
	return n
}

// Peer is another part of the trace, for the commands of an edge.
type Peer struct {
	Dispatcher
	Recorded uint32 // number of its recordings, for an EdgeEnd
}

// AppendEdge appends the commands of an edge to dst. own is the dispatcher of the edge's part.
// stream counts the completions of the part's programs; expected is its count when all programs
// before the edge are done.
//
// Each part has a word on the dispatch cores. A recording waits until everything before it is in
// memory, and writes its number to the part's word on the other cores; a wait is for a word to
// reach a number. The end of a part waits for all recordings of the others, and then clears the
// words on its own core.
func AppendEdge(dst []byte, l cq.Layout, stream uint16, own Dispatcher, peers []Peer, e Edge, expected uint32) ([]byte, error) {
	b := cq.NewBuilder(l, dst)
	write := func(word uint32, number uint32, to ...uint32) {
		var payload [16]byte
		cq.Put32(payload[:], 0, number)
		b.WritePacked(cq.WritePacked{Type: cq.PackedEvent, Size: uint16(len(payload)), Addr: word, Cores: to, NoStride: true,
			Data: payload[:]})
	}
	wait := func(word, number uint32) {
		b.Wait(cq.Master, cq.Wait{Flags: cq.WaitMemory, Addr: word, Count: number})
	}
	switch e.Kind {
	case EdgeRecord:
		var to []uint32
		for _, p := range peers {
			to = append(to, l.NOCXY(p.Core.X, p.Core.Y))
		}
		b.Wait(cq.Master, cq.Wait{Flags: cq.WaitBarrier | cq.WaitStream, Stream: stream, Count: expected})
		write(own.Word, e.Number, to...)
	case EdgeWait:
		for _, p := range peers {
			if p.Queue == e.Queue {
				wait(p.Word, e.Number)
			}
		}
	case EdgeEnd:
		for _, p := range peers {
			if p.Recorded > 0 {
				wait(p.Word, p.Recorded)
				write(p.Word, 0, l.NOCXY(own.Core.X, own.Core.Y))
			}
		}
	default:
		return nil, fmt.Errorf("tracebuf: %v is no edge", e.Kind)
	}
	return b.Finish()
}

// At is a step of a trace.
type At struct{ Part, Step int }

var errStuck = errors.New("each part waits for another: a replay would hang")

// Order returns the steps of a trace's parts in an order that all edges allow, or an error if there
// is none. Of the possible next parts it takes the one with the fewest programs so far.
func Order(parts []Part) ([]At, error) {
	type place struct {
		step, runs int
		recorded   uint32
	}
	at, recorded := make([]place, len(parts)), make([]uint32, len(parts))
	byQueue := map[int]*place{}
	left := 0
	for i := range parts {
		byQueue[parts[i].Target.Queue] = &at[i]
		left += len(parts[i].Image.Steps)
		recorded[i] = parts[i].Image.Recorded()
	}
	blocked := func(e *Edge) bool {
		switch e.Kind {
		case EdgeWait:
			p := byQueue[e.Queue]
			return p == nil || p.recorded < e.Number
		case EdgeEnd:
			for i := range parts {
				if at[i].recorded < recorded[i] {
					return true
				}
			}
		}
		return false
	}
	order := make([]At, 0, left)
	for len(order) < left {
		next := -1
		for i := range parts {
			steps := parts[i].Image.Steps
			if at[i].step == len(steps) || blocked(&steps[at[i].step].Edge) {
				continue
			}
			if next < 0 || at[i].runs < at[next].runs {
				next = i
			}
		}
		if next < 0 {
			return nil, errStuck
		}
		p := &at[next]
		s := &parts[next].Image.Steps[p.step]
		order = append(order, At{next, p.step})
		p.step++
		switch {
		case s.Edge.Kind == EdgeRecord:
			p.recorded++
		case s.Program != NoProgram:
			p.runs++
		}
	}
	return order, nil
}
