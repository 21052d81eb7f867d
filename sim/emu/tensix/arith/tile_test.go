package arith_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/reprise-tt/reprise/sim/emu/tensix/arith"
	"github.com/reprise-tt/reprise/sim/emu/tensix/internal/goldentest"
)

func TestTilesHaveFourFaces(t *testing.T) {
	for _, c := range []struct{ row, column, want int }{{0, 0, 0}, {0, 15, 15}, {1, 0, 16}, {0, 16, 256}, {16, 0, 512}, {31, 31, 1023},
		{17, 2, 530}} {
		if got := arith.FaceOrder(c.row, c.column); got != c.want {
			t.Errorf("row %d, column %d: got %d, want %d", c.row, c.column, got, c.want)
		}
	}
}

func TestUntilizeUndoesTilize(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		columns := 32 * rapid.IntRange(1, 4).Draw(t, "tiles across")
		matrix := make([]int, columns*32*rapid.IntRange(1, 3).Draw(t, "tiles down"))
		for i := range matrix {
			matrix[i] = i
		}
		tiled, back := make([]int, len(matrix)), make([]int, len(matrix))
		arith.Tilize(tiled, matrix, columns)
		arith.Untilize(back, tiled, columns)
		if diff := cmp.Diff(matrix, back); diff != "" {
			t.Fatal(diff)
		}
	})
}

func TestABlockTileHasItsExponentsFirst(t *testing.T) {
	l1 := make([]byte, bfp8.TileBytes())
	for i := range 64 {
		l1[i] = 127
		l1[64+16*i] = 0x40 // 1
	}
	u := arith.Unpack{In: bfp8, Out: bfp8}
	var tile arith.SrcTile
	u.Tile(&tile, l1)
	for i := range tile {
		if tile[i][0] != 0x3F800000 || tile[i][1] != 0 {
			t.Fatalf("row %d begins with %08x", i, tile[i][:2])
		}
	}
}

func benchmarkTile(b *testing.B, wide bool, do func(m arith.Math, dst *arith.DstTile, x, y *arith.SrcTile)) {
	l0, l1, out := benchTile(1), benchTile(2), make([]byte, bf16.TileBytes())
	u := arith.Unpack{Arch: arith.Blackhole, In: bf16, Out: bf16}
	m := arith.Math{Arch: arith.Blackhole, A: bf16, B: bf16, Wide: wide}
	p := arith.Pack{Mid: bf16, Out: bf16, Wide: wide}
	var x, y arith.SrcTile
	for b.Loop() {
		var dst arith.DstTile
		u.Tile(&x, l0)
		u.Tile(&y, l1)
		do(m, &dst, &x, &y)
		p.Tile(out, &dst)
	}
}

func BenchmarkMatmulTile(b *testing.B) {
	for _, f := range []struct {
		name     string
		fidelity arith.Fidelity
		wide     bool
	}{{"LoFi", arith.LoFi, false}, {"HiFi4", arith.HiFi4, false}, {"HiFi4Wide", arith.HiFi4, true}} {
		b.Run(f.name, func(b *testing.B) {
			benchmarkTile(b, f.wide, func(m arith.Math, dst *arith.DstTile, x, y *arith.SrcTile) { m.MatmulTile(dst, x, y, f.fidelity) })
		})
	}
}

func BenchmarkElementwiseTile(b *testing.B) {
	b.Run("Add", func(b *testing.B) {
		benchmarkTile(b, false, func(m arith.Math, dst *arith.DstTile, x, y *arith.SrcTile) { m.AddTile(dst, x, y, false) })
	})
	b.Run("Mul", func(b *testing.B) {
		benchmarkTile(b, false, func(m arith.Math, dst *arith.DstTile, x, y *arith.SrcTile) { m.MulTile(dst, x, y, arith.LoFi) })
	})
}

func benchTile(seed uint64) []byte {
	s := bitSource{goldentest.Bits(seed)}
	l1 := make([]byte, bf16.TileBytes())
	for i := 0; i < len(l1); i += 2 {
		v := s.word(1) >> 16
		l1[i], l1[i+1] = byte(v), byte(v>>8)
	}
	return l1
}
