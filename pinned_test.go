package reprise_test

import (
	"bytes"
	"context"
	"errors"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	"pgregory.net/rapid"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/allocator"
	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/dispatch"
	"github.com/reprise-tt/reprise/sim"
)

func (b *bench) host(n int, c reprise.HostBufferConfig) *reprise.HostBuffer {
	b.Helper()
	c.Size = n
	h, err := b.dev.NewHostBuffer(c)
	b.must(err)
	return h
}

func mapped(t *testing.T, n int) []byte {
	t.Helper()
	mem, err := unix.Mmap(-1, 0, n, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Munmap(mem) })
	return mem
}

func fill(p []byte, seed int) {
	for i := range p {
		p[i] = byte(i*7 + i>>8*3 + seed)
	}
}

func TestStrictPinnedTransfers(t *testing.T) {
	onEmulators(t, func(b *bench) {
		h := b.host(64<<10, reprise.HostBufferConfig{Name: "strict", Strict: true})
		even := b.buffer(reprise.BufferConfig{Kind: allocator.DRAM, Size: 16 << 10, PageSize: 1 << 10, Name: "even"})
		odd := b.buffer(reprise.BufferConfig{Kind: allocator.DRAM, Size: 500, PageSize: 100, Name: "odd"})
		small := b.buffer(reprise.BufferConfig{Kind: allocator.DRAM, Size: 480, PageSize: 48, Name: "gaps"})
		for _, tt := range []struct {
			x          *reprise.Buffer
			off, at, n int
			part       *dispatch.DirectError
		}{
			{even, 0, 0, 16 << 10, nil},
			{even, 32, 48, 5000, nil},
			{even, 16, 8, 100, &dispatch.DirectError{Offset: 16, At: 8, Size: 100}},
			{even, 1 << 10, 4, 2 << 10, &dispatch.DirectError{Offset: 1 << 10, At: 4, Size: 2 << 10}},
			{even, 5, 5, 100, &dispatch.DirectError{Offset: 5, At: 5, Size: 11}},
			{odd, 0, 0, 100, nil},
			{odd, 0, 0, 200, &dispatch.DirectError{Offset: 100, At: 100, Size: 100}},
			{small, 0, 0, 480, nil},
		} {
			fill(h.Bytes(), 1)
			before := bytes.Clone(h.Bytes())
			for op, do := range map[string]func() error{
				"write": func() error { return b.queue.WriteFrom(b.ctx, tt.x, tt.off, h, tt.at, tt.n) },
				"read":  func() error { return b.queue.ReadTo(b.ctx, tt.x, tt.off, h, tt.at, tt.n) },
			} {
				if tt.part == nil {
					b.must(do())
					continue
				}
				var e *dispatch.DirectError
				tt.part.Op = op
				if err := do(); !errors.As(err, &e) || *e != *tt.part {
					b.Errorf("%s of %d B at %d, host %d: %v, want a part of %d B at %d", op, tt.n, tt.off, tt.at, err, tt.part.Size, tt.part.Offset)
				} else {
					b.says(err, op, tt.x.Name(), "without a copy", "modulo 16")
				}
			}
			if tt.part != nil && !bytes.Equal(before, h.Bytes()) {
				b.Error("a transfer that was refused has changed the memory")
			}
		}
	})
}

