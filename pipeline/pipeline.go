// Package pipeline runs a model on one input after another, and with a second queue it moves inputs
// and outputs while the model runs: the four patterns of tt-metal's advanced performance notes,
// with the configurations of tt_cnn's pipeline. After [Pipeline.Compile] inputs go through
// [Pipeline.Run], or through [Pipeline.Enqueue] and [Pipeline.PopAll].
package pipeline

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/allocator"
)

// Pipeline is a model on a device, with its buffers, its trace and the inputs under way. One
// goroutine at a time uses it; it starts none of its own.
type Pipeline struct {
	dev    *reprise.Device
	config Config
	model  Model

	ops, transfers *reprise.Queue

	mu      sync.Mutex
	state   state
	buffers Buffers
	owned   []*reprise.Buffer
	stages  *Stages
	trace   *reprise.Trace

	written, consumed, finished, read *reprise.Event

	inFlight []*inference
	reused   [][][]byte
	next     int
	broken   error // why the queues could not be drained
}

type state uint8

const (
	created state = iota
	compiled
	closed
)

// Config says how a pipeline runs its model.
type Config struct {
	Name  string
	Trace bool // record the model's body once and replay it
	// Queues is 1 (or 0) or 2: then queue 1 writes inputs while queue 0 runs the model.
	Queues int
	// TransferQueue makes queue 1 read the outputs too.
	TransferQueue bool

	// Input is the buffer in DRAM that the host writes inputs to. Without it the host writes to
	// L1Input, which needs a single queue.
	Input *reprise.BufferConfig
	// L1Input is the buffer in L1 that the model's body reads, unless it reads Input.
	L1Input *reprise.BufferConfig
	// Scratch is how many bytes of L1, over all banks, L1Input shares with the model's intermediate
	// buffers ([Buffers.FreeL1Input]). 0 gives L1Input its own memory.
	Scratch int
	// Outputs are the buffers that the model leaves its outputs in. Without them the model names
	// its own.
	Outputs []reprise.BufferConfig
	// Depth bounds the inputs under way in Run; 0: 4.
	Depth int
}

// One input being written, one run, one read, and one to spare.
const defaultDepth = 4

// New returns a pipeline to compile. The error is a *ConfigError.
func New(dev *reprise.Device, c Config, model Model) (*Pipeline, error) {
	if why := c.unsupported(dev, model); why != "" {
		return nil, &ConfigError{Config: c, Why: why}
	}
	p := &Pipeline{dev: dev, config: c, model: model, ops: dev.Queue(0), transfers: dev.Queue(0)}
	if c.Queues == 2 {
		p.transfers = dev.Queue(1)
	}
	p.config.Depth = cmp.Or(c.Depth, defaultDepth)
	event := func(what string) *reprise.Event { return dev.NewEvent(c.Name + ": " + what) }
	p.written, p.consumed = event("input written"), event("input consumed")
	p.finished, p.read = event("outputs finished"), event("outputs read")
	return p, nil
}

func (c *Config) unsupported(dev *reprise.Device, model Model) string {
	switch {
	case model == nil:
		return "there is no model: it is nil"
	case c.Queues < 0 || c.Queues > 2:
		return "a pipeline uses 1 or 2 queues"
	case c.Queues > dev.Queues():
		return fmt.Sprintf("the device has %d queue: open it with reprise.WithQueues(2)", dev.Queues())
	case c.TransferQueue && c.Queues < 2:
		return "transfers can have a queue of their own only if there are 2"
	case c.TransferQueue && !c.Trace:
		return "transfers have a queue of their own only together with a trace: without one it is the host that programs wait for"
	case c.Input == nil && c.L1Input == nil:
		return "there is nothing to write inputs to: give Input, L1Input, or both"
	case c.Input == nil && c.Queues == 2:
		return "queue 1 writes an input while queue 0 still runs on the one before, so inputs need a buffer that stays: give Input"
	case c.Input != nil && c.Input.Kind != allocator.DRAM:
		return fmt.Sprintf("the input that stays is in DRAM, this one in %v: give it as L1Input", c.Input.Kind)
	case c.L1Input != nil && c.L1Input.Kind == allocator.DRAM:
		return "the L1 input is in DRAM: set its Kind"
	case c.TransferQueue && len(c.Outputs) == 0:
		return "queue 1 reads outputs while queue 0 already runs on the next input, so outputs need buffers that stay: give Outputs"
	case c.Scratch < 0 || c.Scratch > 0 && (c.L1Input == nil || c.L1Input.Kind != allocator.L1):
		return "a scratch area is L1 that an L1 input shares with others: give L1Input"
	case c.Depth < 0:
		return fmt.Sprintf("a depth of %d: at least one input is under way", c.Depth)
	}
	return ""
}

