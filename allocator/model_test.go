package allocator

import (
	"errors"
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
	kinds := []Kind{DRAM, L1, L1Small, Trace}

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
	alone, aloneErr := as[0].Fits(rs[0])
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
	if inStep && !differ && (aloneErr != nil || alone[0].Addr != es[0].Addr) {
		t.Fatalf("in step, AllocateAll chose %#x, one alone %v (%v)", es[0].Addr, alone, aloneErr)
	}
}
