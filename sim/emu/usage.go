package emu

import (
	"bytes"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/internal/sparse"
	"github.com/reprise-tt/reprise/sim/emu/internal/word"
)

// Track are words of DRAM and L1 that cores, engines and requests have used. The address of a word
// is TrackAddress or TrackL1Address.
type Track struct {
	Read    sparse.Memory // before they were written, as they were then, not by the host
	Written sparse.Memory // as they are now
	Host    []HostAccess  // to other tiles, in their order
}

// HostAccess is a host's load or store through a TLB window.
type HostAccess struct {
	// Start and End are corners of a multicast, on NoC 0, or both the tile.
	Start, End chip.XY
	Load       bool
	Addr       uint64
	Data       []byte
}

// hosts notes what the host does: stores that follow each other are one, and so are loads of the
// same place.
func (t *Track) hosts(w *windowTarget, p []byte, load bool) {
	a := HostAccess{Start: w.ep.xy, End: w.ep.xy, Load: load, Addr: w.addr, Data: p}
	if w.multicast {
		a.Start = w.start.xy
	}
	if n := len(t.Host); n > 0 {
		switch l := &t.Host[n-1]; {
		case l.Start != a.Start || l.End != a.End || l.Load != load:
		case load && l.Addr == a.Addr && len(l.Data) == len(p):
			copy(l.Data, p)
			return
		case !load && l.Addr+uint64(len(l.Data)) == a.Addr:
			l.Data = append(l.Data, p...)
			return
		}
	}
	a.Data = bytes.Clone(p)
	t.Host = append(t.Host, a)
}

func newTrack() *Track { return &Track{Read: sparse.Memory{}, Written: sparse.Memory{}} }

// TrackAddress is a controller's address in a [Track].
func TrackAddress(controller int, addr uint64) uint64 { return uint64(controller)<<40 | addr }

// TrackL1Address is an address in the L1 of the worker at a raw NoC 0 coordinate in a [Track].
func TrackL1Address(at chip.XY, addr uint32) uint64 {
	return 1<<60 | uint64(at.X)<<48 | uint64(at.Y)<<40 | uint64(addr)
}

// use notes the words that hold n bytes at an address, as they are after the access.
func (t *Track) use(at uint64, n int, words []uint32, write bool) {
	words = words[:word.Span(at, n)]
	if write {
		t.Written.Fill(at&^3, words)
	} else {
		t.Read.Fill(at&^3, words, t.Written, t.Read)
	}
}

// use notes an access to L1, which has been done.
func (t *tile) use(addr uint32, n int, write bool) {
	if end := addr + uint32(n); t.track != nil && end > FirstL1 {
		addr = max(addr, FirstL1)
		t.track.use(TrackL1Address(t.xy, addr), int(end-addr), t.view(addr, int(end-addr)), write)
	}
}
