package ops

import (
	"cmp"
	"reflect"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/ops/catalog"
)

const (
	blocksBudget  = 512 << 10 // L1 of each core for circular buffers: a third, so that tensors in L1 have room
	tileClocks    = 64        // of a product of two tiles in the matrix unit: four phases of 16 instructions
	readClocks    = 6         // to read a tile from DRAM, with all cores reading: 2 KiB at about 350 B per clock
	blocksLatency = 200       // clocks that a product in blocks begins later than one in the simple form
	argsClocks    = 30        // to launch a core's arguments in the simple form
	passTiles     = 8         // at least in a pass, so that moving the sums takes less time than computing them
	stepClocks    = 2000      // of work per step, which hides the hand-over of the next one

	blocksTransposedLeft, blocksTransposedRight = 8, 16 // flags next to MatmulParts, in kernels/matmul_blocks.h
)

// blocking is how a product is cut into blocks, in tiles.
type blocking struct {
	m, n, inner        int
	matrices           int
	one                bool // all left matrices are stacked to one
	narrow             bool
	perM, perN         int // the largest block
	step               int // indices of the inner dimension per multicast
	passSteps, passes  int
	subRows, subWidth  int       // of the part of a block that Dst has room for
	most               chip.Core // columns and rows of cores
	grid               chip.Range
	bias               bool
	flags              uint32
	leftBytes, outSize int // of a page
	rightBytes         int
}

// blocks cuts a product into blocks, or returns nil if the simple form is quicker.
//
// The blocks are as small as the grid allows, and halved while they don't fit into L1; then a core
// computes several in turn. With one right matrix, all left matrices are stacked to one unless they
// are transposed. Each tile is read from DRAM once for all blocks of a turn; in the simple form
// once for every four tiles of the result that need it.
//
// A step has as many inner indices as keep the engines busy for stepClocks, while the next ones
// arrive. Each half of Dst holds four sums of 32 bits; one is computed while the other is packed. A
// left tile stays in SrcB for all tiles of its row, so a part of a block is as wide as possible. As
// many steps as fit into blocksBudget make a pass. With several passes there is room for two, and
// sums of 32 bits are kept between them.
func (c *call) blocks(out *Tensor, a, b operand, bias *Tensor) (*blocking, error) {
	p := c.matmulProgram
	blocksOnly := b.spec.DType == BFloat8B
	switch {
	case p.Form > MatmulBlocked:
		return nil, shapeError("form %d: want MatmulAuto, MatmulSimple or MatmulBlocked", p.Form)
	case p.Form == MatmulSimple && !blocksOnly:
		return nil, p.ignored()
	}
	workers := c.q.Workers()
	wide, high := workers.End.X-workers.Start.X+1, workers.End.Y-workers.Start.Y+1
	k := &blocking{
		m: out.high, n: out.wide, inner: a.inner(), matrices: out.dims[0] * out.dims[1],
		bias: bias != nil, narrow: p.NarrowSums, flags: uint32(p.Skip & (MatmulReads | MatmulProducts | MatmulWrites)),
		most: chip.Core{X: wide, Y: high}, leftBytes: a.pageBytes, rightBytes: b.pageBytes, outSize: out.pageBytes,
	}
	k.flags |= flag(a.transposed)*blocksTransposedLeft | flag(b.transposed)*blocksTransposedRight
	if one := b.dims[0] * b.dims[1]; one == 1 && (bias == nil || bias.dims[0]*bias.dims[1] == 1) && !a.transposed {
		k.m, k.matrices, k.one = k.m*k.matrices, 1, true
	}
	if p.NarrowSums && (p.Form != MatmulBlocked || a.transposed || b.transposed) {
		return nil, shapeError("narrow sums: want the form MatmulBlocked, and operands that aren't transposed")
	}
	if t := [3]DataType{a.spec.DType, b.spec.DType, out.spec.DType}; p.NarrowSums &&
		t != [3]DataType{BFloat16, BFloat16, BFloat16} {
		return nil, typeError("narrow sums of %v and %v as %v: want BFloat16", t[0], t[1], t[2])
	}
	if min(p.PerCoreM, p.PerCoreN, p.InnerStep, p.PassSteps) < 0 {
		return nil, shapeError("%+v: want no negative number", p)
	}
	k.perM, k.perN = cmp.Or(p.PerCoreM, ceil(k.m, high)), cmp.Or(p.PerCoreN, ceil(k.n, wide))
	if p == (MatmulProgram{}) && !blocksOnly && !k.worthwhile() {
		return nil, nil
	}
	for err := k.cut(p); err != nil; err = k.cut(p) {
		switch {
		case p.PerCoreN == 0 && k.perN > 1 && (k.perN >= k.perM || p.PerCoreM != 0 || k.perM == 1):
			k.perN = ceil(k.perN, 2)
		case p.PerCoreM == 0 && k.perM > 1:
			k.perM = ceil(k.perM, 2)
		default:
			return nil, err
		}
	}
	k.grid = chip.Range{Start: workers.Start, End: chip.Core{
		X: workers.Start.X + min(wide, ceil(k.n, k.perN)) - 1,
		Y: workers.Start.Y + min(high, ceil(k.m, k.perM)) - 1,
	}}
	return k, nil
}

