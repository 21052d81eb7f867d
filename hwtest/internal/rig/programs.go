package rig

import (
	"embed"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/internal/images"
	"github.com/reprise-tt/reprise/kernels"
)

// Kernel is one of the kernels that come with the module.
func (t *T) Kernel(name string) *kernels.Image {
	t.Helper()
	im, err := kernels.Prebuilt(t.Dev.Arch(), name)
	t.OK(err)
	return im
}

// Load loads a program and closes it with the case.
func (t *T) Load(p *reprise.Program) *reprise.Executable {
	t.Helper()
	x, err := t.Dev.Load(t.Ctx, p)
	t.OK(err)
	t.Closing(x.Release)
	return x
}

// Capture records programs as a trace and releases it with the case.
func (t *T) Capture(name string, xs ...*reprise.Executable) *reprise.Trace {
	t.Helper()
	tr, err := t.Record(name, func(r *reprise.Recorder) error {
		for _, x := range xs {
			if err := r.Run(x); err != nil {
				return err
			}
		}
		return nil
	})
	t.OK(err)
	t.Closing(tr.Release)
	return tr
}

// StoreProgram stores seed+index of the core to the buffer's address of each core of a range.
func (t *T) StoreProgram(name string, on chip.Range, b *reprise.Buffer, seed uint32) *reprise.Program {
	t.Helper()
	return &reprise.Program{
		Name: name,
		Kernels: []reprise.Kernel{{
			Name: "store", Image: t.Kernel(kernels.Store), Processor: chip.BRISC, Cores: []chip.Range{on},
			Common: []uint32{seed},
			Args:   func(c chip.Core) []uint32 { return []uint32{b.Addr(), 1, uint32(t.WorkerIndex(c))} },
		}},
		Buffers: []*reprise.Buffer{b},
	}
}

//go:embed kernels/prebuilt
var archives embed.FS

// Prebuilt has the images of the suite's own kernels.
var Prebuilt = images.New(archives, "kernels/prebuilt")

// Own loads one of the suite's own kernels.
func (t *T) Own(name string) *kernels.Image {
	t.Helper()
	file, err := Prebuilt.ELF(t.Dev.Arch(), name)
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
	t.Helper()
	t.OK(t.Queue.Run(t.Ctx, x))
	t.OK(t.Queue.Wait(t.Ctx))
}

// AddCircularBuffer gives a program a circular buffer on all workers.
func AddCircularBuffer(t *T, p *reprise.Program, index, size, pages int) {
	p.CircularBuffers = append(p.CircularBuffers, reprise.CircularBuffer{Index: index, Cores: []chip.Range{t.Grid()}, PageSize: size,
		Pages: pages})
}

// Spinning starts a program that runs until release is called, which another queue has to do.
func (t *T) Spinning(q *reprise.Queue, on chip.Range) (release func(*reprise.Queue)) {
	t.Helper()
	word := t.PerWorker(16)
	x := t.Load(&reprise.Program{Name: "spin", Buffers: []*reprise.Buffer{word}, Kernels: []reprise.Kernel{{
		Name: "wait", Image: t.Kernel(kernels.Spin), Processor: chip.BRISC, Cores: []chip.Range{on},
		Args: Args(word.Addr(), 1),
	}}})
	t.OK(q.Run(t.Ctx, x))
	ones := make([]byte, word.Size())
	for i := 0; i < len(ones); i += word.PageSize() {
		ones[i] = 1
	}
	return func(by *reprise.Queue) { t.Helper(); t.OK(by.Write(t.Ctx, word, 0, ones)) }
}

// AddProgram adds a number to every word of a buffer of pages of 64 B into another, on one core.
func (t *T) AddProgram(name string, at chip.Core, in, out *reprise.Buffer, addend uint32) *reprise.Program {
	t.Helper()
	p, err := Adding(t.Dev.Arch(), name, at, in, out, addend)
	t.OK(err)
	return p
}

// Adding is AddProgram for any device, and for parts of buffers: a reader, a compute kernel and a
// writer.
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

// CopyProgram copies all pages of an interleaved buffer to another by way of a page of L1, on one
// core.
func (t *T) CopyProgram(name string, on chip.Processor, at chip.Core, from, to, room *reprise.Buffer) *reprise.Program {
	t.Helper()
	return &reprise.Program{Name: name, Buffers: []*reprise.Buffer{from, to, room}, Kernels: []reprise.Kernel{{
		Name: "copy", Image: t.Kernel(kernels.Copy), Processor: on, Cores: []chip.Range{at.Range()},
		Args: Args(from.Addr(), to.Addr(), 0, uint32(from.Pages()), from.PageStride(), room.Addr()),
	}}}
}

// BlankProgram does nothing on all workers.
func (t *T) BlankProgram(name string) *reprise.Program {
	t.Helper()
	return &reprise.Program{Name: name, Kernels: []reprise.Kernel{{
		Name: "blank", Image: t.Kernel(kernels.Blank), Processor: chip.BRISC, Cores: []chip.Range{t.Grid()},
	}}}
}

// Both are the two queues of a device.
func (t *T) Both() [2]*reprise.Queue { return [2]*reprise.Queue{t.Dev.Queue(0), t.Dev.Queue(1)} }

// FinishBoth waits for all that is in both queues.
func (t *T) FinishBoth() {
	t.Helper()
	for _, q := range t.Both() {
		t.OK(q.Wait(t.Ctx))
	}
}

// Follows makes the second queue wait for all that is in the first one.
func (t *T) Follows(second, first *reprise.Queue, e *reprise.Event) {
	t.Helper()
	t.OK(first.Record(t.Ctx, e))
	t.OK(second.WaitEvent(t.Ctx, e))
}

// CaptureOn is Capture for another queue.
func (t *T) CaptureOn(q *reprise.Queue, name string, xs ...*reprise.Executable) *reprise.Trace {
	t.Helper()
	u := *t
	u.Queue = q
	return u.Capture(name, xs...)
}
