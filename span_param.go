package reprise

import (
	"context"
	"errors"
	"fmt"

	"github.com/reprise-tt/reprise/tracebuf"
)

// Params returns the parameters of the part that is on a queue: see [Trace.Params]. Their buffers are by number in
// [SpanningTrace.Buffers].
func (t *SpanningTrace) Params(q *Queue) []tracebuf.Param {
	for _, part := range t.parts {
		if part.q == q {
			return part.params.describe(t.Buffers())
		}
	}
	return nil
}

// Set gives a parameter a value from the next replay on, in all parts that have one of that name: see [Trace.Set].
func (t *SpanningTrace) Set(name string, v uint32) error {
	return t.set(name, func(part *Trace) error { return part.Set(name, v) })
}

// SetBuffer is Set for the address of a buffer: see [Trace.SetBuffer].
func (t *SpanningTrace) SetBuffer(name string, b *Buffer) error {
	return t.set(name, func(part *Trace) error { return part.SetBuffer(name, b) })
}

func (t *SpanningTrace) set(name string, set func(*Trace) error) error {
	var errs []error
	found := false
	for _, part := range t.parts {
		if part.params.has(name) {
			found = true
			errs = append(errs, set(part))
		}
	}
	if !found {
		return fmt.Errorf("reprise: trace %q: set parameter %q: %w", t.name, name, ErrNoParam)
	}
	return errors.Join(errs...)
}

func (ps *params) has(name string) bool {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	return ps.byName[name] != nil
}

// flush writes the parameters that have changed, each part's in its queue.
func (t *SpanningTrace) flush(ctx context.Context) error {
	for _, part := range t.parts {
		if part.params.changed.Load() {
			if err := part.flush(ctx); err != nil {
				return err
			}
		}
	}
	return nil
}
