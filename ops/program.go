package ops

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/allocator"
	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/kernels"
	"github.com/reprise-tt/reprise/ops/catalog"
)

// job is one run of a program of the catalog.
type job struct {
	c        *call
	program  *catalog.Program
	title    string // instead of the catalog's
	function string // FUNCTION of the engines' kernel
	out      *Tensor
	in       []*Tensor

	args       []uint32 // common arguments before those that describe tensors
	engineArgs []uint32 // of the engines' kernel on each core, after its first tile and number of tiles
	params     []uint32 // common arguments of all kernels before others; may differ from run to run
	numbers    []uint32 // common arguments of the engines' kernel after params; not in the program's key

	transposed [2]bool
	buffers    []ring     // by index
	pieces     int        // of work to divide among cores, if not the pages of out
	together   int        // consecutive pages of the result on one core; 0 is 1
	allCores   bool       // also workers without a page of the result
	grid       chip.Range // of a product in blocks
	semaphores int        // of a product in blocks, on each core
	sharded    []*Tensor  // hold the circular buffers: every core has a shard of each
}

// ring is a circular buffer: bytes of a page, 0 for a tile in the catalog's format, and number of
// pages, 0 for none.
type ring struct{ page, pages int }

func tiles(counts ...int) []ring {
	out := make([]ring, len(counts))
	for i, n := range counts {
		out[i].pages = n
	}
	return out
}

func words(n ...int) []uint32 {
	out := make([]uint32, len(n))
	for i, v := range n {
		out[i] = uint32(v)
	}
	return out
}

func flag(on bool) uint32 {
	if on {
		return 1
	}
	return 0
}

func rings(pages int, sizes ...int) []ring {
	out := make([]ring, len(sizes))
	for i, n := range sizes {
		out[i] = ring{n, pages}
	}
	return out
}

func (c *call) run(j job) error {
	if err := j.out.fits(j.program.Result); err != nil {
		return err
	}
	if j.out.empty() {
		return nil
	}
	for _, t := range j.in {
		if t.empty() {
			return shapeError("%v has no elements to compute %v from: leave the operation out", t.spec.Shape, j.out.spec.Shape)
		}
	}
	j.c = c
	return c.to.run(c.ctx, &j)
}

func (c *call) compute(name, class string, args argList, s Spec, f func(out *Tensor) job) (*Tensor, error) {
	return c.deviceOp(name, class, args, s, func(out *Tensor) error { return c.run(f(out)) })
}

func (j *job) executable() (*reprise.Executable, error) {
	c := j.c
	common := slices.Concat(j.params, j.args)
	if j.sharded == nil { // otherwise the kernel accesses tensors only as circular buffers
		var err error
		if common, err = describe(common, j.out, false); err != nil {
			return nil, err
		}
		for i, t := range j.in {
			if common, err = describe(common, t, i < 2 && j.transposed[i]); err != nil {
				return nil, err
			}
		}
	}
	key := j.key()
	if x, ok := c.d.cache[key]; ok {
		return x.Executable, j.set(x.Executable, common)
	}
	if err := c.to.refuse(&CacheMissError{Op: j.name(), Key: j.describeKey(), Err: reprise.ErrInCapture}); err != nil {
		return nil, err
	}
	on, shares := j.cores()
	p := &reprise.Program{Name: j.name(), CircularBuffers: j.circular(on)}
	for id := range j.semaphores {
		p.Semaphores = append(p.Semaphores, reprise.Semaphore{ID: id, Cores: on})
	}
	var err error
	if p.Kernels, err = j.kernels(on, shares, common); err != nil {
		return nil, err
	}
	x, err := c.d.dev.Load(c.ctx, p)
	if err != nil {
		return nil, err
	}
	c.d.lastLoad++
	c.d.cache[key] = loaded{x, c.d.lastLoad}
	return x, nil
}

func (j *job) planned() (buffers []reprise.CircularBuffer, placed bool) {
	on, _ := j.cores()
	return j.circular(on), j.sharded != nil
}

func (j *job) memory() []*reprise.Buffer {
	buffers := []*reprise.Buffer{j.out.buf}
	for _, t := range j.in {
		buffers = append(buffers, t.buf)
	}
	return buffers
}

func (j *job) parameter() (string, []reprise.Arg) {
	if j.c.param == "" {
		return "", nil
	}
	args := []reprise.Arg{{Kernel: j.program.Reader, Common: true}}
	if j.program.Engine != nil {
		for _, name := range j.images() {
			args = append(args, reprise.Arg{Kernel: name, Common: true})
		}
	}
	return j.c.param, args
}

