package measures

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/reprise-tt/reprise/cmd/reprise/internal/cli"
	"github.com/reprise-tt/reprise/internal/bench/probe"
)

// ProbeCmd watches a running process.
type ProbeCmd struct {
	PID      int            `required:"" help:"Process to watch." name:"pid" placeholder:"N"`
	Duration time.Duration  `help:"How long to watch, at most until the process ends; 10s if not given." default:"10s" placeholder:"DURATION"`
	Interval *time.Duration `help:"Also print intermediate figures at this interval." placeholder:"DURATION"`
	Markers  bool           `help:"Attach to the program's markers of submissions and completions. Each marker then costs a trap, more than a replay."`
	cli.AsJSON
}

func (ProbeCmd) Help() string {
	return "Needs root, or CAP_BPF and CAP_PERFMON. Without them it prints what /proc has, and what is missing."
}
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

// pollInterval is the time between readings of /proc, whose figures vanish when the process ends.
const pollInterval = 100 * time.Millisecond

// Run watches until the duration is over, the process ends or the command is interrupted.
func (c *ProbeCmd) Run(ctx context.Context, s cli.Streams) (err error) {
	kinds := []probe.Kind{probe.Calls, probe.Scheduler, probe.Faults, probe.Functions}
	if c.Markers {
		kinds = append(kinds, probe.Marks)
	}
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
