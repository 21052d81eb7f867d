package ops

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/allocator"
	"github.com/reprise-tt/reprise/ops/graph"
)

// call is an operation that is running.
type call struct {
	ctx context.Context
	d   *Device
	q   *reprise.Queue
	rec *recording
	to  runner
	result
	quiet  bool      // no observer and no graph capture is active
	copies int       // of operands in scratch memory, by expanded
	others []*Tensor // results after the first one, for graphs: set when the functions inside have ended
}

// takesBlocks are the operations that take tensors of BFloat8B, by their names in graphs.
var takesBlocks = []string{"ttnn::matmul", "ttnn::linear", "ttnn::from_device", "ttnn::copy_host_to_device_tensor"}

// fourDimensions are the operations for which each dimension has a meaning, by their names in
// graphs.
var fourDimensions = []string{
	"ttnn::conv2d", "ttnn::max_pool2d", "ttnn::transformer::scaled_dot_product_attention", "ttnn::transformer::scaled_dot_product_attention_decode",
	"ttnn::experimental::rotary_embedding", "ttnn::experimental::nlp_create_qkv_heads", "ttnn::experimental::nlp_concat_heads",
	"ttnn::update_cache", "ttnn::fill_cache",
}

// do runs an operation for the user. The tensors among args must be usable.
func (d *Device) do(ctx context.Context, name string, args argList, f func(*call) (*Tensor, error), opts ...OpOption) (*Tensor, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	t, err := d.doLocked(ctx, name, args, f, opts)
	if err == nil {
		return t, nil
	}
	if _, miss := errors.AsType[*CacheMissError](err); miss {
		return nil, err
	}
	return nil, &opError{name, err}
}

func (d *Device) doLocked(ctx context.Context, name string, args argList, f func(*call) (*Tensor, error),
	opts []OpOption) (*Tensor, error) {
	q, err := d.queue(ctx)
	if err != nil {
		return nil, err
	}
	rec, _ := ctx.Value(recordingOf{d}).(*recording)
	c := &call{ctx: context.WithValue(ctx, internalCall{}, true), d: d, q: q, rec: rec, result: optionsOf(opts)}
	c.to = c.runner()
	c.quiet = len(d.observers) == 0 && !d.captures.active()
	if err := c.checkOptions(name); err != nil {
		return nil, err
	}
	check := func(t *Tensor) error {
		if err := t.checkLocked(d); err != nil {
			return err
		}
		if t.spec.DType == BFloat8B && !slices.Contains(takesBlocks, name) {
			return typeError("%v is for the right operand of a product", BFloat8B)
		}
		if len(t.spec.Shape) > 4 && slices.Contains(fourDimensions, name) {
			return shapeError("%v: want up to 4 dimensions (see Reshape)", t.spec.Shape)
		}
		return nil
	}
	others := make([]*Tensor, 0, 8)
	for t := range args.tensors {
		if err := check(t); err != nil {
			return nil, err
		}
		others = append(others, t)
	}
	results := c.each
	if c.into != nil {
		results = append(results, c.into)
	}
	for _, t := range results {
		if err := check(t); err != nil {
			return nil, err
		}
		if i := slices.IndexFunc(others, t.overlaps); i >= 0 {
			return nil, &OverlapError{t, others[i]}
		}
		if s := t.spec; c.memory != nil && !c.memory.Equal(s.Memory) || c.layout != nil && *c.layout != s.Layout {
			return nil, memoryError("the options ask for another place than that of tensor %d, which is in %v, %v: leave them out",
				t.id, s.Layout, s.Memory)
		}
		others = append(others, t)
	}
	return c.function(name, args, func() (*Tensor, error) {
		t, err := f(c)
		if err = c.to.finish(c.ctx, err); err != nil {
			d.captures.failed(name, err)
		}
		return t, err
	})
}

