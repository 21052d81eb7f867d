package tensix

// Idle reports whether no thread has an instruction to execute.
func (e *Engine) Idle() bool {
	return e.threads[0].queue.n|e.threads[1].queue.n|e.threads[2].queue.n == 0
}

// Step lets each thread execute its next instruction. It returns how many did: 0 if all wait or are
// idle, or the engine stopped.
func (e *Engine) Step() int {
	done := 0
	if e.suspended {
		return 0
	}
	n := int(e.first)
	for e.first = 0; n < numThreads; n++ {
		t := &e.threads[n]
		if t.queue.n == 0 || e.fault != nil || t.waits && t.since == e.changes() {
			continue
		}
		if w := t.queue.peek(); e.issue(t, w) {
			t.queue.pop()
			t.waits = false
			t.ended++
			done++
		} else if e.stopped(t, w); e.suspended {
			return done
		}
	}
	return done
}

// Run steps until all threads wait or are idle, or the engine stops or is suspended. It reports
// whether any instruction was executed.
func (e *Engine) Run() (ran bool) {
	for !e.Idle() && e.Step() > 0 {
		ran = true
	}
	return ran
}

// PushRun is Push and Run on an engine whose threads all wait or are idle.
func (e *Engine) PushRun(n int, w uint32, expand bool) (ran bool) {
	t := &e.threads[n]
	if w>>24 == opREPLAY && e.canReplay(t, w) {
		return e.replayRun(t, w)
	}
	if op := w >> 24; t.queue.n != 0 || t.front.recording != 0 || op == opMOP || op == opMOP_CFG || op == opREPLAY || op == opNOP ||
		e.fault != nil || e.suspended {
		e.Push(n, w, expand)
		return e.Run()
	}
	// Fast path: skip the queue.
	if e.issue(t, w) {
		t.ended++
		e.Run()
		return true
	}
	t.enqueue(w)
	e.stopped(t, w)
	return false
}

func (e *Engine) stopped(t *thread, w uint32) {
	switch {
	case e.fault != nil:
		e.fault.Thread, e.fault.Instruction = int(t.index), w
	case e.suspended:
		e.first = t.index
	default:
		t.waits, t.since = true, e.changes()
	}
}

func (e *Engine) canReplay(t *thread, w uint32) bool {
	a := e.decodeREPLAY(w)
	return t.queue.n == 0 && t.front.recording == 0 && e.hazards == nil && e.fault == nil && !e.suspended &&
		w&0xC == 0 && a.record == 0 && a.run == 0 && a.length-1 < replaySize && a.start < replaySize
}

// replayRun queues the rest once another thread can execute or an instruction has to wait.
func (e *Engine) replayRun(t *thread, w uint32) (ran bool) {
	a, before := e.decodeREPLAY(w), e.changes()
	for i := range a.length {
		w := t.front.replay[(a.start+i)%replaySize]
		if w == nop {
			continue
		}
		if e.planned(t, w) { // others can't go on after it if they couldn't before
			ran = true
			t.ended++
			continue
		}
		done := e.fault == nil && e.execute(t, w)
		if done {
			ran = true
			t.ended++
			if e.changes() == before {
				continue
			}
			i++
		}
		for ; i < a.length; i++ {
			t.enqueue(t.front.replay[(a.start+i)%replaySize])
		}
		if !done {
			e.stopped(t, w)
			return ran
		}
		e.first = t.index + 1 // it is the others' turn
		e.Step()
		break
	}
	e.Run()
	return ran
}

// Executed counts thread n's executed instructions, expanded and without NOPs.
func (e *Engine) Executed(n int) uint64 { return e.threads[n].ended }

func (e *Engine) issue(t *thread, w uint32) bool {
	if e.hazards == nil {
		return e.execute(t, w)
	}
	h := &e.hazards.threads[t.index]
	h.begins(&t.queue)
	if w == nop {
		h.done(e, t, w, 0)
		return true
	}
	row := t.dstRow(w & 0x3FF) // where matrix instructions start, before they move on
	e.issued, e.issuer = w, t.index
	if !e.hazard(t, w) && !e.tolerateHazard() || !e.execute(t, w) {
		return false
	}
	h.done(e, t, w, row)
	return true
}

// execute returns false if the instruction must wait or is refused.
func (e *Engine) execute(t *thread, w uint32) bool {
	if op := w >> 24; op >= opSFPLOAD && op <= lastSFPU {
		return e.vector(t, w)
	}
	if e.sfpu.busy && e.sfpu.macros.thread == t && !e.macroOther(t, w) {
		return false
	}
	return e.decoded(t, w)
}

func (e *Engine) decoded(t *thread, w uint32) bool {
	op := w >> 24
	switch c := &e.encodings[op]; {
	case c.executed:
		if extra := w & c.unused; extra != 0 {
			return e.undefined("bits %#x are set, which %s doesn't have", extra, c.name)
		}
		if e.registers == nil && usesData(op) {
			e.allocate()
		}
		return e.dispatch(t, w)
	case c.unsupported:
		return e.unsupported("%s", c.name)
	}
	return e.undefined("there is no opcode %#02x", op)
}

func usesData(op uint32) bool {
	switch op {
	case opZEROACC, opZEROSRC, opGATESRCRST, opCLEARDVALID, opSETRWC, opINCRWC:
		return false
	case opPACR, opUNPACR, opUNPACR_NOP, opSFPLOAD, opSFPSTORE, opSFPLOADMACRO:
		return true
	}
	return op >= opMOVD2A && op < opSETRWC
}
