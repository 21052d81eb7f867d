package sims

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/reprise-tt/reprise/cmd/reprise/internal/cli"
	"github.com/reprise-tt/reprise/internal/schedules"
	"github.com/reprise-tt/reprise/internal/ttnn"
)

type ttnnSchedules struct {
	Schedules   int    `placeholder:"N"`
	Preemptions int    `default:"2" placeholder:"K"`
	State       string `placeholder:"FILE" type:"path"`
	Schedule    string `placeholder:"FILE" type:"path"`
}

// explore runs the program under one schedule after another, until one fails.
func (c *ttnnRunCmd) explore(ctx context.Context, s cli.Streams, r *ttnn.Run, dir string) error {
	b := schedules.Bounds{Schedules: c.Schedules, Preemptions: c.Preemptions, Seed: c.Seed, State: c.State}
	state, err := schedules.Explore(ctx, b, func(ctx context.Context, f *schedules.File) (schedules.Result, string, error) {
		return c.under(ctx, s, r, dir, f)
	})
	if err != nil {
		return err
	}
	fmt.Fprintf(s.Err, "reprise: %s, %d distinct, %d infeasible, of at most %s\n", cli.Count(state.Runs, "schedule"), state.Distinct,
		state.Infeasible, cli.Count(c.Preemptions, "preemption"))
	switch {
	case state.Failing != nil:
		fmt.Fprintf(s.Err, "reprise: a shortest schedule that fails, with %s:\n", cli.Count(len(state.Failing.Holds), "preemption"))
		for _, h := range state.Failing.Holds {
			fmt.Fprintf(s.Err, "  %v\n", h)
		}
		if c.Schedule != "" {
			save := func(w io.Writer) error { _, err := w.Write(state.Failing.JSON()); return err }
			if err := cli.Save(ctx, "--schedule", c.Schedule, save); err != nil {
				return err
			}
		}
		return cli.ExitStatus(1)
	case state.All():
		fmt.Fprintln(s.Err, "reprise: these are all; none fails")
	case len(state.Pending) == 0:
		fmt.Fprintln(s.Err, "reprise: none fails; there are more, of more words or conflicts than are followed")
	default:
		fmt.Fprintf(s.Err, "reprise: none fails; at least %d more are known, which --state would resume\n", len(state.Pending))
	}
	return nil
}

// under runs the program under a schedule, and returns how it failed. Only then the program's
// output is shown.
func (c *ttnnRunCmd) under(ctx context.Context, s cli.Streams, r *ttnn.Run, dir string, f *schedules.File) (
	res schedules.Result, failure string, err error,
) {
	r.Settings.Schedule = filepath.Join(dir, "schedule.json")
	result := r.Settings.Schedule + schedules.ResultSuffix
	for _, old := range []string{result, r.Settings.Findings} {
		_ = os.Remove(old) // the first run has none
	}
	if err := os.WriteFile(r.Settings.Schedule, f.JSON(), 0o644); err != nil {
		return res, "", err
	}
	out, err := os.Create(filepath.Join(dir, "output"))
	if err != nil {
		return res, "", err
	}
	defer out.Close()
	status := cli.ExitStatus(0)
	err = c.start(ctx, cli.Streams{Out: out, Err: out}, r)
	switch {
	case errors.As(err, &status):
		failure = fmt.Sprintf("the program's exit code is %d", status)
	case err != nil:
		return res, "", err
	}
	if r.Settings.Findings != "" {
		list, err := c.readFindings(cli.Streams{Err: io.Discard}, r.Settings.Findings)
		if err != nil {
			return res, "", err
		}
		if len(list) > 0 {
			failure = list[0].Text
		}
	}
	res, err = schedules.ReadResult(result)
	switch {
	case failure != "":
		_, _ = out.Seek(0, io.SeekStart)
		_, _ = io.Copy(s.Err, out) // for the reader
		fmt.Fprintln(s.Err, "reprise:", failure)
		if err != nil { // the program was ended
			res, err = schedules.Result{Infeasible: true}, nil
		}
		if r.Settings.Findings != "" {
			if err := c.reportFindings(ctx, s, r.Settings.Findings); err != nil && !errors.As(err, &status) {
				return res, "", err
			}
		}
	case err != nil:
		err = fmt.Errorf("ttnn: the program ended without telling what it did under the schedule: %w", err)
	}
	return res, failure, err
}
