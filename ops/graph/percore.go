package graph

// CoreUse is the most L1 of one core that was in use at a time, in bytes. The three maxima can be of different times.
type CoreUse struct {
	Circular int64 // of circular buffers, on the core with most of them
	L1       int64 // of L1 buffers, on the core with most of their pages
	Total    int64 // of both
}

// PerCore returns the peaks of L1 on one core. Circular buffers count on the cores that they lie on, unless they lie in a
// buffer; [CircularPeak] is the older figure, the sum over all. The pages of an interleaved buffer are taken to be spread over
// the given number of cores, usually all of the grid.
func PerCore(g *Graph, cores int) CoreUse {
	var u CoreUse
	var buffers int64
	c := newCoreSums()
	size := map[int]int64{} // per core, of allocated buffers
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
			if b := g.bufferOf(n); b != nil { // its size is 0 if it is from before the capture
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
// are not counted. This is TT-NN's figure up to [Format2026v2].
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

// perCore returns the bytes of an allocation on the core with most of its pages; all of it if the page size is unknown.
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

// ceil divides non-negative numbers and rounds up.
func ceil(a, b int64) int64 {
	q := a / b
	if a%b != 0 {
		q++
	}
	return q
}

// coreSums sums up sizes by core. It keeps rectangles and no grid: those in a file can be of any size.
type coreSums struct {
	rects map[string]*rectSum // by text
	most  int64
}

type rectSum struct {
	ranges []CoreRange
	size   int64
}

func newCoreSums() *coreSums { return &coreSums{rects: map[string]*rectSum{}} }

// add adds size bytes on each core of a set in the form of [ParseCores].
func (c *coreSums) add(text string, size int64) {
	r := c.rects[text]
	if r == nil {
		r = &rectSum{ranges: ParseCores(text)}
		c.rects[text] = r
	}
	r.size = plus(r.size, size)
	if len(r.ranges) == 0 { // its cores are unknown, so it is compared by itself
		c.most = max(c.most, r.size)
		return
	}
	// The core with the largest sum is at the left edge of a rectangle and at the top edge of one, so only those are compared.
	for _, a := range r.ranges {
		for x := range c.edges(a.X0, a.X1, func(r CoreRange) int { return r.X0 }) {
			for y := range c.edges(a.Y0, a.Y1, func(r CoreRange) int { return r.Y0 }) {
				c.most = max(c.most, c.at(x, y))
			}
		}
	}
}

// edges returns lo and the rectangles' edges after it up to hi.
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

// at returns the sum on a core.
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
