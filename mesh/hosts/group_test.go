package hosts_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net"
	"testing"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/allocator"
	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/kernels"
	"github.com/reprise-tt/reprise/mesh"
	"github.com/reprise-tt/reprise/mesh/hosts"
	"github.com/reprise-tt/reprise/sim"
)

// host is one of several hosts, each with a card with two chips.
type host struct {
	*hosts.Group
	queue *mesh.Queue
	trace *reprise.Trace
	out   *mesh.Buffer
}

func buffer(m *mesh.Mesh, name string) (*mesh.Buffer, error) {
	return m.NewBuffer(mesh.BufferConfig{BufferConfig: reprise.BufferConfig{Kind: allocator.DRAM, Size: 64, PageSize: 64, Name: name}})
}

// start opens a mesh, loads a program and captures a trace, as a host's program does.
func start(t *testing.T, n *hosts.Node, m *mesh.Mesh) (*host, error) {
	ctx := t.Context()
	g, err := hosts.Join(ctx, n, m)
	if err != nil {
		return nil, err
	}
	h := &host{Group: g, queue: m.Queue(0)}
	in, err := buffer(m, "in")
	if err != nil {
		return nil, err
	}
	if h.out, err = buffer(m, "out"); err != nil {
		return nil, err
	}
	cores := []chip.Range{chip.Single(0, 0)}
	args := func(a ...uint32) func(chip.Core) []uint32 { return func(chip.Core) []uint32 { return a } }
	p := &reprise.Program{Name: "add", CircularBuffers: []reprise.CircularBuffer{{Index: 0, Cores: cores, PageSize: 64, Pages: 2}, {Index: 16, Cores: cores, PageSize: 64, Pages: 2}}}
	for _, k := range []reprise.Kernel{
		{Name: kernels.CopyReader, Processor: chip.BRISC, Args: args(in.Addr(), 0, 1, 64, 0)},
		{Name: kernels.Add, Processor: chip.TRISC0, Args: args(0, 16, 1, uint32(7+n.Rank()))},
		{Name: kernels.CopyWriter, Processor: chip.NCRISC, Args: args(h.out.Addr(), 0, 1, 64, 16)},
	} {
		if k.Image, err = kernels.Prebuilt(m.Chips()[0].Device.Arch(), k.Name); err != nil {
			return nil, err
		}
		k.Cores = cores
		p.Kernels = append(p.Kernels, k)
	}
	x, err := m.Load(ctx, "add", mesh.Same(mesh.Range{}, p, in, h.out))
	if err != nil {
		return nil, err
	}
	if err := h.queue.Write(ctx, in, make([]byte, 64)); err != nil {
		return nil, err
	}
	h.trace, err = h.queue.Capture(ctx, "step", func(_ context.Context, r *mesh.Recorder) error { return r.Run(x) })
	return h, err
}

func openMesh(t *testing.T, machine *sim.Machine, shape mesh.Shape) *mesh.Mesh {
	t.Helper()
	t.Cleanup(func() { _ = machine.Close() })
	m, err := mesh.Open(t.Context(), mesh.Cards(machine.Cards()...), shape)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = m.Close(context.Background()) })
	return m
}

