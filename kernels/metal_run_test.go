package kernels_test

import (
	"encoding/binary"
	"slices"
	"testing"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/kernels"
)

func TestLoadMetalRuns(t *testing.T) {
	for _, flags := range [][]string{{"-O2"}, {"-Os"}, {"-fno-jump-tables", "-O1", "-mcmodel=medany"}} {
		t.Run(flags[len(flags)-1], func(t *testing.T) {
			onBackends(t, func(t *testing.T, b *bench) {
				file, err := kernels.LinkMetal(b.ctx, t.TempDir(), b.dev.Arch(), flags...)
				b.must(err)
				im, err := kernels.LoadMetal(file)
				b.must(err)
				if im.Metal.LinkedAt != 0x49F0 || im.Metal.DRAMBanks != 8 || im.Metal.StoredAddresses < 3 {
					t.Errorf("%+v", im.Metal)
				}
				im.Metal = nil // it was linked with Reprise's own firmware
				b.runMetal(im)
			})
		})
	}
}

func (b *bench) runMetal(im *kernels.Image) {
	core := []chip.Range{chip.Single(0, 0)}
	p := &reprise.Program{Name: "metal", CircularBuffers: []reprise.CircularBuffer{{Index: 0, Cores: core, PageSize: 64, Pages: 1}}}
	to := b.buffer(p, "out", 64, 1)
	p.Kernels = []reprise.Kernel{
		kernel("kernel", im, chip.BRISC, core, 0),
		kernel("writer", b.prebuilt(kernels.CopyWriter), chip.NCRISC, core, to.Addr(), 0, 1, 64, 0),
	}
	x := b.load(p)
	want := []uint32{200, 25, 1, 77, 5 << 8, 25 ^ 0xFF, 11, 18, 81, 10, 42, 22, 110, 11, 1, 1}
	q := b.dev.Queue(0)
	for range 3 {
		b.must(q.Write(b.ctx, to, 0, make([]byte, 64)))
		b.must(q.Run(b.ctx, x))
		out := make([]byte, 64)
		b.must(q.Read(b.ctx, to, 0, out))
		var got []uint32
		for w := range slices.Chunk(out, 4) {
			got = append(got, binary.LittleEndian.Uint32(w))
		}
		if !slices.Equal(got, want) {
			b.t.Fatalf("got %d\nwant %d", got, want)
		}
	}
	b.must(x.Release(b.ctx))
	b.must(to.Release())
}
