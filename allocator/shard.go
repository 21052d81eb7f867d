package allocator

import (
	"fmt"
	"math"
	"slices"

	"github.com/reprise-tt/reprise/chip"
)

// ShardSpec says how a buffer is cut into shards and which cores hold them.
type ShardSpec struct {
	Layout Layout // any but Interleaved
	// Tensor and Shard are shapes in pages of the same rank, outermost dimension
	// first. Shards at the tensor's edges may have places without a page.
	Tensor, Shard []int
	// Cores hold the shards: workers for L1, and (bank,0) for DRAM.
	Cores       []chip.Range
	Orientation Orientation
	// Strategy is for NDSharded only.
	Strategy Strategy
}

// Distribution says where the pages of a sharded buffer are.
type Distribution struct {
	layout   Layout
	tensor   []int
	shard    []int
	grid     []int // shards by dimension
	cores    []chip.Core
	volume   int // pages of a shard
	shards   int
	perCore  int // most shards of a core
	pages    int
	strategy Strategy
}

// mostPages bounds a buffer, so that products of shapes can't overflow.
const mostPages = 1 << 40

// NewDistribution computes where pages are. Errors wrap [ErrRequest].
func NewDistribution(s ShardSpec) (*Distribution, error) {
	bad := func(format string, args ...any) (*Distribution, error) {
		return nil, fmt.Errorf("allocator: %s buffer: %w: %s", s.Layout, ErrRequest, fmt.Sprintf(format, args...))
	}
	d := &Distribution{layout: s.Layout, tensor: slices.Clone(s.Tensor), shard: slices.Clone(s.Shard), strategy: s.Strategy, volume: 1,
		shards: 1, pages: 1}
	rank := len(d.tensor)
	if rank == 0 || rank != len(d.shard) {
		return bad("a tensor of rank %d in shards of rank %d: both need the same rank, at least 1", rank, len(d.shard))
	}
	for i, n := range d.tensor {
		m := d.shard[i]
		if n < 1 || m < 1 || n > mostPages/d.pages || m > mostPages/d.volume {
			return bad("a tensor of %v pages in shards of %v: sizes from 1 on, and at most 2^40 pages", s.Tensor, s.Shard)
		}
		d.grid = append(d.grid, (n+m-1)/m)
		d.pages *= n
		d.volume *= m
		d.shards *= d.grid[i]
	}
	if s.Orientation > ColMajor || d.strategy > Contiguous {
		return bad("%s, %s: there is no such order", s.Orientation, d.strategy)
	}
	cores, err := coresOf(s.Cores, s.Orientation)
	if err != nil {
		return bad("%v", err)
	}
	high, wide := d.shards/d.grid[rank-1], d.grid[rank-1]
	switch s.Layout {
	case HeightSharded:
		if wide != 1 {
			return bad("shards of %v are narrower than the tensor of %v: %d beside each other", s.Shard, s.Tensor, wide)
		}
		d.strategy = RoundRobin
	case WidthSharded:
		if high != 1 {
			return bad("shards of %v are lower than the tensor of %v: %d above each other", s.Shard, s.Tensor, high)
		}
		d.strategy = RoundRobin
	case BlockSharded:
		d.strategy = Grid2D
	case NDSharded:
	default:
		return bad("it has no shards")
	}
	if s.Layout != NDSharded && d.shards > len(cores) {
		return bad("%d shards on %d cores: each needs its own", d.shards, len(cores))
	}
	d.perCore = (d.shards + len(cores) - 1) / len(cores)
	switch d.strategy {
	case RoundRobin:
		cores = cores[:min(len(cores), d.shards)]
	case Contiguous:
		cores = cores[:min(len(cores), d.shards)]
		if d.shards%len(cores) != 0 {
			return bad("%d shards don't divide evenly among %d cores", d.shards, len(cores))
		}
	case Grid2D:
		if cores, err = gridCores(s.Cores, s.Orientation, high, wide); err != nil {
			return bad("%v", err)
		}
		d.perCore = 1
	}
	d.cores = cores
	if d.perCore > mostPages/d.volume {
		return bad("more than 2^40 pages in a core")
	}
	return d, nil
}