// Three hosts join, stay in step and replay together. All hear of one that fails, and then none replays.
func TestGroup(t *testing.T) {
	nodes := listen(t, 3, 2)
	meshes, group := make([]*mesh.Mesh, 3), make([]*host, 3)
	for i := range meshes {
		meshes[i] = openMesh(t, sim.P300(), mesh.Shape{1, 2})
	}
	each := func(f func(i int) error) []error {
		return all(nodes, func(n *hosts.Node) error { return f(n.Rank()) })
	}
	if err := errors.Join(each(func(i int) (err error) { group[i], err = start(t, nodes[i], meshes[i]); return err })...); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(each(func(i int) error {
		h := group[i]
		for range 3 {
			if err := h.Replay(t.Context(), h.trace); err != nil {
				return err
			}
		}
		if err := errors.Join(h.Wait(t.Context(), h.queue), h.InStep(t.Context())); err != nil {
			return err
		}
		got := make([]byte, 64)
		if err := h.queue.Read(t.Context(), h.out, got); err != nil {
			return err
		}
		if got[0] != byte(7+i) {
			return fmt.Errorf("host %d computed %d", i, got[0])
		}
		return nil
	})...); err != nil {
		t.Fatal(err)
	}

	// One host allocates memory that the others don't.
	if _, err := buffer(meshes[2], "extra"); err != nil {
		t.Fatal(err)
	}
	for i, err := range each(func(i int) error { return group[i].InStep(t.Context()) }) {
		var e *hosts.Error
		if !errors.As(err, &e) || !errors.Is(err, hosts.ErrMismatch) || len(e.Hosts) != 3 || len(e.Failed()) != 1 || e.Failed()[0].Rank != 2 {
			t.Errorf("host %d: %v", i, err)
		}
	}

	// A trace is released on host 1: its replay fails, which the others learn in the next exchange.
	if err := group[1].trace.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	for i, err := range each(func(i int) error { return group[i].Replay(t.Context(), group[i].trace) }) {
		if (err != nil) != (i == 1) {
			t.Errorf("host %d: %v", i, err)
		}
	}
	ran := make([]bool, 3)
	for i, err := range each(func(i int) error {
		return group[i].Replay(t.Context(), replayer(func() { ran[i] = true }, "step"))
	}) {
		var e *hosts.Error
		if !errors.As(err, &e) || len(e.Failed()) != 1 || e.Failed()[0].Rank != 1 || errors.Is(err, hosts.ErrElsewhere) != (i != 1) {
			t.Errorf("host %d: %v", i, err)
		}
		if ran[i] {
			t.Errorf("host %d replayed", i)
		}
	}
	// After a Wait all hosts replay again.
	for i, err := range each(func(i int) error {
		return errors.Join(group[i].Wait(t.Context(), group[i].queue), group[i].Replay(t.Context(), replayer(func() { ran[i] = true }, "step")))
	}) {
		if err != nil || !ran[i] {
			t.Errorf("host %d: %v, replayed: %t", i, err, ran[i])
		}
	}
	for i, err := range each(func(i int) error {
		return group[i].Replay(t.Context(), replayer(func() {}, []string{"a", "a", "b"}[i]))
	}) {
		if !errors.Is(err, hosts.ErrOrder) {
			t.Errorf("host %d replays another trace: %v", i, err)
		}
	}
}

// A replay that failed on one host is reported to all in the next exchange, also if that is Wait, and also if a first Wait
// ended before its exchange. Then all hosts work again.
func TestFinishTellsOfReplay(t *testing.T) {
	nodes := listen(t, 2, 2)
	meshes, group := make([]*mesh.Mesh, 2), make([]*hosts.Group, 2)
	for i := range meshes {
		meshes[i] = openMesh(t, sim.P300(), mesh.Shape{1, 2})
	}
	each := func(f func(i int) error) []error {
		return all(nodes, func(n *hosts.Node) error { return f(n.Rank()) })
	}
	finish := func(ctx context.Context) func(i int) error {
		return func(i int) error { return group[i].Wait(ctx, meshes[i].Queue(0)) }
	}
	if err := errors.Join(each(func(i int) (err error) { group[i], err = hosts.Join(t.Context(), nodes[i], meshes[i]); return err })...); err != nil {
		t.Fatal(err)
	}
	over, cancel := context.WithCancel(t.Context())
	cancel()
	lost := errors.New("the replay was lost")
	for _, early := range []bool{false, true} {
		for i, err := range each(func(i int) error { return group[i].Replay(t.Context(), failing{[]error{nil, lost}[i]}) }) {
			if errors.Is(err, lost) != (i == 1) {
				t.Errorf("host %d replays: %v", i, err)
			}
		}
		if early {
			for i, err := range each(finish(over)) {
				if !errors.Is(err, context.Canceled) || errors.Is(err, lost) != (i == 1) {
					t.Errorf("host %d finishes with a context that is over: %v", i, err)
				}
			}
		}
		for i, err := range each(finish(t.Context())) {
			var e *hosts.Error
			if !errors.As(err, &e) || len(e.Failed()) != 1 || e.Failed()[0].Rank != 1 || errors.Is(err, lost) != (i == 1) || errors.Is(err, context.Canceled) {
				t.Errorf("host %d finishes: %v", i, err)
			}
		}
		if err := errors.Join(each(finish(t.Context()))...); err != nil {
			t.Errorf("once more: %v", err)
		}
	}
}

