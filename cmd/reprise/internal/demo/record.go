package demo

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/reprise-tt/reprise/cmd/reprise/internal/cli"
	"github.com/reprise-tt/reprise/kmd"
	"github.com/reprise-tt/reprise/kmd/session"
	"github.com/reprise-tt/reprise/ops"
)

// recordedQueue is the host memory of each queue of a demo that is recorded or played, in bytes.
// Each access of the host compares all of it with its earlier contents.
const recordedQueue = 1 << 20

// repeatable reports whether the demo is recorded or played, and so has to do the same each time.
func (c *Cmd) repeatable() bool {
	_, played := c.target.(*session.Player)
	return played || c.Record != ""
}

// errPlayed says that a recording goes on where the demo ends.
var errPlayed = errors.New("the recording has more than the demo did")

// recorded returns the target that the demo runs on: its own, or one that records it. end says what
// became of it, given the demo's error.
func (c *Cmd) recorded() (on kmd.Target, end func(error) error, err error) {
	if p, ok := c.target.(*session.Player); ok && c.Record == "" {
		return p, func(err error) error {
			switch left := p.Left(); {
			case p.Err() != nil:
				return p.Err() // the cause of what err says
			case err == nil && left > 0:
				return fmt.Errorf("%w: %d events that have to come were not played", errPlayed, left)
			}
			return err
		}, nil
	}
	if c.Record == "" {
		return c.target, func(err error) error { return err }, nil
	}
	at, through, err := cli.Place(c.Record)
	var f *os.File
	var finish func(error) error
	switch {
	case err != nil:
	case through:
		f, err = os.OpenFile(at, os.O_WRONLY, 0)
		finish = func(err error) error { return errors.Join(err, f.Close()) }
	default:
		var u *cli.Unfinished
		u, err = cli.Temporary(at)
		f, finish = u.File, u.End
	}
	if err != nil {
		return nil, nil, cli.CannotMake("--record", c.Record, err)
	}
	w := bufio.NewWriterSize(f, 1<<16)
	r := session.Record(c.target, w)
	return r, func(err error) error {
		// A recording of a demo that failed is as good as any. Of one that couldn't be written
		// nothing is left, and what that made the demo say isn't repeated.
		closed := r.Close()
		if bad := finish(w.Flush()); bad != nil {
			return fmt.Errorf("--record %q: %w", c.Record, bad)
		}
		return errors.Join(err, closed)
	}, nil
}

// saveGraph ends a capture and writes its report, whose directories it makes.
func (c *Cmd) saveGraph(ctx context.Context, capture *ops.Capture) error {
	r, err := capture.End()
	if r == nil {
		return err
	}
	bad := os.MkdirAll(filepath.Dir(c.Graph), 0o755)
	if bad == nil {
		bad = cli.Save(context.WithoutCancel(ctx), "--graph", c.Graph, r.Encode)
	}
	return errors.Join(err, bad)
}
