package print

import (
	"math"
	"strconv"
	"strings"
)

// braces is a format of DPRINT("x {} ", x) whose values follow as items. Text before a placeholder
// is printed when its value arrives; numbered placeholders wait for all values.
type braces struct {
	texts    []string // around the placeholders, one more than these
	specs    []spec
	numbered bool
	args     []arg // of a numbered format, so far
	values   int   // number of values
	at       int   // values so far
}

// A spec is the text in braces: {index:spec}, as in Python and C++'s std::format.
type spec struct {
	index int // -1: the next one
	fill  rune
	align byte // <, > or ^; 0: numbers to the right, others to the left
	conv  conversion
}

// Two braces are one; invalid braces are text.
func parseBraces(format string, values int) *braces {
	b := &braces{values: values}
	var text strings.Builder
	for len(format) > 0 {
		i := strings.IndexAny(format, "{}")
		if i < 0 {
			text.WriteString(format)
			break
		}
		text.WriteString(format[:i])
		c := format[i]
		format = format[i+1:]
		if len(format) > 0 && format[0] == c {
			text.WriteByte(c)
			format = format[1:]
			continue
		}
		inside, after, ok := strings.Cut(format, "}")
		if c == '}' || !ok {
			text.WriteByte(c)
			continue
		}
		format = after
		s := parseSpec(inside)
		b.numbered = b.numbered || s.index >= 0
		b.texts, b.specs = append(b.texts, text.String()), append(b.specs, s)
		text.Reset()
	}
	b.texts = append(b.texts, text.String())
	return b
}

func parseSpec(s string) spec {
	out := spec{index: -1, fill: ' ', conv: conversion{width: -1, precision: -1}}
	index, s, _ := strings.Cut(s, ":")
	if n, err := strconv.ParseUint(index, 10, 8); err == nil {
		out.index = int(n)
	}
	runes := []rune(s)
	if len(runes) > 1 && strings.ContainsRune("<>^", runes[1]) {
		out.fill, out.align, s = runes[0], byte(runes[1]), string(runes[2:])
	} else if len(runes) > 0 && strings.ContainsRune("<>^", runes[0]) {
		out.align, s = byte(runes[0]), string(runes[1:])
	}
	i := 0
	for i < len(s) && strings.IndexByte("-+ #0", s[i]) >= 0 {
		if s[i] != '-' { // which is the default, and left for printf
			out.conv.flags += s[i : i+1]
		}
		i++
	}
	s = s[i:]
	out.conv.width, s = number(s)
	if len(s) > 0 && s[0] == '.' {
		out.conv.precision, s = number(s[1:])
		out.conv.precision = max(out.conv.precision, 0)
	}
	if len(s) > 0 {
		out.conv.verb = s[0]
	}
	return out
}

func (b *braces) start() (text string, done bool) {
	switch {
	case b.values == 0:
		return b.rest(0), true
	case b.numbered:
		return "", false
	}
	return b.texts[0], false
}

const noValue = "<no value>"

func (b *braces) rest(from int) string {
	out := ""
	for i := from; i < len(b.specs); i++ {
		if i > from || from == 0 {
			out += b.texts[i]
		}
		out += noValue
	}
	if from == 0 || from < len(b.specs) {
		out += b.texts[len(b.specs)]
	}
	return out
}

// add returns the text up to the next placeholder. shown is the value's text in a stream.
func (b *braces) add(a arg, shown string) (text string, done bool) {
	a.shown = shown
	b.at++
	done = b.at == b.values
	if b.numbered {
		if b.args = append(b.args, a); !done {
			return "", false
		}
		var out strings.Builder
		for i, s := range b.specs {
			out.WriteString(b.texts[i])
			if s.index >= 0 && s.index < len(b.args) {
				out.WriteString(s.text(b.args[s.index]))
			} else {
				out.WriteString(noValue)
			}
		}
		out.WriteString(b.texts[len(b.specs)])
		return out.String(), true
	}
	if b.at <= len(b.specs) {
		text = b.specs[b.at-1].text(a) + b.texts[b.at]
	}
	if done && b.at < len(b.specs) {
		text += b.rest(b.at)
	}
	return text, done
}

func (s spec) text(a arg) string {
	c := s.conv
	width := c.width
	number := a.typ != typeText
	if s.align != 0 || !number {
		c.width = -1
	}
	var out string
	switch {
	case a.typ == typeText:
		out = a.shown
		if c.precision >= 0 {
			out = out[:min(c.precision, len(out))]
		}
	case strings.IndexByte("feEgGF", c.verb) >= 0 && c.verb != 0:
		if a.typ != typeFloat && a.typ != typeDouble {
			a = arg{typ: typeDouble, bits: math.Float64bits(float64(a.signed()))}
		}
		out = c.text(a)
	case a.typ == typeFloat || a.typ == typeDouble:
		c.verb = 'g'
		if c.precision < 0 {
			c.precision = 6
		}
		out = c.text(a)
	case strings.IndexByte("xXobc", c.verb) >= 0 && c.verb != 0:
		out = c.text(a)
	case a.unsigned:
		c.verb = 'u'
		out = c.text(a)
	default:
		c.verb = 'd'
		out = c.text(a)
	}
	n := width - len(out)
	if n <= 0 {
		return out
	}
	fill := func(n int) string { return strings.Repeat(string(s.fill), n) }
	switch {
	case s.align == '^':
		return fill(n/2) + out + fill(n-n/2)
	case s.align == '>' || s.align == 0 && number:
		return fill(n) + out
	}
	return out + fill(n)
}
