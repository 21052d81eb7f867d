package metal

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/dispatch/abi"
	"github.com/reprise-tt/reprise/kernels"
)

// QueueFirmware is a folder's command-queue firmware of tt-metal: for each queue three kernels
// compiled for one another.
type QueueFirmware struct {
	Dir    string
	Base   *Firmware      // of all kernels
	Queues []QueueKernels // by number of the queue; empty if kernels have no debug information
	// Prefetch, Dispatch and Subordinate are all kernels by kind, if one has no debug information.
	// Their constants are those of the revision's table for a device, which [QueueKernel.Has] can
	// confirm.
	Prefetch, Dispatch, Subordinate []QueueKernel
}

// QueueKernels are the kernels of one command queue.
type QueueKernels struct {
	Prefetch, Dispatch, Subordinate QueueKernel
	Constants                       abi.Queue
}

// QueueKernel is one kernel of a command queue.
type QueueKernel struct {
	File      string
	Image     *kernels.Image
	Constants Constants // nil if the file has no debug information

	code map[uint32]bool // what Has looks in
}

// Has reports whether the kernel's instructions make or address a number. This indicates whether it
// was compiled with that constant, if it uses it unchanged.
func (k *QueueKernel) Has(v uint32) bool { return k.code[v] }

var (
	// ErrNoQueueFirmware is returned for a folder without the kernels of a command queue.
	ErrNoQueueFirmware = errors.New("no command-queue kernels that belong together")
	// ErrSplitQueue means that a queue's parts lie on two chips.
	ErrSplitQueue = errors.New("the kernels are of a queue that is split over two chips, over Ethernet")
	// ErrSeveralQueues is returned for a folder with command-queue kernels of several devices or
	// settings.
	ErrSeveralQueues = errors.New("there are command-queue kernels of several devices or settings: give a folder with one kernel of each kind for each queue")
)

// A ConstantError says that a kernel lacks a value of a command-queue kernel.
type ConstantError struct{ File, Name string }

func (e *ConstantError) Error() string {
	return fmt.Sprintf("metal: %s: no constant %s: it isn't a command-queue kernel of a revision that is known", e.File, e.Name)
}

type kind int

const (
	prefetch kind = iota
	dispatch
	subordinate
)

func kindOf(path string) (kind, bool) {
	switch path = filepath.ToSlash(path); {
	case !strings.HasSuffix(path, ".elf"):
		return 0, false
	case strings.Contains(path, "cq_prefetch"):
		return prefetch, true
	case strings.Contains(path, "cq_dispatch_subordinate"):
		return subordinate, true
	case strings.Contains(path, "cq_dispatch"):
		return dispatch, true
	}
	return 0, false
}

// QueueKernelFiles returns, by path, the ELF files under a folder with cq_prefetch, cq_dispatch or
// cq_dispatch_subordinate in their paths below it. The error is the context's or one of package
// io/fs.
func QueueKernelFiles(ctx context.Context, dir string) ([]string, error) {
	var files []string
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err = cmp.Or(err, context.Cause(ctx)); err != nil || e.IsDir() {
			return err
		}
		if _, ok := kindBelow(dir, path); ok {
			files = append(files, path)
		}
		return nil
	})
	return files, err
}

func kindBelow(dir, path string) (kind, bool) {
	rel, err := filepath.Rel(dir, path)
	if err != nil {
		return 0, false
	}
	return kindOf(rel)
}

// OpenQueueFirmware reads the command-queue kernels under a folder, as [QueueKernelFiles] finds
// them, with the constants of their debug information; if one has none, it returns the kernels by
// kind. Their base firmware is in the folder too, or in their build's in tt-metal's cache.
//
// The error is the context's, or wraps [ErrNoQueueFirmware], [ErrSplitQueue], [ErrSeveralQueues],
// [ErrNoFirmware], a [*ConstantError], an error of [kernels.LoadMetal] or one of package io/fs.
func OpenQueueFirmware(ctx context.Context, dir string) (*QueueFirmware, error) {
	fw := &QueueFirmware{Dir: dir}
	found, err := openQueueKernels(ctx, dir)
	if err == nil {
		err = fw.match(found)
	}
	if err == nil {
		fw.Base, err = fw.findBase(ctx)
	}
	if err != nil {
		return nil, fmt.Errorf("metal: command-queue firmware in %s: %w", dir, err)
	}
	return fw, nil
}

func (fw *QueueFirmware) match(found [3][]QueueKernel) (err error) {
	if slices.ContainsFunc(slices.Concat(found[:]...), func(k QueueKernel) bool { return k.Constants == nil }) {
		if slices.ContainsFunc(found[:], func(k []QueueKernel) bool { return len(k) == 0 }) {
			return missingKernels(found)
		}
		fw.Prefetch, fw.Dispatch, fw.Subordinate = found[prefetch], found[dispatch], found[subordinate]
		return nil
	}
	if fw.Queues, err = matchQueues(found); err != nil {
		return err
	}
	fw.Queues, err = inOrder(fw.Queues)
	return err
}

