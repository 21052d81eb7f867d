package print

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"hash/fnv"
	"io"
	"log/slog"
	"strings"
	"time"
	"unicode"

	"github.com/reprise-tt/reprise/chip"
)

// A Program has printing kernels.
type Program struct {
	ID      uint32 // in records: see [Program.Identify]
	Name    string
	Cores   []chip.Range // logical
	Kernels []Kernel
}

// A Kernel is a printing kernel.
type Kernel struct {
	Name      string
	Processor chip.Processor
	Formats   []byte // kernels.Image.Formats
}

// Identify sets the ID, a hash of everything but the cores, never 0.
func (p *Program) Identify() {
	h := fnv.New32a() // never fails
	put := func(b []byte) {
		_, _ = h.Write(le.AppendUint32(nil, uint32(len(b))))
		_, _ = h.Write(b)
	}
	put([]byte(p.Name))
	for _, k := range p.Kernels {
		put([]byte{byte(k.Processor)})
		put([]byte(k.Name))
		put(k.Formats)
	}
	p.ID = max(h.Sum32(), 1)
}

func (p *Program) kernel(on chip.Processor) *Kernel {
	for i := range p.Kernels {
		if p.Kernels[i].Processor == on {
			return &p.Kernels[i]
		}
	}
	return nil
}

type format struct {
	text  string
	file  string
	line  int
	level int8
	types []argType
}

type argType uint8

const (
	typeWord argType = 1 + iota
	typeLong
	typeFloat
	typeDouble
	typeText
)

// maxArgs is the most arguments of a format: 8 of reprise_print, 32 of DPRINT.
const maxArgs = 32

func (k *Kernel) format(at uint32) (f format, ok bool) {
	if uint64(at)+8 > uint64(len(k.Formats)) || at%4 != 0 {
		return format{}, false
	}
	b := k.Formats[at:]
	types, n := le.Uint32(b), int(b[6])
	f.line, f.level = int(le.Uint16(b[4:])), int8(b[7])
	if n > maxArgs {
		return format{}, false
	}
	for range n {
		f.types = append(f.types, argType(types&15))
		types >>= 4
	}
	b = b[8:]
	end := bytes.IndexByte(b, 0)
	if end < 0 {
		return format{}, false
	}
	f.text = string(b[:end])
	// The text is padded to 8, 32, 80 or 200 bytes; the file's name follows.
	for _, size := range []int{8, 32, 80, 200} {
		if end < size {
			b = b[min(size, len(b)):]
			if end = bytes.IndexByte(b, 0); end >= 0 {
				f.file = string(b[:end])
			}
			break
		}
	}
	return f, true
}

const placesMagic = 0x53455449 // "ITES"

// Place returns the file and line of a call of a check of package kernels/watch, by its return
// address's offset in the kernel's text.
func (p *Program) Place(on chip.Processor, offset uint32) (file string, line int, ok bool) {
	k := p.kernel(on)
	if k == nil {
		return "", 0, false
	}
	b := k.Formats
	if len(b) < 8 || le.Uint32(b[len(b)-4:]) != placesMagic {
		return "", 0, false
	}
	count := le.Uint32(b[len(b)-8:])
	table := b[:len(b)-8]
	if uint64(count)*12 > uint64(len(table)) {
		return "", 0, false
	}
	table = table[len(table)-int(count)*12:]
	for ; len(table) > 0; table = table[12:] {
		if le.Uint32(table) != offset {
			continue
		}
		name := le.Uint32(table[8:])
		if uint64(name) >= uint64(len(b)) {
			return "", 0, false
		}
		n := bytes.IndexByte(b[name:], 0)
		if n < 0 {
			return "", 0, false
		}
		return string(b[name:][:n]), int(le.Uint32(table[4:])), true
	}
	return "", 0, false
}

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
