package emu

func (c *core) overwroteSeen(line uint32) {
	if c.seen != nil {
		for i := range c.seen.all {
			if s := &c.seen.all[i]; s.lo <= line && line <= s.hi {
				s.known = false
			}
		}
	}
}

// park stops a core until something that it read may have changed.
func (c *core) park(s coreState) {
	t := c.tile
	if c.again != 0 && c.again == c.noted {
		for _, r := range c.wait.reads[:c.wait.n] {
			t.flags[r.word>>(lineShift-2)] |= watchFlag(r.word)
		}
	} else {
		t.polls = c.notePolls(t.polls)
		c.noted = c.again
	}
	t.classes |= c.classes
	c.state = s
	c.probeDelay, c.probeSkip = 0, 0
	t.chip.dequeue(c)
}

// poll is what a parked core has read of L1: some bits of a word, or without a mask a whole line by
// its first word. Tiles keep them together because most stores to a watched line change none.
type poll struct {
	word, mask, value uint32
	core              uint8 // its number
}

func (c *core) notePolls(polls []poll) []poll {
	kept := polls[:0]
	for _, p := range polls {
		if p.core != c.number {
			kept = append(kept, p)
		}
	}
	if w := &c.wait; w.known {
		for _, r := range w.reads[:w.n] {
			kept = append(kept, poll{r.word, r.mask, r.value, c.number})
			c.tile.flags[r.word>>(lineShift-2)] |= watchFlag(r.word)
		}
	} else {
		for _, l := range c.watch[:c.watched] {
			kept = append(kept, poll{word: l << (lineShift - 2), core: c.number})
			c.tile.flags[l] |= flagWatch
		}
	}
	return kept
}

// wake makes a parked core poll again; with look it first probes whether it still waits.
func (c *core) wake(look bool) {
	c.state = runnable
	c.probeFirst = look
	c.slice = minSlice
	c.quiet = 0
	c.probeSkip = wokenSkip
	if c.inLoop {
		c.probeSkip = seldomSkip
	}
	c.tile.chip.enqueue(c)
	c.tile.together(c)
}

// together keeps a started or woken processor in pace with its tile: the others' slices end and
// begin as short as its first. tt-metal counts on silicon's common clock: NCRISC notes its NIU's
// atomic responses some 500 instructions before BRISC's next one (tt-metal brisc.cc, ncrisck.cc,
// cq_dispatch.cpp, cq_dispatch_subordinate.cpp).
func (t *tile) together(woken *core) {
	if !t.chip.cfg.Paced {
		return
	}
	for _, k := range t.cores {
		if k != woken && k.state == runnable {
			k.slice, k.ends = minSlice, true
		}
	}
}

// changed wakes the cores that wait for a register of the classes cl.
func (t *tile) changed(cl class) {
	if t.classes&cl != 0 {
		t.wake(cl)
	}
}

func (t *tile) wake(cl class) {
	t.classes = 0
	for _, c := range t.cores {
		if c.state != parked && c.state != blocked {
			continue
		}
		if c.classes&cl != 0 {
			c.wake(true)
		} else {
			t.classes |= c.classes
		}
	}
}

// touched is called for a store to a flagged line: it drops decoded instructions and wakes waiting
// cores.
func (t *tile) touched(line uint32) {
	f := t.flags[line]
	if f&flagCode != 0 {
		t.overwritten(line)
	}
	if t.chip.visited {
		return
	}
	if f&flagGo != 0 {
		t.starts.signalled(t.l1)
	}
	keep := f & (flagTrap | flagGo)
	for _, p := range t.polls {
		if p.word>>(lineShift-2) != line {
			continue
		}
		if p.mask != 0 && t.l1[p.word]&p.mask == p.value {
			keep |= f & watchFlag(p.word)
		} else if c := t.cores[p.core]; c.state == parked {
			c.wake(p.mask == 0)
		}
	}
	t.flags[line] = keep
}

// overwritten handles a store to a line of code, maybe of a loop in which a core waits.
func (t *tile) overwritten(line uint32) {
	t.undecode(line)
	for _, c := range t.cores {
		c.wait.overwritten(line)
		c.overwroteSeen(line)
		if c.state == parked && !c.wait.known && !t.chip.visited {
			c.wake(true)
		}
	}
}

func (t *tile) undecode(line uint32) {
	addr := line << lineShift
	if p := t.code[addr/pageBytes]; p != nil {
		i := addr % pageBytes / 4
		clear(p.ops[i : i+lineWords])
		p.stored[i/lineWords] = true
		t.changedLoops(int(addr/pageBytes), int(i/lineWords))
		p.forget(int(i / lineWords))
	}
}

// wokenSkip is how many slices of a woken core end without a probe, unless in a loop that may wait;
// seldomSkip if its last wait was in such a loop.
const wokenSkip = 1

const seldomSkip = 7
