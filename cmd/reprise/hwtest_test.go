package main

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/reprise-tt/reprise/cmd/reprise/internal/cli"
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
	if err != nil {
		t.Fatal(err)
	}
	const want = "ended after 0 of 1 cases of emu:blackhole: interrupt signal received"
	for name, s := range map[string]string{"standard output": out.String(), "report": string(b)} {
		if !strings.Contains(s, want) {
			t.Errorf("%s lacks %q:\n%s", name, want, s)
		}
	}
}
