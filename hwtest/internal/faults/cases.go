// Package faults has the cases of hangs, lost devices and processes that are killed.
package faults

import (
	"slices"

	"github.com/reprise-tt/reprise/hwtest/internal/rig"
)

// Cases are the cases of what goes wrong: hangs, lost devices, processes that are killed.
func Cases() rig.Table {
	return slices.Concat(faultCases(), lostCases())
}
