package emu

import "fmt"

// unacked holds the requests that a processor of a tile has made of one of its NIUs and that no
// processor of the tile has seen the end of: for each transaction id the newest request of each
// sort, or nil, since those before it end with it as far as counters tell.
type unacked [numUnacked][16]*flight

const (
	unackedWrite  = iota // that are acknowledged
	unackedPosted        // whose source may still be read
	unackedAtomic
	unackedRead
	numUnacked
)

// started notes a request that a processor has started.
func (w *unacked) started(f *flight) {
	q := &f.q
	switch {
	case f.core == nil:
	case q.kind == reqRead:
		w[unackedRead][q.id] = f
	case q.kind == reqAtomic && q.marked:
		w[unackedAtomic][q.id] = f
	case q.kind != reqAtomic && q.marked:
		w[unackedWrite][q.id] = f
	case q.kind == reqWrite:
		w[unackedPosted][q.id] = f
	}
}

// stopped drops what a processor that is put into reset has asked for.
func (w *unacked) stopped(k *core) {
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
func (r *races) ends(q *request) bool {
	if q.kind != reqInline || q.o.core == nil || q.to == nil || q.to.tile == nil || !r.completion(q.toAddr) {
		return true
	}
	for noc := range r.unacked {
		for i := range r.unacked[noc] {
			for _, f := range r.unacked[noc][i] {
				if f != nil {
					return r.refuse(q.o, uint32(f.q.toAddr), "the end of a program is reported to tile %v with work of its own under way: %v, and %s",
						q.to.xy, f, unackedText(i))
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

// completion reports whether a store to addr of a tile adds to a stream with which dispatchers
// count completions.
func (r *races) completion(addr uint64) bool {
	s := &r.tile.chip.params.Stream
	first := streamBase + uint64(s.FirstDispatch)*0x1000
	return addr >= first && addr < streamBase+uint64(s.Count)*0x1000 && streamRegister(r.tile.chip.arch, uint32(addr)&0xFFF) == streamUpdate
}
