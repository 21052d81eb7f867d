// Package tensix has the cases of the engines of a tile, which a kernel feeds word by word.
package tensix

import (
	"slices"

	"github.com/reprise-tt/reprise/hwtest/internal/rig"
)

// Cases are the cases of the engines of a tile, instruction by instruction.
func Cases() rig.Table {
	return slices.Concat(frontCases(), syncCases(), unpackCases(), moveCases(),
		matrixCases(), laneCases(), packCases())
}
