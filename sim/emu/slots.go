package emu

import (
	"sync"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/sim/emu/internal/translate"
)

// How many streams a tile has: that of a worker, and an Ethernet tile.
const (
	maxStreams   = 64
	leastStreams = 32
)

// tileWords are the registers of a tile of which some are no more than words, alone, so that what a
// request counts is in one line of the host's caches.
type tileWords struct {
	niu     [2]niuWords
	streams [maxStreams]stream
}

// Where the streams begin among the words.
const firstStreamWord = 2 * numNIUWords

// slotsKey is what slots depend on.
type slotsKey struct {
	arch                      chip.Arch
	streams                   int
	checked, parallel, delays bool
	bare                      bool
}

var (
	slotsMu  sync.Mutex
	allSlots = map[slotsKey]*translate.Registers{} // the same for all chips
)

// slotsOf returns the slots of tiles.
func slotsOf(k slotsKey, l *niuLayout) *translate.Registers {
	slotsMu.Lock()
	defer slotsMu.Unlock()
	s := allSlots[k]
	if s == nil {
		s = newSlots(k, l)
		allSlots[k] = s
	}
	return s
}

// newSlots finds the registers of which a load or a store does nothing else. With checks of when
// counters are loaded those are more than words, and so are counters of NIUs that may wait for the
// end of a window, and the registers of command buffers that may be busy when they are stored.
func newSlots(k slotsKey, l *niuLayout) *translate.Registers {
	s := &translate.Registers{}
	if k.bare {
		s.Ignored = configBase + 4*cfgInvalidate(k.arch)
	}
	for noc := range uint32(2) {
		for off := uint32(0); off < niu1Base-niu0Base; off += 4 {
			at, slot := (noc*(niu1Base-niu0Base)+off)/4, noc*numNIUWords+1
			i, r, ok := l.register(off)
			switch {
			case ok:
				slot += i*uint32(len(cmdBuf{})) + r
			case off >= 0x200 && off < 0x200+4*numCounters:
				slot += niuCounters + (off-0x200)/4
			default:
				continue
			}
			if !k.checked && (ok || !k.parallel) {
				s.Loads[at] = uint16(slot)
			}
			if ok && r != bufBusy && !k.delays {
				s.Stores[at] = uint16(slot)
				if r == bufTag {
					s.Stores[at] |= translate.Narrow
				}
			}
		}
	}
	words := map[streamReg]int{streamRemoteSource: 0, streamBufStart: 1, streamBufSize: 2, streamAvailable: 3} // of a stream
	for off := 0; off < streamBytes && !k.checked; off += 4 {
		if w, ok := words[streamRegister(k.arch, uint32(off))]; ok {
			for n := range k.streams {
				s.Loads[(streamBase-translate.RegistersBase+n*streamBytes+off)/4] = uint16(1 + firstStreamWord + n*len(words) + w)
			}
		}
	}
	return s
}
