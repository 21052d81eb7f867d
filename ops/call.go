package ops

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/ops/graph"
)

// OpOption changes what an operation gives.
type OpOption func(*result)

type result struct {
	memory *MemoryConfig
	dtype  *DataType
	into   *Tensor
}

// WithMemoryConfig says where the result is. Without it, it is where the first operand is, as far as its shards fit.
func WithMemoryConfig(m MemoryConfig) OpOption { return func(r *result) { r.memory = &m } }

// WithDataType gives the result of a matmul another data type than its operands have: another integer, or another float.
func WithDataType(t DataType) OpOption { return func(r *result) { r.dtype = &t } }

// Into puts the result into a tensor that exists, instead of a new one. It has the result's shape and data type.
func Into(t *Tensor) OpOption { return func(r *result) { r.into = t } }

// call is an operation under way, from the call of the user on.
type call struct {
	ctx context.Context
	d   *Device
	result
}

// ours marks the contexts of an operation's own transfers and runs, of which graphs know already.
type ours struct{}

// do makes a call of the user: name is the function in graphs, in are the tensors that it uses.
func (d *Device) do(ctx context.Context, name string, in []*Tensor, args func() []graph.Arg, f func(*call) (*Tensor, error), opts ...OpOption) (*Tensor, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	c := &call{ctx: context.WithValue(ctx, ours{}, true), d: d}
	for _, o := range opts {
		o(&c.result)
	}
	if c.into != nil {
		if slices.Contains(in, c.into) {
			return nil, fmt.Errorf("ops: %s: %w: the result can't go into an operand", name, ErrMemory)
		}
		in = append(slices.Clip(in), c.into)
	}
	for _, t := range in {
		if err := t.of(d); err != nil {
			return nil, fmt.Errorf("ops: %s: %w", name, err)
		}
	}
	t, err := c.function(name, args, func() (*Tensor, error) {
		t, err := f(c)
		if err == nil && d.block && d.rec == nil && !d.live.blocked() {
			err = d.q.Finish(c.ctx)
		}
		if err != nil {
			d.live.failed(name, err)
		}
		return t, err
	})
	if err != nil {
		var miss *CacheMissError
		if errors.As(err, &miss) {
			return nil, err
		}
		return nil, fmt.Errorf("ops: %s: %w", name, err)
	}
	return t, nil
}

// function makes a call that graphs show and Observers hear of. One that hangs has no end in graphs.
func (c *call) function(name string, args func() []graph.Arg, f func() (*Tensor, error)) (*Tensor, error) {
	return c.observed(name, func() []string { return words(args()) }, func() (*Tensor, error) { return c.captured(name, args, f) })
}

// words are arguments as text.
func words(args []graph.Arg) []string {
	out := make([]string, len(args))
	for i, a := range args {
		out[i] = a.Text
	}
	return out
}

// captured makes a call that graph captures hear of.
func (c *call) captured(name string, args func() []graph.Arg, f func() (*Tensor, error)) (*Tensor, error) {
	l := &c.d.live
	if !l.active() {
		return f()
	}
	l.begin(name, args())
	t, err := f()
	var h *reprise.HangError
	switch {
	case errors.As(err, &h):
	case err != nil || t == nil:
		l.end()
	default:
		l.end(t.graph())
	}
	return t, err
}

// deviceOp makes the result and computes it by one program. class is what TT-NN's own class for it is called.
func (c *call) deviceOp(name, class string, args func() []graph.Arg, s Spec, run func(out *Tensor) error) (*Tensor, error) {
	if c.d.separate {
		class = "Device Operation"
	}
	return c.function(name, args, func() (*Tensor, error) {
		return c.function(class, func() []graph.Arg { return []graph.Arg{text(name), text(shapeText(s.Shape))} }, func() (*Tensor, error) {
			out, err := c.output(s)
			if err != nil {
				return nil, err
			}
			if err := run(out); err != nil {
				if c.into == nil {
					err = c.undo(err, out)
				}
				return nil, err
			}
			return out, nil
		})
	})
}

// output is the tensor that the result goes into.
func (c *call) output(s Spec) (*Tensor, error) {
	t := c.into
	if t == nil {
		return c.create(s)
	}
	if have := t.geo.spec; !slices.Equal(have.Shape, s.Shape) || have.DType != s.DType {
		return nil, fmt.Errorf("%w: the result is %v of %v, and it should go into %v of %v", ErrShape, s.Shape, s.DType, have.Shape, have.DType)
	}
	return t, nil
}

// create allocates a tensor.
func (c *call) create(s Spec) (*Tensor, error) {
	g, err := s.measure()
	if err != nil {
		return nil, err
	}
	return c.function(c.d.creation(), func() []graph.Arg { return specArgs(s, c.d.id) }, func() (*Tensor, error) {
		c.d.next++
		t := &Tensor{d: c.d, id: c.d.next, geo: g}
		cfg := g.config(fmt.Sprintf("tensor %d", t.id))
		if c.d.live.blocked() {
			var err error
			t.plan, err = c.d.live.allocate(c.d, g, cfg)
			return t, err
		}
		b, err := c.d.dev.NewBuffer(cfg)
		if err != nil {
			return nil, err
		}
		t.buf = b
		return t, nil
	})
}

// undo gives a tensor up because of an error, and returns it.
func (c *call) undo(err error, t *Tensor) error {
	if free := t.release(); free != nil {
		return errors.Join(err, free)
	}
	return err
}

