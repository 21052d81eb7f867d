package main

import (
	"errors"
	"io"
	"testing"

	"github.com/reprise-tt/reprise/hwtest"
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

// What can't be written is an error, wherever in a table and in what stands around it that happens.
func TestTablesThatCannotBeWritten(t *testing.T) {
	dump := hangFile(t)
	var rep hwtest.Report
	rep.Add(hwtest.Result{Device: "dev", Layer: "cq", Name: "a write", Protects: "bytes arrive", Outcome: hwtest.Fail})
	checks := &doctorJSON{Checks: []checkJSON{{Name: "driver", Found: "is loaded"}, {Name: "open", Device: "card", Found: "no", Fix: "open it"}}}
	for name, write := range map[string]func(io.Writer) error{
		"hwtest": func(w io.Writer) error { return printSuite(w, &rep) }, "doctor": checks.print,
		"inspect": func(w io.Writer) error { return (&inspectCmd{File: dump}).Run(streams{out: w}) },
	} {
		const plenty = 1000
		all := &failing{plenty}
		if err := write(all); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		for n := range plenty - all.left {
			if err := write(&failing{n}); !errors.Is(err, errFailing) {
				t.Errorf("%s, of which write %d fails: %v", name, n, err)
			}
		}
	}
}