// function runs a function and records it for graphs and Observers.
func (c *call) function(name string, args argList, f func() (*Tensor, error)) (*Tensor, error) {
	if c.quiet {
		return f()
	}
	before, captures := c.ctx, &c.d.captures
	ctx, end := c.d.observers.begin(before, c.d.id, name, args.texts)
	c.ctx = ctx
	active := captures.active()
	if active {
		captures.begin(name, args.graph())
	}
	t, err := f()
	if active {
		var out []*graph.Tensor
		if err == nil && t != nil {
			for _, o := range append([]*Tensor{t}, c.others...) {
				out = append(out, o.graph())
			}
		}
		captures.end(err, out...)
	}
	end(err)
	c.ctx = before
	return t, err
}

// deviceOp allocates the result and computes it with one program. class is TT-NN's of the
// operation.
func (c *call) deviceOp(name, class string, args argList, s Spec, run func(out *Tensor) error) (*Tensor, error) {
	inside := func() (*Tensor, error) {
		out, err := c.output(s)
		if err != nil {
			return nil, err
		}
		if err := run(out); err != nil {
			if c.into == nil {
				err = release(err, out)
			}
			return nil, err
		}
		return out, nil
	}
	if c.quiet {
		return inside()
	}
	if c.d.separateRepeat {
		class = "Device Operation"
	}
	prim := "ttnn::prim::" + name
	return c.function(prim, args, func() (*Tensor, error) { return c.function(class, argList{prim, s.Shape}, inside) })
}

func (c *call) output(s Spec) (*Tensor, error) {
	t := c.into
	if t == nil {
		return c.create(s)
	}
	if have := t.spec; !slices.Equal(have.Shape, s.Shape) || have.DType != s.DType {
		return nil, shapeError("the result is %v of %v, and it should go into %v of %v", s.Shape, s.DType, have.Shape, have.DType)
	}
	return t, nil
}

func (c *call) create(s Spec) (*Tensor, error) {
	g, err := s.geometry()
	if err != nil {
		return nil, err
	}
	inside := func() (*Tensor, error) {
		c.d.lastID++
		t := &Tensor{d: c.d, id: c.d.lastID, geometry: g}
		return t, c.to.allocate(t, g.config(fmt.Sprintf("tensor %d", t.id)))
	}
	if c.quiet {
		return inside()
	}
	return c.function(c.d.createName(), specArgs(s, c.d.id), inside)
}

// release releases tensors and returns err with the errors of that.
func release(err error, ts ...*Tensor) error {
	for _, t := range ts {
		err = errors.Join(err, t.releaseLocked())
	}
	return err
}

// memoryLike returns the memory configuration of a result: the option's, or the operand's. If the
// operand's shards are for another shape or layout, the result is interleaved in the same memory.
func (c *call) memoryLike(t *Tensor, shape []int, l Layout) MemoryConfig {
	s := t.spec
	if s.Memory.Shard != nil && (l != s.Layout || !slices.Equal(shape, s.Shape)) {
		s.Memory = Interleaved(s.Memory.Kind)
	}
	return c.memoryOr(s.Memory)
}

// place sets the memory configuration of a result by [call.memoryLike].
func (c *call) place(s *Spec, like *Tensor) { s.Memory = c.memoryLike(like, s.Shape, s.Layout) }

func (c *call) like(t *Tensor) Spec { return c.shaped(t, t.Shape()) }

func (c *call) shaped(t *Tensor, shape []int) Spec {
	s := t.spec
	s.Shape = shape
	c.place(&s, t)
	return s
}

func (c *call) memoryOr(m MemoryConfig) MemoryConfig {
	if c.memory != nil {
		return c.memory.clone()
	}
	return m
}

func (c *call) checkEach(results int) error {
	if c.each != nil && len(c.each) != results {
		return shapeError("there are %d results, and %d tensors to write them to: see IntoEach", results, max(len(c.each), 1))
	}
	return nil
}

