package emu

import (
	"runtime"
	"slices"
	"time"

	"github.com/reprise-tt/reprise/chip"
)

// maxTurns is after how many slices engines run in the middle of a round: cores that wake each
// other prolong it.
const maxTurns = 4096

func (s *sched) init(c *Chip) {
	s.chip = c
	s.tok = make(chan struct{}, 1)
	s.kick = make(chan struct{}, 1)
	s.done = make(chan struct{})
	s.reseed()
	s.order = map[orderKey]uint64{}
	s.tok <- struct{}{}
	s.idle.on = c.cfg.EasesIdle
	if c.cfg.Synchronous {
		close(s.done)
		return
	}
	s.polls = runtime.GOMAXPROCS(0) > 1
	go s.loop()
}

func (s *sched) acquire() {
	select {
	case <-s.tok:
	default:
		s.want.Add(1)
		<-s.tok
		s.want.Add(-1)
	}
	s.takePosted()
}

// release releases the token and makes sure that runnable cores run.
func (s *sched) release() {
	for s.chip.cfg.Synchronous {
		s.chip.hostAccessed = true
		all := s.group != nil && s.group.settle() || s.group == nil && s.settle()
		s.tok <- struct{}{}
		if !all || !s.left() {
			return
		}
		select {
		case <-s.tok: // another card left something meanwhile
		default:
			return
		}
	}
	busy := s.busy()
	s.tok <- struct{}{}
	if busy || s.chip.posted.pending() {
		s.wakeLoop()
	}
}

