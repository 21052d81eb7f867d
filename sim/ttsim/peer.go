package ttsim

import (
	"slices"
	"sync"
	"sync/atomic"

	"github.com/reprise-tt/reprise/sim/driver"
	"github.com/reprise-tt/reprise/sim/serve/function"
)

var _ driver.Peer = (*Function)(nil)

// peers is the queue of devices' accesses to each other. Their DMA's goroutine must not wait for
// the server, so another performs them, or a host that uses any of the devices.
type peers struct {
	waiting atomic.Int32 // accesses that aren't done
	doing   sync.Mutex   // held while one is done; taken before mu
	mu      sync.Mutex
	list    []func()
	running bool // run is running
}

func (p *peers) post(f func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.list = append(p.list, f)
	p.waiting.Add(1)
	if !p.running {
		p.running = true
		go p.run()
	}
}

func (p *peers) run() {
	for {
		p.next()
		p.mu.Lock()
		if len(p.list) == 0 {
			p.running = false
			p.mu.Unlock()
			return
		}
		p.mu.Unlock()
	}
}

func (p *peers) settle() {
	for n := p.waiting.Load(); n > 0; n-- {
		p.next()
	}
}

func (p *peers) next() {
	p.doing.Lock()
	defer p.doing.Unlock()
	p.mu.Lock()
	if len(p.list) == 0 {
		p.mu.Unlock()
		return
	}
	f := p.list[0]
	p.list[0] = nil
	if p.list = p.list[1:]; len(p.list) == 0 {
		p.list = nil // frees its memory
	}
	p.mu.Unlock()
	f()
	p.waiting.Add(-1)
}

// PeerWrite's waiting writes are dropped by a reset.
func (f *Function) PeerWrite(bar int, off uint64, p []byte, taken func()) {
	to, p := f.sim.current.Load().client, slices.Clone(p)
	f.sim.peers.post(func() {
		f.write(to, bar, off, p)
		taken()
	})
}

// PeerRead implements driver.Peer.
func (f *Function) PeerRead(bar int, off uint64, n int, done func(p []byte)) {
	to := f.sim.current.Load().client
	f.sim.peers.post(func() {
		p := make([]byte, n)
		f.read(to, bar, off, p)
		done(p)
	})
}

// The devices' earlier accesses to each other are done.
func (f *Function) client() *function.Client {
	f.sim.peers.settle()
	return f.sim.current.Load().client
}
