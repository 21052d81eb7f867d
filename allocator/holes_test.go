package allocator

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

type naive [][2]uint64 // address, size; ascending, never touching

func (m *naive) takeAt(addr, size uint64) bool {
	var out naive
	found := false
	for _, h := range *m {
		if addr >= h[0] && addr+size <= h[0]+h[1] {
			found = true
			if addr > h[0] {
				out = append(out, [2]uint64{h[0], addr - h[0]})
			}
			if addr+size < h[0]+h[1] {
				out = append(out, [2]uint64{addr + size, h[0] + h[1] - addr - size})
			}
			continue
		}
		out = append(out, h)
	}
	*m = out
	return found
}

func (m *naive) give(addr, size uint64) {
	var out naive
	done := false
	add := func(h [2]uint64) {
		if n := len(out); n > 0 && out[n-1][0]+out[n-1][1] == h[0] {
			out[n-1][1] += h[1]
			return
		}
		out = append(out, h)
	}
	for _, h := range *m {
		if !done && addr < h[0] {
			add([2]uint64{addr, size})
			done = true
		}
		add(h)
	}
	if !done {
		add([2]uint64{addr, size})
	}
	*m = out
}

func list(h *holes) naive {
	var out naive
	h.each(func(start, size uint32) bool {
		out = append(out, [2]uint64{uint64(start), uint64(size)})
		return true
	})
	return out
}

func check(h *holes) error {
	var count int
	var units, last uint64
	for c, e := range h.dir {
		if e.n == 0 || e.n > chunkWidth {
			return fmt.Errorf("chunk %d of %d holes", c, e.n)
		}
		if c > 0 && e.n+h.dir[c-1].n <= chunkWidth/2 {
			return fmt.Errorf("chunks %d and %d have %d and %d holes", c-1, c, h.dir[c-1].n, e.n)
		}
		all := h.of(c)
		for i, x := range all {
			if x.size() == 0 || x.size() > x.end() || count > 0 && uint64(x.start()) <= last {
				return fmt.Errorf("hole %d of chunk %d is [%#x,%#x) after %#x", i, c, x.start(), x.end(), last)
			}
			last = uint64(x.end())
			count++
			units += uint64(x.size())
		}
		if want := (chunkEntry{all[len(all)-1].end(), largestOf(all), e.chunk, uint32(len(all))}); e != want {
			return fmt.Errorf("entry %d is %+v, want %+v", c, e, want)
		}
	}
	if n := (len(h.dir) + groupWidth - 1) / groupWidth; len(h.most) != n {
		return fmt.Errorf("%d groups, want %d", len(h.most), n)
	}
	for g, m := range h.most {
		if want := h.largestIn(g); m != want {
			return fmt.Errorf("group %d: largest %#x, want %#x", g, m, want)
		}
	}
	if count != h.count || units != h.units {
		return fmt.Errorf("count %d units %d, want %d %d", h.count, h.units, count, units)
	}
	used := map[uint32]bool{}
	for _, c := range h.unused {
		used[c] = true
	}
	for _, e := range h.dir {
		used[e.chunk] = true
	}
	if len(used) != len(h.chunks) || len(h.dir)+len(h.unused) != len(h.chunks) {
		return fmt.Errorf("%d chunks, %d in use, %d not", len(h.chunks), len(h.dir), len(h.unused))
	}
	return nil
}

func (m *naive) takeBy(p Policy, size uint64, topDown bool) (uint64, bool) {
	at := -1
	for i, h := range *m {
		if h[1] < size {
			continue
		}
		better := at < 0
		if !better {
			switch d := int64(h[1]) - int64((*m)[at][1]); p {
			case FirstFit:
				better = topDown
			case BestFit:
				better = d < 0 || d == 0 && topDown
			case WorstFit:
				better = d > 0 || d == 0 && topDown
			}
		}
		if better {
			at = i
		}
	}
	if at < 0 {
		return 0, false
	}
	addr := (*m)[at][0]
	if topDown {
		addr += (*m)[at][1] - size
	}
	if !m.takeAt(addr, size) {
		panic("model: a hole that fits does not")
	}
	return addr, true
}

func TestHolesAgreeWithModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		total := rapid.SampledFrom([]uint64{1 << 14, 1<<14 - 1, 5000, 1 << 9, 60, 30}).Draw(t, "total")
		scale := rapid.SampledFrom([]uint64{1, 1000, 1 << 17}).Draw(t, "scale")
		h := newHoles(uint32(total * scale))
		m := naive{{0, total * scale}}
		type block struct{ addr, size uint64 }
		var live []block
		big := rapid.SampledFrom([]uint64{4, 40, 400}).Draw(t, "largest")
		grow := rapid.IntRange(2, 8).Draw(t, "grow")
		policy := Policy(rapid.IntRange(0, int(numPolicies)-1).Draw(t, "policy"))
		for range rapid.IntRange(1, 3000).Draw(t, "operations") {
			op := rapid.IntRange(0, 9).Draw(t, "op")
			switch {
			case op < grow:
				size := rapid.Uint64Range(1, big).Draw(t, "size") * scale
				down := rapid.Bool().Draw(t, "topDown")
				a, ok := (&region{holes: h, high: 1 << 40}).take(uint32(size), policy, down)
				b, want := m.takeBy(policy, size, down)
				if ok != want || ok && a != b {
					t.Fatalf("%s of %d topDown %v: %d %v, want %d %v", policy, size, down, a, ok, b, want)
				}
				if ok {
					live = append(live, block{a, size})
				}
			case op == 9:
				addr := rapid.Uint64Range(0, total-1).Draw(t, "addr") * scale
				size := rapid.Uint64Range(1, min(big, total-addr/scale)).Draw(t, "size") * scale
				ok, want := h.takeAt(uint32(addr), uint32(size)), m.takeAt(addr, size)
				if ok != want {
					t.Fatalf("takeAt %d %d: %v, want %v", addr, size, ok, want)
				}
				if ok {
					live = append(live, block{addr, size})
				}
			case len(live) > 0:
				i := rapid.IntRange(0, len(live)-1).Draw(t, "victim")
				h.give(uint32(live[i].addr), uint32(live[i].size))
				m.give(live[i].addr, live[i].size)
				live[i] = live[len(live)-1]
				live = live[:len(live)-1]
			}
			if op == 0 {
				must(t, check(h))
			}
		}
		if diff := cmp.Diff(m, list(h)); diff != "" {
			t.Fatalf("holes (-model +holes):\n%s", diff)
		}
		must(t, check(h))
		for _, b := range live {
			h.give(uint32(b.addr), uint32(b.size))
		}
		must(t, check(h))
		if diff := cmp.Diff(naive{{0, total * scale}}, list(h)); diff != "" {
			t.Fatalf("after freeing everything (-want +got):\n%s", diff)
		}
		if uint64(h.largest()) != total*scale {
			t.Fatalf("after freeing everything: largest %d", h.largest())
		}
	})
}

func TestHolesDeep(t *testing.T) {
	const n = 40000
	for _, step := range []int{1, n - 1, 7919} {
		t.Run(fmt.Sprint(step), func(t *testing.T) {
			order := func(i int) int { return i * step % n }
			h := newHoles(2 * n)
			if !h.takeAt(0, 2*n) {
				t.Fatal("the whole space is not one hole")
			}
			for i := range n {
				h.give(uint32(2*order(i)), 1)
			}
			must(t, check(h))
			if h.count != n || len(h.dir) < n/chunkWidth {
				t.Fatalf("%d holes in %d chunks", h.count, len(h.dir))
			}
			for i := range n / 2 {
				h.give(uint32(2*order(i)+1), 1)
				if i%1000 == 0 {
					must(t, check(h))
				}
			}
			for i := n / 2; i < n; i++ {
				h.give(uint32(2*order(i)+1), 1)
			}
			must(t, check(h))
			if diff := cmp.Diff(naive{{0, 2 * n}}, list(h)); diff != "" {
				t.Fatal(diff)
			}
		})
	}
}

func TestHolesToTheLastUnit(t *testing.T) {
	const size = 1<<32 - 1
	h := newHoles(size)
	for i := range uint32(8) { // 1 unit free, 1 taken
		if !h.takeAt(2*i+1, 1) {
			t.Fatalf("unit %d is not free", 2*i+1)
		}
	}
	if at, ok := h.take(1000); !ok || at != 16 {
		t.Fatalf("take: %d %v, want 16", at, ok)
	}
	if at, ok := h.take(size - 1016); !ok || at != 1016 {
		t.Fatalf("take the rest: %d %v, want 1016", at, ok)
	}
	must(t, check(h))
}
