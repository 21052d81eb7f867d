package mesh

import (
	"fmt"
	"math/rand/v2"
	"testing"
)

// Chips are numbered by host, 8 by 4 each. With wrap the ends of rows and columns are linked too.
func blocks(rows, cols int, wrap bool) links {
	const height, width = 8, 4
	number := func(r, c int) int {
		host := r/height*(cols/width) + c/width
		return host*height*width + r%height*width + c%width
	}
	l := make(links, rows*cols)
	for i := range l {
		l[i] = map[int]bool{}
	}
	join := func(a, b int) { l[a][b], l[b][a] = true, true }
	for r := range rows {
		for c := range cols {
			if r+1 < rows || wrap {
				join(number(r, c), number((r+1)%rows, c))
			}
			if c+1 < cols || wrap {
				join(number(r, c), number(r, (c+1)%cols))
			}
		}
	}
	return l
}

func formed(s Shape, l links, at []int) error {
	has := make([]bool, len(l))
	for i, c := range at {
		if has[c] {
			return fmt.Errorf("chip %d has two places", c)
		}
		has[c] = true
		coord := s.Coord(i)
		for a := range coord {
			if coord[a] == 0 {
				continue
			}
			coord[a]--
			j, _ := s.Index(coord)
			coord[a]++
			if !l[c][at[j]] {
				return fmt.Errorf("chips %d and %d at neighbours of %v aren't linked", c, at[j], coord)
			}
		}
	}
	return nil
}

func TestEmbedManyChips(t *testing.T) {
	for _, wrap := range []bool{false, true} {
		l := blocks(64, 32, wrap)
		for _, s := range []Shape{{64, 32}, {32, 64}} {
			at, ok := embed(s, l, embedSteps)
			if !ok {
				t.Errorf("%v, wrap %t: not found", s, wrap)
			} else if err := formed(s, l, at); err != nil {
				t.Errorf("%v, wrap %t: %v", s, wrap, err)
			}
		}
	}
}

func renumbered(l links, seed uint64) links {
	number := rand.New(rand.NewPCG(seed, 23)).Perm(len(l))
	out := make(links, len(l))
	for a, m := range l {
		out[number[a]] = map[int]bool{}
		for b := range m {
			out[number[a]][number[b]] = true
		}
	}
	return out
}

func TestEmbedLine(t *testing.T) {
	holes := blocks(32, 32, false)
	for _, c := range []int{0, 300, 301} { // a corner, and two neighbours within
		for other := range holes[c] {
			delete(holes[other], c)
		}
		holes[c] = nil
	}
	for _, tc := range []struct {
		name string
		l    links
	}{
		{"2 hosts", blocks(8, 8, false)},
		{"8 hosts", blocks(32, 8, false)},
		{"8 hosts, rings", blocks(16, 16, true)},
		{"64 hosts", blocks(64, 32, false)},
		{"32 hosts, 3 chips missing", holes},
		{"any numbers", renumbered(blocks(64, 32, false), 1)},
		{"any numbers, rings", renumbered(blocks(16, 16, true), 2)},
	} {
		n := tc.l.usable()
		for _, s := range []Shape{{n}, {1, n}, {n - 1, 1}} {
			at, ok := embed(s, tc.l, embedSteps)
			if !ok {
				t.Errorf("%s: no line of %v", tc.name, s)
			} else if err := formed(s, tc.l, at); err != nil || len(at) != s.Size() {
				t.Errorf("%s: %v: %d places, %v", tc.name, s, len(at), err)
			}
		}
	}
	two := blocks(8, 8, false) // without the links between its hosts
	for a := range two {
		for b := range two[a] {
			if a/32 != b/32 {
				delete(two[a], b)
			}
		}
	}
	if at, ok := embed(Shape{64}, two, embedSteps); ok {
		t.Errorf("a line through hosts that aren't linked: %v", at)
	}
}

func TestEmbedAnyNumbers(t *testing.T) {
	l, s := renumbered(blocks(32, 16, false), 1), Shape{32, 16}
	at, ok := embed(s, l, embedSteps)
	if !ok {
		t.Fatal("not found")
	}
	if err := formed(s, l, at); err != nil {
		t.Error(err)
	}
	a, b := at[0], at[1]
	delete(l[a], b)
	delete(l[b], a)
	if at, ok := embed(s, l, embedSteps); ok {
		t.Errorf("found without a link: %v", formed(s, l, at))
	}
}

func TestChooseUnlinked(t *testing.T) {
	f := &found{unlinked: true, links: make(links, maxChips+2), nodes: make([]node, maxChips+2)}
	for n := range f.links {
		if n != 1 { // unusable
			f.links[n] = map[int]bool{}
		}
	}
	at, s, err := f.choose([]Shape{{256, 256}})
	if err != nil || s.Size() != len(at) || at[0] != 0 || at[1] != 2 || at[len(at)-1] != maxChips {
		t.Errorf("%d places of %v: %v", len(at), s, err)
	}
}
