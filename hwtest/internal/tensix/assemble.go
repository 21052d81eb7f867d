package tensix

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/sim/emu/tensix/isa"
)

// Commands of the core itself in a script; kernels/engine.c executes them.
const (
	commandSync  = 0xC0 << 24
	commandStore = 0xC1 << 24
	commandLoad  = 0xC2 << 24
	commandPoll  = 0xC3 << 24
)

const configAperture = 0xFFEF0000

// MaxRuns is how many runs a case may have.
const MaxRuns = 100

// Limits of a case, so that wrong vectors end.
const (
	maxLines  = 100_000
	maxNested = 20 // macros, or constants
)

// program is what one run of a vector executes.
type program struct {
	pos     string // of the line that began it
	scripts [3][]uint32
	loads   [3][]string // positions of the loads that the threads log
	input   []byte
	output  []byte // before the run
	plain   bool   // whether the output may be of equal bytes
	labels  map[string]uint32
	config  map[uint32]uint32 // words by their index

	kernel string // runs in place of the scripts, with 32 bytes of output and number
	number uint32
}

// assembler executes the lines of a vector for an architecture.
type assembler struct {
	*suite
	arch    chip.Arch
	rnd     *rand.Rand
	in, out uint32 // addresses of the buffers

	variables map[string]uint32

	only   string // the architecture that has the case
	run    *program
	runs   []*program
	pos    string
	thread int      // from 1 on; 0 outside of threads
	loops  []uint32 // the innermost repeat last
	calls  []*call
	lines  int // executed
	nested int // expressions
}

// call is a macro's, whose lines of its own replace $body.
type call struct {
	args map[string]string
	body []*line
}

var errOtherArch = errors.New("the case is for the other architecture")

// assemble returns the runs of a vector, or errOtherArch.
func (a *assembler) assemble(v *vector) ([]*program, error) {
	a.variables = map[string]uint32{}
	a.pos = v.pos
	if err := a.begin(); err != nil {
		return nil, err
	}
	if err := a.all(v.body); err != nil {
		return nil, err
	}
	err := a.end()
	return a.runs, err
}

func (a *assembler) begin() error {
	a.run = &program{pos: a.pos, labels: map[string]uint32{}, config: map[uint32]uint32{}}
	for c := range isa.Configs(a.arch) {
		word, _, err := c.Place(a.arch, 0)
		if err != nil {
			return err
		}
		a.run.config[word] = 0
	}
	return a.expand("defaults", "", nil)
}

// end puts the prologue, which stores the whole configuration, before the scripts.
func (a *assembler) end() error {
	if p := a.run; len(p.scripts[0])+len(p.scripts[1])+len(p.scripts[2]) == 0 && p.kernel == "" {
		return nil
	}
	if len(a.runs) == MaxRuns {
		return fmt.Errorf("more than %d runs", MaxRuns)
	}
	body, loads := a.run.scripts, a.run.loads
	a.run.scripts, a.run.loads = [3][]uint32{}, [3][]string{}
	err := a.expand("prologue", "", nil)
	for i := range body {
		a.run.scripts[i] = append(a.run.scripts[i], body[i]...)
		a.run.loads[i] = append(a.run.loads[i], loads[i]...)
	}
	a.runs = append(a.runs, a.run)
	return errors.Join(err, a.run.fits())
}

func (a *assembler) all(lines []*line) error {
	for _, l := range lines {
		if len(a.calls) == 0 {
			a.pos = l.pos
		}
		if err := a.line(l.text, l.body); err != nil {
			if err == errOtherArch {
				return err
			}
			return fmt.Errorf("%s: %w", l.pos, err)
		}
	}
	return nil
}

var errBody = errors.New("it takes no lines of its own")

