package emu

import (
	"slices"

	"github.com/reprise-tt/reprise/sim/driver"
)

var _ driver.Peer = (*Chip)(nil)

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

// take takes the oldest access once the host's stores before it are done: head of them are.
func (q *peerQueue) take(head uint32) (a peerAccess, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.list) == 0 || int32(head-q.list[0].after) < 0 {
		return a, false
	}
	a, q.list[0] = q.list[0], peerAccess{}
	if q.list = q.list[1:]; len(q.list) == 0 {
		q.list = nil // free its memory
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

// end performs another card's access if the chip lives, and tells that card.
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

// attend makes the chip take what other cards left. Whoever has a Synchronous chip's token takes
// it.
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

func fill(p []byte, b byte) {
	for i := range p {
		p[i] = b
	}
}