func TestPinnedMemoryMisuse(t *testing.T) {
	onEmulators(t, func(b *bench) {
		h := b.host(4096, reprise.HostBufferConfig{Name: "h"})
		other := open(b.T, sim.Wormhole()).host(4096, reprise.HostBufferConfig{Name: "foreign"})
		x := b.pages("x", 16)
		var span *dispatch.TransferError
		for name, err := range map[string]error{
			"beyond the host buffer": b.queue.ReadTo(b.ctx, x, 0, h, 4000, 100),
			"before the host buffer": b.queue.WriteFrom(b.ctx, x, 0, h, -16, 64),
			"beyond the buffer":      b.queue.WriteFrom(b.ctx, x, 1000, h, 0, 64),
		} {
			if !errors.As(err, &span) {
				b.Errorf("%s: %v", name, err)
			}
		}
		if err := b.queue.ReadTo(b.ctx, x, 0, other, 0, 64); !errors.Is(err, reprise.ErrWrongDevice) {
			b.Errorf("foreign: %v", err)
		}
		if _, err := b.queue.StartWriteFrom(b.ctx, x, 0, nil, 0, 64); err == nil {
			b.Error("no host buffer and no error")
		}
		if _, err := b.dev.NewHostBuffer(reprise.HostBufferConfig{Memory: make([]byte, 100)}); err == nil {
			b.Error("memory that is no whole pages was pinned")
		}
		b.must(h.Release(b.ctx))
		for name, err := range map[string]error{
			"read": b.queue.ReadTo(b.ctx, x, 0, h, 0, 64), "write": b.queue.WriteFrom(b.ctx, x, 0, h, 0, 64), "free": h.Release(b.ctx),
		} {
			if !errors.Is(err, reprise.ErrReleased) {
				b.Errorf("%s after Free: %v", name, err)
			}
		}
		_, err := b.queue.Capture(b.ctx, "captured", func(ctx context.Context, _ *reprise.Recorder) error {
			return b.queue.ReadTo(ctx, x, 0, b.host(4096, reprise.HostBufferConfig{}), 0, 64)
		})
		if !errors.Is(err, reprise.ErrInCapture) {
			b.Errorf("in a capture: %v", err)
		}
		for n := 0; ; n++ {
			if _, err := b.dev.NewHostBuffer(reprise.HostBufferConfig{Size: 4096}); err != nil {
				if n == 0 || !errors.Is(err, reprise.ErrBusy) {
					b.Errorf("after %d more: %v", n, err)
				}
				break
			}
		}
	})
}

func TestPinnedMemorySurvivesRecover(t *testing.T) {
	onEmulators(t, func(b *bench) {
		h := b.host(64<<10, reprise.HostBufferConfig{Name: "h", Strict: true})
		x := b.buffer(reprise.BufferConfig{Kind: allocator.DRAM, Size: 64 << 10, PageSize: 1 << 10, Name: "x"})
		fill(h.Bytes(), 5)
		want := bytes.Clone(h.Bytes())
		p, err := b.queue.StartWriteFrom(b.ctx, x, 0, h, 0, len(h.Bytes()))
		b.must(err)
		b.must(b.dev.Recover(b.ctx))
		if err := p.Wait(b.ctx); err != nil && !errors.Is(err, reprise.ErrRecovering) {
			b.Errorf("a transfer of before: %v", err)
		}
		b.must(b.queue.WriteFrom(b.ctx, x, 0, h, 0, len(h.Bytes())))
		clear(h.Bytes())
		b.must(b.queue.ReadTo(b.ctx, x, 0, h, 0, len(h.Bytes())))
		if !bytes.Equal(h.Bytes(), want) {
			b.Error("the data differ")
		}
	})
}

// allocatedBy counts what functions with a name have allocated: an emulated device allocates too.
func allocatedBy(name string) (objects int64) {
	runtime.GC() // the profile is that of the last collection but one
	runtime.GC()
	records := make([]runtime.MemProfileRecord, 10000)
	n, ok := runtime.MemProfile(records, true)
	if !ok {
		panic("more than 10000 places allocate")
	}
	for _, r := range records[:n] {
		frames := runtime.CallersFrames(r.Stack())
		for more := true; more; {
			var f runtime.Frame
			if f, more = frames.Next(); strings.Contains(f.Function, name) {
				objects += r.AllocObjects
				break
			}
		}
	}
	return objects
}

