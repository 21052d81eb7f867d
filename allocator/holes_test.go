package allocator

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// naive is a free list as one would write it first: the model that the tree must agree with.
type naive [][2]uint64 // address, size; ascending, never touching

func (m *naive) take(size uint64, topDown bool) (uint64, bool) {
	at := -1
	for i, h := range *m {
		if h[1] >= size {
			at = i
			if !topDown {
				break
			}
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
	h.each(func(addr, size uint64) bool {
		out = append(out, [2]uint64{addr, size})
		return true
	})
	return out
}

// check verifies what the tree promises itself: order, maxima, bounds, counts and the chain of leaves.
func check(h *holes) error {
	var count int
	var bytes uint64
	chain := none
	var walk func(id uint32, level int, lo, hi uint64) (uint64, error)
	walk = func(id uint32, level int, lo, hi uint64) (uint64, error) {
		if level == h.depth {
			l := &h.leaves[id]
			if l.prev != chain {
				return 0, fmt.Errorf("leaf %d: previous is %d, want %d", id, l.prev, chain)
			}
			chain = id
			if l.n == 0 && h.depth > 0 {
				return 0, fmt.Errorf("leaf %d is empty", id)
			}
			for i := range l.n {
				if l.addr[i] < lo || l.addr[i] >= hi {
					return 0, fmt.Errorf("leaf %d: hole %#x outside [%#x,%#x)", id, l.addr[i], lo, hi)
				}
				if i > 0 && l.addr[i-1]+l.size[i-1] >= l.addr[i] {
					return 0, fmt.Errorf("leaf %d: holes %d and %d touch", id, i-1, i)
				}
				count++
				bytes += l.size[i]
			}
			return maxOf(l.size[:l.n]), nil
		}
		b := &h.branches[id]
		for i := range b.n {
			clo, chi := lo, hi
			if i > 0 {
				clo = b.low[i]
			}
			if i+1 < b.n {
				chi = b.low[i+1]
			}
			m, err := walk(b.child[i], level+1, clo, chi)
			if err != nil {
				return 0, err
			}
			if m != b.max[i] {
				return 0, fmt.Errorf("branch %d child %d: maximum %#x, want %#x", id, i, b.max[i], m)
			}
		}
		return maxOf(b.max[:b.n]), nil
	}
	if _, err := walk(h.root, 0, 0, ^uint64(0)); err != nil {
		return err
	}
	if count != h.count || bytes != h.bytes {
		return fmt.Errorf("count %d bytes %d, want %d %d", h.count, h.bytes, count, bytes)
	}
	if used := len(h.leaves) - len(h.freeLeaf); used > 1+8*count/leafWidth {
		return fmt.Errorf("%d leaves for %d holes", used, count)
	}
	return nil
}

// TestHolesAgreeWithModel drives the tree and a naive list with the same operations.
func TestHolesAgreeWithModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const total = 1 << 14
		h := newHoles(64, total)
		m := naive{{64, total}}
		type block struct{ addr, size uint64 }
		var live []block
		big := rapid.SampledFrom([]uint64{4, 40, 400}).Draw(t, "largest")
		grow := rapid.IntRange(2, 8).Draw(t, "grow")
		for range rapid.IntRange(1, 3000).Draw(t, "operations") {
			op := rapid.IntRange(0, 9).Draw(t, "op")
			switch {
			case op < grow:
				size := rapid.Uint64Range(1, big).Draw(t, "size")
				down := rapid.Bool().Draw(t, "topDown")
				a, ok := h.take(size, down)
				b, want := m.take(size, down)
				if a != b || ok != want {
					t.Fatalf("take %d topDown %v: %d %v, want %d %v", size, down, a, ok, b, want)
				}
				if ok {
					live = append(live, block{a, size})
				}
			case op == 9:
				addr := rapid.Uint64Range(0, total+128).Draw(t, "addr")
				size := rapid.Uint64Range(1, big).Draw(t, "size")
				ok, want := h.takeAt(addr, size), m.takeAt(addr, size)
				if ok != want {
					t.Fatalf("takeAt %d %d: %v, want %v", addr, size, ok, want)
				}
				if ok {
					live = append(live, block{addr, size})
				}
			case len(live) > 0:
				i := rapid.IntRange(0, len(live)-1).Draw(t, "victim")
				h.give(live[i].addr, live[i].size)
				m.give(live[i].addr, live[i].size)
				live[i] = live[len(live)-1]
				live = live[:len(live)-1]
			}
		}
		if diff := cmp.Diff(m, list(h)); diff != "" {
			t.Fatalf("holes (-model +tree):\n%s", diff)
		}
		if err := check(h); err != nil {
			t.Fatal(err)
		}
		for _, b := range live {
			h.give(b.addr, b.size)
		}
		if diff := cmp.Diff(naive{{64, total}}, list(h)); diff != "" {
			t.Fatalf("after freeing everything (-want +got):\n%s", diff)
		}
		if h.largest() != total || h.depth != 0 {
			t.Fatalf("after freeing everything: largest %d, depth %d", h.largest(), h.depth)
		}
	})
}

// TestHolesDeep builds tens of thousands of holes, so that the tree has all its levels, and takes them away again in
// several orders, checking its promises on the way.
func TestHolesDeep(t *testing.T) {
	const n = 40000
	orders := map[string]func(i int) int{
		"ascending":  func(i int) int { return i },
		"descending": func(i int) int { return n - 1 - i },
		"scattered":  func(i int) int { return i * 7919 % n },
	}
	for name, order := range orders {
		t.Run(name, func(t *testing.T) {
			h := newHoles(0, 2*n)
			if !h.takeAt(0, 2*n) {
				t.Fatal("the whole space is not one hole")
			}
			for i := range n {
				h.give(uint64(2*order(i)), 1)
			}
			if err := check(h); err != nil {
				t.Fatal(err)
			}
			if h.count != n || h.depth < 2 {
				t.Fatalf("%d holes at depth %d", h.count, h.depth)
			}
			for i := range n / 2 {
				h.give(uint64(2*order(i)+1), 1)
				if i%1000 == 0 {
					if err := check(h); err != nil {
						t.Fatal(err)
					}
				}
			}
			for i := n / 2; i < n; i++ {
				h.give(uint64(2*order(i)+1), 1)
			}
			if err := check(h); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(naive{{0, 2 * n}}, list(h)); diff != "" {
				t.Fatal(diff)
			}
		})
	}
}
