package check

import "fmt"

// String describes the request and the processor that started it.
func (f *Flight) String() string {
	kind := kindNames[f.q.Kind]
	if f.q.Multicast {
		kind = "multicast"
	}
	where := fmt.Sprintf("to %#x", f.q.ToAddr)
	switch {
	case f.q.Kind == Read:
		where = fmt.Sprintf("of tile %v %#x to %#x", f.q.From.XY, f.q.FromAddr, f.q.ToAddr)
	case f.q.Kind == Write && f.q.Multicast:
		where = fmt.Sprintf("from %#x to %#x", f.q.FromAddr, f.q.ToAddr)
	case f.q.Kind == Write:
		where = fmt.Sprintf("from %#x to tile %v %#x", f.q.FromAddr, f.q.To.XY, f.q.ToAddr)
	case !f.q.Multicast:
		where = fmt.Sprintf("to tile %v %#x", f.q.To.XY, f.q.ToAddr)
	}
	by := "the host"
	if f.core != nil {
		by = fmt.Sprintf("%v pc=%#x", f.core.Name, f.pc)
	}
	return fmt.Sprintf("%s of %d bytes %s, started by tile %v %s on NoC %d", kind, f.q.N, where, f.q.Tile.XY, by, f.q.NoC)
}

// Counted records a load of counter i of an NIU with value v: it releases the flights that must be
// done for that. open says whether requests of an id's counter are unanswered.
func (r *Tile) Counted(o Origin, noc int, i, v uint32, open bool) {
	seer := o.mine()
	s, w := &r.seq[noc], &r.unacked[noc]
	switch {
	case i == CounterAtomics && v == s.atomics:
		w[unackedAtomic] = [16]*Flight{}
	case i == CounterReads && v == s.reads:
		w[unackedRead] = [16]*Flight{}
		r.sweep(seer, noc, func(f *Flight) {
			if f.q.Kind == Read {
				f.freeLanding(seer)
			}
		})
	case i == CounterAcks && v == s.acks:
		w[unackedWrite] = [16]*Flight{}
		r.sweep(seer, noc, func(f *Flight) {
			if f.q.Kind != Read && f.q.Marked {
				f.release(seer)
			}
		})
	case (i == CounterSent || i == CounterSent+1) && seer != nil && seer.Assumes(SentIsRead):
		posted := i == CounterSent+1
		if posted && v == s.writes[1] {
			w[unackedPosted] = [16]*Flight{}
		}
		r.sweep(seer, noc, func(f *Flight) {
			if f.q.Kind != Read && f.q.Kind != Atomic && f.q.Marked != posted && int32(v-f.sent) >= 0 {
				f.freeSource(seer)
			}
		})
	case i >= CounterOutstanding && i < CounterOutstanding+16 && v == 0 && !open:
		w[unackedRead][i-CounterOutstanding], w[unackedWrite][i-CounterOutstanding], w[unackedAtomic][i-CounterOutstanding] = nil, nil, nil
		r.sweep(seer, noc, func(f *Flight) {
			if f.q.ID == i-CounterOutstanding && (f.q.Kind == Read || f.q.Marked) {
				f.release(seer)
			}
		})
	case i >= CounterOutgoing && i < CounterOutgoing+16 && v == 0:
		w[unackedPosted][i-CounterOutgoing] = nil
		r.sweep(seer, noc, func(f *Flight) {
			if f.q.ID == i-CounterOutgoing {
				f.freeSource(seer)
			}
		})
	}
}

// pass notes for its processor's earlier writes that are read in order that this request follows.
func (r *Tile) pass(started *Flight) {
	q := &started.q
	if q.By.Core == nil || !q.By.Core.Assumes(ReadInOrder) {
		return
	}
	list := r.flights[q.NoC]
	for i := len(list) - 1; i >= 0; i-- {
		f := list[i]
		if f.core != q.By.Core || f == started {
			continue
		}
		if f.passed != 0 {
			return // and so are all before it
		}
		f.passed = started.by.time
		if f.source && f.inOrder {
			r.shadow.finished(started.by.agent, f.q.FromAddr, f.q.N, f.passed)
		}
	}
}

// polled notes that an agent has polled the word that a write brought: its source was read.
func (o *Chip) polled(a *agent, e epoch) {
	k := o.agents[e.agent()].core
	if k == nil {
		return
	}
	for _, list := range k.tile.flights {
		for _, f := range list {
			if f.source && f.q.N <= 4 && f.core == k && f.by.time == e.time() {
				f.seen = stamp{agent: a, time: a.time}
			}
		}
	}
}

// knowsPassed reports whether who makes an access knows that f's source was read: its word was
// polled, or f is read in order, and another agent knows of a request after it.
func (o *Chip) knowsPassed(from Origin, f *Flight) bool {
	by := o.by(from)
	return f.seen.agent != nil && f.seen.before(by) ||
		f.inOrder && f.passed != 0 && by.agent != f.core.agent && by.known.at(f.core.agent.index*components+programs) >= f.passed
}

// sweep calls fn for the flights of a NoC and drops those that hold nothing. A processor that has
// seen the end of another one's request learns what that one knew at its start.
func (r *Tile) sweep(seer *Core, noc int, fn func(*Flight)) {
	live := r.flights[noc][:0]
	for _, f := range r.flights[noc] {
		was := *f
		fn(f)
		if seer != nil && f.core != seer && f.by != nil &&
			(f.source != was.source || f.landing != was.landing || f.arriving != was.arriving ||
				f.storing != was.storing) {
			seer.agent.learn(*f.by)
		}
		if f.pending() {
			live = append(live, f)
		}
	}
	clear(r.flights[noc][len(live):])
	r.flights[noc] = live
}

// Stopped drops what a processor has under way that is put into reset; the agent that resets it
// takes care of that.
func (r *Tile) Stopped(k *Core) {
	for noc := range r.flights {
		r.unacked[noc].stopped(k)
		r.sweep(k, noc, func(f *Flight) {
			if f.core == k {
				f.release(k)
			}
		})
	}
}
