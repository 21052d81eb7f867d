package check

import "fmt"

// unacked holds a processor's requests to an NIU whose end its tile hasn't seen: for each
// transaction id the newest of each sort, as counters tell of those before it.
type unacked [numUnacked][16]*Flight

const (
	unackedWrite  = iota // acknowledged
	unackedPosted        // whose source may still be read
	unackedAtomic
	unackedRead
	numUnacked
)

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

func (w *unacked) stopped(k *Core) {
	for i := range w {
		for id, f := range w[i] {
			if f != nil && f.core == k {
				w[i][id] = nil
			}
		}
	}
}

// ends refuses to tell a dispatcher of a program's end while requests of its kernels need not be
// done, as tt-metal's firmware asserts (hw/firmware/src/tt-1xx/brisc.cc): the next program would
// count their responses.
func (r *Tile) ends(q *Transfer) bool {
	if q.Kind != Inline || q.By.Core == nil || !q.Completes {
		return true
	}
	for noc := range r.unacked {
		for i := range r.unacked[noc] {
			for id, f := range r.unacked[noc][i] {
				if f != nil {
					if !r.refuse(q.By, uint32(f.q.ToAddr), f,
						"the end of a program is reported to tile %v with work of its own under way: %v, and %s",
						q.To.XY, f, unackedText(i)) {
						return false
					}
					r.unacked[noc][i][id] = nil
				}
			}
		}
	}
	return true
}

func unackedText(i int) string {
	text := [...][3]string{
		unackedWrite:  {"its acknowledgement", "WR_ACK_RECEIVED or REQS_OUTSTANDING_ID", "a write barrier"},
		unackedPosted: {"that its data are read", "WRITE_REQS_OUTGOING_ID", "a flush of posted writes"},
		unackedAtomic: {"its response", "ATOMIC_RESP_RECEIVED or REQS_OUTSTANDING_ID", "an atomic barrier"},
		unackedRead:   {"its data", "RD_RESP_RECEIVED or REQS_OUTSTANDING_ID", "a read barrier"},
	}[i]
	return fmt.Sprintf("no processor of the tile has seen %s (%s) since; the kernel lacks %s before its end", text[0], text[1], text[2])
}
