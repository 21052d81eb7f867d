package main

import (
	"bufio"
	"errors"
	"fmt"
	"os"

	"github.com/reprise-tt/reprise/kmd"
	"github.com/reprise-tt/reprise/kmd/session"
)

// recordedQueue is the host memory of each queue of a demo that is recorded or played, in bytes. Each access of the host
// compares all of it with its earlier contents.
const recordedQueue = 1 << 20

// repeatable reports whether the demo is recorded or played, and so has to do the same each time.
func (c *demoCmd) repeatable() bool {
	_, played := c.target.(*session.Player)
	return played || c.Record != ""
}

// errPlayed says that a recording goes on where the demo ends.
var errPlayed = errors.New("the recording has more than the demo did")

// recorded returns the target that the demo runs on: its own, or one that records it. end says what became of it, given
// the demo's error.
func (c *demoCmd) recorded() (on kmd.Target, end func(error) error, err error) {
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
	f, err := os.Create(c.Record)
	if err != nil {
		return nil, nil, cannotMake("--record", c.Record, err)
	}
	w := bufio.NewWriterSize(f, 1<<16)
	r := session.Record(c.target, w)
	return r, func(err error) error { return errors.Join(err, r.Close(), w.Flush(), f.Close()) }, nil
}
