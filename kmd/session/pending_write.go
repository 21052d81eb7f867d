package session

import (
	"bytes"
	"slices"
)

type pendingWrite struct {
	event   int
	piece   *Delta
	left    int    // number of events at which it may still appear
	settled []bool // words that appeared, or needn't
}

// pendingWrites is the host memory that goroutines write at the same time. A write recorded with
// an event may be of a slower goroutine, so it must appear at this event or the other task's next
// one. A word written again meanwhile isn't compared: the recording may have half of a write.
type pendingWrites struct{ at map[int][]*pendingWrite }

type word struct{ pin, off uint64 }

func newPendingWrites(f *follower) *pendingWrites {
	ds := &pendingWrites{at: map[int][]*pendingWrite{}}
	next := [2]int{-1, -1}    // each task's event after this one
	written := map[word]int{} // the later event before which a word is written again
	for _, n := range slices.Backward(f.required) {
		e := &f.events[n]
		at, last, other := []int{n}, n, 1-e.task()
		if k := next[other]; k >= 0 && f.tasks[other].first <= n {
			at, last = append(at, k), k
		}
		for k := range e.Host {
			d := &pendingWrite{event: n, piece: &e.Host[k], left: len(at)}
			for w := 0; w < len(d.piece.Data); w += memoryWord {
				place := word{d.piece.Pin, d.piece.Off + uint64(w)}
				later, ok := written[place]
				d.settled = append(d.settled, ok && later <= last)
				written[place] = n
			}
			for _, k := range at {
				ds.at[k] = append(ds.at[k], d)
			}
		}
		next[e.task()] = n
	}
	return ds
}

func (ds *pendingWrites) played(m *memory, event int) (missing *pendingWrite) {
	for _, d := range ds.at[event] {
		whole := d.check(m)
		if d.left--; d.left == 0 && !whole && missing == nil {
			missing = d
		}
	}
	delete(ds.at, event)
	return missing
}

func (d *pendingWrite) check(m *memory) bool {
	_, host, _ := m.piece(d.piece)
	whole := true
	for i := range d.settled {
		if at := i * memoryWord; !d.settled[i] && host != nil {
			end := min(at+memoryWord, len(host))
			d.settled[i] = bytes.Equal(host[at:end], d.piece.Data[at:end])
		}
		whole = whole && d.settled[i]
	}
	return whole
}

func (ds *pendingWrites) oldest(m *memory, played []bool) (missing *pendingWrite) {
	for _, l := range ds.at {
		for _, d := range l {
			if played[d.event] && (missing == nil || d.event < missing.event) && !d.check(m) {
				missing = d
			}
		}
	}
	return missing
}
