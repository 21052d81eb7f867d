package reprise

import (
	"context"
	"errors"
	"fmt"
	"iter"
)

// flight is an input that is under way.
type flight struct {
	out     [][]byte
	reads   []*Pending // of out; none as long as they aren't in a queue
	waiting bool       // for the next input to be written first
}

// wait waits for the outputs.
func (f *flight) wait(ctx context.Context) error {
	for _, r := range f.reads {
		if err := r.Wait(ctx); err != nil {
			return err
		}
	}
	return nil
}

// target is what the host writes inputs to.
func (p *Pipeline) target() *Buffer {
	if p.bufs.Input != nil {
		return p.bufs.Input
	}
	return p.bufs.L1Input
}

// fits says whether an input has the right size.
func (p *Pipeline) fits(input []byte) error {
	if b := p.target(); len(input) != b.Size() {
		return fmt.Errorf("input: %w", &TransferError{Op: "write", Size: len(input), Have: b.Size()})
	}
	return nil
}

// newOutput returns memory for the outputs of one input.
func (p *Pipeline) newOutput() [][]byte {
	if p.pre != nil {
		out := p.pre[p.next]
		p.next = (p.next + 1) % len(p.pre)
		return out
	}
	return p.makeOutput()
}

func (p *Pipeline) makeOutput() [][]byte {
	out := make([][]byte, len(p.st.Outputs))
	for i, b := range p.st.Outputs {
		out[i] = make([]byte, b.Size())
	}
	return out
}

// put puts everything into the queues that is to be done for an input. An input gets in whole or not at all: the context
// is looked at once, before. So what is in the queues always comes to an end, and events are never left unrecorded.
func (p *Pipeline) put(ctx context.Context, input []byte, out [][]byte) (*flight, error) {
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	ctx = context.WithoutCancel(ctx)
	if err := p.prime(ctx); err != nil {
		return nil, err
	}
	two := p.transfers != p.ops
	do := script{ctx: ctx}
	if two {
		do.wait(p.transfers, p.consumed)
	}
	do.write(p.transfers, p.target(), input)
	if two {
		do.record(p.transfers, p.written)
	}
	// Queue 1 reads the outputs before behind writing this input, or it would only write once the model is through. And it
	// does so before anything waits for p.read, which means its newest recording.
	if before := p.waiting(); before != nil && do.err == nil {
		do.err = p.fetch(ctx, before)
	}
	if two {
		do.wait(p.ops, p.written)
	}
	do.run(p.ops, p.st.First)
	if two && len(p.st.First) > 0 {
		do.record(p.ops, p.consumed)
	}
	// Whoever writes the outputs comes behind the read of those before.
	if p.c.TransferQueue && len(p.st.Last) == 0 {
		do.wait(p.ops, p.read)
	}
	if p.trace != nil {
		do.replay(p.trace)
	} else {
		do.run(p.ops, p.st.Body)
	}
	if two && len(p.st.First) == 0 {
		do.record(p.ops, p.consumed)
	}
	if p.c.TransferQueue && len(p.st.Last) > 0 {
		do.wait(p.ops, p.read)
	}
	do.run(p.ops, p.st.Last)
	f := &flight{out: out, waiting: true}
	if p.c.TransferQueue {
		do.record(p.ops, p.finished)
	} else if do.err == nil {
		do.err = p.fetch(ctx, f)
	}
	if do.err != nil {
		return nil, do.err
	}
	p.flying = append(p.flying, f)
	return f, nil
}

// waiting returns the flight whose outputs no queue reads yet; nil if there is none.
func (p *Pipeline) waiting() *flight {
	if n := len(p.flying); n > 0 && p.flying[n-1].waiting {
		return p.flying[n-1]
	}
	return nil
}

