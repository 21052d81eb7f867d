package reprise

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/reprise-tt/reprise/allocator"
	"github.com/reprise-tt/reprise/dispatch"
	"github.com/reprise-tt/reprise/tracebuf"
)

// apart is a trace that is run in pieces, over one queue or several.
type apart struct {
	d     *Device
	name  string
	t     *Trace
	parts []*part
	order []tracebuf.At // all steps, in an order that the edges allow
	runs  []tracebuf.At // of them, those that run programs: what callers call steps

	// While nobody else runs anything:
	rs    []*dispatch.Reservation // by part
	cmds  [][]byte                // of each part, as the next replay would find them
	whole func(context.Context) error
}

func (t *Trace) takeApart() *apart {
	a := &apart{d: t.parts[0].q.d, t: t, name: t.name, parts: t.parts}
	a.whole = func(ctx context.Context) error { return t.batch.SubmitReserved(ctx, a.rs) }
	var all []tracebuf.Part
	for _, t := range t.parts {
		all = append(all, tracebuf.Part{Target: tracebuf.Target{Queue: t.q.ID()}, Image: *t.image})
	}
	a.order, _ = tracebuf.Order(all) // what was recorded or loaded has one
	for _, at := range a.order {
		if a.parts[at.Part].image.Steps[at.Step].Program != tracebuf.NoProgram {
			a.runs = append(a.runs, at)
		}
	}
	return a
}

// at is a program by its number.
func (a *apart) at(run int) (*part, *tracebuf.Step) {
	t := a.parts[a.runs[run].Part]
	return t, &t.image.Steps[a.runs[run].Step]
}

func (a *apart) stepError(first, end int, err error) error {
	_, s := a.at(first)
	return &StepError{Trace: a.name, First: first, Last: end - 1, Name: s.Name, Err: err}
}

// starts says when the queues were started, which a recovery does anew.
func (a *apart) starts() []uint64 {
	var out []uint64
	for _, r := range a.rs {
		out = append(out, r.Starts())
	}
	return out
}

// since is an error if the queues were started anew: what is to come assumes what came before.
func (a *apart) since(starts []uint64) error {
	if slices.Equal(a.starts(), starts) {
		return nil
	}
	return fmt.Errorf("the device was recovered in between, so that nothing can follow: %w", ErrRecovering)
}

// finish waits for all queues of the trace.
func (a *apart) finish(ctx context.Context) error {
	for _, t := range a.parts {
		if err := t.q.await(ctx); err != nil {
			return err
		}
	}
	return nil
}

// alone runs f while nobody else runs anything on the queues' workers and the trace isn't released, with the parameters
// that were set.
func (a *apart) alone(ctx context.Context, op string, f func() error) error {
	what := fmt.Sprintf("%s trace %q", op, a.name)
	if err := a.d.usable(what); err != nil {
		return err
	}
	if len(a.t.calls) > 1 {
		return fmt.Errorf("reprise: %s: it has parts on %d devices, whose programs may wait for each other: take the Subset of one device: %w", what, len(a.t.calls), errors.ErrUnsupported)
	}
	for _, t := range a.parts {
		if err := a.d.refuse(ctx, t.q, opDebug, a.name); err != nil {
			return err
		}
	}
	for _, t := range a.parts {
		r, err := t.q.q.Reserve()
		if err != nil {
			return a.d.failed(what, err)
		}
		defer r.Release()
		a.rs = append(a.rs, r)
	}
	if len(a.parts) > 1 { // what one queue is given mustn't overtake what another one was given before
		if err := a.finish(ctx); err != nil {
			return a.d.failed(what, err)
		}
	}
	u := &a.t.owner().use
	if err := u.enter(true); err != nil {
		return fmt.Errorf("reprise: %s: %w", what, err)
	}
	defer u.leave(true)
	for _, t := range a.parts {
		if err := t.flush(ctx); err != nil {
			return a.d.failed(what, err)
		}
		a.cmds = append(a.cmds, t.commands())
	}
	if len(a.runs) == 0 { // only edges: there is nothing to look at
		return nil
	}
	err := f()
	var step *StepError
	var check *CheckError
	var verify *VerifyError
	if err == nil || a.d.usable(what) == nil && (errors.As(err, &step) || errors.As(err, &check) || errors.As(err, &verify)) {
		return err // which names the trace
	}
	return a.d.failed(what, overlap(err))
}

// piece is programs of a trace that lie in DRAM by themselves, those from first up to end. Unless they are the first, they
// may only be run right behind those before.
type piece struct {
	a          *apart
	first, end int
	exts       []allocator.Extent
	on         []int // parts of the trace that it has something of
	preps      []*dispatch.Prepared
	batch      *dispatch.Batch
	busy       []*Queue // that may write to its memory, or run what lies there
}

func (a *apart) piece(ctx context.Context, first, end int) (*piece, error) {
	p := &piece{a: a, first: first, end: end}
	cuts := a.cut(first, end)
	for i := range cuts {
		if len(cuts[i].steps) == 0 {
			continue
		}
		if err := p.place(ctx, i, cuts); err != nil {
			return nil, errors.Join(err, p.free(ctx))
		}
	}
	var err error
	if p.batch, err = dispatch.NewBatch(p.preps...); err != nil {
		return nil, errors.Join(err, p.free(ctx))
	}
	return p, nil
}

// cut is what a piece has of a part.
type cut struct {
	runs     int // programs of the part before the piece
	steps    []tracebuf.Step
	recorded uint32
}

