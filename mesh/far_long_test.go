//go:build long || hours

package mesh_test

import (
	"testing"
	"time"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/mesh"
	"github.com/reprise-tt/reprise/sim/ttsim/ttsimtest"
)

// The second chip has no PCI interface, and the Ethernet tiles run the vendor's firmware model.
func TestFarChipOnVendorSimulator(t *testing.T) {
	cards, err := ttsimtest.Start(t, ttsimtest.WormholeX2).Cards()
	if err != nil {
		t.Fatal(err)
	}
	b := openCards(t, mesh.Cards(cards...), mesh.Shape{1, 2}, mesh.WithDevice(reprise.WithHangTimeout(2*time.Minute)))
	proof(b)
	newGroup(b, 3, 64).all(1)
	for _, how := range []mesh.Combine{mesh.SumTilesBFloat16, mesh.SumTilesFloat32} {
		newGroup(b, 3, tileBytes(how)).tiles(1, how)
	}
}
