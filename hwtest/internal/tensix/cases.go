// Package tensix has the conformance cases of a tile's Tensix engines.
package tensix

import (
	"slices"

	"github.com/reprise-tt/reprise/hwtest/internal/rig"
)

// Cases returns the cases, instruction by instruction.
func Cases() rig.Table {
	return slices.Concat(frontCases(), syncCases(), unpackCases(), moveCases(),
		matrixCases(), laneCases(), packCases())
}
