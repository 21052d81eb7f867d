package main

import (
	"bytes"
	"context"
	"errors"
	"testing"

	"github.com/reprise-tt/reprise/cmd/reprise/internal/cli"
)

// The exit code is what scripts act on: a mismatch fails, whatever was printed before.
func TestExitCodes(t *testing.T) {
	interrupted, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("interrupt signal received"))
	for _, tt := range []struct {
		name   string
		ctx    context.Context
		err    error
		code   int
		stderr string
	}{
		{"nothing wrong", t.Context(), nil, cli.ExitOK, ""},
		{
			"a mismatch", t.Context(), errors.New("1 results differ"), cli.ExitFailed,
			"reprise: 1 results differ\n",
		},
		{"an error of package reprise", t.Context(), errors.New("reprise: wait for queue: the device is closed"), cli.ExitFailed, "reprise: wait for queue: the device is closed\n"},
		{"interrupted", interrupted, errors.New("whatever broke then"), cli.ExitInterrupted, "reprise: ended: interrupt signal received\n"},
	} {
		var b bytes.Buffer
		if code := conclude(tt.ctx, cli.Streams{Err: &b}, tt.err); code != tt.code || b.String() != tt.stderr {
			t.Errorf("%s: exit code %d, %q, want %d, %q", tt.name, code, &b, tt.code, tt.stderr)
		}
	}
}

// A run that is interrupted ends at once, with a code of its own, and closes the device.
func TestInterruptedRun(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("interrupt signal received"))
	var out, errs bytes.Buffer
	if code := run(ctx, []string{"demo", "--json"}, cli.Streams{Out: &out, Err: &errs}); code != cli.ExitInterrupted || out.Len() != 0 {
		t.Errorf("exit code %d, %q, %q", code, &out, &errs)
	}
	if want := "reprise: ended: interrupt signal received\n"; errs.String() != want {
		t.Errorf("standard error %q, want %q", &errs, want)
	}
}