func coresOf(ranges []chip.Range, o Orientation) ([]chip.Core, error) {
	var out []chip.Core
	seen := make(map[chip.Core]bool)
	for _, r := range ranges {
		if r.Empty() || r.Start.X < 0 || r.Start.Y < 0 || r.End.X > math.MaxUint16 || r.End.Y > math.MaxUint16 {
			return nil, fmt.Errorf("there is no range %s of cores", r)
		}
		if len(out)+r.Size() > math.MaxUint16 {
			return nil, fmt.Errorf("more than %d cores", math.MaxUint16)
		}
		outer, inner := r.End.Y-r.Start.Y, r.End.X-r.Start.X
		if o == ColMajor {
			outer, inner = inner, outer
		}
		for i := range outer + 1 {
			for j := range inner + 1 {
				c := chip.Core{X: r.Start.X + j, Y: r.Start.Y + i}
				if o == ColMajor {
					c = chip.Core{X: r.Start.X + i, Y: r.Start.Y + j}
				}
				if seen[c] {
					return nil, fmt.Errorf("core %s is named twice", c)
				}
				seen[c] = true
				out = append(out, c)
			}
		}
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("there are no cores to hold shards")
	}
	return out, nil
}

// ColMajor exchanges rows and columns.
func gridCores(ranges []chip.Range, o Orientation, high, wide int) ([]chip.Core, error) {
	if len(ranges) != 1 {
		return nil, fmt.Errorf("%d ranges of cores: a grid of shards needs one", len(ranges))
	}
	r := ranges[0]
	w, h := wide, high
	if o == ColMajor {
		w, h = high, wide
	}
	if haveW, haveH := r.End.X-r.Start.X+1, r.End.Y-r.Start.Y+1; w > haveW || h > haveH {
		return nil, fmt.Errorf("%d by %d shards, %s, need %d by %d cores, and %s has %d by %d", wide, high, o, w, h, r, haveW, haveH)
	}
	return coresOf([]chip.Range{{Start: r.Start, End: chip.Core{X: r.Start.X + w - 1, Y: r.Start.Y + h - 1}}}, o)
}

// Layout returns the layout.
func (d *Distribution) Layout() Layout { return d.layout }

// Cores returns the cores that hold shards; pages refer to them by index.
func (d *Distribution) Cores() []chip.Core { return slices.Clone(d.cores) }

// Pages returns the number of pages of the tensor.
func (d *Distribution) Pages() int { return d.pages }

// CorePages returns the places for pages in each core.
func (d *Distribution) CorePages() int { return d.perCore * d.volume }

// DevicePages returns the places for pages in all cores, empty ones included.
func (d *Distribution) DevicePages() int { return d.CorePages() * len(d.cores) }

// Page returns where page i < Pages() is: its core's index in Cores and its place there.
func (d *Distribution) Page(i int) (core, slot int) {
	shard, place := 0, 0
	shardStep, placeStep := 1, 1
	for k := len(d.tensor) - 1; k >= 0; k-- {
		at := i % d.tensor[k]
		i /= d.tensor[k]
		shard += at / d.shard[k] * shardStep
		place += at % d.shard[k] * placeStep
		shardStep *= d.grid[k]
		placeStep *= d.shard[k]
	}
	core, nth := d.of(shard)
	return core, nth*d.volume + place
}

func (d *Distribution) of(shard int) (core, nth int) {
	switch d.strategy {
	case RoundRobin:
		return shard % len(d.cores), shard / len(d.cores)
	case Contiguous:
		return shard / d.perCore, shard % d.perCore
	}
	return shard, 0
}

func (d *Distribution) shardAt(core, nth int) int {
	switch d.strategy {
	case RoundRobin:
		return nth*len(d.cores) + core
	case Contiguous:
		return core*d.perCore + nth
	}
	return core
}

// PageAt is the inverse of [Distribution.Page]; false for a place that holds no page.
func (d *Distribution) PageAt(core, slot int) (page int, ok bool) {
	if core < 0 || core >= len(d.cores) || slot < 0 || slot >= d.CorePages() {
		return 0, false
	}
	shard, place := d.shardAt(core, slot/d.volume), slot%d.volume
	if shard >= d.shards {
		return 0, false
	}
	step := 1
	for k := len(d.tensor) - 1; k >= 0; k-- {
		at := shard%d.grid[k]*d.shard[k] + place%d.shard[k]
		shard /= d.grid[k]
		place /= d.shard[k]
		if at >= d.tensor[k] {
			return 0, false
		}
		page += at * step
		step *= d.tensor[k]
	}
	return page, true
}
