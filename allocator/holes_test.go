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
	return m.takeBy(FirstFit, size, topDown)
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
	h.each(func(start, size uint32) bool {
		out = append(out, [2]uint64{uint64(start), uint64(size)})
		return true
	})
	return out
}

// check verifies what the tree promises itself: order, maxima, which leaf a hole is in, and counts.
func check(h *holes) error {
	var count, nodes, leaves int
	var units, last uint64
	var walk func(k kid, level int, low, high uint64) (uint32, error)
	walk = func(k kid, level int, low, high uint64) (uint32, error) {
		if k&1 != 0 {
			nodes++
			n := &h.nodes[k>>1]
			width := uint64(1) << (h.top - uint32(level)*radixBits)
			for i, c := range n.kid {
				from := low + uint64(i)*width
				m, err := walk(c, level+1, from, from+width)
				if err != nil {
					return 0, err
				}
				if m != n.max[i] {
					return 0, fmt.Errorf("node %d child %d: maximum %#x, want %#x", k>>1, i, n.max[i], m)
				}
			}
			return n.largest(), nil
		}
		if k != 0 {
			leaves++
		}
		l := &h.leaves[k>>1]
		if k == 0 && l.n != 0 {
			return 0, fmt.Errorf("the empty leaf has %d holes", l.n)
		}
		for _, e := range l.hole[:l.n] {
			if end := uint64(e.end()); end < low || end >= high {
				return 0, fmt.Errorf("leaf %d: hole that ends at %#x outside [%#x,%#x)", k>>1, end, low, high)
			}
			if count > 0 && uint64(e.start()) <= last || e.size() == 0 {
				return 0, fmt.Errorf("leaf %d: hole [%#x,%#x) after %#x", k>>1, e.start(), e.end(), last)
			}
			last = uint64(e.end())
			count++
			units += uint64(e.size())
		}
		return l.largest(), nil
	}
	if _, err := walk(h.root, 0, 0, 1<<33); err != nil {
		return err
	}
	if count != h.count || units != h.units {
		return fmt.Errorf("count %d units %d, want %d %d", h.count, h.units, count, units)
	}
	if nodes != len(h.nodes)-len(h.freeNode) || leaves != len(h.leaves)-len(h.freeLeaf)-1 {
		return fmt.Errorf("%d nodes of %d in use, %d leaves of %d", nodes, len(h.nodes)-len(h.freeNode), leaves, len(h.leaves)-len(h.freeLeaf)-1)
	}
	if leaves > 2+count || nodes > maxDepth*(1+leaves) {
		return fmt.Errorf("%d leaves and %d nodes for %d holes", leaves, nodes, count)
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

// takeAs takes units by any policy.
func takeAs(h *holes, p Policy, size uint64, topDown bool) (uint64, bool) {
	r := region{holes: h, high: 1 << 40}
	return r.take(uint32(size), p, topDown)
}

// TestHolesAgreeWithModel drives the tree and a naive list with the same operations.
func TestHolesAgreeWithModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		total := rapid.SampledFrom([]uint64{1 << 14, 1<<14 - 1, 5000, 1 << 9}).Draw(t, "total")
		// Holes that are far apart in the address space have a tree of their own kind.
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
				a, ok := takeAs(h, policy, size, down)
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
				if err := check(h); err != nil {
					t.Fatal(err)
				}
			}
		}
		if diff := cmp.Diff(m, list(h)); diff != "" {
			t.Fatalf("holes (-model +tree):\n%s", diff)
		}
		if err := check(h); err != nil {
			t.Fatal(err)
		}
		for _, b := range live {
			h.give(uint32(b.addr), uint32(b.size))
		}
		if err := check(h); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(naive{{0, total * scale}}, list(h)); diff != "" {
			t.Fatalf("after freeing everything (-want +got):\n%s", diff)
		}
		if uint64(h.largest()) != total*scale {
			t.Fatalf("after freeing everything: largest %d", h.largest())
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
			h := newHoles(2 * n)
			if !h.takeAt(0, 2*n) {
				t.Fatal("the whole space is not one hole")
			}
			for i := range n {
				h.give(uint32(2*order(i)), 1)
			}
			if err := check(h); err != nil {
				t.Fatal(err)
			}
			if h.count != n || len(h.nodes) < n/leafWidth/radix {
				t.Fatalf("%d holes below %d nodes", h.count, len(h.nodes))
			}
			for i := range n / 2 {
				h.give(uint32(2*order(i)+1), 1)
				if i%1000 == 0 {
					if err := check(h); err != nil {
						t.Fatal(err)
					}
				}
			}
			for i := n / 2; i < n; i++ {
				h.give(uint32(2*order(i)+1), 1)
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