func missingKernels(found [3][]QueueKernel) error {
	return fmt.Errorf("%w: %d of cq_prefetch, %d of cq_dispatch, %d of cq_dispatch_subordinate: run a program with tt-metal's fast dispatch to have them built",
		ErrNoQueueFirmware, len(found[prefetch]), len(found[dispatch]), len(found[subordinate]))
}

func openQueueKernels(ctx context.Context, dir string) (found [3][]QueueKernel, err error) {
	files, err := QueueKernelFiles(ctx, dir)
	if err != nil {
		return found, err
	}
	for _, path := range files {
		kernel, err := openQueueKernel(path)
		if err != nil {
			return found, fmt.Errorf("%s: %w", path, err)
		}
		k, _ := kindBelow(dir, path)
		found[k] = append(found[k], kernel)
	}
	return found, nil
}

// findBase looks in the folder, then in the build in whose cache the kernels are.
func (fw *QueueFirmware) findBase(ctx context.Context) (*Firmware, error) {
	c, err := OpenCache(ctx, fw.Dir)
	if err != nil && !errors.Is(err, ErrEmpty) {
		return nil, err
	}
	if c == nil || len(c.Firmware) == 0 {
		if _, c, err = OpenKernel(ctx, fw.kernels()[0].File); err != nil {
			return nil, err
		}
	}
	var why error
	for _, f := range c.Firmware {
		err := fw.linkedWith(f)
		if err == nil {
			return f, nil
		}
		why = cmp.Or(why, err)
	}
	if why != nil {
		return nil, fmt.Errorf("%w: %w", ErrNoFirmware, why)
	}
	return nil, fmt.Errorf("%w: put it into the folder too", ErrNoFirmware)
}

func (fw *QueueFirmware) linkedWith(f *Firmware) error {
	for _, k := range fw.kernels() {
		p, err := f.Processor(k.Image)
		if err == nil && p != k.on {
			err = fmt.Errorf("it was linked for %v, not %v", p, k.on)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", k.File, err)
		}
	}
	return nil
}

type placedKernel struct {
	*QueueKernel
	on chip.Processor
}

func (fw *QueueFirmware) kernels() []placedKernel {
	var all []placedKernel
	add := func(on chip.Processor, ks []QueueKernel) {
		for i := range ks {
			all = append(all, placedKernel{&ks[i], on})
		}
	}
	add(chip.BRISC, fw.Prefetch)
	add(chip.BRISC, fw.Dispatch)
	add(chip.NCRISC, fw.Subordinate)
	for i := range fw.Queues {
		q := &fw.Queues[i]
		all = append(all, placedKernel{&q.Prefetch, chip.BRISC}, placedKernel{&q.Dispatch, chip.BRISC},
			placedKernel{&q.Subordinate, chip.NCRISC})
	}
	return all
}

func openQueueKernel(path string) (QueueKernel, error) {
	file, err := readFile(path)
	if err != nil {
		return QueueKernel{}, err
	}
	constants, err := ReadConstants(bytes.NewReader(file))
	if err != nil && !errors.Is(err, ErrNoDebugInfo) {
		return QueueKernel{}, err
	}
	image, err := kernels.LoadMetal(file)
	if err != nil {
		return QueueKernel{}, err
	}
	return QueueKernel{File: path, Image: image, Constants: constants, code: codeConstants(image.Text)}, nil
}

func matchQueues(found [3][]QueueKernel) ([]QueueKernels, error) {
	var queues []QueueKernels
	var errs []error
	for _, p := range found[prefetch] {
		for _, d := range found[dispatch] {
			for _, s := range found[subordinate] {
				q := QueueKernels{Prefetch: p, Dispatch: d, Subordinate: s}
				if err := q.read(); err != nil {
					errs = append(errs, err)
					continue
				}
				if same := func(o QueueKernels) bool { return o.Constants == q.Constants }; !slices.ContainsFunc(queues, same) {
					queues = append(queues, q)
				}
			}
		}
	}
	if len(queues) == 0 {
		if err := errors.Join(errs...); err != nil {
			return nil, fmt.Errorf("%w: %w", ErrNoQueueFirmware, err)
		}
		return nil, missingKernels(found)
	}
	return queues, nil
}

// inOrder sorts one device's queues: each one's share of host memory begins at the end of the one
// before.
func inOrder(queues []QueueKernels) ([]QueueKernels, error) {
	slices.SortFunc(queues, func(a, b QueueKernels) int { return cmp.Compare(a.Constants.Base, b.Constants.Base) })
	for i := range queues[1:] {
		if queues[i+1].Constants.Base != queues[i].Constants.End() {
			return nil, fmt.Errorf("%w: %s and %s", ErrSeveralQueues, queues[i].Prefetch.File, queues[i+1].Prefetch.File)
		}
	}
	if len(queues) > abi.MaxQueues {
		return nil, fmt.Errorf("%w: of %d queues", ErrSeveralQueues, len(queues))
	}
	return queues, nil
}
