package main

import (
	"io"
	"testing"

	"github.com/reprise-tt/reprise/hwtest"
	"github.com/reprise-tt/reprise/internal/writertest"
)

// What can't be written is an error, wherever in a table and in what stands around it that happens.
func TestTablesThatCannotBeWritten(t *testing.T) {
	dump := hangFile(t)
	var rep hwtest.Report
	rep.Add(hwtest.Result{Device: "dev", Layer: "cq", Name: "a write", Protects: "bytes arrive", Outcome: hwtest.Fail})
	checks := &doctorJSON{Checks: []checkJSON{{Name: "driver", Found: "is loaded"},
		{Name: "open", Device: "card", Found: "no", Fix: "open it"}}}
	for name, write := range map[string]func(io.Writer) error{
		"hwtest": func(w io.Writer) error { return printSuite(w, &rep) }, "doctor": checks.print,
		"inspect": func(w io.Writer) error { return (&inspectCmd{File: dump}).Run(streams{out: w}) },
	} {
		t.Run(name, func(t *testing.T) { writertest.EveryWrite(t, write) })
	}
}
