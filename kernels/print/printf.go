package print

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

type arg struct {
	typ  argType
	bits uint64
	text string

	unsigned bool
	shown    string // of a text: itself; as a stream shows it
}

// arguments returns fewer if the record is too short.
func arguments(types []argType, words []uint32) (out []arg) {
	for _, t := range types {
		n := 1
		if t == typeLong || t == typeDouble {
			n = 2
		}
		if len(words) < n {
			return out
		}
		a := arg{typ: t, bits: uint64(words[0])}
		if n == 2 {
			a.bits |= uint64(words[1]) << 32
		}
		words = words[n:]
		if t == typeText {
			size := a.bits
			n := int(min((size+3)/4, uint64(len(words))))
			a.text = characters(words[:n], int(min(size, uint64(4*n))))
			words = words[n:]
		}
		out = append(out, a)
	}
	return out
}

func characters(words []uint32, n int) string {
	b := make([]byte, 0, 4*len(words))
	for _, w := range words {
		b = le.AppendUint32(b, w)
	}
	return string(b[:min(n, len(b))])
}

func (a arg) signed() int64 {
	if a.typ == typeLong {
		return int64(a.bits)
	}
	return int64(int32(a.bits))
}

func (a arg) float() float64 {
	switch a.typ {
	case typeFloat:
		return float64(math.Float32frombits(uint32(a.bits)))
	case typeDouble:
		return math.Float64frombits(a.bits)
	}
	return float64(a.signed())
}

// maxWidth bounds precisions too.
const maxWidth = 256

// printf shows invalid conversions in angle brackets.
func printf(format string, args []arg) string {
	var b strings.Builder
	next := func() (arg, bool) {
		if len(args) == 0 {
			return arg{}, false
		}
		a := args[0]
		args = args[1:]
		return a, true
	}
	for {
		before, after, found := strings.Cut(format, "%")
		b.WriteString(before)
		if !found {
			return b.String()
		}
		var c conversion
		c, format = parseConversion(after, next)
		switch c.verb {
		case 0:
			b.WriteString("<%" + after + ">")
			return b.String()
		case '%':
			b.WriteByte('%')
			continue
		}
		a, ok := next()
		if !ok {
			b.WriteString("<%" + string(c.verb) + ": no argument>")
			continue
		}
		b.WriteString(c.text(a))
	}
}

type conversion struct {
	flags            string
	width, precision int // -1 if there is none
	verb             byte
	short            int // of h
}

// number reads digits, of at most maxWidth; -1 if there are none.
func number(s string) (n int, rest string) {
	rest = strings.TrimLeft(s, "0123456789")
	if len(rest) == len(s) {
		return -1, rest
	}
	n, err := strconv.Atoi(s[:len(s)-len(rest)])
	if err != nil {
		n = maxWidth
	}
	return min(n, maxWidth), rest
}

// parseConversion returns the text after the conversion; the verb is 0 if invalid.
func parseConversion(s string, next func() (arg, bool)) (c conversion, rest string) {
	rest = strings.TrimLeft(s, "-+ #0")
	c.flags, s = s[:len(s)-len(rest)], rest
	size := func() (n int) {
		if after, ok := strings.CutPrefix(s, "*"); ok {
			s = after
			a, _ := next()
			return int(max(min(a.signed(), maxWidth), -maxWidth))
		}
		n, s = number(s)
		return n
	}
	if c.width = size(); c.width < -1 {
		c.flags, c.width = c.flags+"-", -c.width
	}
	c.precision = -1
	if after, ok := strings.CutPrefix(s, "."); ok {
		s = after
		c.precision = max(size(), 0)
	}
	rest = strings.TrimLeft(s, "hlLqjzt")
	c.short = strings.Count(s[:len(s)-len(rest)], "h")
	if rest == "" {
		return c, ""
	}
	c.verb = rest[0]
	return c, rest[1:]
}

