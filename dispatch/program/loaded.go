package program

import (
	"cmp"
	"runtime"
	"slices"
	"weak"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/kernels/print"
)

// Loaded are the kernels of a program with an Image in use, for reports.
type Loaded struct {
	Program string
	Kernels []LoadedKernel
}

// LoadedKernel is a kernel on some cores.
type LoadedKernel struct {
	Name       string
	Processor  chip.Processor
	Cores      []chip.Core
	Text, File []byte // as in Kernel

	start, end uint32
}

func (t *Target) noteKernels(im *Image, groups []*group) {
	im.kernels = &Loaded{Program: im.name}
	for _, g := range groups {
		for p, k := range g.kernels {
			if k != nil {
				im.kernels.Kernels = append(im.kernels.Kernels, LoadedKernel{k.Name, chip.Processor(p), g.cores, k.Text, k.File,
					g.textOff[p], g.textOff[p] + uint32(len(k.Text))})
			}
		}
	}
	all := t.loaded // the clean-up must not keep the Target
	all.Store(im.id, weak.Make(im.kernels))
	runtime.AddCleanup(im.kernels, func(id textID) { all.Delete(id) }, im.id)
}

// Loaded returns the kernels of all programs that are in use, the oldest first.
func (t *Target) Loaded() (all []*Loaded) {
	type entry struct {
		id     textID
		loaded *Loaded
	}
	var found []entry
	t.loaded.Range(func(id, v any) bool {
		if ref, ok := v.(weak.Pointer[Loaded]); ok {
			if l := ref.Value(); l != nil {
				found = append(found, entry{id.(textID), l})
			}
		}
		return true
	})
	slices.SortFunc(found, func(a, b entry) int { return cmp.Compare(a.id, b.id) })
	for _, e := range found {
		all = append(all, e.loaded)
	}
	return all
}

// KernelAt returns the kernel whose text a worker's program counter is in, its program, and the
// offset in its text in bytes; nil if unknown.
func (t *Target) KernelAt(st *State, core chip.Core, p chip.Processor, pc uint32) (l *Loaded, k *LoadedKernel, in uint32) {
	off := pc - t.Workers.L1.KernelConfig
	for _, text := range st.config.texts.list {
		if text.id == 0 || off-text.off >= text.size {
			continue
		}
		v, _ := t.loaded.Load(text.id)
		ref, _ := v.(weak.Pointer[Loaded])
		known := ref.Value()
		if known == nil {
			continue
		}
		for i := range known.Kernels {
			k, at := &known.Kernels[i], off-text.off
			if k.Processor == p && at >= k.start && at < k.end && slices.Contains(k.Cores, core) {
				return known, k, at - k.start
			}
		}
	}
	return nil, nil, 0
}

func (t *Target) findPrints(p *Program, groups []*group) {
	if t.Workers.L1.Print == 0 {
		return
	}
	for _, g := range groups {
		prog := &print.Program{Name: p.Name}
		for _, k := range g.kernels {
			if k != nil && len(k.Formats) > 0 {
				prog.Kernels = append(prog.Kernels, print.Kernel{Name: k.Name, Processor: k.Processor, Formats: k.Formats})
			}
		}
		if prog.Kernels == nil {
			continue
		}
		prog.Cores = CoverCores(g.cores)
		prog.Identify()
		g.prints = prog
	}
}
