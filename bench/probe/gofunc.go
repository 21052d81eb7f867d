package probe

import (
	"debug/elf"
	"debug/gosym"
	"fmt"
	"io"
)

// goFunction returns the offset in a Go program's file at which a function begins. It reads the table that Go's runtime
// itself needs, which is also there in programs without a symbol table.
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
	t, err := gosym.NewTable(nil, gosym.NewLineTable(data, text.Addr))
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
