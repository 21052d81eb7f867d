package measures

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/reprise-tt/reprise/cmd/reprise/internal/cli"
	"github.com/reprise-tt/reprise/hwtest"
	"github.com/reprise-tt/reprise/internal/bench/probe"
)

// HwtestCmd has the conformance suite; without a name it is run.
type HwtestCmd struct {
	Suite suiteCmd `cmd:"" default:"withargs"`
	Diff  diffCmd  `cmd:""`
}

type suiteCmd struct{ hwtest.Command }

// Validate checks what can be checked without a device.
func (c *suiteCmd) Validate() error {
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find this program to start it as a second process: %w", err)
	}
	c.Victim = []string{self, hwtest.VictimCommand}
	if c.Server, err = cli.Server(); err != nil {
		return err
	}
	_, err = c.Config()
	return err
}

func (c *suiteCmd) Run(ctx context.Context, s cli.Streams) error {
	// An unwritable report is known before a night's run.
	if err := cli.Creatable("--report", c.Report); err != nil {
		return err
	}
	c.Save = func(path string, write func(io.Writer) error) error {
		return cli.Save(context.WithoutCancel(ctx), "--report", path, write)
	}
	err := c.Do(ctx, s.Out, s.Err)
	var open *hwtest.OpenError
	if errors.As(err, &open) {
		err = cli.OpenError(open.Device, open.Err)
	}
	return err
}

type diffCmd struct {
	Before string  `arg:"" placeholder:"FILE"`
	After  string  `arg:"" placeholder:"FILE"`
	Slower float64 `default:"2" placeholder:"FACTOR"`
	cli.AsJSON
}

func (c *diffCmd) Validate() error {
	if !(c.Slower >= 1) {
		return cli.Wrong("--slower", c.Slower, "it is less than 1", "give a factor such as 2")
	}
	return nil
}

func (c *diffCmd) Run(s cli.Streams) error {
	return hwtest.DiffFiles(c.Before, c.After, c.Slower, c.JSON, s.Out)
}

// VictimCmd is the process that the suite kills.
type VictimCmd struct {
	Device string `arg:"" help:"Device to use."`
	Once   bool   `help:"Use it once and end."`
}

// Run uses the device.
func (c *VictimCmd) Run(ctx context.Context, s cli.Streams) error {
	d, err := cli.ParseDevice("DEVICE", c.Device)
	if err != nil {
		return err
	}
	return hwtest.Victim(ctx, d.Open(), c.Once, s.Out)
}

// ProbeCmd watches a running process.
type ProbeCmd struct {
	PID      int            `required:"" name:"pid" placeholder:"N"`
	Duration time.Duration  `help:"How long to watch, at most until the process ends; 10s if not given." default:"10s" placeholder:"DURATION"`
	Interval *time.Duration `help:"Also print intermediate figures at this interval." placeholder:"DURATION"`
	cli.AsJSON
}

// Validate checks the flags.
func (c *ProbeCmd) Validate() error {
	if c.PID < 1 {
		return cli.Wrong("--pid", c.PID, "it is no process", "give the number of a running process")
	}
	if c.Duration <= 0 {
		return cli.Wrong("--duration", c.Duration, "it isn't positive", "give a time such as 10s")
	}
	if c.Interval != nil && *c.Interval <= 0 {
		return cli.Wrong("--interval", c.Interval, "it isn't positive", "give a time such as 1s, or leave it out")
	}
	return nil
}

// pollInterval is for /proc, whose figures vanish at the process's end.
const pollInterval = 100 * time.Millisecond

// Run watches until the duration is over, the process ends or the command is interrupted.
func (c *ProbeCmd) Run(ctx context.Context, s cli.Streams) (err error) {
	kinds := []probe.Kind{probe.Calls, probe.Scheduler, probe.Faults}
	m := probe.Detect()
	costs, err := probe.Calibrate(m, kinds...)
	if err != nil {
		return err
	}
	for _, k := range costs {
		fmt.Fprintf(s.Err, "probe of %s: %.0f ns for each %s\n", k.Probe, k.Ns, k.Event)
	}
	p, err := probe.Start(probe.Config{PID: c.PID, Kinds: kinds, Machine: m})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.Close()) }()
	end := time.After(c.Duration)
	var tick <-chan time.Time
	if c.Interval != nil {
		t := time.NewTicker(*c.Interval)
		defer t.Stop()
		tick = t.C
	}
	running := time.NewTicker(pollInterval)
	defer running.Stop()
	for over := false; !over; {
		select {
		case <-ctx.Done():
			over = true
		case <-end:
			over = true
		case <-tick:
		case <-running.C:
			if p.Running() {
				continue
			}
			over = true
		}
		sn, err := p.Snapshot()
		if err != nil {
			return err
		}
		if c.JSON {
			err = cli.PrintJSON(s.Out, sn)
		} else {
			err = sn.WriteTable(s.Out)
		}
		if err != nil {
			return err
		}
		over = over || sn.Ended
	}
	return nil
}
