package emu

import (
	"sync/atomic"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/sim/emu/internal/rv32"
)

const (
	// minTiles is how many tiles make a window. Cores of fewer mostly wait for each other.
	minTiles = 4
	// maxWindow is about how many instructions a window has, for whose end the host waits.
	maxWindow = 1 << 21
	// worthWaking is how many instructions are worth waking another goroutine.
	worthWaking = 20000
	// Bounds of a tile's slices and instructions in a window.
	maxTileTurns = 64
	maxTileUsed  = 1 << 14
	// A core waits for the end of the window beyond these; 8-bit counters hold all requests.
	maxOutbox      = 128
	maxOutboxWords = 16 << 10
)

type workerState struct {
	lines *[decodedLines]decodedLine // by line number modulo decodedLines; nil until code runs
	spare *request                   // for the next request, or nil
}

func (t *tile) hand() *workerState {
	if b := t.outbox; b != nil {
		return b.hand
	}
	return &t.chip.hand
}

// outbox buffers a tile's external effects during a window.
type outbox struct {
	tile  *tile
	hand  *workerState
	draw  splitmix
	turns []*core // the first ran have had a turn
	ran   int

	requests  []request
	stores    []dramStore // that come before all requests
	data      []uint32    // of both
	words     int         // of data, in all
	readsDRAM bool        // one of requests does
	awaited   [2][5]uint8 // responses that cores wait for, by NoC and core: a bit per requestKind

	used, longest int    // instructions in all, and of one core
	moved         uint64 // bytes, over NoCs
	hot           []hotLine
	fault         error
}

// dramStore is a write to DRAM that was answered at once.
type dramStore struct {
	bank, n int
	addr    uint64
	data    []uint32
}

// hotLine is a line to translate when no code runs.
type hotLine struct {
	page *codePage
	base uint32
	line int
}

// part is the tiles of a window that one goroutine runs.
type part struct {
	boxes []*outbox
	next  atomic.Int32 // of boxes
	hand  workerState
}

func (b *outbox) enqueue(k *core) {
	if !k.listed {
		k.listed = true
		b.turns = append(b.turns, k)
	}
}

// post takes a request that has left. Reads and writes of DRAM, which nothing changes in a window,
// end at once unless they might overtake another request of the tile.
func (b *outbox) post(q *request) bool {
	switch {
	case q.kind == reqRead && b.readsNow(q.from, q.fromAddr, uint64(q.n)):
		d := b.tile.chip.drams[q.from.bank]
		mergeTime(&b.tile.newest, &d.newest)
		if q.data = d.view(q.fromAddr, q.n); q.data == nil {
			d.read(q.fromAddr, q.n, q.buffer())
		}
		b.moved += uint64(q.n)
		return q.respond()
	case !q.drain():
		return false
	case q.kind == reqWrite && !q.multicast && b.storesSoon(q.to, q.toAddr):
		b.stores = append(b.stores, dramStore{q.to.bank, q.n, q.toAddr, q.data})
		b.moved += uint64(q.n)
		q.acks++
		return q.respond()
	}
	k := q.o.core
	if q.kind == reqRead || q.marked {
		b.awaited[q.noc][k.hw] |= 1 << q.kind
	}
	q.pc = k.pc
	b.readsDRAM = b.readsDRAM || q.kind == reqRead && q.from.kind == chip.DRAM
	b.requests = append(b.requests, *q)
	return true
}

// readsNow reports whether n bytes are of DRAM where all is that the tile has written there.
func (b *outbox) readsNow(from *endpoint, addr, n uint64) bool {
	if from.kind != chip.DRAM || len(b.requests) > 0 || addr >= b.tile.chip.drams[from.bank].size {
		return false
	}
	for i := range b.stores {
		if s := &b.stores[i]; s.bank == from.bank && s.addr < addr+n && addr < s.addr+uint64(s.n) {
			return false
		}
	}
	return true
}

// storesSoon reports whether a write to DRAM may come before all requests in outboxes: no earlier
// request of the tile reads DRAM.
func (b *outbox) storesSoon(to *endpoint, addr uint64) bool {
	return to.kind == chip.DRAM && addr < b.tile.chip.drams[to.bank].size && !b.readsDRAM
}

func (b *outbox) room(n int) []uint32 {
	if cap(b.data)-len(b.data) < n {
		b.data = make([]uint32, 0, max(2*cap(b.data), n, 256)) // requests keep the old one
	}
	at := len(b.data)
	b.data = b.data[:at+n]
	b.words += n
	return b.data[at : at+n : at+n]
}

// full reports whether no further request may be posted, never outside windows.
func (b *outbox) full() bool {
	return b != nil && (len(b.requests) >= maxOutbox || len(b.stores) >= maxOutbox || b.words >= maxOutboxWords)
}

// awaits reports whether a counter counts responses to requests of core k that end with the window.
func (b *outbox) awaits(k *core, noc int, counter uint32) bool {
	if b == nil || k == nil {
		return false
	}
	kinds := b.awaited[noc][k.hw]
	switch {
	case kinds == 0:
		return false
	case counter == cntReadResp || counter == cntReadWords:
		kinds &= 1 << reqRead
	case counter == cntWriteAck:
		kinds &= 1<<reqWrite | 1<<reqInline
	case counter == cntAtomicResp:
		kinds &= 1 << reqAtomic
	case counter < cntOutstanding || counter >= cntOutgoing:
		return false
	}
	return kinds != 0
}

// decodedLine is a line of code with its instructions: most tiles run the same.
type decodedLine struct {
	pc    uint32
	valid bool
	words [lineWords]uint32
	ops   [lineWords]rv32.Op
}
