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

	"github.com/reprise-tt/reprise/cmd/reprise/internal/cli"
	"github.com/reprise-tt/reprise/dispatch"
	"github.com/reprise-tt/reprise/internal/writertest"
)

func TestInterruptedSuite(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("interrupt signal received"))
	path := filepath.Join(t.TempDir(), "r.json")
	code, out, errs := runs(ctx, "hwtest", "--device", "emu:blackhole", "--run", "kmd/identity", "--report", path, "--json")
	if want := "reprise: ended: interrupt signal received\n"; code != cli.ExitInterrupted || errs != want {
		t.Errorf("exit code %d, standard error %q, want %d, %q", code, errs, cli.ExitInterrupted, want)
	}
	b, err := os.ReadFile(path)
	must(t, err)
	const want = "ended after 0 of 1 cases of emu:blackhole: interrupt signal received"
	for name, s := range map[string]string{"standard output": out, "report": string(b)} {
		if !strings.Contains(s, want) {
			t.Errorf("%s lacks %q:\n%s", name, want, s)
		}
	}
}

// Every line that one of several processes says of its end has its number. A mismatch fails,
// whatever was printed before.
func TestConclude(t *testing.T) {
	interrupted, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("interrupt signal received"))
	const closed = "reprise: wait for queue: the device is closed"
	for _, tc := range []struct {
		name       string
		ctx        context.Context
		rank, size int
		err        error
		code       int
		want       string
	}{
		{"nothing wrong", t.Context(), 0, 1, nil, cli.ExitOK, ""},
		{"one", t.Context(), 0, 1, errors.New("no card"), cli.ExitFailed, "reprise: no card\n"},
		{"package reprise", t.Context(), 0, 1, errors.New(closed), cli.ExitFailed, closed + "\n"},
		{"interrupted", interrupted, 0, 1, errors.New("whatever broke"), cli.ExitInterrupted, "reprise: ended: interrupt signal received\n"},
		{"one of several", t.Context(), 2, 4, errors.New("no card\nand no driver"), cli.ExitFailed,
			"reprise: process 2 of 4: no card\nprocess 2 of 4: and no driver\n"},
		{"a dump", t.Context(), 1, 4, &dispatch.HangError{File: "hang.json"}, cli.ExitFailed, "…"},
		{"details", t.Context(), 3, 4, fmt.Errorf("run: %w", &dispatch.HangError{}), cli.ExitFailed, "…"},
	} {
		var errs bytes.Buffer
		s := cli.Streams{Err: &errs, Who: new(cli.Process)}
		s.Who.Set(tc.rank, tc.size)
		if code := conclude(tc.ctx, s, tc.err); code != tc.code || tc.want != "…" && errs.String() != tc.want {
			t.Errorf("%s: exit code %d, %q, want %d, %q", tc.name, code, &errs, tc.code, tc.want)
		}
		if tc.want == "…" && strings.Count(errs.String(), "\n") < 2 {
			t.Errorf("%s: no lines of a hang: %q", tc.name, &errs)
		}
		for line := range strings.Lines(errs.String()) {
			if tc.size > 1 && !strings.HasPrefix(strings.TrimPrefix(line, "reprise: "), fmt.Sprintf("process %d of %d: ", tc.rank, tc.size)) {
				t.Errorf("%s: line %q has no number", tc.name, line)
			}
		}
	}
}

func TestJSONWithoutRoom(t *testing.T) {
	var errs bytes.Buffer
	code := run(t.Context(), []string{"monitor", "--json", "--dir", t.TempDir()}, cli.Streams{Out: writertest.Full{}, Err: &errs})
	if want := "reprise: " + writertest.ErrFull.Error() + "\n"; code != cli.ExitFailed || errs.String() != want {
		t.Errorf("exit code %d, %q, want %q", code, strings.TrimSpace(errs.String()), want)
	}
}
