package ops

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/allocator"
	"github.com/reprise-tt/reprise/chip"
)

// job is one run of a program. Its kernel computes the result or, for a kernel of the engines, reads the operands.
type job struct {
	title  string // name of the program, if it isn't the kernel's that computes
	kernel string
	args   []uint32 // common arguments before those of the tensors
	params []uint32 // common arguments before these, and all of the engines' kernels: what may differ from run to run
	pieces int      // what cores share, if not the pages of out
	out    *Tensor
	in     []*Tensor

	transposed [2]bool // of a product, which operands are

	engine   *engineKernel // computes what kernel reads, or nil
	writer   string        // of what engine leaves, if not kernelTileWriter
	numbers  []uint32      // common arguments of engine after varied, which the program doesn't depend on
	buffers  []ring        // circular buffers by index
	blocks   *blocking     // of a product that is computed in blocks, or nil
	allCores bool          // the program is on all workers, not only on those with a page of the result
	together int           // pages of the result that follow one another on one core; 0 is 1
	sharded  []*Tensor     // place the circular buffers in these tensors instead: every core has a shard of each
}

// ring is the size of a circular buffer: bytes of a page, and number of pages, 0 if there is no such buffer.
type ring struct{ page, pages int }

// rings returns circular buffers of so many pages each.
func rings(pages int, sizes ...int) []ring {
	out := make([]ring, len(sizes))
	for i, n := range sizes {
		out[i] = ring{n, pages}
	}
	return out
}

// run submits a job to the queue or records it in the trace. It takes the program from the program cache, or loads it.
func (c *call) run(j job) error {
	d := c.d
	on, shares := split(d.q.Workers(), cmp.Or(j.pieces, j.out.geo.pages), max(j.together, 1))
	switch {
	case j.sharded != nil:
		on, shares = inShards(j.out.geo.sharding)
	case j.blocks != nil:
		on = []chip.Range{j.blocks.grid}
	case j.allCores:
		on = []chip.Range{d.q.Workers()}
	}
	if d.captures.noDispatch() {
		d.captures.program(d, j.circular(on), j.sharded != nil)
		return nil
	}
	if c.param != "" && j.params == nil {
		return fmt.Errorf("%w: %s has no argument that could be parameter %q", ErrNoParam, j.name(), c.param)
	}
	common := slices.Concat(j.params, j.args)
	buffers := []*reprise.Buffer{}
	for i, t := range append([]*Tensor{j.out}, j.in...) {
		buffers = append(buffers, t.buf)
		if j.sharded != nil {
			continue // the kernel accesses tensors only as circular buffers
		}
		var err error
		at := len(common)
		if common, err = describe(common, t); err != nil {
			return err
		}
		if 1 <= i && i <= 2 && j.transposed[i-1] {
			common[at+flagsWord] |= flagTransposed
		}
	}
	x, err := c.program(&j, on, shares, common)
	if err != nil {
		return err
	}
	d.captures.run(d.id, x)
	if d.rec == nil {
		return d.q.Run(c.ctx, x)
	}
	if err := d.rec.Run(x); err != nil {
		return err
	}
	d.captures.record(x)
	if c.param != "" {
		if err := d.rec.Param(c.param, j.paramArgs()...); err != nil {
			return err
		}
	}
	return d.rec.Keep(buffers...)
}

// program returns the program of a job from the cache, with this job's arguments, or loads it.
func (c *call) program(j *job, on []chip.Range, shares map[chip.Core]share, common []uint32) (*reprise.Executable, error) {
	d, key := c.d, j.key()
	if x := d.cache[key]; x != nil {
		return x, j.set(x, common)
	}
	if err := d.refuseLocked(&CacheMissError{Op: j.name(), Key: key, Err: reprise.ErrInCapture}); err != nil {
		return nil, err
	}
	p := &reprise.Program{Name: j.name(), CircularBuffers: j.circular(on)}
	var err error
	if j.blocks != nil {
		p.Semaphores = j.blocks.semaphores()
		p.Kernels, err = j.blocks.kernels(c, j, common)
	} else {
		p.Kernels, err = c.kernels(j, on, shares, common)
	}
	if err != nil {
		return nil, err
	}
	x, err := d.dev.Load(c.ctx, p)
	if err != nil {
		return nil, err
	}
	d.cache[key] = x
	return x, nil
}

