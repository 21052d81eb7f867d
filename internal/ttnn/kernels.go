package ttnn

import (
	"bytes"
	"context"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/internal/debug/stack"
	"github.com/reprise-tt/reprise/kernels/metal"
)

// Kernels are TT-NN's compiled kernels and base firmware, recognised by their bytes in L1.
type Kernels struct {
	files  map[chip.Processor][]*kernelFile
	paths  map[string]time.Time
	loaded map[chip.Processor]int // the first files, which are in starts
	starts map[prefix][]*kernelFile
}

// prefix is how a kernel's text begins.
type prefix struct {
	processor chip.Processor
	text      [16]byte
}

type kernelFile struct {
	name, path string
	firmware   bool

	read bool
	text []byte
	at   uint32 // where base firmware is
}

// OpenKernels lists TT-NN's kernel cache; a missing cache is empty. The error is the context's or
// one of package io/fs.
func OpenKernels(ctx context.Context, dir string) (*Kernels, error) {
	k := &Kernels{files: map[chip.Processor][]*kernelFile{}, paths: map[string]time.Time{}, loaded: map[chip.Processor]int{},
		starts: map[prefix][]*kernelFile{}}
	return k, k.update(ctx, dir)
}

// update adds what is new in the cache: also files that a kernel's author has changed.
func (k *Kernels) update(ctx context.Context, dir string) error {
	processors := map[string]chip.Processor{}
	for p := range chip.NumProcessors {
		processors[metal.FileName(chip.Processor(p))] = chip.Processor(p)
	}
	return filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
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
		info, err := d.Info()
		if err != nil || k.paths[path].Equal(info.ModTime()) {
			return nil
		}
		k.paths[path] = info.ModTime()
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
}

func (f *kernelFile) load() bool {
	if f.read {
		return len(f.text) > 0
	}
	f.read = true
	text, at, err := metal.Text(f.path)
	if err != nil || len(text) > maxText {
		return false
	}
	f.text, f.at = text, at
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
	for _, f := range files[k.loaded[p]:] {
		if start := (prefix{processor: p}); !f.firmware && f.load() && copy(start.text[:], f.text) == len(start.text) {
			k.starts[start] = append(k.starts[start], f)
		}
	}
	k.loaded[p] = len(files)
	memory, first := around(pc, read)
	for at := pc &^ 3; at >= first && at-first < uint32(len(memory)); at -= 4 {
		start := prefix{processor: p}
		copy(start.text[:], memory[at-first:])
		for _, f := range k.starts[start] {
			if pc-at < uint32(len(f.text)) && bytes.HasPrefix(memory[at-first:], f.text) {
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
	elf, err := os.ReadFile(f.path)
	var m *stack.Module
	if err == nil {
		m, err = stack.Load(f.name, elf, at)
	}
	if err != nil {
		return stack.Region(f.name, at, at+uint32(len(f.text)))
	}
	return m
}
