// Package isa encodes instructions of the Tensix engines of either architecture, and values of
// configuration fields.
//
//	w, err := isa.Encode(chip.Blackhole, "MVMUL", map[string]uint32{"Dst": 8, "Mode": 1})
package isa

import (
	"fmt"
	"iter"
	"math/bits"
	"strings"
	"sync"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/sim/emu/tensix/internal/tables"
)

// Field is the bits of Mask in a word, from bit Shift on. Mask is 0 if the architecture lacks the
// field.
type Field = tables.Field

func index(a chip.Arch) int {
	if a == chip.Blackhole {
		return 1
	}
	return 0
}

func place(f Field, v uint32) (uint32, error) {
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

var instructions = sync.OnceValue(func() map[string]tables.Instruction {
	m := make(map[string]tables.Instruction)
	for _, in := range tables.Instructions() {
		m[strings.ReplaceAll(in.Name, "_", "")] = in
	}
	return m
})

// Encode returns the word of an instruction, by the name of its opcode without underscores, with
// values by the names of its fields. Fields without a value are 0. It fails if a value doesn't fit
// its field, or if the architecture lacks the instruction or a field that isn't 0.
func Encode(a chip.Arch, name string, values map[string]uint32) (uint32, error) {
	t, ok := instructions()[name]
	if !ok {
		return 0, fmt.Errorf("isa: %s is no instruction", name)
	}
	if t.BlackholeOnly && a != chip.Blackhole {
		return 0, fmt.Errorf("isa: %v doesn't have %s", a, t.Name)
	}
	w, used := uint32(t.Opcode)<<24, 0
	for _, o := range t.Operands {
		v, ok := values[strings.ToUpper(o.Name[:1])+o.Name[1:]]
		if ok {
			used++
		}
		v, err := place(o.Places[index(a)], v)
		if err != nil {
			return 0, fmt.Errorf("isa: %s on %v: %s = %w", t.Name, a, o.Name, err)
		}
		w |= v
	}
	if used < len(values) {
		return 0, fmt.Errorf("isa: %s doesn't have all fields of %v", name, values)
	}
	return w, nil
}

// Config is a field of the configuration that all threads share. An array's elements follow the
// first: PackOut + 1.
type Config uint8

// Thread is a field of a thread's own configuration, which SETC16 sets.
type Thread uint8

// ConfigNamed returns the field that the constant of a name is.
func ConfigNamed(name string) (Config, bool) {
	i := indexNamed(tables.Config().Config, name)
	return Config(i), i >= 0
}

// ThreadNamed is [ConfigNamed] for a field of a thread.
func ThreadNamed(name string) (Thread, bool) {
	name, ok := strings.CutPrefix(name, "Thread")
	i := indexNamed(tables.Config().Thread, name)
	return Thread(i), ok && i >= 0
}

func indexNamed(list []tables.Array, name string) (i int) {
	for _, a := range list {
		if strings.ToUpper(a.Name[:1])+a.Name[1:] == name {
			return i
		}
		i += len(a.Places[0])
	}
	return -1
}

// Place returns the index of the field's word, and v in its place there. It fails if v doesn't fit
// or if the architecture lacks the field.
func (c Config) Place(a chip.Arch, v uint32) (word, value uint32, err error) {
	return inWord(a, c.field(a), fmt.Sprintf("field %d of the configuration", c), v)
}

// Place is [Config.Place] for a field of a thread.
func (t Thread) Place(a chip.Arch, v uint32) (word, value uint32, err error) {
	return inWord(a, fields()[index(a)].thread[t], fmt.Sprintf("field %d of a thread's configuration", t), v)
}

// Mask returns the field's bits in its word; 0 if the architecture lacks the field.
func (c Config) Mask(a chip.Arch) uint32 {
	f := c.field(a)
	return f.Mask << f.Shift
}

func (c Config) field(a chip.Arch) Field { return fields()[index(a)].config[c] }

type archFields struct {
	config [NumConfig]Field
	thread [NumThread]Field
}

var fields = sync.OnceValue(func() (f [2]*archFields) {
	for i := range f {
		f[i] = new(archFields)
		fill(f[i].config[:], tables.Config().Config, i)
		fill(f[i].thread[:], tables.Config().Thread, i)
	}
	return f
})

func fill(to []Field, list []tables.Array, arch int) {
	for _, a := range list {
		to = to[copy(to, a.Places[arch]):]
	}
}

// Fields returns the fields of both kinds of configuration. The caller must not change them.
func Fields(a chip.Arch) (config *[NumConfig]Field, thread *[NumThread]Field) {
	f := fields()[index(a)]
	return &f.config, &f.thread
}

// Configs iterates over an architecture's fields, each element of an array by itself.
func Configs(a chip.Arch) iter.Seq[Config] {
	return func(yield func(Config) bool) {
		for c := range Config(NumConfig) {
			if c.field(a).Mask != 0 && !yield(c) {
				return
			}
		}
	}
}

func inWord(a chip.Arch, f Field, name string, v uint32) (word, value uint32, err error) {
	if f.Mask == 0 {
		return 0, 0, fmt.Errorf("isa: %v doesn't have %s", a, name)
	}
	if value, err = place(f, v); err != nil {
		return 0, 0, fmt.Errorf("isa: %s on %v: %w", name, a, err)
	}
	return uint32(f.Word), value, nil
}
