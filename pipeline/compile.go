package pipeline

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/allocator"
)

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
