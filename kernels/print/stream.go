package print

import (
	"fmt"
	"log/slog"
	"math"
	"strconv"
	"strings"
)

// Items of a stream's record: a word with the kind in its highest byte, and words after it. Source:
// kernels/include/api/debug/dprint.h.
const (
	itemLiteral   = 1  // offset of an entry in the kernel's formats
	itemUnsigned  = 2  // word
	itemSigned    = 3  // word
	itemUnsigned2 = 4  // two words
	itemSigned2   = 5  // two words
	itemFloat     = 6  // word
	itemDouble    = 7  // two words
	itemBF16      = 8  // low 16 bits
	itemChar      = 9  // low 8 bits
	itemText      = 10 // bytes; words
	itemEndl      = 11
	itemWidth     = 12 // characters
	itemPrecision = 13 // digits
	itemHex       = 14
	itemDec       = 15
	itemOct       = 16
	itemFixed     = 17
	itemDefault   = 18
	itemPointer   = 19 // word
	itemBool      = 20 // low bit
	itemSlice     = 21 // flags, format; data; columns
	itemData      = 22 // bytes; words
	itemBraces    = 23 // offset of an entry in the kernel's formats, whose placeholders the next values fill
)

// A stream is a C++ stream between values.
type stream struct {
	width, precision int // 0: none, and 6 digits
	base             int // 0: 10
	fixed            bool

	slice  *slice
	braces *braces // waiting for values
}

func (d *Decoder) stream(out []Record, at place, rec Record, k *Kernel, words []uint32) []Record {
	l := d.open[at]
	if l != nil && (l.record.Program != rec.Program || l.record.Kernel != rec.Kernel) {
		out = d.end(out, at)
		l = nil
	}
	if l == nil {
		l = &line{record: rec}
		d.open[at] = l
	}
	l.record.Time = rec.Time // a line has the time of its last statement, so that lines stay in order
	for len(words) > 0 {
		s, n, ok := l.state.item(k, words)
		if !ok {
			rec.Level, rec.Text = slog.LevelWarn, fmt.Sprintf("(no such items: %#x)", words)
			return append(d.end(out, at), rec)
		}
		words = words[n:]
		for {
			before, after, newline := strings.Cut(s, "\n")
			l.text.WriteString(before)
			if !newline && l.text.Len() < maxLine {
				break
			}
			l.record.Text = l.text.String()
			out = append(out, l.record)
			l.text.Reset()
			s = after
			if !newline {
				break
			}
		}
	}
	return out
}

func (s *stream) item(k *Kernel, words []uint32) (text string, n int, ok bool) {
	low := words[0] & 0xFFFFFF
	n = 1
	switch words[0] >> 24 {
	case itemUnsigned, itemSigned, itemFloat, itemPointer:
		n = 2
	case itemUnsigned2, itemSigned2, itemDouble, itemSlice:
		n = 3
	case itemText, itemData:
		n = 1 + (int(low)+3)/4
	}
	if n > len(words) {
		return "", 0, false
	}
	var v uint64
	if n > 1 {
		v = uint64(words[1])
	}
	if n > 2 {
		v |= uint64(words[2]) << 32
	}
	if s.set(words[0]>>24, low) {
		return "", n, true
	}
	a, shown := arg{typ: typeText}, ""
	switch words[0] >> 24 {
	case itemLiteral:
		f, known := k.format(low)
		if !known {
			return "", 0, false
		}
		shown = f.text
	case itemBraces:
		f, known := k.format(low)
		if !known {
			return "", 0, false
		}
		var done bool
		s.braces = parseBraces(f.text, len(f.types))
		if text, done = s.braces.start(); done {
			s.braces = nil
		}
		return text, n, true
	case itemUnsigned, itemUnsigned2:
		a, shown = arg{typ: typeLong, bits: v, unsigned: true}, s.integer(v, false)
	case itemSigned:
		v = uint64(int64(int32(v)))
		a, shown = arg{typ: typeLong, bits: v}, s.integer(v, true)
	case itemSigned2:
		a, shown = arg{typ: typeLong, bits: v}, s.integer(v, true)
	case itemFloat:
		a, shown = arg{typ: typeFloat, bits: v}, s.float(float64(math.Float32frombits(uint32(v))))
	case itemDouble:
		a, shown = arg{typ: typeDouble, bits: v}, s.float(math.Float64frombits(v))
	case itemBF16:
		a, shown = arg{typ: typeFloat, bits: uint64(low << 16 & 0xFFFFFFFF)}, s.float(float64(math.Float32frombits(low<<16)))
	case itemChar:
		shown = string([]byte{byte(low)})
	case itemBool:
		a, shown = arg{typ: typeLong, bits: uint64(low & 1), unsigned: true}, strconv.Itoa(int(low&1))
	case itemPointer:
		shown = "0x" + strconv.FormatUint(v, 16)
	case itemText:
		shown = characters(words[1:n], int(low))
	case itemEndl:
		return "\n", n, true
	case itemSlice:
		s.slice = &slice{
			format: uint8(words[0]), rows: words[0]>>8&1 != 0, reason: int(words[0] >> 16 & 0xFF),
			left: int(min(words[1], maxData)), columns: int(max(min(words[2], maxData), 1)),
		}
		if shown = s.slice.failure(); s.braces == nil || s.slice.reason == 0 && s.slice.left > 0 {
			return shown, n, true
		}
	case itemData:
		if s.slice == nil {
			return "", 0, false
		}
		if shown = s.slice.add(s, characters(words[1:n], int(low))); s.braces == nil || s.slice.left > 0 {
			return shown, n, true
		}
	default:
		return "", 0, false
	}
	return s.value(a, shown), n, true
}

// set sets how values after it are shown, and reports whether it is such an item.
func (s *stream) set(item, low uint32) bool {
	switch item {
	case itemWidth:
		s.width = int(min(low, maxWidth))
	case itemPrecision:
		s.precision = int(min(low, maxWidth))
	case itemHex:
		s.base = 16
	case itemDec:
		s.base = 0
	case itemOct:
		s.base = 8
	case itemFixed, itemDefault:
		s.fixed = item == itemFixed
	default:
		return false
	}
	return true
}

// value returns its own text, or a format's with placeholders.
func (s *stream) value(a arg, shown string) string {
	if s.braces == nil {
		return s.put(shown)
	}
	text, done := s.braces.add(a, shown)
	if done {
		s.braces = nil
	}
	return text
}

func (s *stream) put(text string) string {
	if n := s.width - len(text); n > 0 {
		text = strings.Repeat(" ", n) + text
	}
	s.width = 0
	return text
}

func (s *stream) integer(v uint64, signed bool) string {
	switch {
	case s.base != 0:
		if signed && int64(v) < 0 && int64(v) >= math.MinInt32 {
			v = uint64(uint32(v))
		}
		return strconv.FormatUint(v, s.base)
	case signed:
		return strconv.FormatInt(int64(v), 10)
	}
	return strconv.FormatUint(v, 10)
}

func (s *stream) float(v float64) string {
	precision := 6
	if s.precision > 0 {
		precision = s.precision
	}
	verb := byte('g')
	if s.fixed {
		verb = 'f'
	}
	return conversion{width: -1, precision: precision}.float(v, verb, precision)
}
