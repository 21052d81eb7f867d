package print_test

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/kernels/print"
)

func TestToLog(t *testing.T) {
	var out bytes.Buffer
	h := print.ToLog(slog.NewTextHandler(&out, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return a
	}}))
	h(print.Record{
		Device: "a", Core: chip.Core{X: 1, Y: 2}, Processor: chip.TRISC1, Program: "p", Kernel: "k", Time: 77, Level: slog.LevelWarn,
		Text: "two \"words\"\x1b", File: "k.c", Line: 5,
	})
	h(print.Record{Level: slog.LevelDebug, Text: "too low"})
	h(print.Record{Text: "lost 3 lines", Lost: 3})
	want := []string{
		`level=WARN msg="two \"words\"\x1b" core=(1,2) processor=TRISC1 cycles=77 device=a program=p kernel=k file=k.c line=5`,
		`level=INFO msg="lost 3 lines" core=(0,0) processor=BRISC cycles=0 lost=3`,
	}
	if got := strings.TrimSpace(out.String()); got != strings.Join(want, "\n") {
		t.Errorf("got\n%s\nwant\n%s", got, strings.Join(want, "\n"))
	}
}
