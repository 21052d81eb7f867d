package emu

import (
	"runtime"
	"sync/atomic"
	"time"

	"github.com/reprise-tt/reprise/sim/emu/internal/workers"
)

// Slices in instructions. A core that was just woken gets a short one, since it may soon wait
// again.
const (
	minSlice      = 512
	maxSlice      = 4096
	maxSliceDelay = 128 // with Config.Delay, so that requests in flight overlap with what runs
)

// maxTurns is after how many slices engines run although the round goes on: cores that wake each
// other prolong it.
const maxTurns = 4096

// sched runs the chip: which cores are runnable, which goroutine may touch the chip, and what time
// it is.
//
// The token in tok is the right to touch the chip. A channel passes it on in the order of asking,
// so that a host that loads in a loop and the goroutine that runs the cores take turns.
type sched struct {
	chip *Chip
	tok  chan struct{}
	want atomic.Int32 // hosts that wait for the token
	kick chan struct{}
	done chan struct{}

	closed bool
	polls  bool          // a host or the goroutine that runs the chip may poll while the other works
	spare  time.Duration // for which loop may poll before it sleeps

	queue    []*core // runnable
	pos      int     // next of the queue in this round
	clock    uint64  // at the start of the round
	longest  int     // slice of this round, by what its core could see of the time
	rng      splitmix
	events   eventHeap
	order    map[orderKey]uint64
	eventSeq uint64

	waitingEngines []*engines // to which cores have given something since engines last ran
	turns          int        // of cores, since then
	crew           workers.Pool
	boxes          []*outbox    // of the tiles of a window
	parts          []*part      // of a window
	unrun          atomic.Int32 // of boxes
	lane           atomic.Int32 // the next of banks of DRAM

	inbox   inbox     // what other chips have sent
	peers   peerQueue // what other cards have asked for
	group   *group    // of a Synchronous chip with others: they run together
	idle    idle
	steps   int      // since the host's last load
	loads   uint     // of the host: see othersTurn
	last    hostLoad // of the host
	news    atomic.Bool
	skipped bool // loop last released the token because a host wanted it
}

