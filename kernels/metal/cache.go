package metal

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/kernels"
)

const (
	maxEntries = 1 << 21
	maxDepth   = 16
)

// ErrTooMany means more files or deeper folders than in a kernel cache.
var ErrTooMany = errors.New("too many files or folders")

// ErrEmpty means that a folder has neither kernels nor base firmware of tt-metal.
var ErrEmpty = errors.New("no kernels and no base firmware of tt-metal")

// A Cache is folders with kernels and base firmware that tt-metal built, such as its kernel cache
// or pre-compiled firmware, or a part of them. It is read only.
type Cache struct {
	Roots []string
	// Kernels are ordered by path.
	Kernels []Kernel
	// FirmwareFolders are the folders with base firmware, in order.
	FirmwareFolders []string
	// Firmware is all readable firmware of a known revision, ordered by folder.
	Firmware []*Firmware
	// Ethernet has files for Ethernet cores, ordered by path. Nothing runs them.
	Ethernet []EthernetFile
	// Problems lists unusable files: unreadable ones, base firmware of unknown revisions, and links
	// to folders, which are not followed.
	Problems []error
}

// A Kernel is the file of one kernel for one processor.
type Kernel struct {
	Path string `json:"file"`           // of the ELF file
	Name string `json:"name"`           // as tt-metal calls it; the folder's outside of a cache
	Hash string `json:"hash,omitempty"` // of its arguments and defines; empty outside of a cache
	// Build is tt-metal's build key, Commit the hash of its sources; empty if not in the path.
	Build  string `json:"build,omitempty"`
	Commit string `json:"commit,omitempty"`
	// Processor is by the file's name.
	Processor chip.Processor `json:"-"`
}

// Load's errors are those of [kernels.LoadMetal] and of package io/fs.
func (k *Kernel) Load() (*kernels.Image, error) {
	file, err := readFile(k.Path)
	if err != nil {
		return nil, fmt.Errorf("metal: %w", err)
	}
	return kernels.LoadMetal(file)
}

// OpenCache searches folders for kernels, which it doesn't read, and base firmware. The error wraps
// one of package io/fs, [ErrTooMany] or [ErrEmpty], or is the context's.
func OpenCache(ctx context.Context, roots ...string) (*Cache, error) {
	c := &Cache{Roots: roots}
	firmware := map[string]bool{}
	for _, root := range roots {
		if err := c.search(ctx, root, firmware); err != nil {
			return nil, err
		}
	}
	c.FirmwareFolders = slices.Sorted(maps.Keys(firmware))
	for _, dir := range c.FirmwareFolders {
		f, err := OpenFirmware(dir)
		if err != nil {
			c.Problems = append(c.Problems, err)
			continue
		}
		c.Firmware = append(c.Firmware, f)
	}
	slices.SortFunc(c.Kernels, func(a, b Kernel) int { return cmp.Compare(a.Path, b.Path) })
	slices.SortFunc(c.Ethernet, func(a, b EthernetFile) int { return cmp.Compare(a.Path, b.Path) })
	slices.SortStableFunc(c.Problems, func(a, b error) int { return cmp.Compare(a.Error(), b.Error()) })
	if len(c.Kernels) == 0 && len(c.Firmware) == 0 && len(c.Ethernet) == 0 && len(c.Problems) == 0 {
		return nil, fmt.Errorf("metal: %s: %w: give tt-metal's cache (the folder in TT_METAL_CACHE, or ~/.cache/tt-metal-cache) or a part of it",
			strings.Join(roots, ", "), ErrEmpty)
	}
	return c, nil
}

func (c *Cache) search(ctx context.Context, root string, firmware map[string]bool) error {
	full, err := filepath.Abs(root)
	if err != nil {
		return fmt.Errorf("metal: %s: %w", root, err)
	}
	// A link to the folder itself is followed; links inside could lead in circles.
	w := walker{cache: c, root: root, full: full, start: root, firmware: firmware}
	if real, err := filepath.EvalSymlinks(root); err == nil {
		w.start = real
	}
	if err := filepath.WalkDir(w.start, func(path string, d fs.DirEntry, err error) error {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		return w.visit(path, d, err)
	}); err != nil {
		return fmt.Errorf("metal: %s: %w", root, err)
	}
	return nil
}

