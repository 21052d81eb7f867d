package check

import (
	"fmt"
	"slices"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/sim/emu/internal/word"
)

// Memory is a tile's L1.
type Memory interface {
	// L1 returns L1 as words, at least to the byte address end.
	L1(end uint32) []uint32
	// IsCode reports whether a line of L1 was decoded.
	IsCode(line uint32) bool
}

// Tile finds what is refused of one tile. It follows requests of its processors (flights) until
// software has made sure of them: has loaded a counter that proves them done.
type Tile struct {
	Memory
	XY     chip.XY
	chip   *Chip
	size   uint32 // of L1
	cores  []*Core
	shadow *shadow
	dst    *shadow // of the destination register, by row

	seq     [2]sequence // by NoC
	unacked [2]unacked  // by NoC

	flights [2][]*Flight // by NoC, not wholly released yet

	// By line of L1: how many flights hold it.
	sources  []uint16 // source of a write
	landings []uint16 // destination of a read
	incoming []uint16 // destination of a write not known to be over
	pulses   []uint16 // signals in the line

	arriving []*Flight            // those of incoming
	signals  map[uint32][]*signal // by address of the word, or of the stream
	seen     []*signal            // loaded by the tile's processors since, the newest for each path
}

// sequence counts an NIU's requests, as its own counters do.
type sequence struct {
	reads, acks, atomics uint32
	writes               [2]uint32 // acknowledged, and posted
}

// Flight is a request that software has not made sure of.
type Flight struct {
	core *Core
	pc   uint32
	q    Transfer
	by   *stamp

	number   uint64 // in the order of the chip's requests
	sent     uint32 // writes sent by its NIU, with it
	targets  []*Tile
	source   bool // its source may still be read
	landing  bool // its destination, in the own tile, may still be written
	arriving bool // its targets may not have it
	storing  bool // DRAM may not have it
	arrived  bool
	found    bool // a use of its destination before it has landed

	inOrder bool   // its program relies on ReadInOrder
	passed  uint64 // with inOrder: when its processor started the NoC's next request, or 0
	seen    stamp  // of an agent that has polled its one word
}

// signal is an atomic or a write of one word, sent with the processor's earlier writes to the tile
// under way: whoever loads the word, or stream, knows what the sender knew.
type signal struct {
	f    *Flight
	word uint32
}

// maxArriving bounds the remembered writes to a tile: the oldest is then taken to have arrived.
const maxArriving = 512

// NewTile returns the checks of a tile with so many bytes of L1, for AddTile.
func NewTile(m Memory, xy chip.XY, size uint32) *Tile {
	lines, of := size>>lineShift, fmt.Sprintf(" of tile %v", xy)
	all := make([]uint16, 4*lines)
	return &Tile{Memory: m, XY: xy, size: size, shadow: newShadow("L1"+of, size), dst: newShadow("Dst"+of, 1024*4),
		sources: all[:lines:lines], landings: all[lines : 2*lines : 2*lines], incoming: all[2*lines : 3*lines : 3*lines],
		pulses: all[3*lines:], signals: map[uint32][]*signal{}}
}

func hold(lines []uint16, addr uint64, n int, by int) {
	for l := addr >> lineShift; l <= (addr+uint64(n)-1)>>lineShift && l < uint64(len(lines)); l++ {
		lines[l] += uint16(by)
	}
}

func held(lines []uint16, addr, n uint32) bool {
	for l := addr >> lineShift; l <= (addr+n-1)>>lineShift; l++ {
		if lines[l] != 0 {
			return true
		}
	}
	return false
}

func overlap(a uint64, n int, b, m uint32) bool {
	return a < uint64(b)+uint64(m) && uint64(b) < a+uint64(n)
}

func (q *Transfer) isSignal() bool { return q.Kind != Read && q.N == 4 }

