package pipeline

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/dispatch"
)

// PreallocateOutputs makes memory for the outputs of n inputs: what PopAll returns is valid until n
// more inputs are enqueued, and what Run returns until the loop's body ends.
func (p *Pipeline) PreallocateOutputs(n int) error {
	const op = "preallocate outputs"
	if err := p.acquire(context.Background(), op, compiled); err != nil {
		return err
	}
	defer p.mu.Unlock()
	if n < 1 || len(p.inFlight) > 0 {
		return p.wrap(op, fmt.Errorf("for %d inputs, with %d under way: ask for at least one, and take all outputs first", n, len(p.inFlight)))
	}
	p.reused, p.next = make([][][]byte, n), 0
	for i := range p.reused {
		p.reused[i] = p.makeOutputs()
	}
	return nil
}

func (p *Pipeline) newOutputs() [][]byte {
	if p.reused == nil {
		return p.makeOutputs()
	}
	out := p.reused[p.next]
	p.next = (p.next + 1) % len(p.reused)
	return out
}

func (p *Pipeline) makeOutputs() [][]byte {
	out := make([][]byte, len(p.stages.Outputs))
	for i, b := range p.stages.Outputs {
		out[i] = make([]byte, b.Size())
	}
	return out
}

// Enqueue copies inputs into the queues, in order, and returns while the device works on them. If
// it fails, all outputs that were not popped are lost.
func (p *Pipeline) Enqueue(ctx context.Context, inputs ...[]byte) error {
	if err := p.acquire(ctx, "enqueue", compiled); err != nil {
		return err
	}
	defer p.mu.Unlock()
	for i, in := range inputs {
		if err := p.checkInput(in); err != nil {
			return p.wrap("enqueue", fmt.Errorf("input %d: %w", i, err))
		}
	}
	if p.reused != nil && len(p.inFlight)+len(inputs) > len(p.reused) {
		return p.wrap("enqueue", fmt.Errorf("%d inputs, %d not popped, outputs for %d: %w", len(inputs), len(p.inFlight), len(p.reused),
			ErrTooManyInputs))
	}
	var err error
	for i := 0; i < len(inputs) && err == nil; i++ {
		_, err = p.submit(ctx, inputs[i], p.newOutputs())
	}
	if err == nil {
		err = p.readLast(ctx)
	}
	if err != nil {
		_ = p.drain(ctx)
		return p.wrap("enqueue", err)
	}
	return nil
}

// PopAll waits for the outputs of all enqueued inputs and returns them in order: for each input a
// slice for each of the model's outputs. If it fails they are lost.
func (p *Pipeline) PopAll(ctx context.Context) ([][][]byte, error) {
	if err := p.acquire(ctx, "pop all", compiled); err != nil {
		return nil, err
	}
	defer p.mu.Unlock()
	out := make([][][]byte, 0, len(p.inFlight))
	for _, f := range p.inFlight {
		if err := f.wait(ctx); err != nil {
			_ = p.drain(ctx)
			return nil, p.wrap("pop all", err)
		}
		out = append(out, f.outputs)
	}
	p.inFlight = nil
	return out, nil
}

// Run runs the model on a sequence of inputs and returns the outputs of each, in order. At most
// Depth inputs are under way, and until then no output is returned: for inputs that come one at a
// time use Enqueue and PopAll. The first error ends the sequence, in the place of its input. The
// pipeline can be used again, after [reprise.Device.Recover] if the device failed: the caller then
// writes the model's weights again.
func (p *Pipeline) Run(ctx context.Context, inputs iter.Seq[[]byte]) iter.Seq2[[][]byte, error] {
	return func(yield func([][]byte, error) bool) {
		if err := p.acquire(ctx, "run", compiled); err != nil {
			yield(nil, err)
			return
		}
		defer p.mu.Unlock()
		if n := len(p.inFlight); n > 0 {
			yield(nil, p.wrap("run", fmt.Errorf("the outputs of %d enqueued inputs were not taken: call PopAll first", n)))
			return
		}
		defer func() {
			if len(p.inFlight) > 0 {
				_ = p.drain(ctx)
			}
		}()
		if err := p.stream(ctx, inputs, yield); err != nil && !errors.Is(err, errLoopEnded) {
			_ = p.drain(ctx)
			yield(nil, p.wrap("run", err))
		}
	}
}

var errLoopEnded = errors.New("the loop has ended")

func (p *Pipeline) stream(ctx context.Context, inputs iter.Seq[[]byte], yield func([][]byte, error) bool) error {
	depth := p.config.Depth
	if p.reused != nil {
		depth = min(depth, len(p.reused))
	}
	n := 0
	var bad error // of the wrong size; earlier outputs come first
	for in := range inputs {
		if err := p.checkInput(in); err != nil {
			bad = fmt.Errorf("input %d: %w", n, err)
			break
		}
		if _, err := p.submit(ctx, in, p.newOutputs()); err != nil {
			return fmt.Errorf("input %d: %w", n, err)
		}
		n++
		if len(p.inFlight) < depth {
			continue
		}
		if err := p.pop(ctx, yield); err != nil {
			return err
		}
	}
	for len(p.inFlight) > 0 {
		if err := p.pop(ctx, yield); err != nil {
			return err
		}
	}
	return bad
}

