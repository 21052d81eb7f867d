package ttnn

import (
	"bytes"
	"context"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/internal/debug/stack"
	"github.com/reprise-tt/reprise/kernels/metal"
)

// Kernels are TT-NN's compiled kernels and base firmware, recognised by their bytes in L1.
type Kernels struct {
	files map[chip.Processor][]*kernelFile
}

type kernelFile struct {
	name, path string
	firmware   bool

	read bool
	elf  []byte
	text []byte
	at   uint32 // where base firmware is
}

// OpenKernels lists TT-NN's kernel cache; a missing cache is empty. The error is the context's or
// one of package io/fs.
func OpenKernels(ctx context.Context, dir string) (*Kernels, error) {
	processors := map[string]chip.Processor{}
	for p := range chip.NumProcessors {
		processors[metal.FileName(chip.Processor(p))] = chip.Processor(p)
	}
	k := &Kernels{files: map[chip.Processor][]*kernelFile{}}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			if d == nil || d.IsDir() {
				return fs.SkipDir // gone, or not ours to read
			}
			return nil
		}
		p, ok := processors[d.Name()]
		if !ok {
			return nil
		}
		// <build>/firmware/<processor>/<file>, <build>/kernels/<name>/<hash>/<processor>/<file>
		parts := strings.Split(filepath.ToSlash(path), "/")
		f := &kernelFile{path: path}
		switch n := len(parts); {
		case n >= 5 && parts[n-5] == "kernels":
			f.name = parts[n-4]
		case n >= 3 && parts[n-3] == "firmware":
			f.name, f.firmware = "firmware", true
		default:
			return nil
		}
		k.files[p] = append(k.files[p], f)
		return nil
	})
	if err != nil {
		return nil, err
	}
	return k, nil
}

func (f *kernelFile) load() bool {
	if f.read {
		return len(f.text) > 0
	}
	f.read = true
	data, err := os.ReadFile(f.path)
	if err != nil {
		return false
	}
	text, at, err := metal.Text(f.path)
	if err != nil || len(text) > maxText {
		return false
	}
	f.elf, f.text, f.at = data, text, at
	return true
}

const maxText = 72 << 10 // bytes on both sides of pc that are searched for a kernel

func (k *Kernels) space(p chip.Processor, pc uint32, read stack.Memory) stack.Space {
	var space stack.Space
	files := k.files[p]
	for _, f := range files {
		if f.firmware && f.load() && f.isAt(f.at, read) {
			space = append(space, f.module(f.at))
			break
		}
	}
	if space.Find(pc) != nil {
		return space
	}
	memory, start := around(pc, read)
	for _, f := range files {
		if f.firmware || !f.load() {
			continue
		}
		for off := 0; ; off++ {
			i := bytes.Index(memory[off:], f.text)
			if i < 0 {
				break
			}
			off += i
			if at := start + uint32(off); pc >= at && pc-at < uint32(len(f.text)) {
				return append(space, f.module(at))
			}
		}
	}
	return space
}

func around(pc uint32, read stack.Memory) (memory []byte, start uint32) {
	const piece = 4 << 10
	start = pc &^ (piece - 1)
	buf := make([]byte, piece)
	if read(start, buf) != nil {
		return nil, start
	}
	memory = slices.Clone(buf)
	for start >= piece && len(memory) < maxText && read(start-piece, buf) == nil {
		start -= piece
		memory = append(slices.Clone(buf), memory...)
	}
	for end := start + uint32(len(memory)); len(memory) < 2*maxText && read(end, buf) == nil; end += piece {
		memory = append(memory, buf...)
	}
	return memory, start
}

func (f *kernelFile) isAt(at uint32, read stack.Memory) bool {
	memory := make([]byte, len(f.text))
	return read(at, memory) == nil && bytes.Equal(memory, f.text)
}

func (f *kernelFile) module(at uint32) *stack.Module {
	m, err := stack.Load(f.name, f.elf, at)
	if err != nil {
		return stack.Region(f.name, at, at+uint32(len(f.text)))
	}
	return m
}
