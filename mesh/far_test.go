package mesh_test

import (
	"testing"
	"time"

	"github.com/reprise-tt/reprise/mesh"
	"github.com/reprise-tt/reprise/sim"
)

// A mesh takes chips without a PCI interface where it needs them, and they run and replay programs like the others.
func TestFarChips(t *testing.T) {
	for _, tt := range []struct {
		make  func(...sim.Option) *sim.Machine
		shape mesh.Shape
		far   int
	}{
		{sim.N300, mesh.Shape{1, 2}, 1},
		{sim.T3000, mesh.Shape{2, 4}, 4},
		{sim.T3000, mesh.Shape{2, 2}, 0},
	} {
		m := tt.make()
		t.Run(m.String()+"/"+tt.shape.String(), func(t *testing.T) {
			start := time.Now()
			b := open(t, m, tt.shape)
			t.Logf("open in %v", time.Since(start))
			far := 0
			for _, c := range b.mesh.Chips() {
				if c.Far {
					far++
				}
			}
			if far != tt.far {
				t.Errorf("%d chips without a PCI interface, want %d", far, tt.far)
			}
			proof(b)
			if !testing.Short() && b.mesh.Size() == 2 {
				newGroup(b, 3, 64).all(1)
			}
			start = time.Now()
			b.must(b.mesh.Close())
			t.Logf("close in %v", time.Since(start))
			for i := range m.Spec().Chips {
				if err := m.Chip(i).Fault(); err != nil {
					t.Errorf("chip %d: %v", i, err)
				}
			}
		})
	}
}
