package allocator

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/reprise-tt/reprise/internal/expect"
)

func sample(t *testing.T) *Allocator {
	a := mustNew(t, Config{
		DRAMBanks: 2, DRAMBase: 64, DRAMEnd: 64 * kib, DRAMAlign: 64, L1Banks: 3, L1Base: 8 * kib, L1End: 32 * kib, L1Align: 16, L1Small: 4 * kib,
	})
	var pc [1]uintptr
	runtime.Callers(1, pc[:])
	mustAllocate(t, a, Request{Size: 8 * kib, PageSize: kib, Owner: "weights", Tag: "buffer", Site: pc[0]})
	gone := mustAllocate(t, a, Request{Size: 2 * kib, PageSize: kib})
	held := mustAllocate(t, a, Request{Size: 4 * kib, PageSize: kib, Owner: "in <\"&>"})
	mustAllocate(t, a, Request{Kind: Trace, Size: 2 * kib, PageSize: kib, Owner: "decode", Tag: "trace"})
	mustAllocate(t, a, Request{Kind: L1, Size: 3 * kib, PageSize: kib, Owner: "act"})
	mustAllocate(t, a, Request{Kind: L1Small, Size: 256, PageSize: 64, Shards: 2, Owner: "halo"})
	must(t, errors.Join(a.Hold(held), a.Free(held), a.Free(gone)))
	return a
}

func TestMapText(t *testing.T) {
	got := sample(t).Map().String()
	got = got[:strings.Index(got, "map_test.go:")+len("map_test.go:")] + got[strings.Index(got, "map_test.go:")+len("map_test.go:")+2:]
	want := string(expect.Value(os.ReadFile("testdata/map.txt"))(t))
	expect.NoDiff(t, got, want, "got")
}

func TestMapJSON(t *testing.T) {
	b := expect.Value(json.Marshal(sample(t).Map()))(t)
	var got struct {
		Regions []struct {
			Name    string
			Stats   []map[string]any
			Entries []map[string]any
		}
	}
	must(t, json.Unmarshal(b, &got))
	if len(got.Regions) != 3 || got.Regions[0].Name != "DRAM and trace" || got.Regions[2].Stats[0]["kind"] != "L1_SMALL" {
		t.Fatalf("%s", b)
	}
	first := got.Regions[0].Entries[0]
	if site, _ := first["site"].(string); !strings.Contains(site, "map_test.go:") {
		t.Errorf("call site %v", first["site"])
	}
	delete(first, "site")
	want := map[string]any{"start": 64.0, "end": 4160.0, "kind": "DRAM", "owner": "weights", "tag": "buffer", "size": 8192.0,
		"page_size": 1024.0, "banks": 2.0}
	expect.NoDiff(t, first, want, "first")
	if free := got.Regions[0].Entries[1]; free["free"] != true {
		t.Errorf("%v", free)
	}
}

func TestMapCovers(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a := mustNew(t, drawSmall(t))
		churn(t, a, "before", 60)
		m := a.Map()
		sum := uint64(0)
		for _, r := range m.Regions {
			addr := r.Stats[0].Low
			for i, e := range r.Entries {
				if e.Start != addr || e.End <= e.Start || i > 0 && e.Free && r.Entries[i-1].Free {
					t.Fatalf("%s: range %d is [%#x,%#x), after %#x", r.Name, i, e.Start, e.End, addr)
				}
				addr = e.End
			}
			if high := r.Stats[0].High; addr != high {
				t.Fatalf("%s ends at %#x, want %#x", r.Name, addr, high)
			}
			for _, s := range r.Stats {
				sum += uint64(s.Extents)
			}
		}
		if sum != uint64(len(a.all())) {
			t.Fatalf("%d extents, want %d", sum, len(a.all()))
		}
	})
}

func churn(t *rapid.T, a *Allocator, label string, steps int) []Extent {
	var live []Extent
	for i := range steps {
		if len(live) > 0 && rapid.IntRange(0, 2).Draw(t, label) == 0 {
			k := rapid.IntRange(0, len(live)-1).Draw(t, "victim")
			must(t, a.Free(live[k]))
			live = append(live[:k], live[k+1:]...)
			continue
		}
		e, err := a.Allocate(drawRequest(t, fmt.Sprint(label, i)))
		if err == nil {
			live = append(live, e)
		} else if !errors.Is(err, ErrOutOfMemory) {
			t.Fatal(err)
		}
	}
	return live
}

func drawRequest(t *rapid.T, owner string) Request {
	page := rapid.Uint64Range(1, 3000).Draw(t, "page")
	r := Request{
		Kind: rapid.SampledFrom(Kinds()).Draw(t, "kind"), PageSize: page,
		Size: page * rapid.Uint64Range(1, 9).Draw(t, "pages"), Shards: rapid.IntRange(1, 4).Draw(t, "shards"), Owner: owner,
	}
	if rapid.Bool().Draw(t, "direction") {
		down := rapid.Bool().Draw(t, "down")
		r.TopDown = &down
	}
	return r
}

func small(p Policy) Config {
	return Config{
		DRAMBanks: 4, DRAMBase: 40, DRAMEnd: 1 << 16, DRAMAlign: 64, L1Banks: 5, L1Base: 100, L1End: 1 << 15, L1Align: 16, L1Small: 8192,
		Policy: p,
	}
}

