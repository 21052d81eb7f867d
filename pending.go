package reprise

import (
	"context"
	"fmt"
	"sync"

	"github.com/reprise-tt/reprise/dispatch"
)

// Pending is a read, or a write from pinned host memory, that was put into a queue. Its methods may be called from any goroutine.
type Pending struct {
	b    *Buffer
	q    *Queue
	n    int
	last *dispatch.Pending   // its last part, which arrives last
	more []*dispatch.Pending // the earlier parts

	write  bool
	direct dispatch.Pending // last, of a transfer with pinned host memory

	mu        sync.Mutex
	spread    []spread // what has to be copied once all data have arrived
	abandoned bool
}

// spread is a part of a read that arrives elsewhere, because its pages have gaps on the device or are read in part.
type spread struct {
	dst, from    []byte
	page, stride int
}

// add adds a part to the read.
func (p *Pending) add(part *dispatch.Pending, err error) error {
	if err != nil {
		return err
	}
	if p.last != nil {
		p.more = append(p.more, p.last)
	}
	p.last = part
	return nil
}

// Wait waits for the data. When it fails, the read is abandoned: nothing is written to dst any more, unless it is pinned.
func (p *Pending) Wait(ctx context.Context) (err error) {
	if p.b.d.watched() {
		defer p.b.d.begin(ctx, &Call{Kind: CallAwait, Queues: p.q.self, Name: p.b.name, Object: p.b, Bytes: p.n}).end(ctx, &err)
	}
	return p.wait(ctx)
}

// wait is Wait unobserved.
func (p *Pending) wait(ctx context.Context) error {
	if err := p.last.Wait(ctx); err != nil {
		p.Abandon()
		return p.failed(err)
	}
	p.arrange()
	return nil
}

func (p *Pending) failed(err error) error {
	op := "read"
	if p.write {
		op = "write"
	}
	return p.b.d.failed(fmt.Sprintf("%s buffer %q", op, p.b.name), err)
}

// reset prepares the Pending for another transfer, after one that has completed.
func (p *Pending) reset() {
	clear(p.more)
	p.b, p.last, p.more, p.spread, p.abandoned = nil, nil, p.more[:0], nil, false
}

// Done reports whether all data have arrived, without waiting.
func (p *Pending) Done() (bool, error) {
	done, err := p.last.Done()
	if err != nil {
		return false, p.failed(err)
	}
	if done {
		p.arrange()
	}
	return done, nil
}

// arrange copies what arrived elsewhere to where it belongs, once.
func (p *Pending) arrange() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.abandoned {
		return
	}
	for _, s := range p.spread {
		for i := 0; i < len(s.dst); i += s.page {
			copy(s.dst[i:i+s.page], s.from[i/s.page*s.stride:])
		}
	}
	p.spread = nil
}

// Abandon returns dst to the caller: nothing is written to it any more, unless it is pinned. The read itself stays in the
// queue.
func (p *Pending) Abandon() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.abandoned = true
	for _, part := range p.more {
		part.Abandon()
	}
	if p.last != nil {
		p.last.Abandon()
	}
}
