package rig

import (
	"embed"
	"fmt"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/allocator"
	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/internal/images"
	"github.com/reprise-tt/reprise/kernels"
)

// Kernel is one of the kernels that come with the module.
func (t *T) Kernel(name string) *kernels.Image {
	im, err := kernels.Prebuilt(t.Dev.Arch(), name)
	t.OK(err)
	return im
}

// Load loads a program and closes it with the case.
func (t *T) Load(p *reprise.Program) *reprise.Executable {
	x, err := t.Dev.Load(t.Ctx, p)
	t.OK(err)
	t.Closing(x.Release)
	return x
}

// Running records runs of programs.
func Running(xs ...*reprise.Executable) func(*reprise.Recorder) error {
	return func(r *reprise.Recorder) error {
		for _, x := range xs {
			if err := r.Run(x); err != nil {
				return err
			}
		}
		return nil
	}
}

// Capture records programs as a trace and releases it with the case.
func (t *T) Capture(name string, xs ...*reprise.Executable) *reprise.Trace {
	return t.Hold(t.Record(name, Running(xs...)))
}

// OneKernel is a program of one kernel, by its name.
func OneKernel(k reprise.Kernel, bs ...*reprise.Buffer) *reprise.Program {
	return &reprise.Program{Name: k.Name, Kernels: []reprise.Kernel{k}, Buffers: bs}
}

// Named is OneKernel with a name of its own.
func Named(name string, k reprise.Kernel, bs ...*reprise.Buffer) *reprise.Program {
	p := OneKernel(k, bs...)
	p.Name = name
	return p
}

// On is one core as the cores of a kernel.
func On(x, y int) []chip.Range { return []chip.Range{chip.Single(x, y)} }

// StoreProgram stores seed + the core's index at the buffer's address.
func (t *T) StoreProgram(name string, on chip.Range, b *reprise.Buffer, seed uint32) *reprise.Program {
	return Named(name, reprise.Kernel{
		Name: "store", Image: t.Kernel(kernels.Store), Processor: chip.BRISC, Cores: []chip.Range{on}, Common: []uint32{seed},
		Args: func(c chip.Core) []uint32 { return []uint32{b.Addr(), 1, uint32(t.WorkerIndex(c))} },
	}, b)
}

//go:embed kernels/prebuilt
var archives embed.FS

var prebuilt = images.New(archives, "kernels/prebuilt")

// Own loads one of the suite's own kernels.
func (t *T) Own(name string) *kernels.Image {
	file, err := prebuilt.ELF(t.Params.Arch, name)
	t.OK(err)
	im, err := kernels.Load(file)
	t.OK(err)
	return im
}

// Args are arguments that are the same for all cores.
func Args(args ...uint32) func(chip.Core) []uint32 {
	return func(chip.Core) []uint32 { return args }
}

// Processors are those of a worker.
func Processors() []chip.Processor {
	return []chip.Processor{chip.BRISC, chip.NCRISC, chip.TRISC0, chip.TRISC1, chip.TRISC2}
}

// RunAndWait runs a program to its end.
func (t *T) RunAndWait(x *reprise.Executable) {
	t.Start(x)
	t.Wait()
}

// RunProgram loads a program and runs it to its end.
func (t *T) RunProgram(p *reprise.Program) { t.RunAndWait(t.Load(p)) }

// AddCircularBuffer gives a program a circular buffer on all workers.
func AddCircularBuffer(t *T, p *reprise.Program, index, size, pages int) {
	p.CircularBuffers = append(p.CircularBuffers, reprise.CircularBuffer{Index: index, Cores: []chip.Range{t.Grid()}, PageSize: size,
		Pages: pages})
}

// Spinning starts a program that runs until release is called, which another queue has to do.
func (t *T) Spinning(q *reprise.Queue, on chip.Range) (release func(*reprise.Queue)) {
	word, u := t.PerWorker(16), t.On(q)
	u.Start(u.Load(u.Spin(word, chip.BRISC, on)))
	return func(by *reprise.Queue) { t.On(by).EndSpin(word) }
}

// AddProgram adds a number to each word of pages of 64 B, on one core.
func (t *T) AddProgram(name string, at chip.Core, in, out *reprise.Buffer, addend uint32) *reprise.Program {
	p, err := Adding(t.Dev.Arch(), name, at, in, out, addend)
	t.OK(err)
	return p
}