// cut finds the steps of a piece in each part. Of the edges it keeps those that lie inside of the piece; the host's wait
// before the piece stands for those that come from before.
func (a *apart) cut(first, end int) []cut {
	type recording struct {
		queue  int
		number uint32
	}
	out := make([]cut, len(a.parts))
	var inside []tracebuf.At
	run := 0
	for _, at := range a.order {
		s := &a.parts[at.Part].image.Steps[at.Step]
		if run == end && s.Program != tracebuf.NoProgram {
			break
		}
		if run < first || run == first && first > 0 && s.Program == tracebuf.NoProgram {
			if s.Program != tracebuf.NoProgram {
				run++
				out[at.Part].runs++
			}
			continue
		}
		if s.Program != tracebuf.NoProgram {
			run++
		}
		inside = append(inside, at)
	}
	made, wanted := map[recording]bool{}, map[recording]bool{}
	for _, at := range inside {
		switch s := &a.parts[at.Part].image.Steps[at.Step]; s.Edge.Kind {
		case tracebuf.EdgeRecord:
			made[recording{a.parts[at.Part].q.ID(), s.Edge.Number}] = true
		case tracebuf.EdgeWait:
			if r := (recording{s.Edge.Queue, s.Edge.Number}); made[r] {
				wanted[r] = true
			}
		}
	}
	numbers := map[recording]uint32{}
	for _, at := range inside {
		c := &out[at.Part]
		s := a.parts[at.Part].image.Steps[at.Step]
		switch s.Edge.Kind {
		case tracebuf.EdgeRecord:
			r := recording{a.parts[at.Part].q.ID(), s.Edge.Number}
			if !wanted[r] {
				continue
			}
			c.recorded++
			numbers[r], s.Edge.Number = c.recorded, c.recorded
		case tracebuf.EdgeWait:
			r := recording{s.Edge.Queue, s.Edge.Number}
			if !wanted[r] {
				continue
			}
			s.Edge.Number = numbers[r]
		case tracebuf.EdgeEnd:
			continue
		}
		c.steps = append(c.steps, s)
	}
	for i := range out {
		for k := range out {
			if i != k && out[k].recorded > 0 {
				out[i].steps = append(out[i].steps, tracebuf.Step{Name: "end of the part", Program: tracebuf.NoProgram, Edge: tracebuf.Edge{Kind: tracebuf.EdgeEnd}})
				break
			}
		}
	}
	return out
}

// place writes what a piece has of a part to DRAM.
func (p *piece) place(ctx context.Context, part int, cuts []cut) error {
	a, t, c := p.a, p.a.parts[part], &cuts[part]
	var peers []tracebuf.Peer
	for k := range cuts {
		if k != part {
			peers = append(peers, tracebuf.Peer{Dispatcher: a.parts[k].q.dispatcher(), Recorded: cuts[k].recorded})
		}
	}
	runs := c.runs
	rec := tracebuf.NewRecording(t.image.Layout)
	for i := range c.steps {
		s := &c.steps[i]
		if s.Program != tracebuf.NoProgram {
			rec.Add(s.Name, s.Program, func(dst []byte) []byte { return append(dst, a.cmds[part][s.Offset:s.Offset+s.Size]...) })
			runs++
			continue
		}
		cmds, err := t.q.edge(nil, peers, s.Edge, t.q.q.StateAfter(runs).Expected)
		if err != nil {
			return err
		}
		rec.AddEdge(s.Name, s.Edge, cmds)
	}
	im, err := rec.Finish(a.d.DRAMBanks())
	if err != nil {
		return err
	}
	ext, err := a.d.mem.Allocate(allocator.Request{Kind: allocator.Trace, Size: uint64(len(im.Bytes)), PageSize: uint64(im.PageSize), Owner: a.name, Tag: "part of a trace"})
	if err != nil {
		return t.noRoom(len(im.Bytes), err)
	}
	p.exts = append(p.exts, ext)
	replay, err := tracebuf.NewReplay(t.q.replayConfig(im, ext))
	if err != nil {
		return err
	}
	prep := &dispatch.Prepared{Queue: t.q.q, Name: a.name, Bytes: replay.Bytes[replay.ExecBuf:], Image: im.Bytes[:im.Size], After: t.q.q.StateAfter(runs)}
	if c.runs == 0 {
		prep.Bytes, prep.Counts = replay.Bytes, t.counts(replay)
	}
	p.on, p.preps = append(p.on, part), append(p.preps, prep)
	iv := interleaved(ext)
	p.busy = []*Queue{t.q} // it has waited for the others
	if err := t.q.q.Write(ctx, &iv, 0, im.Bytes); err != nil {
		return err
	}
	if err := t.q.await(ctx); err != nil {
		return err
	}
	p.busy = nil
	return nil
}

// run replays the piece and waits for it.
func (p *piece) run(ctx context.Context) error {
	for _, k := range p.on {
		p.busy = append(p.busy, p.a.parts[k].q)
	}
	if err := p.batch.SubmitReserved(ctx, p.a.rs); err != nil {
		return err
	}
	for _, k := range p.on {
		if err := p.a.parts[k].q.await(ctx); err != nil {
			return err
		}
	}
	p.busy = nil
	return nil
}

func (p *piece) free(ctx context.Context) error {
	free := func() error {
		var errs []error
		for _, e := range p.exts {
			errs = append(errs, p.a.d.mem.Free(e))
		}
		return errors.Join(errs...)
	}
	if len(p.busy) > 0 {
		return p.a.d.freeBehind(ctx, free, p.busy...)
	}
	return free()
}
