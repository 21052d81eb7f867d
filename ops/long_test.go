//go:build long || hours

package ops_test

import (
	"testing"

	"github.com/reprise-tt/reprise/mesh"
	"github.com/reprise-tt/reprise/ops"
	"github.com/reprise-tt/reprise/sim"
)

func TestCollectivesOfManyChips(t *testing.T) {
	collectives(t, sim.QuietBox(), mesh.Shape{2, 2}, ops.RowMajor, ops.Float32, 2, 4, 6)
	collectives(t, sim.T3000(), mesh.Shape{2, 2}, ops.Tile, ops.BFloat16, 32, 64)
}
