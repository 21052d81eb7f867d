// Command fwbuild compiles the programs that run on the chips: base firmware, command-queue
// kernels, and the kernels of packages, as sets. go generate runs it:
//
//	go run github.com/reprise-tt/reprise/internal/fwbuild [-check] [-only REGEXP] SET...
//
// It needs riscv64-unknown-elf-gcc with C++ (Debian: gcc-riscv64-unknown-elf), on which alone the
// output depends beside the sources. -check writes nothing and fails if the committed images
// differ. -only makes only the images with matching names, such as blackhole/compute/matmul. Each
// chip has one archive ([images.Pack]).
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

	"github.com/reprise-tt/reprise/internal/images"
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
		fmt.Fprintf(flag.CommandLine.Output(), "usage: fwbuild [flags] %s...\n", setNames("|"))
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

type imageSet struct {
	name, dir string
	targets   func(root string) ([]target, error)
}

var imageSets = []imageSet{
	{"firmware", "dispatch/firmware/images", firmwareTargets},
	{"relay", "dispatch/firmware/relay/images", relayTargets},
	{"kernels", "kernels/images", kernelTargets},
	{"words", "examples/words/transformer/kernels/prebuilt", eachIn("examples/words/transformer/kernels")},
	{"hwtest", "hwtest/rig/kernels/prebuilt", eachIn("hwtest/rig/kernels")},
	{"bench", "internal/bench/kernels/prebuilt", eachIn("internal/bench/kernels")},
	{"ops", "ops/kernels/prebuilt", opsTargets},
}

func eachIn(dir string) func(string) ([]target, error) {
	return func(root string) ([]target, error) { return kernelTargetsIn(root, dir, "", elfFile) }
}

func setNames(between string) string {
	var names []string
	for _, s := range imageSets {
		names = append(names, s.name)
	}
	return strings.Join(names, between)
}

func run(ctx context.Context, compiler, work string, check bool, only *regexp.Regexp, sets []string) (err error) {
	if len(sets) == 0 {
		return fmt.Errorf("fwbuild: nothing to build: name sets of %s", setNames(", "))
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
		i := slices.IndexFunc(imageSets, func(s imageSet) bool { return s.name == set })
		if i < 0 {
			return fmt.Errorf("fwbuild: unknown set %q: want %s", set, setNames(", "))
		}
		targets, err := imageSets[i].targets(root)
		if err != nil {
			return err
		}
		if err := build(tools, filepath.Join(root, imageSets[i].dir), targets, check, only); err != nil {
			return err
		}
	}
	return nil
}

// Without only, other files below dir are removed or reported.
func build(tools toolchain, dir string, targets []target, check bool, only *regexp.Regexp) error {
	old, err := committed(dir)
	if err != nil {
		return err
	}
	made, err := makeImages(tools, targets, only)
	if err != nil {
		return err
	}
	if only != nil {
		all := maps.Clone(old)
		maps.Copy(all, made)
		made = all
	}
	var stale []string
	dirty := map[string]bool{}
	differs := func(name, why string) {
		stale = append(stale, name+why)
		if archive, _, packed := strings.Cut(name, images.Ext+"/"); packed {
			name = archive + images.Ext
		}
		dirty[name] = true
	}
	for name, image := range made {
		if committed, ok := old[name]; !ok {
			differs(name, " (is missing)")
		} else if !bytes.Equal(committed, image) {
			differs(name, "")
		}
	}
	for name := range old {
		if _, ok := made[name]; !ok {
			differs(name, " (no source makes it)")
		}
	}
	if len(stale) > 0 && check {
		slices.Sort(stale)
		return fmt.Errorf("fwbuild: committed images differ from what the sources give: run go generate with the same compiler: %s",
			strings.Join(stale, ", "))
	}
	for _, name := range slices.Sorted(maps.Keys(dirty)) {
		if err := write(dir, name, made); err != nil {
			return fmt.Errorf("fwbuild: write images: %w", err)
		}
	}
	return nil
}

func makeImages(tools toolchain, targets []target, only *regexp.Regexp) (map[string][]byte, error) {
	made := map[string][]byte{}
	for _, t := range targets {
		if only != nil && !only.MatchString(t.output) {
			continue
		}
		files, err := tools.images(t)
		if err != nil {
			return nil, err
		}
		for output, image := range files {
			arch, name, _ := strings.Cut(output, "/")
			output = arch + images.Ext + "/" + name
			if other, ok := made[output]; ok && !bytes.Equal(other, image) {
				return nil, fmt.Errorf("fwbuild: %s: two targets make it, with different content", output)
			}
			made[output] = image
		}
	}
	return made, nil
}

func write(dir, name string, made map[string][]byte) error {
	content, ok := made[name]
	if strings.HasSuffix(name, images.Ext) {
		packed := map[string][]byte{}
		for path, image := range made {
			if inside, ok := strings.CutPrefix(path, name+"/"); ok {
				packed[inside] = image
			}
		}
		var err error
		if content, err = images.Pack(packed); err != nil {
			return err
		}
		ok = len(packed) > 0
	}
	path := filepath.Join(dir, name)
	if !ok {
		return os.Remove(path)
	}
	fmt.Printf("%s: %d bytes\n", filepath.Join(filepath.Base(dir), name), len(content))
	return errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, content, 0o644))
}

func committed(dir string) (map[string][]byte, error) {
	found := map[string][]byte{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		name, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		name = filepath.ToSlash(name)
		if found[name], err = os.ReadFile(path); err != nil || !strings.HasSuffix(name, images.Ext) {
			return err
		}
		unpacked, err := images.Unpack(found[name])
		if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		for inside, image := range unpacked {
			found[name+"/"+inside] = image
		}
		delete(found, name)
		return nil
	})
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("fwbuild: read committed images: %w", err)
	}
	return found, nil
}

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
