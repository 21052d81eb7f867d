package mesh_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/allocator"
	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/internal/devtest"
	"github.com/reprise-tt/reprise/internal/effort"
	"github.com/reprise-tt/reprise/mesh"
	"github.com/reprise-tt/reprise/mesh/hosts"
	"github.com/reprise-tt/reprise/mesh/hosts/hoststest"
	"github.com/reprise-tt/reprise/sim"
)

func acrossHosts(t *testing.T, spec chip.Machine, n int, f func(ctx context.Context, e *hosts.Local, m *sim.Machine) error) []error {
	t.Helper()
	engines, err := hosts.InProcess(n)
	devtest.Must(t, err)
	listeners, addresses := make([]net.Listener, n), make([]string, n)
	for i := range listeners {
		if listeners[i], err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
			t.Fatal(err)
		}
		addresses[i] = listeners[i].Addr().String()
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	return hoststest.Each(engines, func(e *hosts.Local) error {
		defer e.Close()
		conns, err := sim.Meet(ctx, listeners[e.Rank()], e.Rank(), addresses, []byte("test"))
		if err != nil {
			return err
		}
		m := sim.NewMachine(spec, sim.OfPart(sim.Part{Index: e.Rank(), Count: n, Conns: conns}))
		defer m.Close()
		if err := m.Err(); err != nil {
			return err
		}
		return f(ctx, e, m)
	})
}

func reduced(ctx context.Context, m *mesh.Mesh, replay func(*reprise.Trace) error) (map[string][]byte, error) {
	const pages, page = 8, 256
	b, err := m.NewBuffer(mesh.BufferConfig{BufferConfig: reprise.BufferConfig{Kind: allocator.DRAM, Size: pages * page, PageSize: page,
		Name: "b"}})
	if err != nil {
		return nil, err
	}
	links, err := m.NewLinks(ctx, chip.Core{X: 1, Y: 1})
	if err != nil {
		return nil, err
	}
	q := m.Queue(0)
	for i, c := range m.Chips() {
		if c.Device == nil {
			continue
		}
		data := make([]byte, pages*page)
		for k := 0; k < len(data); k += 4 {
			binary.LittleEndian.PutUint32(data[k:], uint32(i+1)*1000+uint32(k))
		}
		if err := q.On(c).Write(ctx, b.On(c), 0, data); err != nil {
			return nil, err
		}
	}
	sum, err := links.AllReduce(ctx, b, mesh.SumInt32)
	if err != nil {
		return nil, err
	}
	gather, err := links.AllGather(ctx, b)
	if err != nil {
		return nil, err
	}
	if err := errors.Join(q.Run(ctx, sum), q.Run(ctx, gather)); err != nil {
		return nil, err
	}
	trace, err := q.Capture(ctx, "step", func(_ context.Context, r *mesh.Recorder) error {
		return r.Loop(3, func() error { return errors.Join(r.Run(sum), r.Run(links.Barrier())) })
	})
	if err != nil {
		return nil, err
	}
	for range 2 {
		if err := replay(trace); err != nil {
			return nil, err
		}
	}
	out := map[string][]byte{}
	for _, c := range m.Here() {
		got := make([]byte, pages*page)
		if err := q.On(c).Read(ctx, b.On(c), 0, got); err != nil {
			return nil, err
		}
		out[c.Coord.String()] = got
	}
	return out, errors.Join(q.Wait(ctx), trace.Release(ctx), sum.Release(ctx), gather.Release(ctx), links.Release(ctx), b.Release())
}

func TestAcross(t *testing.T) {
	effort.Raced(t)
	for _, tc := range []struct {
		spec  chip.Machine
		shape mesh.Shape
		parts []int
	}{
		{chip.QuietBox(), mesh.Shape{2, 2}, []int{2, 4}},
		{chip.P300(), mesh.Shape{1, 2}, []int{2}},
	} {
		whole := sim.NewMachine(tc.spec)
		m := value(mesh.Open(t.Context(), mesh.Cards(whole.Cards()...), tc.shape))(t)
		want := value(reduced(t.Context(), m, func(tr *reprise.Trace) error { return tr.Replay(t.Context()) }))(t)
		devtest.Must(t, errors.Join(m.Close(t.Context()), whole.Close()))
		for _, n := range tc.parts {
			got := make([]map[string][]byte, n)
			for i, err := range acrossHosts(t, tc.spec, n, func(ctx context.Context, e *hosts.Local, machine *sim.Machine) error {
				m, err := mesh.Open(ctx, mesh.Cards(machine.Cards()...), tc.shape, mesh.Across(e))
				if err != nil {
					return err
				}
				g, err := hosts.Join(ctx, e, m)
				if err != nil {
					return err
				}
				if got[e.Rank()], err = reduced(ctx, m, func(tr *reprise.Trace) error { return g.Replay(ctx, tr) }); err != nil {
					return err
				}
				_, err = e.Exchange(ctx, "end", nil) // no chip ends while another one needs its links
				return errors.Join(err, m.Close(ctx))
			}) {
				if err != nil {
					t.Errorf("%s in %d parts, host %d: %v", tc.spec.Name, n, i, err)
				}
			}
			chips := 0
			for i := range got {
				for coord, data := range got[i] {
					chips++
					if !bytes.Equal(data, want[coord]) {
						t.Errorf("%s in %d parts, host %d: chip %s has other results than in one process", tc.spec.Name, n, i, coord)
					}
				}
			}
			if chips != tc.shape.Size() {
				t.Errorf("%s in %d parts: results of %d chips, want %d", tc.spec.Name, n, chips, tc.shape.Size())
			}
		}
	}
}

