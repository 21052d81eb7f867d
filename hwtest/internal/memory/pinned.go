package memory

import (
	"context"
	"errors"
	"fmt"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/allocator"
	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/hwtest/rig"
)

const notCopied = "what the device itself reads and writes in host memory is right to the byte, and nothing beside it changes"

func pinnedCases() (cs rig.Table) {
	rig.Pairs(&cs, "pinned memory and pages of %d in %v", notCopied, func(t *rig.T, page int, k allocator.Kind) {
		pinnedRanges(t, reprise.BufferConfig{Kind: k, Size: 7 * page, PageSize: page}, page%16 == 0)
	}, []int{16, 100, 2048, 5008}, kinds)
	for _, s := range []allocator.ShardSpec{
		shards(allocator.HeightSharded, []int{12, 1}, []int{2, 1}, 3, 2), shards(allocator.BlockSharded, []int{4, 6}, []int{2, 2}, 3, 2),
	} {
		cs.Add(fmt.Sprintf("pinned memory and %v pages", s.Layout), notCopied, func(t *rig.T) {
			pinnedRanges(t, reprise.BufferConfig{Kind: allocator.L1, PageSize: 256, Sharding: &s}, true)
		})
	}
	cs.Add("pinned memory, large", "a transfer without a copy may be larger than the queue's own memory", pinnedLarge)
	cs.Add("pinned memory in the order of the queue", "transfers with pinned memory keep their place in the queue", pinnedInOrder)
	cs.Add("pinned memory given up in time", "Free waits for transfers that the caller hasn't waited for", pinnedFree)
	cs.Add("pinned memory and a context that ends", "a wait ends with its context, and the queue goes on", pinnedCancelled)
	return cs
}

// PinnedBetweenQueues are the cases of pinned memory on two queues.
func PinnedBetweenQueues() (cs rig.Table) {
	cs.Add("pinned memory from queue to queue", "one queue fetches what another put into host memory before an event", pinnedBetweenQueues)
	return cs
}

// direct is pinned memory that transfers must not copy.
func direct(t *rig.T, n int) *reprise.HostBuffer {
	return t.Pinned(reprise.HostBufferConfig{Size: n, Strict: true})
}

func pinnedRanges(t *rig.T, c reprise.BufferConfig, strict bool) {
	c.Name = "device"
	b := t.BufferOf(c)
	h := t.Pinned(reprise.HostBufferConfig{Size: b.Size() + 1024})
	exact := t.Pinned(reprise.HostBufferConfig{Size: b.Size() + 1024, Strict: strict})
	want := t.Fill(b, 1)
	page, n := b.PageSize(), b.Size()
	for i, r := range []struct {
		off, at, n int
		direct     bool
	}{
		{0, 0, n, true}, {16, 48, n - 16, true}, {page, 16, 2*page + 1, true}, {1, 17, n - 2, false}, {page / 2, 5, page, false},
	}[:t.Size(5, 3)] {
		h := h
		if r.direct {
			h = exact
		}
		copy(h.Bytes(), rig.Pattern(10+i, len(h.Bytes())))
		t.OK(t.Queue.WriteFrom(t.Ctx, b, r.off, h, r.at, r.n))
		copy(want[r.off:], h.Bytes()[r.at:r.at+r.n])
		t.Holds(b, want, "written: %+v", r)
		host := rig.Pattern(20+i, len(h.Bytes()))
		copy(h.Bytes(), host)
		copy(host[r.at:], want[r.off:r.off+r.n])
		t.OK(t.Queue.ReadTo(t.Ctx, b, r.off, h, r.at, r.n))
		t.Same(host, h.Bytes(), "read: %+v", r)
	}
}

func pinnedLarge(t *rig.T) {
	n := t.Size(24<<20, 512<<10)
	b := t.DRAMBuffer(n, n/4)
	h := direct(t, 2*n)
	copy(h.Bytes(), rig.Pattern(7, n))
	w, err := t.Queue.StartWriteFrom(t.Ctx, b, 0, h, 0, n)
	t.OK(err)
	r, err := t.Queue.StartReadTo(t.Ctx, b, 0, h, n, n)
	t.OK(err)
	t.WaitFor(r)
	done, err := w.Done()
	t.OK(err)
	if !done {
		t.Error("a read is done and the write before it isn't")
	}
	t.Same(h.Bytes()[:n], h.Bytes()[n:], "what came back")
}

