package hosts

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/allocator"
	"github.com/reprise-tt/reprise/mesh"
)

// Group is this host's mesh as one of several that work in step. Every host calls its methods in the same order; from several
// goroutines they are one at a time.
type Group struct {
	e Engine
	m *mesh.Mesh

	mu     sync.Mutex
	fault  error // of this host, until it has finished again
	untold error // of its last replay, until the others have heard of it
}

// traits is what must be equal on all hosts so that one trace fits all.
type traits struct {
	Shape        []int
	Arch         string
	Grid         string
	Queues       int
	DRAM, L1     uint64 // fingerprints
	Small, Trace uint64
}

// Join makes a group of the hosts' meshes. They must have the same shape, architecture, grid, queues and memory; if not, the
// error is an *Error on every host, with ErrMismatch for those that aren't like host 0.
func Join(ctx context.Context, e Engine, m *mesh.Mesh) (*Group, error) {
	if e == nil || m == nil {
		return nil, fmt.Errorf("hosts: join: %w: no engine or no mesh: both are needed", ErrConfig)
	}
	g := &Group{e: e, m: m}
	if err := g.alike(ctx, "join"); err != nil {
		return nil, err
	}
	return g, nil
}

// Mesh returns this host's mesh.
func (g *Group) Mesh() *mesh.Mesh { return g.m }

// InStep says whether the hosts would still give the same requests for memory the same addresses, as mesh.Mesh.InStep does
// within one.
func (g *Group) InStep(ctx context.Context) error { return g.alike(ctx, "compare memory") }

func (g *Group) alike(ctx context.Context, op string) error {
	d := g.m.Chips()[0].Device
	mine := traits{
		g.m.Shape(), d.Arch().String(), fmt.Sprint(d.Grid()), d.Queues(),
		d.MemoryFingerprint(reprise.DRAM), d.MemoryFingerprint(reprise.L1), d.MemoryFingerprint(reprise.L1Small), d.MemoryFingerprint(allocator.Trace),
	}
	data, err := json.Marshal(mine)
	if err != nil {
		return fmt.Errorf("hosts: %s: %w", op, err)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	all, err := g.e.Exchange(ctx, op, data)
	if err != nil {
		return err
	}
	errs := make([]error, len(all))
	for i, d := range all {
		if string(d) != string(all[0]) {
			errs[i] = fmt.Errorf("%w: it has %s, host 0 has %s", ErrMismatch, d, all[0])
		}
	}
	return failure(op, errs)
}

// Replayer is a trace over the chips of this host's mesh: a *mesh.Trace, *mesh.Span or *mesh.SpanningTrace.
type Replayer interface {
	Replay(ctx context.Context) error
}

// Replay replays a trace of this host's mesh when all hosts have come to do so. If one has failed since it last finished,
// nobody replays, and all get an *Error with the state of every host. What goes wrong with this host's own replay is
// returned here alone, and the others hear of it at their next Replay or Finish. Traces that have names need the same one
// (ErrOrder).
func (g *Group) Replay(ctx context.Context, t Replayer) error {
	op := "replay"
	if named, ok := t.(interface{ Name() string }); ok {
		op = fmt.Sprintf("replay trace %q", named.Name())
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if err := g.tell(ctx, op, g.fault); err != nil {
		return err
	}
	g.untold = t.Replay(ctx)
	g.fault = g.untold
	return g.fault
}

// Finish waits until the chips of this host have done all that is in a queue, then for the other hosts. If one of them failed,
// here or in a replay of which the others have not heard, all get an *Error with the state of every host.
func (g *Group) Finish(ctx context.Context, q *mesh.Queue) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	done := q.Finish(ctx)
	err := g.tell(ctx, "finish", errors.Join(g.untold, done))
	// A replay that the others could not be told of still counts: an exchange that has not begun may be tried again.
	g.fault = errors.Join(g.untold, done)
	return err
}

// tell says whether this host is well, and hears of the others. If they can't be reached, what is wrong here is all the more
// worth knowing.
func (g *Group) tell(ctx context.Context, op string, fault error) error {
	var mine []byte
	if fault != nil {
		mine = []byte(fault.Error())
	}
	all, err := g.e.Exchange(ctx, op, mine)
	if err != nil {
		return errors.Join(fault, err)
	}
	g.untold = nil
	errs := make([]error, len(all))
	for i, text := range all {
		switch {
		case i == g.e.Rank():
			errs[i] = fault
		case len(text) > 0:
			errs[i] = fmt.Errorf("%w: %s", ErrElsewhere, text)
		}
	}
	return failure(op, errs)
}

// failure returns an *Error with the state of every host, or nil if there is none.
func failure(op string, errs []error) error {
	e := &Error{Op: op}
	for i, err := range errs {
		e.Hosts = append(e.Hosts, State{i, err})
	}
	if len(e.Failed()) == 0 {
		return nil
	}
	return e
}
