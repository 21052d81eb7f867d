package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/reprise-tt/reprise/cmd/reprise/internal/cli"
	"github.com/reprise-tt/reprise/dispatch"
	"github.com/reprise-tt/reprise/internal/writertest"
)

// A suite that is interrupted has the exit code of that, and a report that says so.
func TestInterruptedSuite(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("interrupt signal received"))
	path := filepath.Join(t.TempDir(), "r.json")
	var out, errs bytes.Buffer
	if code := run(ctx, []string{"hwtest", "--device", "emu:blackhole", "--run", "kmd/identity", "--report", path, "--json"},
		cli.Streams{Out: &out, Err: &errs}); code != cli.ExitInterrupted {
		t.Errorf("exit code %d: %s", code, &errs)
	}
	if want := "reprise: ended: interrupt signal received\n"; errs.String() != want {
		t.Errorf("standard error %q, want %q", &errs, want)
	}
	b, err := os.ReadFile(path)
	must(t, err)
	const want = "ended after 0 of 1 cases of emu:blackhole: interrupt signal received"
	for name, s := range map[string]string{"standard output": out.String(), "report": string(b)} {
		if !strings.Contains(s, want) {
			t.Errorf("%s lacks %q:\n%s", name, want, s)
		}
	}
}

// Every line that one of several processes says of its end has its number, those of a hang too. One
// alone has none.
func TestReportNamesProcess(t *testing.T) {
	first := fmt.Errorf("run: %w", &dispatch.HangError{})
	for _, tc := range []struct {
		name       string
		rank, size int
		err        error
		want       string
	}{
		{"one", 0, 1, errors.New("no card"), "reprise: no card\n"},
		{"one of several", 2, 4, errors.New("no card\nand no driver"), "reprise: process 2 of 4: no card\nprocess 2 of 4: and no driver\n"},
		{"a dump", 1, 4, &dispatch.HangError{File: "hang.json"}, ""},
		{"details", 3, 4, first, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var errs bytes.Buffer
			s := cli.Streams{Err: &errs, Who: new(cli.Process)}
			s.Who.Set(tc.rank, tc.size)
			if code := conclude(t.Context(), s, tc.err); code != cli.ExitFailed {
				t.Errorf("exit code %d", code)
			}
			if diff := cmp.Diff(tc.want, errs.String()); tc.want != "" && diff != "" {
				t.Error(diff)
			}
			lines := 0
			for line := range strings.Lines(errs.String()) {
				lines++
				if tc.size > 1 &&
					!strings.HasPrefix(strings.TrimPrefix(line, "reprise: "), fmt.Sprintf("process %d of %d: ", tc.rank, tc.size)) {
					t.Errorf("line %q has no number", line)
				}
			}
			var h *dispatch.HangError
			if errors.As(tc.err, &h) && lines < 2 {
				t.Errorf("%d lines of a hang:\n%s", lines, &errs)
			}
		})
	}
}

// JSON that can't be written is one line that says so, in the name of no other command.
func TestJSONWithoutRoom(t *testing.T) {
	var errs bytes.Buffer
	code := run(t.Context(), []string{"monitor", "--json", "--dir", t.TempDir()}, cli.Streams{Out: writertest.Full{}, Err: &errs})
	if want := "reprise: " + writertest.ErrFull.Error() + "\n"; code != cli.ExitFailed || errs.String() != want {
		t.Errorf("exit code %d, %q, want %q", code, strings.TrimSpace(errs.String()), want)
	}
}