func (p *Pipeline) pop(ctx context.Context, yield func([][]byte, error) bool) error {
	if err := context.Cause(ctx); err != nil {
		return err
	}
	f := p.inFlight[0]
	if f.deferred {
		if err := p.readLast(ctx); err != nil {
			return err
		}
	}
	if err := f.wait(ctx); err != nil {
		return err
	}
	p.inFlight = p.inFlight[1:]
	if !yield(f.outputs, nil) {
		return errLoopEnded
	}
	return nil
}

type inference struct {
	outputs  [][]byte
	reads    []*reprise.Pending
	deferred bool // the next input's write goes first
}

func (f *inference) wait(ctx context.Context) error {
	for _, r := range f.reads {
		if err := r.Wait(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (p *Pipeline) target() *reprise.Buffer {
	if p.buffers.Input != nil {
		return p.buffers.Input
	}
	return p.buffers.L1Input
}

func (p *Pipeline) checkInput(input []byte) error {
	if b := p.target(); len(input) != b.Size() {
		return fmt.Errorf("input: %w", &dispatch.TransferError{Op: "write", Size: len(input), Have: b.Size()})
	}
	return nil
}

// submit puts all work for an input into the queues. ctx is checked once, before: an input gets in
// whole or not at all, so no event is left unrecorded.
func (p *Pipeline) submit(ctx context.Context, input []byte, outputs [][]byte) (*inference, error) {
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	ctx = context.WithoutCancel(ctx)
	two := p.transfers != p.ops
	do := script{ctx: ctx}
	if two {
		do.waitPrevious(p.transfers, p.consumed)
	}
	do.call(func(ctx context.Context) error { return p.transfers.Write(ctx, p.target(), 0, input) })
	if two {
		do.record(p.transfers, p.written)
	}
	// Queue 1 reads the previous outputs after writing this input, so that the write needn't wait
	// for the model, and before anything waits for p.read, since a wait means the newest recording.
	do.call(p.readLast)
	if two {
		do.wait(p.ops, p.written)
	}
	do.run(p.ops, p.stages.First)
	if two && len(p.stages.First) > 0 {
		do.record(p.ops, p.consumed)
	}
	if p.config.TransferQueue && len(p.stages.Last) == 0 {
		do.waitPrevious(p.ops, p.read)
	}
	if p.trace != nil {
		do.call(p.trace.Replay)
	} else {
		do.run(p.ops, p.stages.Body)
		do.call(p.stages.Run)
	}
	if two && len(p.stages.First) == 0 {
		do.record(p.ops, p.consumed)
	}
	if p.config.TransferQueue && len(p.stages.Last) > 0 {
		do.waitPrevious(p.ops, p.read)
	}
	do.run(p.ops, p.stages.Last)
	f := &inference{outputs: outputs, deferred: true}
	if p.config.TransferQueue {
		do.record(p.ops, p.finished)
	} else if do.err == nil {
		do.err = p.startReads(ctx, f)
	}
	if do.err != nil {
		return nil, do.err
	}
	p.inFlight = append(p.inFlight, f)
	return f, nil
}

func (p *Pipeline) startReads(ctx context.Context, f *inference) error {
	q := p.ops
	if p.config.TransferQueue {
		q = p.transfers
		if err := q.WaitEvent(ctx, p.finished); err != nil {
			return err
		}
	}
	for i, b := range p.stages.Outputs {
		r, err := q.StartRead(ctx, b, 0, f.outputs[i])
		if err != nil {
			return err
		}
		f.reads = append(f.reads, r)
	}
	f.deferred = false
	if p.config.TransferQueue {
		// tt_cnn's pipeline records this event before the reads.
		return q.Record(ctx, p.read)
	}
	return nil
}

// readLast reads the outputs of the last input, unless a read of them is under way.
func (p *Pipeline) readLast(ctx context.Context) error {
	if n := len(p.inFlight); n > 0 && p.inFlight[n-1].deferred {
		return p.startReads(context.WithoutCancel(ctx), p.inFlight[n-1])
	}
	return nil
}

// drain abandons the outputs under way and waits until the queues are empty, also if ctx has ended.
func (p *Pipeline) drain(ctx context.Context) error {
	for _, f := range p.inFlight {
		for _, r := range f.reads {
			r.Abandon()
		}
	}
	p.inFlight = nil // next stays: outputs that were returned stay valid
	ctx = context.WithoutCancel(ctx)
	err := p.ops.Wait(ctx)
	if p.transfers != p.ops {
		err = errors.Join(err, p.transfers.Wait(ctx))
	}
	p.broken = err
	return err
}

type script struct {
	ctx context.Context
	err error
}

func (s *script) wait(q *reprise.Queue, e *reprise.Event) {
	if s.err == nil {
		s.err = q.WaitEvent(s.ctx, e)
	}
}

// waitPrevious waits for an event of an earlier input, unless Recover has dropped it.
func (s *script) waitPrevious(q *reprise.Queue, e *reprise.Event) {
	if s.wait(q, e); errors.Is(s.err, dispatch.ErrLost) {
		s.err = nil
	}
}

func (s *script) record(q *reprise.Queue, e *reprise.Event) {
	if s.err == nil {
		s.err = q.Record(s.ctx, e)
	}
}

func (s *script) run(q *reprise.Queue, xs []*reprise.Executable) {
	for _, x := range xs {
		if s.err == nil {
			s.err = q.Run(s.ctx, x)
		}
	}
}

func (s *script) call(f func(context.Context) error) {
	if s.err == nil && f != nil {
		s.err = f(s.ctx)
	}
}
