package kernels_test

import (
	"fmt"
	"math"
	"testing"

	"github.com/reprise-tt/reprise/kernels"
	"github.com/reprise-tt/reprise/sim/emu/tensix/arith"
)

func (b *bench) rows(action int, in pages, out kernels.Format, wide bool, n int, args ...uint32) []byte {
	b.t.Helper()
	src := source("rows.cpp", wide, fmt.Sprintf("ACTION=%d", action))
	src.Formats = map[int]kernels.Format{0: in.format, 16: out}
	if wide && in.format == fp32 {
		src.UnpackToDst = []int{0}
	}
	return b.runFormats(src, []pages{in}, out, n, args...)
}

func TestComputeTilize(t *testing.T) {
	onBackends(t, func(t *testing.T, b *bench) {
		for _, tt := range []struct {
			format      kernels.Format
			wide        bool
			rows, tiles int
		}{
			{bf16, false, 1, 1},
			{bf16, false, 2, 3},
			{bf16, false, 1, 8},
			{fp16, false, 2, 3},
			{fp32, true, 2, 3},
		} {
			n := tt.rows * tt.tiles
			in := random(tt.format, n, 11)
			size, columns := tt.format.TileBytes()/arith.TileData, tt.tiles*arith.TileSide
			data := make([]string, len(in.data)/size) // a datum each
			for i := range data {
				data[i] = string(in.data[i*size : (i+1)*size])
			}
			tiled, matrix := make([]string, len(data)), make([]string, len(data))
			arith.Tilize(tiled, data, columns)
			arith.Untilize(matrix, data, columns)
			for action, want := range map[int][]string{0: tiled, 1: matrix, 3: matrix} {
				if action == 3 && tt.tiles != 3 {
					continue
				}
				got := b.rows(action, in, tt.format, tt.wide, n, uint32(tt.rows), uint32(tt.tiles))
				var all []byte
				for _, datum := range want {
					all = append(all, datum...)
				}
				b.same(fmt.Sprintf("action %d of %d by %d tiles of %v", action, tt.rows, tt.tiles, tt.format), got, all, tt.format)
			}
		}
	})
}

func TestComputePackAccumulate(t *testing.T) {
	const rows, tiles = 2, 3
	onBackends(t, func(t *testing.T, b *bench) {
		for _, tt := range []struct {
			format kernels.Format
			wide   bool
			bound  float64
		}{{bf16, false, 0x1p-7}, {fp32, true, 0x1p-22}} {
			in := random(tt.format, rows*tiles, 12)
			bits := b.rows(2, in, tt.format, tt.wide, rows, rows, tiles)
			b.everywhere(fmt.Sprint("sums in L1 of ", tt.format), bits)
			values, got := plain(tt.format, in.data), plain(tt.format, bits)
			for i, v := range got {
				want := 0.0
				for k := range tiles {
					want += max(0, values[(i/arith.TileData*tiles+k)*arith.TileData+i%arith.TileData])
				}
				if math.Abs(v-want) > want*tt.bound {
					t.Fatalf("%v: datum %d is %v, want %v", tt.format, i, v, want)
				}
			}
		}
	})
}
