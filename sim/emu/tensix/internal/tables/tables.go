// Package tables reads instructions.txt and registers.txt: the instructions of the Tensix engines
// and the configuration. Arrays of two are of Wormhole and Blackhole.
package tables

import (
	_ "embed"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
)

//go:embed instructions.txt
var instructionsText string

//go:embed registers.txt
var registersText string

// Instruction is an opcode. Unsupported ones are refused.
type Instruction struct {
	Opcode                     byte
	Name                       string
	BlackholeOnly, Unsupported bool
	Operands                   []Operand
	Executor, Constant         string // of instructions that share a function of the engine
}

// Operand is a field of an instruction.
type Operand struct {
	Name   string
	Places [2]Field
}

// Field is the bits of Mask in a word, from bit Shift on. Mask is 0 if the architecture lacks the
// field.
type Field struct {
	Word, Shift uint8
	Mask        uint32
}

// Registers is the configuration.
type Registers struct {
	Words          [2][ConfigWords]Word
	Threads        [2]string // what SETC16 does to each word of a thread: Stored, Refused or nothing
	Config, Thread []Array
}

// ConfigWords is the number of words that all threads share.
const ConfigWords = 224

// What SETC16 does to a word.
const (
	Stored  = 's'
	Refused = 'u'
)

// Word is a word of the configuration.
type Word struct {
	Kind                Kind
	Load, Store, Refuse bool // permitted accesses; Refuse is a store refused as unsupported
	Mask                uint32
}

// Kind says which state holds a word.
type Kind uint8

// Banked words are in each bank, Tile ones act on the tile's processors, and Seed fills the random
// numbers of the vector unit.
const (
	Absent Kind = iota
	None
	Banked
	Shared
	Tile
	Seed
)

var kinds = map[string]Kind{"none": None, "banked": Banked, "shared": Shared, "tile": Tile, "seed": Seed}

// Array is a field of the configuration, or an array of fields, with the vendor's name of the
// first. Both architectures have as many places.
type Array struct {
	Name, Vendor string
	Places       [2][]Field
}

// Instructions and Config return the tables, which callers don't change.
var (
	Instructions = sync.OnceValue(func() []Instruction { return must(ParseInstructions(instructionsText)) })
	Config       = sync.OnceValue(func() *Registers { return must(ParseRegisters(registersText)) })
)

func must[T any](v T, err error) T {
	if err != nil {
		panic(err) // a test reads the tables
	}
	return v
}

var errColumns = errors.New("wrong number of columns")

// parse calls f for the columns of each line.
func parse(text string, f func(columns []string) error) error {
	for l := range strings.Lines(text) {
		if columns := strings.Fields(l); len(columns) > 0 && columns[0][0] != '#' {
			if err := f(columns); err != nil {
				return fmt.Errorf("%q: %w", strings.TrimSpace(l), err)
			}
		}
	}
	return nil
}

// ParseInstructions reads the format of instructions.txt.
func ParseInstructions(text string) (list []Instruction, err error) {
	return list, parse(text, func(columns []string) error {
		if len(columns) < 2 {
			return errColumns
		}
		op, err := strconv.ParseUint(columns[0], 16, 8)
		in := Instruction{Opcode: byte(op), Name: columns[1]}
		for _, c := range columns[2:] {
			name, places, ok := strings.Cut(c, "=")
			switch {
			case c == "bh":
				in.BlackholeOnly = true
			case c == "unsupported":
				in.Unsupported = true
			case name == "executor":
				in.Executor, in.Constant, _ = strings.Cut(places, ":")
			case !ok:
				return fmt.Errorf("operand %q: want name=high:low", c)
			default:
				o := Operand{Name: name}
				wormhole, blackhole, differ := strings.Cut(places, "|")
				if !differ {
					blackhole = wormhole
				}
				var err1, err2 error
				o.Places[0], err1 = bits(wormhole)
				o.Places[1], err2 = bits(blackhole)
				err = errors.Join(err, err1, err2)
				in.Operands = append(in.Operands, o)
			}
		}
		list = append(list, in)
		return err
	})
}