func (j *job) engine() *catalog.Engine {
	if e := j.program.Engine; e == nil || j.transposed == [2]bool{} {
		return e
	}
	return j.program.Engine.Transposed
}

func (j *job) types() catalog.Types {
	t := catalog.Types{Result: j.out.spec.DType.format()}
	t.Left = t.Result // if there are no operands
	if len(j.in) > 0 {
		t.Left = j.in[0].spec.DType.format()
	}
	t.Right = t.Left
	if len(j.in) > 1 && j.in[1].spec.DType == BFloat8B {
		t.Right = kernels.BFP8
	}
	return t
}

func (j *job) images() [3]string {
	names := j.engine().Images(j.function, j.types())
	for i := range names {
		names[i] = "compute/" + names[i]
	}
	return names
}

// writer returns the kernel that writes the engines' results, or "".
func (j *job) writer() string {
	if j.program.Engine == nil || j.sharded != nil {
		return ""
	}
	return cmp.Or(j.program.Writer, catalog.TileWriter)
}

// byPlace reports whether each core knows its part by its place in the grid; then all kernels have
// all common arguments.
func (j *job) byPlace() bool { return j.semaphores > 0 }

func (j *job) kernels(on []chip.Range, shares map[chip.Core]share, common []uint32) ([]reprise.Kernel, error) {
	var list []reprise.Kernel
	add := func(name string, p chip.Processor, common, more []uint32) error {
		im, err := j.c.d.image(name)
		k := reprise.Kernel{Name: name, Image: im, Processor: p, Cores: on, Common: common}
		if !j.byPlace() {
			k.Args = func(at chip.Core) []uint32 { return append([]uint32{shares[at].first, shares[at].pages}, more...) }
		}
		list = append(list, k)
		return err
	}
	err := add(j.program.Reader, chip.BRISC, common, nil)
	if name := j.writer(); name != "" {
		err = errors.Join(err, add(name, chip.NCRISC, j.writerArgs(common), nil))
	}
	if j.program.Engine != nil {
		words := slices.Concat(j.params, j.numbers)
		if j.byPlace() {
			words = j.args
		}
		for i, name := range j.images() {
			err = errors.Join(err, add(name, chip.TRISC0+chip.Processor(i), words, j.engineArgs))
		}
	}
	return list, err
}

func (j *job) writerArgs(common []uint32) []uint32 {
	if j.byPlace() {
		return common
	}
	first := len(j.params) + len(j.args)
	return common[first : first+j.out.argWords()]
}

func (j *job) name() string {
	if name := cmp.Or(j.title, j.program.Title, j.function); name != "" || j.program.Engine == nil {
		return cmp.Or(name, j.program.Reader)
	}
	return j.engine().Name
}

func (j *job) set(x *reprise.Executable, common []uint32) error {
	for i, t := range j.sharded {
		if err := x.SetCircularAddr(i, t.buf.Addr()); err != nil {
			return err
		}
	}
	if name := j.writer(); name != "" {
		if err := x.SetCommonArgs(name, j.writerArgs(common)); err != nil {
			return err
		}
	}
	if words := slices.Concat(j.params, j.numbers); j.program.Engine != nil && len(words) > 0 {
		for _, name := range j.images() {
			if err := x.SetCommonArgs(name, words); err != nil {
				return err
			}
		}
	}
	return x.SetCommonArgs(j.program.Reader, common)
}

func (j *job) key() programKey {
	k := programKey{program: j.program, transposed: j.transposed != [2]bool{} && j.program.Engine != nil, function: j.function}
	k.kinds[0] = j.out.kind
	for i, t := range j.in {
		k.kinds[1+i] = t.kind
	}
	k.words[0] = uint32(len(j.args))
	n := 1 + copy(k.words[1:], j.args)
	if n += copy(k.words[n:], j.engineArgs); n < 1+len(j.args)+len(j.engineArgs) {
		k.more = fmt.Sprint(j.args, j.engineArgs)
	}
	return k
}

func (j *job) describeKey() string {
	text := fmt.Sprintf("%s;%v", j.program.Reader, j.args)
	if j.program.Engine != nil {
		text += fmt.Sprintf(";%s %s %v", j.engine().Name, j.function, j.engineArgs)
	}
	for _, t := range append([]*Tensor{j.out}, j.in...) {
		text += ";" + t.spec.String()
	}
	return text
}

