package mesh

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/allocator"
	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/kernels"
	"github.com/reprise-tt/reprise/mesh/topology"
)

// Combine is how a collective combines the values of two chips.
type Combine uint8

// Ways to combine values. Sums of integers wrap around. Sums of float32 and bfloat16 are rounded to
// nearest, ties to even, with subnormals; a NaN operand gives the NaN 0x7FC00000 (0x7FC0), and in a
// maximum -0 is less than 0. The Tensix engines sum tiles and flush subnormals to zero: the matrix
// unit bfloat16, with a 32-bit Dst and one rounding for each addition; the vector unit float32.
// Partial sums are sent in the type of the tensor.
const (
	Replace Combine = iota
	SumInt32
	MaxInt32
	SumFloat32
	MaxFloat32
	SumBFloat16
	MaxBFloat16
	SumInt16
	SumInt8
	SumTilesBFloat16 // a page is a tile, or less
	SumTilesFloat32
)

func (c Combine) tiles() (kernel string, bytes int) {
	switch c {
	case SumTilesBFloat16:
		return kernels.SumBF16, kernels.BF16.TileBytes()
	case SumTilesFloat32:
		return kernels.SumFP32, kernels.FP32.TileBytes()
	}
	return "", 0
}

const maxExchangePage = 4096

// ErrNoLinks.
var ErrNoLinks = errors.New("the chips are not linked")

// Links makes collectives: programs that move data between the chips of a mesh over their Ethernet
// links. The chips form a line of linked neighbours ([Links.Line]), and a ring if its ends are
// linked too. A collective works in place on a replicated buffer, interleaved in DRAM, with a page
// size up to 4096 bytes; for sums of tiles, up to a tile.
//
// Submit collectives that use the same link to one queue, and run them on all chips of the mesh: a
// chip that waits for a missing one ends in a *HangError.
//
// The order of combining depends only on the line. In a line it is (((x0+x1)+x2)+...); for
// ReduceScatter the slice of chip k is (((x0+x1)+...)+xk)+(((xn-1+xn-2)+...)+xk+1). In a ring, if
// the number of chips divides the number of pages, the slice of chip k is
// (((xk+1+xk+2)+...)+xk-1)+xk, with indexes modulo n.
type Links struct {
	m       *Mesh
	core    chip.Core
	line    []int
	ring    bool
	tiles   [][2]uint32 // by place in the line: link tiles to the previous and the next chip
	token   *Buffer
	barrier *Executable
}

const noTile = 0xFFFFFFFF

// NewLinks prepares the links of a mesh for collectives. On each chip core, a worker of the queue
// that runs collectives, drives the links. Nothing else may use the links during the call. The
// error wraps ErrNoLinks if the chips aren't linked.
func (m *Mesh) NewLinks(ctx context.Context, core chip.Core) (*Links, error) {
	if err := m.usable("links"); err != nil {
		return nil, err
	}
	l := &Links{m: m, core: core, line: snake(m.shape)}
	fail := func(err error) (*Links, error) { return nil, fmt.Errorf("mesh: links of %v: %w", m, err) }
	if m.s.graph == nil {
		return fail(fmt.Errorf("%w: the mesh was opened as Unlinked", ErrNoLinks))
	}
	n := len(l.line)
	l.tiles = slices.Repeat([][2]uint32{{noTile, noTile}}, n)
	of := make([][]topology.Link, len(m.s.graph.Chips))
	for _, link := range m.s.graph.Links {
		of[link.A.Chip] = append(of[link.A.Chip], link)
		if link.B.Chip != link.A.Chip {
			of[link.B.Chip] = append(of[link.B.Chip], link)
		}
	}
	for i := range n - 1 {
		if !l.join(i, i+1, of) {
			a, b := m.chips[l.line[i]], m.chips[l.line[i+1]]
			why := ""
			if l.m.s.links[a.node][b.node] {
				why = ": the only link that is up carries the command queues of the one without a PCI interface"
			}
			return fail(fmt.Errorf("%w: %v %s and %v %s, neighbours in the line%s", ErrNoLinks, a.Coord, a.Name, b.Coord, b.Name, why))
		}
	}
	l.ring = n > 2 && l.join(n-1, 0, of)
	if n == 1 {
		return l, nil
	}
	if err := l.prepare(ctx); err != nil {
		if l.token != nil {
			err = errors.Join(err, l.token.Release())
		}
		return fail(err)
	}
	return l, nil
}

