package main

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/reprise-tt/reprise/cmd/reprise/internal/cli"
	"github.com/reprise-tt/reprise/dispatch"
)

// Every line that one of several processes says of its end has its number, those of a hang too. One alone has none.
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