func (c *call) isLoaded(j job) bool {
	_, ok := c.d.cache[j.key()]
	return ok
}

func (j *job) circular(on []chip.Range) []reprise.CircularBuffer {
	var out []reprise.CircularBuffer
	for i, t := range j.sharded {
		shard := t.sharding.Shard
		out = append(out, reprise.CircularBuffer{Index: i, Cores: on, PageSize: t.pageBytes, Pages: shard[0] * shard[1], Addr: t.Address()})
	}
	for i, r := range j.buffers {
		if r.pages == 0 {
			continue
		}
		if r.page == 0 {
			r.page = j.types().Format(j.engine().Buffers[i]).TileBytes()
		}
		out = append(out, reprise.CircularBuffer{Index: i, Cores: on, PageSize: ceil(r.page, 64) * 64, Pages: r.pages})
	}
	return out
}

// share is the pages of a result that one core computes.
type share struct{ first, pages uint32 }

func (j *job) cores() ([]chip.Range, map[chip.Core]share) {
	workers := j.c.q.Workers()
	switch {
	case j.sharded != nil:
		s, shares := j.out.sharding, map[chip.Core]share{}
		for _, r := range s.Cores {
			for c := range r.Cores() {
				shares[c] = share{0, uint32(s.Shard[0] * s.Shard[1])}
			}
		}
		return s.Cores, shares
	case j.byPlace():
		return []chip.Range{j.grid}, nil
	}
	on, shares := split(workers, cmp.Or(j.pieces, j.out.pages), max(j.together, 1))
	if j.allCores {
		on = []chip.Range{workers}
	}
	return on, shares
}

// split divides pages among cores, column by column, in multiples of together.
func split(workers chip.Range, pages, together int) ([]chip.Range, map[chip.Core]share) {
	width, height := workers.End.X-workers.Start.X+1, workers.End.Y-workers.Start.Y+1
	parts := pages / together
	n := min(parts, width*height)
	shares := make(map[chip.Core]share, n)
	for i := range n {
		first, next := parts*i/n*together, parts*(i+1)/n*together
		shares[chip.Core{X: workers.Start.X + i/height, Y: workers.Start.Y + i%height}] = share{uint32(first), uint32(next - first)}
	}
	at := workers.Start
	var on []chip.Range
	if full := n / height; full > 0 {
		on = append(on, chip.Range{Start: at, End: chip.Core{X: at.X + full - 1, Y: at.Y + height - 1}})
		at.X += full
	}
	if rest := n % height; rest > 0 {
		on = append(on, chip.Range{Start: at, End: chip.Core{X: at.X, Y: at.Y + rest - 1}})
	}
	return on, shares
}

func (t DataType) format() kernels.Format {
	switch t {
	case Float32:
		return kernels.FP32
	case Int32:
		return kernels.Int32
	case BFloat8B:
		return kernels.BFP8
	}
	return kernels.BF16
}

func onEngines(out *Tensor, in ...*Tensor) bool {
	return floatTiles(append(slices.Clip(in), out)...) == nil
}

func floatTiles(ts ...*Tensor) error {
	for _, t := range ts {
		if t.spec.Layout != Tile || !t.spec.DType.Float() {
			return t.unsupportedError()
		}
	}
	return nil
}

func inTiles(ts ...*Tensor) error {
	for _, t := range ts {
		if l := t.spec.Layout; l != Tile {
			return memoryError("a tensor in %v: want tiles (see ToLayout)", l)
		}
	}
	return nil
}

func (t *Tensor) unsupportedError() error {
	if s := t.spec; !s.DType.Float() {
		return typeError("%v: want BFloat16 or Float32", s.DType)
	}
	return inTiles(t)
}

func (t *Tensor) fits(set catalog.Tensors) error {
	switch {
	case set == catalog.FloatTiles, set == catalog.EngineTiles && !tilesForEngines(t):
		return floatTiles(t)
	case set == catalog.InTiles:
		return inTiles(t)
	}
	return nil
}

func tilesForEngines(ts ...*Tensor) bool {
	return !slices.ContainsFunc(ts, func(t *Tensor) bool { return t.spec.Layout != Tile || !floats(t) && t.spec.DType != Int32 })
}

// Flags of a tensor in kernels/tensor.h.
const (
	flagL1 = 1 << iota
	flagTile
	flagSharded
	flagTransposed // in kernels/transposed.h: of a product
)

// headerWords is the length of a tensor's description without the banks of shards;
// tensorStructBytes is the size of struct Tensor in kernels/tensor.h.
const headerWords, tensorStructBytes = 16, 72

