package probe

import (
	"errors"
	"testing"
)

// failing is a file that takes all writes but one.
type failing struct{ left int }

var errFailing = errors.New("no space left")

func (f *failing) Write(p []byte) (int, error) {
	if f.left--; f.left == -1 {
		return 0, errFailing
	}
	return len(p), nil
}

// What can't be written is an error, wherever in the text that happens.
func TestTextThatCannotBeWritten(t *testing.T) {
	s := &Snapshot{Threads: []Thread{{TID: 1, Calls: []Call{{Name: "read"}}}}, Functions: []Function{{Name: "ioctl"}}, Markers: &Markers{}}
	const plenty = 1000
	all := &failing{plenty}
	if err := s.WriteTable(all); err != nil {
		t.Error(err)
	}
	for n := range plenty - all.left {
		if err := s.WriteTable(&failing{n}); !errors.Is(err, errFailing) {
			t.Errorf("write %d fails: %v", n, err)
		}
	}
}
