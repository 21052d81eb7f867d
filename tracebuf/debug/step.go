package debug

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/reprise-tt/reprise/tracebuf"
)

// StepError names the program at which a trace failed that was run in pieces.
type StepError struct {
	Trace string
	First int
	Last  int
	Name  string      // of the program of First
	Loops []Iteration // outermost first
	Err   error
}

func (e *StepError) Error() string {
	if e.First < 0 {
		return fmt.Sprintf("debug: trace %q: %q%s: %v", e.Trace, e.Name, inside(e.Loops), e.Err)
	}
	if e.First == e.Last {
		return fmt.Sprintf("debug: trace %q: step %d, program %q%s: %v", e.Trace, e.First, e.Name, inside(e.Loops), e.Err)
	}
	return fmt.Sprintf("debug: trace %q: steps %d to %d, from program %q on: %v", e.Trace, e.First, e.Last, e.Name, e.Err)
}

func (e *StepError) Unwrap() error { return e.Err }

// Step runs the trace program by program: the host sends the commands that a replay would have read
// from DRAM, and waits for each program. So a program that hangs is known by name, and after, which
// is called with each finished step, may read buffers. An error of after ends the run. The error is
// a *StepError. With control flow, steps run in every iteration: see Follow.
//
// Until Step returns, the queues refuse other programs and replays, and the trace refuses its
// release, with reprise.ErrReserved.
func (d *Debugger) Step(ctx context.Context, after func(step int) error) error {
	var each func(Position) error
	if after != nil {
		each = func(p Position) error { return after(p.Step) }
	}
	return d.Follow(ctx, nil, each)
}

// Split runs the trace as pieces of about equal numbers of programs, replayed one after the other
// with a wait after each: it narrows down programs that fail only in a replay. after is called with
// the finished steps, from first up to end, without end; an error ends the run. The error is a
// *StepError. Split takes DRAM for the pieces until it returns, and holds the queues as Step does.
// On several queues, a piece has a part on each queue of its programs, with the edges inside of the
// piece. Traces with control flow or computed arguments have no such pieces: see Follow.
func (d *Debugger) Split(ctx context.Context, pieces int, after func(first, end int) error) error {
	n := len(d.runs)
	if d.hasControl() {
		return fmt.Errorf("debug: split trace %q: it has control flow or arguments that the device computes, and pieces are of plain programs: use Follow: %w", d.t.Name(), errors.ErrUnsupported)
	}
	if pieces < 1 || pieces > n {
		return fmt.Errorf("debug: split trace %q: %d pieces: it has %d programs, so 1 to %d pieces are possible", d.t.Name(), pieces, n, n)
	}
	return d.exclusive(ctx, "split", func(r *run) (err error) {
		type piece struct {
			Placed
			first, end int
		}
		var all []piece
		defer func() {
			for _, p := range all {
				err = errors.Join(err, p.Release(ctx))
			}
		}()
		for i := range pieces {
			first, end := i*n/pieces, (i+1)*n/pieces
			p, err := r.place(ctx, first, end)
			if err != nil {
				return err
			}
			all = append(all, piece{p, first, end})
		}
		for _, p := range all {
			err := p.Run(ctx)
			if err == nil && after != nil {
				err = cmp.Or(after(p.first, p.end), r.s.Restarted())
			}
			if err != nil {
				return r.stepError(p.first, p.end, err)
			}
		}
		return nil
	})
}

// Time is the time at which a program of a trace ran.
type Time struct {
	Queue int    // number of the queue
	Name  string // of the program
	// Start and End are cycles of the clock of the queue's dispatch core: when the previous program
	// was done, and when this one was done with all its results in memory. Clocks of different
	// queues may differ by a constant.
	Start, End uint64
}

var errTimeLost = errors.New("its time was lost")

// Times runs the trace program by program, without waiting on the host in between, and returns how
// long each run took on the device. A stamp of the dispatcher follows each program, so that
// programs don't overlap: the sum is more than a replay takes. On several queues the host waits in
// place of edges, with control flow before conditions.
func (d *Debugger) Times(ctx context.Context) (out []Time, err error) {
	err = d.exclusive(ctx, "time", func(r *run) (err error) {
		out, err = r.times(ctx)
		return err
	})
	return out, err
}

