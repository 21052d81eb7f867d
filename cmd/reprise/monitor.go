package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/reprise-tt/reprise/internal/usage"
)

// monitorCmd shows who uses how much device memory.
type monitorCmd struct {
	Interval time.Duration `help:"Time between two looks; 1s if not given." default:"1s" placeholder:"DURATION"`
	Once     bool          `help:"Look once, print a table and end." xor:"how"`
	JSON     bool          `help:"Look once, print one JSON object and end." name:"json" xor:"json"`
	Listen   string        `help:"Show nothing, and serve /metrics for Prometheus at this address, such as localhost:9417." placeholder:"ADDRESS" xor:"how,json"`
	Dir      string        `help:"Where the processes' logs are; ${usage_dir} if not given." default:"${usage_dir}" placeholder:"DIR"`
}

// Help is shown by --help.
func (monitorCmd) Help() string {
	return "Every process that opens a device with this runtime keeps a small log of the memory that it uses in shared memory. They are all that is read: no device is opened. In a terminal: q ends, space looks at once, arrows scroll. " + exitHelp
}

// Validate checks the flags.
func (c *monitorCmd) Validate() error {
	const shortest = 50 * time.Millisecond
	if c.Interval < shortest {
		return &flagError{flag: "--interval", value: c.Interval.String(), why: "that is too often", hint: fmt.Sprintf("give at least %v", shortest)}
	}
	if c.Listen != "" {
		if _, _, err := net.SplitHostPort(c.Listen); err != nil {
			return &flagError{flag: "--listen", value: c.Listen, why: "it is no address", hint: "give HOST:PORT, or :PORT for all addresses of this machine", err: err}
		}
	}
	return nil
}

// look reads the logs, after what dead processes of this user have left is deleted.
func (c *monitorCmd) look() (*monitorReport, error) {
	_, _ = usage.Sweep(c.Dir) // what can't be deleted is left out anyway
	s, err := usage.Read(c.Dir)
	if err != nil {
		return nil, err
	}
	return newMonitorReport(s), nil
}

// Run looks once, serves, or looks again and again.
func (c *monitorCmd) Run(ctx context.Context, s streams) error {
	switch {
	case c.Listen != "":
		return c.serve(ctx, s.err)
	case c.Once || c.JSON:
		r, err := c.look()
		if err != nil {
			return err
		}
		if c.JSON {
			return printJSON(s.out, r)
		}
		return r.print(s.out)
	case isTerminal(s.out):
		p := tea.NewProgram(newMonitorView(c.look, c.Interval), tea.WithContext(ctx), tea.WithOutput(s.out), tea.WithoutSignalHandler())
		m, err := p.Run()
		if err != nil {
			return err
		}
		return m.(*monitorView).err
	}
	return c.follow(ctx, s.out)
}

// follow prints a table for each look, for logs and pipes.
func (c *monitorCmd) follow(ctx context.Context, w io.Writer) error {
	t := time.NewTicker(c.Interval)
	defer t.Stop()
	for {
		r, err := c.look()
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
func (c *monitorCmd) serve(ctx context.Context, w io.Writer) error {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", c.Listen)
	if err != nil {
		return fmt.Errorf("monitor: %w", err)
	}
	fmt.Fprintf(w, "serving http://%s/metrics\n", l.Addr())
	srv := &http.Server{Handler: metricsHandler(c.look), ReadHeaderTimeout: 5 * time.Second, WriteTimeout: 10 * time.Second}
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
