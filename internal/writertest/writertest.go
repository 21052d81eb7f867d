// Package writertest tests that functions report what goes wrong when they write.
package writertest

import (
	"errors"
	"io"
	"testing"
)

// ErrFull is the error of a write that fails.
var ErrFull = errors.New("no space left")

// Full is a file on a disk without room: every write fails with [ErrFull].
type Full struct{}

func (Full) Write([]byte) (int, error) { return 0, ErrFull }

// failing is a file that takes all writes but one.
type failing struct{ left int } // writes before that one

func (f *failing) Write(p []byte) (int, error) {
	if f.left--; f.left == -1 {
		return 0, ErrFull
	}
	return len(p), nil
}

// EveryWrite calls write without and then with a failure of each single write, which must return
// [ErrFull].
func EveryWrite(t testing.TB, write func(io.Writer) error) {
	t.Helper()
	const plenty = 1000
	all := &failing{plenty}
	if err := write(all); err != nil {
		t.Errorf("without a failing write: %v", err)
	}
	if all.left == plenty {
		t.Error("nothing is written")
	}
	for n := range plenty - all.left {
		if err := write(&failing{n}); !errors.Is(err, ErrFull) {
			t.Errorf("write %d fails: %v", n, err)
		}
	}
}
