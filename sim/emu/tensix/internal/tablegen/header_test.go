package tablegen

import (
	"bytes"
	"fmt"
	"math/bits"
	"slices"
	"strings"
	"unicode"

	"github.com/reprise-tt/reprise/sim/emu/tensix/internal/tables"
)

// Headers of kernels: macros that make instruction words, and places of configuration fields.
// kernels/include/reprise/tensix.h has what they are made of.

var archMacros = [2]string{"REPRISE_WORMHOLE", "REPRISE_BLACKHOLE"}

func instructionHeader(b *bytes.Buffer) {
	b.WriteString(`// Instructions of the Tensix engines: RP_OP_NAME makes the word of instruction NAME from its fields, whose names and
// order are those of the table. A field that the architecture doesn't have must be 0. Constants that don't fit
// their field don't compile; values known only at run time are not checked.
//
// Included by reprise/tensix.h, which says how a word is executed.
#ifndef REPRISE_TENSIX_INSTRUCTIONS_H
#define REPRISE_TENSIX_INSTRUCTIONS_H

`)
	for _, in := range supported() {
		differ := slices.ContainsFunc(in.Operands, func(o tables.Operand) bool { return o.Places[0] != o.Places[1] })
		switch {
		case in.BlackholeOnly:
			fmt.Fprintf(b, "#if defined(%s)\n%s#endif\n", archMacros[1], macro(&in, 1))
		case differ:
			fmt.Fprintf(b, "#if defined(%s)\n%s#else\n%s#endif\n", archMacros[0], macro(&in, 0), macro(&in, 1))
		default:
			b.WriteString(macro(&in, 0))
		}
	}
	b.WriteString("\n#endif\n")
}

func macro(in *tables.Instruction, arch int) string {
	word := fmt.Sprintf("0x%02X000000u", in.Opcode)
	if len(in.Operands) == 0 {
		return fmt.Sprintf("#define RP_OP_%s %s\n", in.Name, word)
	}
	var names []string
	line, b := "    ("+word, new(strings.Builder)
	for _, o := range in.Operands {
		name := snake(o.Name)
		names = append(names, name)
		part := fmt.Sprintf("RP_TENSIX_ABSENT(%s)", name)
		if p := o.Places[arch]; p.Mask != 0 {
			part = fmt.Sprintf("RP_TENSIX_BITS(%s, %d, %d)", name, p.Shift, width(p))
		}
		if sep := " | "; len(line+sep+part) > 111 {
			fmt.Fprintf(b, " \\\n%s |", line)
			line = "     " + part
		} else {
			line += sep + part
		}
	}
	return fmt.Sprintf("#define RP_OP_%s(%s)%s \\\n%s)\n", in.Name, strings.Join(names, ", "), b, line)
}

func width(f tables.Field) int { return bits.Len32(f.Mask) }

func snake(s string) string {
	r := []rune(s)
	var b strings.Builder
	for i, c := range r {
		if i > 0 && unicode.IsUpper(c) {
			next := i+1 < len(r) && unicode.IsLower(r[i+1])
			word := i+1 < len(r) && unicode.IsLetter(r[i+1])
			if p := r[i-1]; unicode.IsLower(p) || unicode.IsUpper(p) && next || unicode.IsDigit(p) && word {
				b.WriteByte('_')
			}
		}
		b.WriteRune(unicode.ToLower(c))
	}
	return b.String()
}

func registerHeader(b *bytes.Buffer) {
	b.WriteString(`// Configuration of the Tensix engines: where fields are, for RP_FIELD and the macros on fields in reprise/tensix.h, which
// includes this file. RP_CFG fields are in words that all threads share, RP_THREAD fields in those that each thread has of
// its own. Beside each is the vendor's name; of an array, (i), that of element 0. Fields that an architecture doesn't
// have are not defined.
#ifndef REPRISE_TENSIX_REGISTERS_H
#define REPRISE_TENSIX_REGISTERS_H

`)
	for arch, macro := range archMacros {
		fmt.Fprintf(b, "#if defined(%s)\n", macro)
		for _, a := range tables.Config().Config {
			writePlaces(b, &a, "RP_CFG_", arch)
		}
		for _, a := range tables.Config().Thread {
			writePlaces(b, &a, "RP_THREAD_", arch)
		}
		b.WriteString("#endif\n\n")
	}
	b.WriteString("#endif\n")
}

func writePlaces(b *bytes.Buffer, a *tables.Array, prefix string, arch int) {
	places := a.Places[arch]
	for len(places) > 0 && places[len(places)-1].Mask == 0 {
		places = places[:len(places)-1]
	}
	if len(places) == 0 {
		return
	}
	name, value := prefix+strings.ToUpper(snake(a.Name)), placeMacro(places[0])
	if len(a.Places[0]) > 1 {
		name += "(i)"
		if step, ok := even(places); ok {
			value += fmt.Sprintf(" + RP_TENSIX_INDEX(i, %d) * %du", len(places), step)
		} else {
			value = choice(places)
		}
		value = "(" + value + ")"
	}
	fmt.Fprintf(b, "#define %s %s  // %s\n", name, value, a.Vendor)
}

func placeMacro(f tables.Field) string {
	return fmt.Sprintf("RP_TENSIX_PLACE(%d, %d, %d)", f.Word, f.Shift, width(f))
}

// even returns the distance in bits between an array's elements, if it is constant and all have one
// width.
func even(places []tables.Field) (step int, ok bool) {
	at := func(f tables.Field) int { return 32*int(f.Word) + int(f.Shift) }
	if len(places) > 1 {
		step = at(places[1]) - at(places[0])
	}
	for i, p := range places {
		if p.Mask != places[0].Mask || at(p) != at(places[0])+i*step {
			return 0, false
		}
	}
	return step, true
}

// choice returns the expression for element i of an array of at most four scattered elements.
func choice(places []tables.Field) string {
	s := "RP_TENSIX_PICK(i"
	for i := range 4 {
		if i < len(places) && places[i].Mask != 0 {
			s += ", " + placeMacro(places[i])
		} else {
			s += ", RP_TENSIX_ABSENT(1)"
		}
	}
	return s + ")"
}