func (c conversion) has(flag string) bool { return strings.Contains(c.flags, flag) }

func (c conversion) text(a arg) string {
	switch c.verb {
	case 'd', 'i':
		v := a.signed()
		switch c.short {
		case 1:
			v = int64(int16(v))
		case 2:
			v = int64(int8(v))
		}
		digits := strconv.FormatInt(v, 10)
		sign := ""
		if v < 0 {
			sign, digits = "-", digits[1:]
		} else if c.has("+") {
			sign = "+"
		} else if c.has(" ") {
			sign = " "
		}
		return c.number(sign, digits)
	case 'u', 'x', 'X', 'o', 'b':
		v := a.bits
		switch c.short {
		case 1:
			v = uint64(uint16(v))
		case 2:
			v = uint64(uint8(v))
		}
		base := map[byte]int{'u': 10, 'x': 16, 'X': 16, 'o': 8, 'b': 2}[c.verb]
		digits, sign := strconv.FormatUint(v, base), ""
		if c.verb == 'X' {
			digits = strings.ToUpper(digits)
		}
		if c.has("#") && v != 0 && c.verb != 'u' {
			sign = map[byte]string{'x': "0x", 'X': "0X", 'o': "0", 'b': "0b"}[c.verb]
		}
		return c.number(sign, digits)
	case 'p':
		return c.pad("0x" + strconv.FormatUint(a.bits, 16))
	case 'c':
		return c.pad(string([]byte{byte(a.bits)}))
	case 's':
		s := a.text
		if a.typ != typeText {
			s = fmt.Sprintf("<%%s of %#x>", a.bits)
		} else if c.precision >= 0 {
			s = s[:min(c.precision, len(s))]
		}
		return c.pad(s)
	case 'f', 'F', 'e', 'E', 'g', 'G':
		precision := 6
		if c.precision >= 0 {
			precision = c.precision
		}
		verb := c.verb
		if verb == 'F' {
			verb = 'f'
		}
		return c.float(a.float(), verb, precision)
	}
	return fmt.Sprintf("<%%%c of %#x>", c.verb, a.bits)
}

func (c conversion) float(v float64, verb byte, precision int) string {
	var s string
	if (verb == 'g' || verb == 'G') && !c.has("#") {
		// C removes trailing zeros, and its exponent has two digits, as Go's %g with a precision.
		s = fmt.Sprintf("%."+strconv.Itoa(max(precision, 1))+string(verb), v)
	} else {
		s = strconv.FormatFloat(v, verb, precision, 64)
	}
	sign := ""
	if strings.HasPrefix(s, "-") || strings.HasPrefix(s, "+") {
		sign, s = s[:1], s[1:]
		if sign == "+" {
			sign = ""
		}
	}
	if math.IsInf(v, 0) {
		s = "inf"
	} else if math.IsNaN(v) {
		sign, s = "", "nan"
	}
	if sign == "" && c.has("+") {
		sign = "+"
	} else if sign == "" && c.has(" ") {
		sign = " "
	}
	finite := !math.IsInf(v, 0) && !math.IsNaN(v)
	return c.sized(sign, s, finite && c.has("0"))
}

func (c conversion) number(sign, digits string) string {
	if n := c.precision - len(digits); n > 0 {
		digits = strings.Repeat("0", n) + digits
	}
	return c.sized(sign, digits, c.has("0") && c.precision < 0)
}

func (c conversion) sized(sign, digits string, zeros bool) string {
	if n := c.width - len(sign) - len(digits); zeros && !c.has("-") && n > 0 {
		digits = strings.Repeat("0", n) + digits
	}
	return c.pad(sign + digits)
}

func (c conversion) pad(s string) string {
	n := c.width - len(s)
	switch {
	case n <= 0:
		return s
	case c.has("-"):
		return s + strings.Repeat(" ", n)
	}
	return strings.Repeat(" ", n) + s
}
