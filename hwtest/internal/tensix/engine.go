// Package tensix has the conformance cases of a tile's Tensix engines. The cases are data:
// vectors/*.txt has the instructions, vectors/golden.bin what the vendor's simulator makes of them.
// vectors/common.txt describes the notation.
package tensix

import (
	"bytes"
	"compress/flate"
	"embed"
	"encoding/binary"
	"encoding/gob"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"sync"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/hwtest/rig"
)

// Key names a result.
type Key struct {
	Case string
	Run  int
	Arch chip.Arch
}

// Entry is a result in the archive: the output, and the loads of each thread. Equal results of both
// architectures are one entry.
type Entry struct {
	Case string
	Run  int
	On   []chip.Arch
	By   string // what the result was recorded from
	Data []byte // deflated; the input is the dictionary
}

//go:embed vectors/golden.bin
var archive []byte

// Golden reads the archive once.
var Golden = sync.OnceValues(func() (map[Key]*Entry, error) {
	m := map[Key]*Entry{}
	var list []Entry
	err := gob.NewDecoder(flate.NewReader(bytes.NewReader(archive))).Decode(&list)
	for i, e := range list {
		for _, a := range e.On {
			m[Key{e.Case, e.Run, a}] = &list[i]
		}
	}
	return m, err
})

// recorded returns a result, and what it was recorded from.
func recorded(k Key, input []byte) (data []byte, by string, err error) {
	g, err := Golden()
	if err != nil {
		return nil, "", fmt.Errorf("hwtest: vectors/golden.bin: %w", err)
	}
	e, ok := g[k]
	if !ok {
		return nil, "", fmt.Errorf("hwtest: run %d of this case has no recorded result on %v: record it by -update", k.Run, k.Arch)
	}
	data, err = io.ReadAll(flate.NewReaderDict(bytes.NewReader(e.Data), input))
	if err != nil {
		return nil, "", fmt.Errorf("hwtest: recorded result of run %d: %w", k.Run, err)
	}
	return data, e.By, nil
}

// Sizes in bytes of a run's buffers in L1.
const (
	scriptBytes = 0x4000 // of each thread
	logBytes    = 0x400  // of each thread
	engineBytes = 0x10000
)

const engineQueue = 128 // instructions pushed before a wait for the engines: ttsim stops at 512

const unwritten = 0xA5

// Cases returns the cases, instruction by instruction.
func Cases() rig.Table {
	var cs rig.Table
	s, err := load()
	if err != nil {
		cs.Add("vectors", "the vectors can be read", func(t *rig.T) { t.Fatal(err) })
		return cs
	}
	for _, v := range s.vectors {
		cs.Add(v.name, v.protects, func(t *rig.T) { s.run(t, v) })
	}
	return cs
}

// run executes each run of a vector, and compares the output and what the cores have loaded with
// what is recorded.
func (s *suite) run(t *rig.T, v *vector) {
	t.Helper()
	one := func(n int) *reprise.Buffer { return t.L1Buffer(n, n) }
	scripts, in, out := one(3*(scriptBytes+logBytes)), one(engineBytes), one(engineBytes)
	a := &assembler{suite: s, arch: t.Dev.Arch(), rnd: rig.Random(v.name), in: in.Addr(), out: out.Addr()}
	runs, err := a.assemble(v)
	if errors.Is(err, errOtherArch) {
		t.Skipf("only %s has this", a.only)
	}
	t.OK(err)
	if len(runs) == 0 {
		t.Fatalf("%s: the case has no instructions", v.pos)
	}
	p := &reprise.Program{Name: "engines", Buffers: []*reprise.Buffer{scripts, in, out}}
	for i, core := range rig.Processors()[chip.TRISC0:] {
		script := scripts.Addr() + uint32(i*(scriptBytes+logBytes))
		name, args := "engine", rig.Args(script, script+scriptBytes, engineQueue)
		if k := runs[0].kernel; k != "" {
			name, args = k, rig.Args(out.Addr()+uint32(32*i), runs[0].number)
		}
		p.Kernels = append(p.Kernels, reprise.Kernel{Name: name, Image: t.Own(name), Processor: core, Cores: []chip.Range{{}}, Args: args})
	}
	program := t.Load(p)
	for i, r := range runs {
		memory := r.memory()
		t.Write(scripts, memory)
		if len(r.input) > 0 {
			t.Write(in, r.input)
		}
		if len(r.output) > 0 {
			t.Write(out, r.output)
		}
		t.Start(program)
		t.OK(t.Queue.Read(t.Ctx, scripts, 0, memory))
		result := bytes.Clone(r.output)
		if len(result) > 0 {
			t.OK(t.Queue.Read(t.Ctx, out, 0, result))
		}
		for thread, loads := range r.loads {
			result = append(result, memory[thread*(scriptBytes+logBytes)+scriptBytes:][:4*len(loads)]...)
		}
		r.compare(t, v, i, result)
	}
}

