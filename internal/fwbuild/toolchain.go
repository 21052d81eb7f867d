package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
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

func (t toolchain) images(target target) (map[string][]byte, error) {
	if target.compute == nil {
		image, lines, err := t.make(target)
		made := map[string][]byte{target.output: image}
		if target.lines != "" {
			made[target.lines] = lines
		}
		return made, err
	}
	var warnings bytes.Buffer
	source := target.compute.source
	source.Source = t.source(target, &warnings)
	files, err := kernels.CompileComputeELF(t.ctx, source)
	if err = refusal(err, &warnings); err != nil {
		return nil, fmt.Errorf("fwbuild: %s: %w", target.output, err)
	}
	made := map[string][]byte{}
	for i, name := range target.compute.names {
		made[target.output+name] = files[i]
	}
	return made, nil
}

func (t toolchain) make(target target) (image, lines []byte, err error) {
	if target.form == flat {
		image, lines, err = t.firmware(target)
	} else {
		image, lines, err = t.kernel(target)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("fwbuild: %s: %w", target.output, err)
	}
	return image, lines, nil
}

func (t toolchain) intermediate(target target, suffix string) string {
	return filepath.Join(t.work, strings.NewReplacer("/", "-", ".", "-").Replace(target.output)+suffix)
}

func (t toolchain) source(target target, warnings *bytes.Buffer) kernels.Source {
	return kernels.Source{
		Path: filepath.Join(t.root, target.sources[0]), Arch: target.arch, Defines: target.defines, Compiler: t.prefix, Warnings: warnings,
	}
}

// Warnings are errors.
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

// kernel compiles a kernel. Debug information doesn't change the image.
func (t toolchain) kernel(target target) (image, lines []byte, err error) {
	var warnings bytes.Buffer
	source := t.source(target, &warnings)
	source.Debug = target.lines != ""
	file, err := kernels.CompileELF(t.ctx, source)
	if err = refusal(err, &warnings); err != nil {
		return nil, nil, err
	}
	if err := os.WriteFile(t.intermediate(target, ".elf"), file, 0o644); err != nil { // images have no symbols to disassemble
		return nil, nil, err
	}
	if target.form == elfFile {
		return file, nil, nil
	}
	k, err := kernels.Load(file)
	if err != nil {
		return nil, nil, err
	}
	if target.lines != "" {
		lines, err = tableOf(target, file, k.Text)
	}
	return k.Text, lines, err
}

// firmware compiles base firmware. Debug information doesn't change the image.
func (t toolchain) firmware(target target) (image, lines []byte, err error) {
	compiler, err := riscv.Find(t.prefix)
	if err != nil {
		return nil, nil, err
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
			return nil, nil, fmt.Errorf("compile %s: %w\n%s", source, err, text)
		}
		objects = append(objects, object)
	}
	var symbols []string
	for _, s := range target.symbols {
		symbols = append(symbols, "-Wl,--defsym="+s)
	}
	linked := t.intermediate(target, ".elf")
	if text, err := compiler.Link(t.ctx, target.script, linked, objects, symbols...); err != nil {
		return nil, nil, fmt.Errorf("link: %w\n%s", err, text)
	}
	file, err := os.ReadFile(linked)
	if err != nil {
		return nil, nil, fmt.Errorf("link: %w", err)
	}
	if image, err = flatten(file); err != nil || target.lines == "" {
		return image, nil, err
	}
	lines, err = tableOf(target, file, image)
	return image, lines, err
}

func tableOf(target target, file, image []byte) ([]byte, error) {
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
	return m.AppendTable(nil), nil
}
