package probe

import (
	"testing"

	"github.com/reprise-tt/reprise/internal/writertest"
)

// What can't be written is an error, wherever in the text that happens.
func TestTextThatCannotBeWritten(t *testing.T) {
	s := &Snapshot{Threads: []Thread{{TID: 1, Calls: []Call{{Name: "read"}}}}, Functions: []Function{{Name: "ioctl"}}, Markers: &Markers{}}
	writertest.EveryWrite(t, s.WriteTable)
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
