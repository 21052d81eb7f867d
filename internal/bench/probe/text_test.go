package probe

import (
	"testing"

	"github.com/reprise-tt/reprise/internal/writertest"
)

func TestTextThatCannotBeWritten(t *testing.T) {
	s := &Snapshot{Threads: []Thread{{TID: 1, Calls: []Call{{Name: "read"}}}}, Functions: []Function{{Name: "ioctl"}}, Markers: &Markers{}}
	writertest.EveryWrite(t, s.WriteTable)
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
