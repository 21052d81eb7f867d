package traces

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/reprise-tt/reprise/tracebuf"
	"github.com/reprise-tt/reprise/tracebuf/debug"
)

// ran notes a piece that has run.
func (r *traceRun) ran(first, end int) {
	all := programsOf(r.Trace)
	r.out.Pieces = append(r.out.Pieces, pieceJSON{all[first], all[end-1]})
}

func (r *traceRun) step(ctx context.Context) (wrong, err error) {
	if err := r.Debug().Step(ctx, func(i int) error { r.ran(i, i+1); return nil }); err != nil {
		return nil, err
	}
	return r.results(ctx)
}

func (r *traceRun) split(ctx context.Context, pieces int) (wrong, err error) {
	if err := r.Debug().Split(ctx, pieces, func(first, end int) error { r.ran(first, end); return nil }); err != nil {
		return nil, err
	}
	return r.results(ctx)
}

func (r *traceRun) check(ctx context.Context) (wrong, err error) {
	err = r.Debug().Check(ctx)
	var c *debug.CheckError
	if errors.As(err, &c) {
		if c.Step >= 0 {
			r.out.Found = &programsOf(r.Trace)[c.Step]
			r.out.Found.Loops = c.Loops
		}
		return err, nil
	}
	return nil, err
}

// bisect records what the programs leave in the buffers one by one, and searches for the shortest beginning of the trace
// that leaves something else when it is replayed, or hangs. At the end the buffers hold what they held before.
func (r *traceRun) bisect(ctx context.Context) (wrong, err error) {
	bufs, q := r.Buffers(), r.dev.Queue(0)
	before := make([][]byte, len(bufs))
	for i, b := range bufs {
		before[i] = make([]byte, b.Size())
		if err := q.Read(ctx, b, 0, before[i]); err != nil {
			return nil, err
		}
	}
	restore := func() error {
		for i, b := range bufs {
			if err := q.Write(ctx, b, 0, before[i]); err != nil {
				return err
			}
		}
		return q.Wait(ctx)
	}
	var want [][]runBufferJSON // after each program
	err = r.Debug().Step(ctx, func(int) error {
		c, err := r.contents(ctx)
		want = append(want, c)
		return err
	})
	if err != nil {
		return nil, err
	}
	at, err := r.Debug().BisectRun(ctx, func(int) error { return restore() }, func(n int) (bool, error) {
		c, err := r.contents(ctx)
		return slices.Equal(c, want[n-1]), err
	})
	if err == nil {
		err = restore()
	}
	if err != nil || at == nil {
		return nil, err
	}
	p := &programsOf(r.Trace)[at.Step]
	p.Loops = at.Loops
	r.out.Found = p
	return fmt.Errorf(
		"trace run: program %d %s%s is the first with which a replay hangs, or leaves something else in the buffers than the programs one by one",
		p.Step,
		tracebuf.Printable(p.Name),
		p.in(),
	), nil
}
