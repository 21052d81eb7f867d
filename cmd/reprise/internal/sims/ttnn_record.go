package sims

import (
	"cmp"
	"context"
	"os"
	"path/filepath"

	"github.com/reprise-tt/reprise/cmd/reprise/internal/cli"
	"github.com/reprise-tt/reprise/cmd/reprise/internal/traces"
)

type ttnnRecordCmd struct {
	ttnnRunCmd
	traces.Recorded
	Steps string `placeholder:"FILE"`
}

// Validate implements the command.
func (c *ttnnRecordCmd) Validate() error {
	if c.Schedules > 0 || c.Schedule != "" || c.Perf != "" {
		return cli.Wrong("--schedules", "", "a recording has no schedules and no times", "use ttnn run")
	}
	return cmp.Or(c.ttnnRunCmd.Validate(), c.Recorded.Validate())
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
	return c.Save(ctx, s, c.record, settings.KernelCache)
}