func TestAcrossTensors(t *testing.T) {
	data := make([]byte, 4*64)
	for i := range data {
		data[i] = byte(i)
	}
	for i, err := range acrossHosts(t, chip.QuietBox(), 2, func(ctx context.Context, e *hosts.Local, machine *sim.Machine) error {
		m, err := mesh.Open(ctx, mesh.Cards(machine.Cards()...), mesh.Shape{2, 2}, mesh.Across(e))
		if err != nil {
			return err
		}
		if len(m.Here()) != 2 || m.Size() != 4 {
			return fmt.Errorf("%d of %d chips here", len(m.Here()), m.Size())
		}
		for _, split := range [][]int{{0, 1}, {0, mesh.Replicate}, {mesh.Replicate, 0}, {mesh.Replicate, mesh.Replicate}} {
			b, err := m.NewBuffer(mesh.BufferConfig{
				BufferConfig: reprise.BufferConfig{Kind: allocator.DRAM, PageSize: 32, Name: "t"}, Tensor: []int{4, 64}, Unit: 1, Split: split,
			})
			if err != nil {
				return err
			}
			got := bytes.Repeat([]byte{0xEE}, len(data))
			if err := errors.Join(m.Queue(0).Write(ctx, b, data), m.Queue(0).Read(ctx, b, got)); err != nil {
				return err
			}
			all, err := e.Exchange(ctx, "read", got)
			if err != nil {
				return err
			}
			for k, v := range data {
				if all[0][k] != v && all[1][k] != v || all[0][k] != v && all[0][k] != 0xEE || all[1][k] != v && all[1][k] != 0xEE {
					return fmt.Errorf("split %v: byte %d is %d and %d, want %d", split, k, all[0][k], all[1][k], v)
				}
			}
			if err := b.Release(); err != nil {
				return err
			}
		}
		sub, err := m.Submesh(mesh.At(0, 0))
		if err != nil {
			return err
		}
		if b, err := sub.NewBuffer(mesh.BufferConfig{BufferConfig: reprise.BufferConfig{Kind: allocator.DRAM, Size: 64,
			PageSize: 64}}); err != nil || b.Size() != 64 ||
			(b.On(sub.Chips()[0]) == nil) != (sub.Chips()[0].Host != e.Rank()) {
			return fmt.Errorf("buffer of a submesh: %v", err)
		}
		return m.Close(ctx)
	}) {
		if err != nil {
			t.Errorf("host %d: %v", i, err)
		}
	}
}

func TestAcrossFails(t *testing.T) {
	for i, err := range acrossHosts(t, chip.QuietBox(), 2, func(ctx context.Context, e *hosts.Local, machine *sim.Machine) error {
		cards := mesh.Cards(machine.Cards()...)
		if e.Rank() == 1 {
			cards = nil
		}
		_, err := mesh.Open(ctx, cards, mesh.Shape{2, 2}, mesh.Across(e))
		return err
	}) {
		if err == nil || !strings.Contains(err.Error(), "no targets") || errors.Is(err, mesh.ErrElsewhere) != (i == 0) {
			t.Errorf("host %d: %v", i, err)
		}
	}
	for i, err := range acrossHosts(t, chip.QuietBox(), 2, func(ctx context.Context, e *hosts.Local, machine *sim.Machine) error {
		_, err := mesh.Open(ctx, mesh.Cards(machine.Cards()...), mesh.Shape{3, 2}, mesh.Across(e))
		return err
	}) {
		var shape *mesh.ShapeError
		if !errors.As(err, &shape) || len(shape.Possible) == 0 || shape.Possible[0].Size() != 4 {
			t.Errorf("host %d: %v", i, err)
		}
	}
}