// line executes a line. Prefixes apply to the rest of it, or to the lines below.
func (a *assembler) line(text string, body []*line) error {
	if a.lines++; a.lines > maxLines {
		return fmt.Errorf("the case executes more than %d lines", maxLines)
	}
	if text == "$body" && len(a.calls) > 0 {
		inner := a.calls[len(a.calls)-1]
		a.calls = a.calls[:len(a.calls)-1]
		err := a.all(inner.body)
		a.calls = append(a.calls, inner)
		return err
	}
	if len(a.calls) > 0 {
		text = os.Expand(text, func(name string) string {
			if v, ok := a.calls[len(a.calls)-1].args[name]; ok {
				return v
			}
			return "$" + name
		})
	}
	word, rest, _ := strings.Cut(text, " ")
	rest = strings.TrimSpace(rest)
	block := func() error {
		a.lines++
		if rest != "" {
			return a.line(rest, body)
		}
		return a.all(body)
	}
	switch word {
	case "wormhole:", "blackhole:":
		if word == a.arch.String()+":" {
			return block()
		}
		return nil
	case "T0", "T1", "T2", "T*":
		var err error
		outer := a.thread
		for a.thread = 1; a.thread <= 3 && err == nil; a.thread++ {
			if word == "T*" || int(word[1]-'0') == a.thread-1 {
				err = block()
			}
		}
		a.thread = outer
		return err
	}
	if n, ok := strings.CutSuffix(word, "x"); ok && n != "" && strings.Contains("(0123456789", n[:1]) {
		times, err := a.value(n)
		a.loops = append(a.loops, 0)
		for i := uint32(0); i < min(times, maxLines) && err == nil; i++ {
			a.loops[len(a.loops)-1] = i
			err = block()
		}
		a.loops = a.loops[:len(a.loops)-1]
		return err
	}
	if _, ok := a.macros[word]; ok {
		return a.expand(word, rest, body)
	}
	if len(body) > 0 {
		return fmt.Errorf("%s: %w", word, errBody)
	}
	return a.statement(word, rest)
}

// expand executes a macro's lines. Commas separate its arguments.
func (a *assembler) expand(name, rest string, body []*line) error {
	m, ok := a.macros[name]
	if !ok {
		return fmt.Errorf("no macro is called %q", name)
	}
	var args []string
	if rest != "" {
		args = strings.Split(rest, ",")
	}
	if len(args) != len(m.params) || len(a.calls) == maxNested {
		return fmt.Errorf("macro %s has parameters %q, not %q, and at most %d are inside of one another", name, m.params, args, maxNested)
	}
	c := &call{map[string]string{}, body}
	for i, p := range m.params {
		c.args[p] = strings.TrimSpace(args[i])
	}
	a.calls = append(a.calls, c)
	err := a.all(m.body)
	a.calls = a.calls[:len(a.calls)-1]
	return err
}

func (a *assembler) statement(word, rest string) error {
	switch word {
	case "only":
		if a.only = rest; rest != a.arch.String() {
			return errOtherArch
		}
		return nil
	case "run":
		if err := a.end(); err != nil {
			return err
		}
		return a.begin()
	case "plain":
		a.run.plain = true
		return nil
	case "kernel":
		name, number, _ := strings.Cut(rest, " ")
		n, err := a.value(number)
		a.run.kernel, a.run.number = name, n
		return err
	case "let":
		name, text, _ := strings.Cut(rest, " = ")
		v, err := a.value(text)
		a.variables[name] = v
		return err
	case "input", "output":
		return a.memory(word, rest)
	case "config":
		return a.fields(rest, a.configure)
	}
	if a.thread == 0 {
		return fmt.Errorf("%s: no thread executes it: say T0, T1, T2 or T*", word)
	}
	switch word {
	case "any":
		list := strings.Split(rest, ", ")
		return a.expand(list[a.rnd.IntN(len(list))], "", nil)
	case "configure":
		for word := range uint32(256) {
			if v, ok := a.run.config[word]; ok {
				a.push(commandStore, configAperture+4*word, v)
			}
		}
		return nil
	case "sync":
		a.push(commandSync)
		return nil
	case "store", "poll":
		return a.store(word, rest)
	case "load":
		addr, err := a.value(rest)
		a.push(commandLoad, addr)
		a.run.loads[a.thread-1] = append(a.run.loads[a.thread-1], a.pos)
		return err
	}
	w, err := a.instruction(word, rest)
	a.push(w)
	return err
}

func (a *assembler) push(words ...uint32) {
	a.run.scripts[a.thread-1] = append(a.run.scripts[a.thread-1], words...)
}

