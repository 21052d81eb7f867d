package pipeline

import (
	"context"
	"errors"
	"fmt"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/dispatch"
)

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
