package rig

import (
	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/kernels"
)

// MixProgram mixes a number of its own into a word of some cores, and has kernels of a given
// length.
func (t *T) MixProgram(name string, on chip.Range, b *reprise.Buffer, number uint32, size int) *reprise.Program {
	t.Helper()
	im := t.Own("mix")
	if size > len(im.Text) {
		im = Padded(im, size)
	}
	return &reprise.Program{Name: name, Buffers: []*reprise.Buffer{b}, Kernels: []reprise.Kernel{{
		Name: "mix", Image: im, Processor: chip.BRISC, Cores: []chip.Range{on}, Common: []uint32{number},
		Args: func(c chip.Core) []uint32 { return []uint32{b.Addr(), uint32(t.WorkerIndex(c))} },
	}}}
}

// Mixed is what MixProgram does to a word.
func Mixed(v, number uint32, index int) uint32 { return v*1664525 + uint32(index) + number }

// Padded is an image made longer by text that is never run.
func Padded(im *kernels.Image, n int) *kernels.Image {
	out := *im
	out.Text = append(append([]byte(nil), im.Text...), Pattern(uint32(n), n-len(im.Text))...)
	return &out
}

// Mix is a plain model of the words that MixProgram changes.
type Mix struct {
	T      *T
	Buffer *reprise.Buffer
	Words  []uint32
}

// Follow allocates a word for each worker, and a model of them.
func (t *T) Follow() *Mix {
	return &Mix{T: t, Buffer: t.PerWorker(16), Words: make([]uint32, t.Grid().Size())}
}

// on returns the cores that are named, or all workers.
func (f *Mix) on(cores []chip.Range) chip.Range {
	if len(cores) == 0 {
		return f.T.Grid()
	}
	return cores[0]
}

// Load loads a mix program for the words, on some cores or on all.
func (f *Mix) Load(name string, number uint32, on ...chip.Range) *reprise.Executable {
	f.T.Helper()
	return f.LoadLong(name, number, 0, on...)
}

// LoadLong is Load with kernels of a given length.
func (f *Mix) LoadLong(name string, number uint32, size int, on ...chip.Range) *reprise.Executable {
	f.T.Helper()
	return f.T.Load(f.T.MixProgram(name, f.on(on), f.Buffer, number, size))
}

// Run is what a run of the mix program with a number does, on some cores or on all.
func (f *Mix) Run(number uint32, on ...chip.Range) {
	for c := range f.on(on).Cores() {
		i := f.T.WorkerIndex(c)
		f.Words[i] = Mixed(f.Words[i], number, i)
	}
}

// Check compares the words with the model.
func (f *Mix) Check(what string) {
	f.T.Helper()
	f.T.WantWords(what, f.Buffer, 0, func(c chip.Core) uint32 { return f.Words[f.T.WorkerIndex(c)] })
}

// MixNumber is the common argument of the mix program.
var MixNumber = reprise.Arg{Kernel: "mix", Common: true}