func (g *geometry) argWords() int {
	if s := g.sharding; s != nil {
		return headerWords + ceil(ceil(s.Tensor[0], s.Shard[0])*ceil(g.wide, s.Shard[1]), 4)
	}
	return headerWords
}

// describe appends the description of a tensor to a kernel's common arguments.
func describe(args []uint32, t *Tensor, transposed bool) ([]uint32, error) {
	g, b := t.geometry, t.buf
	flags := flag(g.spec.Memory.Kind == allocator.L1)*flagL1 | flag(g.spec.Layout == Tile)*flagTile | flag(transposed)*flagTransposed
	var banks []uint32
	shard := [3]uint32{} // height and width in pages, and number of shards side by side
	if s := g.sharding; s != nil {
		flags |= flagSharded
		var err error
		if banks, err = shardBanks(g, b); err != nil {
			return nil, err
		}
		shard = [3]uint32{uint32(s.Shard[0]), uint32(s.Shard[1]), uint32(ceil(g.wide, s.Shard[1]))}
	}
	args = append(args, b.Addr(), uint32(g.pageBytes), b.PageStride(), flags,
		uint32(g.dims[0]), uint32(g.dims[1]), uint32(g.dims[2]), uint32(g.dims[3]),
		uint32(g.pageWidth), uint32(g.wide), uint32(g.high), shard[0], shard[1], shard[2], uint32(g.spec.DType), uint32(len(banks)))
	return append(args, banks...), nil
}

func shardBanks(g *geometry, b *reprise.Buffer) ([]uint32, error) {
	s := g.sharding
	var words []uint32
	n := 0
	for row := 0; row < s.Tensor[0]; row += s.Shard[0] {
		for column := 0; column < g.wide; column += s.Shard[1] {
			p, ok := b.Page(row*g.wide + column)
			if !ok || p.Addr != b.Addr() || p.Bank > 0xFF {
				return nil, memoryError("the shard at page row %d is at %+v, not at the start of a bank from 0 to 255", row, p)
			}
			if n%4 == 0 {
				words = append(words, 0)
			}
			words[n/4] |= uint32(p.Bank) << (n % 4 * 8)
			n++
		}
	}
	return words, nil
}

// sameShards reports whether tensors of one data type have the same full shards in L1, so that each
// core can compute its shards in place.
func sameShards(out *Tensor, in ...*Tensor) bool {
	g := out.geometry
	s := g.sharding
	if s == nil || g.spec.Memory.Kind != allocator.L1 || g.pageBytes%64 != 0 { // pages in a bank are aligned to 64
		return false
	}
	cores := 0
	for _, r := range s.Cores {
		cores += r.Size()
	}
	full := s.Tensor[0]%s.Shard[0] == 0 && s.Tensor[1]%s.Shard[1] == 0
	if !full || s.Tensor[0]/s.Shard[0]*(s.Tensor[1]/s.Shard[1]) != cores {
		return false
	}
	return !slices.ContainsFunc(in, func(t *Tensor) bool { return t.kind != g.kind })
}

func (c *call) hasShards(t *Tensor) bool {
	workers := c.q.Workers()
	outside := func(r chip.Range) bool { return !workers.Contains(r.Start) || !workers.Contains(r.End) }
	return !slices.ContainsFunc(t.sharding.Cores, outside)
}

func (c *call) runInShards(op uint32, out *Tensor, in ...*Tensor) error {
	tensors := []*Tensor{out}
	var at []uint32 // the circular buffer of each operand
	for _, t := range in {
		i := slices.IndexFunc(tensors, t.overlaps)
		if i < 0 {
			i, tensors = len(tensors), append(tensors, t)
		}
		at = append(at, uint32(i))
	}
	g := out.geometry
	if onEngines(out, in...) {
		j := job{program: catalog.BinaryInShards, args: words(len(tensors) - 1), out: out, in: in, sharded: tensors}
		if op == opRelu {
			j.program, j.function = catalog.UnaryInShards, "relu"
		} else {
			j.engineArgs = []uint32{op, at[len(at)-1]}
		}
		return c.run(j)
	}
	elements := g.sharding.Shard[0] * g.sharding.Shard[1] * g.pageBytes / g.spec.DType.Size()
	return c.run(job{
		program: catalog.Shards, args: []uint32{op, uint32(g.spec.DType), uint32(elements), at[0], at[len(at)-1]}, out: out, in: in,
		sharded: tensors,
	})
}