type walker struct {
	cache    *Cache
	root     string // as given
	full     string // its absolute path
	start    string // the root without links
	entries  int
	firmware map[string]bool // folders
}

func (w *walker) visit(path string, d fs.DirEntry, err error) error {
	rel, relErr := filepath.Rel(w.start, path)
	switch {
	case err != nil && path == w.start:
		return err
	case err != nil || relErr != nil: // a folder that can't be read
		w.problem(cmp.Or(err, relErr))
		return nil
	}
	if w.entries++; w.entries > maxEntries || strings.Count(rel, string(filepath.Separator)) > maxDepth {
		return fmt.Errorf("%w: at %s", ErrTooMany, path)
	}
	p, ok := processorOf(d.Name())
	eth, isEthernet := ethernetOf(d.Name())
	if d.Type()&fs.ModeSymlink != 0 && !ok && !isEthernet {
		if inside(d.Name()) {
			w.problem(&fs.PathError{Op: "follow", Path: path, Err: errors.New("a link to a folder: give that folder itself")})
		}
		return nil
	}
	if d.IsDir() || !ok && !isEthernet {
		return nil
	}
	// The root's own path may be a part of a cache.
	shown := filepath.Join(w.root, rel)
	if isEthernet {
		e := ethernetFile(filepath.Join(w.full, rel), eth)
		e.Path = shown
		w.cache.Ethernet = append(w.cache.Ethernet, e)
		return nil
	}
	k, inCache := locate(filepath.Join(w.full, rel), p)
	k.Path = shown
	if inCache {
		w.cache.Kernels = append(w.cache.Kernels, k)
		return nil
	}
	file, err := readFile(shown)
	if err != nil {
		w.problem(err)
		return nil
	}
	if _, err := kernels.LoadMetalBase(file); err == nil {
		w.firmware[firmwareDir(shown)] = true
		return nil
	}
	if _, err := kernels.LoadMetal(file); errors.Is(err, kernels.ErrNotMetal) || errors.Is(err, kernels.ErrNotELF) ||
		errors.Is(err, kernels.ErrMachine) {
		w.problem(fmt.Errorf("metal: %s: %w", shown, err))
		return nil
	}
	w.cache.Kernels = append(w.cache.Kernels, k)
	return nil
}

func (w *walker) problem(err error) { w.cache.Problems = append(w.cache.Problems, err) }

func inside(name string) bool {
	return isProcessor(name+".elf") || name == "firmware" || name == "kernels"
}

func isProcessor(name string) bool {
	_, worker := processorOf(name)
	_, ethernet := ethernetOf(name)
	return worker || ethernet
}

func processorOf(name string) (chip.Processor, bool) {
	for p := range chip.Processor(chip.NumProcessors) {
		if name == FileName(p) {
			return p, true
		}
	}
	return 0, false
}

func firmwareDir(path string) string {
	dir, name := filepath.Split(path)
	dir = filepath.Clean(dir)
	if filepath.Base(dir)+".elf" == name {
		return filepath.Dir(dir)
	}
	return dir
}

// locate reads [<commit>/]<build key>/kernels/<name>/<hash>/<processor>/<processor>.elf.
func locate(path string, p chip.Processor) (k Kernel, inCache bool) {
	parts := strings.Split(filepath.ToSlash(path), "/")
	k = Kernel{Name: filepath.Base(firmwareDir(path)), Processor: p}
	if !isProcessor(parts[len(parts)-1]) {
		k.Name = strings.TrimSuffix(parts[len(parts)-1], ".elf") // a copy with a name of its own
	}
	at := -1
	for i, part := range parts {
		if part == "kernels" {
			at = i
		}
	}
	if n := len(parts); at < 1 || n-at < 5 || parts[n-2]+".elf" != parts[n-1] {
		return k, false
	}
	rest := parts[at+1 : len(parts)-2]
	k.Name, k.Hash = strings.Join(rest[:len(rest)-1], "/"), rest[len(rest)-1]
	k.Build = parts[at-1]
	if at >= 2 && isCommit(parts[at-2]) {
		k.Commit = parts[at-2]
	}
	return k, true
}