// results makes results one by one, in the tensors of IntoEach if there are any.
func (c *call) results(out []*Tensor, f func(i int) (*Tensor, error)) (err error) {
	defer func() { c.into = nil }()
	for i := range out {
		if c.each != nil {
			c.into = c.each[i]
		}
		if out[i], err = f(i); err != nil {
			if c.each == nil {
				err = release(err, out[:i]...)
			}
			return err
		}
	}
	return nil
}

// scratch returns a tensor in DRAM, one for each slot, for data between the programs of an
// operation.
func (c *call) scratch(slot int, s Spec) (*Tensor, error) {
	s.Memory = Interleaved(allocator.DRAM)
	g, err := s.geometry()
	if err != nil {
		return nil, err
	}
	key := scratchKey{c.q.ID(), slot, g.kind}
	if t := c.d.scratch[key]; t != nil {
		return t, nil
	}
	miss := &CacheMissError{Op: "scratch", Key: fmt.Sprintf("scratch %d of %v", slot, s), Err: reprise.ErrInCapture}
	if err := c.to.refuse(miss); err != nil {
		return nil, err
	}
	t, err := c.create(s)
	if err == nil {
		c.to.keep(key, t)
	}
	return t, err
}

func (c *call) leaving(t *Tensor, f func() (*Tensor, error)) error {
	own := c.result
	c.result = result{into: t}
	_, err := f()
	c.result = own
	return err
}

// runner carries an operation's effects out: at once, in the trace under capture, or not at all.
// Its methods need Device.mu held.
type runner interface {
	allocate(t *Tensor, cfg reprise.BufferConfig) error
	// keep keeps a scratch tensor for later operations.
	keep(k scratchKey, t *Tensor)
	// refuse returns err if the device's memory can't change now.
	refuse(err error) error
	run(ctx context.Context, w work) error
	write(ctx context.Context, t *Tensor, content func() []byte) error
	// read returns nil if the tensor has no content.
	read(ctx context.Context, t *Tensor, pages []byte) (*reprise.Pending, error)
	// finish ends the operation, which failed with an error unless it is nil.
	finish(ctx context.Context, err error) error
}

type work interface {
	executable() (*reprise.Executable, error)
	// planned returns the circular buffers of a program that isn't loaded, and whether they lie in
	// tensors.
	planned() (buffers []reprise.CircularBuffer, placed bool)
	memory() []*reprise.Buffer
	// parameter returns the name of the program's trace parameter, or "", and its arguments.
	parameter() (string, []reprise.Arg)
}

func (c *call) runner() runner {
	now := eager{c.d, c.q}
	model, _ := c.ctx.Value(modelOf{c.d}).(*Model)
	switch {
	case c.d.captures.noDispatch():
		return &plan{d: c.d}
	case model != nil && c.rec != nil:
		return performance{traced{now, c.rec}, model}
	case model != nil:
		return rehearsal{now, model}
	case c.rec != nil:
		return traced{now, c.rec}
	}
	return now
}

type eager struct {
	d *Device
	q *reprise.Queue
}

func (r eager) allocate(t *Tensor, cfg reprise.BufferConfig) (err error) {
	t.buf, err = r.d.dev.NewBuffer(cfg)
	return err
}

func (r eager) keep(k scratchKey, t *Tensor) { r.d.scratch[k] = t }

func (r eager) refuse(error) error { return nil }

func (r eager) run(ctx context.Context, w work) error {
	x, err := w.executable()
	if err != nil {
		return err
	}
	r.d.captures.run(x)
	return r.q.Run(ctx, x)
}

func (r eager) write(ctx context.Context, t *Tensor, content func() []byte) error {
	return r.q.Write(ctx, t.buf, 0, content())
}

func (r eager) read(ctx context.Context, t *Tensor, pages []byte) (*reprise.Pending, error) {
	return r.q.StartRead(ctx, t.buf, 0, pages)
}

