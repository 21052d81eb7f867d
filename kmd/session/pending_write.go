package session

import (
	"bytes"
	"maps"
	"slices"
)

type pendingWrite struct {
	event   int
	piece   *Delta
	left    int    // number of events at which it may still appear
	settled []bool // words that appeared, or needn't
}

// pendingWrites is the host memory that goroutines write at the same time. A write recorded with
// one goroutine's event may be another's, before that one's next event, so it must appear at
// either. A word written again meanwhile isn't compared: the recording may have half of a write.
type pendingWrites struct{ at map[int][]*pendingWrite }

type word struct{ pin, off uint64 }

// maxTasks bounds the goroutines whose writes are told apart.
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
