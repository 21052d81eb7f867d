package hwtest

import (
	"errors"
	"fmt"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/allocator"
	"github.com/reprise-tt/reprise/dispatch"
)

func bufferCases() []testCase {
	var cs []testCase
	for _, k := range []allocator.Kind{allocator.DRAM, allocator.L1} {
		for _, size := range []int{1, 4, 15, 16, 32, 48, 64, 100, 1000, 2048, 4096, 4097, 64 << 10, 200 << 10} {
			for _, pages := range []int{1, 13, 150} {
				if size*pages > 8<<20 || k == allocator.L1 && pages > 100 && size > 4097 {
					continue
				}
				cs = append(cs, testCase{
					name:     fmt.Sprintf("%v %d pages of %d", k, pages, size),
					protects: "what is written to a buffer is read from it, whatever its page",
					fn:       func(t *fixture) { writeRead(t, k, size, pages) },
				})
			}
		}
		for _, size := range []int{16, 100, 2048, 70_000} {
			cs = append(cs, testCase{
				name:     fmt.Sprintf("%v part of pages of %d", k, size),
				protects: "writing or reading a range of pages touches exactly that range",
				fn:       func(t *fixture) { partial(t, k, size) },
			})
		}
	}
	return append(cs, []testCase{
		{name: "several MiB", protects: "transfers much larger than the queue's rings come through whole", fn: severalMiB},
		{name: "neighbours", protects: "buffers beside each other don't touch each other", fn: neighbours},
		{name: "write after write", protects: "writes to one buffer land in order, without waits between them", fn: writeAfterWrite},
		{name: "outside of the buffer", protects: "transfers beyond a buffer are a *TransferError", fn: transferErrors},
		{name: "empty transfers", protects: "a transfer of nothing does nothing", fn: emptyTransfers},
		{name: "out of memory", protects: "what doesn't fit is an *OutOfMemoryError, and memory can be allocated to the last byte", fn: outOfMemory},
		{name: "impossible buffers", protects: "sizes and pages that make no buffer are refused", fn: impossibleBuffers},
		{name: "freed buffer", protects: "a freed buffer isn't used, and its memory is handed out again", fn: freedBuffer},
		{name: "held by a program", protects: "a loaded program keeps its buffers' memory", fn: heldByProgram},
		{name: "circular buffers beside buffers", protects: "circular buffers and L1 buffers never overlap", fn: circularBesideBuffers},
		{name: "many allocations", protects: "hundreds of buffers come and go without a byte lost", fn: manyAllocations},
	}...)
}

func writeRead(t *fixture, k allocator.Kind, size, pages int) {
	page := size
	if pages == 1 {
		page = 0 // then the buffer is one page
	}
	b := t.buffer(k, size*pages, page)
	if b.Size() != size*pages || b.PageSize() != size {
		t.Errorf("%d B in pages of %d B", b.Size(), b.PageSize())
	}
	for i := range 2 {
		want := pattern(uint32(size*pages+i), b.Size())
		t.ok(t.rq.Write(t.ctx, b, 0, want))
		t.same("read back", want, t.readAll(b))
	}
}

func partial(t *fixture, k allocator.Kind, size int) {
	const pages = 37
	b := t.buffer(k, size*pages, size)
	want := pattern(1, b.Size())
	t.ok(t.rq.Write(t.ctx, b, 0, want))
	for i, r := range [][2]int{{0, 1}, {36, 1}, {1, 35}, {7, 9}, {12, 12}, {11, 25}, {0, 37}} {
		off, n := r[0]*size, r[1]*size
		if off+n > len(want) {
			n = len(want) - off
		}
		data := pattern(uint32(i+2), n)
		t.ok(t.rq.Write(t.ctx, b, off, data))
		copy(want[off:], data)
		t.same(fmt.Sprintf("all after writing pages %d to %d", r[0], r[0]+r[1]), want, t.readAll(b))
		got := make([]byte, n)
		t.ok(t.rq.Read(t.ctx, b, off, got))
		t.same(fmt.Sprintf("pages %d to %d", r[0], r[0]+r[1]), data, got)
	}
}

func severalMiB(t *fixture) {
	for _, size := range []int{2048, 4096, 100_000} {
		b := t.buffer(allocator.DRAM, t.size(17<<20, 2<<20)/size*size, size)
		want := pattern(uint32(size), b.Size())
		t.ok(t.rq.Write(t.ctx, b, 0, want))
		t.same(fmt.Sprintf("pages of %d", size), want, t.readAll(b))
	}
}

