package cards

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
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

// Help is shown by --help.
func (MonitorCmd) Help() string {
	return "Every process that opens a device with this runtime keeps a small log of the memory that it uses in shared memory. The command reads these logs only and opens no device. In a terminal: q quits, space updates, arrows scroll. " + cli.ExitHelp
}

// Validate checks the flags.
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

// poll deletes logs of this user's dead processes, and reads the others.
func (c *MonitorCmd) poll() (*MonitorReport, error) {
	_, _ = usage.Sweep(c.Dir) // what can't be deleted is left out anyway
	s, err := usage.Read(c.Dir)
	if err != nil {
		return nil, err
	}
	return newMonitorReport(s), nil
}

// Run polls once, serves, or polls until it is interrupted.
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
		if _, err := fmt.Fprintln(w, r.Time.Format(time.RFC3339)); err != nil {
			return err
		}
		if err := r.print(w); err != nil {
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
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", c.Listen)
	if err != nil {
		return fmt.Errorf("monitor: %w", err)
	}
	fmt.Fprintf(w, "serving http://%s/metrics\n", l.Addr())
	srv := &http.Server{Handler: metricsHandler(c.poll), ReadHeaderTimeout: 5 * time.Second, WriteTimeout: 10 * time.Second}
	ended := make(chan error, 1)
	go func() { ended <- srv.Serve(l) }()
	select {
	case err := <-ended:
		return fmt.Errorf("monitor: %w", err)
	case <-ctx.Done():
	}
	err = srv.Close() // scrapes are small, and come again
	if e := <-ended; !errors.Is(e, http.ErrServerClosed) {
		err = errors.Join(err, e)
	}
	return errors.Join(ctx.Err(), err)
}
