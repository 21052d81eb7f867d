package print

import (
	"fmt"
	"log/slog"
	"strings"

	"github.com/reprise-tt/reprise/chip"
)

// A place is a processor of a core.
type place struct {
	core chip.Core
	on   chip.Processor
}

// A Decoder makes lines of records. Whatever the bytes, it returns text.
type Decoder struct {
	device   string
	programs map[uint32]*Program
	open     map[place]*line // that DPRINT has begun
}

// NewDecoder returns a Decoder for the records of a device.
func NewDecoder(device string) *Decoder {
	return &Decoder{device: device, programs: map[uint32]*Program{}, open: map[place]*line{}}
}

// Add makes a program known.
func (d *Decoder) Add(p *Program) { d.programs[p.ID] = p }

// A line is what a stream has printed since its last newline.
type line struct {
	record Record
	text   strings.Builder
	state  stream
}

// maxLine bounds a line that never ends, in bytes.
const maxLine = 8 << 10

// decode appends the lines that records end, which were read from a processor's ring.
func (d *Decoder) decode(out []Record, at place, words []uint32) []Record {
	for len(words) > 0 {
		r, rest, ok := split(words)
		if !ok {
			return append(out, d.note(at, slog.LevelWarn, fmt.Sprintf("(%d bytes in its ring are no records)", 4*len(words))))
		}
		words = rest
		if r.kind != kindSkip {
			out = d.record(out, at, &r)
		}
	}
	return out
}

// note returns a record that is of no kernel.
func (d *Decoder) note(at place, level slog.Level, text string) Record {
	return Record{Device: d.device, Core: at.core, Processor: at.on, Level: level, Text: text}
}

func (d *Decoder) record(out []Record, at place, r *raw) []Record {
	rec := d.note(at, slog.LevelInfo, "")
	rec.Time = r.time
	p := d.programs[r.program]
	var k *Kernel
	if p != nil {
		k = p.kernel(at.on)
	}
	if k == nil {
		rec.Level, rec.Text = slog.LevelWarn, fmt.Sprintf("(program %#08x, whose formats are not known: %#x)", r.program, r.words)
		return append(d.end(out, at), rec)
	}
	rec.Program, rec.Kernel = p.Name, k.Name
	if r.kind == kindStream {
		return d.stream(out, at, rec, k, r.words)
	}
	out = d.end(out, at)
	var f format
	ok := len(r.words) > 0
	if ok {
		f, ok = k.format(r.words[0])
	}
	if !ok {
		rec.Level, rec.Text = slog.LevelWarn, fmt.Sprintf("(no such format: %#x)", r.words)
		return append(out, rec)
	}
	rec.Level, rec.File, rec.Line = slog.Level(f.level), f.file, f.line
	rec.Text = strings.TrimSuffix(printf(f.text, arguments(f.types, r.words[1:])), "\n")
	return append(out, rec)
}

// end ends the line of a stream that lacks its newline.
func (d *Decoder) end(out []Record, at place) []Record {
	if l := d.open[at]; l != nil && l.text.Len() > 0 {
		l.record.Text = l.text.String()
		out = append(out, l.record)
	}
	delete(d.open, at)
	return out
}
