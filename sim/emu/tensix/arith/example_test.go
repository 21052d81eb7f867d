package arith_test

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/reprise-tt/reprise/sim/emu/tensix/arith"
)

// What does a Blackhole answer for the product of two bf16 tiles at full fidelity, packed to bf16?
func ExampleMath_MatmulTile() {
	left, right := make([]float32, arith.TileData), make([]float32, arith.TileData)
	for i := range left {
		left[i], right[i] = float32(i%32)/8, float32(i/32)/16
	}
	unpack := arith.Unpack{Arch: arith.Blackhole, In: arith.BF16, Out: arith.BF16}
	var a, b arith.SrcTile
	unpack.Tile(&b, bf16Tile(left))
	unpack.Tile(&a, bf16Tile(right))

	var dst arith.DstTile
	arith.Math{Arch: arith.Blackhole, A: arith.BF16, B: arith.BF16}.MatmulTile(&dst, &b, &a, arith.HiFi4)

	l1 := make([]byte, arith.BF16.TileBytes())
	pack := arith.Pack{Mid: arith.BF16, Out: arith.BF16}
	pack.Tile(l1, &dst)
	for _, at := range []struct{ row, column int }{{0, 0}, {31, 31}} {
		bits := binary.LittleEndian.Uint16(l1[2*arith.FaceOrder(at.row, at.column):])
		fmt.Println(math.Float32frombits(uint32(bits) << 16))
	}
	// Output:
	// 81.5
	// 81.5
}

func bf16Tile(matrix []float32) (l1 []byte) {
	tile := make([]float32, len(matrix))
	arith.Tilize(tile, matrix, arith.TileSide)
	for _, v := range tile {
		l1 = binary.LittleEndian.AppendUint16(l1, uint16(math.Float32bits(v)>>16))
	}
	return l1
}