func snake(s Shape) []int {
	var out []int
	var walk func(c Coord)
	back := make([]bool, len(s))
	walk = func(c Coord) {
		a := len(c)
		if a == len(s) {
			i, _ := s.Index(c)
			out = append(out, i)
			return
		}
		for i := range s[a] {
			if back[a] {
				i = s[a] - 1 - i
			}
			walk(append(slices.Clone(c), i))
		}
		back[a] = !back[a]
	}
	walk(nil)
	return out
}

// of has the links of each chip.
func (l *Links) join(i, j int, of [][]topology.Link) bool {
	g := l.m.s.graph
	a, b := l.m.InGraph(l.m.chips[l.line[i]]), l.m.InGraph(l.m.chips[l.line[j]])
	for _, link := range of[a] {
		from, to := link.A, link.B
		if from.Chip == b && to.Chip == a {
			from, to = to, from
		}
		if link.State != topology.Up || l.m.s.carry[link] || from.Chip != a || to.Chip != b {
			continue
		}
		l.tiles[i][1] = tileWord(g.Chips[a].Ports[from.Channel].Tile)
		l.tiles[j][0] = tileWord(g.Chips[b].Ports[to.Channel].Tile)
		return true
	}
	return false
}

func tileWord(xy chip.XY) uint32 { return uint32(xy.X) | uint32(xy.Y)<<6 }

func (l *Links) prepare(ctx context.Context) error {
	var err error
	l.token, err = l.m.NewBuffer(BufferConfig{BufferConfig: reprise.BufferConfig{Kind: allocator.DRAM, Size: 64, PageSize: 64,
		Name: "barrier"}})
	if err != nil {
		return err
	}
	q := l.m.Queue(0)
	if err := q.Write(ctx, l.token, make([]byte, 64)); err != nil {
		return err
	}
	first, err := l.load(ctx, "prepare links", l.token, make(plan, len(l.line)), 1)
	if err != nil {
		return l.m.s.agree(ctx, "prepare links", err)
	}
	err = q.Run(ctx, first)
	if err == nil {
		err = q.Wait(ctx) // no chip may send before all are ready
	}
	err = l.m.s.agree(ctx, "prepare links", err)
	if err != nil {
		_ = first.Release(ctx)
		return err
	}
	if err := first.Release(ctx); err != nil {
		return err
	}
	l.barrier, err = l.load(ctx, "barrier", l.token, allReduce(len(l.line), 1, false, MaxInt32), 0)
	return err
}

func (l *Links) load(ctx context.Context, name string, b *Buffer, p plan, mode uint32) (*Executable, error) {
	unfit := func(format string, args ...any) (*Executable, error) {
		return nil, fmt.Errorf("mesh: %s of buffer %q: %w: %s", name, b.name, ErrTensor, fmt.Sprintf(format, args...))
	}
	if b.lay != nil {
		return unfit("want a buffer that each chip has for itself")
	}
	one := b.one
	if one == nil {
		return &Executable{m: l.m, name: name, xs: make([]*reprise.Executable, len(l.m.chips))}, nil
	}
	if page := one.PageSize(); one.Kind() != allocator.DRAM || one.Layout() != allocator.Interleaved || page > maxExchangePage {
		return unfit("it must be interleaved in DRAM, with a page size up to %d B", maxExchangePage)
	}
	place := make([]int, len(l.line))
	for i, n := range l.line {
		place[n] = i
	}
	arch := l.m.chips[l.m.here[0]].Device.Arch()
	im, err := kernels.Prebuilt(arch, kernels.Exchange)
	if err != nil {
		return nil, fmt.Errorf("mesh: %s: %w", name, err)
	}
	cores := []chip.Range{{Start: l.core, End: l.core}}
	room := (one.PageSize() + 63) &^ 63
	const scratch = 3
	buffers := []reprise.CircularBuffer{{Index: scratch, Cores: cores, PageSize: room, Pages: 4}}
	var engine *kernels.Compute
	if kernel, bytes := p.how().tiles(); kernel != "" {
		if one.PageSize() > bytes {
			return unfit("its pages are %d B, and a tile has %d B", one.PageSize(), bytes)
		}
		if engine, err = kernels.PrebuiltCompute(arch, kernel); err != nil {
			return nil, fmt.Errorf("mesh: %s: %w", name, err)
		}
		for i := range 3 {
			buffers = append(buffers, reprise.CircularBuffer{Index: i, Cores: cores, PageSize: bytes, Pages: 2})
		}
	}
	return l.m.Load(ctx, name, Part{Program: func(c *Chip) (*reprise.Program, error) {
		i := place[l.m.number(c)]
		const head = 8
		args := []uint32{mode, l.tiles[i][0], l.tiles[i][1], b.Addr(), uint32(one.PageSize()), scratch, uint32(len(p[i])), head}
		for _, s := range p[i] {
			args = append(args, s.words()...)
		}
		list := []reprise.Kernel{{Name: "exchange", Image: im, Processor: chip.BRISC, Cores: cores, NOC: chip.NOC0,
			Args: func(chip.Core) []uint32 { return args }}}
		if engine != nil {
			tiles := []uint32{uint32(combined(p[i]))}
			for k, im := range engine.Images() {
				list = append(list, reprise.Kernel{Name: "sum", Image: im, Processor: chip.TRISC0 + chip.Processor(k), Cores: cores,
					Args: func(chip.Core) []uint32 { return tiles }})
			}
		}
		return &reprise.Program{Name: name, Kernels: list, CircularBuffers: buffers, Buffers: []*reprise.Buffer{b.On(c)}}, nil
	}})
}