func neighbours(t *fixture) {
	for _, k := range []allocator.Kind{allocator.DRAM, allocator.L1} {
		var bs []*reprise.Buffer
		for i := range 10 {
			size := []int{16, 100, 64, 4096, 33}[i%5]
			bs = append(bs, t.buffer(k, size*(20+i), size))
		}
		for round := range 2 {
			for i, b := range bs {
				t.ok(t.rq.Write(t.ctx, b, 0, pattern(uint32(100*round+i), b.Size())))
			}
			for i, b := range bs {
				t.same(fmt.Sprintf("%v buffer %d", k, i), pattern(uint32(100*round+i), b.Size()), t.readAll(b))
			}
		}
	}
}

func writeAfterWrite(t *fixture) {
	b := t.buffer(allocator.DRAM, 64*64, 64)
	for i := range 200 {
		t.ok(t.rq.Write(t.ctx, b, 0, pattern(uint32(i), b.Size())))
	}
	t.same("the last write", pattern(199, b.Size()), t.readAll(b))
}

func transferErrors(t *fixture) {
	b := t.buffer(allocator.DRAM, 1000, 100)
	before := pattern(1, 1000)
	t.ok(t.rq.Write(t.ctx, b, 0, before))
	for _, r := range [][2]int{{-100, 100}, {0, 1100}, {1000, 100}, {950, 51}, {0, 1001}, {900, 200}, {1100, 0}, {1 << 40, 100}} {
		for op, do := range map[string]func() error{
			"write": func() error { return t.rq.Write(t.ctx, b, r[0], make([]byte, r[1])) },
			"read":  func() error { return t.rq.Read(t.ctx, b, r[0], make([]byte, r[1])) },
		} {
			var e *dispatch.TransferError
			err := do()
			if !errors.As(err, &e) || e.Op != op || e.Offset != r[0] || e.Size != r[1] || e.Have != 1000 || e.Page != 0 {
				t.Errorf("%s of %d at %d: error %v (%+v)", op, r[1], r[0], err, e)
			}
			t.says(err, "reprise: "+op+` buffer "test"`, fmt.Sprintf("%d B at offset %d", r[1], r[0]), "1000 B: stay inside")
		}
	}
	t.same("untouched", before, t.readAll(b))
}

func emptyTransfers(t *fixture) {
	b := t.buffer(allocator.DRAM, 1000, 100)
	for _, off := range []int{0, 100, 1000} {
		t.ok(t.rq.Write(t.ctx, b, off, nil))
		t.ok(t.rq.Read(t.ctx, b, off, nil))
	}
	t.ok(t.rq.Wait(t.ctx))
}

func outOfMemory(t *fixture) {
	for _, k := range []allocator.Kind{allocator.DRAM, allocator.L1} {
		before := t.dev.Memory(k)
		var oom *allocator.OutOfMemoryError
		if _, err := t.dev.NewBuffer(reprise.BufferConfig{Kind: k, Size: int(before.LargestHole+64) * before.Banks,
			PageSize: int(before.LargestHole + 64), Name: "too large"}); !errors.As(err, &oom) || !errors.Is(err, reprise.ErrOutOfMemory) {
			t.Errorf("%v: error %v, want an *OutOfMemoryError", k, err)
		}
		all := t.buffer(k, int(before.LargestHole)*before.Banks, int(before.LargestHole))
		if free := t.dev.Memory(k).Free; free != before.Free-before.LargestHole {
			t.Errorf("%v: %d B free beside the largest buffer", k, free)
		}
		t.ok(all.Release())
		if after := t.dev.Memory(k); after.Allocated != before.Allocated || after.LargestHole != before.LargestHole {
			t.Errorf("%v: before %+v, after %+v", k, before, after)
		}
	}
}

func impossibleBuffers(t *fixture) {
	for name, c := range map[string]reprise.BufferConfig{
		"no size":        {Kind: allocator.DRAM},
		"negative":       {Kind: allocator.DRAM, Size: -64, PageSize: 64},
		"uneven":         {Kind: allocator.DRAM, Size: 100, PageSize: 64},
		"negative page":  {Kind: allocator.DRAM, Size: 64, PageSize: -64},
		"no such memory": {Kind: 77, Size: 64, PageSize: 64},
	} {
		before := t.allocated()
		if b, err := t.dev.NewBuffer(c); err == nil {
			t.Errorf("%s: got a buffer of %d B", name, b.Size())
			t.ok(b.Release())
		}
		if t.allocated() != before {
			t.Errorf("%s: something stays allocated", name)
		}
	}
}

