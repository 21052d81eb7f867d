package emu

import (
	"reflect"
	"runtime"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/sim/emu/internal/translate"
	"github.com/reprise-tt/reprise/sim/emu/internal/word"
)

// More hosts push at once than there are slots.
func TestAccessQueue(t *testing.T) {
	const hosts, each = 3, 2*accessPlaces + 7
	q := new(accessQueue)
	const first = 1<<32 - 5 // the numbers of slots start again soon
	q.head.Store(first)
	q.taken.Store(first)
	q.tail.Store(first)
	for n := range uint32(accessPlaces) {
		place := first - 1 - n
		q.at(place).filled = place + 1
	}
	var wg sync.WaitGroup
	for h := range hosts {
		wg.Go(func() {
			for n := range each {
				for !q.push(hostAccess{off: uint64(h), v: uint64(n), bar: 4, width: 8}) {
					runtime.Gosched()
				}
			}
		})
	}
	var next [hosts]uint64
	for range hosts * each {
		for q.head.Load() == q.tail.Load() {
			runtime.Gosched()
		}
		s := q.take()
		if want := (hostAccess{off: s.off, v: next[s.off], bar: 4, width: 8}); s != want {
			t.Fatalf("took %+v, want %+v", s, want)
		}
		next[s.off]++
	}
	wg.Wait()
	if q.pending() {
		t.Error("there is a store after the last one")
	}
}

func TestAwakeChipTakesPostedStores(t *testing.T) {
	r := newRig(t, Config{Arch: chip.Wormhole, Awake: true})
	at := r.point(r.worker(0, 0), 0x50000)
	r.c.BARLoad(0, at, 4)
	before := r.c.posted.tail.Load()
	const stores = 2*accessPlaces + 1
	for n := range uint64(stores) {
		r.c.BARStore(0, at, 4, n)
		r.eventually("a store that is taken", func() bool { return !r.c.posted.pending() })
	}
	if n := r.c.posted.tail.Load() - before; n < stores {
		t.Errorf("%d of %d stores took a place", n, stores)
	}
	equal(t, r.c.BARLoad(0, at, 4), stores-1, "store")
}

func TestAccessesLieInLines(t *testing.T) {
	const line = 64
	address := func(p any) uintptr { return reflect.ValueOf(p).Pointer() }
	for range 5 {
		r := newRig(t, Config{Arch: chip.Wormhole, Synchronous: true})
		q := &r.c.posted
		if a := address(q); a%line != 0 || address(&q.head)-a != line || address(&q.places)-a != 2*line {
			t.Errorf("queue at %#x, its head at %#x, its places at %#x: each should begin a line of %d bytes", a, address(&q.head),
				address(&q.places), line)
		}
		if a, size := address(&r.c.answers), reflect.TypeFor[answer]().Size(); a%line != 0 || size != line {
			t.Errorf("answers of %d bytes at %#x: each should have a line of %d bytes", size, a, line)
		}
		if size := reflect.TypeFor[accessPlace]().Size(); line%size != 0 {
			t.Errorf("a place of %d bytes lies in two lines of %d", size, line)
		}
	}
}

func processors(t *testing.T, n int) {
	t.Helper()
	was := runtime.GOMAXPROCS(n)
	t.Cleanup(func() { runtime.GOMAXPROCS(was) })
}

// Whoever has the token answers a load, after the stores that came before.
func TestLoadIsAnswered(t *testing.T) {
	processors(t, 2)
	r := newRig(t, Config{Arch: chip.Blackhole})
	v := r.worker(3, 3)
	at := r.point(v, 0x50000)
	r.c.acquire()
	got := make(chan uint64)
	go func() {
		r.c.BARStore(0, at, 4, 0x12345678)
		got <- r.c.BARLoad(0, at+2, 2)
	}()
	r.eventually("two accesses", func() bool { return r.c.posted.tail.Load()-r.c.posted.head.Load() == 2 })
	r.c.takePosted()
	if a := &r.c.answers[0]; a.value != 0x1234 {
		t.Errorf("the first answer is %#x, want 0x1234", a.value)
	}
	r.c.release() // the host may have lost its patience
	equal(t, <-got, 0x1234, "loaded")
}

// More hosts load than there are answers: each gets the value of its own word.
func TestHostsLoadWhileChipRuns(t *testing.T) {
	for _, n := range []int{2, 1} {
		processors(t, n)
		r := newRig(t, Config{Arch: chip.Wormhole})
		v := r.worker(0, 0)
		r.run(v, onB().li(a0, 0x40000).label("loop").addi(a1, a1, 1).sw(a1, a0, 0).j("loop"))
		at := r.point(v, 0x50000)
		var wg sync.WaitGroup
		for h := range uint64(2 * maxAsked) {
			wg.Go(func() {
				for n := range uint64(500) {
					want := h<<16 | n
					r.c.BARStore(0, at+4*h, 4, want)
					if got := r.c.BARLoad(0, at+4*h, 4); got != want {
						t.Errorf("host %d loaded %#x, want %#x", h, got, want)
						return
					}
				}
			})
		}
		wg.Wait()
		for i := range r.c.answers {
			equal(t, r.c.answers[i].state.Load(), answerFree, "the state of answer %d after all loads", i)
		}
	}
}

