package ops_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"testing"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/mesh"
	"github.com/reprise-tt/reprise/mesh/hosts"
	"github.com/reprise-tt/reprise/mesh/hosts/hoststest"
	"github.com/reprise-tt/reprise/ops"
	"github.com/reprise-tt/reprise/sim"
)

func TestMeshAcrossIsRefused(t *testing.T) {
	engines, err := hosts.InProcess(2)
	if err != nil {
		t.Fatal(err)
	}
	listeners, addresses := make([]net.Listener, 2), make([]string, 2)
	for i := range listeners {
		if listeners[i], err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
			t.Fatal(err)
		}
		addresses[i] = listeners[i].Addr().String()
	}
	core := chip.Core{X: 1, Y: 1}
	for i, err := range hoststest.Each(engines, func(e *hosts.Local) (err error) {
		ctx := t.Context()
		defer e.Close()
		conns, err := sim.Meet(ctx, listeners[e.Rank()], e.Rank(), addresses, []byte("test"))
		if err != nil {
			return err
		}
		machine := sim.P300(sim.OfPart(sim.Part{Index: e.Rank(), Count: 2, Conns: conns}))
		defer machine.Close()
		m, err := mesh.Open(ctx, mesh.Cards(machine.Cards()...), mesh.Shape{1, 2}, mesh.Across(e))
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, m.Close(context.WithoutCancel(ctx))) }()
		if _, err := ops.NewMesh(ctx, m, core); !errors.Is(err, ops.ErrOtherHost) {
			return fmt.Errorf("a mesh of both hosts: %v", err)
		}
		first, err := m.Submesh(mesh.At(0, 0))
		if err != nil {
			return err
		}
		own, err := ops.NewMesh(ctx, first, core)
		switch mine := e.Rank() == first.Chips()[0].Host; {
		case errors.Is(err, ops.ErrOtherHost) == mine:
			return fmt.Errorf("a chip of host %d: %v", first.Chips()[0].Host, err)
		case mine:
			return errors.Join(err, own.Release(ctx))
		}
		return nil
	}) {
		if err != nil {
			t.Errorf("host %d: %v", i, err)
		}
	}
}
