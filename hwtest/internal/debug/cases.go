// Package debug has the cases of what running and hanging kernels tell.
package debug

import (
	"slices"

	"github.com/reprise-tt/reprise/hwtest/internal/rig"
)

// Cases are the cases of what running and hanging kernels tell: prints, times, checks, call stacks.
func Cases() rig.Table {
	return slices.Concat(printCases(), timeCases(), watchCases(), coreCases())
}
