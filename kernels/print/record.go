package print

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"time"
	"unicode"

	"github.com/reprise-tt/reprise/chip"
)

// A Record is a line that a kernel printed, or a zone of a kernel.
type Record struct {
	Device    string         `json:"device,omitempty"` // name of the device
	Core      chip.Core      `json:"core"`             // logical
	Processor chip.Processor `json:"processor"`
	Program   string         `json:"program,omitempty"` // empty if it isn't known
	Kernel    string         `json:"kernel,omitempty"`
	Time      uint64         `json:"time"` // cycles of the core's clock since its reset
	Level     slog.Level     `json:"level"`
	Text      string         `json:"text"`           // without the newline at its end
	File      string         `json:"file,omitempty"` // of the source, empty for DPRINT
	Line      int            `json:"line,omitempty"`
	// Zone says that this is the zone (reprise/zone.h) Text, from Start to Time on the same clock.
	Zone  bool   `json:"zone,omitempty"`
	Start uint64 `json:"start,omitempty"`
	// Lost is how many records the processor dropped before this one, because the host was late.
	// Text says so then, and it is of no kernel.
	Lost uint32 `json:"lost,omitempty"`
}

func (r Record) byTime(o Record) int { return cmp.Compare(r.Time, o.Time) }

// String returns the record as a line without control characters.
func (r Record) String() string {
	s := fmt.Sprintf("%v %v", r.Core, r.Processor)
	if r.Device != "" {
		s = r.Device + " " + s
	}
	if r.Kernel != "" {
		s += " " + r.Program + "/" + r.Kernel
	}
	if r.Level != slog.LevelInfo {
		s += " " + r.Level.String()
	}
	if r.Zone {
		return fmt.Sprintf("%s: zone %s, %d cycles", s, Printable(r.Text), r.Time-r.Start)
	}
	return s + ": " + Printable(r.Text)
}

// Printable replaces control characters, which kernels' texts may have.
func Printable(s string) string {
	return strings.Map(func(r rune) rune {
		if r != '\t' && !unicode.IsPrint(r) {
			return unicode.ReplacementChar
		}
		return r
	}, s)
}

// A Handler receives a core's records by device time, from one goroutine. It should return quickly,
// because kernels with a full ring wait, and must not load programs or recover the device.
type Handler func(Record)

// ToWriter's Handler writes lines and ignores errors of w.
func ToWriter(w io.Writer) Handler {
	return func(r Record) { _, _ = fmt.Fprintln(w, r) }
}

// ToLog's Handler logs with the time of arrival.
func ToLog(h slog.Handler) Handler {
	return func(r Record) {
		ctx := context.Background()
		if !h.Enabled(ctx, r.Level) {
			return
		}
		out := slog.NewRecord(time.Now(), r.Level, r.Text, 0)
		out.AddAttrs(slog.String("core", r.Core.String()), slog.String("processor", r.Processor.String()), slog.Uint64("cycles", r.Time))
		for _, a := range []slog.Attr{
			slog.String("device", r.Device), slog.String("program", r.Program), slog.String("kernel", r.Kernel), slog.String("file", r.File),
		} {
			if a.Value.String() != "" {
				out.AddAttrs(a)
			}
		}
		if r.Line != 0 {
			out.AddAttrs(slog.Int("line", r.Line))
		}
		if r.Zone {
			out.AddAttrs(slog.Bool("zone", true), slog.Uint64("start", r.Start))
		}
		if r.Lost != 0 {
			out.AddAttrs(slog.Uint64("lost", uint64(r.Lost)))
		}
		_ = h.Handle(ctx, out)
	}
}
