package reprise

import (
	"context"
	"errors"
	"fmt"
	"slices"
)

// Compile allocates the buffers, has the model load its programs, runs it once on an input, and records the trace if
// there is to be one. When it fails nothing is left behind.
func (p *Pipeline) Compile(ctx context.Context, input []byte) error {
	if err := p.use(ctx, "compile", pipelineNew); err != nil {
		return err
	}
	defer p.mu.Unlock()
	if err := p.compile(ctx, input); err != nil {
		// The first error counts. What was built goes, whatever has become of the context.
		_ = p.rest(ctx)
		_ = p.drop(context.WithoutCancel(ctx))
		p.broken, p.primed = nil, 0
		return p.fail("compile", err)
	}
	p.state = pipelineCompiled
	return nil
}

func (p *Pipeline) compile(ctx context.Context, input []byte) error {
	if err := p.allocate(); err != nil {
		return err
	}
	var err error
	if p.st, err = p.model(ctx, &p.bufs); err != nil {
		return err
	}
	if err := p.checkStages(); err != nil {
		return err
	}
	if err := p.takeBack(); err != nil {
		return err
	}
	if err := p.fits(input); err != nil {
		return err
	}
	// Once without a trace: what can't run fails here, by the name of its program.
	f, err := p.put(ctx, input, p.newOutput())
	if err == nil {
		err = p.flush(ctx)
	}
	if err == nil {
		err = f.wait(ctx)
	}
	p.flying = nil
	if err != nil || !p.c.Trace {
		return err
	}
	p.trace, err = p.ops.Capture(ctx, p.c.Name, func(r *Recorder) error {
		for _, x := range p.st.Body {
			if err := r.Run(x); err != nil {
				return err
			}
		}
		return nil
	})
	return err
}

// allocate makes the buffers of the configuration.
func (p *Pipeline) allocate() error {
	p.bufs = ModelBuffers{Device: p.d}
	add := func(to **Buffer, c *BufferConfig, from func(BufferConfig) (*Buffer, error)) error {
		b, err := from(*c)
		if err == nil {
			*to = b
			p.owned = append(p.owned, b)
		}
		return err
	}
	if p.c.Input != nil {
		if err := add(&p.bufs.Input, p.c.Input, p.d.NewBuffer); err != nil {
			return err
		}
	}
	from := p.d.NewBuffer
	if p.c.Scratch > 0 {
		var err error
		if p.bufs.Scratch, err = p.d.NewPool(PoolConfig{Kind: L1, Size: p.c.Scratch, Name: p.c.Name + " scratch"}); err != nil {
			return err
		}
		from = p.bufs.Scratch.NewBuffer
	}
	if p.c.L1Input != nil {
		if err := add(&p.bufs.L1Input, p.c.L1Input, from); err != nil {
			return err
		}
	}
	p.bufs.Outputs = make([]*Buffer, len(p.c.Outputs))
	for i := range p.c.Outputs {
		if err := add(&p.bufs.Outputs[i], &p.c.Outputs[i], p.d.NewBuffer); err != nil {
			return err
		}
	}
	return nil
}

// checkStages looks at what the model returned.
func (p *Pipeline) checkStages() error {
	s := p.st
	if s == nil {
		return errors.New("the model returned no stages")
	}
	if p.c.Trace && len(s.Body) == 0 {
		return fmt.Errorf("the model has no body to record: %w", ErrEmptyTrace)
	}
	if p.bufs.Input != nil && p.bufs.L1Input != nil && len(s.First) == 0 {
		return errors.New("the model has no first stage: something has to move the input from DRAM to the L1 input")
	}
	if s.Outputs == nil {
		s.Outputs = p.bufs.Outputs
	}
	if len(s.Outputs) == 0 {
		return errors.New("the model has no outputs: it must name some, or the configuration")
	}
	if p.c.TransferQueue && !slices.Equal(s.Outputs, p.bufs.Outputs) {
		return errors.New("the model's outputs are others than those of the configuration, which queue 1 reads")
	}
	for _, b := range s.Outputs {
		if err := b.of(p.d); err != nil {
			return fmt.Errorf("output: %w", err)
		}
	}
	return nil
}

// takeBack allocates the L1 input again, if the model has freed it.
func (p *Pipeline) takeBack() error {
	if !p.bufs.freed {
		return nil
	}
	old := p.bufs.L1Input
	b, err := p.bufs.Scratch.NewBuffer(*p.c.L1Input)
	if err != nil {
		return &PlaceError{Buffer: old.name, Want: old.Addr(), Err: err}
	}
	p.bufs.L1Input = b
	p.owned[slices.Index(p.owned, old)] = b
	if b.Addr() != old.Addr() {
		return &PlaceError{Buffer: old.name, Want: old.Addr(), Got: b.Addr()}
	}
	return nil
}

// Cleanup waits for what is under way, drops outputs that nobody has taken, releases the trace and gives everything
// back. If it fails it can be called again.
func (p *Pipeline) Cleanup(ctx context.Context) error {
	if !p.mu.TryLock() {
		return p.fail("cleanup", ErrPipelineBusy)
	}
	defer p.mu.Unlock()
	if p.state == pipelineClean {
		return p.fail("cleanup", ErrReleased)
	}
	err := errors.Join(p.rest(ctx), p.drop(ctx))
	if err != nil {
		return p.fail("cleanup", err)
	}
	p.state = pipelineClean
	return nil
}

// drop gives up what Compile has made, from the newest on. What it has given up it forgets.
func (p *Pipeline) drop(ctx context.Context) error {
	if p.trace != nil {
		if err := p.trace.Release(ctx); err != nil && !errors.Is(err, ErrReleased) {
			return err
		}
		p.trace = nil
	}
	if p.st != nil && p.st.Close != nil {
		if err := p.st.Close(ctx); err != nil {
			return err
		}
	}
	p.st = nil
	var errs []error
	for _, b := range slices.Backward(p.owned) {
		if err := b.Free(); !errors.Is(err, ErrReleased) {
			errs = append(errs, err)
		}
	}
	p.owned = nil
	if p.bufs.Scratch != nil {
		errs = append(errs, p.bufs.Scratch.Free())
	}
	p.bufs = ModelBuffers{}
	return errors.Join(errs...)
}
