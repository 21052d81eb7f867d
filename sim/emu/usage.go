package emu

import (
	"bytes"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/internal/sparse"
)

// Track are words of DRAM that requests have used: the host's, and through the NoC. The address of
// a word is TrackAddress.
type Track struct {
	Read    sparse.Memory // before they were written, as they were then, by cores
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

// TrackAddress is a controller's address in a [Track].
func TrackAddress(controller int, addr uint64) uint64 { return uint64(controller)<<40 | addr }

// use notes the words that hold n bytes at addr, as they are after the access.
func (t *Track) use(controller int, addr uint64, n int, words []uint32, write bool) {
	for i, a := 0, addr&^3; a < addr+uint64(n); i, a = i+1, a+4 {
		at := TrackAddress(controller, a)
		if write {
			t.Written.Set(at, words[i])
		} else if _, ok := t.Written.Get(at); !ok {
			if _, ok := t.Read.Get(at); !ok {
				t.Read.Set(at, words[i])
			}
		}
	}
}