func (p *program) fits() error {
	for i, words := range p.scripts {
		if 4*len(words)+4 > scriptBytes || 4*len(p.loads[i]) > logBytes {
			return fmt.Errorf("script of %d words with %d loads: there is room for %d and %d",
				len(words), len(p.loads[i]), scriptBytes/4-1, logBytes/4)
		}
	}
	return nil
}

// memory is the scripts and logs of all threads.
func (p *program) memory() []byte {
	memory := make([]byte, 3*(scriptBytes+logBytes))
	for i, words := range p.scripts {
		at := memory[i*(scriptBytes+logBytes):]
		rig.PutWord(at, uint32(len(words)))
		for j, w := range words {
			rig.PutWord(at[4+4*j:], w)
		}
	}
	return memory
}

// compare compares a run's result, the output and the loads, with the recorded one; or records it.
func (p *program) compare(t *rig.T, v *vector, run int, result []byte) {
	t.Helper()
	if t.Config.Record != nil {
		if n := len(p.output); n > 0 && !p.plain && bytes.Count(result[:n], result[:1]) == n {
			t.Errorf("%s: run %d: every byte of the output is %#x, which says nothing: if it should be, say plain", p.pos, run, result[0])
		}
		t.Config.Record(t.Device, t.Dev.Arch(), v.name, run, p.input, result)
		return
	}
	want, by, err := recorded(Key{v.name, run, t.Dev.Arch()}, p.input)
	t.OK(err)
	what := fmt.Sprintf("%s: run %d, recorded from %s", p.pos, run, by)
	if len(want) != len(result) {
		t.Fatalf("%s: a result of %d bytes, want %d: record it by -update", what, len(result), len(want))
	}
	n := len(p.output)
	t.Same(want[:n], result[:n], "%s: output", what)
	for thread, loads := range p.loads {
		for i, pos := range loads {
			rig.Equal(t, rig.Word(result[n:]), rig.Word(want[n:]), "%s: load %d of thread %d (%s)", what, i, thread, pos)
			n += 4
		}
	}
}

//go:embed vectors/*.txt
var files embed.FS

// A line of a vector file, with the lines that are indented below it.
type line struct {
	pos  string // file:line
	text string
	body []*line

	indent int // of the lines below
}

// macro is lines with parameters.
type macro struct {
	params []string
	body   []*line
}

type vector struct {
	name, protects string
	*line
}

// suite is the content of vector files.
type suite struct {
	constants map[string]string
	macros    map[string]*macro
	vectors   []*vector
}

func load() (*suite, error) {
	s := &suite{constants: map[string]string{}, macros: map[string]*macro{}}
	for _, name := range []string{"common", "front", "sync", "unpack", "move", "matrix", "lanes", "pack"} {
		name = "vectors/" + name + ".txt"
		text, err := files.ReadFile(name)
		if err == nil {
			err = s.parse(name, string(text))
		}
		if err != nil {
			return nil, err
		}
	}
	return s, nil
}

var errHeader = errors.New(`want "const NAME = EXPRESSION", "macro NAME PARAMETERS", "protects TEXT" or "case NAME"`)

// parse adds the definitions and cases of a file.
func (s *suite) parse(file, text string) error {
	root, err := indented(file, text)
	if err != nil {
		return err
	}
	protects := ""
	for _, l := range root.body {
		word, rest, _ := strings.Cut(l.text, " ")
		rest = strings.TrimSpace(rest)
		name, value, isConst := strings.Cut(rest, " = ")
		params := strings.FieldsFunc(rest, func(r rune) bool { return r == ' ' || r == ',' })
		switch {
		case word == "const" && isConst && len(l.body) == 0:
			s.constants[name] = value
		case word == "macro" && len(params) > 0:
			s.macros[params[0]] = &macro{params[1:], l.body}
		case word == "protects" && len(l.body) == 0:
			protects = rest
		case word == "case" && rest != "" && protects != "":
			s.vectors = append(s.vectors, &vector{rest, protects, l})
		default:
			return fmt.Errorf("%s: %q: %w", l.pos, l.text, errHeader)
		}
	}
	return nil
}