func isCommit(name string) bool {
	return 7 <= len(name) && len(name) <= 40 && strings.Trim(name, "0123456789abcdef") == ""
}

// OpenKernel returns a kernel by its file's name, and a cache of its build's base firmware, empty
// if the file isn't in tt-metal's kernel cache. The error wraps [ErrEthernet] for a file of an
// Ethernet core, or one of [OpenCache].
func OpenKernel(ctx context.Context, path string) (*Kernel, *Cache, error) {
	if err := refuseEthernet(path); err != nil {
		return nil, nil, err
	}
	full, err := filepath.Abs(path)
	if err != nil {
		return nil, nil, fmt.Errorf("metal: %s: %w", path, err)
	}
	p, _ := processorOf(filepath.Base(path))
	k, inCache := locate(full, p)
	k.Path = path
	if !inCache {
		return &k, &Cache{}, nil
	}
	build := firmwareDir(full)
	for range strings.Count(k.Name, "/") + 3 { // hash, name, kernels
		build = filepath.Dir(build)
	}
	c, err := OpenCache(ctx, filepath.Join(build, "firmware"))
	switch {
	case err == nil:
		return &k, c, nil
	case ctx.Err() != nil:
		return nil, nil, err
	}
	return &k, &Cache{Problems: []error{err}}, nil
}

// ErrNoFirmware means that a cache lacks the base firmware of a kernel.
var ErrNoFirmware = errors.New("the base firmware that the kernel was linked with is not there")

// A NoFirmwareError says why a cache lacks a kernel's base firmware. It matches [ErrNoFirmware].
type NoFirmwareError struct {
	Build string // the kernel's build key, may be empty
	// Err is why the build's firmware is unusable, a [*FirmwareError], or differs, a
	// [*MismatchError]; nil without firmware.
	Err error
}

func (e *NoFirmwareError) Error() string {
	if e.Err != nil {
		return fmt.Sprintf("metal: %v: %s", ErrNoFirmware, strings.TrimPrefix(e.Err.Error(), "metal: "))
	}
	build := cmp.Or(e.Build, "<build key>")
	return fmt.Sprintf("metal: %v: it is in firmware/ of build %s in tt-metal's cache, or in tt_metal/pre-compiled/%s of tt-metal's installation", ErrNoFirmware, build, build)
}

// Is reports whether target is [ErrNoFirmware].
func (e *NoFirmwareError) Is(target error) bool { return target == ErrNoFirmware }

func (e *NoFirmwareError) Unwrap() error { return e.Err }

// FirmwareOf returns the firmware that a kernel was linked with, and the kernel's processor. Among
// firmware with equal symbols it prefers the kernel's build. The error is a [*NoFirmwareError].
func (c *Cache) FirmwareOf(k *Kernel, im *kernels.Image) (*Firmware, chip.Processor, error) {
	var first error
	for _, near := range []bool{true, false} {
		for _, f := range c.Firmware {
			if near != sameBuild(f.Dir, k) {
				continue
			}
			p, err := f.Processor(im)
			if err == nil {
				return f, p, nil
			}
			first = cmp.Or(first, err)
		}
	}
	for _, p := range c.Problems {
		if e := (*FirmwareError)(nil); errors.As(p, &e) && sameBuild(e.Dir, k) {
			return nil, 0, &NoFirmwareError{Build: k.Build, Err: e}
		}
	}
	return nil, 0, &NoFirmwareError{Build: k.Build, Err: first}
}

func sameBuild(dir string, k *Kernel) bool {
	full, err := filepath.Abs(dir)
	return err == nil && k.Build != "" && slices.Contains(strings.Split(filepath.ToSlash(full), "/"), k.Build)
}
