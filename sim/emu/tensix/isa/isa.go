// Package isa makes words for the Tensix engines of either architecture: instructions from their fields, and values of
// configuration fields in their places. It is generated from the tables of the emulator.
//
//	w, err := isa.MVMUL{Dst: 8, Mode: 1}.Encode(chip.Blackhole)
package isa

import (
	"fmt"
	"iter"

	"github.com/reprise-tt/reprise/chip"
)

// Instruction is an instruction with the values of its fields. The types of this package that are named after opcodes are
// instructions.
type Instruction interface {
	// Encode returns the instruction's word. It is an error if a value doesn't fit its field, if the architecture doesn't
	// have a field that isn't 0, or doesn't have the instruction.
	Encode(chip.Arch) (uint32, error)
}

// bits is where a field is; its width is 0 if the architecture doesn't have it.
type bits struct{ word, low, width uint8 }

// operand is a field of an instruction, on Wormhole and Blackhole.
type operand struct {
	name string
	at   [2]bits
}

// index is the place of an architecture in the tables.
func index(a chip.Arch) int {
	if a == chip.Blackhole {
		return 1
	}
	return 0
}

// place returns a value in its field.
func (b bits) place(v uint32) (uint32, error) {
	switch {
	case v == 0:
		return 0, nil
	case b.width == 0:
		return 0, fmt.Errorf("%#x: the architecture doesn't have this field", v)
	case v > b.largest():
		return 0, fmt.Errorf("%#x: the field has %d bits", v, b.width)
	}
	return v << b.low, nil
}

func (b bits) largest() uint32 { return 1<<b.width - 1 }

// encode returns the word of an instruction.
func encode(a chip.Arch, opcode byte, name string, operands []operand, values ...uint32) (uint32, error) {
	w := uint32(opcode) << 24
	for i, o := range operands {
		v, err := o.at[index(a)].place(values[i])
		if err != nil {
			return 0, fmt.Errorf("isa: %s on %v: %s = %w", name, a, o.name, err)
		}
		w |= v
	}
	return w, nil
}

// Config is a field of the configuration that all threads share. Elements of an array follow the first: PackOut + 1.
type Config uint8

// Thread is a field of a thread's own configuration, which SETC16 sets.
type Thread uint8

// Place returns the word that has the field, and a value in its place there. It is an error if the value doesn't fit or if
// the architecture doesn't have the field.
func (c Config) Place(a chip.Arch, v uint32) (word, value uint32, err error) {
	return configPlaces[index(a)][c].field(a, fmt.Sprintf("field %d of the configuration", c), v)
}

// Place returns the word that has the field, and a value in its place there, as [Config.Place] does.
func (t Thread) Place(a chip.Arch, v uint32) (word, value uint32, err error) {
	return threadPlaces[index(a)][t].field(a, fmt.Sprintf("field %d of a thread's configuration", t), v)
}

// Mask returns the bits that the field has in its word; 0 if the architecture doesn't have it.
func (c Config) Mask(a chip.Arch) uint32 {
	b := configPlaces[index(a)][c]
	return b.largest() << b.low
}

// Configs iterates over the fields that an architecture has, each element of an array by itself.
func Configs(a chip.Arch) iter.Seq[Config] {
	return func(yield func(Config) bool) {
		for c := range Config(numConfig) {
			if configPlaces[index(a)][c].width != 0 && !yield(c) {
				return
			}
		}
	}
}

func (b bits) field(a chip.Arch, name string, v uint32) (word, value uint32, err error) {
	if b.width == 0 {
		return 0, 0, fmt.Errorf("isa: %v doesn't have %s", a, name)
	}
	if value, err = b.place(v); err != nil {
		return 0, 0, fmt.Errorf("isa: %s on %v: %w", name, a, err)
	}
	return uint32(b.word), value, nil
}
