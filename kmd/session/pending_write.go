package session

import (
	"bytes"
	"maps"
	"slices"
)

// pendingWrite is a recorded host write before an event.
type pendingWrite struct {
	event   int
	piece   *Delta
	left    int    // number of events at which it may still appear
	settled []bool // words that appeared, or needn't
}

// pendingWrites is the host memory that goroutines write at the same time. A write recorded with an
// event of one goroutine may be another's, before that goroutine's next event. So it must appear
// when the event is played, or at the next event of another goroutine. A word that is written again
// in the meantime isn't compared: the recording may have caught half of a write.
type pendingWrites struct{ at map[int][]*pendingWrite }

// word is a place in host memory.
type word struct{ pin, off uint64 }

// maxTasks bounds the goroutines that are told apart. Writes of further ones aren't compared.
const maxTasks = 64

func newPendingWrites(f *follower) *pendingWrites {
	ds := &pendingWrites{at: map[int][]*pendingWrite{}}
	next := map[uint64]int{}  // each goroutine's event after this one
	written := map[word]int{} // the later event before which a word is written again
	begun := slices.SortedFunc(maps.Keys(f.tasks), func(a, b uint64) int { return f.tasks[a].first - f.tasks[b].first })
	for i := len(f.required) - 1; i >= 0; i-- {
		n := f.required[i]
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

// played checks the writes that may appear when an event is played, and returns the first that is
// overdue.
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

// check reports whether all words have appeared.
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

// oldest returns the first write that is missing though its event was played, for a host that waits
// forever and so won't write any more.
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
