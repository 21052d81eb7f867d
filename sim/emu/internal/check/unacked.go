package check

import "fmt"

// unacked holds the requests that a processor of a tile has made of one of its NIUs and that no
// processor of the tile has seen the end of: for each transaction id the newest request of each
// sort, or nil, since those before it end with it as far as counters tell.
type unacked [numUnacked][16]*Flight

const (
	unackedWrite  = iota // that are acknowledged
	unackedPosted        // whose source may still be read
	unackedAtomic
	unackedRead
	numUnacked
)

// started notes a request that a processor has started.
func (w *unacked) started(f *Flight) {
	q := &f.q
	switch {
	case f.core == nil:
	case q.Kind == Read:
		w[unackedRead][q.ID] = f
	case q.Kind == Atomic && q.Marked:
		w[unackedAtomic][q.ID] = f
	case q.Kind != Atomic && q.Marked:
		w[unackedWrite][q.ID] = f
	case q.Kind == Write:
		w[unackedPosted][q.ID] = f
	}
}

// stopped drops what a processor that is put into reset has asked for.
func (w *unacked) stopped(k *Core) {
	for i := range w {
		for id, f := range w[i] {
			if f != nil && f.core == k {
				w[i][id] = nil
			}
		}
	}
}

// ends refuses a request that tells a dispatcher of the end of a program while something that the
// program's kernels asked for need not be done. The next program would take the tile over, count
// responses that are not its own, and others would read what is not there yet. (A kernel's end
// asserts the same in tt-metal's firmware, hw/firmware/src/tt-1xx/brisc.cc: reads, writes, atomics
// and posted writes are flushed.)
func (r *Tile) ends(q *Transfer) bool {
	if q.Kind != Inline || q.By.Core == nil || !q.Completes {
		return true
	}
	for noc := range r.unacked {
		for i := range r.unacked[noc] {
			for _, f := range r.unacked[noc][i] {
				if f != nil {
					return r.refuse(q.By, uint32(f.q.ToAddr), "the end of a program is reported to tile %v with work of its own under way: %v, and %s",
						q.To.XY, f, unackedText(i))
				}
			}
		}
	}
	return true
}

func unackedText(i int) string {
	seen := func(what, counter, barrier string) string {
		return fmt.Sprintf("no processor of the tile has seen %s (%s) since; the kernel lacks %s before its end", what, counter, barrier)
	}
	switch i {
	case unackedWrite:
		return seen("its acknowledgement", "WR_ACK_RECEIVED or REQS_OUTSTANDING_ID", "a write barrier")
	case unackedPosted:
		return seen("that its data are read", "WRITE_REQS_OUTGOING_ID", "a flush of posted writes")
	case unackedAtomic:
		return seen("its response", "ATOMIC_RESP_RECEIVED or REQS_OUTSTANDING_ID", "an atomic barrier")
	}
	return seen("its data", "RD_RESP_RECEIVED or REQS_OUTSTANDING_ID", "a read barrier")
}
