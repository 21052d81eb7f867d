package main

import (
	"bytes"
	"fmt"
	"strings"
)

// The tables of package isa: instructions as types, and where fields of the configuration are.

// instructionTypes returns a type for each instruction.
func instructionTypes(lines []string) ([]byte, error) {
	var b bytes.Buffer
	b.WriteString("import (\n\"fmt\"\n\n\"github.com/reprise-tt/reprise/chip\"\n)\n")
	for _, l := range lines {
		in, err := parseInstruction(l)
		if err != nil {
			return nil, err
		}
		if !in.unsupported {
			in.writeType(&b)
		}
	}
	return b.Bytes(), nil
}

func (i *instruction) writeType(b *bytes.Buffer) {
	name := strings.ReplaceAll(i.name, "_", "")
	var fields, values []string
	for _, o := range i.fields {
		fields = append(fields, title(o.name))
		values = append(values, "i."+title(o.name))
	}
	fmt.Fprintf(b, "\n// %s is the instruction %s", name, i.name)
	if i.blackholeOnly {
		fmt.Fprint(b, " of Blackhole")
	}
	fmt.Fprint(b, ".\ntype "+name+" struct{")
	if len(fields) > 0 {
		fmt.Fprintf(b, " %s uint32 ", strings.Join(fields, ", "))
	}
	fmt.Fprintf(b, "}\n\n// Encode implements [Instruction].\nfunc (i %s) Encode(a chip.Arch) (uint32, error) {\n", name)
	if i.blackholeOnly {
		fmt.Fprintf(b, "if a != chip.Blackhole {\nreturn 0, fmt.Errorf(\"isa: %%v doesn't have %s\", a)\n}\n", i.name)
	}
	operands := "nil"
	if len(i.fields) > 0 {
		operands = "operands" + name + "[:]"
	}
	fmt.Fprintf(b, "return encode(%s)\n}\n", strings.Join(append([]string{"a", fmt.Sprintf("%#02x", i.opcode), fmt.Sprintf("%q", i.name),
		operands}, values...), ", "))
	if len(i.fields) == 0 {
		return
	}
	fmt.Fprintf(b, "\nvar operands%s = [...]operand{\n", name)
	for _, o := range i.fields {
		fmt.Fprintf(b, "{%q, [2]bits{%s, %s}},\n", o.name, o.place[0].bits(), o.place[1].bits())
	}
	fmt.Fprint(b, "}\n")
}

// bits returns the literal of a place.
func (p place) bits() string {
	if p.none {
		return "{}"
	}
	return fmt.Sprintf("{%d, %d, %d}", p.word, p.low, p.high-p.low+1)
}

// fieldTypes returns constants for the fields of both kinds of configuration, and their places.
func fieldTypes(lines []string) ([]byte, error) {
	var fields [2][]field
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
	var b bytes.Buffer
	writeFieldTypes(&b, "Config", "", "Fields of the configuration that all threads share, with the vendor's names.", fields[0])
	writeFieldTypes(&b, "Thread", "Thread", "Fields of a thread's configuration, with the vendor's names.", fields[1])
	return b.Bytes(), nil
}

func writeFieldTypes(b *bytes.Buffer, kind, prefix, says string, list []field) {
	fmt.Fprintf(b, "\n// %s\nconst (\n", says)
	next := 0
	for _, f := range list {
		fmt.Fprintf(b, "%s%s %s = %d // %s\n", prefix, title(f.name), kind, next, f.vendor)
		next += len(f.place[0])
	}
	fmt.Fprintf(b, "\nnum%s = %d\n)\n\nvar %sPlaces = [2][num%s]bits{\n", kind, next, strings.ToLower(kind), kind)
	for arch := range 2 {
		fmt.Fprintln(b, "{")
		for _, f := range list {
			fmt.Fprintf(b, "%s%s: ", prefix, title(f.name))
			for _, p := range f.place[arch] {
				fmt.Fprintf(b, "%s, ", p.bits())
			}
			fmt.Fprintln(b)
		}
		fmt.Fprintln(b, "},")
	}
	fmt.Fprintln(b, "}")
}