func freedBuffer(t *fixture) {
	b, err := t.dev.NewBuffer(reprise.BufferConfig{Kind: allocator.DRAM, Size: 6400, PageSize: 64, Name: "freed"})
	t.ok(err)
	t.ok(b.Release())
	p := make([]byte, 64)
	for op, err := range map[string]error{"write": t.rq.Write(t.ctx, b, 0, p), "read": t.rq.Read(t.ctx, b, 0, p), "free": b.Release()} {
		if !errors.Is(err, reprise.ErrReleased) {
			t.Errorf("%s: error %v, want ErrReleased", op, err)
		}
	}
	again := t.buffer(allocator.DRAM, 6400, 64)
	if again.Addr() != b.Addr() {
		t.Errorf("the same size again is at %#x, the freed buffer was at %#x", again.Addr(), b.Addr())
	}
}

func heldByProgram(t *fixture) {
	b, err := t.dev.NewBuffer(reprise.BufferConfig{Kind: allocator.L1, Size: 64 * t.grid().Size(), PageSize: 64, Name: "held"})
	t.ok(err)
	x, err := t.dev.Load(t.ctx, t.storeProgram("holder", t.grid(), b, 1))
	t.ok(err)
	t.ok(b.Release())
	other := t.buffer(allocator.L1, 64*t.grid().Size(), 64)
	if other.Addr() == b.Addr() {
		t.Error("memory that a loaded program uses was handed out")
	}
	want := pattern(8, other.Size())
	t.ok(t.rq.Write(t.ctx, other, 0, want))
	t.runAndWait(x)
	t.same("another buffer after the program ran", want, t.readAll(other))
	t.ok(x.Release(t.ctx))
	if third := t.buffer(allocator.L1, 64*t.grid().Size(), 64); third.Addr() != b.Addr() {
		t.Errorf("after the program was closed a buffer is at %#x, want %#x", third.Addr(), b.Addr())
	}
}

func circularBesideBuffers(t *fixture) {
	free := int(t.dev.Memory(allocator.L1).LargestHole)
	size := free/2 - 64<<10
	b := t.buffer(allocator.L1, size*t.grid().Size(), size)
	prog := func(n int) *reprise.Program {
		p := t.storeProgram("cb", t.grid(), b, 1)
		addCB(t, p, 0, n&^15, 1)
		return p
	}
	x := t.load(prog(free / 3))
	before := t.allocated()
	if y, err := t.dev.Load(t.ctx, prog(free-size+4096)); err == nil {
		t.Error("circular buffers that reach into a buffer were loaded")
		t.ok(y.Release(t.ctx))
	} else if !errors.Is(err, reprise.ErrOutOfMemory) && errors.As(err, new(*dispatch.ProgramError)) {
		t.Errorf("error %v: the program isn't what is wrong", err)
	}
	if after := t.allocated(); after != before {
		t.Errorf("allocated before %v, after %v", before, after)
	}
	t.runAndWait(x)
	if hole := t.dev.Memory(allocator.L1).LargestHole; hole >= uint64(free-size) {
		t.Errorf("%d B of L1 are free although circular buffers take a third of them", hole)
	}
}

func manyAllocations(t *fixture) {
	before := t.allocated()
	var live []*reprise.Buffer
	for i := range 600 {
		size := 32 * (1 + i*i%100)
		k := []allocator.Kind{allocator.DRAM, allocator.L1}[i%2]
		b, err := t.dev.NewBuffer(reprise.BufferConfig{Kind: k, Size: size * (1 + i%5), PageSize: size, Name: "many"})
		t.ok(err)
		live = append(live, b)
		if i%3 == 2 {
			k := i * 7 % len(live)
			t.ok(live[k].Release())
			live = append(live[:k], live[k+1:]...)
		}
	}
	for _, b := range live {
		t.ok(b.Release())
	}
	if after := t.allocated(); after != before {
		t.Errorf("allocated before %v, after %v", before, after)
	}
}
