package cards

import (
	"context"
	"fmt"
	"io"
	"net"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/reprise-tt/reprise/cmd/reprise/internal/cli"
	"github.com/reprise-tt/reprise/internal/usage"
)

// MonitorCmd shows which processes use how much device memory.
type MonitorCmd struct {
	Interval time.Duration `help:"Time between updates; 1s if not given." default:"1s" placeholder:"DURATION"`
	Once     bool          `help:"Print one table and exit." xor:"how"`
	JSON     bool          `help:"Print one JSON object and exit." name:"json" xor:"json"`
	Listen   string        `help:"Serve /metrics for Prometheus at this address, such as localhost:9417, instead of a table." placeholder:"ADDRESS" xor:"how,json"`
	Dir      string        `help:"Folder of the processes' logs; ${usage_dir} if not given." default:"${usage_dir}" placeholder:"DIR"`
}

func (MonitorCmd) Help() string {
	return "Every process that opens a device with this runtime keeps a small log of the memory that it uses in shared memory. The command reads these logs only and opens no device. In a terminal: q quits, space updates, arrows scroll."
}
func (c *MonitorCmd) Validate() error {
	const shortest = 50 * time.Millisecond
	if c.Interval < shortest {
		return cli.Wrong("--interval", c.Interval, "that is too often", fmt.Sprintf("give at least %v", shortest))
	}
	if c.Listen != "" {
		if _, _, err := net.SplitHostPort(c.Listen); err != nil {
			return cli.Wrong("--listen", c.Listen, "it is no address", "give HOST:PORT, or :PORT for all addresses of this machine").By(err)
		}
	}
	return nil
}

// poll deletes the logs of this user's dead processes and reads the others.
func (c *MonitorCmd) poll() (*MonitorReport, error) {
	_, _ = usage.Sweep(c.Dir) // what can't be deleted is left out anyway
	s, err := usage.Read(c.Dir)
	if err != nil {
		return nil, err
	}
	return newMonitorReport(s), nil
}

func (c *MonitorCmd) Run(ctx context.Context, s cli.Streams) error {
	switch {
	case c.Listen != "":
		return c.serve(ctx, s.Err)
	case c.Once || c.JSON:
		r, err := c.poll()
		if err != nil {
			return err
		}
		return s.Print(c.JSON, r, r.print)
	case cli.IsTerminal(s.Out):
		p := tea.NewProgram(newMonitorView(c.poll, c.Interval), tea.WithContext(ctx), tea.WithOutput(s.Out), tea.WithoutSignalHandler())
		m, err := p.Run()
		if err != nil {
			return err
		}
		return m.(*monitorView).err
	}
	return c.follow(ctx, s.Out)
}

// follow prints a table after each poll, for logs and pipes.
func (c *MonitorCmd) follow(ctx context.Context, w io.Writer) error {
	t := time.NewTicker(c.Interval)
	defer t.Stop()
	for {
		r, err := c.poll()
		if err != nil {
			return err
		}
		if err := cli.Print(w, func(t cli.Text) {
			t.F("%s\n", r.Time.Format(time.RFC3339))
			r.print(t)
		}); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-t.C:
		}
	}
}

// serve answers scrapes until ctx ends.
func (c *MonitorCmd) serve(ctx context.Context, w io.Writer) error {
	return cli.Serve(ctx, "monitor", c.Listen, metricsHandler(c.poll), w, "/metrics")
}