// started follows a request that a processor of the tile has just started, or refuses it.
func (r *Tile) started(q *Transfer) (*Flight, bool) {
	s := &r.seq[q.NoC]
	if !r.ends(q) {
		return nil, false
	}
	f := &Flight{core: q.By.Core, q: *q}
	if f.core != nil {
		f.pc = f.core.PC()
	}
	c := r.chip
	c.flights++
	f.number = c.flights
	switch q.Kind {
	case Read:
		s.reads++
		if !r.claim(q, q.ToAddr, q.N, true) {
			return nil, false
		}
		f.landing = true
		hold(r.landings, q.ToAddr, q.N, 1)
	case Atomic:
		s.atomics += word.Bool(q.Marked)
		f.targets = q.Targets
	default:
		posted := word.Bool(!q.Marked)
		s.writes[posted]++
		f.sent = s.writes[posted]
		f.targets = q.Targets
		if q.Marked {
			s.acks += max(uint32(len(f.targets)), word.Bool(!q.Multicast))
		}
		if q.Kind == Write {
			if !r.claim(q, q.FromAddr, q.N, false) {
				return nil, false
			}
			f.source = true
			f.inOrder = f.core != nil && f.core.Assumes(ReadInOrder)
			hold(r.sources, q.FromAddr, q.N, 1)
		}
		if f.core != nil && !q.isSignal() && q.ToAddr < uint64(r.size) {
			f.arriving = true
		}
		f.storing = f.core != nil && q.Kind == Write && q.Marked && q.To.Bank != NoBank
	}
	r.unacked[q.NoC].started(f)
	if f.core != nil && q.isSignal() {
		f.signal()
	}
	if f.arriving {
		for _, t := range f.targets {
			t.expect(f)
		}
	}
	if f.pending() {
		r.flights[q.NoC] = append(r.flights[q.NoC], f)
	}
	return f, true
}

func (r *Tile) claim(q *Transfer, addr uint64, n int, write bool) bool {
	if addr+uint64(n) > uint64(r.size) {
		return true
	}
	return r.Access(q.By, uint32(addr), uint32(n), !write, write)
}

func (r *Tile) expect(f *Flight) {
	if len(r.arriving) >= maxArriving {
		r.arriving = slices.DeleteFunc(r.arriving, func(g *Flight) bool { return !g.arriving })
		if len(r.arriving) >= maxArriving*3/4 {
			r.arriving[0].publish()
		}
	}
	r.arriving = append(r.arriving, f)
	hold(r.incoming, f.q.ToAddr, f.q.N, 1)
}

// publish records that the sender knows that its write has arrived.
func (f *Flight) publish() {
	if f.arriving {
		f.arriving = false
		for _, t := range f.targets {
			hold(t.incoming, f.q.ToAddr, f.q.N, -1)
		}
	}
}

func (f *Flight) freeSource(seer *Core) {
	if f.source {
		f.source = false
		f.q.Tile.chip.finished(f, seer)
		hold(f.q.Tile.sources, f.q.FromAddr, f.q.N, -1)
	}
}

func (f *Flight) freeLanding(seer *Core) {
	if f.landing {
		f.landing = false
		f.q.Tile.chip.finished(f, seer)
		hold(f.q.Tile.landings, f.q.ToAddr, f.q.N, -1)
	}
}

func (f *Flight) stored(seer *Core) {
	if f.storing {
		f.storing = false
		f.q.Tile.chip.stored(f, seer)
	}
}

func (f *Flight) pending() bool { return f.source || f.landing || f.arriving || f.storing }

// release releases a flight that has wholly ended, as seer has seen.
func (f *Flight) release(seer *Core) {
	f.publish()
	f.stored(seer)
	f.freeSource(seer)
	f.freeLanding(seer)
}