func (s *sched) init(c *Chip) {
	s.chip = c
	s.tok = make(chan struct{}, 1)
	s.kick = make(chan struct{}, 1)
	s.done = make(chan struct{})
	s.rng = splitmix(c.cfg.Seed*0x9E3779B97F4A7C15 + 0x2545F4914F6CDD1D)
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

// random returns the next number of the seeded sequence.
func (s *sched) random() uint64 { return s.rng.next() }

// splitmix is a sequence of numbers (splitmix64).
type splitmix uint64

func (r *splitmix) next() uint64 {
	*r += 0x9E3779B97F4A7C15
	z := uint64(*r)
	z = (z ^ z>>30) * 0xBF58476D1CE4E5B9
	z = (z ^ z>>27) * 0x94D049BB133111EB
	return z ^ z>>31
}

// acquire takes the token for the host.
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

// release releases the token and makes sure that what has become runnable runs.
func (s *sched) release() {
	for s.chip.cfg.Synchronous {
		all := s.group != nil && s.group.settle() || s.group == nil && s.settle()
		s.tok <- struct{}{}
		if !all || !s.left() {
			return
		}
		select {
		case <-s.tok: // another card left something before the token was released
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

func (s *sched) wakeLoop() {
	select {
	case s.kick <- struct{}{}:
	default:
	}
}

// busy reports whether anything can happen without the host.
func (s *sched) busy() bool {
	return s.chip.fault == nil && (len(s.queue) > 0 || len(s.events) > 0 || len(s.waitingEngines) > 0 || s.inbox.waiting.Load() != 0) ||
		s.peers.waiting.Load() != 0
}

// settle runs the chip until everything waits, and reports whether it came to that.
func (s *sched) settle() bool {
	for left := s.chip.cfg.MaxRun; s.busy(); {
		if left <= 0 {
			return false
		}
		left -= s.step()
	}
	return true
}

// loop runs the cores of an asynchronous chip.
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
		// A host that asks again and again must not keep the chip from running: at least every
		// other time it gets a step.
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

// paceSteps is how many slices a Paced chip executes between two loads of a host, at least: the
// processors of one tile get theirs.
const paceSteps = 2 * 5

// pace executes what loop has not executed since the host's last load.
func (s *sched) pace() {
	if !s.chip.cfg.Paced || s.chip.cfg.Synchronous {
		return
	}
	for ; s.steps < paceSteps && s.busy() && !s.ahead(); s.steps++ {
		s.step()
	}
	s.takePosted()
	s.steps = 0
}

// hostLoad is a load of the host and what it found.
type hostLoad struct {
	bar   int
	off   uint64
	value uint64
}

// saw notes what a host has found. It is news if it differs from what the load before found at the
// same place.
func (s *sched) saw(bar int, off, value uint64) {
	if !s.chip.cfg.Paced || s.chip.cfg.Synchronous || !s.chip.linked() {
		return
	}
	l := hostLoad{bar, off, value}
	if l != s.last {
		s.last, s.steps = l, 0
		s.news.Store(true)
	}
}

// react executes as much as the processors do at least before a host's store reaches a Paced chip
// with links that answers what the host has loaded: those that run get a slice each. The way to the
// host and back takes silicon a microsecond. TT-NN's fabric counts on it: a router that is to find
// the host's answer has just to write that it waits (tt-metal fabric_erisc_router.cpp,
// READY_FOR_TRAFFIC).
func (s *sched) react() {
	if !s.news.Swap(false) || !s.idle.on && s.steps >= 2*len(s.queue) { // steps counts those that quiet processors let pass
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

// loadsBeforeTurns is after how many loads of a Paced chip with links a host lets other goroutines
// run.
const loadsBeforeTurns = 16

// othersTurn counts a load of the host and reports whether the host is to let the goroutines of
// other chips run, as soon as it has released the token. A host and the goroutine that runs its
// chip wake each other by the token. While they do, Go's scheduler runs no other goroutine that
// waits for the same processor if the host is locked to its thread, as one that calls from C is:
// the chip that the host waits for may be starved.
func (s *sched) othersTurn() bool {
	if !s.chip.cfg.Paced || s.chip.cfg.Synchronous || !s.chip.linked() {
		return false
	}
	s.loads++
	return s.loads%loadsBeforeTurns == 0
}

// turn is how many instructions a chip with links runs before it lets others run. They wait for
// each other's packets, and Go's own turns are 10 ms: with 32 chips on two processors a packet
// would wait a sixth of a second for its chip.
const turn = 20000

// takeToken takes the token for loop.
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

// A goroutine that sleeps often continues on another processor, whose caches have nothing of the
// chip, and waking it takes a system call and on virtual machines some 50 µs. So loop polls before
// it sleeps, for a 32nd of the time that it has worked, at most maxSpare.
const (
	spareShare = 32
	maxSpare   = 100 * time.Microsecond
)

// earn adds to the time for which loop may poll.
func (s *sched) earn(worked time.Duration) {
	if s.polls {
		s.spare = min(s.spare+worked/spareShare, maxSpare)
	}
}

// awaitKick waits until a host has brought something.
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

// pollKick polls for what awaitKick waits for: until it is there, or for as long as loop may.
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

// step runs one slice of one core, or lets time pass until the next event. It returns the number of
// instructions, at least 1.
func (s *sched) step() int {
	s.lookPosted()
	s.inbox.drain(s.chip)
	if s.pos >= len(s.queue) { // the round is over
		s.pos = 0
		s.clock += uint64(s.longest)
		s.longest = 0
		s.idle.endRound()
		s.runEngines()
	}
	if s.turns++; s.turns > maxTurns {
		s.runEngines()
	}
	if len(s.events) > 0 {
		if len(s.queue) == 0 {
			s.clock = max(s.clock, s.events[0].at)
		}
		s.runEvents()
	}
	if len(s.queue) == 0 || s.chip.fault != nil {
		return 1
	}
	if s.wide() {
		return s.window()
	}
	// Draw the next core of the round among those that have not run in it.
	if rest := len(s.queue) - s.pos; rest > 1 {
		s.swap(s.pos, s.pos+int(s.random()%uint64(rest)))
	}
	k := s.queue[s.pos]
	s.pos++
	if s.idle.skips(&k.quiet) {
		return 1
	}
	n, _ := s.slice(k, &s.rng)
	s.longest = max(s.longest, n+int(k.ahead))
	return n + 1
}

func (s *sched) swap(i, j int) {
	q := s.queue
	q[i], q[j] = q[j], q[i]
	q[i].queueIndex, q[j].queueIndex = i, j
}

// slice runs core k for a while, which it draws, and finds out whether it waits. It returns how
// many instructions that were, and whether the core could go on at once.
func (s *sched) slice(k *core, draw *splitmix) (used int, more bool) {
	k.ahead, k.ends = 0, false
	limit := maxSlice
	if s.chip.cfg.Delay > 0 {
		limit = maxSliceDelay
	}
	st := stopSlice
	if !k.probeFirst {
		n := min(k.slice, limit)
		// Jitter, so that seeds differ in more than the order of cores.
		n = n/2 + 1 + int(draw.next()%uint64(n/2+1))
		if len(s.events) > 0 { // which are handled at the ends of slices
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
		k.watched, k.classes = 0, classMailbox
		k.wait.known, k.again = false, 0 // it describes a loop that the core has left
		k.park(blocked)
	}
	return used, k.state == runnable && st != stopAgain
}

// enqueue makes a core runnable in this round.
func (s *sched) enqueue(k *core) {
	if b := k.tile.outbox; b != nil {
		b.enqueue(k)
		return
	}
	if k.queueIndex >= 0 {
		return
	}
	if len(s.queue) == 0 { // the round in which the last core stopped is over
		s.clock += uint64(s.longest)
		s.longest = 0
	}
	k.queueIndex = len(s.queue)
	s.queue = append(s.queue, k)
}

// dequeue takes a core out of the queue.
func (s *sched) dequeue(k *core) {
	i := k.queueIndex
	if i < 0 || k.tile.outbox != nil { // the end of a window sees its state
		return
	}
	if i < s.pos { // it has run in this round: keep those that have in front
		s.pos--
		s.swap(i, s.pos)
		i = s.pos
	}
	last := len(s.queue) - 1
	s.swap(i, last)
	s.queue[last] = nil
	s.queue = s.queue[:last]
	k.queueIndex = -1
}

// now is the time as o sees it: the start of the round, and for a core what it has executed in its
// slice.
func (c *Chip) now(o origin) uint64 {
	if k := o.core; k != nil {
		return c.clock + uint64(k.base+k.budget-k.left)
	}
	return c.clock
}

// Close stops the chip and waits for its goroutine. It is idempotent.
func (c *Chip) Close() error {
	c.acquire()
	c.closed = true
	c.crew.Close()
	if c.fault == nil {
		c.fault = ErrClosed
		c.announceFault()
	}
	c.peers.close(c)
	c.untranslate()
	c.tok <- struct{}{}
	if !c.cfg.Synchronous {
		c.wakeLoop()
		<-c.done
	}
	return nil
}
