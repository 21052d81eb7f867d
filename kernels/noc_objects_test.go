package kernels_test

import (
	"bytes"
	"testing"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/kernels"
)

func TestNocObjects(t *testing.T) {
	onBackends(t, func(t *testing.T, b *bench) {
		const n, page = 5, 2048
		q := b.dev.Queue(0)
		data := random(bf16, n, 31).data
		cores := []chip.Range{chip.Single(0, 0)}
		for _, defines := range [][]string{nil, {"NOC_OBJECTS"}} {
			p := &reprise.Program{
				Name: "copy", CircularBuffers: []reprise.CircularBuffer{{Index: 0, Cores: cores, PageSize: page, Pages: 2}},
			}
			for i, path := range []string{"copy_in.cpp", "copy_out.cpp"} {
				buf := b.buffer(p, path, page, n)
				on := []chip.Processor{chip.BRISC, chip.NCRISC}[i]
				im, err := kernels.Compile(b.ctx, kernels.Source{
					Path: "testdata/compute/examples/" + path, Arch: b.dev.Arch(), Processors: []chip.Processor{on},
					CompileArgs: []uint32{2, page}, Defines: defines, // interleaved in DRAM
				})
				b.must(err)
				p.Kernels = append(p.Kernels, kernel(path, im, on, cores, buf.Addr(), n))
			}
			b.must(q.Write(b.ctx, p.Buffers[0], 0, data))
			x := b.load(p)
			b.must(q.Run(b.ctx, x))
			got := make([]byte, len(data))
			b.must(q.Read(b.ctx, p.Buffers[1], 0, got))
			if !bytes.Equal(got, data) {
				t.Errorf("%v: the pages that were written are not those that were read", defines)
			}
			b.must(x.Release(b.ctx))
		}
	})
}
