package allocator

import (
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// drive interprets bytes as calls of an allocator, three bytes each, and holds every answer against
// naive free lists.
func drive(t fataler, trace uint64, program []byte) {
	c := Config{
		DRAMBanks: 3, DRAMBase: 40, DRAMEnd: 1 << 16, DRAMAlign: 64, TraceRegion: trace,
		L1Banks: 5, L1Base: 100, L1End: 1 << 13, L1Align: 16, L1Small: 1000,
	}
	a := mustNew(t, c)
	end := uint64(1<<16) - TracePerBank(trace, 3, 64)
	dram := &naive{{64, end - 64}}
	tr := dram
	if trace != 0 {
		tr = &naive{{end, 1<<16 - end}}
	}
	model := map[Kind]*naive{DRAM: dram, Trace: tr, L1: {{128, 1<<13 - 1024 - 128}}, L1Small: {{1<<13 - 1024, 1024}}}
	kinds := Kinds()

	type entry struct {
		Extent
		holds int
		freed bool
	}
	var live []entry
	used := map[Kind]uint64{}
	drop := func(i int) {
		e := live[i]
		model[e.Kind].give(e.Addr, e.PerBank)
		used[e.Kind] -= e.PerBank
		live[i] = live[len(live)-1]
		live = live[:len(live)-1]
		if err := a.Free(e.Extent); !errors.Is(err, ErrDoubleFree) {
			t.Fatalf("second free of %s: %v", e, err)
		}
	}
	for ; len(program) >= 3; program = program[3:] {
		op, x, y := program[0], int(program[1]), int(program[2])
		i := 0
		if len(live) > 0 {
			i = x % len(live)
		}
		switch k := kinds[op>>2&3]; {
		case op&3 <= 1:
			page := uint64(1 + x*(1+y%7))
			r := Request{Kind: k, PageSize: page, Size: page * uint64(1+y%11), Shards: 1 + y%3}
			topDown := k != DRAM
			if op&16 != 0 {
				topDown = op&32 != 0
				r.TopDown = &topDown
			}
			var e Extent
			var err error
			var want uint64
			var ok bool
			per := up((uint64(y%11)/uint64(r.Shards)+1)*up(page, a.region[k].align), 64)
			if op&3 == 0 {
				e, err = a.Allocate(r)
				want, ok = model[k].takeBy(FirstFit, per, topDown)
			} else {
				want = uint64(x<<8|y) &^ 63
				e, err = a.AllocateAt(r, want)
				ok = model[k].takeAt(want, per)
			}
			if (err == nil) != ok || ok && (e.Addr != want || e.PerBank != per) {
				t.Fatalf("%+v: got %s, %v; want [%#x,%#x), %v", r, e, err, want, want+per, ok)
			}
			if ok {
				live = append(live, entry{Extent: e})
				used[k] += per
			}
		case len(live) == 0:
		case op&3 == 2:
			err := a.Free(live[i].Extent)
			if (err == nil) == live[i].freed {
				t.Fatalf("free of %s, freed before %v: %v", live[i], live[i].freed, err)
			}
			live[i].freed = true
			if live[i].holds == 0 {
				drop(i)
			}
		case y&1 == 0:
			must(t, a.Hold(live[i].Extent))
			live[i].holds++
		default:
			err := a.Unhold(live[i].Extent)
			if (err == nil) != (live[i].holds > 0) {
				t.Fatalf("unhold of %s, held %d: %v", live[i], live[i].holds, err)
			}
			live[i].holds = max(live[i].holds-1, 0)
			if live[i].freed && live[i].holds == 0 {
				drop(i)
			}
		}
	}
	for _, k := range kinds {
		var want []Hole
		var free, largest uint64
		for _, h := range *model[k] {
			want = append(want, Hole{h[0], h[1]})
			free += h[1]
			largest = max(largest, h[1])
		}
		if diff := cmp.Diff(want, a.Holes(k)); diff != "" {
			t.Fatalf("%s: holes (-model +allocator):\n%s", k, diff)
		}
		s := a.Stats(k)
		if s.Free != free || s.LargestHole != largest || s.Holes != len(want) || s.Allocated != used[k] || s.Peak < used[k] {
			t.Fatalf("%s: %+v, want %d free, largest %d, allocated %d", k, s, free, largest, used[k])
		}
	}
	extents := map[Kind][]Live{}
	n := 0
	for _, k := range kinds {
		extents[k] = a.Extents(k)
		n += len(extents[k])
		for i, e := range extents[k] {
			if i > 0 && extents[k][i-1].Overlaps(e.Extent) {
				t.Fatalf("%s overlaps %s", extents[k][i-1], e)
			}
		}
	}
	if n != len(live) {
		t.Fatalf("%d extents, want %d", n, len(live))
	}
}

func TestAllocatorAgreesWithModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		trace := rapid.SampledFrom([]uint64{0, 1, 50000}).Draw(t, "trace region")
		n := rapid.IntRange(1, 400).Draw(t, "calls")
		drive(t, trace, rapid.SliceOfN(rapid.Byte(), 3*n, 3*n).Draw(t, "program"))
	})
}