func TestPinnedTransfersAllocate(t *testing.T) {
	defer func(rate int) { runtime.MemProfileRate = rate }(runtime.MemProfileRate)
	runtime.MemProfileRate = 1
	// A long wait checks the device, which allocates, after an eighth of the hang timeout.
	b := open(t, sim.Blackhole(), reprise.WithHangTimeout(time.Hour))
	h := b.host(64<<10, reprise.HostBufferConfig{Name: "h", Strict: true})
	x := b.buffer(reprise.BufferConfig{Kind: allocator.DRAM, Size: 64 << 10, PageSize: 1 << 10, Name: "x"})
	sharded := b.buffer(reprise.BufferConfig{Kind: allocator.L1, PageSize: 1 << 10, Sharding: heights(64, 16, 4), Name: "sharded"})
	for _, tt := range []struct {
		name string
		want int64
		do   func() error
	}{
		{"ReadTo", 0, func() error { return b.queue.ReadTo(b.ctx, x, 0, h, 0, len(h.Bytes())) }},
		{"WriteFrom", 0, func() error { return b.queue.WriteFrom(b.ctx, x, 0, h, 0, len(h.Bytes())) }},
		{"WriteFrom of part of a page", 0, func() error { return b.queue.WriteFrom(b.ctx, x, 32, h, 64, 100) }},
		{"ReadTo of a sharded buffer", 0, func() error { return b.queue.ReadTo(b.ctx, sharded, 0, h, 0, len(h.Bytes())) }},
		{"WriteFrom to a sharded buffer", 0, func() error { return b.queue.WriteFrom(b.ctx, sharded, 0, h, 0, len(h.Bytes())) }},
		{"StartReadTo", 1, func() error {
			p, err := b.queue.StartReadTo(b.ctx, x, 0, h, 0, len(h.Bytes()))
			if err != nil {
				return err
			}
			return p.Wait(b.ctx)
		}},
	} {
		const times = 50
		b.must(tt.do())
		before := allocatedBy("reprise.(*Queue)")
		for range times {
			b.must(tt.do())
		}
		got := (allocatedBy("reprise.(*Queue)") - before) / times // what comes once, such as memory that grows, doesn't count
		if got > tt.want {
			t.Errorf("%s: %v allocations, want %v", tt.name, got, tt.want)
		}
	}
}

func TestPinnedTransfersAreCopies(t *testing.T) {
	onEmulators(t, func(b *bench) {
		const room = 96 << 10
		hosts := []*reprise.HostBuffer{
			b.host(room, reprise.HostBufferConfig{Name: "any"}), b.host(room, reprise.HostBufferConfig{Name: "strict", Strict: true}),
		}
		shard := &allocator.ShardSpec{Layout: allocator.BlockSharded, Tensor: []int{4, 6}, Shard: []int{2, 2},
			Cores: []chip.Range{chip.Grid(3, 2)}}
		seed := 0
		rapid.Check(b.T, func(r *rapid.T) {
			c := reprise.BufferConfig{Name: "x", Kind: rapid.SampledFrom([]allocator.Kind{allocator.DRAM, allocator.L1}).Draw(r, "kind")}
			c.PageSize = rapid.SampledFrom([]int{16, 48, 64, 100, 1024, 2064, 2048, 3000}).Draw(r, "page")
			if rapid.Bool().Draw(r, "sharded") {
				c.Kind, c.Sharding = allocator.L1, shard
			} else {
				c.Size = c.PageSize * rapid.IntRange(1, 24).Draw(r, "pages")
			}
			x, err := b.dev.NewBuffer(c)
			b.must(err)
			defer func() { b.must(x.Release()) }()
			n := x.Size()
			device := make([]byte, n)
			b.must(b.queue.Write(b.ctx, x, 0, device))
			for range rapid.IntRange(1, 6).Draw(r, "transfers") {
				h := rapid.SampledFrom(hosts).Draw(r, "host")
				off := rapid.IntRange(0, n).Draw(r, "offset")
				size := rapid.IntRange(0, n-off).Draw(r, "size")
				at := rapid.IntRange(0, room-size).Draw(r, "at")
				if rapid.Bool().Draw(r, "aligned") {
					at = at&^15 | off%16
					at = min(at, (room-size)&^15)
				}
				seed++
				fill(h.Bytes(), seed)
				host := bytes.Clone(h.Bytes())
				if rapid.Bool().Draw(r, "write") {
					if err = b.queue.WriteFrom(b.ctx, x, off, h, at, size); err == nil {
						copy(device[off:off+size], host[at:])
					}
				} else if err = b.queue.ReadTo(b.ctx, x, off, h, at, size); err == nil {
					copy(host[at:at+size], device[off:])
				}
				if err != nil && h.Name() != "strict" {
					r.Fatalf("%d B at %d, host %d: %v", size, off, at, err)
				}
				if !bytes.Equal(host, h.Bytes()) {
					r.Fatalf("%d B at %d, host %d: host memory differs (%v)", size, off, at, err)
				}
				got := make([]byte, n)
				b.must(b.queue.Read(b.ctx, x, 0, got))
				if !bytes.Equal(device, got) {
					r.Fatalf("%d B at %d, host %d: the buffer differs (%v)", size, off, at, err)
				}
			}
		})
	})
}
