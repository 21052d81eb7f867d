package sims

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/reprise-tt/reprise/cmd/reprise/internal/cli"
	"github.com/reprise-tt/reprise/internal/schedules"
	"github.com/reprise-tt/reprise/internal/ttnn"
)

type ttnnSchedules struct {
	Schedules   int    `placeholder:"N"`
	Preemptions int    `default:"2" placeholder:"K"`
	State       string `placeholder:"FILE" type:"path"`
	Schedule    string `placeholder:"FILE" type:"path"`
	Stop        bool
}

// repeat runs the program under a schedule, and says so if it did something else than when that was
// found.
func (c *ttnnRunCmd) repeat(ctx context.Context, s cli.Streams, r *ttnn.Run) error {
	f, err := schedules.ReadFile(c.Schedule)
	if err == nil && c.Stop && (c.Serve == "" || len(f.Pending) == 0 || len(f.Pending[0]) == 0) {
		err = cli.Wrong("--stop", c.Schedule, "no access is held back, or no debugger can come",
			"use a schedule with preemptions, and --serve")
	}
	if err != nil {
		return err
	}
	result, err := os.CreateTemp("", "reprise-result")
	if err != nil {
		return err
	}
	defer os.Remove(result.Name())
	defer result.Close()
	r.Settings.ScheduleResult = result.Name()
	err = c.checked(ctx, s, r)
	var res schedules.Result
	if f.Held != 0 && json.NewDecoder(result).Decode(&res) == nil && res.Held != f.Held {
		fmt.Fprintln(s.Err, "reprise: this run isn't the one that failed: the program, its kernels or the runtime have changed")
	}
	return err
}

// explore runs the program under one schedule after another, until one fails. Only that one's
// output is shown. Without --timeout the first run may take ten minutes, and later ones ten times
// as long as it, or a minute.
func (c *ttnnRunCmd) explore(ctx context.Context, s cli.Streams, r *ttnn.Run) error {
	dir, err := os.MkdirTemp("", "reprise-schedules")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	r.Settings.Schedule, r.Settings.ScheduleResult = filepath.Join(dir, "schedule"), filepath.Join(dir, "result")
	limit := c.Timeout
	c.Timeout = cmp.Or(limit, 10*time.Minute)
	f := &schedules.File{Preemptions: c.Preemptions, Seed: c.Seed}
	f, err = schedules.Explore(ctx, c.State, c.Schedules, f, func(f *schedules.File) (res schedules.Result, failure, err error) {
		out, err := os.Create(filepath.Join(dir, "output"))
		err = errors.Join(err, os.WriteFile(r.Settings.Schedule, f.JSON(), 0o644), os.WriteFile(r.Settings.ScheduleResult, nil, 0o644))
		if err != nil {
			return res, nil, err
		}
		defer out.Close()
		begun, status := time.Now(), cli.ExitStatus(0)
		err = c.checked(ctx, cli.Streams{Out: out, Err: out}, r)
		if limit == 0 {
			limit = max(time.Minute, 10*time.Since(begun))
			c.Timeout = limit
		}
		text, wrong := os.ReadFile(r.Settings.ScheduleResult)
		wrong = errors.Join(wrong, json.Unmarshal(text, &res)) // also of a run that fails, unless it was ended
		if errors.As(err, &status) {
			_, _ = out.Seek(0, io.SeekStart)
			_, _ = io.Copy(s.Err, out) // for the reader
			return res, err, nil
		}
		if err = errors.Join(err, wrong); err != nil {
			err = fmt.Errorf("ttnn: the run's schedules aren't known: %w", err)
		}
		return res, nil, err
	})
	if err != nil {
		return err
	}
	left := fmt.Sprintf("none fails, but these aren't all: %d more are known, which --state resumes", len(f.Pending))
	switch {
	case f.Failure != "":
		left = fmt.Sprintf("%s\nreprise: a shortest schedule that fails, with %s:", f.Failure, cli.Count(len(f.Pending[0]), "preemption"))
		for _, h := range f.Pending[0] {
			left += "\n  " + h.Text
		}
		err = cli.ExitStatus(1)
	case f.All():
		left = "these are all; none fails"
	}
	fmt.Fprintf(s.Err, "reprise: %s of at most %s: %s\n", cli.Count(f.Runs, "schedule"), cli.Count(c.Preemptions, "preemption"), left)
	if f.Failure != "" && c.Schedule != "" {
		err = cmp.Or(cli.SaveBytes(ctx, "--schedule", c.Schedule, f.JSON()), err)
	}
	return err
}
