package allocator

import (
	"errors"
	"testing"

	"pgregory.net/rapid"
)

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
