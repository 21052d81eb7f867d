package emu

import (
	"container/heap"
	"github.com/reprise-tt/reprise/sim/emu/internal/word"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/reprise-tt/reprise/sim/driver"
)

var _ driver.Peer = (*Chip)(nil)

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

// PeerWrite implements driver.Peer.
func (c *Chip) PeerWrite(bar int, off uint64, p []byte, taken func()) {
	c.peers.post(c, peerAccess{bar: bar, off: off, p: slices.Clone(p), taken: taken})
}

// PeerRead implements driver.Peer.
func (c *Chip) PeerRead(bar int, off uint64, n int, done func(p []byte)) {
	c.peers.post(c, peerAccess{bar: bar, off: off, n: n, done: done})
}

// post leaves an access for a chip. The caller may hold any chip's token.
func (q *peerQueue) post(c *Chip, a peerAccess) {
	q.mu.Lock()
	if q.closed {
		q.mu.Unlock()
		a.end(c, false)
		return
	}
	a.after = c.posted.tail.Load()
	q.list = append(q.list, a)
	q.waiting.Store(int32(len(q.list)))
	q.mu.Unlock()
	c.attend()
}

// take takes the oldest access, if all of the host's stores that came before it are done: head of
// them are.
func (q *peerQueue) take(head uint32) (a peerAccess, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.list) == 0 || int32(head-q.list[0].after) < 0 {
		return a, false
	}
	a, q.list[0] = q.list[0], peerAccess{}
	if q.list = q.list[1:]; len(q.list) == 0 {
		q.list = nil // and what it has grown to with it
	}
	q.waiting.Store(int32(len(q.list)))
	return a, true
}

// close answers all accesses, present and future, as a card that is gone.
func (q *peerQueue) close(c *Chip) {
	q.mu.Lock()
	left := q.list
	q.list, q.closed = nil, true
	q.waiting.Store(0)
	q.mu.Unlock()
	for i := range left {
		left[i].end(c, false)
	}
}

// end performs an access of another card, if there is still a chip, and tells that card. The caller
// holds the token then.
func (a *peerAccess) end(c *Chip, live bool) {
	if a.done == nil {
		if live {
			c.writeBAR(a.bar, a.off, a.p)
		}
		a.taken()
		return
	}
	p := make([]byte, a.n)
	if live {
		c.readBAR(a.bar, a.off, p)
	} else {
		fill(p, 0xFF)
	}
	a.done(p)
}

// takePosted performs what the host and other cards have posted, in the order in which it came as
// far as that can be told. What comes meanwhile is left for the next call. The caller holds the
// token.
func (s *sched) takePosted() {
	tail := s.chip.posted.tail.Load()
	// Read after the tail: whatever another card did before the host's last store is counted.
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

// lookPosted is takePosted for the goroutine that runs the cores, which has posted nothing itself:
// while nothing is there it touches no memory that a host writes.
func (s *sched) lookPosted() {
	if s.chip.posted.pending() || s.peers.waiting.Load() > 0 {
		s.takePosted()
	}
}

// attend makes the chip take what other cards left for it. A Synchronous chip takes it at once,
// unless another goroutine has its token: that one takes it before it releases the token.
func (c *Chip) attend() {
	if !c.cfg.Synchronous {
		c.wakeLoop()
		return
	}
	select {
	case <-c.tok:
		c.release()
	default:
	}
}

// left reports whether other chips have left something since the token was released.
func (s *sched) left() bool {
	if s.group == nil {
		return s.behind()
	}
	return slices.ContainsFunc(s.group.chips, func(c *Chip) bool { return c.behind() })
}

func (s *sched) behind() bool {
	return s.peers.waiting.Load() != 0 || s.inbox.waiting.Load() != 0 && !s.chip.faulted.Load()
}

// maxPosted is how many bytes of writes to other cards may be under way before the chip stops
// running until those have taken some, and breath is how long it then waits before it polls again.
// On silicon PCIe's credits limit them.
const (
	maxPosted = 1 << 20
	breath    = 20 * time.Microsecond
)

// ahead reports whether other cards have too many of the chip's writes to take yet. The chip goes
// on taking theirs.
func (s *sched) ahead() bool {
	d := s.chip.pcie.peers
	return d != nil && d.Posted() > maxPosted
}

// askPeer sends a NoC read on its way to another card, if that is where it goes. The request is
// answered when that card gets to it.
func (q *request) askPeer(bus uint64, n int) bool {
	c := q.tile.chip
	if c.pcie.peers == nil {
		return false
	}
	f := *q
	f.data = nil
	return c.pcie.peers.ReadPeer(bus, n, func(p []byte) {
		c.inbox.post(c, func(*Chip) { f.answered(p) })
		c.attend()
	})
}

// answered completes a NoC read with another card's answer.
func (q *request) answered(p []byte) {
	c := q.tile.chip
	if c.tileAt(q.tile.xy) != q.tile {
		return // the chip was reset meanwhile
	}
	word.Pack(q.buffer(), q.fromAddr, p)
	if c.cfg.Delay > 0 {
		c.eventSeq++
		heap.Push(&c.events, event{at: c.clock + c.someTime(), seq: c.eventSeq, q: q, do: stepRespond})
		return
	}
	q.respond()
}

func fill(p []byte, b byte) {
	for i := range p {
		p[i] = b
	}
}
