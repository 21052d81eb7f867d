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

// inbox is what other chips have sent to a chip and it has not taken yet.
type inbox struct {
	mu      sync.Mutex
	waiting atomic.Int32
	list    []func(*Chip)
	taken   []func(*Chip)
}

// post leaves something for a chip to do when it next runs. The caller need not hold its token.
func (b *inbox) post(c *Chip, f func(*Chip)) {
	b.mu.Lock()
	b.list = append(b.list, f)
	b.waiting.Store(int32(len(b.list)))
	b.mu.Unlock()
	c.wakeLoop()
}

// Slices in instructions. A core that was just woken gets a short one, since it may soon wait
// again.
const (
	minSlice      = 512
	maxSlice      = 4096
	maxSliceDelay = 128 // with Config.Delay, so that requests in flight overlap with what runs
)

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

func (s *sched) wakeLoop() {
	select {
	case s.kick <- struct{}{}:
	default:
	}
}

// hostLoad is a load of the host and what it found.
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

// peerQueue is what other cards have asked of a chip through its BARs, in order, and the chip has
// not done.
type peerQueue struct {
	waiting atomic.Int32
	mu      sync.Mutex
	closed  bool
	list    []peerAccess
}

// peerAccess is a write of p, or a read of n bytes.
type peerAccess struct {
	after uint32 // how many of the host's stores came before it, modulo 2^32
	bar   int
	off   uint64
	p     []byte
	taken func()
	n     int
	done  func(p []byte) // of a read
}
