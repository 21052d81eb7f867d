package reprise

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/reprise-tt/reprise/dispatch"
)

// ErrUnsent is why a trace of a Salvo wasn't replayed although nothing is wrong with it: another one couldn't be.
var ErrUnsent = dispatch.ErrUnsent

// Salvo is traces of several devices that are replayed together: see NewSalvo.
type Salvo struct {
	ts    []*Trace
	order []int // of the traces, in which Observers hear of them
	salvo *dispatch.Salvo
}

// NewSalvo joins traces of different queues.
func NewSalvo(ts []*Trace) (*Salvo, error) {
	s := &Salvo{ts: ts}
	qs, ps := make([]*dispatch.Queue, len(ts)), make([]*dispatch.Prepared, len(ts))
	for i, t := range ts {
		if t == nil {
			return nil, fmt.Errorf("reprise: join traces: trace %d of the list is nil", i)
		}
		for _, o := range ts[:i] {
			if o.q == t.q {
				return nil, fmt.Errorf("reprise: join traces: %q and %q are both of queue %d of %s", o.name, t.name, t.q.ID(), t.q.d.name)
			}
		}
		qs[i], ps[i] = t.q.q, &t.prep
	}
	for i := range ts {
		s.order = append(s.order, i)
	}
	slices.SortFunc(s.order, func(a, b int) int { return qs[a].Compare(qs[b]) })
	s.salvo = dispatch.NewSalvo(qs, ps)
	return s, nil
}

// Replay replays the traces, so that the devices start together: within the time that it takes the host to make one store
// for each. When one of them can't be replayed, none is, which ErrUnsent says of the others; when a device stops in the middle, those of the others are.
// The errors are those of each trace, in order, and nil if there are none; they are good until the next Replay. It
// allocates nothing unless parameters were changed. Only one goroutine at a time may replay a Salvo.
func (s *Salvo) Replay(ctx context.Context) []error {
	for _, t := range s.ts {
		if t.q.d.watch.on.Load() != nil {
			return s.observed(ctx)
		}
	}
	return s.replay(ctx)
}

func (s *Salvo) observed(ctx context.Context) []error {
	ds := make([]*Device, len(s.ts))
	for i, k := range s.order {
		ds[i] = s.ts[k].q.d
	}
	var errs []error
	call := func(i int) *Call {
		t := s.ts[s.order[i]]
		return &Call{Kind: CallReplay, Queues: t.q.self, Name: t.name, Object: t, Bytes: len(t.prep.Bytes)}
	}
	_ = observeAll(ctx, ds, call, func(int, *Call) {}, func() error { // what each trace's error is, errs says
		errs = s.replay(ctx)
		return errors.Join(errs...)
	})
	return errs
}

func (s *Salvo) replay(ctx context.Context) []error {
	for i, t := range s.ts {
		var err error
		if t.q.d.captures.open.Load() != nil {
			err = t.q.d.refuse(t.q, opReplay, t.name)
		}
		if err == nil && t.params.changed.Load() {
			if err = t.flush(ctx); err != nil {
				err = t.q.d.failed(fmt.Sprintf("replay trace %q", t.name), err)
			}
		}
		if err != nil {
			errs := make([]error, len(s.ts))
			for j := range errs {
				errs[j] = ErrUnsent
			}
			errs[i] = err
			return errs
		}
	}
	errs := s.salvo.Submit(ctx)
	for i, err := range errs {
		if err == nil || err == ErrUnsent {
			continue
		}
		if errors.Is(err, dispatch.ErrRevoked) {
			err = ErrReleased
		}
		t := s.ts[i]
		errs[i] = t.q.d.failed(fmt.Sprintf("replay trace %q", t.name), overlap(err))
	}
	return errs
}