// ignored returns an error about fields that [MatmulSimple] doesn't take.
func (p MatmulProgram) ignored() error {
	var names []string
	v := reflect.ValueOf(p)
	for i := 1; i < v.NumField(); i++ {
		if !v.Field(i).IsZero() {
			names = append(names, "MatmulProgram."+v.Type().Field(i).Name)
		}
	}
	if names == nil {
		return nil
	}
	return &OptionError{"the form MatmulSimple", names, []string{"MatmulProgram.Form"}}
}

// worthwhile reports whether the product takes fewer clocks in blocks than in the simple form, by
// figures of bench ops on the vendor's simulator.
func (k *blocking) worthwhile() bool {
	tiles, cores := k.matrices*k.m*k.n, k.most.X*k.most.Y
	busy := min(tiles, cores)
	simple := max(ceil(tiles, busy)*tileClocks, readClocks*(tiles+ceil(tiles, matmulBlock)))
	inBlocks := max(k.matrices*k.perM*k.perN*tileClocks, readClocks*k.matrices*(k.m+k.n))
	return inBlocks*k.inner+blocksLatency < simple*k.inner+busy*argsClocks
}

// cut divides blocks into parts and the inner dimension into passes. It fails if the circular
// buffers don't fit into blocksBudget.
func (k *blocking) cut(p MatmulProgram) error {
	room := matmulBlock
	if k.narrow {
		room *= 2
	}
	k.subWidth = ceil(k.perN, ceil(k.perN, room))
	k.subRows = min(k.perM, room/k.subWidth)
	k.step = min(k.inner, cmp.Or(p.InnerStep, ceil(stepClocks, k.perM*k.perN*tileClocks)))
	steps := ceil(k.inner, k.step)
	for n := min(steps, cmp.Or(p.PassSteps, steps)); n > 0; n-- {
		k.passes = ceil(steps, n)
		k.passSteps = n
		if p.PassSteps == 0 {
			k.passSteps = ceil(steps, k.passes)
		}
		bytes := 0
		for _, r := range k.rings() {
			bytes += ceil(r.page, 64) * 64 * r.pages
		}
		if bytes <= blocksBudget && (p.PassSteps != 0 || k.passSteps*k.step >= min(passTiles, k.inner)) {
			return nil
		}
		if p.PassSteps != 0 {
			break
		}
	}
	return memoryError("blocks of %d by %d tiles in steps of %d take more than %d B of L1: want smaller ones", k.perM, k.perN,
		k.step, blocksBudget)
}

// partialBytes returns the size of a tile of sums that is kept between passes.
func (k *blocking) partialBytes() int {
	if k.narrow {
		return k.outSize
	}
	return tileSize * tileSize * Float32.Size()
}

// turns bounds the number of blocks that a core computes: 2 stands for several.
func (k *blocking) turns() int {
	if k.matrices > 1 || ceil(k.m, k.perM) > k.most.Y || ceil(k.n, k.perN) > k.most.X {
		return 2
	}
	return 1
}

// See kernels/matmul_blocks.h for rings and args.
func (k *blocking) rings() []ring {
	parts := ceil(k.perM, k.subRows) * ceil(k.perN, k.subWidth)
	sub := k.subRows * k.subWidth
	steps := min(2, k.passes*k.turns()) * k.passSteps * k.step
	r := []ring{{k.outSize, 2 * sub}, {k.leftBytes, steps * k.perM}, {k.rightBytes, steps * k.perN}}
	if k.flags&blocksTransposedLeft != 0 { // the tiles stay where they are turned
		r[1].pages = min(r[1].pages, 2*k.step*k.perM)
	}
	constants, bias := ring{}, ring{}
	if k.bias {
		constants, bias = ring{k.leftBytes, 1}, ring{k.leftBytes, k.perN}
	}
	r = append(r, constants, bias)
	if k.passes > 1 && parts > 1 {
		r = append(r, ring{k.partialBytes(), parts * sub})
	}
	if k.flags&blocksTransposedLeft != 0 {
		for len(r) < engineTurned {
			r = append(r, ring{})
		}
		r = append(r, ring{k.leftBytes, steps * k.perM})
	}
	return r
}

func (k *blocking) job(c *call, out *Tensor, a, b operand, bias *Tensor) (job, error) {
	args, err := k.args(c.d.dev)
	j := job{
		program: catalog.MatmulBlocks, function: string(c.activation), args: args, out: out, in: present(a.Tensor, b.Tensor, bias), grid: k.grid,
		buffers: k.rings(), semaphores: 4, transposed: [2]bool{a.transposed, b.transposed},
	}
	if k.narrow {
		j.program = catalog.MatmulNarrow
	}
	return j, err
}

func (k *blocking) args(d *reprise.Device) ([]uint32, error) {
	across, down := k.grid.End.X-k.grid.Start.X+1, k.grid.End.Y-k.grid.Start.Y+1
	args := words(
		down*k.perM, k.m, across*k.perN, k.n, k.matrices, int(flag(!k.one)),
		k.perM, k.perN, k.inner, k.step, k.passSteps, k.passes, k.subRows, k.subWidth, int(flag(k.bias)), int(k.flags),
		k.grid.Start.X, k.grid.Start.Y,
	)
	// A core's virtual x depends on its column only, and y on its row.
	var x, y uint32
	for i, at := range []chip.Core{
		k.grid.Start, {X: k.grid.Start.X + min(1, across-1), Y: k.grid.Start.Y + min(1, down-1)}, k.grid.End,
	} {
		v, err := d.Virtual(at)
		if err != nil {
			return nil, err
		}
		x, y = x|uint32(v.X)<<(6*i), y|uint32(v.Y)<<(6*i)
	}
	return append(args, x, y), nil
}
