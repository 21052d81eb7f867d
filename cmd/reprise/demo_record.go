package main

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/session"
)

// recordedQueue is the host memory of each queue of a demo that is recorded or played, in bytes. Each access of the host
// looks at all of it for what has changed.
const recordedQueue = 1 << 20

// repeatable says whether the demo is recorded or played, and so has to do the same each time.
func (c *demoCmd) repeatable() bool {
	_, played := c.target.(*session.Player)
	return played || c.Record != ""
}

// errPlayed says that a recording goes on where the demo ends.
var errPlayed = errors.New("the recording has more than the demo did")

// recorded returns the target that the demo runs on: its own, or one that records it. end says what became of it, given
// the demo's error.
func (c *demoCmd) recorded() (on reprise.Target, end func(error) error, err error) {
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

// creatable says of a file that is written at the end, before all the work, whether it can be. Nothing is left there.
func creatable(flag, path string) error {
	if path == "" {
		return nil
	}
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		return cannotMake(flag, path, syscall.EISDIR)
	}
	f, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*")
	if err == nil {
		err = errors.Join(f.Close(), os.Remove(f.Name()))
	}
	if err != nil {
		return cannotMake(flag, path, err)
	}
	return nil
}

// cannotMake is the error of a file for which there is no place.
func cannotMake(flag, path string, err error) error {
	return &flagError{flag: flag, value: path, why: "no file can be made there: " + reason(err), hint: "give a path in a directory that can be written", err: err}
}
