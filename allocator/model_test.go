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
