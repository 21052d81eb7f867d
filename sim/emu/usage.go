package emu

import "github.com/reprise-tt/reprise/internal/sparse"

// Track are words of DRAM that requests have used: the host's, and through the NoC. The address of
// a word is TrackAddress.
type Track struct {
	Read    sparse.Memory // before they were written, as they were then, by cores
	Written sparse.Memory // as they are now
}

// TrackAddress is a controller's address in a [Track].
func TrackAddress(controller int, addr uint64) uint64 { return uint64(controller)<<40 | addr }

func (t *Track) use(d *dram, controller int, addr uint64, n int, buf []uint32, write bool) {
	for i, a := 0, addr&^3; a < addr+uint64(n); i, a = i+1, a+4 {
		at := TrackAddress(controller, a)
		if write {
			t.Written.Set(at, d.pages[a/dramPage][a%dramPage>>2])
		} else if _, ok := t.Written.Get(at); !ok {
			if _, ok := t.Read.Get(at); !ok {
				t.Read.Set(at, buf[i])
			}
		}
	}
}

// TakeTrack returns what was used since the last call. The chip needs Config.TrackDRAM.
func (c *Chip) TakeTrack() Track {
	c.acquire()
	defer c.release()
	out := *c.track
	*c.track = Track{sparse.Memory{}, sparse.Memory{}}
	return out
}