// kernels returns the kernels of a job's program.
func (c *call) kernels(j *job, on []chip.Range, shares map[chip.Core]share, common []uint32) ([]reprise.Kernel, error) {
	var list []reprise.Kernel
	add := func(name string, p chip.Processor, common, more []uint32) error {
		im, err := c.d.image(name)
		list = append(list, reprise.Kernel{
			Name: name, Image: im, Processor: p, Cores: on, Common: common,
			Args: func(at chip.Core) []uint32 { return append([]uint32{shares[at].first, shares[at].pages}, more...) },
		})
		return err
	}
	err := add(j.kernel, chip.BRISC, common, nil)
	if j.engine == nil {
		return list, err
	}
	if j.sharded == nil {
		err = errors.Join(err, add(cmp.Or(j.writer, kernelTileWriter), chip.NCRISC, j.result(common), nil))
	}
	for i, name := range j.images() {
		err = errors.Join(err, add(name, chip.TRISC0+chip.Processor(i), j.engineCommon(), j.engine.args))
	}
	return list, err
}

// images returns the names of the engines' kernels.
func (j *job) images() [3]string {
	in := append(slices.Clip(j.in), j.out) // the result alone, if there are no operands
	right := in[min(1, max(len(j.in)-1, 0))]
	return j.engine.images(in[0].geo.spec.DType, right.geo.spec.DType, j.out.geo.spec.DType)
}

// engineCommon returns the common arguments of the engines' kernels.
func (j *job) engineCommon() []uint32 { return slices.Concat(j.params, j.numbers) }

// paramArgs returns the first of the arguments that may differ from run to run, in all kernels.
func (j *job) paramArgs() []reprise.Arg {
	args := []reprise.Arg{{Kernel: j.kernel, Common: true}}
	if j.engine != nil {
		for _, name := range j.images() {
			args = append(args, reprise.Arg{Kernel: name, Common: true})
		}
	}
	return args
}

// name returns the name of the kernel that computes.
func (j *job) name() string {
	switch {
	case j.title != "":
		return j.title
	case j.engine == nil:
		return j.kernel
	case j.engine.function != "":
		return j.engine.function
	}
	return j.engine.name
}

// result returns those common arguments that describe the result.
func (j *job) result(common []uint32) []uint32 {
	first := len(j.params) + len(j.args)
	return common[first : first+j.out.geo.argWords()]
}

// set points a loaded program to this job's tensors.
func (j *job) set(x *reprise.Executable, common []uint32) error {
	for i, t := range j.sharded {
		if err := x.SetCircularAddr(i, t.buf.Addr()); err != nil {
			return err
		}
	}
	switch {
	case j.blocks != nil:
		if err := x.SetCommonArgs(kernelMatmulRight, common); err != nil {
			return err
		}
	case j.engine != nil && j.sharded == nil:
		if err := x.SetCommonArgs(cmp.Or(j.writer, kernelTileWriter), j.result(common)); err != nil {
			return err
		}
	}
	if words := j.engineCommon(); j.engine != nil && len(words) > 0 {
		for _, name := range j.images() {
			if err := x.SetCommonArgs(name, words); err != nil {
				return err
			}
		}
	}
	return x.SetCommonArgs(j.kernel, common)
}

// key identifies the program in the cache. Addresses are not part of it: each run sets its own.
func (j *job) key() string {
	parts := []string{j.kernel, fmt.Sprint(j.args)}
	if j.engine != nil {
		parts = append(parts, fmt.Sprint(*j.engine))
	}
	if j.blocks != nil {
		parts = append(parts, fmt.Sprint(*j.blocks))
	}
	for _, t := range append([]*Tensor{j.out}, j.in...) {
		parts = append(parts, t.geo.spec.String())
	}
	return strings.Join(parts, ";")
}

// circular returns the circular buffers: in the shards of tensors, or of their own.
func (j *job) circular(on []chip.Range) []reprise.CircularBuffer {
	if j.sharded != nil {
		out := make([]reprise.CircularBuffer, len(j.sharded))
		for i, t := range j.sharded {
			shard := t.geo.sharding.Shard
			out[i] = reprise.CircularBuffer{Index: i, Cores: on, PageSize: t.geo.pageBytes, Pages: shard[0] * shard[1], Addr: t.Address()}
		}
		return out
	}
	var out []reprise.CircularBuffer
	for i, r := range j.buffers {
		if r.pages == 0 {
			continue
		}
		out = append(out, reprise.CircularBuffer{Index: i, Cores: on, PageSize: ceil(r.page, 64) * 64, Pages: r.pages})
	}
	return out
}

// share is the pages of a result that one core computes.
type share struct{ first, pages uint32 }

// inShards returns the cores of shards, and the share of each: its shard.
func inShards(s *allocator.ShardSpec) ([]chip.Range, map[chip.Core]share) {
	shares := map[chip.Core]share{}
	for _, r := range s.Cores {
		for c := range r.Cores() {
			shares[c] = share{0, uint32(s.Shard[0] * s.Shard[1])}
		}
	}
	return s.Cores, shares
}

// split divides the pages of a result among cores, column by column; so many of them stay together. It returns the cores that have
// pages, and their shares.
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
