package hosts

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"sync"

	"github.com/reprise-tt/reprise/allocator"
	"github.com/reprise-tt/reprise/mesh"
)

// Engine exchanges bytes between all hosts.
type Engine = mesh.Hosts

// Group is this host's mesh as one of several that work in step. Every host must call the same
// methods in the same order. Calls from several goroutines run one at a time.
type Group struct {
	e Engine
	m *mesh.Mesh

	mu         sync.Mutex
	fault      error // of this host, until a Wait succeeds
	unreported error // of its last replay, until the others have received it
}

type traits struct {
	Shape        []int
	Arch         string
	Grid         string
	Queues       int
	DRAM, L1     uint64
	Small, Trace uint64
}

// Join makes a group of the hosts' meshes. If their shapes, architectures, grids, queues or memory
// differ, every host gets an *Error, with ErrMismatch for each host that differs from host 0.
func Join(ctx context.Context, e Engine, m *mesh.Mesh) (*Group, error) {
	if e == nil || m == nil {
		return nil, fmt.Errorf("hosts: join: %w: the engine or the mesh is nil", ErrConfig)
	}
	g := &Group{e: e, m: m}
	if err := g.alike(ctx, "join"); err != nil {
		return nil, err
	}
	return g, nil
}

// Mesh returns this host's mesh.
func (g *Group) Mesh() *mesh.Mesh { return g.m }

// InStep returns an error unless equal allocations get equal addresses on all hosts.
func (g *Group) InStep(ctx context.Context) error { return g.alike(ctx, "compare memory") }

func (g *Group) alike(ctx context.Context, op string) error {
	here := g.m.Here()
	if len(here) == 0 {
		return fmt.Errorf("hosts: %s: %w: %v has no chip of this host", op, ErrConfig, g.m)
	}
	d := here[0].Device
	mine := traits{
		g.m.Shape(), d.Arch().String(), fmt.Sprint(d.Grid()), d.Queues(),
		d.MemoryFingerprint(allocator.DRAM), d.MemoryFingerprint(allocator.L1), d.MemoryFingerprint(allocator.L1Small),
		d.MemoryFingerprint(allocator.Trace),
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

// Resume returns the step from which all hosts go on after a restart: the least of the numbers of
// steps that they have saved. A program must keep its last two steps: a host that was stopped while
// others saved has one less.
func (g *Group) Resume(ctx context.Context, saved uint64) (uint64, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	const op = "resume"
	all, err := g.e.Exchange(ctx, op, binary.LittleEndian.AppendUint64(nil, saved))
	if err != nil {
		return 0, err
	}
	for rank, b := range all {
		if len(b) != 8 {
			return 0, fmt.Errorf("hosts: %s: %w: host %d says %d B, want 8: is it another program?", op, ErrMismatch, rank, len(b))
		}
		saved = min(saved, binary.LittleEndian.Uint64(b))
	}
	return saved, nil
}

// Replayer is a trace over the chips of this host's mesh.
type Replayer interface {
	Replay(ctx context.Context) error
}

// Replay waits until all hosts have called it and then replays a trace of this host's mesh. If a
// host has failed since its last Wait, no host replays, and all get an *Error with the state of
// every host. A failure of this host's replay is returned here, and by the next Replay or Wait on
// the other hosts. Traces with a Name must have the same one on all hosts (ErrOrder).
func (g *Group) Replay(ctx context.Context, t Replayer) error {
	op := "replay"
	if named, ok := t.(interface{ Name() string }); ok {
		op = fmt.Sprintf("replay trace %q", named.Name())
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if err := g.report(ctx, op, g.fault); err != nil {
		return err
	}
	g.unreported = t.Replay(ctx)
	g.fault = g.unreported
	return g.fault
}

// Wait waits until the chips of this host have finished a queue, then for the other hosts. If a
// host failed, now or in a replay that it has not reported, all get an *Error with the state of
// every host.
func (g *Group) Wait(ctx context.Context, q *mesh.Queue) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	done := q.Wait(ctx)
	err := g.report(ctx, "wait for queue", errors.Join(g.unreported, done))
	// Keep a failure that wasn't reported: an exchange that has not started can be tried again.
	g.fault = errors.Join(g.unreported, done)
	return err
}

func (g *Group) report(ctx context.Context, op string, fault error) error {
	var mine []byte
	if fault != nil {
		mine = []byte(fault.Error())
		mine = mine[:min(len(mine), maxText)]
	}
	all, err := g.e.Exchange(ctx, op, mine)
	if err != nil {
		return errors.Join(fault, err)
	}
	g.unreported = nil
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

const maxText = 64 << 10

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
