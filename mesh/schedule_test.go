package mesh

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

type packets [][]int

// A page is the list of the chips whose values were combined in it, in that order.
func run(p plan, pages [][][]int, pick func(n int) int) bool {
	n := len(p)
	wire := map[[2]int]packets{}
	type state struct{ step, page, phase int }
	at := make([]state, n)
	peer := func(i int, next bool) int {
		if next {
			return (i + 1) % n
		}
		return (i + n - 1) % n
	}
	key := func(from int, next bool) [2]int {
		k := [2]int{from, 0}
		if next {
			k[1] = 1
		}
		return k
	}
	try := func(i int, really bool) bool {
		st := &at[i]
		s := p[i][st.step]
		var held []int
		if st.phase == 2 {
			held = pages[i][s.in+st.page]
		}
		switch {
		case st.phase == 0 && s.send && !s.forward, st.phase == 2:
			k := key(i, s.sendNext)
			if len(wire[k]) == 2 {
				return false
			}
			if really {
				if st.phase == 0 {
					held = pages[i][s.out+st.page]
				}
				wire[k] = append(wire[k], slices.Clone(held))
			}
		case st.phase <= 1 && s.recv:
			if st.phase == 0 {
				st.phase = 1
			}
			k := key(peer(i, s.recvNext), !s.recvNext)
			if len(wire[k]) == 0 {
				return false
			}
			if really {
				got := wire[k][0]
				wire[k] = wire[k][1:]
				if s.how != Replace {
					got = append(slices.Clone(pages[i][s.in+st.page]), got...)
				}
				pages[i][s.in+st.page] = got
			}
		}
		if !really {
			return true
		}
		switch {
		case st.phase == 0 && s.send && !s.forward && s.recv:
			st.phase = 1
		case st.phase == 1 && s.forward:
			st.phase = 2
		default:
			st.phase = 0
			if st.page++; st.page == s.pages {
				st.step, st.page = st.step+1, 0
			}
		}
		return true
	}
	for {
		var ready []int
		busy := false
		for i := range p {
			if at[i].step < len(p[i]) {
				busy = true
				if try(i, false) {
					ready = append(ready, i)
				}
			}
		}
		if !busy {
			return true
		}
		if len(ready) == 0 {
			return false
		}
		try(ready[pick(len(ready))], true)
	}
}

func TestSchedulesEnd(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(2, 9).Draw(t, "chips")
		pages := rapid.IntRange(1, 20).Draw(t, "pages")
		ring := n > 2 && rapid.Bool().Draw(t, "ring")
		state := make([][][]int, n)
		for i := range state {
			for range pages {
				state[i] = append(state[i], []int{i})
			}
		}
		all := make([]int, n)
		for i := range all {
			all[i] = i
		}
		root := rapid.IntRange(0, n-1).Draw(t, "root")
		op := rapid.SampledFrom([]string{"all_gather", "reduce_scatter", "all_reduce", "broadcast"}).Draw(t, "op")
		var p plan
		want := func(chip, page int) []int { return nil } // in any order; nil: anything
		owner := func(page int) int {
			for i := range n {
				if first, count := slice(pages, n, i); page >= first && page < first+count {
					return i
				}
			}
			return -1
		}
		switch op {
		case "all_gather":
			p = allGather(n, pages, ring)
			want = func(_, page int) []int { return []int{owner(page)} }
		case "reduce_scatter":
			p = reduceScatter(n, pages, ring, SumInt32)
			want = func(chip, page int) []int {
				if owner(page) == chip {
					return all
				}
				return nil
			}
		case "all_reduce":
			p = allReduce(n, pages, ring, SumInt32)
			want = func(int, int) []int { return all }
		case "broadcast":
			p = make(plan, n)
			p.broadcast(root, 0, pages)
			want = func(int, int) []int { return []int{root} }
		}
		if !run(p, state, func(n int) int { return rapid.IntRange(0, n-1).Draw(t, "next") }) {
			t.Fatalf("%s of %d pages over %d chips (ring %t) stands still", op, pages, n, ring)
		}
		for i := range n {
			for page := range pages {
				if w := want(i, page); w != nil {
					got := slices.Sorted(slices.Values(state[i][page]))
					if diff := cmp.Diff(w, got); diff != "" {
						t.Fatalf("%s of %d pages over %d chips (ring %t): chip %d page %d (-want +got):\n%s", op, pages, n, ring, i, page, diff)
					}
				}
			}
		}
	})
}

func TestLinesGoFromNeighbourToNeighbour(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := Shape(rapid.SliceOfN(rapid.IntRange(1, 4), 1, 4).Draw(t, "shape"))
		line := snake(s)
		if n := len(slices.Compact(slices.Sorted(slices.Values(line)))); n != s.Size() || len(line) != n {
			t.Fatalf("%v: %v", s, line)
		}
		for i := 1; i < len(line); i++ {
			a, b, apart := s.Coord(line[i-1]), s.Coord(line[i]), 0
			for x := range a {
				apart += max(a[x]-b[x], b[x]-a[x])
			}
			if apart != 1 {
				t.Fatalf("%v: from %v to %v", s, a, b)
			}
		}
	})
}

func TestStepsAreCut(t *testing.T) {
	p := allReduce(2, 70000, false, SumInt32)
	n := 0
	for _, s := range p[0] {
		if s.pages > maxStepPages {
			t.Errorf("a step of %d pages", s.pages)
		}
		if s.send {
			if s.out != n {
				t.Errorf("a step begins at page %d, want %d", s.out, n)
			}
			n += s.pages
		}
	}
	if n != 70000 {
		t.Errorf("%d pages are sent", n)
	}
}
