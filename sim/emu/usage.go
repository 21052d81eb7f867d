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

// hosts notes what the host does. Loads of the same place that follow each other are one.
func (t *Track) hosts(a HostAccess) {
	a.Data = bytes.Clone(a.Data)
	n := len(t.Host)
	if n > 0 && a.Load {
		if l := &t.Host[n-1]; l.Load && l.End == a.End && l.Addr == a.Addr && len(l.Data) == len(a.Data) {
			*l = a
			return
		}
	}
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
