package ops_test

import (
	"fmt"
	"math"
	"slices"
	"sync"
	"testing"

	"github.com/reprise-tt/reprise/ops"
)

var results sync.Map // by chip and what was computed

func (b *bench) everywhere(what string, got []float64) {
	b.Helper()
	before, _ := results.LoadOrStore(fmt.Sprint(b.dev.Arch(), " ", what), got)
	if !slices.EqualFunc(before.([]float64), got, func(x, y float64) bool { return math.Float64bits(x) == math.Float64bits(y) }) {
		b.Errorf("%s: not the result of another backend", what)
	}
}

// The bounds are 2^-11 of the sum of absolute values, and 2^-8 of the result for rounding to
// bfloat16; the 1/n of means has 2^-9 too. Of Float32 elements, sums have an error of 2^-9 of each,
// and maxima 2^-10. Over the first two dimensions the bound is 2^-20 of the sum.
func TestReductions(t *testing.T) {
	onBackends(t, func(b *bench) {
		for i, dims := range [][4]int{{1, 1, 32, 32}, {1, 2, 40, 70}, {2, 1, 100, 5}, {1, 1, 1, 300}, {3, 2, 40, 33}, {1, 5, 7, 70}} {
			for _, dt := range []ops.DataType{ops.BFloat16, ops.Float32} {
				x := normal(dims, dt, uint64(i))
				for j := range x.v {
					x.v[j] = fit(dt, 0, float32(x.v[j]-2)) // mostly negative, so that padding would be the largest
				}
				tx := b.put(x, ops.Tile, dram)
				for along, n := range dims {
					if along < 2 && i < 4 {
						continue
					}
					d, dim := dims, along-4
					d[along] = 1
					for name, f := range map[string]func(t *ops.Tensor) (*ops.Tensor, error){
						"sum":  func(t *ops.Tensor) (*ops.Tensor, error) { return b.Sum(b.ctx, t, dim) },
						"mean": func(t *ops.Tensor) (*ops.Tensor, error) { return b.Mean(b.ctx, t, dim) },
						"max":  func(t *ops.Tensor) (*ops.Tensor, error) { return b.Max(b.ctx, t, dim) },
					} {
						got, at := b.get(b.ok(f(tx))), 0
						what := fmt.Sprintf("%s of %v %v along %d", name, dt, dims, dim)
						make4(d, dt, func(n4, c, h, w int) float64 {
							sum, size, most := 0., 0., math.Inf(-1)
							from := [4]int{n4, c, h, w}
							for from[along] = range n {
								v := x.at(from[0], from[1], from[2], from[3])
								sum, size, most = sum+v, size+math.Abs(v), max(most, v)
							}
							want, tolerance := most, 0.
							switch name {
							case "mean":
								sum, size = sum/float64(n), size/float64(n)
								fallthrough
							case "sum":
								want, tolerance = sum, size/(1<<11)
								if along < 2 {
									tolerance = size / (1 << 20)
								} else if name == "mean" {
									tolerance += math.Abs(sum) / (1 << 9)
								}
								if dt == ops.BFloat16 {
									tolerance += math.Abs(sum) / (1 << 8)
								}
							}
							if dt == ops.Float32 && along >= 2 {
								tolerance += size / (1 << 9)
								if name == "max" {
									tolerance = math.Abs(want) / (1 << 10)
								}
							}
							if at < len(got) && !(math.Abs(got[at]-want) <= tolerance) {
								b.Errorf("%s: element %d is %v, want %v", what, at, got[at], want)
								at = len(got)
							}
							at++
							return 0
						})
						b.everywhere(what, got)
					}
				}
			}
		}
	})
}
