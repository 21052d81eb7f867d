package probe

import (
	"debug/elf"
	"debug/gosym"
	"fmt"
	"io"
)

// goFunction finds a function's offset by the runtime's table, which stripped programs have too.
func goFunction(program io.ReaderAt, name string) (uint64, error) {
	f, err := elf.NewFile(program)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	text := f.Section(".text")
	table := f.Section(".gopclntab")
	if table == nil {
		table = f.Section(".data.rel.ro.gopclntab") // of a position-independent program
	}
	if text == nil || table == nil {
		return 0, fmt.Errorf("%s: %w: it isn't a Go program, or not one built by the usual linker", name, ErrMissing)
	}
	data, err := table.Data()
	if err != nil {
		return 0, err
	}
	start, err := goText(f, text, table.Addr, data)
	if err != nil {
		return 0, fmt.Errorf("%s: %w", name, err)
	}
	t, err := gosym.NewTable(nil, gosym.NewLineTable(data, start))
	if err != nil {
		return 0, err
	}
	fn := t.LookupFunc(name)
	if fn == nil {
		return 0, fmt.Errorf("%s: %w: the program doesn't call it", name, ErrMissing)
	}
	for _, p := range f.Progs {
		if p.Type == elf.PT_LOAD && p.Vaddr <= fn.Entry && fn.Entry < p.Vaddr+p.Filesz {
			return fn.Entry - p.Vaddr + p.Off, nil
		}
	}
	return 0, fmt.Errorf("%s: at %#x, where the program's file has nothing", name, fn.Entry)
}

// goText returns the start of Go's code. A C linker may put C code in front.
func goText(f *elf.File, text *elf.Section, tableAddr uint64, table []byte) (uint64, error) {
	inside := func(a uint64) bool { return text.Addr <= a && a < text.Addr+text.Size }
	word := func(p []byte, n int) uint64 { // the n-th of the target's words
		if f.Class == elf.ELFCLASS64 && len(p) >= 8*n+8 {
			return f.ByteOrder.Uint64(p[8*n:])
		}
		return 0
	}
	// Since Go 1.26 runtime.moduledata has a section: first the table's address, and the text's as
	// word 22 (src/runtime/symtab.go).
	if s := f.Section(".go.module"); s != nil {
		if m, err := s.Data(); err == nil && word(m, 0) == tableAddr && inside(word(m, 22)) {
			return word(m, 22), nil
		}
	}
	if all, err := f.Symbols(); err == nil { // a stripped program has none
		for _, s := range all {
			if s.Name == "runtime.text" && inside(s.Value) {
				return s.Value, nil
			}
		}
	}
	// Go 1.18 to 1.25 have the text's address in the table's header, after flags and two counts.
	if a := word(table, 3); inside(a) {
		return a, nil
	}
	if f.Section(".init") == nil {
		return text.Addr, nil // Go's own linker puts nothing in front
	}
	return 0, fmt.Errorf("%w: a C linker made the program, and what says where its Go code begins was stripped", ErrMissing)
}
