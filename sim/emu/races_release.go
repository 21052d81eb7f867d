package emu

import "fmt"

// String names the processor that started the request, and describes the request.
func (f *flight) String() string {
	kind := map[requestKind]string{reqRead: "read", reqWrite: "write", reqInline: "inline write", reqAtomic: "atomic"}[f.q.kind]
	if f.q.multicast {
		kind = "multicast"
	}
	where := fmt.Sprintf("to %#x", f.q.toAddr)
	switch {
	case f.q.kind == reqRead:
		where = fmt.Sprintf("of tile %v %#x to %#x", f.q.from.xy, f.q.fromAddr, f.q.toAddr)
	case f.q.kind == reqWrite && f.q.multicast:
		where = fmt.Sprintf("from %#x to %#x", f.q.fromAddr, f.q.toAddr)
	case f.q.kind == reqWrite:
		where = fmt.Sprintf("from %#x to tile %v %#x", f.q.fromAddr, f.q.to.xy, f.q.toAddr)
	case f.q.to != nil:
		where = fmt.Sprintf("to tile %v %#x", f.q.to.xy, f.q.toAddr)
	}
	by := "the host"
	if f.core != nil {
		by = fmt.Sprintf("%v pc=%#x", f.core.proc, f.pc)
	}
	return fmt.Sprintf("%s of %d bytes %s, started by tile %v %s on NoC %d", kind, f.q.n, where, f.q.tile.xy, by, f.q.noc)
}

// counted records a load of counter i of an NIU by a processor of the tile, with value v: it
// releases the flights that must be done for the counter to be v.
func (r *races) counted(o origin, u *niu, noc int, i, v uint32) {
	seer := o.mine()
	s, w := &r.seq[noc], &r.unacked[noc]
	switch {
	case i == cntAtomicResp && v == s.atomics:
		w[unackedAtomic] = [16]*flight{}
	case i == cntReadResp && v == s.reads:
		w[unackedRead] = [16]*flight{}
		r.sweep(seer, noc, func(f *flight) {
			if f.q.kind == reqRead {
				f.freeLanding(seer)
			}
		})
	case i == cntWriteAck && v == s.acks:
		w[unackedWrite] = [16]*flight{}
		r.sweep(seer, noc, func(f *flight) {
			if f.q.kind != reqRead && f.q.marked {
				f.release(seer)
			}
		})
	case (i == cntWriteSent || i == cntWriteSent+1) && seer != nil && seer.assumes(SentIsRead):
		posted := i == cntWriteSent+1
		if posted && v == s.writes[1] {
			w[unackedPosted] = [16]*flight{}
		}
		r.sweep(seer, noc, func(f *flight) {
			if f.q.kind != reqRead && f.q.kind != reqAtomic && f.q.marked != posted && int32(v-f.sent) >= 0 {
				f.freeSource(seer)
			}
		})
	case i >= cntOutstanding && i < cntOutstanding+16 && v == 0 && u.open[i-cntOutstanding] == 0:
		w[unackedRead][i-cntOutstanding], w[unackedWrite][i-cntOutstanding], w[unackedAtomic][i-cntOutstanding] = nil, nil, nil
		r.sweep(seer, noc, func(f *flight) {
			if f.q.id == i-cntOutstanding && (f.q.kind == reqRead || f.q.marked) {
				f.release(seer)
			}
		})
	case i >= cntOutgoing && i < cntOutgoing+16 && v == 0:
		w[unackedPosted][i-cntOutgoing] = nil
		r.sweep(seer, noc, func(f *flight) {
			if f.q.id == i-cntOutgoing {
				f.freeSource(seer)
			}
		})
	}
}

// pass notes for the writes of q's processor that are read in order that this request comes after
// them.
func (r *races) pass(q *request) {
	if q.o.core == nil || !q.o.core.assumes(ReadInOrder) {
		return
	}
	list := r.flights[q.noc]
	for i := len(list) - 1; i >= 0; i-- {
		f := list[i]
		if f.core != q.o.core || f == q.flight {
			continue
		}
		if f.passed != 0 {
			return // and so are all before it
		}
		f.passed = q.by.time
		if f.source && f.inOrder {
			r.tile.shadow.finished(q.by.agent, f.q.fromAddr, f.q.n, f.passed)
		}
	}
}

// knowsPassed reports whether f is a write that is read in order, and the agent that makes an
// access knows of a request after f. What an agent knows of others is asked: so it is another one
// than f's.
func (o *order) knowsPassed(from origin, f *flight) bool {
	if !f.inOrder || f.passed == 0 {
		return false
	}
	known := o.host.known
	switch {
	case o.carry != nil:
		known = o.carry.known
	case from.core != nil:
		known = from.core.agent.known
	}
	return known.at(f.core.agent.index*components+programs) >= f.passed
}

// sweep calls fn for the flights of a NoC and drops those that hold nothing any more. A processor
// that has seen the end of another one's request knows what that one knew when it started the
// request.
func (r *races) sweep(seer *core, noc int, fn func(*flight)) {
	live := r.flights[noc][:0]
	for _, f := range r.flights[noc] {
		was := *f
		fn(f)
		if seer != nil && f.core != seer && f.q.by != nil && (f.source != was.source || f.landing != was.landing || f.arriving != was.arriving ||
			f.storing != was.storing) {
			seer.agent.learn(f.q.by.clock())
		}
		if f.pending() {
			live = append(live, f)
		}
	}
	clear(r.flights[noc][len(live):])
	r.flights[noc] = live
}

// stopped drops what a processor that is put into reset has under way: the agent that resets it
// takes care of that.
func (r *races) stopped(k *core) {
	for noc := range r.flights {
		r.unacked[noc].stopped(k)
		r.sweep(k, noc, func(f *flight) {
			if f.core == k {
				f.release(k)
			}
		})
	}
}
