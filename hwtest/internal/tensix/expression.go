package tensix

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/sim/emu/tensix/isa"
)

// operators bind from the loosest on. "a/b" is a on Wormhole, b on Blackhole.
var operators = []string{"/", "|", "+-", "*&<>"}

// value evaluates an expression: numbers, names and operators, without spaces.
func (a *assembler) value(s string) (uint32, error) {
	if a.nested == maxNested {
		return 0, fmt.Errorf("constants refer to more than %d others in turn", maxNested)
	}
	a.nested++
	defer func() { a.nested-- }()
	p := &parser{a: a, rest: s}
	v, err := p.binary(0)
	if err == nil && p.rest != "" {
		err = fmt.Errorf("%q is left over", p.rest)
	}
	if err != nil {
		return 0, fmt.Errorf("expression %q: %w", s, err)
	}
	return v, nil
}

type parser struct {
	a    *assembler
	rest string
}

func (p *parser) binary(level int) (uint32, error) {
	if level == len(operators) {
		return p.operand()
	}
	v, err := p.binary(level + 1)
	for err == nil && p.rest != "" && strings.IndexByte(operators[level], p.rest[0]) >= 0 {
		op := p.rest[0]
		p.rest = strings.TrimLeft(p.rest[1:], "<>")
		var w uint32
		w, err = p.binary(level + 1)
		switch op {
		case '/':
			if p.a.arch == chip.Blackhole {
				v = w
			}
		case '|':
			v |= w
		case '+':
			v += w
		case '-':
			v -= w
		case '*':
			v *= w
		case '&':
			v &= w
		case '<':
			v <<= w
		case '>':
			v >>= w
		}
	}
	return v, err
}

func (p *parser) operand() (uint32, error) {
	if inner, ok := strings.CutPrefix(p.rest, "("); ok {
		p.rest = inner
		v, err := p.binary(0)
		if p.rest, ok = strings.CutPrefix(p.rest, ")"); err == nil && !ok {
			err = fmt.Errorf("no ) before %q", p.rest)
		}
		return v, err
	}
	n := strings.IndexAny(p.rest, "/|+-*&<>()")
	if n < 0 {
		n = len(p.rest)
	}
	name := p.rest[:n]
	p.rest = p.rest[n:]
	return p.a.named(name)
}

// named is the value of a number or a name.
func (a *assembler) named(name string) (uint32, error) {
	if v, err := strconv.ParseUint(name, 0, 32); err == nil {
		return uint32(v), nil
	}
	if text, ok := a.constants[name]; ok {
		return a.value(text)
	}
	if v, ok := a.variables[name]; ok {
		return v, nil
	}
	if label, ok := strings.CutPrefix(name, "@"); ok {
		if addr, ok := a.run.labels[label]; ok {
			return addr>>4 - 1, nil
		}
		return 0, fmt.Errorf("no input or output is called %q", label)
	}
	if depth := strings.Index("ijk", name); len(name) == 1 && depth >= 0 {
		if depth >= len(a.loops) {
			return 0, fmt.Errorf("%s: only %d repeats are around it", name, len(a.loops))
		}
		return a.loops[len(a.loops)-1-depth], nil
	}
	switch name {
	case "t":
		return uint32(a.thread - 1), nil
	case "random":
		return a.rnd.Uint32(), nil
	}
	if c, ok := isa.ConfigNamed(name); ok {
		word, _, err := c.Place(a.arch, 0)
		return word, err
	}
	return 0, fmt.Errorf("%q is no number, constant or field of the configuration", name)
}
