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
	Output  string `short:"o" required:"" placeholder:"FILE"`
	Steps   string `placeholder:"FILE"`
	Addr    uint64 `placeholder:"ADDRESS"`
	Weights string `placeholder:"FILE" type:"existingfile"`
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
	return traces.Record(ctx, s, c.record, settings.KernelCache, c.Addr, c.Output, c.Weights)
}
