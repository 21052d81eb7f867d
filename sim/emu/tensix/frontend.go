package tensix

// The front end of a thread expands pushed instructions: MOP into loops, REPLAY into recorded
// sequences (tt-isa-documentation WormholeB0/TensixTile/TensixCoprocessor/{MOPExpander,REPLAY}.md).

// Expands reports whether a pushed instruction may become many.
func Expands(w uint32) bool { return w>>24 == opMOP || w>>24 == opREPLAY }

// CanPush reports whether thread n takes another .ttinsn. Stores to its aperture don't check.
func (e *Engine) CanPush(n int) bool { return e.threads[n].queue.n <= queueHigh }

// Queued returns the length of thread n's queue.
func (e *Engine) Queued(n int) int { return int(e.threads[n].queue.n) }

// Push gives thread n an instruction, through the MOP expander if expand: BRISC bypasses it. It
// returns false if refused.
func (e *Engine) Push(n int, w uint32, expand bool) bool {
	if e.fault != nil {
		return false
	}
	t := &e.threads[n]
	switch op := w >> 24; {
	case expand && op == opMOP:
		t.expand(e.decodeMOP(w))
	case expand && op == opMOP_CFG:
		t.maskHigh(w)
	default:
		t.push(w)
	}
	if e.fault != nil {
		e.fault.Thread, e.fault.Instruction = n, w
	}
	return e.fault == nil
}

// StoreMOP sets word i of the MOP configuration of thread n.
func (e *Engine) StoreMOP(n, i int, v uint32) { e.threads[n].front.mop[i] = v }

func (t *thread) maskHigh(w uint32) {
	if w&0xFF0000 != 0 {
		t.e.nonContractual("bits 23 to 16 are set, which MOP_CFG doesn't have")
		return
	}
	t.front.maskHigh = t.e.decodeMOP_CFG(w).mask
}

// enqueue drops NOPs, of which MOPs make many, unless hazards count their cycles.
func (t *thread) enqueue(w uint32) {
	if w == nop && t.e.hazards == nil {
		return
	}
	q := &t.queue
	at := (q.first + q.n) % queueSize
	q.words[at] = w
	if h := t.e.hazards; h != nil {
		h.threads[t.index].pushes(at)
	}
	q.n++
	if q.n == queueSize {
		t.e.unimplemented("the queue holds %d instructions: stores to it must wait for the engine", queueSize-1)
	}
}

func (t *thread) push(w uint32) {
	f := &t.front
	switch {
	case f.recording != 0:
		f.replay[f.recordAt] = w
		f.recordAt = (f.recordAt + 1) % replaySize
		f.recording--
		if f.run {
			t.enqueue(w)
		}
	case w>>24 == opREPLAY:
		t.replay(w)
	default:
		t.enqueue(w)
	}
}

func (t *thread) replay(w uint32) {
	e, f, a := t.e, &t.front, t.e.decodeREPLAY(w)
	switch {
	case w&0xC != 0:
		e.nonContractual("bits 3 and 2 are set, which REPLAY doesn't have")
	case a.record == 0 && a.run != 0:
		e.unimplemented("execution while recording, but nothing is to be recorded")
	case a.length < 1 || a.length > replaySize:
		e.unsupported("length %d: want 1 to %d", a.length, replaySize)
	case a.start >= replaySize:
		e.unsupported("start at %d: want less than %d", a.start, replaySize)
	case a.record != 0:
		f.recordAt, f.recording, f.run = a.start, a.length, a.run != 0
	default:
		for i := uint32(0); i < a.length && e.fault == nil; i++ {
			t.enqueue(f.replay[(a.start+i)%replaySize])
		}
	}
}

func (t *thread) expand(a mopArgs) {
	if a.kind == 0 {
		t.expandMask(a)
	} else {
		t.expandLoops(a)
	}
}

// expandMask has one of two sequences for each bit of a mask, for unpackers.
func (t *thread) expandMask(a mopArgs) {
	const halo, unpackB = 2, 1 // flags
	m, flags := &t.front.mop, t.front.mop[1]
	if a.count > 31 {
		t.e.unsupported("%d rounds: want at most 32", a.count+1)
		return
	}
	if flags > 3 {
		t.e.unsupported("flags %#x: want at most 3", flags)
		return
	}
	mask := a.mask | t.front.maskHigh<<16
	for i := uint32(0); i <= a.count && t.e.fault == nil; i++ {
		if mask>>i&1 != 0 {
			t.push(m[7])
			if flags&unpackB != 0 {
				t.push(m[8])
			}
			continue
		}
		t.push(m[3])
		if flags&halo != 0 {
			t.push(m[4])
			t.push(m[5])
			t.push(m[6])
		}
		if flags&unpackB != 0 {
			t.push(m[2])
		}
	}
}

func isNOP(w uint32) bool { return w>>24 == opNOP }

func (t *thread) expandLoops(a mopArgs) {
	m := &t.front.mop
	outer, inner, start, end0, end1, body, other := m[0], m[1], m[2], m[3], m[4], m[5], m[6]
	veryLast, last := m[7], m[8] // in the last round of the outer loop, and in the others
	switch {
	case a.mask != 0:
		t.e.unimplemented("a mask of %#x for loops", a.mask)
	case a.count != 0:
		t.e.unimplemented("a count of %d for loops", a.count)
	case outer < 1 || outer > 32:
		t.e.unimplemented("outer loop of %d rounds: want 1 to 32", outer)
	case inner < 1 || inner > 64:
		t.e.unimplemented("inner loop of %d rounds: want 1 to 64", inner)
	}
	flip := uint32(0) // between the two instructions of the body
	if !isNOP(other) {
		flip = body ^ other
		inner *= 2
	}
	for i := uint32(0); i < outer && t.e.fault == nil; i++ {
		if !isNOP(start) {
			t.push(start)
		}
		for j := uint32(0); j < inner && t.e.fault == nil; j++ {
			switch {
			case j+1 < inner:
				t.push(body)
			case i+1 < outer:
				t.push(last)
			default:
				t.push(veryLast)
			}
			body ^= flip
		}
		if !isNOP(end0) {
			t.push(end0)
			if !isNOP(end1) {
				t.push(end1)
			}
		}
	}
}
