package reprise_test

import (
	"bytes"
	"testing"

	"pgregory.net/rapid"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/allocator"
	"github.com/reprise-tt/reprise/chip"
)

// Any series of transfers by slices and by pinned memory, strict or not, on any layout, leaves in
// the buffer and in host memory what the same copies between slices leave, or is refused and leaves
// all as it was.
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