// Line returns the chips in the order of the line.
func (l *Links) Line() []*Chip {
	var out []*Chip
	for _, i := range l.line {
		out = append(out, l.m.chips[i])
	}
	return out
}

// Ring reports whether the ends of the line are linked.
func (l *Links) Ring() bool { return l.ring }

// Slice returns the pages of a buffer that belong to a chip in AllGather and ReduceScatter. Slices
// differ by at most one page.
func (l *Links) Slice(b *Buffer, c *Chip) (first, count int) {
	i := slices.Index(l.line, l.m.number(c))
	if i < 0 || b.one == nil {
		return 0, 0
	}
	return slice(b.one.Pages(), len(l.line), i)
}

// AllGather returns a program that copies the slices of all chips to every chip.
func (l *Links) AllGather(ctx context.Context, b *Buffer) (*Executable, error) {
	return l.collective(ctx, "all_gather", b, func(n, pages int) (plan, error) { return allGather(n, pages, l.ring), nil })
}

// ReduceScatter returns a program that leaves each chip its slice combined over all chips, and the
// rest of the buffer undefined.
func (l *Links) ReduceScatter(ctx context.Context, b *Buffer, how Combine) (*Executable, error) {
	return l.collective(ctx, "reduce_scatter", b, func(n, pages int) (plan, error) {
		return reduceScatter(n, pages, l.ring, how), how.reduces()
	})
}

// AllReduce returns a program that leaves every chip the whole buffer combined over all chips.
func (l *Links) AllReduce(ctx context.Context, b *Buffer, how Combine) (*Executable, error) {
	return l.collective(ctx, "all_reduce", b, func(n, pages int) (plan, error) { return allReduce(n, pages, l.ring, how), how.reduces() })
}

// Broadcast returns a program that copies the buffer of one chip to every chip.
func (l *Links) Broadcast(ctx context.Context, b *Buffer, from *Chip) (*Executable, error) {
	return l.collective(ctx, "broadcast", b, func(n, pages int) (plan, error) {
		p := make(plan, n)
		root, err := l.place(from)
		if err == nil {
			p.broadcast(root, 0, pages)
		}
		return p, err
	})
}

// Send returns a program that copies one chip's buffer to another. Chips in between keep their own.
func (l *Links) Send(ctx context.Context, b *Buffer, from, to *Chip) (*Executable, error) {
	return l.collective(ctx, "send", b, func(n, pages int) (plan, error) {
		p := make(plan, n)
		i, err := l.place(from)
		j, err2 := l.place(to)
		if err = errors.Join(err, err2); err == nil {
			p.flow(i, j, 0, pages, Replace, true)
		}
		return p, err
	})
}

// Barrier returns a program that ends on no chip before it has begun on all; nil for one chip.
func (l *Links) Barrier() *Executable { return l.barrier }

func (l *Links) collective(ctx context.Context, name string, b *Buffer, make func(n, pages int) (plan, error)) (*Executable, error) {
	if err := b.of(l.m); err != nil {
		return nil, fmt.Errorf("mesh: %s: %w", name, err)
	}
	pages := 0
	if b.one != nil {
		pages = b.one.Pages()
	}
	p, err := make(len(l.line), pages)
	if err != nil {
		return nil, fmt.Errorf("mesh: %s of buffer %q: %w", name, b.name, err)
	}
	return l.load(ctx, name, b, p, 0)
}