func (c *Config) summary() string {
	parts := []string{"no trace", "1 queue"}
	if c.Trace {
		parts[0] = "trace"
	}
	if c.Queues != 0 && c.Queues != 1 {
		parts[1] = fmt.Sprintf("%d queues", c.Queues)
	}
	if c.TransferQueue {
		parts = append(parts, "transfers on their own queue")
	}
	return strings.Join(parts, ", ")
}

// The caller unlocks mu.
func (p *Pipeline) acquire(ctx context.Context, op string, want state) error {
	if !p.mu.TryLock() {
		return p.wrap(op, ErrBusy)
	}
	var err error
	switch {
	case p.state == closed:
		err = reprise.ErrReleased
	case p.state == want:
		if p.broken != nil { // maybe the device was recovered
			err = p.drain(ctx)
		}
	case want == created:
		err = ErrAlreadyCompiled
	default:
		err = ErrNotCompiled
	}
	if err != nil {
		p.mu.Unlock()
		return p.wrap(op, err)
	}
	return nil
}

// Trace returns the trace of the model's body; nil without one, or before Compile.
func (p *Pipeline) Trace() *reprise.Trace { return p.trace }

// Config returns the configuration.
func (p *Pipeline) Config() Config { return p.config }

// Model loads the programs of a model for a pipeline's buffers. Compile calls it once.
type Model func(ctx context.Context, b *Buffers) (*Stages, error)

// Buffers are the buffers of a pipeline's configuration; nil where it has none.
type Buffers struct {
	Device  *reprise.Device
	Input   *reprise.Buffer
	L1Input *reprise.Buffer
	Outputs []*reprise.Buffer
	Scratch *reprise.Pool // of L1, for intermediate buffers
	freed   bool
}

// FreeL1Input lets later buffers of Scratch use the memory of L1Input, if they are written only
// after the first programs have read the input. The model must release them before it returns.
// Compile then allocates L1Input again, at its old address.
func (b *Buffers) FreeL1Input() error {
	if b.Scratch == nil || b.L1Input == nil || b.freed {
		return errors.New("pipeline: free L1 input: it is not in a scratch area: give L1Input and Scratch, and free it once")
	}
	b.freed = true
	return b.L1Input.Release()
}

// Stages are the programs of a model, in the order in which they run.
type Stages struct {
	// First reads what the host has written. After it the next input may be written, while Body
	// runs; if it is empty, after Body.
	First []*reprise.Executable
	// Body is the model; what a trace records.
	Body []*reprise.Executable
	// Run submits the model to queue 0, instead of Body, if its operations load their programs
	// themselves, as those of package ops do. Capture records that as a trace.
	Run     func(ctx context.Context) error
	Capture func(ctx context.Context, name string) (*reprise.Trace, error)
	// Last writes the outputs. It alone waits until the previous outputs have been read; if empty,
	// Body waits.
	Last []*reprise.Executable
	// Outputs are read for each input; nil stands for those of the configuration.
	Outputs []*reprise.Buffer
	// Close, if not nil, releases what the model holds; Pipeline.Release calls it.
	Close func(context.Context) error
}

// Compile allocates the buffers, loads the model's programs, runs it once on an input, and records
// the trace if the configuration asks for one.
func (p *Pipeline) Compile(ctx context.Context, input []byte) error {
	if err := p.acquire(ctx, "compile", created); err != nil {
		return err
	}
	defer p.mu.Unlock()
	if err := p.compile(ctx, input); err != nil {
		// Release everything built so far even if ctx has ended.
		_ = p.drain(ctx)
		_ = p.release(context.WithoutCancel(ctx))
		p.broken = nil
		return p.wrap("compile", err)
	}
	p.state = compiled
	return nil
}

func (p *Pipeline) compile(ctx context.Context, input []byte) error {
	if err := p.allocate(); err != nil {
		return err
	}
	var err error
	if p.stages, err = p.model(ctx, &p.buffers); err != nil {
		return err
	}
	if err := p.checkStages(); err != nil {
		return err
	}
	if err := p.restoreL1Input(); err != nil {
		return err
	}
	if err := p.checkInput(input); err != nil {
		return err
	}
	if err := p.prime(ctx); err != nil {
		return err
	}
	// What can't run fails here, by the name of its program.
	f, err := p.submit(ctx, input, p.newOutputs())
	if err == nil {
		err = p.readLast(ctx)
	}
	if err == nil {
		err = f.wait(ctx)
	}
	p.inFlight = nil
	if err != nil || !p.config.Trace {
		return err
	}
	if p.stages.Run != nil {
		p.trace, err = p.stages.Capture(ctx, p.config.Name)
		return err
	}
	p.trace, err = p.ops.Capture(ctx, p.config.Name, func(_ context.Context, r *reprise.Recorder) error {
		for _, x := range p.stages.Body {
			if err := r.Run(x); err != nil {
				return err
			}
		}
		return nil
	})
	return err
}

