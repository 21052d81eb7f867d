//go:build hours

package ttnn_test

import (
	"testing"

	"github.com/reprise-tt/reprise/internal/ttnn"
)

func TestLargeMachines(t *testing.T) {
	const program = "mesh.py --trace --mesh=2x2 all_gather reduce_scatter all_reduce"
	runMachines(t, []machineCase{
		{machine: "quietbox", first: ttnn.Version{Minor: 77}, program: program},
		{machine: "quietbox2", first: ttnn.Version{Minor: 77}, program: program},
		{machine: "t3000", slow: true, first: ttnn.Version{Minor: 80}, program: "mesh.py --mesh=2x4 add all_gather reduce_scatter all_reduce"},
	})
}
