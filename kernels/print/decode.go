package print

import (
	"fmt"
	"log/slog"
	"strings"

	"github.com/reprise-tt/reprise/chip"
)

type place struct {
	core chip.Core
	on   chip.Processor
}

// A Decoder turns records into lines. It accepts any bytes.
type Decoder struct {
	device   string
	programs map[uint32]*Program
	open     map[place]*line // unfinished lines of DPRINT
}

// NewDecoder's records are of a device.
func NewDecoder(device string) *Decoder {
	return &Decoder{device: device, programs: map[uint32]*Program{}, open: map[place]*line{}}
}

func (d *Decoder) Add(p *Program) { d.programs[p.ID] = p }

type line struct {
	record Record
	text   strings.Builder
	state  stream
}

// maxLine is in bytes.
const maxLine = 8 << 10

// decode appends a processor's lines, and returns the number of records.
func (d *Decoder) decode(out []Record, at place, words []uint32) (lines []Record, n uint32) {
	for len(words) > 0 {
		r, rest, ok := split(words)
		if !ok {
			return append(out, d.note(at, slog.LevelWarn, fmt.Sprintf("(%d bytes in its ring are no records)", 4*len(words)))), n
		}
		words = rest
		if r.kind != kindSkip {
			out = d.record(out, at, &r)
			n++
		}
	}
	return out, n
}

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
	switch r.kind {
	case kindStream:
		return d.stream(out, at, rec, k, r.words)
	case kindZone:
		return append(out, zone(rec, k, r.words))
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

func zone(rec Record, k *Kernel, words []uint32) Record {
	if len(words) == 3 {
		if f, ok := k.format(words[0]); ok {
			rec.Zone, rec.Start, rec.Text, rec.File, rec.Line = true, uint64(words[2])<<32|uint64(words[1]), f.text, f.file, f.line
			return rec
		}
	}
	rec.Level, rec.Text = slog.LevelWarn, fmt.Sprintf("(no such zone: %#x)", words)
	return rec
}

func (d *Decoder) end(out []Record, at place) []Record {
	if l := d.open[at]; l != nil && l.text.Len() > 0 {
		l.record.Text = l.text.String()
		out = append(out, l.record)
	}
	delete(d.open, at)
	return out
}

// Message returns an entry of a kernel's formats, with File, Line and Level: a text of package
// kernels/watch, or a format with its arguments in words.
func (p *Program) Message(on chip.Processor, entry uint32, words []uint32) (Record, bool) {
	r := Record{Processor: on, Program: p.Name}
	k := p.kernel(on)
	if k == nil {
		return r, false
	}
	r.Kernel = k.Name
	f, ok := k.format(entry)
	if !ok {
		return r, false
	}
	r.Level, r.File, r.Line, r.Text = slog.Level(f.level), f.file, f.line, f.text
	if len(f.types) > 0 {
		r.Text = printf(f.text, arguments(f.types, words))
	}
	return r, true
}