func (p *Pipeline) allocate() error {
	p.buffers = Buffers{Device: p.dev}
	add := func(to **reprise.Buffer, c *reprise.BufferConfig, from func(reprise.BufferConfig) (*reprise.Buffer, error)) error {
		if c == nil {
			return nil
		}
		b, err := from(*c)
		if err == nil {
			*to = b
			p.owned = append(p.owned, b)
		}
		return err
	}
	if err := add(&p.buffers.Input, p.config.Input, p.dev.NewBuffer); err != nil {
		return err
	}
	from := p.dev.NewBuffer
	if p.config.Scratch > 0 {
		var err error
		p.buffers.Scratch, err = p.dev.NewPool(reprise.PoolConfig{Kind: allocator.L1, Size: p.config.Scratch,
			Name: p.config.Name + " scratch"})
		if err != nil {
			return err
		}
		from = p.buffers.Scratch.NewBuffer
	}
	if err := add(&p.buffers.L1Input, p.config.L1Input, from); err != nil {
		return err
	}
	p.buffers.Outputs = make([]*reprise.Buffer, len(p.config.Outputs))
	for i := range p.config.Outputs {
		if err := add(&p.buffers.Outputs[i], &p.config.Outputs[i], p.dev.NewBuffer); err != nil {
			return err
		}
	}
	return nil
}

func (p *Pipeline) checkStages() error {
	s := p.stages
	if s == nil {
		return errors.New("the model returned no stages")
	}
	if s.Run != nil && (len(s.Body) > 0 || p.config.Trace && s.Capture == nil) {
		return errors.New("the model runs itself: it must have no body, and Capture to be recorded")
	}
	if p.config.Trace && s.Run == nil && len(s.Body) == 0 {
		return fmt.Errorf("the model has no body to record: %w", reprise.ErrEmptyTrace)
	}
	if p.buffers.Input != nil && p.buffers.L1Input != nil && len(s.First) == 0 {
		return errors.New("the model has no first stage: something has to move the input from DRAM to the L1 input")
	}
	if s.Outputs == nil {
		s.Outputs = p.buffers.Outputs
	}
	if len(s.Outputs) == 0 {
		return errors.New("the model has no outputs: it must name some, or the configuration")
	}
	if p.config.TransferQueue && !slices.Equal(s.Outputs, p.buffers.Outputs) {
		return errors.New("the model's outputs are not those of the configuration, which queue 1 reads")
	}
	if i := slices.Index(s.Outputs, nil); i >= 0 {
		return fmt.Errorf("output %d: no buffer: it is nil", i)
	}
	return nil
}

func (p *Pipeline) restoreL1Input() error {
	if !p.buffers.freed {
		return nil
	}
	old := p.buffers.L1Input
	b, err := p.buffers.Scratch.NewBuffer(*p.config.L1Input)
	if err != nil {
		return &MovedError{Buffer: old.Name(), Want: old.Addr(), Err: err}
	}
	p.buffers.L1Input = b
	p.owned[slices.Index(p.owned, old)] = b
	if b.Addr() != old.Addr() {
		return &MovedError{Buffer: old.Name(), Want: old.Addr(), Got: b.Addr()}
	}
	return nil
}

// prime records the events that the first input waits for, and orders the first write on queue 1
// after queue 0's earlier use of the buffers' memory.
func (p *Pipeline) prime(ctx context.Context) error {
	if p.transfers == p.ops {
		return nil
	}
	if err := p.ops.Record(ctx, p.consumed); err != nil || !p.config.TransferQueue {
		return err
	}
	return p.transfers.Record(ctx, p.read)
}

// Release waits for the inputs under way, drops outputs that were not taken, and releases the
// trace, the model and the buffers. If it fails it can be called again.
func (p *Pipeline) Release(ctx context.Context) error {
	if !p.mu.TryLock() {
		return p.wrap("close", ErrBusy)
	}
	defer p.mu.Unlock()
	if p.state == closed {
		return p.wrap("close", reprise.ErrReleased)
	}
	if err := errors.Join(p.drain(ctx), p.release(ctx)); err != nil {
		return p.wrap("close", err)
	}
	p.state = closed
	return nil
}

func (p *Pipeline) release(ctx context.Context) error {
	if p.trace != nil {
		if err := p.trace.Release(ctx); err != nil && !errors.Is(err, reprise.ErrReleased) {
			return err
		}
		p.trace = nil
	}
	if p.stages != nil && p.stages.Close != nil {
		if err := p.stages.Close(ctx); err != nil {
			return err
		}
	}
	p.stages = nil
	var errs []error
	for _, b := range slices.Backward(p.owned) {
		if err := b.Release(); !errors.Is(err, reprise.ErrReleased) {
			errs = append(errs, err)
		}
	}
	p.owned = nil
	if p.buffers.Scratch != nil {
		errs = append(errs, p.buffers.Scratch.Release())
	}
	p.buffers = Buffers{}
	return errors.Join(errs...)
}