func TestLoadOfStoppedChip(t *testing.T) {
	processors(t, 2)
	r := newRig(t, Config{Arch: chip.Blackhole})
	at := r.point(r.worker(3, 3), 0x50000)
	r.c.acquire()
	got := make(chan uint64)
	go func() { got <- r.c.BARLoad(0, at, 2) }()
	r.eventually("a posted load", r.c.posted.pending)
	r.c.fault = ErrClosed
	r.c.release()
	equal(t, <-got, 0xFFFF, "loaded")
}

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

// L1 that is allocated only as far as it was used behaves as if it were whole.
func TestMemoryThatGrows(t *testing.T) {
	for _, arch := range arches {
		whole, part := bare(t, arch), bare(t, arch)
		size := whole.tile.size
		rapid.Check(t, func(t *rapid.T) {
			clear(whole.tile.l1)
			part.tile.l1 = nil
			part.tile.memory(0)
			both := []*core{whole, part}
			for range 10 {
				edge := rapid.SampledFrom([]uint32{FirstL1, 2 * FirstL1, size / 2, size}).Draw(t, "edge")
				addr := edge - 8 + rapid.Uint32Range(0, 15).Draw(t, "offset")
				width := rapid.SampledFrom([]uint32{1, 2, 4}).Draw(t, "width")
				if addr = addr &^ (width - 1); addr >= size {
					continue // registers begin after it
				}
				v := rapid.Uint32().Draw(t, "value")
				f3 := map[uint32]uint32{1: 0, 2: 1, 4: 2}[width]
				kind := rapid.SampledFrom([]string{"load", "store", "atomic", "code", "host"}).Draw(t, "kind")
				for _, c := range both {
					c.X[5], c.X[6] = addr, v
					switch {
					case kind == "load":
						c.exec(t, itype(0x03, f3, 7, 5, 0))
					case kind == "store":
						c.exec(t, stype(f3, 5, 6, 0))
					case kind == "atomic" && arch == chip.Blackhole && width == 4:
						c.exec(t, rtype(0x2F, 2, 0, 7, 5, 6))
					case kind == "code" && width == 4:
						code := []uint32{itype(0x13, 0, 7, 7, 1)} // addi x7, x7, 1
						if !c.tile.chip.writeL1(origin{}, c.tile, addr, 4, code) {
							t.Fatal(c.tile.chip.fault)
						}
						c.pc, c.state = addr, runnable
						if c.run(1) != stopSlice {
							t.Fatalf("stopped at %#x: %v", c.pc, c.tile.chip.fault)
						}
					case kind == "host" && width == 4:
						got := make([]uint32, 1)
						if !c.tile.chip.readL1(origin{}, c.tile, addr, 4, got) ||
							!c.tile.chip.writeL1(origin{}, c.tile, addr, 4, []uint32{got[0] + v}) {
							t.Fatal(c.tile.chip.fault)
						}
					}
				}
				if diff := cmp.Diff(whole.X[:32], part.X[:32]); diff != "" {
					t.Fatalf("%v %s of %d bytes at %#x: %s", arch, kind, width, addr, diff)
				}
			}
			if int(size) < 4*len(part.tile.l1) {
				t.Fatalf("%v: L1 has grown to %d bytes, it has %d", arch, 4*len(part.tile.l1), size)
			}
			for i, w := range part.tile.l1 {
				if want := whole.tile.l1[i]; w != want {
					t.Fatalf("%v L1 at %#x: %#x, want %#x", arch, 4*i, w, want)
				}
			}
		})
	}
}

func TestWaitForMemoryThatGrows(t *testing.T) {
	for _, arch := range arches {
		r := syncRig(t, arch)
		v, word := r.worker(0, 0), uint32(5*FirstL1)
		tl := r.c.tileAt(r.raw(v))
		r.run(v, onB().li(a0, word).label("wait").lw(a1, a0, 0).beq(a1, x0, "wait").li(a2, 0x2000).sw(a1, a2, 0).halt())
		r.eventually("the core waits", func() bool { return tl.core(chip.BRISC).state == parked })
		r.st(v, uint64(word), 77)
		r.eventually("it goes on", func() bool { return r.ld(v, 0x2000) == 77 })
		r.healthy()
	}
}

func TestUnusedMemoryIsNotTaken(t *testing.T) {
	for _, arch := range arches {
		r := syncRig(t, arch)
		v := r.worker(0, 0)
		tl := r.c.tileAt(r.raw(v))
		for _, tt := range []struct{ end, want int }{
			{0, 0}, {4, FirstL1}, {FirstL1, FirstL1}, {FirstL1 + 4, 2 * FirstL1}, {5 * FirstL1, 8 * FirstL1}, {int(tl.size), int(tl.size)},
		} {
			if tt.end > 0 {
				r.st(v, uint64(tt.end-4), 1)
			}
			equal(t, 4*len(tl.l1), tt.want, "%v: bytes of L1 after a write that ends at %#x", arch, tt.end)
		}
	}
}
