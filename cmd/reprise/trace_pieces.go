package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/tracebuf"
)

// pieceJSON is one program of a trace, or several one behind the other, that were run by themselves.
type pieceJSON struct {
	First   int      `json:"first"` // number of its first program, from 0
	Last    int      `json:"last"`
	Name    string   `json:"name"` // of the first program
	Seconds float64  `json:"seconds"`
	Changed []string `json:"changed"` // buffers that hold something else afterwards
}

// badError names the first program of a trace that goes wrong.
type badError struct {
	step int
	name string
	of   int
}

func (e *badError) Error() string {
	return fmt.Sprintf("trace run: program %d %s is the first of %d behind which a replay hangs or differs from the programs run one by one", e.step, tracebuf.Printable(e.name), e.of)
}

// run does what the flags ask for. An error for which isFinding holds is a result.
func (c *traceRunCmd) run(ctx context.Context, q *reprise.Queue, t *reprise.Trace, out *runJSON) error {
	p := &pieces{ctx: ctx, q: q, t: t, out: out}
	switch {
	case c.Step:
		out.Mode = "step"
		if err := p.begin(); err != nil {
			return err
		}
		if err := t.Step(ctx, func(i int) error { return p.done(i, i+1) }); err != nil {
			return err
		}
		return out.compare(ctx, t)
	case c.Split > 0:
		out.Mode = "split"
		if err := p.begin(); err != nil {
			return err
		}
		if err := t.Split(ctx, c.Split, p.done); err != nil {
			return err
		}
		return out.compare(ctx, t)
	case c.Check:
		out.Mode = "check"
		err := t.Check(ctx)
		var e *reprise.CheckError
		if errors.As(err, &e) {
			out.FirstBad, out.BadName = &e.Step, e.Name
		}
		return err
	case c.Bisect:
		out.Mode = "bisect"
		return p.bisect()
	}
	out.Mode = "replay"
	return c.replay(ctx, q, t, out)
}

// pieces runs a trace in parts and sees what they change.
type pieces struct {
	ctx   context.Context
	q     *reprise.Queue
	t     *reprise.Trace
	out   *runJSON
	start time.Time
	held  []runBufferJSON
}

func (p *pieces) begin() (err error) {
	p.held, err = contents(p.ctx, p.q, p.t)
	p.start = time.Now()
	return err
}

// done notes what the programs from first up to end have changed.
func (p *pieces) done(first, end int) error {
	took := time.Since(p.start)
	now, err := contents(p.ctx, p.q, p.t)
	if err != nil {
		return err
	}
	piece := pieceJSON{First: first, Last: end - 1, Name: p.t.Steps()[first].Name, Seconds: took.Seconds(), Changed: []string{}}
	for i := range now {
		if now[i] != p.held[i] {
			piece.Changed = append(piece.Changed, now[i].Name)
		}
	}
	p.out.Pieces = append(p.out.Pieces, piece)
	p.held, p.start = now, time.Now()
	return nil
}

// bisect finds the first program that goes wrong in a replay. What is right is what the buffers hold when the programs
// are run one by one; the first that hangs even then is found on the way.
func (p *pieces) bisect() error {
	bufs := p.t.Buffers()
	before := make([][]byte, len(bufs))
	for i, b := range bufs {
		before[i] = make([]byte, b.Size())
		if err := p.q.Read(p.ctx, b, 0, before[i]); err != nil {
			return err
		}
	}
	var right [][]runBufferJSON
	err := p.t.Step(p.ctx, func(int) error {
		now, err := contents(p.ctx, p.q, p.t)
		right = append(right, now)
		return err
	})
	if err != nil {
		return err
	}
	prepare := func(int) error {
		for i, b := range bufs {
			if err := p.q.Write(p.ctx, b, 0, before[i]); err != nil {
				return err
			}
		}
		return nil
	}
	step, err := p.t.Bisect(p.ctx, prepare, func(n int) (bool, error) {
		now, err := contents(p.ctx, p.q, p.t)
		if err != nil {
			return false, err
		}
		for i := range now {
			if now[i] != right[n-1][i] {
				return false, nil
			}
		}
		return true, nil
	})
	if err != nil || step < 0 {
		return err
	}
	name := p.t.Steps()[step].Name
	p.out.FirstBad, p.out.BadName = &step, name
	return &badError{step: step, name: name, of: len(right)}
}

func (r *runJSON) printPieces(w io.Writer) {
	for _, p := range r.Pieces {
		which := fmt.Sprintf("program %d %s", p.First, tracebuf.Printable(p.Name))
		if p.Last > p.First {
			which = fmt.Sprintf("programs %d to %d, from %s on", p.First, p.Last, tracebuf.Printable(p.Name))
		}
		changed := "nothing"
		if len(p.Changed) > 0 {
			var b bytes.Buffer
			for i, n := range p.Changed {
				if i > 0 {
					b.WriteString(", ")
				}
				b.WriteString(tracebuf.Printable(n))
			}
			changed = b.String()
		}
		fmt.Fprintf(w, "%s: %.3f s, changed %s\n", which, p.Seconds, changed)
	}
	switch {
	case r.FirstBad != nil:
		fmt.Fprintf(w, "program %d %s is the first that goes wrong in a replay\n", *r.FirstBad, tracebuf.Printable(r.BadName))
	case r.Mode == "check", r.Mode == "bisect":
		fmt.Fprintln(w, "a replay does what the programs do one by one")
	}
}
