package mesh_test

import (
	"context"
	"encoding/binary"
	"errors"
	"testing"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/allocator"
	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/kernels"
	"github.com/reprise-tt/reprise/mesh"
	"github.com/reprise-tt/reprise/sim"
)

// Arguments beside the kernels.
func TestParamOfEachChip(t *testing.T) {
	for _, runs := range []int{1, 3} {
		b := open(t, sim.P300(), mesh.Shape{1, 2}, mesh.WithDevice(reprise.WithHangTimeout(2e9)))
		g := b.mesh.Chip(0, 0).Device.Grid()
		out, err := b.mesh.NewBuffer(mesh.BufferConfig{BufferConfig: reprise.BufferConfig{Kind: allocator.L1, Size: 64 * g.Size(), PageSize: 64,
			Name: "out"}})
		b.must(err)
		load := func(value uint32) *mesh.Executable {
			return b.load("wide", mesh.Part{Program: func(c *mesh.Chip) (*reprise.Program, error) {
				im, err := kernels.Prebuilt(c.Device.Arch(), kernels.Store)
				return &reprise.Program{Name: "wide", Buffers: []*reprise.Buffer{out.On(c)}, Kernels: []reprise.Kernel{{
					Name: "store", Image: im, Processor: chip.BRISC, Cores: []chip.Range{g}, Common: []uint32{0},
					Args: func(k chip.Core) []uint32 {
						a := []uint32{out.On(c).Addr(), 16}
						for len(a) < 64 {
							a = append(a, value)
						}
						return a
					},
				}}}, err
			}})
		}
		x, y := load(7), load(9)
		trace, err := b.queue.Capture(b.ctx, "with", func(_ context.Context, r *mesh.Recorder) error {
			var errs []error
			for range runs {
				errs = append(errs, r.Run(x))
			}
			return errors.Join(append(errs, r.Run(y), r.Param(y, "n", reprise.Arg{Kernel: "store", Index: 1}))...)
		})
		b.must(err)
		b.must(trace.Replay(b.ctx))
		for _, c := range b.mesh.Chips() {
			if err := c.Device.Queue(0).Wait(b.ctx); err != nil {
				t.Errorf("%d runs: chip %v: %v", runs, c.Coord, err)
				continue
			}
			got := make([]byte, 64*g.Size())
			b.must(c.Device.Queue(0).Read(b.ctx, out.On(c), 0, got))
			for i := 0; i < len(got); i += 64 {
				if v := binary.LittleEndian.Uint32(got[i:]); v != 9 {
					t.Errorf("%d runs: chip %v: core %d has %#x, want 9", runs, c.Coord, i/64, v)
					break
				}
			}
		}
	}
}
