// Package queues has the cases of two command queues: order, events, workers of their own.
package queues

import (
	"slices"

	"github.com/reprise-tt/reprise/hwtest/internal/rig"
)

// Split are the cases of queues that have workers of their own.
func Split() rig.Table {
	return slices.Concat(splitCases(), spanCases())
}