// A host's own fault is returned even if the other hosts can't be reached.
func TestFaultOutlivesExchange(t *testing.T) {
	m := openMesh(t, sim.P300(), mesh.Shape{1, 2})
	e := &broken{}
	g, err := hosts.Join(t.Context(), e, m)
	if err != nil {
		t.Fatal(err)
	}
	lost := errors.New("the replay was lost")
	if err := g.Replay(t.Context(), failing{lost}); !errors.Is(err, lost) {
		t.Error(err)
	}
	e.err = errors.New("the exchange broke")
	for name, err := range map[string]error{"replay": g.Replay(t.Context(), failing{}), "finish": g.Wait(t.Context(), m.Queue(0))} {
		if !errors.Is(err, lost) || !errors.Is(err, e.err) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// failing is a trace whose replay fails.
type failing struct{ err error }

func (f failing) Replay(context.Context) error { return f.err }

// broken is an engine of one host whose exchanges fail on request.
type broken struct{ err error }

func (b *broken) Rank() int { return 0 }
func (b *broken) Size() int { return 1 }
func (b *broken) Exchange(_ context.Context, _ string, mine []byte) ([][]byte, error) {
	return [][]byte{mine}, b.err
}

type fake struct {
	f    func()
	name string
}

func replayer(f func(), name string) fake   { return fake{f, name} }
func (r fake) Replay(context.Context) error { r.f(); return nil }
func (r fake) Name() string                 { return r.name }

// Different meshes can't join, and all hosts learn which one differs.
func TestJoinOfDifferentMeshes(t *testing.T) {
	nodes := listen(t, 2, 2)
	meshes := []*mesh.Mesh{openMesh(t, sim.P300(), mesh.Shape{1, 2}), openMesh(t, sim.P300(), mesh.Shape{2, 1})}
	for i, err := range all(nodes, func(n *hosts.Node) error {
		_, err := hosts.Join(t.Context(), n, meshes[n.Rank()])
		return err
	}) {
		if !errors.Is(err, hosts.ErrMismatch) {
			t.Errorf("host %d: %v", i, err)
		}
	}
	if _, err := hosts.Join(t.Context(), nil, meshes[0]); !errors.Is(err, hosts.ErrConfig) {
		t.Error(err)
	}
}

// The program of a host. The orchestrator assigns the rank; here there is only one host. With several, Listener accepts the
// connections of the hosts below, and Dial connects to a host by the name that the orchestrator gave it.
func Example() {
	ctx := context.Background()
	engine, err := hosts.Listen(ctx, hosts.Config{Rank: 0, Size: 1, Dial: func(ctx context.Context, rank int) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "tcp", fmt.Sprintf("job-%d.job:7700", rank))
	}})
	if err != nil {
		log.Fatal(err)
	}
	defer engine.Close()
	machine := sim.P300()
	defer machine.Close()
	m, err := mesh.Open(ctx, mesh.Cards(machine.Cards()...), mesh.Shape{1, 2})
	if err != nil {
		log.Fatal(err)
	}
	defer m.Close(ctx)
	group, err := hosts.Join(ctx, engine, m)
	if err != nil {
		log.Fatal(err)
	}
	// Load and capture as on one host, then call group.Replay(ctx, trace) instead of trace.Replay(ctx).
	fmt.Println(group.Mesh(), "on", engine.Size(), "host, in step:", group.InStep(ctx) == nil)
	// Output: mesh 1x2 on 1 host, in step: true
}