func (r eager) finish(ctx context.Context, err error) error {
	if err == nil && r.d.blocking {
		return r.q.Wait(ctx)
	}
	return err
}

// traced records into the trace that is captured. The queue refuses what a trace can't hold.
type traced struct {
	eager
	rec *recording
}

func (r traced) allocate(*Tensor, reprise.BufferConfig) error {
	return r.refuse(fmt.Errorf("%w: it would have to allocate its result: say Into which tensor it goes", reprise.ErrInCapture))
}

// refuse makes the capture fail with the error, even if the caller drops it.
func (r traced) refuse(err error) error {
	if r.rec.refused == nil {
		r.rec.refused = err
	}
	return err
}

func (r traced) run(_ context.Context, w work) error {
	x, err := w.executable()
	if err != nil {
		return err
	}
	r.d.captures.run(x)
	if err := r.rec.Run(x); err != nil {
		return err
	}
	r.d.captures.record(x)
	if name, args := w.parameter(); name != "" {
		if err := r.rec.Param(name, args...); err != nil {
			return err
		}
	}
	return r.rec.Keep(w.memory()...)
}

func (r traced) finish(_ context.Context, err error) error { return err }

// plan only records graphs, in a capture without dispatch.
type plan struct {
	d       *Device
	scratch []*Tensor
}

func (r *plan) allocate(t *Tensor, cfg reprise.BufferConfig) (err error) {
	t.plan, err = r.d.captures.allocate(t.geometry, cfg)
	return err
}

func (r *plan) keep(_ scratchKey, t *Tensor) { r.scratch = append(r.scratch, t) }

func (r *plan) refuse(error) error { return nil }

func (r *plan) run(_ context.Context, w work) error {
	r.d.captures.program(w.planned())
	return nil
}

func (r *plan) write(context.Context, *Tensor, func() []byte) error { return nil }

func (r *plan) read(context.Context, *Tensor, []byte) (*reprise.Pending, error) { return nil, nil }

func (r *plan) finish(_ context.Context, err error) error {
	slices.Reverse(r.scratch)
	return release(err, r.scratch...)
}

// argList is the arguments of a function for graphs and Observers: tensors, shapes, and any other
// value with a text.
type argList []any

func optional(t *Tensor) any {
	if t == nil {
		return nil
	}
	return t
}

func present(ts ...*Tensor) []*Tensor {
	return slices.DeleteFunc(ts, func(t *Tensor) bool { return t == nil })
}

// tensors yields the tensors among the arguments, also nil ones that aren't optional.
func (l argList) tensors(yield func(*Tensor) bool) {
	for _, v := range l {
		switch v := v.(type) {
		case *Tensor:
			if !yield(v) {
				return
			}
		case []*Tensor:
			for _, t := range v {
				if !yield(t) {
					return
				}
			}
		}
	}
}

func (l argList) graph() []graph.Arg {
	out := make([]graph.Arg, len(l))
	for i, v := range l {
		switch v := v.(type) {
		case nil:
			out[i].Text = "nullptr"
		case *Tensor:
			out[i] = v.arg()
		case []*Tensor:
			out[i].Text = fmt.Sprintf("[%d tensors]", len(v))
			for _, t := range v {
				out[i].Tensors = append(out[i].Tensors, t.graph())
			}
		case *Host:
			out[i].Text = v.text()
		case []int:
			out[i].Text = shapeText(v)
		default:
			out[i].Text = fmt.Sprint(v)
		}
	}
	return out
}

func (l argList) texts() []string {
	out := make([]string, len(l))
	for i, a := range l.graph() {
		out[i] = a.Text
	}
	return out
}

func (h *Host) text() string {
	if h == nil {
		return "nullptr"
	}
	return fmt.Sprintf("HostTensor(%s,%v)", shapeText(h.Shape), h.DType)
}

func specArgs(s Spec, device int) argList {
	return argList{s.Shape, s.DType, s.Layout, device, s.Memory}
}