// Front reports whether the front end takes the instruction.
func (i *Instruction) Front() bool {
	return i.Name == "MOP" || i.Name == "NOP" || i.Name == "MOP_CFG" || i.Name == "REPLAY"
}

// Unused returns the bits that must be 0.
func (i *Instruction) Unused(arch int) uint32 {
	free := uint32(0xFFFFFF)
	for _, o := range i.Operands {
		free &^= o.Places[arch].Mask << o.Places[arch].Shift
	}
	return free
}

// bits reads "high:low", "bit", or "-" for no field.
func bits(s string) (f Field, err error) {
	if s == "-" {
		return f, nil
	}
	high, low, ok := strings.Cut(s, ":")
	if !ok {
		low = high
	}
	h, err1 := strconv.ParseUint(high, 10, 5)
	l, err2 := strconv.ParseUint(low, 10, 5)
	if err := errors.Join(err1, err2); err != nil || l > h {
		return f, fmt.Errorf("bits %q of a word: %w", s, err)
	}
	return Field{Shift: uint8(l), Mask: uint32(uint64(2)<<(h-l) - 1)}, nil
}

// place reads "word.high:low" or "-".
func place(s string) (f Field, err error) {
	if s == "-" {
		return f, nil
	}
	word, where, _ := strings.Cut(s, ".")
	w, err1 := strconv.ParseUint(word, 10, 8)
	f, err2 := bits(where)
	f.Word = uint8(w)
	return f, errors.Join(err1, err2)
}

// ParseRegisters reads the format of registers.txt.
func ParseRegisters(text string) (*Registers, error) {
	r := new(Registers)
	return r, parse(text, func(c []string) (err error) {
		switch c[0] {
		case "word":
			return r.word(c)
		case "threads":
			if len(c) != 3 {
				return errColumns
			}
			arch, err := archOf(c[1])
			r.Threads[arch] = c[2]
			return err
		case "config":
			r.Config, err = appendArray(r.Config, c)
		case "thread":
			r.Thread, err = appendArray(r.Thread, c)
		default:
			return fmt.Errorf("unknown kind %q", c[0])
		}
		return err
	})
}

func archOf(s string) (int, error) {
	switch s {
	case "wh":
		return 0, nil
	case "bh":
		return 1, nil
	}
	return 0, fmt.Errorf("architecture %q", s)
}

func (r *Registers) word(c []string) error {
	if len(c) < 6 {
		return errColumns
	}
	arch, err1 := archOf(c[1])
	i, err2 := strconv.ParseUint(c[2], 10, 8)
	mask, err3 := strconv.ParseUint(c[4], 16, 32)
	kind, ok := kinds[c[3]]
	if err := errors.Join(err1, err2, err3); err != nil || !ok || i >= ConfigWords {
		return fmt.Errorf("word of kind %q: %w", c[3], err)
	}
	access := strings.Join(c[5:], " ")
	r.Words[arch][i] = Word{
		Kind: kind, Mask: uint32(mask), Load: access[0] == 'r', Refuse: strings.HasSuffix(access, "unsupported"),
		Store: strings.Contains(access, "w"),
	}
	return nil
}

func appendArray(list []Array, c []string) ([]Array, error) {
	if len(c) != 5 {
		return nil, errColumns
	}
	a := Array{Name: c[1], Vendor: c[2]}
	for arch, places := range c[3:] {
		for s := range strings.SplitSeq(places, ",") {
			f, err := place(s)
			if err != nil {
				return nil, err
			}
			a.Places[arch] = append(a.Places[arch], f)
		}
	}
	n := max(len(a.Places[0]), len(a.Places[1]))
	for arch, p := range a.Places {
		a.Places[arch] = append(p, make([]Field, n-len(p))...)
	}
	return append(list, a), nil
}
