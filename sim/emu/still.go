package emu

// still makes a chip with a Schedule stand still as a whole while a debugger has paused one of its
// processors. So a debugger changes no order: a processor that it has paused goes on in the same
// slice, and what tools do meanwhile isn't followed, takes no turn and wakes nothing.
type still struct {
	visits   chan struct{}
	visited  bool // a tool accesses the chip
	debugged []*core
	kept     map[keptWord]uint32 // what tools have overwritten since the chip stood still
}

type keptWord struct {
	tile *tile
	addr uint32
}

// visit takes the right to touch the chip for a tool, also while the chip stands still. leave
// returns it.
func (s *sched) visit() (token chan struct{}) {
	if s.chip.cfg.Schedule == nil {
		s.acquire()
		return s.tok
	}
	select {
	case <-s.tok:
		token = s.tok
	case <-s.visits:
		token = s.visits
	}
	s.visited = true
	return token
}

func (s *sched) leave(token chan struct{}) {
	if s.chip.cfg.Schedule == nil {
		s.release()
		return
	}
	s.visited = false
	if token == s.tok && s.wakeStepped() {
		go func() { // the tool doesn't wait
			for s.busy() {
				s.step()
			}
			s.tok <- struct{}{}
		}()
		return
	}
	token <- struct{}{}
	s.wakeLoop()
}

// wakeStepped wakes a processor that is to execute an instruction and waits for others, while
// nothing else can run. It reports whether there was one.
func (s *sched) wakeStepped() bool {
	for _, k := range s.debugged {
		if k.debug.steps > 0 && k.state == parked {
			k.wake(false)
			return true
		}
	}
	return false
}

// standStill returns once no processor is paused, or none has hit something and a debugger lets one
// go on: those that were only asked to pause go on with it.
func (s *sched) standStill() {
	for s.stands() {
		s.visits <- struct{}{}
		<-s.kick
		<-s.visits
	}
	for w, old := range s.kept {
		const ebreak = 0x00100073
		now := w.tile.l1[w.addr>>2]
		if now != old && now != ebreak && old != ebreak {
			w.tile.stored(w.addr, 4)
		}
	}
	clear(s.kept)
}

func (s *sched) stands() bool {
	paused, going := s.chip.cfg.Schedule.Stopped, false
	for _, k := range s.debugged {
		switch d := k.debug; {
		case d.status&(hitBreak|hitWatch|hitEBREAK) != 0 || d.awaited && d.status&pausedBit != 0:
			return s.chip.fault == nil
		case d.status&pausedBit != 0 || d.busy:
			paused = true
		default:
			going = going || d.going
		}
	}
	return paused && !going && s.chip.fault == nil
}

// awaitResumption is called before the processor hits something. A debugger that lets several
// processors go on, one after the other, would miss what those hit that it hasn't come to.
func (c *core) awaitResumption() {
	if c.thread != nil {
		c.debug.awaited = true
		c.tile.chip.standStill()
		c.debug.awaited = false
	}
}

// keep notes n bytes of L1 that a tool is about to overwrite, for standStill.
func (s *sched) keep(t *tile, addr uint32, n int) {
	if !s.visited {
		return
	}
	for a := addr &^ 3; a < addr+uint32(n); a += 4 {
		if _, ok := s.kept[keptWord{t, a}]; !ok {
			s.kept[keptWord{t, a}] = t.memory(a + 4)[a>>2]
		}
	}
}
