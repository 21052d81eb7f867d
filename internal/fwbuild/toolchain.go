package main

import (
	"bytes"
	"context"
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/reprise-tt/reprise/internal/debug/stack"
	"github.com/reprise-tt/reprise/internal/riscv"
	"github.com/reprise-tt/reprise/kernels"
)

type toolchain struct {
	ctx    context.Context
	prefix string
	root   string
	work   string
}

func (t toolchain) images(target target) (made map[string][]byte, err error) {
	switch {
	case target.compute != nil:
		made, err = t.engine(target)
	case target.form == flat:
		made, err = t.firmware(target)
	default:
		made, err = t.kernel(target)
	}
	if err != nil {
		return nil, fmt.Errorf("fwbuild: %s: %w", target.output, err)
	}
	return made, nil
}

func (t toolchain) engine(target target) (map[string][]byte, error) {
	var warnings bytes.Buffer
	source := target.compute.source
	source.Source = t.source(target, &warnings)
	files, err := kernels.CompileComputeELF(t.ctx, source)
	if err = refusal(err, &warnings); err != nil {
		return nil, err
	}
	made := map[string][]byte{}
	for i, name := range target.compute.names {
		made[target.output+name] = files[i]
	}
	return made, nil
}

func (t toolchain) intermediate(target target, suffix string) string {
	return filepath.Join(t.work, strings.NewReplacer("/", "-", ".", "-").Replace(target.output)+suffix)
}

func (t toolchain) source(target target, warnings *bytes.Buffer) kernels.Source {
	return kernels.Source{
		Path: filepath.Join(t.root, target.sources[0]), Arch: target.arch, Defines: target.defines, Compiler: t.prefix, Warnings: warnings,
	}
}

func refusal(err error, warnings *bytes.Buffer) error {
	if err == nil && warnings.Len() > 0 {
		err = fmt.Errorf("warnings are errors:\n%s", warnings.Bytes())
	}
	var refused *kernels.CompileError
	if errors.As(err, &refused) {
		err = fmt.Errorf("%w\n%s", err, refused.Output)
	}
	return err
}

// Debug information doesn't change the image.
func (t toolchain) kernel(target target) (map[string][]byte, error) {
	var warnings bytes.Buffer
	source := t.source(target, &warnings)
	source.Debug = target.lines != ""
	file, err := kernels.CompileELF(t.ctx, source)
	if err = refusal(err, &warnings); err != nil {
		return nil, err
	}
	if err := os.WriteFile(t.intermediate(target, ".elf"), file, 0o644); err != nil { // images have no symbols to disassemble
		return nil, err
	}
	if target.form == elfFile {
		return map[string][]byte{target.output: file}, nil
	}
	k, err := kernels.Load(file)
	if err != nil {
		return nil, err
	}
	return withLines(target, file, k.Text)
}

func (t toolchain) firmware(target target) (map[string][]byte, error) {
	compiler, err := riscv.Find(t.prefix)
	if err != nil {
		return nil, err
	}
	compiler.Dir = t.root
	var objects []string
	for i, source := range target.sources {
		object := t.intermediate(target, "-"+strconv.Itoa(i)+".o")
		text, err := compiler.Compile(t.ctx, riscv.Unit{
			Source: source, Object: object, Arch: target.arch, Include: []string{kernelHeaders}, Defines: target.defines,
			TrimPaths: []string{t.root},
			FileNames: []string{kernelHeaders + "=include", filepath.Dir(source) + "=" + filepath.Base(filepath.Dir(filepath.Dir(source)))},
			Flags:     []string{"-Werror", "-Os", "-g"}, // for a few hundred bytes of memory
		})
		if err != nil {
			return nil, fmt.Errorf("compile %s: %w\n%s", source, err, text)
		}
		objects = append(objects, object)
	}
	var symbols []string
	for _, s := range target.symbols {
		symbols = append(symbols, "-Wl,--defsym="+s)
	}
	linked := t.intermediate(target, ".elf")
	if text, err := compiler.Link(t.ctx, target.script, linked, objects, symbols...); err != nil {
		return nil, fmt.Errorf("link: %w\n%s", err, text)
	}
	file, err := os.ReadFile(linked)
	if err != nil {
		return nil, fmt.Errorf("link: %w", err)
	}
	image, err := flatten(file)
	if err != nil {
		return nil, err
	}
	return withLines(target, file, image)
}

func withLines(target target, file, image []byte) (map[string][]byte, error) {
	if target.lines == "" {
		return map[string][]byte{target.output: image}, nil
	}
	m, err := stack.Load(target.output, file, 0)
	if err == nil {
		err = m.Debug()
	}
	if err != nil {
		return nil, err
	}
	if !bytes.Equal(m.Text(), image) {
		return nil, errors.New("the text is not the image: its table of lines would be that of something else")
	}
	return map[string][]byte{target.output: image, target.lines: m.AppendTable(nil)}, nil
}

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
