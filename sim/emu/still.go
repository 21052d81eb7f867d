package emu

// A chip with a Schedule stands still as a whole while a debugger has paused one of its processors.
// So a debugger changes no order: a processor that it has paused goes on in the same slice, and
// what tools do meanwhile isn't followed, takes no turn and wakes nothing.

// standsStill prepares a chip with a Schedule.
func (s *sched) standsStill() {
	s.visits, s.kept = make(chan struct{}, 1), map[keptWord]uint32{}
	s.stand, s.wakeStepped = s.standStill, s.wakesStepped
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

// wakesStepped wakes a processor that is to execute an instruction and waits for others, while
// nothing else can run. It reports whether there was one.
func (s *sched) wakesStepped() bool {
	for _, k := range s.debugged {
		if k.debug.steps > 0 && k.state == parked {
			k.wake(false)
			return true
		}
	}
	return false
}
