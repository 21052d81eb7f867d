package ttsim

import (
	"encoding/binary"
	"sync/atomic"

	"github.com/reprise-tt/reprise/sim/ttsim/internal/link"
)

// post queues a request that has no reply. The payload is copied.
func (p *process) post(op uint8, addr uint64, payload []byte) {
	p.use.RLock()
	if !p.gone {
		p.push(op, addr, uint32(len(payload)), payload)
	}
	p.use.RUnlock()
}

// push queues a request and returns false when the server is gone.
func (p *process) push(op uint8, addr uint64, size uint32, payload []byte) bool {
	p.queue.Lock()
	defer p.queue.Unlock()
	r := &p.shm.Requests
	n := len(payload)
	if !p.room(n) {
		return false
	}
	copy(r.Slot(op, 0, addr, size, n), payload)
	p.sent.Store(1)
	r.Publish(n)
	return true
}

// room waits for space for a payload of n bytes in the request ring; queue is held.
func (p *process) room(n int) bool {
	r := &p.shm.Requests
	if !r.Free(n) {
		r.Space.Wait(link.Spins, link.Forever, func() bool { return r.Free(n) || p.dead.Load() })
	}
	return !p.dead.Load()
}

// ask queues a request, waits for its reply and shows it to take. It returns false when the server is gone.
func (p *process) ask(op uint8, addr uint64, size uint32, payload []byte, take func(reply []byte)) bool {
	p.use.RLock()
	defer p.use.RUnlock()
	if p.gone {
		return false
	}
	p.asking.Lock()
	defer p.asking.Unlock()
	if !p.await(op, addr, size, payload) {
		return false
	}
	if take != nil {
		take(p.shm.Reply[:size])
	}
	return true
}

// await queues a request and waits until its reply is there; asking is held. It returns false when the server is gone.
func (p *process) await(op uint8, addr uint64, size uint32, payload []byte) bool {
	before := atomic.LoadUint32(p.shm.Replies)
	if !p.push(op, addr, size, payload) {
		return false
	}
	p.shm.Replied.Wait(link.Spins, link.Forever, func() bool {
		return atomic.LoadUint32(p.shm.Replies) != before || p.dead.Load()
	})
	p.moved.Load()
	return atomic.LoadUint32(p.shm.Replies) != before
}

// config reads a word of a device's config space.
func (p *process) config(device, off uint32) (v uint32, ok bool) {
	v = ^uint32(0)
	ok = p.ask(link.OpConfigRead, uint64(device<<3)<<32|uint64(off), 4, nil, func(b []byte) { v = binary.LittleEndian.Uint32(b) })
	return v, ok
}

// load asks for width bytes. It is ask without its function value, which would be allocated.
func (p *process) load(addr uint64, width int) (uint64, bool) {
	p.use.RLock()
	defer p.use.RUnlock()
	if p.gone {
		return 0, false
	}
	p.asking.Lock()
	defer p.asking.Unlock()
	if !p.await(link.OpRead, addr, uint32(width), nil) {
		return 0, false
	}
	return binary.LittleEndian.Uint64(p.shm.Reply) & ones(width), true
}

// store queues a store of width bytes.
func (p *process) store(addr uint64, width int, v uint64) {
	p.use.RLock()
	defer p.use.RUnlock()
	if p.gone {
		return
	}
	p.queue.Lock()
	defer p.queue.Unlock()
	if !p.room(8) {
		return
	}
	// The payload's space is a multiple of 8 bytes, so the whole value can be put and the width tells what counts.
	r := &p.shm.Requests
	binary.LittleEndian.PutUint64(r.Slot(link.OpWrite, 0, addr, uint32(width), 8), v)
	p.sent.Store(1)
	r.Publish(8)
}