func drawSmall(t *rapid.T) Config {
	c := small(Policy(rapid.IntRange(0, int(numPolicies)-1).Draw(t, "policy")))
	c.TraceRegion = rapid.SampledFrom([]uint64{0, 50000}).Draw(t, "trace region")
	return c
}

func prints(a *Allocator) [4]uint64 {
	return [4]uint64{a.Fingerprint(DRAM), a.Fingerprint(L1), a.Fingerprint(L1Small), a.Fingerprint(Trace)}
}

func TestSameFingerprintSameAddress(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := drawSmall(t)
		a := mustNew(t, c)
		churn(t, a, "a", 40)
		// b reaches the same holes by other calls.
		b := mustNew(t, c)
		for _, e := range churn(t, b, "b", 20) {
			must(t, b.Free(e))
		}
		for _, l := range rapid.Permutation(a.all()).Draw(t, "order") {
			expect.Value(b.AllocateAt(Request{Kind: l.Kind, Size: l.Size, PageSize: l.PageSize, Shards: int(l.Banks), Owner: "another"},
				l.Addr))(t)
		}
		if prints(a) != prints(b) {
			t.Fatalf("fingerprints %x and %x of the same state", prints(a), prints(b))
		}
		for i := range 30 {
			r := drawRequest(t, fmt.Sprint("after ", i))
			e, err := a.Allocate(r)
			f, err2 := b.Allocate(r)
			if (err == nil) != (err2 == nil) || e.Addr != f.Addr {
				t.Fatalf("%+v: %s, %v and %s, %v", r, e, err, f, err2)
			}
		}
		if prints(a) != prints(b) {
			t.Fatalf("fingerprints %x and %x after the same requests", prints(a), prints(b))
		}
	})
}

func TestFingerprintTells(t *testing.T) {
	base := small(FirstFit)
	seen := map[uint64]string{}
	note := func(name string, a *Allocator, k Kind) {
		f := a.Fingerprint(k)
		if f == 0 {
			t.Errorf("%s: the fingerprint is 0", name)
		}
		if other, ok := seen[f]; ok {
			t.Errorf("%s has the fingerprint of %s", name, other)
		}
		seen[f] = name
	}
	a := mustNew(t, base)
	note("empty DRAM", a, DRAM)
	note("empty L1", a, L1)
	e := mustAllocate(t, a, Request{Size: 64})
	note("DRAM with 64 B taken", a, DRAM)
	mustAllocate(t, a, Request{Size: 64})
	must(t, a.Free(e))
	note("DRAM with the second 64 B taken", a, DRAM)
	note("empty DRAM, best fit", mustNew(t, small(BestFit)), DRAM)
	c := base
	c.DRAMEnd += 64
	note("empty larger DRAM", mustNew(t, c), DRAM)
	c = base
	c.L1Banks = 0
	expect.Equal(t, mustNew(t, c).Fingerprint(L1), 0, "memory that isn't there has the fingerprint")
	// It is the same in every process and on every machine, so that one can be written down.
	expect.Equal(t, mustNew(t, base).Fingerprint(DRAM), 0x26a6d88dbf5b2352, "the fingerprint of a fresh DRAM")
}

func TestCloneGoesItsOwnWay(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a := mustNew(t, drawSmall(t))
		live := churn(t, a, "original", 40)
		before, state := prints(a), a.all()
		c := a.Clone()
		if prints(c) != before || len(a.Diff(c)) != 0 {
			t.Fatalf("a fresh copy differs: %v", a.Diff(c))
		}
		for _, e := range live { // what the copy knows of the original can be freed in it
			if rapid.Bool().Draw(t, "free in the copy") {
				must(t, c.Free(e))
			}
		}
		mine := churn(t, c, "copy", 30)
		for _, e := range mine {
			if err := a.Free(e); !errors.Is(err, ErrWrongAllocator) {
				t.Fatalf("the original took the copy's %s: %v", e, err)
			}
		}
		if diff := cmp.Diff(state, a.all(), cmpopts.EquateComparable(Extent{})); diff != "" || prints(a) != before {
			t.Fatalf("the original changed (-before +after):\n%s", diff)
		}
		copied := prints(c)
		later := churn(t, a, "later", 30)
		if prints(c) != copied {
			t.Fatal("the copy changed with the original")
		}
		for _, e := range later { // an extent from after the copy means nothing to it
			if err := c.Free(e); err == nil {
				t.Fatalf("the copy freed %s, which is newer", e)
			}
		}
	})
}

func TestDiff(t *testing.T) {
	a := mustNew(t, small(FirstFit))
	goes := mustAllocate(t, a, Request{Size: 64, Owner: "old", Tag: "x"})
	stays := mustAllocate(t, a, Request{Size: 64, Owner: "both"})
	s := a.Clone()
	must(t, errors.Join(a.Free(goes), a.Hold(stays)))
	mustAllocate(t, a, Request{Size: 64, Owner: "new"})
	mustAllocate(t, a, Request{Kind: L1, Size: 64, Owner: "l1"})
	var got []string
	for _, c := range a.Diff(s) {
		got = append(got, c.String())
	}
	want := []string{`- DRAM [0x40,0x80) of old "x"`, `+ DRAM [0x40,0x80) of new`, `~ DRAM [0x80,0xc0) of both`,
		`+ L1 [0x5fc0,0x6000) of l1`}
	expect.NoDiff(t, got, want, "got")
}
