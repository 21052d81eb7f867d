package ops_test

import (
	"fmt"
	"testing"

	"github.com/reprise-tt/reprise/mesh"
	"github.com/reprise-tt/reprise/ops"
	"github.com/reprise-tt/reprise/sim"
	"github.com/reprise-tt/reprise/sim/emu/tensix/arith"
)

func TestCollectivesOnTheEngines(t *testing.T) {
	for _, c := range []struct {
		machine func(...sim.Option) *sim.Machine
		arch    arith.Arch
		shape   mesh.Shape
		line    []int // chips in the order of the line
		dtype   ops.DataType
	}{
		{sim.N300, arith.Wormhole, mesh.Shape{1, 2}, []int{0, 1}, ops.BFloat16}, // one chip has no PCI interface
		{sim.T3000, arith.Wormhole, mesh.Shape{2, 2}, []int{0, 1, 3, 2}, ops.Float32},
		{sim.T3000, arith.Wormhole, mesh.Shape{2, 4}, []int{0, 1, 2, 3, 7, 6, 5, 4}, ops.BFloat16},
		{sim.P300, arith.Blackhole, mesh.Shape{1, 2}, []int{0, 1}, ops.Float32},
	} {
		m := c.machine()
		t.Run(fmt.Sprintf("%v %v %v", m, c.shape, c.dtype), func(t *testing.T) {
			b, e := openMesh(t, m, c.shape), engines{c.arch}
			n := len(c.line)
			add := func(own, arrived *plain) *plain { return e.add(own, arrived) }
			dims := [4]int{n, 1, 32, 40} // two tiles in each chip's slice
			parts, hosts := make([]*plain, n), make([]*ops.Host, n)
			for place, chip := range c.line {
				parts[place] = normal(dims, c.dtype, uint64(place))
				v := make([]float32, len(parts[place].v))
				for i := range v {
					v[i] = float32(parts[place].v[i])
				}
				var err error
				hosts[chip], err = ops.NewHost(dims[:], c.dtype, v)
				b.must(err)
			}
			x, err := b.Mesh.ToDevice(b.ctx, hosts, ops.Tile, dram)
			b.must(err)
			// slices are the sums that the slice of each place has.
			slices := func(scatter bool) (of []*plain) {
				ring := n > 2
				for k := range n {
					var sum *plain
					switch {
					case ring:
						sum = parts[(k+1)%n]
						for i := 2; i <= n; i++ {
							sum = add(parts[(k+i)%n], sum)
						}
					case scatter:
						sum = parts[0]
						for i := 1; i <= k; i++ {
							sum = add(parts[i], sum)
						}
						if k < n-1 {
							rest := parts[n-1]
							for i := n - 2; i > k; i-- {
								rest = add(parts[i], rest)
							}
							sum = add(sum, rest)
						}
					default:
						sum = parts[0]
						for _, p := range parts[1:] {
							sum = add(p, sum)
						}
					}
					of = append(of, slice(sum, [4]int{k}, [4]int{k + 1, dims[1], dims[2], dims[3]}))
				}
				return of
			}
			check := func(what string, got *ops.Host, want []float64) {
				t.Helper()
				var v []float64
				for _, x := range ops.Values[float32](got) {
					v = append(v, float64(x))
				}
				equal(t, want, v, what)
			}
			sum, err := b.AllReduce(b.ctx, x)
			b.must(err)
			got, err := b.Mesh.ToHost(b.ctx, sum)
			b.must(err)
			var all []float64
			for _, s := range slices(false) {
				all = append(all, s.v...)
			}
			for chip, h := range got {
				check(fmt.Sprint("all_reduce on chip ", chip), h, all)
			}
			scattered, err := b.ReduceScatter(b.ctx, x)
			b.must(err)
			got, err = b.Mesh.ToHost(b.ctx, scattered)
			b.must(err)
			for place, s := range slices(true) {
				check(fmt.Sprint("reduce_scatter at place ", place), got[c.line[place]], s.v)
			}
			for _, x := range []*ops.MeshTensor{x, sum, scattered} {
				b.must(b.Mesh.Deallocate(b.ctx, x))
			}
			for i := range m.Spec().Chips {
				if c := m.Chip(i); c != nil && c.Fault() != nil {
					t.Errorf("chip %d: %v", i, c.Fault())
				}
			}
		})
	}
}
