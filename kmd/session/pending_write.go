package session

import (
	"bytes"
	"maps"
	"slices"
)

// pendingWrite is host memory that the recorded host had written before an event.
type pendingWrite struct {
	event   int
	piece   *Delta
	left    int    // events at which it may still be there
	settled []bool // words that were, or needn't
}

// pendingWrites is what goroutines write to host memory at the same time. What was seen with an event of one may have been
// written by another that hadn't come to its own event yet. So it has to be there when the one's event is played, or when
// the next event of one of the others is. What was written over in the meantime may have been half of something.
type pendingWrites struct{ at map[int][]*pendingWrite }

// word is a place in host memory.
type word struct{ pin, off uint64 }

// maxTasks is how many goroutines at a time are told apart. Writes of further ones aren't compared.
const maxTasks = 64

func newPendingWrites(f *follower) *pendingWrites {
	ds := &pendingWrites{at: map[int][]*pendingWrite{}}
	next := map[uint64]int{}  // event of each goroutine, of those after this one
	written := map[word]int{} // event that a word is written before, of those after this one
	begun := slices.SortedFunc(maps.Keys(f.tasks), func(a, b uint64) int { return f.tasks[a].first - f.tasks[b].first })
	for i := len(f.must) - 1; i >= 0; i-- {
		n := f.must[i]
		e := &f.events[n]
		for k := len(begun) - 1; k >= 0 && f.tasks[begun[k]].first > n; k-- {
			delete(next, begun[k])
			begun = begun[:k]
		}
		at, last := []int{n}, n
		if len(next) <= maxTasks {
			for task, k := range next {
				if task != e.Task {
					at, last = append(at, k), max(last, k)
				}
			}
		}
		for k := range e.Host {
			d := &pendingWrite{event: n, piece: &e.Host[k], left: len(at)}
			for w := 0; w < len(d.piece.Data); w += memoryWord {
				place := word{d.piece.Pin, d.piece.Off + uint64(w)}
				later, ok := written[place]
				d.settled = append(d.settled, ok && later <= last || len(next) > maxTasks)
				written[place] = n
			}
			for _, k := range at {
				ds.at[k] = append(ds.at[k], d)
			}
		}
		next[e.Task] = n
	}
	return ds
}

// played checks for what may be there when an event is played, and returns the first of what should have been by now.
func (ds *pendingWrites) played(m *memory, event int) (missing *pendingWrite) {
	for _, d := range ds.at[event] {
		whole := d.look(m)
		if d.left--; d.left == 0 && !whole && missing == nil {
			missing = d
		}
	}
	delete(ds.at, event)
	return missing
}

// look reports whether everything is or was there.
func (d *pendingWrite) look(m *memory) bool {
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

// oldest returns the first of what isn't there although the event that it was seen with was played. A host that waits
// forever has written all that it will.
func (ds *pendingWrites) oldest(m *memory, played []bool) (missing *pendingWrite) {
	for _, l := range ds.at {
		for _, d := range l {
			if played[d.event] && (missing == nil || d.event < missing.event) && !d.look(m) {
				missing = d
			}
		}
	}
	return missing
}
