package program

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/dispatch/cq"
)

func isPast(c, other cq.Count) bool { return int32(other-c)<<15 < 0 }

func TestConfigRingNeverOverlapsRunningPrograms(t *testing.T) {
	type part struct{ off, size uint32 }
	meets := func(a, b part) bool { return a.off < b.off+b.size && b.off < a.off+a.size }
	type program struct {
		slot, text part
		launch     int
		done       cq.Count // count at which it is done
	}
	rapid.Check(t, func(t *rapid.T) {
		const size, workers = 0x11400, 130
		count := cq.Count(rapid.Uint32Range(0xFFFF0000, 0xFFFFFFFF).Draw(t, "count"))
		r := newRing(size)
		if rapid.Bool().Draw(t, "full") {
			r = fullRing(size, uint32(count))
		}
		type shape struct{ slot, text uint32 }
		var shapes []shape
		for range rapid.IntRange(1, 24).Draw(t, "shapes") {
			slot := rapid.SampledFrom([]uint32{0, 1, 64, 100, 4096, 20000, size/2 + 1, size - SlotAlign}).Draw(t, "slot")
			text := rapid.SampledFrom([]uint32{1, 300, 2048, 12 << 10, 40000, size}).Draw(t, "text")
			shapes = append(shapes, shape{slot, min(text, size-alignSlot(slot))})
		}
		var running []program
		there := map[int]part{} // texts that nothing was written over since they were sent
		reached := count        // what the device is known to have reached, by waits
		waits := func(w await) {
			if w.on && isPast(cq.Count(w.count), reached) {
				reached = cq.Count(w.count)
			}
		}
		write := func(p part, what string) {
			live := running[:0]
			for _, o := range running {
				if !isPast(o.done, reached) {
					continue
				}
				live = append(live, o)
				if meets(p, o.slot) || meets(p, o.text) {
					t.Fatalf("a %s at %#x+%#x overlaps %+v, which may still run", what, p.off, p.size, o)
				}
			}
			running = live
			for k, x := range there {
				if meets(p, x) {
					delete(there, k)
				}
			}
		}
		sent := 0
		programs := rapid.IntRange(1, 200).Draw(t, "programs")
		for i := range programs {
			n := rapid.IntRange(0, len(shapes)-1).Draw(t, "shape")
			s := shapes[n]
			count += workers
			p := program{launch: i % LaunchEntries, done: count, text: part{size: max(s.text, 1)}, slot: part{size: max(s.slot, 1)}}
			wait := r.makeRoom(s.slot)
			off, ok := r.find(textID(n+1), uint32(count))
			if p.text.off = off; ok {
				if x, is := there[n]; !is || x != p.text {
					t.Fatalf("the text of program %d is said to be at %#x, where %+v is", n, off, x)
				}
			} else {
				sent++
				var w await
				p.text.off, w = r.place(textID(n+1), s.text, s.slot, uint32(count))
				waits(later(wait, w))
				write(p.text, "text")
				there[n] = p.text
			}
			off, w := r.reserve(s.slot, uint32(count))
			waits(w)
			p.slot.off = off
			write(p.slot, "slot")
			if x, is := there[n]; !is || x != p.text {
				t.Fatalf("the slot of program %d at %+v is over its text at %+v", n, p.slot, p.text)
			}
			for _, x := range []part{p.slot, p.text} {
				if x.off%SlotAlign != 0 || x.off+x.size > size {
					t.Fatalf("program %d has %+v of a ring of %#x", n, x, size)
				}
			}
			for _, o := range running {
				if o.launch == p.launch {
					t.Fatalf("program %d has launch slot %d of one that may still run", n, p.launch)
				}
			}
			running = append(running, p)
		}
		sum := uint32(0)
		for _, s := range shapes {
			sum += alignSlot(s.text)
		}
		if len(shapes) <= maxTexts && slicesMax(shapes, func(s shape) uint32 { return s.slot }) <= size/4-SlotAlign && sum <= size/2 &&
			sent > len(shapes) {
			t.Fatalf("%d texts of %d B in all were sent %d times: they fit", len(shapes), sum, sent)
		}
	})
}

func slicesMax[T any](s []T, f func(T) uint32) (m uint32) {
	for _, x := range s {
		m = max(m, f(x))
	}
	return m
}

func TestCoverCoresIsExact(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := map[chip.Core]bool{}
		var cores []chip.Core
		for y := range 10 {
			for x := range 13 {
				if c := (chip.Core{X: x, Y: y}); rapid.IntRange(0, 3).Draw(t, "in") > 0 {
					in[c] = true
					cores = append(cores, c)
				}
			}
		}
		for _, r := range CoverCores(cores) {
			for c := range r.Cores() {
				if !in[c] {
					t.Fatalf("%v holds %v, which is not asked for or covered already", r, c)
				}
				delete(in, c)
			}
		}
		if len(in) != 0 {
			t.Fatalf("%v are not covered", in)
		}
	})
}