func pinnedInOrder(t *rig.T) {
	const pages = 8
	in, out := t.DRAMBuffer(pages*64, 64), t.DRAMBuffer(pages*64, 64)
	h := direct(t, 64<<10)
	const addend = 3
	x := t.Load(t.AddProgram("add", chip.Core{X: 1, Y: 1}, in, out, addend))
	n := t.Size(20, 6)
	var reads []*reprise.Pending
	for i := range n {
		to := 2*i*in.Size() + in.Size()
		copy(h.Bytes()[2*i*in.Size():], numbered(in.Size(), i, 0))
		_, err := t.Queue.StartWriteFrom(t.Ctx, in, 0, h, 2*i*in.Size(), in.Size())
		t.OK(err)
		t.Start(x)
		p, err := t.Queue.StartReadTo(t.Ctx, out, 0, h, to, in.Size())
		t.OK(err)
		reads = append(reads, p)
	}
	for i, p := range reads {
		t.WaitFor(p)
		got := h.Bytes()[(2*i+1)*in.Size():][:in.Size()]
		t.Same(numbered(in.Size(), i, addend), got, "result %d", i)
	}
}

func numbered(n, round, plus int) []byte {
	return rig.MakeWords(n, func(i int) uint32 { return uint32(i | round<<8 + plus) })
}

func pinnedFree(t *rig.T) {
	n := t.Size(1<<20, 64<<10)
	b := t.DRAMBuffer(n, 2048)
	h := direct(t, n)
	copy(h.Bytes(), rig.Pattern(3, n))
	_, err := t.Queue.StartWriteFrom(t.Ctx, b, 0, h, 0, n)
	t.OK(err)
	t.Release(h)
	t.Holds(b, rig.Pattern(3, n), "written by a transfer without a wait")
	t.Fails("after Free", t.Queue.ReadTo(t.Ctx, b, 0, h, 0, n), reprise.ErrReleased)
}

func pinnedCancelled(t *rig.T) {
	n := t.Size(1<<20, 64<<10)
	b := t.DRAMBuffer(n, 2048)
	h := direct(t, n)
	t.Write(b, rig.Pattern(4, n))
	ctx, cancel := context.WithCancel(t.Ctx)
	p, err := t.Queue.StartReadTo(ctx, b, 0, h, 0, n)
	t.OK(err)
	cancel()
	if err := p.Wait(ctx); err != nil && !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	t.Wait()
	t.Same(rig.Pattern(4, n), h.Bytes(), "what the device wrote all the same")
	clear(h.Bytes())
	t.OK(t.Queue.ReadTo(t.Ctx, b, 0, h, 0, n))
	t.Same(rig.Pattern(4, n), h.Bytes(), "after it")
}

func pinnedBetweenQueues(t *rig.T) {
	const n = 32 << 10
	q, e := t.Both(), t.Dev.NewEvent("delivered")
	in, out := t.DRAMBuffer(n, 2048), t.DRAMBuffer(n, 1024)
	h := direct(t, 3*n)
	for i := range t.Size(20, 4) {
		first, second := q[i%2], q[1-i%2]
		want := rig.Pattern(i, n)
		copy(h.Bytes(), want)
		_, err := first.StartWriteFrom(t.Ctx, in, 0, h, 0, n)
		t.OK(err)
		_, err = first.StartReadTo(t.Ctx, in, 0, h, n, n)
		t.OK(err)
		_, err = second.StartWriteFrom(t.Ctx, out, 0, h, 2*n, n) // has nothing to do with them
		t.OK(err)
		t.Follows(second, first, e)
		t.OK(second.WriteFrom(t.Ctx, out, 0, h, n, n))
		t.Holds(out, want, "round %d", i)
	}
}
