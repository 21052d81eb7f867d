// Package memory has the cases of buffers and their transfers.
package memory

import (
	"slices"

	"github.com/reprise-tt/reprise/hwtest/internal/rig"
)

// Cases are the cases of buffers of every layout, their transfers, and memory of the host that the device reaches.
func Cases() rig.Table {
	return slices.Concat(bufferCases(), memoryCases(), transferCases(), pinnedCases())
}
