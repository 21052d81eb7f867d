package main

import (
	"bytes"
	"fmt"
	"strings"
)

// Tables of package isa.

// instructionTypes returns a type for each instruction, and its Encode method.
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
		var fields, places []string
		for _, w := range strings.Fields(l)[2:] {
			if field, bits, ok := strings.Cut(w, "="); ok {
				fields = append(fields, title(field))
				w = bits
			}
			places = append(places, w)
		}
		if len(fields) > 0 {
			fields[len(fields)-1] += " uint32"
		}
		fmt.Fprintf(&types, "%s struct{%s}\n", name, strings.Join(fields, ", "))
		fmt.Fprintf(&methods, "func (i %s) Encode(a chip.Arch) (uint32, error) { return encode(a, i, %#02x, %q) }\n",
			name, in.opcode, strings.Join(places, " "))
	}
	return fmt.Appendf(nil, "import \"github.com/reprise-tt/reprise/chip\"\n\n// The instructions.\ntype (\n%s)\n\n%s", &types, &methods), nil
}

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
	fmt.Fprintf(b, "// %sPlaces leaves out what an architecture doesn't have.\nvar %[1]sPlaces = [2][Num%s]Field{\n", strings.ToLower(kind), kind)
	for arch := range 2 {
		fmt.Fprintln(b, "{")
		for _, f := range list {
			places := f.present(arch)
			if len(places) == 0 {
				continue
			}
			fmt.Fprintf(b, "%s%s: ", prefix, title(f.name))
			for _, p := range places {
				if p.none {
					fmt.Fprint(b, "{}, ")
				} else {
					fmt.Fprintf(b, "{%d, %d, %s}, ", p.word, p.low, hex(p.mask()))
				}
			}
			fmt.Fprintln(b)
		}
		fmt.Fprintln(b, "},")
	}
	fmt.Fprintln(b, "}")
}