// signal registers f as a signal where its sender has other writes under way.
func (f *Flight) signal() {
	for _, t := range f.targets {
		r := t
		if !slices.ContainsFunc(r.arriving, func(g *Flight) bool { return g.arriving && g.core == f.core }) {
			continue
		}
		word := r.word(uint32(f.q.ToAddr))
		list, s := r.signals[word], &signal{f, word}
		if i := slices.IndexFunc(list, s.succeeds); i >= 0 {
			list[i] = s
			continue
		}
		if uint64(word) < uint64(r.size) {
			r.pulses[word>>lineShift]++
		}
		r.signals[word] = append(list, s)
	}
}

// succeeds reports whether old came the same way.
func (s *signal) succeeds(old *signal) bool {
	return old.f.core == s.f.core && old.f.q.Path == s.f.q.Path
}

// word returns the key of signals: the address of a word of L1, or the first address of a stream.
func (r *Tile) word(addr uint32) uint32 {
	if addr >= streamBase && addr < streamEnd {
		return addr &^ 0xFFF
	}
	return addr &^ 3
}

// Look records a processor's load of a word that signals may have come to.
func (r *Tile) Look(addr uint32) {
	for _, s := range r.signals[r.word(addr)] {
		if !s.f.arrived {
			continue
		}
		switch i := slices.IndexFunc(r.seen, s.succeeds); {
		case i < 0:
			r.seen = append(r.seen, s)
		case r.seen[i].f.number < s.f.number:
			r.seen[i] = s
		}
	}
}

// Access checks an access to n bytes of the tile's L1. One that is neither load nor store stores
// what is there already.
func (r *Tile) Access(o Origin, addr, n uint32, load, store bool) bool {
	what := "store to"
	if load && !store {
		what = "load of"
	}
	if held(r.landings, addr, n) || store && held(r.sources, addr, n) {
		for noc := range r.flights {
			for _, f := range r.flights[noc] {
				switch {
				case f.landing && overlap(f.q.ToAddr, f.q.N, addr, n):
					if !r.refuse(o, addr, f, "%s %d bytes that a NoC read may still be writing: %v, "+
						"and tile %v has not seen its response counted since", what, n, f, r.XY) {
						return false
					}
					f.found = true
					f.freeLanding(nil)
				case store && f.source && overlap(f.q.FromAddr, f.q.N, addr, n):
					if !r.chip.knowsPassed(o, f) && !r.refuse(o, addr, f, "store to %d bytes that a NoC write may still be reading: %v, "+
						"and tile %v has not seen its data read since (WRITE_REQS_OUTGOING_ID 0, or acknowledged)", n, f, r.XY) {
						return false
					}
					f.freeSource(nil)
				}
			}
		}
	}
	mine := o.mine() != nil && o.Tile == r
	if mine && load {
		if r.pulses[addr>>lineShift] != 0 {
			r.Look(addr)
		}
		if held(r.incoming, addr, n) {
			return r.arrived(o, addr, n)
		}
	}
	return true
}

// arrived refuses a load of what another processor sent without making sure of it, if its later
// signal on another path was seen here.
func (r *Tile) arrived(o Origin, addr, n uint32) bool {
	for _, f := range r.arriving {
		if !f.arriving || !overlap(f.q.ToAddr, f.q.N, addr, n) {
			continue
		}
		var late *signal
		for _, s := range r.seen {
			if s.f.core != f.core || s.f.number < f.number {
				continue
			}
			if s.f.q.Ordered && f.q.Ordered && s.f.q.Path == f.q.Path {
				late = nil
				break
			}
			late = s
		}
		if late != nil {
			if !r.refuse(o, addr, f,
				"load of %d bytes of a NoC write that need not have arrived: %v; the signal at %#x that was seen here, %v, took another path, and its sender saw no acknowledgement before",
				n, f, late.word, late.f) {
				return false
			}
			f.publish()
		}
	}
	return true
}

func (r *Tile) refuse(o Origin, addr uint32, f *Flight, format string, args ...any) bool {
	other := &Other{Core: f.core, PC: f.pc, Addr: f.q.ToAddr, Wrote: f.q.Kind != Read}
	return r.chip.refused(o, uint64(addr), other, format, args...)
}