// memory gives an input or output its place.
func (a *assembler) memory(word, rest string) error {
	name, text, _ := strings.Cut(rest, " ")
	to, base := &a.run.input, a.in
	var data []byte
	var err error
	if word == "input" {
		data, err = a.data(text)
	} else {
		to, base = &a.run.output, a.out
		size, initial, _ := strings.Cut(text, " ")
		var n uint32
		n, err = a.value(size)
		if err == nil {
			data, err = a.data(initial)
		}
		data = append(data, slices.Repeat([]byte{unwritten}, max(0, int(min(n, engineBytes+1))-len(data)))...)
	}
	a.run.labels[name] = base + uint32(len(*to))
	*to = append(*to, data...)
	*to = append(*to, make([]byte, -len(*to)&15)...)
	if err == nil && len(*to) > engineBytes {
		err = fmt.Errorf("%d bytes of %s: there is room for %d", len(*to), word, engineBytes)
	}
	return err
}

// fields calls f for each NAME=EXPRESSION or NAME+ELEMENT=EXPRESSION.
func (a *assembler) fields(text string, f func(name string, element, v uint32) error) error {
	for _, s := range strings.Fields(text) {
		left, right, ok := strings.Cut(s, "=")
		left, bits := strings.CutSuffix(left, "|")
		name, index, array := strings.Cut(left, "+")
		if bits {
			name += "|"
		}
		if !ok {
			return fmt.Errorf("%q: want FIELD=VALUE", s)
		}
		v, err := a.value(right)
		var element uint32
		if err == nil && array {
			element, err = a.value(index)
		}
		if err == nil {
			err = f(name, element, v)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// configure sets a field of the configuration; with | after its name, bits of the field's word.
func (a *assembler) configure(name string, element, v uint32) error {
	name, bits := strings.CutSuffix(name, "|")
	c, err := field(name, element)
	if err != nil {
		return err
	}
	if bits {
		word, _, err := c.Place(a.arch, 0)
		a.run.config[word] |= v
		return err
	}
	word, value, err := c.Place(a.arch, v)
	a.run.config[word] = a.run.config[word]&^c.Mask(a.arch) | value
	return err
}

func field(name string, element uint32) (isa.Config, error) {
	c, ok := isa.ConfigNamed(name)
	if !ok || element >= isa.NumConfig-uint32(c) {
		return 0, fmt.Errorf("the configuration has no field %s+%d", name, element)
	}
	return c + isa.Config(element), nil
}

// store is of a word or a configuration field: ADDRESS VALUE, ADDRESS INSTRUCTION or FIELD=VALUE.
// A poll has an address and a value.
func (a *assembler) store(word, rest string) error {
	if strings.Contains(rest, "=") && !strings.Contains(rest, " ") {
		return a.fields(rest, func(name string, element, v uint32) error {
			c, err := field(name, element)
			if err != nil {
				return err
			}
			word, value, err := c.Place(a.arch, v)
			a.push(commandStore, configAperture+4*word, value)
			return err
		})
	}
	at, what, _ := strings.Cut(rest, " ")
	addr, err := a.value(at)
	if err != nil {
		return err
	}
	name, operands, _ := strings.Cut(what, " ")
	v, err := a.value(name)
	if m, ok := a.macros[name]; ok && len(m.body) == 1 {
		name, operands, _ = strings.Cut(m.body[0].text, " ")
	}
	if err != nil {
		v, err = a.instruction(name, operands)
	}
	if word == "poll" {
		a.push(commandPoll, addr, v)
	} else {
		a.push(commandStore, addr, v)
	}
	return err
}

// instruction encodes one. SETC16 also takes the fields of a word of the thread's configuration.
func (a *assembler) instruction(name, operands string) (uint32, error) {
	values := map[string]uint32{}
	err := a.fields(operands, func(field string, element, v uint32) error {
		if f, ok := isa.ThreadNamed(field); ok && name == "SETC16" && element < isa.NumThread-uint32(f) {
			word, bits, err := (f + isa.Thread(element)).Place(a.arch, v)
			if reg, ok := values["Reg"]; ok && reg != word {
				return fmt.Errorf("%s is in another word than the fields before", field)
			}
			values["Reg"] = word
			values["Value"] |= bits
			return err
		}
		if _, ok := values[field]; ok {
			return fmt.Errorf("%s is given twice", field)
		}
		values[field] = v
		return nil
	})
	if err != nil {
		return 0, err
	}
	return isa.Encode(a.arch, name, values)
}

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
