package main

import (
	"bytes"
	"fmt"
	"strings"
)

// The tables of package isa: instructions as types, and where fields of the configuration are.

// instructionTypes returns a type for each instruction, which knows its line of the table.
func instructionTypes(lines []string) ([]byte, error) {
	var types, methods bytes.Buffer
	for _, l := range lines {
		in, err := parseInstruction(l)
		if err != nil {
			return nil, err
		}
		if in.unsupported {
			continue
		}
		name := strings.ReplaceAll(in.name, "_", "")
		var fields []string
		for _, o := range in.fields {
			fields = append(fields, title(o.name))
		}
		if len(fields) > 0 {
			fields[len(fields)-1] += " uint32"
		}
		fmt.Fprintf(&types, "%s struct{%s}\n", name, strings.Join(fields, ", "))
		fmt.Fprintf(&methods, "\n// Encode implements [Instruction].\nfunc (i %s) Encode(a chip.Arch) (uint32, error) {\n\treturn encode(a, i, `%s`)\n}\n",
			name, wrapped(l))
	}
	return fmt.Appendf(nil, "import \"github.com/reprise-tt/reprise/chip\"\n\n// The instructions.\ntype (\n%s)\n%s", &types, &methods), nil
}

// wrapped returns a line with one space between its words, in lines of at most 100 characters.
func wrapped(l string) string {
	var b strings.Builder
	n := 0
	for i, w := range strings.Fields(l) {
		if n += len(w) + 1; n > 100 {
			b.WriteString("\n\t\t")
			n = len(w)
		} else if i > 0 {
			b.WriteByte(' ')
		}
		b.WriteString(w)
	}
	return b.String()
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
	fmt.Fprintf(b, "\n// Num%s is how many there are, each element of an array by itself.\nNum%s = %d\n)\n\n", kind, kind, next)
	fmt.Fprintf(b, "var %sPlaces = [2][Num%s]Field{\n", strings.ToLower(kind), kind)
	for arch := range 2 {
		fmt.Fprintln(b, "{")
		for _, f := range list {
			fmt.Fprintf(b, "%s%s: ", prefix, title(f.name))
			for _, p := range f.place[arch] {
				fmt.Fprintf(b, "{%d, %d, %#x}, ", p.word, p.low, p.mask())
			}
			fmt.Fprintln(b)
		}
		fmt.Fprintln(b, "},")
	}
	fmt.Fprintln(b, "}")
}
