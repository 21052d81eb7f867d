package main

import (
	"bytes"
	"context"
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/reprise-tt/reprise/internal/writertest"
	"github.com/reprise-tt/reprise/tracebuf/debug"
)

// fewReplays is a trace that fails when it was replayed so often.
type fewReplays struct {
	left int
}

var errEnough = errors.New("enough")

func (f *fewReplays) Replay(context.Context) error {
	if f.left--; f.left < 0 {
		return errEnough
	}
	return nil
}

func (f *fewReplays) CheckResults(context.Context) error { return debug.ErrNoResults }

// However many replays are asked for, nothing is prepared for all of them.
func TestManyReplays(t *testing.T) {
	f := &fewReplays{left: 3}
	r := &traceRun{replayer: f, checkResults: f.CheckResults, out: &runJSON{}}
	if _, err := r.replay(t.Context(), math.MaxInt); !errors.Is(err, errEnough) || f.left != -1 {
		t.Errorf("%v, %d replays left, want the fourth one's error", err, f.left)
	}
}

// JSON that can't be written is one line that says so, in the name of no other command.
func TestJSONWithoutRoom(t *testing.T) {
	var errs bytes.Buffer
	code := run(t.Context(), []string{"monitor", "--json", "--dir", t.TempDir()}, streams{out: writertest.Full{}, err: &errs})
	if want := "reprise: " + writertest.ErrFull.Error() + "\n"; code != exitFailed || errs.String() != want {
		t.Errorf("exit code %d, %q, want %q", code, strings.TrimSpace(errs.String()), want)
	}
}