// fetch puts the reads of a flight's outputs into a queue.
func (p *Pipeline) fetch(ctx context.Context, f *flight) error {
	q := p.ops
	if p.c.TransferQueue {
		q = p.transfers
		if err := q.Wait(ctx, p.finished); err != nil {
			return err
		}
	}
	for i, b := range p.st.Outputs {
		r, err := q.StartRead(ctx, b, 0, f.out[i])
		if err != nil {
			return err
		}
		f.reads = append(f.reads, r)
	}
	f.waiting = false
	if p.c.TransferQueue {
		// Behind the reads; upstream's pipeline records this event in front of them.
		return q.Record(ctx, p.read)
	}
	return nil
}

// flush has the outputs of the last input read, since no other input follows it.
func (p *Pipeline) flush(ctx context.Context) error {
	if f := p.waiting(); f != nil {
		return p.fetch(context.WithoutCancel(ctx), f)
	}
	return nil
}

// prime records the events that the first input waits for, also the first one on a device that was recovered.
func (p *Pipeline) prime(ctx context.Context) error {
	start := p.ops.q.Starts()
	if p.primed == start || p.transfers == p.ops {
		return nil
	}
	if err := p.ops.Record(ctx, p.consumed); err != nil {
		return err
	}
	if p.c.TransferQueue {
		if err := p.transfers.Record(ctx, p.read); err != nil {
			return err
		}
	}
	p.primed = start
	return nil
}

// rest brings the device to rest: what is in the queues runs to its end, and its outputs go nowhere. It takes no notice
// of a canceled context; a device that stands still ends it.
func (p *Pipeline) rest(ctx context.Context) error {
	for _, f := range p.flying {
		for _, r := range f.reads {
			r.Abandon()
		}
	}
	p.flying, p.primed = nil, 0 // outputs that were handed out stay good: their ring goes on where it is
	ctx = context.WithoutCancel(ctx)
	err := p.ops.Finish(ctx)
	if p.transfers != p.ops {
		err = errors.Join(err, p.transfers.Finish(ctx))
	}
	p.broken = err
	return err
}

// script puts one thing after another into queues until one fails.
type script struct {
	ctx context.Context
	err error
}

func (s *script) wait(q *Queue, e *Event) {
	if s.err == nil {
		s.err = q.Wait(s.ctx, e)
	}
}

func (s *script) record(q *Queue, e *Event) {
	if s.err == nil {
		s.err = q.Record(s.ctx, e)
	}
}

func (s *script) write(q *Queue, b *Buffer, data []byte) {
	if s.err == nil {
		s.err = q.Write(s.ctx, b, 0, data)
	}
}

func (s *script) run(q *Queue, xs []*Executable) {
	for _, x := range xs {
		if s.err == nil {
			s.err = q.Run(s.ctx, x)
		}
	}
}

func (s *script) replay(t *Trace) {
	if s.err == nil {
		s.err = t.Replay(s.ctx)
	}
}

// PreallocateOutputs makes memory for the outputs of n inputs, which are used again and again: what PopAll returns is good
// until as many inputs more are enqueued, and what Run gives out until the loop's body ends. Without it each output is
// new.
func (p *Pipeline) PreallocateOutputs(n int) error {
	if err := p.use(context.Background(), "preallocate outputs", pipelineCompiled); err != nil {
		return err
	}
	defer p.mu.Unlock()
	if n < 1 || len(p.flying) > 0 {
		return p.fail("preallocate outputs", fmt.Errorf("for %d inputs, with %d under way: ask for at least one, and take all outputs first", n, len(p.flying)))
	}
	p.pre, p.next = nil, 0
	pre := make([][][]byte, n)
	for i := range pre {
		pre[i] = p.makeOutput()
	}
	p.pre = pre
	return nil
}

