package sparse_test

import (
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/reprise-tt/reprise/internal/sparse"
)

func TestMemory(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m, want := sparse.Memory{}, map[uint64]uint32{}
		for range rapid.IntRange(0, 50).Draw(t, "steps") {
			addr := 4 * rapid.Uint64Range(0, 600).Draw(t, "word")
			if v := rapid.Uint32().Draw(t, "value"); v%4 == 0 {
				m.Delete(addr)
				delete(want, addr)
			} else {
				m.Set(addr, v)
				want[addr] = v
			}
			v, ok := m.Get(addr)
			if w, there := want[addr]; v != w && there || ok != there {
				t.Fatalf("word %#x is %#x, %v, want %#x, %v", addr, v, ok, w, there)
			}
		}
		var order []uint64
		got := map[uint64]uint32{}
		for a, v := range m.All {
			order, got[a] = append(order, a), v
		}
		if diff := cmp.Diff(want, got); diff != "" || !slices.Equal(order, slices.Sorted(maps.Keys(want))) {
			t.Fatalf("words %v (-want +got):\n%s", order, diff)
		}
	})
}
