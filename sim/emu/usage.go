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
