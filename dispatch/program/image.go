package program

import (
	"cmp"
	"fmt"
	"runtime"
	"slices"
	"sync/atomic"
	"weak"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/dispatch/cq"
	"github.com/reprise-tt/reprise/kernels/print"
)

// Image is a compiled program: its commands for the prefetcher, with the few places that depend on
// when and where it runs, and its kernels for DRAM. Once placed, it changes only by SetWords.
type Image struct {
	name       string
	id         textID
	layout     cq.Layout
	slotSize   uint32
	textSize   uint32
	argCount   uint32
	configBase uint32
	launchBase uint32
	launchSize uint32
	stream     uint16 // that counts completions
	bounds     chip.Range
	binary     []byte
	placed     bool

	kernels *Loaded
	where   []chip.Core // with a kernel or a part of its memory
	home    atomic.Pointer[home]
	prints  []print.Program // by set of cores

	text commands
	main commands
	args []kernelArgs

	// resident has arguments and configuration in Binary, after the kernels, and relays them from
	// there: far fewer bytes for the host. It runs until arguments change; nil for none.
	resident *Image
	changed  bool
	compiled []byte // main's bytes with the arguments of Compile, kept by the first change
	words    []uint32
}

// commands are a part of a run, with the offsets that a run patches.
type commands struct {
	bytes []byte
	cuts  []int

	hostID     int
	wait       int
	slots      []int32
	texts      []int32
	entries    []entryPatch
	launchAddr []int32
	notify     int // 0 without a command of its own
	goCount    int // 0 without a go signal
	goWord     int
	relays     []relayPatch
}

type entryPatch struct {
	at  int32
	off uint32 // in the program's text
}

// relayPatch is a sub-command of a RELAY_PAGED_PACKED that reads a page of the binary buffer.
type relayPatch struct{ at, page int }

// Name returns the program's name.
func (im *Image) Name() string { return im.name }

// Label returns a pointer to the name, for holders without a copy.
func (im *Image) Label() *string { return &im.name }

// Placed reports whether Place was called.
func (im *Image) Placed() bool { return im.placed }

// Prints returns what the program's kernels print, one for each set of cores with the same kernels.
func (im *Image) Prints() []print.Program { return im.prints }

// Cores returns how many cores run a kernel of the program.
func (im *Image) Cores() int { return len(im.where) }

// Bounds returns the smallest range with all cores that run a kernel or have a part of the
// program's memory.
func (im *Image) Bounds() chip.Range { return im.bounds }

// Placement returns all cores that run a kernel of the program or have a part of its memory.
func (im *Image) Placement() []chip.Core { return im.where }

// home is the sub-device of a division in which a program's cores are.
type home struct {
	division any
	sub      uint8
}

// Home returns the sub-device that SetHome noted last, if it was of this division.
func (im *Image) Home(division any) (sub uint8, ok bool) {
	h := im.home.Load()
	if h == nil || h.division != division {
		return 0, false
	}
	return h.sub, true
}

func (im *Image) SetHome(division any, sub uint8) { im.home.Store(&home{division, sub}) }

// CommandSize is how much the host sends.
type CommandSize struct {
	Count int
	Bytes int
}

// Commands is the size of a run whose kernels are on the cores already.
func (im *Image) Commands() CommandSize {
	b := im.current().main.bytes
	return CommandSize{Count: CountCommands(im.layout, b), Bytes: len(b)}
}

// RunBytes returns the largest size of one run.
func (im *Image) RunBytes() int { return len(im.text.bytes) + len(im.current().main.bytes) }

// CountCommands returns how many commands of the prefetcher a stream has.
func CountCommands(l cq.Layout, cmds []byte) int {
	n := 0
	for range cq.All(l, cmds) {
		n++
	}
	return n
}

func (im *Image) current() *Image {
	if im.resident != nil && !im.changed {
		return im.resident
	}
	return im
}

// Binary returns the kernels for an interleaved DRAM buffer with pages of BinaryPageSize.
func (im *Image) Binary() []byte { return im.binary }

// Place sets the address of Binary, equal in all banks, in a buffer over that many banks, once and
// before the first run.
func (im *Image) Place(addr uint32, banks int) error {
	if im.placed {
		return fmt.Errorf("dispatch: program %q: its kernels are already placed", im.name)
	}
	for _, c := range []*commands{&im.text, &im.main} {
		for _, r := range c.relays {
			cq.Put16(c.bytes, r.at+cq.AtPagedSubStart, uint16(r.page%banks))
			cq.Put32(c.bytes, r.at+cq.AtPagedSubBase, addr+uint32(r.page/banks)*BinaryPageSize)
		}
	}
	im.placed = true
	if im.resident != nil {
		return im.resident.Place(addr, banks)
	}
	return nil
}

func (im *Image) change() {
	if !im.changed && im.resident != nil {
		im.compiled = slices.Clone(im.main.bytes)
	}
	im.changed = true
}

// BinaryImage returns an image without commands, for a program whose commands are in a trace.
func BinaryImage(name string, binary []byte, prints []print.Program) *Image {
	return &Image{name: name, binary: binary, placed: true, prints: prints}
}

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
		prog.Cores = chip.Cover(g.cores)
		prog.Identify()
		g.prints = prog
	}
}
