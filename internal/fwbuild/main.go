// Command fwbuild compiles the programs that run on the chips: the base firmware and the command-queue kernels
// (dispatch/firmware), the relay of command queues over Ethernet (dispatch/firmware/relay), and the kernels that come with
// Reprise (kernels), its operations (ops), its examples (examples/digits, examples/words), its conformance suite (hwtest) and its benchmarks (bench).
// go generate runs it in those packages:
//
//	go run github.com/reprise-tt/reprise/internal/fwbuild [-check] [-only REGEXP] firmware|relay|kernels|digits|words|hwtest|bench|ops...
//
// It needs the cross compiler riscv64-unknown-elf-gcc with C++ (Debian: gcc-riscv64-unknown-elf). Kernels are made by
// [kernels.CompileELF]. The output depends on the sources and the compiler only: it has no paths, times or build ids. With
// -check it writes nothing, and fails if the committed images differ from what it built. With -only it makes the images whose
// names, such as blackhole/compute/matmul, match, and leaves the others alone.
package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

func main() {
	check := flag.Bool("check", false, "compare with the committed images instead of writing them")
	var only *regexp.Regexp
	flag.Func("only", "make only images whose names match this regular expression", func(s string) (err error) {
		only, err = regexp.Compile(s)
		return err
	})
	compiler := flag.String("compiler", "", "prefix of the compiler's programs; default riscv64-unknown-elf- or another usual one")
	keep := flag.String("work", "", "directory for intermediate files, kept; default a temporary one")
	flag.Usage = func() {
		fmt.Fprintf(flag.CommandLine.Output(), "usage: fwbuild [flags] firmware|relay|kernels|digits|words|hwtest|bench|ops...\n")
		flag.PrintDefaults()
	}
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, *compiler, *keep, *check, only, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		stop()
		os.Exit(1)
	}
}

func run(ctx context.Context, compiler, work string, check bool, only *regexp.Regexp, sets []string) (err error) {
	if len(sets) == 0 {
		return errors.New("fwbuild: nothing to build: name firmware, relay, kernels, digits, words, hwtest, bench or ops")
	}
	root, err := moduleRoot()
	if err != nil {
		return err
	}
	if work == "" {
		if work, err = os.MkdirTemp("", "fwbuild"); err != nil {
			return fmt.Errorf("fwbuild: make a work directory: %w", err)
		}
		defer os.RemoveAll(work)
	}
	tools := toolchain{ctx: ctx, prefix: compiler, root: root, work: work}
	for _, set := range sets {
		var targets []target
		var dir string
		switch set {
		case "firmware":
			dir = "dispatch/firmware/images"
			targets, err = firmwareTargets(root)
		case "relay":
			dir = "dispatch/firmware/relay/images"
			targets, err = relayTargets(root)
		case "kernels":
			dir = "kernels/images"
			targets, err = kernelTargets(root)
		case "digits":
			dir = "examples/digits/kernels/prebuilt"
			targets, err = kernelTargetsIn(root, digitsSource, "", elfFile)
		case "words":
			dir = "examples/words/transformer/kernels/prebuilt"
			targets, err = kernelTargetsIn(root, wordsSource, "", elfFile)
		case "ops":
			dir = "ops/kernels/prebuilt"
			targets, err = opsTargets(root)
		case "bench":
			dir = "bench/kernels/prebuilt"
			targets, err = kernelTargetsIn(root, benchSource, "", elfFile)
		case "hwtest":
			dir = "hwtest/kernels/prebuilt"
			targets, err = kernelTargetsIn(root, hwtestSource, "", elfFile)
		default:
			return fmt.Errorf("fwbuild: unknown set %q: want firmware, relay, kernels, digits, words, hwtest, bench or ops", set)
		}
		if err != nil {
			return err
		}
		if err := build(tools, filepath.Join(root, dir), targets, check, only); err != nil {
			return err
		}
	}
	return nil
}

// build makes targets and writes them below dir, or compares them with the files there. Files below dir that no target
// makes are removed, or reported, unless only some targets are made.
func build(tools toolchain, dir string, targets []target, check bool, only *regexp.Regexp) error {
	made := map[string][]byte{}
	for _, t := range targets {
		if only != nil && !only.MatchString(t.output) {
			continue
		}
		images, err := tools.images(t)
		if err != nil {
			return err
		}
		for output, image := range images {
			if other, ok := made[output]; ok && !bytes.Equal(other, image) {
				return fmt.Errorf("fwbuild: %s: two targets make it, with different content", output)
			}
			made[output] = image
		}
	}
	found, err := filesBelow(dir)
	if err != nil {
		return err
	}
	var stale []string
	for _, name := range found {
		if _, ok := made[name]; ok || only != nil {
			continue
		}
		if check {
			stale = append(stale, name+" (no source makes it)")
		} else if err := os.Remove(filepath.Join(dir, name)); err != nil {
			return fmt.Errorf("fwbuild: remove an image without source: %w", err)
		}
	}
	for _, output := range slices.Sorted(maps.Keys(made)) {
		path := filepath.Join(dir, output)
		old, err := os.ReadFile(path)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("fwbuild: read the committed image: %w", err)
		}
		if err == nil && bytes.Equal(old, made[output]) {
			continue
		}
		if check {
			stale = append(stale, output)
			continue
		}
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return fmt.Errorf("fwbuild: write an image: %w", err)
		}
		if err := os.WriteFile(path, made[output], 0o644); err != nil {
			return fmt.Errorf("fwbuild: write an image: %w", err)
		}
		fmt.Printf("%s: %d bytes\n", filepath.Join(filepath.Base(dir), output), len(made[output]))
	}
	if len(stale) > 0 {
		slices.Sort(stale)
		return fmt.Errorf("fwbuild: committed images differ from what the sources give: run go generate with the same compiler: %s",
			strings.Join(stale, ", "))
	}
	return nil
}

// filesBelow lists the files in dir, as slash-separated paths relative to it.
func filesBelow(dir string) ([]string, error) {
	var names []string
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		rel, err := filepath.Rel(dir, path)
		names = append(names, filepath.ToSlash(rel))
		return err
	})
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("fwbuild: list committed images: %w", err)
	}
	return names, nil
}

// moduleRoot finds the directory with go.mod at or above the working directory.
func moduleRoot() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", fmt.Errorf("fwbuild: find the module: %w", err)
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, nil
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return "", errors.New("fwbuild: find the module: no go.mod at or above the working directory")
		}
		dir = parent
	}
}