func FuzzAllocator(f *testing.F) {
	f.Add(false, []byte{0, 100, 3, 1, 16, 0, 2, 0, 0, 3, 0, 0, 12, 200, 6, 2, 0, 0})
	f.Add(true, []byte{12, 255, 250, 12, 255, 250, 3, 0, 0, 2, 0, 0, 3, 0, 1, 28, 9, 9})
	f.Fuzz(func(t *testing.T, region bool, program []byte) {
		drive(t, uint64(bit(region))*50000, program)
	})
}

func TestAllocateAllHasOneAddress(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		cfg := Config{DRAMBanks: 3, DRAMBase: 64, DRAMEnd: 64 << 8, DRAMAlign: 64, L1Banks: 2, L1Base: 64, L1End: 64 << 7, L1Align: 16}
		as := make([]*Allocator, rapid.IntRange(1, 4).Draw(t, "allocators"))
		for i := range as {
			var err error
			if as[i], err = New(cfg); err != nil {
				t.Fatal(err)
			}
		}
		kind := rapid.SampledFrom([]Kind{DRAM, L1, Trace})
		size := rapid.Uint64Range(1, 4096)
		live := make([][]Extent, len(as))
		for range rapid.IntRange(0, 40).Draw(t, "steps") {
			k := kind.Draw(t, "kind")
			switch rapid.IntRange(0, 2).Draw(t, "op") {
			case 0: // one of them alone
				i := rapid.IntRange(0, len(as)-1).Draw(t, "which")
				if e, err := as[i].Allocate(Request{Kind: k, Size: size.Draw(t, "size")}); err == nil {
					live[i] = append(live[i], e)
				}
			case 1:
				i := rapid.IntRange(0, len(as)-1).Draw(t, "which")
				if n := len(live[i]); n > 0 {
					j := rapid.IntRange(0, n-1).Draw(t, "extent")
					must(t, as[i].Free(live[i][j]))
					live[i] = append(live[i][:j], live[i][j+1:]...)
				}
			case 2:
				checkAllocateAll(t, as, live, k, size)
			}
		}
	})
}

func checkAllocateAll(t *rapid.T, as []*Allocator, live [][]Extent, k Kind, size *rapid.Generator[uint64]) {
	rs := make([]Request, len(as))
	same, inStep := size.Draw(t, "size"), true
	differ := rapid.Bool().Draw(t, "sizes differ")
	for i := range rs {
		rs[i] = Request{Kind: k, Size: same}
		if differ {
			rs[i].Size = size.Draw(t, "size")
		}
		inStep = inStep && as[i].Fingerprint(k) == as[0].Fingerprint(k)
	}
	alone, aloneErr := as[0].Clone().Allocate(rs[0])
	want := map[uint64]int{} // how many have room at an address
	for i, a := range as {
		c := a.Clone()
		for addr := uint64(0); addr < 64<<8; addr += 64 {
			if e, err := c.AllocateAt(rs[i], addr); err == nil {
				want[e.Addr]++
				must(t, c.Free(e))
			}
		}
	}
	possible := false
	for _, n := range want {
		possible = possible || n == len(as)
	}
	es, err := AllocateAll(as, rs)
	if possible != (err == nil) || err != nil && !errors.Is(err, ErrOutOfMemory) {
		t.Fatalf("possible %t, error %v", possible, err)
	}
	if err != nil {
		return
	}
	for i, e := range es {
		if e.Addr != es[0].Addr || want[e.Addr] != len(as) {
			t.Fatalf("extent %d is at %#x, the first at %#x", i, e.Addr, es[0].Addr)
		}
		if inStep && !differ && as[i].Fingerprint(k) != as[0].Fingerprint(k) {
			t.Fatal("allocators that were in step aren't any more")
		}
		live[i] = append(live[i], e)
	}
	if inStep && !differ && (aloneErr != nil || alone.Addr != es[0].Addr) {
		t.Fatalf("in step, AllocateAll chose %#x, one alone %v (%v)", es[0].Addr, alone, aloneErr)
	}
}

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
	if at, ok := h.take(FirstFit, 1000, false); !ok || at != 16 {
		t.Fatalf("take: %d %v, want 16", at, ok)
	}
	if at, ok := h.take(FirstFit, size-1016, false); !ok || at != 1016 {
		t.Fatalf("take the rest: %d %v, want 1016", at, ok)
	}
	must(t, check(h))
}