// Adding is AddProgram for any device: a reader, a compute kernel and a writer.
func Adding(a chip.Arch, name string, at chip.Core, in, out *reprise.Buffer, addend uint32) (*reprise.Program, error) {
	const from, to = 0, 16
	cores := []chip.Range{at.Range()}
	n, page := uint32(in.Pages()), uint32(in.PageSize())
	p := &reprise.Program{Name: name, Buffers: []*reprise.Buffer{in, out}}
	for _, i := range []int{from, to} {
		p.CircularBuffers = append(p.CircularBuffers, reprise.CircularBuffer{Index: i, Cores: cores, PageSize: int(page), Pages: 2})
	}
	for _, k := range []struct {
		name, image string
		on          chip.Processor
		args        []uint32
	}{
		{"reader", kernels.CopyReader, chip.BRISC, []uint32{in.Addr(), uint32(in.FirstPage()), n, page, from}},
		{"add", kernels.Add, chip.TRISC0, []uint32{from, to, n, addend}},
		{"writer", kernels.CopyWriter, chip.NCRISC, []uint32{out.Addr(), uint32(out.FirstPage()), n, page, to}},
	} {
		im, err := kernels.Prebuilt(a, k.image)
		if err != nil {
			return nil, err
		}
		p.Kernels = append(p.Kernels, reprise.Kernel{Name: k.name, Image: im, Processor: k.on, Cores: cores, Args: Args(k.args...)})
	}
	return p, nil
}

// MoveProgram copies all pages of a buffer to another, each in DRAM or L1.
func (t *T) MoveProgram(name string, at chip.Core, from, to *reprise.Buffer) *reprise.Program {
	p, err := Moving(t.Dev.Arch(), name, at, from, to)
	t.OK(err)
	return p
}

// Moving is MoveProgram for any device.
func Moving(a chip.Arch, name string, at chip.Core, from, to *reprise.Buffer) (*reprise.Program, error) {
	const room = 2 // the circular buffer
	im, err := kernels.Prebuilt(a, kernels.Move)
	if err != nil {
		return nil, err
	}
	cores, inL1 := []chip.Range{at.Range()}, uint32(0)
	for i, b := range []*reprise.Buffer{from, to} {
		if b.Kind() == allocator.L1 {
			inL1 |= 1 << i
		}
	}
	p := Named(name, reprise.Kernel{
		Name: "move", Image: im, Processor: chip.BRISC, Cores: cores,
		Args: Args(from.Addr(), to.Addr(), 0, uint32(from.Pages()), uint32(from.PageSize()), room, inL1),
	}, from, to)
	p.CircularBuffers = []reprise.CircularBuffer{{Index: room, Cores: cores, PageSize: from.PageSize(), Pages: 1}}
	return p, nil
}

// CopyProgram copies an interleaved buffer by way of a page of L1.
func (t *T) CopyProgram(name string, on chip.Processor, at chip.Core, from, to, room *reprise.Buffer) *reprise.Program {
	return Named(name, reprise.Kernel{
		Name: "copy", Image: t.Kernel(kernels.Copy), Processor: on, Cores: []chip.Range{at.Range()},
		Args: Args(from.Addr(), to.Addr(), 0, uint32(from.Pages()), from.PageStride(), room.Addr()),
	}, from, to, room)
}

// BlankProgram does nothing on all workers.
func (t *T) BlankProgram(name string) *reprise.Program {
	return OneKernel(reprise.Kernel{Name: name, Image: t.Kernel(kernels.Blank), Processor: chip.BRISC, Cores: []chip.Range{t.Grid()}})
}

// Both are the two queues of a device.
func (t *T) Both() [2]*reprise.Queue { return [2]*reprise.Queue{t.Dev.Queue(0), t.Dev.Queue(1)} }

// FinishBoth waits for all that is in both queues.
func (t *T) FinishBoth() {
	for _, q := range t.Both() {
		t.OK(q.Wait(t.Ctx))
	}
}

// Follows makes the second queue wait for all that is in the first one.
func (t *T) Follows(second, first *reprise.Queue, e *reprise.Event) {
	t.OK(first.Record(t.Ctx, e))
	t.OK(second.WaitEvent(t.Ctx, e))
}

