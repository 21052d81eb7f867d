package emu

import "github.com/reprise-tt/reprise/chip"

// owedChecks are programs whose end is reported while what they asked the NoC for need not be done.
func owedChecks() (list checkList) {
	races := list.of(Config{RefuseRaces: true}, undefined)
	// end adds 1 to a stream of w in which completions are counted.
	end := func(r *rig, a *asm, v, w chip.XY, noc chip.NOC) *asm {
		p := r.arch.Params()
		return a.request(r.arch, nocRequest{
			noc: noc, buf: 2, targ: uint64(p.Stream.Reg(p.Stream.FirstDispatch+2, chip.SpaceAvailableUpdate)), targXY: w, ret: 4, retXY: v,
			ctrl: ctrlWrite | ctrlInline | staticVC1, len: 15, dat: 1 << 6,
		}).halt()
	}
	// one is a program with one request, and its end, for which wait says what it must wait for.
	one := func(name, says string, q func(r *rig, v, w chip.XY) nocRequest, wait func(a *asm)) {
		races(name, func(r *rig, right bool) {
			v, w := r.worker(0, 0), r.worker(2, 2)
			a := onB().li(s0, 1).request(r.arch, q(r, v, w))
			if right {
				wait(a)
			} else {
				a.waitCounter(0, cntOutgoing+7, x0, "other") // an unused id says nothing
			}
			r.run(v, end(r, a, v, w, 0))
		}).says("BRISC pc=|the end of a program is reported|" + says)
	}
	counter := func(i uint32) func(*asm) { return func(a *asm) { a.waitCounter(0, i, s0, "c") } }
	zero := func(i uint32) func(*asm) { return func(a *asm) { a.waitCounter(0, i, x0, "z") } }
	write := func(r *rig, v, w chip.XY) nocRequest { return r.sendTo(v, w) }
	tagged := func(r *rig, v, w chip.XY) nocRequest { q := r.sendTo(v, w); q.tag = 3 << 10; return q }
	word := func(r *rig, v, w chip.XY) nocRequest {
		p := r.arch.Params() // a stream that counts something else
		return nocRequest{buf: 3, targ: uint64(p.Stream.Reg(3, chip.SpaceAvailableUpdate)), targXY: w, ret: 4, retXY: v,
			ctrl: ctrlWriteNP | ctrlInline | staticVC1, len: 15, dat: 1 << 6}
	}
	one("a program ends before its write is acknowledged", "write of 64 bytes from 0x40000|WR_ACK_RECEIVED|a write barrier",
		write, counter(cntWriteAck))
	one("a program ends before its write with an id is", "write of 64 bytes|a write barrier", tagged, zero(cntOutstanding+3))
	one("a program ends before its word is acknowledged", "inline write of 4 bytes|a write barrier", word, counter(cntWriteAck))
	one("a program ends before its atomic is answered", "atomic of 4 bytes|an atomic barrier",
		func(r *rig, v, w chip.XY) nocRequest { r.st(w, 0x30000, 0); return r.increment(v, w, 0x30000) }, counter(cntAtomicResp))
	one("a program ends before its read has landed", "read of 64 bytes|a read barrier",
		func(r *rig, v, w chip.XY) nocRequest { return r.fetchFrom(v, w) }, counter(cntReadResp))
	one("a program ends before its posted write has left", "write of 64 bytes|a flush of posted writes",
		func(r *rig, v, w chip.XY) nocRequest { q := r.sendTo(v, w); q.ctrl &^= ctrlMarked; return q }, zero(cntOutgoing))
	races("a program ends before the write of its other processor is acknowledged", func(r *rig, right bool) {
		v, w := r.worker(1, 1), r.worker(2, 2)
		q := r.sendTo(v, w)
		q.noc = 1
		t := onT0().li(s0, 1).request(r.arch, q)
		if right {
			t.waitCounter(1, cntWriteAck, s0, "acks")
		}
		b := onB().li(s0, 1).until(r.stream(false), s0, "w")
		r.together(v, end(r, b, v, w, 0), t.stw(r.stream(false), 1).halt())
	}).says("BRISC pc=|the end of a program is reported|write of 64 bytes|started by tile|TRISC0 pc=|on NoC 1|a write barrier")
	return list
}
