package mesh

import (
	"iter"

	"github.com/reprise-tt/reprise"
)

// Loop is [reprise.Recorder.Loop] on every chip. Each chip counts for itself.
func (r *Recorder) Loop(n uint32, body func() error) error {
	return r.control("record a loop", func(i int, b []func() error) error { return r.rs[i].Loop(n, b[0]) }, body)
}

// While is [reprise.Recorder.While] on every chip. Each chip decides by its own word. Programs that
// wait for other chips, as collectives do, hang if the chips decide differently.
func (r *Recorder) While(cond func(c *Chip) reprise.Cond, limit uint32, body func() error) error {
	return r.control("record a loop", func(i int, b []func() error) error { return r.rs[i].While(cond(r.m.chips[i]), limit, b[0]) }, body)
}

// If is [reprise.Recorder.If] on every chip. Each chip decides by its own word, as for While.
func (r *Recorder) If(cond func(c *Chip) reprise.Cond, then, otherwise func() error) error {
	bodies := []func() error{then}
	if otherwise != nil {
		bodies = append(bodies, otherwise)
	}
	return r.control("record a branch", func(i int, b []func() error) error {
		return r.rs[i].If(cond(r.m.chips[i]), b[0], append(b, nil)[1])
	}, bodies...)
}

// Switch is [reprise.Recorder.Switch] on every chip.
func (r *Recorder) Switch(b *Buffer, offset int, bodies ...func() error) error {
	if err := b.of(r.m); err != nil {
		return r.m.failure("record a branch", []error{err})
	}
	return r.control("record a branch", func(i int, bs []func() error) error { return r.rs[i].Switch(b.bufs[i], offset, bs...) }, bodies...)
}

// Call is [reprise.Recorder.Call] of a trace that was captured on the same queue of every chip.
func (r *Recorder) Call(t *reprise.Trace) error {
	return r.each("record a call", func(i int) error { return r.rs[i].Call(t) })
}

// control records the same construct on all chips and calls each body once, when all chips are in
// it. The chips' constructs are coroutines that stop at the start of a body and continue at its
// end.
func (r *Recorder) control(op string, construct func(i int, bodies []func() error) error, bodies ...func() error) error {
	var ended error
	errs := make([]error, len(r.rs))
	next := make([]func() (int, bool), len(r.rs))
	for _, i := range r.m.here {
		bs := make([]func() error, len(bodies))
		pull, stop := iter.Pull(func(yield func(int) bool) {
			for k := range bodies {
				if bodies[k] == nil {
					continue
				}
				bs[k] = func() error {
					yield(k)
					return ended
				}
			}
			errs[i] = construct(i, bs)
		})
		defer stop()
		next[i] = pull
	}
	for {
		body, open := 0, 0
		for _, i := range r.m.here {
			if k, ok := next[i](); ok {
				body, open = k, open+1
			} else if errs[i] != nil {
				return r.m.failure(op, errs)
			}
		}
		if open == 0 {
			return nil
		}
		ended = bodies[body]()
	}
}
