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

// check verifies what the structure promises itself: which leaf a hole is in, maxima, and counts.
func check(h *holes) error {
	var count, groups int
	var units uint64
	// leaf checks what belongs to [from, from+width) and returns its largest hole and their number.
	var leaf func(e uint32, from, width uint64) (most uint32, held int, err error)
	leaf = func(e uint32, from, width uint64) (most uint32, held int, err error) {
		if o := h.leaf(e).escape(); o != 0 {
			groups++
			if o < h.over || h.above(o) != e {
				return 0, 0, fmt.Errorf("element %d: overflows to %d, which stands for %d", e, o, h.above(o))
			}
			if *h.leaf(e) != overflown(o) {
				return 0, 0, fmt.Errorf("element %d: has overflown and has holes", e)
			}
			if width < groupWidth {
				return 0, 0, fmt.Errorf("element %d: %d addresses have overflown", e, width)
			}
			for i := range uint32(groupWidth) {
				m, n, err := leaf(o+i, from+uint64(i)*width/groupWidth, width/groupWidth)
				if err != nil {
					return 0, 0, err
				}
				most, held = max(most, m), held+n
			}
			if got := h.held[(o-h.over)/groupWidth]; int(got) != held || held <= leafWidth/2 {
				return 0, 0, fmt.Errorf("element %d: overflow of %d holes, counted as %d", e, held, got)
			}
		} else {
			for i := range leafWidth {
				x := h.leaf(e).hole(i)
				if x == 0 {
					continue
				}
				if end := uint64(x.end()); end < from || end >= from+width || x.size() == 0 || x.size() > x.end() {
					return 0, 0, fmt.Errorf("element %d of [%#x,%#x): hole [%#x,%#x)", e, from, from+width, x.start(), x.end())
				}
				count++
				held++
				units += uint64(x.size())
				most = max(most, x.size())
			}
		}
		if m := h.max[e]; m != most {
			return 0, 0, fmt.Errorf("element %d: maximum %#x, want %#x", e, m, most)
		}
		return most, held, nil
	}
	e := h.first
	for i, c := range h.cells {
		for from := uint64(i) << h.shift; from < uint64(i+1)<<h.shift; from += 1 << c.shift {
			if from <= uint64(h.size) && h.bucket(uint32(from)) != e {
				return fmt.Errorf("address %#x belongs to element %d, want %d", from, h.bucket(uint32(from)), e)
			}
			if _, _, err := leaf(e, from, 1<<c.shift); err != nil {
				return err
			}
			e++
		}
	}
	if e > h.over || h.over-e >= groupWidth {
		return fmt.Errorf("buckets up to element %d, leaves up to %d", e, h.over)
	}
	for e := range h.first {
		want := uint32(0)
		if g := (e + 1) << groupBits; g < h.over {
			want = largest(h.group(g))
		}
		if h.max[e] != want {
			return fmt.Errorf("element %d: maximum %#x, want %#x", e, h.max[e], want)
		}
	}
	last := uint64(0)
	var err error
	h.each(func(start, size uint32) bool {
		if uint64(start) <= last && last != 0 {
			err = fmt.Errorf("hole [%#x,%#x) after %#x", start, start+size, last)
		}
		last = uint64(start) + uint64(size)
		count--
		return err == nil
	})
	if err != nil {
		return err
	}
	if count != 0 {
		return fmt.Errorf("%d holes are there and not found one after the other", count)
	}
	if n := len(list(h)); n != h.count || units != h.units {
		return fmt.Errorf("count %d units %d, want %d %d", h.count, h.units, n, units)
	}
	if groups != len(h.held)-len(h.free) || len(h.leaves) != len(h.max)-int(h.first) {
		return fmt.Errorf("%d groups of %d in use", groups, len(h.held)-len(h.free))
	}
	if n := int(h.over - h.first); n > groupWidth && n > 8*h.count {
		return fmt.Errorf("%d buckets for %d holes", n, h.count)
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

// TestHolesAgreeWithModel drives the holes and a naive list with the same operations.
func TestHolesAgreeWithModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		total := rapid.SampledFrom([]uint64{1 << 14, 1<<14 - 1, 5000, 1 << 9, 60, 30}).Draw(t, "total")
		// Holes that are far apart in the address space have a tree of their own kind.
		scale := rapid.SampledFrom([]uint64{1, 1000, 1 << 17}).Draw(t, "scale")
		h := newHoles(uint32(total * scale))
		h.wide = h.wide && rapid.Bool().Draw(t, "wide")
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

// TestHolesDeep builds tens of thousands of holes, so that the pyramid has four levels, and takes them away again in
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
			h.wide = h.wide && name != "scattered" // both with the assembly and without
			if !h.takeAt(0, 2*n) {
				t.Fatal("the whole space is not one hole")
			}
			for i := range n {
				h.give(uint32(2*order(i)), 1)
			}
			if err := check(h); err != nil {
				t.Fatal(err)
			}
			if h.count != n || int(h.over-h.first) < n/leafWidth/2 {
				t.Fatalf("%d holes in %d buckets", h.count, h.over-h.first)
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

// TestHolesGathered puts most holes into a hundredth of the space, as first fit does in less measure: buckets follow them, so
// that few leaves overflow.
func TestHolesGathered(t *testing.T) {
	const n, size = 20000, 1 << 24
	for _, wide := range []bool{false, true} {
		h := newHoles(size)
		h.wide = h.wide && wide
		if !h.takeAt(0, size) {
			t.Fatal("the whole space is not one hole")
		}
		for i := range uint32(n) {
			if at := i * 7919 % n; at%10 == 0 {
				h.give(at*(size/n), 1)
			} else {
				h.give(2*at+1, 1)
			}
		}
		if err := check(h); err != nil {
			t.Fatal(err)
		}
		if buckets := int(h.over - h.first); h.groups() > buckets/20 || buckets > n/2 {
			t.Fatalf("%d holes: %d of %d leaves have overflown", h.count, h.groups(), buckets)
		}
	}
}

// TestHolesToTheLastUnit takes from the largest space there is, whose last hole ends at the largest number: it must be
// told from what is too small.
func TestHolesToTheLastUnit(t *testing.T) {
	const size = 1<<32 - 1
	for _, wide := range []bool{false, true} {
		h := newHoles(size)
		h.wide = h.wide && wide
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
		if err := check(h); err != nil {
			t.Fatal(err)
		}
	}
}
