package graph

import (
	"encoding/json"
	"regexp"
	"strconv"
)

// CoreUse is the most that was in use at a time, in bytes. The three are maxima of their own: they can be of different
// times.
type CoreUse struct {
	Circular int64 // circular buffers, on the core with most of them
	L1       int64 // L1 buffers, of each core
	Total    int64
}

// PerCore returns what a core needs. Circular buffers count on the cores that they lie on, unless they lie in a buffer;
// [CircularPeak] is the older sum over all. The pages of an interleaved buffer are spread over so many cores, usually all
// of the grid.
func PerCore(g *Graph, cores int) CoreUse {
	var u CoreUse
	var buffers int64
	c := newCoreSums()
	size := map[int]int64{} // per core, of buffers that live
	for i := range g.Nodes {
		n := &g.Nodes[i]
		switch n.Type {
		case CircularAllocate:
			if !n.Params.Bool(ParamGloballyAllocated) {
				c.add(n.Params[ParamCoreRangeSet], n.Params.Size(ParamSize))
			}
		case CircularDeallocate:
			c = newCoreSums()
		case BufferAllocate:
			if b := g.first(n, BufferNode); b != nil && n.inL1() {
				s := perCore(n.Params, cores)
				size[b.Counter] = s
				buffers = plus(buffers, s)
			}
		case BufferDeallocate:
			if b := g.bufferOf(n); b != nil { // 0 if it is from before the capture
				buffers -= size[b.Counter]
				delete(size, b.Counter)
			}
		default:
			continue
		}
		u.Circular, u.L1, u.Total = max(u.Circular, c.most), max(u.L1, buffers), max(u.Total, plus(c.most, buffers))
	}
	return u
}

// CircularPeak returns the most bytes of circular buffers at a time, as if all lay on one core. Those that lie in a buffer
// don't count. This is TT-NN's figure up to [EraC].
func CircularPeak(g *Graph) int64 {
	var now, peak int64
	for i := range g.Nodes {
		switch n := &g.Nodes[i]; n.Type {
		case CircularAllocate:
			if !n.Params.Bool(ParamGloballyAllocated) {
				now = plus(now, n.Params.Size(ParamSize))
				peak = max(peak, now)
			}
		case CircularDeallocate:
			now = 0
		}
	}
	return peak
}

// perCore is what an allocation takes of the core that has most of its pages. Without the size of a page it is all.
func perCore(p Params, cores int) int64 {
	size, page, n := p.Size(ParamSize), p.Size(ParamPageSize), p.Size(ParamNumCores)
	if n == 0 {
		n = int64(cores)
	}
	if page <= 0 || n <= 0 {
		return size
	}
	pages := ceil(size, page)
	per := ceil(pages, n)
	if per > (1<<63-1)/page {
		return 1<<63 - 1
	}
	return per * page
}

// ceil divides numbers that aren't negative, and rounds up.
func ceil(a, b int64) int64 {
	q := a / b
	if a%b != 0 {
		q++
	}
	return q
}

// coreSums adds up sizes by core. Rectangles are kept as they are: grids from outside can be of any size.
type coreSums struct {
	rects map[string]*rectSum // by text
	most  int64
}

type rectSum struct {
	ranges []CoreRange
	size   int64
}

func newCoreSums() *coreSums { return &coreSums{rects: map[string]*rectSum{}} }

// add takes size bytes on each core of the text's rectangles.
func (c *coreSums) add(text string, size int64) {
	r := c.rects[text]
	if r == nil {
		r = &rectSum{ranges: ParseCores(text)}
		c.rects[text] = r
	}
	r.size = plus(r.size, size)
	if len(r.ranges) == 0 { // nobody knows where: it counts on its own
		c.most = max(c.most, r.size)
		return
	}
	// The busiest core lies at the left edge of one rectangle and at the top edge of one: looking at those is enough.
	for _, a := range r.ranges {
		for x := range c.edges(a.X0, a.X1, func(r CoreRange) int { return r.X0 }) {
			for y := range c.edges(a.Y0, a.Y1, func(r CoreRange) int { return r.Y0 }) {
				c.most = max(c.most, c.at(x, y))
			}
		}
	}
}

// edges returns the edges of rectangles from lo to hi.
func (c *coreSums) edges(lo, hi int, edge func(CoreRange) int) map[int]bool {
	m := map[int]bool{lo: true}
	for _, r := range c.rects {
		for _, a := range r.ranges {
			if e := edge(a); e > lo && e <= hi {
				m[e] = true
			}
		}
	}
	return m
}

// at is the sum on a core.
func (c *coreSums) at(x, y int) int64 {
	var sum int64
	for _, r := range c.rects {
		for _, a := range r.ranges {
			if a.X0 <= x && x <= a.X1 && a.Y0 <= y && y <= a.Y1 {
				sum = plus(sum, r.size)
				break
			}
		}
	}
	return sum
}

// maxRanges bounds the rectangles that are read of one text. No program has as many.
const maxRanges = 1024

// ParseCores reads a set of cores in the form of any era: {[(x=0,y=0) - (x=0,y=7)]}, {[0-0 - 7-7]} or the JSON array of
// rectangles with start and end. It is nil if there are none, or none that can be read.
func ParseCores(s string) []CoreRange {
	type corner struct{ X, Y int }
	var js []struct{ Start, End corner }
	var out []CoreRange
	if len(s) > 0 && s[0] == '[' {
		if json.Unmarshal([]byte(s), &js) != nil {
			return nil
		}
		for _, r := range js[:min(len(js), maxRanges)] {
			out = append(out, CoreRange{r.Start.X, r.Start.Y, r.End.X, r.End.Y})
		}
		return out
	}
	for _, m := range regexp.MustCompile(`\[\(?(?:x=)?(\d+)(?:,y=|-)(\d+)\)? - \(?(?:x=)?(\d+)(?:,y=|-)(\d+)\)?\]`).FindAllStringSubmatch(s, maxRanges) {
		var v [4]int
		for i := range v {
			n, err := strconv.Atoi(m[i+1])
			if err != nil {
				return nil
			}
			v[i] = n
		}
		out = append(out, CoreRange{v[0], v[1], v[2], v[3]})
	}
	return out
}