// indented makes a tree of lines. Comments begin with # and a space, at the line's beginning or
// after a space.
func indented(file, text string) (*line, error) {
	root := &line{}
	open, indents := []*line{root}, []int{-1}
	for i, raw := range strings.Split(text, "\n") {
		if before, _, ok := strings.Cut(" "+raw, " # "); ok {
			raw = strings.TrimPrefix(before, " ")
		}
		text := strings.TrimSpace(raw)
		if text == "" || text == "#" {
			continue
		}
		indent := len(raw) - len(strings.TrimLeft(raw, " "))
		for indents[len(indents)-1] >= indent {
			open, indents = open[:len(open)-1], indents[:len(indents)-1]
		}
		parent := open[len(open)-1]
		if n := len(parent.body); n > 0 && parent.indent != indent {
			return nil, fmt.Errorf("%s:%d: indented by %d, the line above by %d", file, i+1, indent, parent.indent)
		}
		parent.indent = indent
		var l *line
		for part := range strings.SplitSeq(text, "; ") {
			l = &line{pos: fmt.Sprintf("%s:%d", file, i+1), text: part}
			parent.body = append(parent.body, l)
		}
		open, indents = append(open, l), append(indents, indent)
	}
	return root, nil
}

// kind makes the elements of an input.
type kind struct {
	size    int
	element func(rnd *rand.Rand, i int) uint32
}

// kinds are the inputs that vectors name; common.txt describes them.
var kinds = map[string]kind{
	"bytes":     {1, func(rnd *rand.Rand, _ int) uint32 { return rnd.Uint32() }},
	"exponents": {1, func(rnd *rand.Rand, _ int) uint32 { return uint32(120 + rnd.IntN(12)) }},
	"bf16":      {2, func(rnd *rand.Rand, _ int) uint32 { return number(rnd) >> 16 }},
	"fp32":      {4, func(rnd *rand.Rand, _ int) uint32 { return number(rnd) }},
	"denormals": {2, func(rnd *rand.Rand, _ int) uint32 { return rnd.Uint32() & 0x81FF }},
	"edges":     {4, func(rnd *rand.Rand, _ int) uint32 { return edge(rnd) }},
	"integers": {4, func(rnd *rand.Rand, i int) uint32 {
		if i%2 != 0 {
			return rnd.Uint32()
		}
		return uint32(rnd.IntN(400)) | rnd.Uint32()&0x80000000
	}},
}

// number returns fp32 of either sign, of some thirty powers of two, or sometimes zero.
func number(rnd *rand.Rand) uint32 {
	if rnd.IntN(16) == 0 {
		return 0
	}
	return rnd.Uint32()&0x807FFFFF | uint32(112+rnd.IntN(30))<<23
}

var edges = []uint32{
	0, 0x80000000, 1, 0x80000001, 0x007FFFFF, 0x00800000, 0x7F800000, 0xFF800000, 0x7FC00000, 0xFFFFFFFF, 0x7F7FFFFF,
	0x3F800000, 0xBF800000, 0x3F000000, 0x40000000, 0x3FFFFFFF, 0x42FE0000, 0x7FFFFFFF, 0xFFFF, 0x10000, 31, 32, 0xFFFFFFE1,
}

// edge returns an edge case of a format, a number about 1, a small integer, or any bits.
func edge(rnd *rand.Rand) uint32 {
	switch rnd.IntN(4) {
	case 0:
		return edges[rnd.IntN(len(edges))]
	case 1:
		return rnd.Uint32()&0x807FFFFF | uint32(100+rnd.IntN(50))<<23
	case 2:
		return uint32(rnd.IntN(2001) - 1000)
	}
	return rnd.Uint32()
}

// data makes an input of kinds, each followed by its number of elements.
func (a *assembler) data(text string) ([]byte, error) {
	text, mirrored := strings.CutSuffix(text, " mirrored")
	words := strings.Fields(text)
	var all []byte
	for ; len(words) >= 2; words = words[2:] {
		n, err := a.value(words[1])
		k, ok := kinds[words[0]]
		if !ok {
			var v uint32
			v, err = a.value(words[0])
			k = kind{4, func(*rand.Rand, int) uint32 { return v }}
		}
		if err != nil {
			return nil, err
		}
		if n > engineBytes {
			return nil, fmt.Errorf("%d elements: there is room for %d bytes", n, engineBytes)
		}
		a.lines += int(n) / 64 // an input takes time too
		var part []byte
		for i := range int(n) {
			part = append(part, binary.LittleEndian.AppendUint32(nil, k.element(a.rnd, i))[:k.size]...)
		}
		if mirrored {
			mirror(part)
		}
		all = append(all, part...)
	}
	if len(words) > 0 {
		return nil, fmt.Errorf("%q has no number of elements", words[0])
	}
	return all, nil
}

// mirror makes faces 2 and 3 of a tile faces 0 and 1 with their rows in reverse, so that results
// compress.
func mirror(tile []byte) {
	size := len(tile) / 64
	half := bytes.Clone(tile[:32*size])
	for row := range 32 {
		copy(tile[(32+row)*size:], half[(row&^15|15-row&15)*size:][:size])
	}
}
