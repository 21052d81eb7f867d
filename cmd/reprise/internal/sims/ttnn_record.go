package sims

import (
	"context"
	"os"
	"path/filepath"

	"github.com/reprise-tt/reprise/cmd/reprise/internal/cli"
	"github.com/reprise-tt/reprise/cmd/reprise/internal/traces"
)

type ttnnRecordCmd struct {
	ttnnRunCmd
	Output string `short:"o" required:"" help:"Trace file to write." placeholder:"FILE"`
	Steps  string `help:"Keep what the chip did, for trace import." placeholder:"FILE"`
}

func (ttnnRecordCmd) Help() string {
	return "Runs the program on an emulated chip and finds the trace that it replays, with all memory in DRAM that the trace needs. What the host writes between two replays is an input of the file, what it reads after one is a result. Then replays the file and compares the results with TT-NN's."
}

// Run implements the command.
func (c *ttnnRecordCmd) Run(ctx context.Context, s cli.Streams) error {
	if c.record = c.Steps; c.Steps == "" {
		dir, err := os.MkdirTemp("", "reprise-record-")
		if err != nil {
			return err
		}
		defer os.RemoveAll(dir)
		c.record = filepath.Join(dir, "steps")
	}
	if err := c.ttnnRunCmd.Run(ctx, s); err != nil {
		return err
	}
	settings, err := c.settings()
	if err != nil {
		return err
	}
	return traces.Record(ctx, s, c.record, settings.KernelCache, c.Output)
}
