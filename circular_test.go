package reprise_test

import (
	"bytes"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/reprise-tt/reprise"

	"github.com/reprise-tt/reprise/allocator"
	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/dispatch"
	"github.com/reprise-tt/reprise/dispatch/program"
	"github.com/reprise-tt/reprise/kernels"
)

// lying is a program that reads two pages into a circular buffer that lies at an address, on two
// workers, and leaves them there.
func (b *bench) lying(in *reprise.Buffer, addr uint32, common ...uint32) *reprise.Program {
	cores := []chip.Range{chip.Grid(2, 1)}
	return &reprise.Program{
		Name: "lying", Buffers: []*reprise.Buffer{in}, CircularBuffers: []reprise.CircularBuffer{{Index: 5, Cores: cores, PageSize: 64, Pages: 2,
			Addr: addr}},
		Kernels: []reprise.Kernel{{
			Name: "reader", Image: b.image(kernels.CopyReader), Processor: chip.BRISC, Cores: cores, Common: common,
			Args: func(c chip.Core) []uint32 { return []uint32{in.Addr(), uint32(2 * c.X), 2, 64, 5} },
		}},
	}
}

// A circular buffer can lie in a buffer: what a kernel puts into the one is in the other. It takes
// no memory of its own. Later runs can have it elsewhere; a trace has it where it was.
func TestCircularBuffersInBuffers(t *testing.T) {
	onAll(t, func(b *bench) {
		in := b.pages("in", 4)
		b.write(in, 1)
		shards := func(name string) *reprise.Buffer {
			out := b.buffer(reprise.BufferConfig{Kind: allocator.L1, Name: name, PageSize: 64, Sharding: &allocator.ShardSpec{
				Layout: allocator.HeightSharded, Tensor: []int{4, 1}, Shard: []int{2, 1}, Cores: []chip.Range{chip.Grid(2, 1)},
			}})
			b.must(b.queue.Write(b.ctx, out, 0, make([]byte, out.Size())))
			return out
		}
		first, second := shards("first"), shards("second")
		before := b.dev.Memory(allocator.L1).Allocated
		x := b.load(b.lying(in, first.Addr(), 0))
		if now := b.dev.Memory(allocator.L1).Allocated; now != before {
			b.Errorf("L1 in use grew from %d to %d B", before, now)
		}
		if d := cmp.Diff([]reprise.CircularPlace{{Index: 5, Cores: []chip.Range{chip.Grid(2, 1)}, Addr: first.Addr(), Size: 128, Given: true}},
			x.CircularBuffers()); d != "" {
			b.Error(d)
		}
		moved := func(from *reprise.Buffer, what string) {
			b.Helper()
			got := make([]byte, from.Size())
			b.must(b.queue.Read(b.ctx, from, 0, got))
			if !bytes.Equal(got, words(from.Size(), 1)) {
				b.Errorf("%s: % x", what, got[:16])
			}
			b.must(b.queue.Write(b.ctx, from, 0, make([]byte, from.Size())))
		}
		b.must(b.queue.Run(b.ctx, x))
		moved(first, "a run")
		tr := b.capture("where it was", x)
		b.must(x.SetCircularAddr(5, second.Addr()))
		if at := x.CircularBuffers()[0].Addr; at != second.Addr() {
			b.Errorf("it lies at %#x, want %#x", at, second.Addr())
		}
		b.must(b.queue.Run(b.ctx, x))
		moved(second, "a run elsewhere")
		b.must(tr.Replay(b.ctx))
		moved(first, "a replay")
	})
}

// Circular buffers that can't lie where they are told to are refused, and say why.
func TestCircularBuffersThatCannotLieThere(t *testing.T) {
	onEmulators(t, func(b *bench) {
		in := b.pages("in", 4)
		l1 := b.buffer(reprise.BufferConfig{Kind: allocator.L1, Size: 64 * b.dev.Grid().Size() * 2, PageSize: 64, Name: "l1"})
		var wrong *dispatch.ProgramError
		for name, addr := range map[string]uint32{"reserved": 16, "end": 0xFFFFFFF0, "unaligned": l1.Addr() + 4} {
			if _, err := b.dev.Load(b.ctx, b.lying(in, addr, 0)); !errors.As(err, &wrong) {
				b.Errorf("%s: %v", name, err)
			}
		}
		huge := b.lying(in, l1.Addr(), 0)
		huge.CircularBuffers[0].PageSize, huge.CircularBuffers[0].Pages = 1<<40, 1<<40
		if _, err := b.dev.Load(b.ctx, huge); !errors.As(err, &wrong) {
			b.Errorf("huge: %v", err)
		}
		alone := b.load(b.lying(in, l1.Addr()))
		b.says(alone.SetCircularAddr(5, l1.Addr()), "circular buffer 5", "common arguments")
		x := b.load(b.lying(in, l1.Addr(), 0))
		b.says(x.SetCircularAddr(6, l1.Addr()), "circular buffer 6", "loaded with an address")
		b.says(x.SetCircularAddr(5, l1.Addr()+4), "16-aligned")
		b.must(x.Release(b.ctx))
		if err := x.SetCircularAddr(5, l1.Addr()); !errors.Is(err, reprise.ErrReleased) {
			b.Errorf("of a closed executable: %v", err)
		}
		// Several may lie in the same memory if it is the caller's.
		both := b.lying(in, l1.Addr(), 0)
		both.CircularBuffers = append(both.CircularBuffers, both.CircularBuffers[0])
		both.CircularBuffers[1].Index = 6
		b.load(both)
	})
}

// A circular buffer may have as many pages as kernels count: all of them can be filled and emptied,
// also when the counts wrap.
func TestMostPages(t *testing.T) {
	const source = `#include "api/dataflow/dataflow_api.h"

void kernel_main() {
    uint32_t pages = get_arg_val<uint32_t>(0);
    for (int i = 0; i < 3; i++) {
#ifdef PRODUCER
        cb_reserve_back(2, pages);
        cb_push_back(2, pages);
#else
        cb_wait_front(2, pages);
        cb_pop_front(2, pages);
#endif
    }
}
`
	onEmulators(t, func(b *bench) {
		cores := []chip.Range{chip.Single(0, 0)}
		kernel := func(name string, p chip.Processor, defines ...string) reprise.Kernel {
			image, err := kernels.Compile(b.ctx, kernels.Source{Path: name + ".cpp", Text: source, Arch: b.dev.Arch(),
				Processors: []chip.Processor{p}, Defines: defines})
			if errors.Is(err, kernels.ErrNoCompiler) {
				b.Skip(err)
			}
			b.must(err)
			return reprise.Kernel{Name: name, Image: image, Processor: p, Cores: cores,
				Args: func(chip.Core) []uint32 { return []uint32{program.MaxCircularPages} }}
		}
		x := b.load(&reprise.Program{
			Name: "most", CircularBuffers: []reprise.CircularBuffer{{Index: 2, Cores: cores, PageSize: 16, Pages: program.MaxCircularPages}},
			Kernels: []reprise.Kernel{kernel("produce", chip.BRISC, "PRODUCER"), kernel("consume", chip.NCRISC)},
		})
		b.must(b.queue.Run(b.ctx, x))
		b.must(b.queue.Wait(b.ctx))
	})
}
