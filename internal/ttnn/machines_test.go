package ttnn_test

import (
	"context"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/reprise-tt/reprise/internal/ttnn"
)

type machineCase struct {
	machine string
	slow    bool         // slow dispatch: without command queues
	first   ttnn.Version // first wheel that can do it
	program string       // with its arguments
}

func TestMachines(t *testing.T) {
	runMachines(t, []machineCase{
		{machine: "p100", first: ttnn.Version{Minor: 76}, program: "trace.py"},
		{machine: "p300", first: ttnn.Version{Minor: 76}, program: "mesh.py --trace all_gather reduce_scatter all_reduce broadcast product"},
		{machine: "n300", slow: true, first: ttnn.Version{Minor: 80}, program: "mesh.py add all_gather reduce_scatter all_reduce broadcast"},
	})
}

func TestVersion(t *testing.T) {
	runMachines(t, []machineCase{
		{machine: "n150", first: ttnn.Version{Minor: 70, Patch: 1}, program: "trace.py"},
		{machine: "p150", first: ttnn.Version{Minor: 70, Patch: 1}, program: "trace.py"},
		{machine: "n150", slow: true, program: "trace.py"},
		{machine: "p150", slow: true, program: "trace.py"},
	})
}

const machineTimeout = 10 * time.Minute

func runMachines(t *testing.T, cases []machineCase) {
	in, library := prepared(t)
	cache := t.TempDir()
	t.Setenv("TT_METAL_INSPECTOR", "0") // it listens on a port
	t.Setenv("TT_METAL_INSPECTOR_RPC", "0")
	for _, c := range cases {
		mode := "fast"
		if c.slow {
			mode = "slow"
		}
		t.Run(c.machine+"/"+mode, func(t *testing.T) {
			if in.Version.Less(c.first) {
				t.Skipf("ttnn %s: %v is the first that can", in.Text, c.first)
			}
			if c.slow {
				t.Setenv("TT_METAL_SLOW_DISPATCH_MODE", "1")
			}
			args := strings.Fields(c.program)
			script, err := filepath.Abs(filepath.Join("testdata", args[0]))
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), machineTimeout)
			defer cancel()
			out, err := pythonOn(ctx, t, in, library, cache, c.machine, append([]string{script}, args[1:]...)...).CombinedOutput()
			if err != nil {
				t.Errorf("%s: %v\n%s", c.program, err, lastLines(string(out), 20))
			}
		})
	}
}