func (l *Links) place(c *Chip) (int, error) {
	if n := l.m.number(c); n >= 0 {
		return slices.Index(l.line, n), nil
	}
	return 0, fmt.Errorf("want a chip of the mesh: %w", ErrWrongMesh)
}

func (c Combine) reduces() error {
	if c == Replace || c > SumTilesFloat32 {
		return fmt.Errorf("combine %d: want a way to combine values, such as SumFloat32", c)
	}
	return nil
}

// Release releases the barrier and its memory.
func (l *Links) Release(ctx context.Context) error {
	if l.barrier == nil {
		return nil
	}
	return errors.Join(l.barrier.Release(ctx), l.token.Release())
}

// step is one step of a chip in a collective: it sends pages to a neighbour, and receives pages and
// combines or forwards them. The fields are the arguments of kernels.Exchange.
type step struct {
	send, sendNext bool
	recv, recvNext bool
	how            Combine
	forward, drop  bool
	out, in, pages int
}

func (s *step) words() []uint32 {
	flags := uint32(s.pages)<<16 | uint32(s.how)<<4
	for i, b := range []bool{s.send, s.sendNext, s.recv, s.recvNext, 8: s.forward, 9: s.drop} {
		if b {
			flags |= 1 << i
		}
	}
	return []uint32{flags, uint32(s.out), uint32(s.in)}
}

func slice(pages, n, i int) (first, count int) {
	first = pages * i / n
	return first, pages*(i+1)/n - first
}

type plan [][]step

func (p plan) add(chip int, s step) {
	for left := s.pages; left > 0; left -= s.pages {
		s.pages = min(left, maxStepPages)
		p[chip] = append(p[chip], s)
		s.out, s.in = s.out+s.pages, s.in+s.pages
	}
}

const maxStepPages = 1<<16 - 1

func (p plan) how() Combine {
	for _, steps := range p {
		for _, s := range steps {
			if s.recv && s.how != Replace {
				return s.how
			}
		}
	}
	return Replace
}

func combined(steps []step) (pages int) {
	for _, s := range steps {
		if s.recv && s.how != Replace {
			pages += s.pages
		}
	}
	return pages
}

// Each chip on the way combines the pages with its own and forwards the result; with drop it
// forwards them unchanged.
func (p plan) flow(from, to, first, pages int, how Combine, drop bool) {
	next := to > from
	d := -1
	if next {
		d = 1
	}
	for i := from; ; i += d {
		s := step{pages: pages, out: first, in: first}
		if i != to {
			s.send, s.sendNext = true, next
		}
		if i != from {
			s.recv, s.recvNext, s.how = true, !next, how
			s.forward, s.drop = i != to, drop && i != to
		}
		if from != to {
			p.add(i, s)
		}
		if i == to {
			return
		}
	}
}

func (p plan) broadcast(root, first, pages int) {
	p.flow(root, len(p)-1, first, pages, Replace, false)
	p.flow(root, 0, first, pages, Replace, false)
}

func allGather(n, pages int, ring bool) plan {
	p := make(plan, n)
	if ring && pages%n == 0 {
		p.turn(pages, 0, Replace)
		return p
	}
	for k := range n {
		first, count := slice(pages, n, k)
		p.broadcast(k, first, count)
	}
	return p
}

func reduceScatter(n, pages int, ring bool, how Combine) plan {
	p := make(plan, n)
	if ring && pages%n == 0 {
		p.turn(pages, 1, how)
		return p
	}
	for k := range n {
		first, count := slice(pages, n, k)
		p.flow(0, k, first, count, how, false)
		p.flow(n-1, k, first, count, how, false)
	}
	return p
}

// In step t chip r sends slice r-t-lag and receives the one before.
func (p plan) turn(pages, lag int, how Combine) {
	n := len(p)
	size := pages / n
	for t := range n - 1 {
		for r := range p {
			at := func(back int) int { return ((r-back)%n + n) % n * size }
			p.add(r, step{
				send: true, sendNext: true, recv: true, how: how, pages: size, out: at(t + lag), in: at(t + lag + 1),
			})
		}
	}
}

func allReduce(n, pages int, ring bool, how Combine) plan {
	if ring && pages%n == 0 {
		p := reduceScatter(n, pages, true, how)
		for i, s := range allGather(n, pages, true) {
			p[i] = append(p[i], s...)
		}
		return p
	}
	p := make(plan, n)
	p.flow(0, n-1, 0, pages, how, false)
	p.flow(n-1, 0, 0, pages, Replace, false)
	return p
}
