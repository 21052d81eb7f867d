// Package operations has the cases of tensors and operations.
package operations

import (
	"github.com/reprise-tt/reprise/hwtest/internal/rig"
)

// Cases are the cases of layer ops.
func Cases() rig.Table {
	var cs rig.Table
	for _, c := range elementCases() {
		cs = append(cs, c.of("elements are those of plain arithmetic, whatever is repeated"))
	}
	for _, c := range rowCases() {
		cs = append(cs, c.of("products, sums and norms of rows are near the exact ones, and padding doesn't count"))
	}
	for _, c := range moveCases() {
		cs = append(cs, c.of("elements are moved unchanged, whatever layout and memory they come from and go to"))
	}
	for _, c := range attentionCases() {
		cs = append(cs, c.of("what a model decodes with is near the exact result, and changes nothing else of its caches"))
	}
	return cs
}
