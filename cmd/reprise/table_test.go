package main

import (
	"io"
	"testing"

	"github.com/reprise-tt/reprise/cmd/reprise/internal/cli"
	"github.com/reprise-tt/reprise/cmd/reprise/internal/debugger"
	"github.com/reprise-tt/reprise/internal/writertest"
)

// What can't be written is an error, wherever in a table and in what stands around it that happens.
func TestInspectWritten(t *testing.T) {
	dump := hangFile(t)
	writertest.EveryWrite(t, func(w io.Writer) error { return (&debugger.InspectCmd{File: dump}).Run(cli.Streams{Out: w}) })
}