// Enqueue puts inputs into the queues, in order, and returns while the device works on them. Each input is copied.
// When it fails, the outputs of all inputs that were not popped are lost, and the device is at rest.
func (p *Pipeline) Enqueue(ctx context.Context, inputs ...[]byte) error {
	if err := p.use(ctx, "enqueue", pipelineCompiled); err != nil {
		return err
	}
	defer p.mu.Unlock()
	// Bad input loses nothing.
	for i, in := range inputs {
		if err := p.fits(in); err != nil {
			return p.fail("enqueue", fmt.Errorf("input %d: %w", i, err))
		}
	}
	if p.pre != nil && len(p.flying)+len(inputs) > len(p.pre) {
		return p.fail("enqueue", fmt.Errorf("%d inputs, %d not popped, outputs for %d: %w", len(inputs), len(p.flying), len(p.pre), ErrOutputsTaken))
	}
	for _, in := range inputs {
		if _, err := p.put(ctx, in, p.newOutput()); err != nil {
			_ = p.rest(ctx)
			return p.fail("enqueue", err)
		}
	}
	if err := p.flush(ctx); err != nil {
		_ = p.rest(ctx)
		return p.fail("enqueue", err)
	}
	return nil
}

// PopAll waits for the outputs of all inputs that were enqueued, and returns them in that order: for each input a slice
// for each of the model's outputs. When it fails they are lost, and the device is at rest.
func (p *Pipeline) PopAll(ctx context.Context) ([][][]byte, error) {
	if err := p.use(ctx, "pop all", pipelineCompiled); err != nil {
		return nil, err
	}
	defer p.mu.Unlock()
	out := make([][][]byte, 0, len(p.flying))
	for _, f := range p.flying {
		if err := f.wait(ctx); err != nil {
			_ = p.rest(ctx)
			return nil, p.fail("pop all", err)
		}
		out = append(out, f.out)
	}
	p.flying = nil
	return out, nil
}

// Run runs the model on a sequence of inputs and gives out what comes of each, in order: a slice for each of the model's
// outputs. Inputs are taken as the outputs are: at most Depth of them are under way. The first error ends the sequence,
// in the place of the input that it belongs to; whatever ends it, an error, the context or the loop's body, the device is
// at rest then, and the pipeline can be used again unless the device is lost.
func (p *Pipeline) Run(ctx context.Context, inputs iter.Seq[[]byte]) iter.Seq2[[][]byte, error] {
	return func(yield func([][]byte, error) bool) {
		if err := p.use(ctx, "run", pipelineCompiled); err != nil {
			yield(nil, err)
			return
		}
		defer p.mu.Unlock()
		if n := len(p.flying); n > 0 {
			yield(nil, p.fail("run", fmt.Errorf("%d inputs were enqueued whose outputs nobody has taken: call PopAll first", n)))
			return
		}
		defer func() { // also if the loop's body panics
			if len(p.flying) > 0 {
				_ = p.rest(ctx)
			}
		}()
		if err := p.stream(ctx, inputs, yield); err != nil && !errors.Is(err, errStopped) {
			_ = p.rest(ctx)
			yield(nil, p.fail("run", err))
		}
	}
}

// errStopped ends a Run whose outputs nobody wants any more.
var errStopped = errors.New("the loop has ended")

// stream is Run without what begins and ends it.
func (p *Pipeline) stream(ctx context.Context, inputs iter.Seq[[]byte], yield func([][]byte, error) bool) error {
	depth := p.c.Depth
	if p.pre != nil {
		depth = min(depth, len(p.pre))
	}
	pop := func() error {
		if err := context.Cause(ctx); err != nil {
			return err
		}
		f := p.flying[0]
		if f.waiting {
			if err := p.flush(ctx); err != nil {
				return err
			}
		}
		if err := f.wait(ctx); err != nil {
			return err
		}
		p.flying = p.flying[1:]
		if !yield(f.out, nil) {
			return errStopped
		}
		return nil
	}
	n := 0
	var bad error // an input of the wrong size, behind the outputs of those before
	for in := range inputs {
		if err := p.fits(in); err != nil {
			bad = fmt.Errorf("input %d: %w", n, err)
			break
		}
		if _, err := p.put(ctx, in, p.newOutput()); err != nil {
			return fmt.Errorf("input %d: %w", n, err)
		}
		n++
		if len(p.flying) < depth {
			continue
		}
		if err := pop(); err != nil {
			return err
		}
	}
	for len(p.flying) > 0 {
		if err := pop(); err != nil {
			return err
		}
	}
	return bad
}
