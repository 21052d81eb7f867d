package traces

import (
	"context"
	"errors"
	"math"
	"testing"

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