// visit takes the right to touch the chip for a tool, also while the chip stands still. leave
// returns it.
func (s *sched) visit() (token chan struct{}) {
	if s.stand == nil {
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
	if s.stand == nil {
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

func (s *sched) reseed() {
	s.rng = splitmix(s.chip.cfg.Seed*0x9E3779B97F4A7C15 + 0x2545F4914F6CDD1D)
	s.pos, s.turns, s.longest = 0, 0, 0
}

func (s *sched) busy() bool {
	return s.chip.fault == nil && (len(s.queue) > 0 || len(s.events) > 0 || len(s.waitingEngines) > 0 || s.inbox.waiting.Load() != 0 ||
		s.chip.cfg.Schedule.Stuck() || s.wakeStepped != nil && s.wakeStepped()) ||
		s.peers.waiting.Load() != 0
}

// settle runs the chip until everything waits, false if MaxRun ended first.
func (s *sched) settle() bool {
	s.beginRound()
	for left := s.chip.cfg.MaxRun; s.busy(); {
		if left <= 0 {
			return false
		}
		left -= s.step()
	}
	return true
}

func (s *sched) beginRound() {
	if s.chip.cfg.Schedule != nil && s.busy() {
		s.chip.cfg.Schedule.Begin()
	}
}

func (s *sched) loop() {
	defer close(s.done)
	woken := time.Now()
	for {
		s.takeToken()
		s.lookPosted()
		if s.closed {
			s.tok <- struct{}{}
			return
		}
		// A host that asks again and again must leave the chip at least every other step.
		left := turn
		for ran := false; s.busy() && left > 0 && !s.ahead() && !s.idle.due && (s.want.Load() == 0 || !ran && s.skipped); ran = true {
			n := s.step()
			s.steps++
			if s.chip.linked() {
				left -= n
			}
			s.lookPosted()
			s.skipped = false
		}
		s.skipped = s.want.Load() != 0
		busy, ahead, rests := s.busy(), s.ahead(), s.idle.due
		s.tok <- struct{}{}
		switch {
		case !busy:
			s.earn(time.Since(woken))
			s.awaitKick()
			woken = time.Now()
		case ahead:
			time.Sleep(breath)
		case rests:
			accessed := rest(s.kick)
			s.takeToken()
			s.idle.rested(accessed)
			s.tok <- struct{}{}
		case left <= 0:
			runtime.Gosched()
		}
	}
}

// paceSteps is how many slices at least a Paced chip executes between two loads of a host.
const paceSteps = 2 * 5

func (s *sched) pace() {
	if !s.chip.cfg.paced() {
		return
	}
	for ; s.steps < paceSteps && s.busy() && !s.ahead(); s.steps++ {
		s.step()
	}
	s.takePosted()
	s.steps = 0
}

// saw ends a host's load, whose result is news if it differs from the last load's.
//
// Every few loads it lets other chips' goroutines run: a host locked to its thread and its chip's
// goroutine wake each other, and Go's scheduler would starve other goroutines on that processor.
func (s *sched) saw(bar int, off, value uint64) {
	if !s.chip.cfg.paced() || !s.chip.linked() {
		s.release()
		return
	}
	if l := (hostLoad{bar, off, value}); l != s.last {
		s.last, s.steps = l, 0
		s.news.Store(true)
	}
	s.loads++
	turns := s.loads%loadsBeforeTurns == 0
	s.release()
	if turns {
		runtime.Gosched()
	}
}

// react executes the slices that a host's answer takes on silicon, before its store reaches a Paced
// chip with links. TT-NN's fabric counts on that microsecond: a router that waits for the answer
// has yet to write that it waits (tt-metal fabric_erisc_router.cpp, READY_FOR_TRAFFIC).
func (s *sched) react() {
	if !s.news.Swap(false) || !s.idle.on && s.steps >= 2*len(s.queue) { // steps counts turns that quiet processors skip
		return
	}
	s.idle.all = true
	for n := 2*len(s.queue) - s.pos; n > 0 && s.busy() && !s.ahead(); n-- {
		s.step()
		s.steps++
	}
	s.idle.all = false
	s.takePosted()
}

const loadsBeforeTurns = 16

// turn is how many instructions a chip with links runs before it yields. Go's own turns of 10 ms
// would hold up packets between many chips.
const turn = 20000

func (s *sched) takeToken() {
	for n := 1; s.chip.cfg.Awake; n++ {
		select {
		case <-s.tok:
			return
		default:
		}
		if n%spins == 0 {
			runtime.Gosched()
		}
	}
	<-s.tok
}

// Waking a goroutine takes a system call, some 50 µs on virtual machines, and often another
// processor with cold caches. So loop polls before it sleeps, for a 32nd of the time it has worked.
const (
	spareShare = 32
	maxSpare   = 100 * time.Microsecond
)

func (s *sched) earn(worked time.Duration) {
	if s.polls {
		s.spare = min(s.spare+worked/spareShare, maxSpare)
	}
}

func (s *sched) awaitKick() {
	if s.chip.cfg.Awake || s.spare > 0 {
		begun := time.Now()
		kicked := s.pollKick(begun)
		if s.spare = max(0, s.spare-time.Since(begun)); kicked {
			return
		}
	}
	<-s.kick
}

func (s *sched) pollKick(begun time.Time) bool {
	for n := 1; ; n++ {
		select {
		case <-s.kick:
			return true
		default:
		}
		switch {
		case s.chip.posted.pending():
			return true
		case n%spins != 0:
		case s.chip.cfg.Awake:
			runtime.Gosched()
		case time.Since(begun) >= s.spare:
			return false
		}
	}
}

// step runs one slice of one core, or advances to the next event. It returns the number of
// instructions, at least 1.
func (s *sched) step() int {
	if s.stand != nil {
		s.stand()
	}
	s.lookPosted()
	s.inbox.drain(s.chip)
	if s.pos >= len(s.queue) { // the round is over
		s.pos = 0
		if len(s.events) > 0 {
			s.idle.lively = true
			if s.longest == 0 { // none ran, or quiet ones had no turn
				s.clock = max(s.clock, s.events[0].at)
			}
		}
		s.clock += uint64(s.longest)
		s.longest = 0
		s.idle.endRound()
		s.runEngines()
	}
	if s.turns++; s.turns > maxTurns {
		s.runEngines()
	}
	if len(s.events) > 0 {
		s.runEvents()
	}
	if len(s.queue) == 0 || s.chip.fault != nil {
		return 1
	}
	if s.wide() {
		return s.window()
	}
	// Draw one of the round's remaining cores.
	if rest := len(s.queue) - s.pos; rest > 1 {
		s.swap(s.pos, s.pos+int(s.random()%uint64(rest)))
	}
	k := s.queue[s.pos]
	s.pos++
	if s.idle.skips(&k.quiet) {
		return 1
	}
	n := 0
	if s.chip.cfg.Launches != nil {
		n = s.inTime(k)
	} else {
		n, _ = s.slice(k, &s.rng)
	}
	s.longest = max(s.longest, n+int(k.ahead))
	return n + 1
}

// inTime runs a core from where it was in time up to the end of the round, and returns how long
// the round has to be. Slices may end early, and probes may make them long.
func (s *sched) inTime(k *core) int {
	n, more := int(max(k.until, s.clock)-s.clock), true
	for more && n < timedSlice {
		used := 0
		k.base += n
		used, more = s.slice(k, &s.rng)
		k.base -= n
		n, more = n+used, more && used > 0
	}
	k.until = s.clock + uint64(n)
	return min(n, timedSlice)
}

// slice runs core k for a drawn number of instructions and finds out whether it waits. It returns
// the number, and whether the core could go on at once.
func (s *sched) slice(k *core, draw *splitmix) (used int, more bool) {
	k.ahead, k.ends = 0, false
	limit := maxSlice
	if s.chip.cfg.Delay > 0 {
		limit = maxSliceDelay
	}
	timed := s.chip.cfg.Launches != nil
	if timed {
		limit = timedSlice
	}
	st := stopSlice
	if !k.probeFirst {
		n := min(k.slice, limit)
		// Jitter, so that seeds differ in more than the order of cores.
		if !timed {
			n = n/2 + 1 + int(draw.next()%uint64(n/2+1))
		}
		if len(s.events) > 0 { // they are handled at the ends of slices
			n = min(n, int(max(s.events[0].at, s.clock+1)-s.clock))
		}
		st = k.advance(n)
		used = k.used
		if !k.ends {
			k.slice = min(2*k.slice, limit)
		}
	}
	k.probeFirst = false
	if st == stopSlice || st == stopWaits {
		at, early := k.pc, st == stopWaits
		waiting := k.waitsAgain()
		if !waiting {
			if !early && !k.worthProbing() {
				return used, true
			}
			k.base += used
			waiting, st = k.probe()
			k.base -= used
			used += k.used
		}
		if pg := k.codePage(at); early && pg != nil {
			pg.waited(int(at%pageBytes>>2), waiting)
		}
		if waiting {
			k.inLoop = early
			k.park(parked)
			return used, false
		}
	}
	if st == stopBlocked {
		k.watched, k.classes, k.polls = 0, classMailbox, 0
		k.wait.known, k.again = false, 0 // it describes a loop that the core has left
		k.park(blocked)
	}
	return used, k.state == runnable && st != stopAgain
}

// Close stops the chip and waits for its goroutine; it is idempotent.
func (c *Chip) Close() error {
	token := c.visit()
	c.closed = true
	c.crew.Close()
	if c.fault == nil {
		c.fault = ErrClosed
		c.announceFault()
	}
	c.peers.close(c)
	c.untranslate()
	token <- struct{}{}
	c.wakeLoop()
	<-c.done
	return nil
}

// maxBeside is how many slices a chip with Track or Launches executes while only Ethernet tiles
// run, whose firmware of tt-metal counts in L1 and never waits; fewer with Findings or a Schedule,
// which are slower.
const (
	maxBeside     = 256
	besideChecked = 1
)

// idleBesideEthernet reports whether a chip on which only Ethernet tiles run counts as idle.
func (c *Chip) idleBesideEthernet() bool {
	return c.track != nil || c.cfg.Launches != nil || c.cfg.Findings != nil || c.cfg.Schedule != nil
}

func (s *sched) onlyEthernet() bool {
	return len(s.events) == 0 && len(s.waitingEngines) == 0 &&
		!slices.ContainsFunc(s.queue, func(k *core) bool { return k.tile.kind != chip.Ethernet })
}

// settle runs the chips until all wait, false if the limit came first.
func (g *group) settle() bool {
	limit := g.limit
	if limit == 0 {
		limit = 1 << 24
	}
	beside, most := 0, maxBeside
	if cfg := &g.chips[0].cfg; cfg.Findings != nil || cfg.Schedule != nil {
		most = besideChecked
	}
	g.chips[0].beginRound()
	for left := limit; left > 0 && (beside < most || g.chips[0].cfg.Schedule.Stuck()); {
		g.ready = g.ready[:0]
		for _, c := range g.chips {
			if c.busy() {
				g.ready = append(g.ready, c)
			}
		}
		if len(g.ready) == 0 {
			return true
		}
		if beside++; slices.ContainsFunc(g.ready, func(c *Chip) bool { return !c.idleBesideEthernet() || !c.onlyEthernet() }) {
			beside = 0
		}
		g.rng = g.rng*6364136223846793005 + 1442695040888963407
		left -= g.ready[int(g.rng>>33)%len(g.ready)].step()
	}
	return false
}

// drain performs what was posted. The caller holds the token.
func (b *inbox) drain(c *Chip) {
	for b.waiting.Load() != 0 && c.fault == nil {
		b.mu.Lock()
		b.taken, b.list = b.list, b.taken[:0]
		b.waiting.Store(0)
		b.mu.Unlock()
		for i, f := range b.taken {
			b.taken[i] = nil
			if c.fault == nil {
				f(c)
			}
		}
		if c.cfg.Paced {
			return // what was posted again waits for a step
		}
	}
}

func (b *inbox) empty() {
	b.mu.Lock()
	clear(b.list)
	b.list = b.list[:0]
	b.waiting.Store(0)
	b.mu.Unlock()
}

// takePosted performs, in order, what host and other cards have posted so far. The caller holds the
// token.
func (s *sched) takePosted() {
	tail := s.chip.posted.tail.Load()
	// Read after the tail, to count what other cards did before the host's last store.
	for n := s.peers.waiting.Load(); ; {
		head := s.chip.posted.head.Load()
		if n > 0 {
			if a, ok := s.peers.take(head); ok {
				n--
				a.end(s.chip, true)
				continue
			}
		}
		if head == tail {
			return
		}
		s.chip.access(s.chip.posted.take())
	}
}

// lookPosted is takePosted for the chip's goroutine. It touches no memory that a host writes while
// nothing is posted.
func (s *sched) lookPosted() {
	if s.chip.posted.pending() || s.peers.waiting.Load() > 0 {
		s.takePosted()
	}
}

// left reports whether other chips left something since the token was released.
func (s *sched) left() bool {
	if s.group == nil {
		return s.behind()
	}
	return slices.ContainsFunc(s.group.chips, func(c *Chip) bool { return c.behind() })
}

func (s *sched) behind() bool {
	return s.peers.waiting.Load() != 0 || s.inbox.waiting.Load() != 0 && !s.chip.faulted.Load()
}

// maxPosted is how many bytes of writes to other cards may be under way before the chip waits,
// polling every breath. On silicon PCIe's credits limit them.
const (
	maxPosted = 1 << 20
	breath    = 20 * time.Microsecond
)

func (s *sched) ahead() bool {
	d := s.chip.pcie.peers
	return d != nil && d.Posted() > maxPosted
}

func (s *sched) runEvents() {
	for len(s.events) > 0 && s.events[0].at <= s.clock && s.chip.fault == nil {
		e := s.events[0]
		s.events = slices.Delete(s.events, 0, 1)
		e.of.perform(e.do)
	}
}
