package hosts_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/allocator"
	"github.com/reprise-tt/reprise/internal/devtest"
	"github.com/reprise-tt/reprise/internal/expect"
	"github.com/reprise-tt/reprise/mesh"
	"github.com/reprise-tt/reprise/mesh/hosts"
	"github.com/reprise-tt/reprise/mesh/hosts/hoststest"
	"github.com/reprise-tt/reprise/sim"
)

type host struct {
	*hosts.Group
	*hoststest.Counter
}

func start(t *testing.T, n hosts.Engine, m *mesh.Mesh) (*host, error) {
	ctx := t.Context()
	g, err := hosts.Join(ctx, n, m)
	if err != nil {
		return nil, err
	}
	c, err := hoststest.NewCounter(ctx, m, uint32(7+n.Rank()))
	return &host{g, c}, err
}

func openMesh(t *testing.T, machine *sim.Machine, shape mesh.Shape) *mesh.Mesh {
	t.Helper()
	t.Cleanup(func() { _ = machine.Close() })
	m := expect.Value(mesh.Open(t.Context(), mesh.Cards(machine.Cards()...), shape))(t)
	t.Cleanup(func() { _ = m.Close(context.Background()) })
	return m
}

func TestGroup(t *testing.T) {
	nodes := inProcess(t, 3)
	meshes, group := make([]*mesh.Mesh, 3), make([]*host, 3)
	for i := range meshes {
		meshes[i] = openMesh(t, sim.P300(), mesh.Shape{1, 2})
	}
	each := func(f func(i int) error) []error {
		return hoststest.Each(nodes, func(n *hosts.Local) error { return f(n.Rank()) })
	}
	expect.Must(t, errors.Join(each(func(i int) (err error) { group[i], err = start(t, nodes[i], meshes[i]); return err })...))
	expect.Must(t, errors.Join(each(func(i int) error {
		h := group[i]
		for range 3 {
			if err := h.Replay(t.Context(), h.Trace); err != nil {
				return err
			}
		}
		if err := errors.Join(h.Wait(t.Context(), h.Queue), h.InStep(t.Context())); err != nil {
			return err
		}
		if got, err := h.Value(t.Context()); err != nil || got != 3*uint32(7+i) {
			return fmt.Errorf("host %d computed %d: %w", i, got, err)
		}
		return nil
	})...))

	expect.Value(meshes[2].NewBuffer(mesh.BufferConfig{BufferConfig: reprise.BufferConfig{Kind: allocator.DRAM, Size: 64, PageSize: 64,
		Name: "extra"}}))(t)
	for i, err := range each(func(i int) error { return group[i].InStep(t.Context()) }) {
		var e *hosts.Error
		if !errors.As(err, &e) || !errors.Is(err, hosts.ErrMismatch) || len(e.Hosts) != 3 || len(e.Failed()) != 1 ||
			e.Failed()[0].Rank != 2 {
			t.Errorf("host %d: %v", i, err)
		}
	}

	devtest.Must(t, group[1].Trace.Release(t.Context()))
	for i, err := range each(func(i int) error { return group[i].Replay(t.Context(), group[i].Trace) }) {
		expect.Equal(t, err != nil, i == 1, "host %d: %v", i, err)
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
	for i, err := range each(func(i int) error {
		return errors.Join(group[i].Wait(t.Context(), group[i].Queue),
			group[i].Replay(t.Context(), replayer(func() { ran[i] = true }, "step")))
	}) {
		if err != nil || !ran[i] {
			t.Errorf("host %d: %v, replayed: %t", i, err, ran[i])
		}
	}
	for i, err := range each(func(i int) error {
		return group[i].Replay(t.Context(), replayer(func() {}, []string{"a", "a", "b"}[i]))
	}) {
		expect.Fails(t, err, hosts.ErrOrder, "host %d replays another trace", i)
	}
}

func TestResume(t *testing.T) {
	engines := inProcess(t, 3)
	machine := sim.P300()
	m := openMesh(t, machine, mesh.Shape{1, 2}) // Resume does nothing with it
	for i, err := range hoststest.Each(engines, func(e *hosts.Local) error {
		g, err := hosts.Join(t.Context(), e, m)
		if err != nil {
			return err
		}
		if step, err := g.Resume(t.Context(), []uint64{7, 5, 1 << 40}[e.Rank()]); err != nil || step != 5 {
			return fmt.Errorf("step %d: %w", step, err)
		}
		if e.Rank() == 1 {
			_, err = e.Exchange(t.Context(), "resume", []byte("five"))
			return err
		}
		if _, err := g.Resume(t.Context(), 1); !errors.Is(err, hosts.ErrMismatch) {
			return fmt.Errorf("a host that says something else: %v", err)
		}
		return nil
	}) {
		expect.Fails(t, err, nil, "host %d", i)
	}
}

// A replay that failed on one host is reported to all in the next exchange, also if a first Wait
// ended before its exchange.
func TestFinishTellsOfReplay(t *testing.T) {
	nodes := inProcess(t, 2)
	meshes, group := make([]*mesh.Mesh, 2), make([]*hosts.Group, 2)
	for i := range meshes {
		meshes[i] = openMesh(t, sim.P300(), mesh.Shape{1, 2})
	}
	each := func(f func(i int) error) []error {
		return hoststest.Each(nodes, func(n *hosts.Local) error { return f(n.Rank()) })
	}
	finish := func(ctx context.Context) func(i int) error {
		return func(i int) error { return group[i].Wait(ctx, meshes[i].Queue(0)) }
	}
	expect.Must(t, errors.Join(each(func(i int) (err error) {
		group[i],
			err = hosts.Join(t.Context(), nodes[i], meshes[i])
		return err
	})...))
	over, cancel := context.WithCancel(t.Context())
	cancel()
	lost := errors.New("the replay was lost")
	for _, early := range []bool{false, true} {
		for i, err := range each(func(i int) error { return group[i].Replay(t.Context(), failing{[]error{nil, lost}[i]}) }) {
			expect.Equal(t, errors.Is(err, lost), i == 1, "host %d replays: %v", i, err)
		}
		if early {
			for i, err := range each(finish(over)) {
				expect.Fails(t, err, context.Canceled, "host %d", i)
				expect.Equal(t, errors.Is(err, lost), i == 1, "host %d", i)
			}
		}
		for i, err := range each(finish(t.Context())) {
			var e *hosts.Error
			if !errors.As(err, &e) || len(e.Failed()) != 1 || e.Failed()[0].Rank != 1 || errors.Is(err, lost) != (i == 1) ||
				errors.Is(err, context.Canceled) {
				t.Errorf("host %d finishes: %v", i, err)
			}
		}
		expect.Fails(t, errors.Join(each(finish(t.Context()))...), nil, "once more")
	}
}

func TestFaultOutlivesExchange(t *testing.T) {
	m := openMesh(t, sim.P300(), mesh.Shape{1, 2})
	e := &broken{}
	g := expect.Value(hosts.Join(t.Context(), e, m))(t)
	lost := errors.New("the replay was lost")
	if err := g.Replay(t.Context(), failing{lost}); !errors.Is(err, lost) {
		t.Error(err)
	}
	e.err = errors.New("the exchange broke")
	for name, err := range map[string]error{"replay": g.Replay(t.Context(), failing{}), "finish": g.Wait(t.Context(), m.Queue(0))} {
		expect.Fails(t, err, lost, "%s", name)
		expect.Fails(t, err, e.err, "%s", name)
	}
}

func TestLongFault(t *testing.T) {
	m := openMesh(t, sim.P300(), mesh.Shape{1, 2})
	lost := errors.New(strings.Repeat("x", 2<<20))
	for i, err := range hoststest.Each(inProcess(t, 2), func(e *hosts.Local) error {
		g, err := hosts.Join(t.Context(), e, m) // failing does nothing with it
		if err != nil {
			return err
		}
		err = g.Replay(t.Context(), failing{[]error{nil, lost}[e.Rank()]})
		if errors.Is(err, lost) != (e.Rank() == 1) {
			return err
		}
		return g.Replay(t.Context(), failing{})
	}) {
		var e *hosts.Error
		if !errors.As(err, &e) || len(e.Failed()) != 1 || e.Failed()[0].Rank != 1 {
			t.Fatalf("host %d: %.200v", i, err)
		}
		if n := len(e.Failed()[0].Err.Error()); i == 0 && (n < 1<<10 || n > 1<<17) {
			t.Errorf("host 0 is told %d B of a fault of 2 MiB", n)
		}
	}
}

type failing struct{ err error }

func (f failing) Replay(context.Context) error { return f.err }

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

func TestJoinOfDifferentMeshes(t *testing.T) {
	nodes := inProcess(t, 2)
	meshes := []*mesh.Mesh{openMesh(t, sim.P300(), mesh.Shape{1, 2}), openMesh(t, sim.P300(), mesh.Shape{2, 1})}
	for i, err := range hoststest.Each(nodes, func(n *hosts.Local) error {
		_, err := hosts.Join(t.Context(), n, meshes[n.Rank()])
		return err
	}) {
		expect.Fails(t, err, hosts.ErrMismatch, "host %d", i)
	}
	if _, err := hosts.Join(t.Context(), nil, meshes[0]); !errors.Is(err, hosts.ErrConfig) {
		t.Error(err)
	}
}

// mpirun starts such a program on each host, and engine is mpi.Open's.
func Example() {
	ctx := context.Background()
	engines, err := hosts.InProcess(1)
	if err != nil {
		log.Fatal(err)
	}
	engine := engines[0]
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
	// Load and capture as on one host, then call group.Replay(ctx, trace) instead of
	// trace.Replay(ctx).
	fmt.Println(group.Mesh(), "on", engine.Size(), "host, in step:", group.InStep(ctx) == nil)
	// Output: mesh 1x2 on 1 host, in step: true
}

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func inProcess(t *testing.T, n int) []*hosts.Local {
	t.Helper()
	return expect.Value(hosts.InProcess(n))(t)
}

func TestInProcess(t *testing.T) { hoststest.Test(t, inProcess) }

func TestInProcessGone(t *testing.T) {
	for _, waiting := range []bool{false, true} {
		engines := inProcess(t, 3)
		for i, err := range hoststest.Each(engines, func(e *hosts.Local) error {
			if e.Rank() == 1 {
				for waiting && !e.Waiting() {
				}
				return e.Close()
			}
			for !waiting && !e.Gone(1) {
			}
			_, err := e.Exchange(t.Context(), "step", nil)
			return err
		}) {
			var lost *hosts.LostError
			if i != 1 && (!errors.Is(err, hosts.ErrBroken) && !errors.As(err, &lost) || errors.As(err, &lost) &&
				(len(lost.Ranks) != 1 || lost.Ranks[0] != 1)) {
				t.Errorf("host %d: %v", i, err)
			}
		}
		if _, err := engines[1].Exchange(t.Context(), "step", nil); !errors.Is(err, hosts.ErrClosed) {
			t.Error(err)
		}
	}
	if _, err := hosts.InProcess(0); !errors.Is(err, hosts.ErrConfig) {
		t.Error(err)
	}
}

// docs/scale.md's exchange with many hosts, simulated message by message: hosts start within 1 ms
// of each other, a message takes 10 µs of processor time at each end and 15 µs between hosts, at 10
// Gb/s.
func Example_scale() {
	const (
		cpu, wire = 10 * time.Microsecond, 15 * time.Microsecond
		frame     = 64
	)
	fmt.Println("hosts     to each other   by doubling")
	for _, n := range []int{8, 64, 512, 4096} {
		random := rand.New(rand.NewPCG(uint64(n), 23))
		start := make([]time.Duration, n)
		for i := range start {
			start[i] = time.Duration(random.Int64N(int64(time.Millisecond)))
		}
		linear := "-" // 17 million messages
		if n < 4096 {
			end := time.Duration(0)
			arrive := make([]time.Duration, n-1)
			for h := range n {
				for k := 1; k < n; k++ { // host h-k sends to it as its k-th
					arrive[k-1] = start[(h-k+n)%n] + time.Duration(k)*cpu + wire
				}
				slices.Sort(arrive)
				t := start[h] + time.Duration(n-1)*cpu
				for _, a := range arrive {
					t = max(t, a) + cpu
				}
				end = max(end, t)
			}
			linear = (end - slices.Max(start)).Round(10 * time.Microsecond).String()
		}
		at := slices.Clone(start)
		for bit := 1; bit < n; bit *= 2 {
			data := time.Duration(frame * bit * 8 / 10) // ns at 10 Gb/s
			next := make([]time.Duration, n)
			for h := range n {
				next[h] = max(at[h]+cpu, at[h^bit]+cpu+wire+data) + cpu
			}
			at = next
		}
		fmt.Printf("%5d %17s %13s\n", n, linear, (slices.Max(at) - slices.Max(start)).Round(10*time.Microsecond))
	}
	// Output:
	// hosts     to each other   by doubling
	//     8             140µs         110µs
	//    64            1.26ms         210µs
	//   512           10.22ms         340µs
	//  4096                 -         630µs
}
