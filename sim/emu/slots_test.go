package emu

import (
	"github.com/reprise-tt/reprise/sim/emu/internal/word"
	"testing"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/sim/emu/internal/translate"
)

func TestSlots(t *testing.T) {
	for _, arch := range arches {
		r := newRig(t, Config{Arch: arch, Synchronous: true})
		tl := r.c.tileAt(r.raw(r.worker(0, 0)))
		o := origin{tile: tl, core: tl.core(chip.BRISC)}
		word := func(slot uint16) *uint32 {
			if slot > firstStreamWord {
				s := &tl.streams[(slot-1-firstStreamWord)/4]
				return []*uint32{&s.remoteSource, &s.bufStart, &s.bufSize, &s.available}[(slot-1)%4]
			}
			w, slot := &tl.niuWords[(slot-1)/numNIUWords], (slot-1)%numNIUWords
			if slot >= niuCounters {
				return &w.count[slot-niuCounters]
			}
			return &w.buf[slot/16][slot%16]
		}
		loads, stores := 0, 0
		for i := range translate.RegistersBytes / 4 {
			addr := translate.RegistersBase + uint32(i)*4
			if s := tl.slots.Loads[i]; s != 0 {
				loads++
				*word(s) = addr
				words, nius := *tl.niuWords, tl.niu
				if v, st := tl.load(o, addr); v != addr || st != slowDone || words != *tl.niuWords || nius != tl.niu {
					t.Fatalf("%v: a load of %#x gives %#x, %v, or does more", arch, addr, v, st)
				}
				*word(s) = 0
			}
			if s := tl.slots.Stores[i]; s != 0 {
				stores++
				v, words, nius := addr, *tl.niuWords, tl.niu
				if s&translate.Narrow != 0 {
					v, s = addr&translate.NarrowBits, s&^translate.Narrow
				}
				*word(s) = ^v
				if st := tl.store(o, addr, v); *word(s) != v || st != slowDone {
					t.Fatalf("%v: a store to %#x makes %#x of its word, %v", arch, addr, *word(s), st)
				}
				if *word(s) = 0; words != *tl.niuWords || nius != tl.niu {
					t.Fatalf("%v: a store to %#x does more", arch, addr)
				}
			}
		}
		buffer := map[chip.Arch]int{chip.Wormhole: 9, chip.Blackhole: 11}[arch] // registers of a command buffer
		if wantLoads, wantStores := 2*(4*buffer+numCounters)+4*maxStreams, 2*4*(buffer-1); loads != wantLoads || stores != wantStores {
			t.Errorf("%v: %d loads and %d stores, want %d and %d", arch, loads, stores, wantLoads, wantStores)
		}
		fewer := 0
		for _, s := range r.c.slotsFor(leastStreams).Loads {
			if s != 0 {
				fewer++
			}
		}
		equal(t, fewer, loads-4*(maxStreams-32), "%v: loads in a tile with 32 streams", arch)
	}
}

func TestRegistersOfCode(t *testing.T) {
	for _, c := range []struct {
		name          string
		cfg           Config
		loads, stores bool
	}{
		{"nothing is checked", Config{}, true, true},
		{"counters are checked", Config{RefuseCounters: true}, false, true},
		{"races are refused", Config{RefuseRaces: true}, false, true},
		{"requests take time", Config{Delay: 10}, true, false},
	} {
		s := (&Chip{cfg: c.cfg, arch: chip.Blackhole, layout: layoutOf(chip.Blackhole)}).slotsFor(maxStreams)
		loads, stores := s.Loads != (translate.Slots{}), s.Stores != (translate.Slots{})
		if loads != c.loads || stores != c.stores {
			t.Errorf("if %s: code loads %v, stores %v; want %v, %v", c.name, loads, stores, c.loads, c.stores)
		}
	}
	for _, arch := range arches {
		w := newTwins(t, arch)
		l := layoutOf(arch)
		stream := w.plain.tile.chip.params.Stream
		code := onB().li(a0, niu0Base).li(a1, niu1Base+l.stride).li(a2, 100).
			li(s0, stream.Reg(16, chip.SpaceAvailableUpdate)).li(s1, stream.Reg(16, chip.SpaceAvailable)).li(t0, 3<<6).label("loop").
			sw(a2, a0, 0).lw(a3, a0, 0).sw(a3, a1, int32(l.atData)).lw(a4, a1, int32(l.cmd)).
			sw(t0, s0, 0).lw(a5, s1, 0).
			addi(a2, a2, -1).bne(a2, x0, "loop").halt().bytes()
		words := make([]uint32, len(code)/4)
		word.Pack(words, 0, code)
		w.start(words, [32]uint32{})
		for range 20 {
			if diff, _, _ := w.run(50); diff != "" {
				t.Fatalf("%v: %s", arch, diff)
			}
		}
		if plain, fast := *w.plain.tile.niuWords, *w.fast.tile.niuWords; plain != fast || fast[1].buf[1][bufData] != 1 {
			t.Errorf("%v: registers are %v, want %v", arch, fast, plain)
		}
		equal(t, w.fast.X[a5], 300, "%v: the counter of a stream is loaded as", arch)
	}
}
