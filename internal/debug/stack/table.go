package stack

import (
	"cmp"
	"encoding/binary"
	"slices"
)

// A table is a compact form of debug information with functions, files and lines only. For each
// range of code it has the function and those inlined there, in a few bytes for each line:
//
//	strings   count, and each with its length
//	symbols   count, and for each: start as the difference to the last one's end, size, name
//	places    count, and for each: the place that it is inlined in plus one or 0, function, file, line
//	rows      count, and for each: bytes of code, place plus one or 0
//
// All numbers are uvarints. Strings and places are referred to by index; addresses are relative to
// the text.
type table struct {
	places []tablePlace
	rows   []tableRow
}

type tablePlace struct {
	outer          int
	function, file string
	line           int
}

type tableRow struct {
	start uint32 // address of the file
	place int
}

// AppendTable appends the module's table of functions, files and lines, without arguments, for
// LoadTable.
func (m *Module) AppendTable(b []byte) []byte {
	names, places := map[string]int{}, map[tablePlace]int{}
	var strings []string
	var list []tablePlace
	name := func(s string) uint64 {
		i, ok := names[s]
		if !ok {
			i, names[s] = len(strings), len(strings)
			strings = append(strings, s)
		}
		return uint64(i)
	}
	type row struct{ size, place int }
	var rows []row
	base := m.Start - m.bias
	for off := 0; off < len(m.text); off += 4 {
		frames := m.frames(base+uint32(off), &context{mem: noMemory})
		at := -1
		for _, f := range slices.Backward(frames) {
			if _, known := m.symbolAt(base + uint32(off)); !known {
				break
			}
			p := tablePlace{at, f.Function, f.File, f.Line}
			i, ok := places[p]
			if !ok {
				i, places[p] = len(list), len(list)
				list = append(list, p)
			}
			at = i
		}
		if n := len(rows); n > 0 && rows[n-1].place == at {
			rows[n-1].size += 4
		} else {
			rows = append(rows, row{4, at})
		}
	}
	put := func(b []byte, v ...uint64) []byte {
		for _, v := range v {
			b = binary.AppendUvarint(b, v)
		}
		return b
	}
	var rest []byte
	end, count := base, 0
	var symbols []byte
	for _, s := range m.symbols {
		if s.start < end || s.end > base+uint32(len(m.text)) || s.end <= s.start { // or another name of the same code
			continue
		}
		symbols = put(symbols, uint64(s.start-end), uint64(s.end-s.start), name(s.name))
		end, count = s.end, count+1
	}
	rest = append(put(rest, uint64(count)), symbols...)
	rest = put(rest, uint64(len(list)))
	for _, p := range list {
		rest = put(rest, uint64(p.outer+1), name(p.function), name(p.file), uint64(p.line))
	}
	rest = put(rest, uint64(len(rows)))
	for _, r := range rows {
		rest = put(rest, uint64(r.size), uint64(r.place+1))
	}
	b = put(b, uint64(len(strings)))
	for _, s := range strings {
		b = append(put(b, uint64(len(s))), s...)
	}
	return append(b, rest...)
}

// LoadTable returns a program of a text at an address and a table of AppendTable. The error wraps
// ErrFile. The module keeps using the text.
func LoadTable(name string, data, text []byte, at uint32) (*Module, error) {
	m := &Module{Name: name, Start: at, End: at + uint32(len(text)), bias: at, text: text, debug: ErrNoDWARF}
	b := buffer{p: data}
	fail := badFile(name, "table of lines: ")
	count := func() int { return int(min(b.uleb(), uint64(len(b.p)))) } // each takes a byte at least
	strings := make([]string, count())
	for i := range strings {
		strings[i] = string(b.block())
	}
	text32 := func() string {
		if i := b.uleb(); i < uint64(len(strings)) {
			return strings[i]
		}
		b.bad = true
		return ""
	}
	number := func(most int) int {
		v := b.uleb()
		if v > uint64(most) {
			b.bad = true
			return 0
		}
		return int(v)
	}
	end := 0
	for range count() {
		start := end + number(len(text)-end)
		end = start + number(len(text)-start)
		m.symbols = append(m.symbols, symbol{uint32(start), uint32(end), text32()})
	}
	t := &table{}
	for i := range count() {
		t.places = append(t.places, tablePlace{number(i) - 1, text32(), text32(), number(1 << 30)})
	}
	off := 0
	for range count() {
		start := off
		off += number(len(text) - off)
		t.rows = append(t.rows, tableRow{uint32(start), number(len(t.places)) - 1})
	}
	if b.bad {
		return fail("it ends too early, or has a number without meaning")
	}
	if len(b.p) > 0 || off != len(text) {
		return fail("it has %d bytes more and is of %d bytes of text, not of %d", len(b.p), off, len(text))
	}
	m.table = t
	return m, nil
}

func (t *table) frames(module string, at uint32) (out []Frame) {
	i, _ := slices.BinarySearchFunc(t.rows, at+1, func(r tableRow, at uint32) int { return cmp.Compare(r.start, at) })
	if i == 0 {
		return nil
	}
	for p := t.rows[i-1].place; p >= 0; p = t.places[p].outer {
		place := &t.places[p]
		out = append(out, Frame{Module: module, Function: place.function, File: place.file, Line: place.line, Inlined: place.outer >= 0})
	}
	return out
}
