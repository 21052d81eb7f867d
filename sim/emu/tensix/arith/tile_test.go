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
	l1 := make([]byte, arith.BFP8.TileBytes())
	for i := range 64 {
		l1[i] = 127
		l1[64+16*i] = 0x40 // 1
	}
	u := arith.Unpack{In: arith.BFP8, Out: arith.BFP8}
	var tile arith.SrcTile
	u.Tile(&tile, l1)
	for i := range tile {
		if tile[i][0] != 0x3F800000 || tile[i][1] != 0 {
			t.Fatalf("row %d begins with %08x", i, tile[i][:2])
		}
	}
}

func BenchmarkMatmulTile(b *testing.B) {
	for _, f := range []struct {
		name     string
		fidelity arith.Fidelity
		wide     bool
	}{{"LoFi", arith.LoFi, false}, {"HiFi4", arith.HiFi4, false}, {"HiFi4Wide", arith.HiFi4, true}} {
		b.Run(f.name, func(b *testing.B) {
			l0, l1, out := benchTile(1), benchTile(2), make([]byte, arith.BF16.TileBytes())
			u := arith.Unpack{Arch: arith.Blackhole, In: arith.BF16, Out: arith.BF16}
			m := arith.Math{Arch: arith.Blackhole, A: arith.BF16, B: arith.BF16, Wide: f.wide}
			p := arith.Pack{Mid: arith.BF16, Out: arith.BF16, Wide: f.wide}
			var x, y arith.SrcTile
			for b.Loop() {
				var dst arith.DstTile
				u.Tile(&x, l0)
				u.Tile(&y, l1)
				m.MatmulTile(&dst, &x, &y, f.fidelity)
				p.Tile(out, &dst)
			}
		})
	}
}

func BenchmarkElementwiseTile(b *testing.B) {
	for _, op := range []string{"Add", "Mul"} {
		b.Run(op, func(b *testing.B) {
			l0, l1, out := benchTile(1), benchTile(2), make([]byte, arith.BF16.TileBytes())
			u := arith.Unpack{Arch: arith.Blackhole, In: arith.BF16, Out: arith.BF16}
			m := arith.Math{Arch: arith.Blackhole, A: arith.BF16, B: arith.BF16}
			p := arith.Pack{Mid: arith.BF16, Out: arith.BF16}
			var x, y arith.SrcTile
			for b.Loop() {
				var dst arith.DstTile
				u.Tile(&x, l0)
				u.Tile(&y, l1)
				if op == "Add" {
					m.AddTile(&dst, &x, &y, false)
				} else {
					m.MulTile(&dst, &x, &y, arith.LoFi)
				}
				p.Tile(out, &dst)
			}
		})
	}
}

func benchTile(seed uint64) []byte {
	s := bitSource{goldentest.Bits(seed)}
	l1 := make([]byte, arith.BF16.TileBytes())
	for i := 0; i < len(l1); i += 2 {
		v := s.word(1) >> 16
		l1[i], l1[i+1] = byte(v), byte(v>>8)
	}
	return l1
}
