package main

import (
	"bytes"
	"debug/elf"
	"errors"
	"fmt"
	"io"
)

func flatten(file []byte) ([]byte, error) {
	f, err := elf.NewFile(bytes.NewReader(file))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var image []byte
	for _, p := range f.Progs {
		if p.Type != elf.PT_LOAD || p.Memsz == 0 {
			continue
		}
		if image != nil {
			return nil, errors.New("more than one loaded segment: code and constants must be one")
		}
		if p.Vaddr != f.Entry {
			return nil, fmt.Errorf("entry %#x is not the first byte %#x", f.Entry, p.Vaddr)
		}
		if p.Filesz != p.Memsz {
			return nil, fmt.Errorf("%d bytes of the segment are not in the file", p.Memsz-p.Filesz)
		}
		image = make([]byte, p.Filesz)
		if _, err := io.ReadFull(p.Open(), image); err != nil {
			return nil, err
		}
	}
	if image == nil {
		return nil, errors.New("nothing to load")
	}
	return image, nil
}
