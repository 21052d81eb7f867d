package cli

import (
	"io"
	"testing"

	"github.com/reprise-tt/reprise/internal/writertest"
)

func TestChecksWritten(t *testing.T) {
	checks := []Check{{Name: "driver", Found: "is loaded"}, {Name: "open", Device: "card", Found: "no", Fix: "open it"}}
	writertest.EveryWrite(t, func(w io.Writer) error { return printTable(w, checks) })
}