func (r *run) times(ctx context.Context) ([]Time, error) {
	type stamp = func() (uint64, bool)
	last := make([]stamp, len(r.parts)) // of each queue
	var from, to []stamp
	edges := len(r.parts) > 1 && !r.hasControl()
	f := &follower{run: r, nowait: true}
	f.program = func(ctx context.Context, at tracebuf.At, n int) (err error) {
		q := r.home(at.Part)
		if last[q] == nil {
			if last[q], err = r.s.Stamp(ctx, q); err != nil {
				return err
			}
		}
		if err := r.sendProgram(ctx, at, n); err != nil {
			return err
		}
		end, err := r.s.Stamp(ctx, q)
		from, to = append(from, last[q]), append(to, end)
		last[q] = end
		if err == nil && edges {
			err = r.s.Wait(ctx, q)
		}
		return err
	}
	if err := f.follow(ctx); err != nil {
		return nil, err
	}
	if err := r.finish(ctx); err != nil {
		return nil, r.stepError(0, len(r.runs), err)
	}
	var out []Time
	for i := range from {
		p := nth(f.path, i)
		start, began := from[i]()
		end, ended := to[i]()
		if !began || !ended {
			return nil, &StepError{Trace: r.t.Name(), First: p.Step, Last: p.Step, Name: p.Name, Loops: p.Loops,
				Err: cmp.Or(r.s.Restarted(), errTimeLost)}
		}
		out = append(out, Time{Queue: p.Queue, Name: p.Name, Start: start, End: end})
	}
	return out, nil
}

func (r *run) place(ctx context.Context, first, end int) (Placed, error) {
	cuts := r.cut(first, end)
	recorded := make([]uint32, len(cuts))
	for i := range cuts {
		recorded[i] = cuts[i].recorded
	}
	var pieces []Piece
	for i := range cuts {
		if len(cuts[i].steps) == 0 {
			continue
		}
		p, err := r.piece(i, &cuts[i], recorded)
		if err != nil {
			return nil, err
		}
		pieces = append(pieces, p)
	}
	return r.s.Place(ctx, pieces)
}

func (r *run) piece(part int, c *cut, recorded []uint32) (Piece, error) {
	p := Piece{Part: part, Before: c.programs, After: c.programs}
	commands, image := r.s.Commands(part), r.parts[part].Image
	rec := tracebuf.NewRecording(image.Layout)
	for i := range c.steps {
		s := &c.steps[i]
		if s.Program != tracebuf.NoProgram {
			addStep(rec, s, commands)
			p.After++
			continue
		}
		edge, err := r.s.Edge(part, recorded, s.Edge, p.After)
		if err != nil {
			return p, err
		}
		rec.AddEdge(s.Name, s.Edge, edge)
	}
	var err error
	p.Image, err = rec.Finish(r.parts[part].Banks)
	return p, err
}

// cut is a part's steps in a piece.
type cut struct {
	programs int
	steps    []tracebuf.Step
	recorded uint32
}

type recording struct {
	queue  int
	number uint32
}

// cut keeps the edges inside of the piece; the host's wait before the piece replaces edges from
// before.
func (r *run) cut(first, end int) []cut {
	out := make([]cut, len(r.parts))
	inside := r.inside(first, end, out)
	wanted := r.wanted(inside)
	numbers := map[recording]uint32{}
	for _, at := range inside {
		c, s := &out[at.Part], *r.step(at)
		switch s.Edge.Kind {
		case tracebuf.EdgeRecord:
			rec := recording{r.parts[at.Part].Queue, s.Edge.Number}
			if !wanted[rec] {
				continue
			}
			c.recorded++
			numbers[rec], s.Edge.Number = c.recorded, c.recorded
		case tracebuf.EdgeWait:
			rec := recording{s.Edge.Queue, s.Edge.Number}
			if !wanted[rec] {
				continue
			}
			s.Edge.Number = numbers[rec]
		case tracebuf.EdgeEnd:
			continue
		}
		c.steps = append(c.steps, s)
	}
	for i := range out {
		for k := range out {
			if i != k && out[k].recorded > 0 {
				out[i].steps = append(out[i].steps, tracebuf.Step{Name: "end of the part", Program: tracebuf.NoProgram,
					Edge: tracebuf.Edge{Kind: tracebuf.EdgeEnd}})
				break
			}
		}
	}
	return out
}

func (r *run) inside(first, end int, cuts []cut) []tracebuf.At {
	var out []tracebuf.At
	n := 0
	for _, at := range r.order {
		program := r.step(at).Program != tracebuf.NoProgram
		if n == end && program {
			break
		}
		if n < first || n == first && first > 0 && !program {
			if program {
				n++
				cuts[at.Part].programs++
			}
			continue
		}
		if program {
			n++
		}
		out = append(out, at)
	}
	return out
}

func (r *run) wanted(steps []tracebuf.At) map[recording]bool {
	made, out := map[recording]bool{}, map[recording]bool{}
	for _, at := range steps {
		switch s := r.step(at); s.Edge.Kind {
		case tracebuf.EdgeRecord:
			made[recording{r.parts[at.Part].Queue, s.Edge.Number}] = true
		case tracebuf.EdgeWait:
			if rec := (recording{s.Edge.Queue, s.Edge.Number}); made[rec] {
				out[rec] = true
			}
		}
	}
	return out
}
