package main

import (
	"bytes"
	"strings"
	"testing"

	"github.com/reprise-tt/reprise/cmd/reprise/internal/cli"
	"github.com/reprise-tt/reprise/internal/writertest"
)

// JSON that can't be written is one line that says so, in the name of no other command.
func TestJSONWithoutRoom(t *testing.T) {
	var errs bytes.Buffer
	code := run(t.Context(), []string{"monitor", "--json", "--dir", t.TempDir()}, cli.Streams{Out: writertest.Full{}, Err: &errs})
	if want := "reprise: " + writertest.ErrFull.Error() + "\n"; code != cli.ExitFailed || errs.String() != want {
		t.Errorf("exit code %d, %q, want %q", code, strings.TrimSpace(errs.String()), want)
	}
}
