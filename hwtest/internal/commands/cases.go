// Package commands has the cases of the command queues: what the prefetcher and the dispatchers do with each
// command, and how their rings wrap.
package commands

import (
	"slices"

	"github.com/reprise-tt/reprise/hwtest/internal/rig"
)

// Cases are the cases of commands of the prefetcher and the dispatcher at the edges of their arguments.
func Cases() rig.Table {
	return slices.Concat(writeCases(), packedCases(), relayCases(), syncCases(), ownCases())
}
