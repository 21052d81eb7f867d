package hwtest

import (
	"context"
	"errors"
	"fmt"
	"github.com/reprise-tt/reprise/dispatch"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/allocator"
	"github.com/reprise-tt/reprise/chip"
)

const notCopied = "what the device itself reads and writes in host memory is right to the byte, and nothing beside it changes"

// pinnedCases move data between buffers and pinned host memory, which the device reads and writes itself.
func pinnedCases() []testCase {
	var cs []testCase
	for _, page := range []int{16, 100, 2048, 5008} {
		for _, k := range []allocator.Kind{allocator.DRAM, allocator.L1} {
			cs = append(cs, testCase{
				name: fmt.Sprintf("pinned memory and pages of %d in %v", page, k), protects: notCopied,
				fn: func(t *fixture) {
					t.pinnedRanges(reprise.BufferConfig{Kind: k, Size: 7 * page, PageSize: page}, page%16 == 0)
				},
			})
		}
	}
	for _, s := range []allocator.ShardSpec{
		{Layout: allocator.HeightSharded, Tensor: []int{12, 1}, Shard: []int{2, 1}, Cores: []chip.Range{chip.Grid(3, 2)}},
		{Layout: allocator.BlockSharded, Tensor: []int{4, 6}, Shard: []int{2, 2}, Cores: []chip.Range{chip.Grid(3, 2)}},
	} {
		cs = append(cs, testCase{
			name: fmt.Sprintf("pinned memory and %v pages", s.Layout), protects: notCopied,
			fn: func(t *fixture) {
				t.pinnedRanges(reprise.BufferConfig{Kind: allocator.L1, PageSize: 256, Sharding: &s}, true)
			},
		})
	}
	return append(cs, []testCase{
		{name: "pinned memory, large", protects: "a transfer without a copy may be larger than the queue's own memory", fn: pinnedLarge},
		{name: "pinned memory in the order of the queue", protects: "transfers with pinned memory keep their place among other transfers and programs", fn: pinnedInOrder},
		{name: "pinned memory given up in time", protects: "Free waits for transfers that the caller hasn't waited for", fn: pinnedFree},
		{name: "pinned memory and a context that ends", protects: "a wait for a transfer without a copy ends with its context, and the queue goes on", fn: pinnedCancelled},
	}...)
}

func pinnedQueueCases() []testCase {
	return []testCase{{name: "pinned memory from queue to queue",
		protects: "what one queue puts into host memory another fetches after an event, and not sooner", fn: pinnedBetweenQueues}}
}

// pinned is host memory that the case has until it ends.
func (t *fixture) pinned(c reprise.HostBufferConfig) *reprise.HostBuffer {
	t.Helper()
	c.Name = "pinned"
	h, err := t.dev.NewHostBuffer(c)
	if errors.Is(err, dispatch.ErrRemoteChip) {
		t.Skip("the chip reaches no memory of the host")
	}
	t.ok(err)
	t.closing(h.Release)
	return h
}

func (t *fixture) pinnedRanges(c reprise.BufferConfig, strict bool) {
	c.Name = "device"
	b, err := t.dev.NewBuffer(c)
	t.ok(err)
	t.Cleanup(func() { t.ok(b.Release()) })
	h := t.pinned(reprise.HostBufferConfig{Size: b.Size() + 1024})
	exact := t.pinned(reprise.HostBufferConfig{Size: b.Size() + 1024, Strict: strict})
	want := pattern(1, b.Size())
	t.ok(t.rq.Write(t.ctx, b, 0, want))
	page, n := b.PageSize(), b.Size()
	for i, r := range []struct {
		off, at, n int
		direct     bool
	}{
		{0, 0, n, true}, {16, 48, n - 16, true}, {page, 16, 2*page + 1, true}, {1, 17, n - 2, false}, {page / 2, 5, page, false},
	}[:t.size(5, 3)] {
		h := h
		if r.direct {
			h = exact
		}
		copy(h.Bytes(), pattern(uint32(10+i), len(h.Bytes())))
		t.ok(t.rq.WriteFrom(t.ctx, b, r.off, h, r.at, r.n))
		copy(want[r.off:], h.Bytes()[r.at:r.at+r.n])
		what := fmt.Sprintf("%d B at %d, in host memory at %d", r.n, r.off, r.at)
		t.same(what+", written", want, t.readAll(b))
		host := pattern(uint32(20+i), len(h.Bytes()))
		copy(h.Bytes(), host)
		copy(host[r.at:], want[r.off:r.off+r.n])
		t.ok(t.rq.ReadTo(t.ctx, b, r.off, h, r.at, r.n))
		t.same(what+", read", host, h.Bytes())
	}
}

