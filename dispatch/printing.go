package dispatch

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/reprise-tt/reprise/kernels/print"
)

type printing struct {
	mu       sync.Mutex
	known    map[string]int   // how often they are held
	list     []*print.Program // of known, in order
	version  uint64           // of list
	watching map[*func()]struct{}
	epoch    uint64      // odd while the rings are being emptied
	any      atomic.Bool // list isn't empty
}

func newPrinting() *printing {
	return &printing{known: map[string]int{}, watching: map[*func()]struct{}{}, version: 1}
}

func printedKey(p *print.Program) string { return fmt.Sprint(p.ID, p.Cores) }

func (p *printing) learn(programs []print.Program) (more bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := range programs {
		key := printedKey(&programs[i])
		holds, known := p.known[key]
		p.known[key] = holds + 1
		if known {
			continue
		}
		p.list = append(p.list[:len(p.list):len(p.list)], &programs[i])
		more = true
	}
	if more {
		p.version++
		p.any.Store(true)
	}
	return more
}

// last reports whether a program lost its last hold.
func (p *printing) last(programs []print.Program) (last bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := range programs {
		key := printedKey(&programs[i])
		if holds, known := p.known[key]; known {
			p.known[key] = holds - 1
			last = last || holds == 1
		}
	}
	return last
}

// forget removes programs without a hold.
func (p *printing) forget() {
	p.mu.Lock()
	defer p.mu.Unlock()
	left := slices.DeleteFunc(slices.Clone(p.list), func(q *print.Program) bool {
		key := printedKey(q)
		gone := p.known[key] == 0
		if gone {
			delete(p.known, key)
		}
		return gone
	})
	if len(left) < len(p.list) {
		p.list = left
		p.version++
		p.any.Store(len(left) > 0)
	}
}

func (p *printing) all() []*print.Program {
	list, _ := p.since(0)
	return list
}

func (p *printing) since(version uint64) ([]*print.Program, uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if version == p.version {
		return nil, version
	}
	return p.list, p.version
}

func (p *printing) watch(f func()) (cancel func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.watching[&f] = struct{}{}
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.watching, &f)
	}
}

func (p *printing) tell() {
	p.mu.Lock()
	var all []func()
	for f := range p.watching {
		all = append(all, *f)
	}
	p.mu.Unlock()
	for _, f := range all {
		f()
	}
}

func (p *printing) stopped() {
	p.tell()
	p.mu.Lock()
	p.epoch |= 1
	p.mu.Unlock()
	p.tell()
}

func (p *printing) started() {
	p.mu.Lock()
	p.epoch += p.epoch & 1
	p.mu.Unlock()
	p.tell()
}

func (p *printing) current() uint64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.epoch
}
