package mesh

import (
	"iter"

	"github.com/reprise-tt/reprise"
)

// Loop records a loop on every chip of the mesh: see [reprise.Recorder.Loop]. Each chip counts for
// itself.
func (r *Recorder) Loop(n uint32, body func() error) error {
	return r.control("record a loop", func(i int, b []func() error) error { return r.rs[i].Loop(n, b[0]) }, body)
}

// While records a loop with a condition on every chip of the mesh: see [reprise.Recorder.While].
// Each chip decides by its own word: programs that wait for other chips, as collectives do, hang if
// the chips don't decide alike. A word that a collective of the body writes on all chips makes one
// decision for all.
func (r *Recorder) While(cond func(c *Chip) reprise.Cond, limit uint32, body func() error) error {
	return r.control("record a loop", func(i int, b []func() error) error { return r.rs[i].While(cond(r.m.chips[i]), limit, b[0]) }, body)
}

// If records a branch on every chip of the mesh: see [reprise.Recorder.If]. Each chip decides by
// its own word, as for While.
func (r *Recorder) If(cond func(c *Chip) reprise.Cond, then, otherwise func() error) error {
	bodies := []func() error{then}
	if otherwise != nil {
		bodies = append(bodies, otherwise)
	}
	return r.control("record a branch", func(i int, b []func() error) error {
		return r.rs[i].If(cond(r.m.chips[i]), b[0], append(b, nil)[1])
	}, bodies...)
}

// Switch records a branch by a word on every chip of the mesh: see [reprise.Recorder.Switch].
func (r *Recorder) Switch(b *Buffer, offset int, bodies ...func() error) error {
	if err := b.of(r.m); err != nil {
		return r.m.failure("record a branch", []error{err})
	}
	return r.control("record a branch", func(i int, bs []func() error) error { return r.rs[i].Switch(b.bufs[i], offset, bs...) }, bodies...)
}

// Call records that another trace runs here, on every chip of the mesh: see
// [reprise.Recorder.Call]. It must have been captured on the same queue of every chip.
func (r *Recorder) Call(t *reprise.Trace) error {
	return r.each("record a call", func(i int) error { return r.rs[i].Call(t) })
}

// control records the same construct on all chips. Each body is called once, when all chips are in
// it: so the chips' constructs are recorded in step, by coroutines that stop where a body begins
// and go on where it ends.
func (r *Recorder) control(op string, construct func(i int, bodies []func() error) error, bodies ...func() error) error {
	var ended error // of the present body
	errs := make([]error, len(r.rs))
	next := make([]func() (int, bool), len(r.rs))
	for _, i := range r.m.here {
		bs := make([]func() error, len(bodies))
		pull, stop := iter.Pull(func(yield func(int) bool) {
			for k := range bodies {
				if bodies[k] == nil {
					continue // which the chip refuses
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
