// Package machines has the cases of several chips as one.
package machines

import (
	"slices"

	"github.com/reprise-tt/reprise/hwtest/internal/rig"
)

// Cases are the cases of several chips as one.
func Cases() rig.Table {
	return slices.Concat(meshCases(), runCases(), queueCases(), collectiveCases(),
		orderCases(), faultCases(), hangCases())
}
