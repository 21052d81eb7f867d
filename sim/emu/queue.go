package emu

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/reprise-tt/reprise/sim/emu/internal/workers"
)

// group is the chips of a Synchronous machine, which share a token.
type group struct {
	tok   chan struct{}
	chips []*Chip
	limit int
	rng   uint64
	ready []*Chip
}

// inbox is what other chips have sent to a chip.
type inbox struct {
	mu      sync.Mutex
	waiting atomic.Int32
	list    []func(*Chip)
	taken   []func(*Chip)
}

// post leaves something for a chip to do. The caller need not hold its token.
func (b *inbox) post(c *Chip, f func(*Chip)) {
	b.mu.Lock()
	b.list = append(b.list, f)
	b.waiting.Store(int32(len(b.list)))
	b.mu.Unlock()
	c.wakeLoop()
}

// Slices in instructions. A woken core gets a short one, since it may soon wait again.
const (
	minSlice      = 512
	maxSlice      = 4096
	maxSliceDelay = 128 // with Config.Delay, to overlap requests in flight
	timedSlice    = 32  // with Config.Launches
)

// sched runs the chip. The token in tok is the right to touch the chip; a channel passes it on in
// the order of asking, so that hosts and the chip's goroutine take turns.
type sched struct {
	chip *Chip
	tok  chan struct{}
	want atomic.Int32 // hosts that wait for the token
	kick chan struct{}
	done chan struct{}

	closed bool
	polls  bool          // host and loop may poll for each other
	spare  time.Duration // for which loop may poll before it sleeps

	queue   []*core // runnable
	pos     int     // next of the queue in this round
	clock   uint64  // at the start of the round
	longest int     // slice of this round, in time that its core could see
	rng     splitmix
	events  []event
	order   map[orderKey]uint64

	waitingEngines []*engines // with work
	turns          int        // of cores, since engines ran
	crew           workers.Pool
	boxes          []*outbox    // of a window's tiles
	parts          []*part      // of a window
	unrun          atomic.Int32 // of boxes
	lane           atomic.Int32 // next lane of DRAM banks

	inbox   inbox     // from other chips
	peers   peerQueue // from other cards
	group   *group    // of a Synchronous machine
	idle    idle
	steps   int      // since the host's last load
	loads   uint     // of the host: see saw
	last    hostLoad // of the host
	news    atomic.Bool
	skipped bool // loop left the token to a host

	// With a Schedule: see still.go.
	visits      chan struct{} // the right to touch a chip that stands still
	visited     bool          // a tool accesses the chip
	debugged    []*core
	kept        map[keptWord]uint32 // what tools have overwritten since the chip stood still
	stand       func()              // waits while the chip stands still
	wakeStepped func() bool
}

type keptWord struct {
	tile *tile
	addr uint32
}

func (s *sched) random() uint64 { return s.rng.next() }

// splitmix is a splitmix64 sequence.
type splitmix uint64

func (r *splitmix) next() uint64 {
	*r += 0x9E3779B97F4A7C15
	z := uint64(*r)
	z = (z ^ z>>30) * 0xBF58476D1CE4E5B9
	z = (z ^ z>>27) * 0x94D049BB133111EB
	return z ^ z>>31
}

func (s *sched) wakeLoop() {
	select {
	case s.kick <- struct{}{}:
	default:
	}
}

type hostLoad struct {
	bar   int
	off   uint64
	value uint64
}

func (s *sched) swap(i, j int) {
	q := s.queue
	q[i], q[j] = q[j], q[i]
	q[i].queueIndex, q[j].queueIndex = i, j
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
	if len(s.queue) == 0 { // the last core's round is over
		s.clock += uint64(s.longest)
		s.longest = 0
	}
	k.queueIndex = len(s.queue)
	s.queue = append(s.queue, k)
}

func (s *sched) dequeue(k *core) {
	i := k.queueIndex
	if i < 0 || k.tile.outbox != nil { // a window looks at its end
		return
	}
	if i < s.pos { // keep those that have run in this round in front
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

// now is the time as o sees it: the start of the round plus a core's progress in its slice.
func (c *Chip) now(o origin) uint64 {
	if k := o.core; k != nil {
		return c.clock + uint64(k.base+k.budget-k.left)
	}
	return c.clock
}

// peerQueue is what other cards have asked of a chip through its BARs, in order.
type peerQueue struct {
	waiting atomic.Int32
	mu      sync.Mutex
	closed  bool
	list    []peerAccess
}

// peerAccess is a write of p, or a read of n bytes.
type peerAccess struct {
	after uint32 // stores of the host before it, modulo 2^32
	bar   int
	off   uint64
	p     []byte
	taken func()
	n     int
	done  func(p []byte) // of a read
}
