package hwtest

import (
	"context"
	"encoding/binary"
	"errors"
	"strings"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/allocator"
	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/kernels"
)

// buffer allocates a buffer and frees it with the case.
func (t *fixture) buffer(k allocator.Kind, size, page int) *reprise.Buffer {
	t.Helper()
	b, err := t.dev.NewBuffer(reprise.BufferConfig{Kind: k, Size: size, PageSize: page, Name: "test"})
	t.ok(err)
	t.Cleanup(func() {
		if err := b.Release(); err != nil && !errors.Is(err, reprise.ErrReleased) {
			t.Error(err)
		}
	})
	return b
}

func (t *fixture) readAll(b *reprise.Buffer) []byte {
	t.Helper()
	got := make([]byte, b.Size())
	t.ok(t.rq.Read(t.ctx, b, 0, got))
	return got
}

// perWorker allocates n bytes at the same address of every worker that programs may use: page i of an L1 buffer is in
// bank i, which is worker i, row by row.
func (t *fixture) perWorker(n int) *reprise.Buffer {
	t.Helper()
	b := t.buffer(allocator.L1, n*t.dev.Grid().Size(), n)
	t.ok(t.rq.Write(t.ctx, b, 0, make([]byte, b.Size())))
	return b
}

// workerIndex is the page of a core in a buffer of perWorker.
func (t *fixture) workerIndex(c chip.Core) int { return c.Y*(t.dev.Grid().End.X+1) + c.X }

func (t *fixture) kernel(name string) *kernels.Image {
	t.Helper()
	im, err := kernels.Prebuilt(t.dev.Arch(), name)
	t.ok(err)
	return im
}

// load loads a program and closes it with the case.
func (t *fixture) load(p *reprise.Program) *reprise.Executable {
	t.Helper()
	x, err := t.dev.Load(t.ctx, p)
	t.ok(err)
	t.closing(x.Release)
	return x
}

// capture records programs as a trace and releases it with the case.
func (t *fixture) capture(name string, xs ...*reprise.Executable) *reprise.Trace {
	t.Helper()
	tr, err := t.rq.Capture(t.ctx, name, func(_ context.Context, r *reprise.Recorder) error {
		for _, x := range xs {
			if err := r.Run(x); err != nil {
				return err
			}
		}
		return nil
	})
	t.ok(err)
	t.closing(tr.Release)
	return tr
}

// closing calls a function with the end of the case, unless what it closes or the device is closed already.
func (t *fixture) closing(fn func(context.Context) error) {
	q := t.rq
	t.Cleanup(func() {
		ctx := context.WithoutCancel(t.ctx)
		if err := fn(ctx); err != nil && !t.Failed() && !errors.Is(err, reprise.ErrReleased) && !errors.Is(q.Wait(ctx), reprise.ErrClosed) {
			t.Error(err)
		}
	})
}

// storeProgram stores seed+index of the core to the buffer's address of each core of a range.
func (t *fixture) storeProgram(name string, on chip.Range, b *reprise.Buffer, seed uint32) *reprise.Program {
	t.Helper()
	return &reprise.Program{
		Name: name,
		Kernels: []reprise.Kernel{{
			Name: "store", Image: t.kernel(kernels.Store), Processor: chip.BRISC, Cores: []chip.Range{on},
			Common: []uint32{seed},
			Args:   func(c chip.Core) []uint32 { return []uint32{b.Addr(), 1, uint32(t.workerIndex(c))} },
		}},
		Buffers: []*reprise.Buffer{b},
	}
}

// words reads a buffer of perWorker as words, by worker.
func (t *fixture) words(b *reprise.Buffer, word int) []uint32 {
	t.Helper()
	all := t.readAll(b)
	out := make([]uint32, t.dev.Grid().Size())
	for i := range out {
		out[i] = binary.LittleEndian.Uint32(all[i*b.PageSize()+4*word:])
	}
	return out
}

// wantWords compares a word of every worker with what it should be.
func (t *fixture) wantWords(what string, b *reprise.Buffer, word int, want func(chip.Core) uint32) {
	t.Helper()
	got := t.words(b, word)
	wrong := 0
	for c := range t.dev.Grid().Cores() {
		if g, w := got[t.workerIndex(c)], want(c); g != w {
			if wrong++; wrong <= 5 {
				t.Errorf("%s: core %v has %#x, want %#x", what, c, g, w)
			}
		}
	}
	if wrong > 5 {
		t.Errorf("%s: %d cores are wrong", what, wrong)
	}
}

// says checks that an error's text has parts, in their order.
func (t *fixture) says(err error, parts ...string) {
	t.Helper()
	if err == nil {
		t.Errorf("no error, want one that says %q", parts)
		return
	}
	rest := err.Error()
	for _, p := range parts {
		_, after, ok := strings.Cut(rest, p)
		if !ok {
			t.Errorf("error %q doesn't say %q", err, p)
			return
		}
		rest = after
	}
}

// memory is what is allocated of each kind, in bytes of a bank.
type memory struct{ dram, l1, trace uint64 }

func (t *fixture) allocated() memory {
	return memory{t.dev.Memory(allocator.DRAM).Allocated, t.dev.Memory(allocator.L1).Allocated, t.dev.Memory(allocator.Trace).Allocated}
}
