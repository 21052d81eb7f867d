package metal

import (
	"bytes"
	"debug/elf"
	"errors"
	"fmt"
	"io/fs"
)

// movedSuffix is that of the position-independent copy of a kernel that tt-metal keeps
// (tt_metal/llrt/tt_elffile.cpp, XIPify; build.cpp).
const movedSuffix = ".xip.elf"

// Text returns the instructions of a kernel or base firmware as tt-metal loads them, from the
// rewritten copy beside the file if there is one, and their linked address. The error wraps one of
// package io/fs, or [errors.ErrUnsupported] for a file without executable segment.
func Text(path string) (text []byte, linked uint32, err error) {
	text, linked, err = executable(path)
	if err != nil {
		return nil, 0, err
	}
	moved, _, err := executable(path + movedSuffix)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return text, linked, nil
	case err != nil:
		return nil, 0, err
	}
	return moved, linked, nil
}

func executable(path string) ([]byte, uint32, error) {
	file, err := readFile(path)
	if err != nil {
		return nil, 0, fmt.Errorf("metal: %w", err)
	}
	e, err := elf.NewFile(bytes.NewReader(file))
	if err != nil {
		return nil, 0, fmt.Errorf("metal: %s: %w: %w", path, errors.ErrUnsupported, err)
	}
	for _, p := range e.Progs {
		if p.Type != elf.PT_LOAD || p.Flags&elf.PF_X == 0 || p.Filesz == 0 || p.Off > uint64(len(file)) ||
			p.Filesz > uint64(len(file))-p.Off {
			continue
		}
		return file[p.Off:][:p.Filesz], uint32(p.Vaddr), nil
	}
	return nil, 0, fmt.Errorf("metal: %s: %w: nothing in it is executable", path, errors.ErrUnsupported)
}
