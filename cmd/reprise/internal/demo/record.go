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

// recordedQueue is the size of each queue's host memory in a recorded demo, in bytes: recording
// compares all of it at each access.
const recordedQueue = 1 << 20

// repeatable reports whether the demo must do the same each time: it is recorded or played.
func (c *Cmd) repeatable() bool {
	_, played := c.target.(*session.Player)
	return played || c.Record != ""
}

// errPlayed says that the demo ended before its recording.
var errPlayed = errors.New("the recording has more than the demo did")

// recorded returns the target that the demo runs on: its own, or one that records it. end takes and
// returns the demo's error.
func (c *Cmd) recorded(ctx context.Context) (on kmd.Target, end func(error) error, err error) {
	p, played := c.target.(*session.Player)
	switch {
	case c.Record == "" && !played:
		return c.target, func(err error) error { return err }, nil
	case c.Record == "":
		return p, func(err error) error {
			switch left := p.Left(); {
			case p.Err() != nil:
				return p.Err() // the cause of err
			case err == nil && left > 0:
				return fmt.Errorf("%w: %d events that have to come were not played", errPlayed, left)
			}
			return err
		}, nil
	}
	f, finish, err := cli.Create(ctx, "--record", c.Record)
	if err != nil {
		return nil, nil, err
	}
	w := bufio.NewWriterSize(f, 1<<16)
	r := session.Record(c.target, w)
	return r, func(err error) error {
		// The recording of a failed demo is kept. If it can't be written, that is the only error.
		closed := r.Close()
		if bad := finish(w.Flush()); bad != nil {
			return fmt.Errorf("--record %q: %w", c.Record, bad)
		}
		return errors.Join(err, closed)
	}, nil
}

// saveGraph ends a capture and writes its report and the folders above.
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