// memoryLike is where a result goes if the caller doesn't say: where an operand is. If the operand's shards are for another
// shape or layout, it is interleaved in the same memory.
func (c *call) memoryLike(t *Tensor, shape []int, l Layout) MemoryConfig {
	s := t.geo.spec
	switch {
	case c.memory != nil:
		return c.memory.clone()
	case s.Memory.Shard != nil && (l != s.Layout || !slices.Equal(shape, s.Shape)):
		return Interleaved(s.Memory.Kind)
	}
	return s.Memory
}

// job is a program on its way to the device.
type job struct {
	kernel string
	args   []uint32 // common ones before the tensors
	out    *Tensor
	in     []*Tensor
	rooms  []int     // bytes of each circular buffer's page
	all    bool      // the circular buffers are on all cores, also those without a page
	pages  int       // of each circular buffer; 2 if 0
	lies   []*Tensor // what circular buffers lie in, instead of rooms: every core has a shard of each
}

// run puts a program into the queue or the trace, from the program cache if it is there.
func (c *call) run(j job) error {
	d := c.d
	on, shares := split(d.q.Workers(), j.out.geo.pages)
	switch {
	case j.lies != nil:
		on = j.out.geo.sharding.Cores
	case j.all:
		on = []reprise.Range{d.q.Workers()}
	}
	if d.live.blocked() {
		d.live.program(d.id, j.circular(on), j.lies != nil)
		return nil
	}
	common := slices.Clone(j.args)
	buffers := []*reprise.Buffer{}
	for _, t := range append([]*Tensor{j.out}, j.in...) {
		buffers = append(buffers, t.buf)
		if j.lies != nil {
			continue // its circular buffers are all that the kernel needs
		}
		var err error
		if common, err = describe(common, t); err != nil {
			return err
		}
	}
	key := j.key()
	x := d.cache[key]
	if x == nil {
		im, err := d.image(j.kernel)
		if err != nil {
			return err
		}
		x, err = d.dev.Load(c.ctx, &reprise.Program{
			Name: j.kernel,
			Kernels: []reprise.Kernel{{
				Name: j.kernel, Image: im, Processor: reprise.BRISC, Cores: on, Common: common,
				Args: func(at reprise.Core) []uint32 { s := shares[at]; return []uint32{s.first, s.pages} },
			}},
			CircularBuffers: j.circular(on),
		})
		if errors.Is(err, reprise.ErrInCapture) {
			return &CacheMissError{Op: j.kernel, Key: key, Err: err}
		}
		if err != nil {
			return err
		}
		d.cache[key] = x
	} else if err := j.set(x, common); err != nil {
		return err
	}
	d.live.run(d.id, x)
	if d.rec == nil {
		return d.q.Run(c.ctx, x)
	}
	if err := d.rec.Run(x); err != nil {
		return err
	}
	return d.rec.Keep(buffers...)
}

// set makes a program that is loaded use this job's tensors.
func (j *job) set(x *reprise.Executable, common []uint32) error {
	for i, t := range j.lies {
		if err := x.SetCircularAddr(i, t.buf.Addr()); err != nil {
			return err
		}
	}
	return x.SetCommonArgs(j.kernel, common)
}

// key tells programs apart. Addresses aren't in it: every run has its own.
func (j *job) key() string {
	parts := []string{j.kernel, fmt.Sprint(j.args)}
	for _, t := range append([]*Tensor{j.out}, j.in...) {
		parts = append(parts, t.geo.spec.String())
	}
	return strings.Join(parts, ";")
}

// circular lists the circular buffers: those that lie in shards, or the room that the kernel needs in L1.
func (j *job) circular(on []reprise.Range) []reprise.CircularBuffer {
	if j.lies != nil {
		out := make([]reprise.CircularBuffer, len(j.lies))
		for i, t := range j.lies {
			shard := t.geo.sharding.Shard
			out[i] = reprise.CircularBuffer{Index: i, Cores: on, PageSize: t.geo.pageBytes, Pages: shard[0] * shard[1], Addr: t.Address()}
		}
		return out
	}
	out := make([]reprise.CircularBuffer, len(j.rooms))
	pages := j.pages
	if pages == 0 {
		pages = 2
	}
	for i, n := range j.rooms {
		out[i] = reprise.CircularBuffer{Index: i, Cores: on, PageSize: ceil(n, 64) * 64, Pages: pages}
	}
	return out
}

// share is a core's part of the pages of a result.
type share struct{ first, pages uint32 }

// split deals pages to cores, column by column: the ranges of those that have some, and each one's share.
func split(workers reprise.Range, pages int) ([]reprise.Range, map[reprise.Core]share) {
	width, height := workers.End.X-workers.Start.X+1, workers.End.Y-workers.Start.Y+1
	n := min(pages, width*height)
	shares := make(map[reprise.Core]share, n)
	for i := range n {
		first, next := pages*i/n, pages*(i+1)/n
		shares[reprise.Core{X: workers.Start.X + i/height, Y: workers.Start.Y + i%height}] = share{uint32(first), uint32(next - first)}
	}
	at := workers.Start
	var on []reprise.Range
	if full := n / height; full > 0 {
		on = append(on, reprise.Range{Start: at, End: reprise.Core{X: at.X + full - 1, Y: at.Y + height - 1}})
		at.X += full
	}
	if rest := n % height; rest > 0 {
		on = append(on, reprise.Range{Start: at, End: reprise.Core{X: at.X, Y: at.Y + rest - 1}})
	}
	return on, shares
}
