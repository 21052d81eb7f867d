// Package isa encodes instructions of the Tensix engines of either architecture, and values of
// configuration fields. Its tables are generated from those of the emulator.
//
//	w, err := isa.MVMUL{Dst: 8, Mode: 1}.Encode(chip.Blackhole)
package isa

import (
	"fmt"
	"iter"
	"math/bits"
	"reflect"
	"strings"

	"github.com/reprise-tt/reprise/chip"
)

// Instruction is implemented by the types named after opcodes, which hold the values of fields.
type Instruction interface {
	// Encode returns the instruction's word. It fails if a value doesn't fit its field, or if the
	// architecture lacks the instruction or a field that isn't 0.
	Encode(chip.Arch) (uint32, error)
}

// Field is the bits of Mask in a word, from bit Shift on. Mask is 0 if the architecture lacks the
// field.
type Field struct {
	Word, Shift uint8
	Mask        uint32
}

func index(a chip.Arch) int {
	if a == chip.Blackhole {
		return 1
	}
	return 0
}

func (f Field) place(v uint32) (uint32, error) {
	switch {
	case v == 0:
		return 0, nil
	case f.Mask == 0:
		return 0, fmt.Errorf("%#x: the architecture doesn't have this field", v)
	case v > f.Mask:
		return 0, fmt.Errorf("%#x: the field has %d bits", v, bits.Len32(f.Mask))
	}
	return v << f.Shift, nil
}

// encode returns the word of an instruction from its opcode and the bits of its fields in the order
// of the type's: "high:low", or "Wormhole|Blackhole". The word "bh" before the fields says that
// only Blackhole has the instruction.
func encode(a chip.Arch, in Instruction, opcode uint32, places string) (uint32, error) {
	w, values := opcode<<24, reflect.ValueOf(in)
	name := values.Type().Name()
	if rest, ok := strings.CutPrefix(places, "bh"); ok {
		if places = rest; a != chip.Blackhole {
			return 0, fmt.Errorf("isa: %v doesn't have %s", a, name)
		}
	}
	for i, bits := range strings.Fields(places) {
		if wormhole, blackhole, differ := strings.Cut(bits, "|"); differ {
			bits = [2]string{wormhole, blackhole}[index(a)]
		}
		v, err := bitsOf(bits).place(uint32(values.Field(i).Uint()))
		if err != nil {
			field := values.Type().Field(i).Name
			return 0, fmt.Errorf("isa: %s on %v: %s = %w", name, a, strings.ToLower(field[:1])+field[1:], err)
		}
		w |= v
	}
	return w, nil
}

// bitsOf reads "high:low", "bit", or "-" for no field.
func bitsOf(s string) Field {
	var high, low uint8
	switch n, _ := fmt.Sscanf(s, "%d:%d", &high, &low); n {
	case 0:
		return Field{}
	case 1:
		low = high
	}
	return Field{Shift: low, Mask: 2<<(high-low) - 1}
}

// Config is a field of the configuration that all threads share. An array's elements follow the
// first: PackOut + 1.
type Config uint8

// Thread is a field of a thread's own configuration, which SETC16 sets.
type Thread uint8

// Place returns the index of the field's word, and v in its place there. It fails if v doesn't fit
// or if the architecture lacks the field.
func (c Config) Place(a chip.Arch, v uint32) (word, value uint32, err error) {
	return configPlaces[index(a)][c].field(a, fmt.Sprintf("field %d of the configuration", c), v)
}

// Place is [Config.Place] for a field of a thread.
func (t Thread) Place(a chip.Arch, v uint32) (word, value uint32, err error) {
	return threadPlaces[index(a)][t].field(a, fmt.Sprintf("field %d of a thread's configuration", t), v)
}

// Mask returns the field's bits in its word; 0 if the architecture lacks the field.
func (c Config) Mask(a chip.Arch) uint32 {
	f := configPlaces[index(a)][c]
	return f.Mask << f.Shift
}

// Fields returns the fields of both kinds of configuration. The caller must not change them.
func Fields(a chip.Arch) (config *[NumConfig]Field, thread *[NumThread]Field) {
	return &configPlaces[index(a)], &threadPlaces[index(a)]
}

// Configs iterates over an architecture's fields, each element of an array by itself.
func Configs(a chip.Arch) iter.Seq[Config] {
	return func(yield func(Config) bool) {
		for c := range Config(NumConfig) {
			if configPlaces[index(a)][c].Mask != 0 && !yield(c) {
				return
			}
		}
	}
}

func (f Field) field(a chip.Arch, name string, v uint32) (word, value uint32, err error) {
	if f.Mask == 0 {
		return 0, 0, fmt.Errorf("isa: %v doesn't have %s", a, name)
	}
	if value, err = f.place(v); err != nil {
		return 0, 0, fmt.Errorf("isa: %s on %v: %w", name, a, err)
	}
	return uint32(f.Word), value, nil
}