// MixProgram mixes a number into a word of some cores; its kernels have at least size bytes.
func (t *T) MixProgram(name string, on chip.Range, b *reprise.Buffer, number uint32, size int) *reprise.Program {
	im := t.Own("mix")
	if size > len(im.Text) {
		im = Padded(im, size)
	}
	return Named(name, reprise.Kernel{
		Name: "mix", Image: im, Processor: chip.BRISC, Cores: []chip.Range{on}, Common: []uint32{number},
		Args: func(c chip.Core) []uint32 { return []uint32{b.Addr(), uint32(t.WorkerIndex(c))} },
	}, b)
}

// Mixed is what MixProgram does to a word.
func Mixed(v, number uint32, index int) uint32 { return v*1664525 + uint32(index) + number }

// Padded makes an image longer by text that is never run.
func Padded(im *kernels.Image, n int) *kernels.Image {
	out := *im
	out.Text = append(append([]byte(nil), im.Text...), Pattern(n, n-len(im.Text))...)
	return &out
}

// Mix is a plain model of the words that mix programs change. What is started by it runs on the
// device and in the model.
type Mix struct {
	T      *T
	Buffer *reprise.Buffer
	Words  []uint32
	does   map[any][]mixing // programs and traces
}

type mixing struct {
	number uint32
	on     chip.Range
}

// NewMix is a model without a buffer.
func NewMix(t *T) *Mix {
	return &Mix{T: t, Words: make([]uint32, t.Grid().Size()), does: map[any][]mixing{}}
}

// Follow allocates a word for each worker, and a model of them.
func (t *T) Follow() *Mix {
	f := NewMix(t)
	f.Buffer = t.PerWorker(16)
	return f
}

// Mixing is Follow, with a mix program for a number on some cores or on all.
func (t *T) Mixing(number uint32, on ...chip.Range) (*Mix, *reprise.Executable) {
	f := t.Follow()
	return f, f.Load("x", number, on...)
}

// On is the model's part on another queue.
func (f *Mix) On(q *reprise.Queue) *Mix {
	g := *f
	g.T = f.T.On(q)
	return &g
}

// Capture records programs as a trace and releases it with the case.
func (f *Mix) Capture(name string, xs ...*reprise.Executable) *reprise.Trace {
	tr := f.T.Capture(name, xs...)
	for _, x := range xs {
		f.does[tr] = append(f.does[tr], f.does[x]...)
	}
	return tr
}

// Start runs programs without waiting for their end.
func (f *Mix) Start(xs ...*reprise.Executable) {
	for _, x := range xs {
		f.T.Start(x)
		f.Ran(x)
	}
}

// Replay starts a replay of a trace.
func (f *Mix) Replay(tr *reprise.Trace) {
	f.T.Replay(tr)
	f.Ran(tr)
}

// Ran is what a program or a trace does that was started in another way.
func (f *Mix) Ran(what any) {
	for _, m := range f.does[what] {
		f.Run(m.number, m.on)
	}
}

func (f *Mix) on(cores []chip.Range) chip.Range {
	if len(cores) == 0 {
		return f.T.Grid()
	}
	return cores[0]
}

// Load loads a mix program for the words, on some cores or on all.
func (f *Mix) Load(name string, number uint32, on ...chip.Range) *reprise.Executable {
	return f.LoadLong(name, number, 0, on...)
}

// LoadLong is Load with kernels of a given length.
func (f *Mix) LoadLong(name string, number uint32, size int, on ...chip.Range) *reprise.Executable {
	x := f.T.Load(f.T.MixProgram(name, f.on(on), f.Buffer, number, size))
	f.does[x] = []mixing{{number, f.on(on)}}
	return x
}

// LoadSizes loads mix programs with numbers from first on, and kernels of given lengths.
func (f *Mix) LoadSizes(first uint32, sizes []int, on ...chip.Range) (xs []*reprise.Executable) {
	for i, n := range sizes {
		xs = append(xs, f.LoadLong(fmt.Sprint("size ", n), first+uint32(i), n&^15, on...))
	}
	return xs
}

// Run is what a run of the mix program with a number does, on some cores or on all.
func (f *Mix) Run(number uint32, on ...chip.Range) {
	for c := range f.on(on).Cores() {
		i := f.T.WorkerIndex(c)
		f.Words[i] = Mixed(f.Words[i], number, i)
	}
}

// Check compares the words with the model.
func (f *Mix) Check(what string, args ...any) {
	f.T.WantWords(fmt.Sprintf(what, args...), f.Buffer, 0, func(c chip.Core) uint32 { return f.Words[f.T.WorkerIndex(c)] })
}

// MixNumber is the common argument of the mix program.
var MixNumber = reprise.Arg{Kernel: "mix", Common: true}