func pinnedLarge(t *fixture) {
	n := t.size(24<<20, 512<<10)
	b := t.buffer(allocator.DRAM, n, n/4)
	h := t.pinned(reprise.HostBufferConfig{Size: 2 * n, Strict: true})
	copy(h.Bytes(), pattern(7, n))
	w, err := t.rq.StartWriteFrom(t.ctx, b, 0, h, 0, n)
	t.ok(err)
	r, err := t.rq.StartReadTo(t.ctx, b, 0, h, n, n)
	t.ok(err)
	t.ok(r.Wait(t.ctx))
	done, err := w.Done()
	t.ok(err)
	if !done {
		t.Error("a read is done and the write before it isn't")
	}
	t.same("what came back", h.Bytes()[:n], h.Bytes()[n:])
}

func pinnedInOrder(t *fixture) {
	const pages = 8
	in, out := t.buffer(allocator.DRAM, pages*64, 64), t.buffer(allocator.DRAM, pages*64, 64)
	h := t.pinned(reprise.HostBufferConfig{Size: 64 << 10, Strict: true})
	const addend = 3
	x := t.load(t.addProgram("add", chip.Core{X: 1, Y: 1}, in, out, addend))
	n := t.size(20, 6)
	var reads []*reprise.Pending
	for i := range n {
		from, to := h.Bytes()[2*i*in.Size():], 2*i*in.Size()+in.Size()
		for w := 0; w < in.Size(); w += 4 {
			from[w], from[w+1], from[w+2], from[w+3] = byte(w/4), byte(i), 0, 0
		}
		_, err := t.rq.StartWriteFrom(t.ctx, in, 0, h, 2*i*in.Size(), in.Size())
		t.ok(err)
		t.ok(t.rq.Run(t.ctx, x))
		p, err := t.rq.StartReadTo(t.ctx, out, 0, h, to, in.Size())
		t.ok(err)
		reads = append(reads, p)
	}
	for i, p := range reads {
		t.ok(p.Wait(t.ctx))
		got := h.Bytes()[(2*i+1)*in.Size():][:in.Size()]
		want := make([]byte, in.Size())
		for w := 0; w < len(want); w += 4 {
			want[w], want[w+1] = byte(w/4+addend), byte(i)
		}
		t.same(fmt.Sprintf("result %d", i), want, got)
	}
}

func pinnedFree(t *fixture) {
	n := t.size(1<<20, 64<<10)
	b := t.buffer(allocator.DRAM, n, 2048)
	h := t.pinned(reprise.HostBufferConfig{Size: n, Strict: true})
	copy(h.Bytes(), pattern(3, n))
	_, err := t.rq.StartWriteFrom(t.ctx, b, 0, h, 0, n)
	t.ok(err)
	t.ok(h.Release(t.ctx))
	t.same("written by a transfer that nobody waited for", pattern(3, n), t.readAll(b))
	if err := t.rq.ReadTo(t.ctx, b, 0, h, 0, n); !errors.Is(err, reprise.ErrReleased) {
		t.Errorf("after Free: %v, want %v", err, reprise.ErrReleased)
	}
}

func pinnedCancelled(t *fixture) {
	n := t.size(1<<20, 64<<10)
	b := t.buffer(allocator.DRAM, n, 2048)
	h := t.pinned(reprise.HostBufferConfig{Size: n, Strict: true})
	t.ok(t.rq.Write(t.ctx, b, 0, pattern(4, n)))
	ctx, cancel := context.WithCancel(t.ctx)
	p, err := t.rq.StartReadTo(ctx, b, 0, h, 0, n)
	t.ok(err)
	cancel()
	if err := p.Wait(ctx); err != nil && !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	t.ok(t.rq.Wait(t.ctx))
	t.same("what the device wrote all the same", pattern(4, n), h.Bytes())
	clear(h.Bytes())
	t.ok(t.rq.ReadTo(t.ctx, b, 0, h, 0, n))
	t.same("after it", pattern(4, n), h.Bytes())
}

func pinnedBetweenQueues(t *fixture) {
	const n = 32 << 10
	q, e := t.both(), t.dev.NewEvent("delivered")
	in, out := t.buffer(allocator.DRAM, n, 2048), t.buffer(allocator.DRAM, n, 1024)
	h := t.pinned(reprise.HostBufferConfig{Size: 3 * n, Strict: true})
	for i := range t.size(20, 4) {
		first, second := q[i%2], q[1-i%2]
		want := pattern(uint32(i), n)
		copy(h.Bytes(), want)
		_, err := first.StartWriteFrom(t.ctx, in, 0, h, 0, n)
		t.ok(err)
		_, err = first.StartReadTo(t.ctx, in, 0, h, n, n)
		t.ok(err)
		_, err = second.StartWriteFrom(t.ctx, out, 0, h, 2*n, n) // has nothing to do with them
		t.ok(err)
		t.follows(second, first, e)
		t.ok(second.WriteFrom(t.ctx, out, 0, h, n, n))
		t.same(fmt.Sprintf("round %d", i), want, t.readAll(out))
	}
}
