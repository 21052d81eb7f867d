package main

import (
	"bytes"
	"fmt"
	"strings"
	"unicode"
)

// Headers of kernels: macros that make instruction words, and places of configuration fields.
// kernels/include/reprise/tensix.h has what they are made of.

var archMacros = [2]string{"REPRISE_WORMHOLE", "REPRISE_BLACKHOLE"}

func instructionHeader(lines []string) ([]byte, error) {
	var b bytes.Buffer
	b.WriteString(`// Instructions of the Tensix engines: RP_OP_NAME makes the word of instruction NAME from its fields, whose names and
// order are those of the table. A field that the architecture doesn't have must be 0. Constants that don't fit
// their field don't compile; values known only at run time are not checked.
//
// Included by reprise/tensix.h, which says how a word is executed.
#ifndef REPRISE_TENSIX_INSTRUCTIONS_H
#define REPRISE_TENSIX_INSTRUCTIONS_H

`)
	for _, l := range lines {
		in, err := parseInstruction(l)
		if err != nil {
			return nil, err
		}
		if !in.unsupported {
			in.writeMacros(&b)
		}
	}
	b.WriteString("\n#endif\n")
	return b.Bytes(), nil
}

func (i *instruction) writeMacros(b *bytes.Buffer) {
	switch {
	case i.blackholeOnly:
		fmt.Fprintf(b, "#if defined(%s)\n", archMacros[1])
		i.writeMacro(b, 1)
		b.WriteString("#endif\n")
	case i.differs():
		fmt.Fprintf(b, "#if defined(%s)\n", archMacros[0])
		i.writeMacro(b, 0)
		b.WriteString("#else\n")
		i.writeMacro(b, 1)
		b.WriteString("#endif\n")
	default:
		i.writeMacro(b, 0)
	}
}

func (i *instruction) differs() bool {
	for _, o := range i.fields {
		if o.place[0] != o.place[1] {
			return true
		}
	}
	return false
}

func (i *instruction) writeMacro(b *bytes.Buffer, arch int) {
	head := fmt.Sprintf("#define RP_OP_%s", i.name)
	word := fmt.Sprintf("0x%02X000000u", i.opcode)
	if len(i.fields) == 0 {
		fmt.Fprintf(b, "%s %s\n", head, word)
		return
	}
	var names []string
	parts := []string{word}
	for _, o := range i.fields {
		name := snake(o.name)
		names = append(names, name)
		if p := o.place[arch]; p.none {
			parts = append(parts, fmt.Sprintf("RP_TENSIX_ABSENT(%s)", name))
		} else {
			parts = append(parts, fmt.Sprintf("RP_TENSIX_BITS(%s, %d, %d)", name, p.low, p.high-p.low+1))
		}
	}
	fmt.Fprintf(b, "%s(%s)", head, strings.Join(names, ", "))
	line := "    ("
	for n, p := range parts {
		switch {
		case n > 0 && len(line)+len(p) > 108:
			fmt.Fprintf(b, " \\\n%s |", line)
			line = "     "
		case n > 0:
			line += " | "
		}
		line += p
	}
	fmt.Fprintf(b, " \\\n%s)\n", line)
}

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

// registerHeader returns the places of the fields of both kinds of configuration.
func registerHeader(lines []string) ([]byte, error) {
	var b bytes.Buffer
	b.WriteString(`// Configuration of the Tensix engines: where fields are, for RP_FIELD and the macros on fields in reprise/tensix.h, which
// includes this file. RP_CFG fields are in words that all threads share, RP_THREAD fields in those that each thread has of
// its own. Beside each is the vendor's name; of an array, (i), that of element 0. Fields that an architecture doesn't
// have are not defined.
#ifndef REPRISE_TENSIX_REGISTERS_H
#define REPRISE_TENSIX_REGISTERS_H

`)
	var fields [2][]field // config, thread
	for _, l := range lines {
		columns := strings.Fields(l)
		kind := 0
		switch columns[0] {
		case "thread":
			kind = 1
		case "config":
		default:
			continue
		}
		f, err := parseField(columns)
		if err != nil {
			return nil, err
		}
		fields[kind] = append(fields[kind], f)
	}
	for arch, macro := range archMacros {
		fmt.Fprintf(&b, "#if defined(%s)\n", macro)
		for kind, prefix := range []string{"RP_CFG_", "RP_THREAD_"} {
			for i := range fields[kind] {
				fields[kind][i].writePlaces(&b, prefix, arch)
			}
		}
		b.WriteString("#endif\n\n")
	}
	b.WriteString("#endif\n")
	return b.Bytes(), nil
}

func (f *field) writePlaces(b *bytes.Buffer, prefix string, arch int) {
	places := f.present(arch)
	if len(places) == 0 {
		return
	}
	name, value := prefix+strings.ToUpper(snake(f.name)), places[0].macro()
	if len(f.place[0]) > 1 {
		name += "(i)"
		if step, ok := even(places); ok {
			value += fmt.Sprintf(" + RP_TENSIX_INDEX(i, %d) * %du", len(places), step)
		} else {
			value = choice(places)
		}
		value = "(" + value + ")"
	}
	fmt.Fprintf(b, "#define %s %s  // %s\n", name, value, f.vendor)
}

// present returns the places of an array up to the last that the architecture has.
func (f *field) present(arch int) []place {
	places := f.place[arch]
	for len(places) > 0 && places[len(places)-1].none {
		places = places[:len(places)-1]
	}
	return places
}

func (p place) macro() string {
	return fmt.Sprintf("RP_TENSIX_PLACE(%d, %d, %d)", p.word, p.low, p.high-p.low+1)
}

// even returns the distance in bits between an array's elements, if it is constant and all have one
// width.
func even(places []place) (step int, ok bool) {
	at := func(p place) int { return 32*p.word + p.low }
	if len(places) > 1 {
		step = at(places[1]) - at(places[0])
	}
	for i, p := range places {
		if p.none || p.high-p.low != places[0].high-places[0].low || at(p) != at(places[0])+i*step {
			return 0, false
		}
	}
	return step, true
}

// choice returns the expression for element i of an array of at most four scattered elements.
func choice(places []place) string {
	s := "RP_TENSIX_PICK(i"
	for i := range 4 {
		if i < len(places) && !places[i].none {
			s += ", " + places[i].macro()
		} else {
			s += ", RP_TENSIX_ABSENT(1)"
		}
	}
	return s + ")"
}
