package arith

// A tile has 32 rows of 32 data, in four faces of 16 by 16: upper left, upper right, lower left,
// lower right. Registers and L1 hold face after face, each in row-major order.
const (
	TileSide = 32
	TileData = TileSide * TileSide
	faceSide = 16
	tileRows = TileData / faceSide
)

// SrcTile is a bank of SrcA or SrcB that holds a tile: row i of face f is row 16f+i.
type SrcTile [tileRows]Row

// DstTile is a tile in Dst. Lo has the lower halves if Dst has 32 bits; otherwise it is unused.
type DstTile struct{ Hi, Lo [tileRows]DstRow }

// Fidelity is the number of phases of a multiplication.
type Fidelity uint8

const (
	LoFi  Fidelity = 1 + iota // upper mantissa bits of both
	HiFi2                     // and lower ones of SrcA
	HiFi3                     // and lower ones of SrcB
	HiFi4                     // all bits
)

// TileBytes returns the size of a tile in L1. A block format's 64 exponents come first.
func (f Format) TileBytes() int {
	n := TileData * f.Bits() / 8
	if f.BFP() {
		n += tileRows
	}
	return n
}

// Tile unpacks a tile of TileBytes bytes of L1.
func (u *Unpack) Tile(dst *SrcTile, l1 []byte) {
	var exponents []byte
	if u.In.BFP() {
		exponents, l1 = l1[:tileRows], l1[tileRows:]
	}
	for i := range dst {
		u.Elements(dst[i][:], l1[2*i*u.In.Bits():], 0, exponents, faceSide*i)
	}
}

// Tile packs a tile to TileBytes bytes of L1.
func (p *Pack) Tile(l1 []byte, src *DstTile) {
	var exponents []byte
	if p.Out.BFP() {
		exponents, l1 = l1[:tileRows], l1[tileRows:]
	}
	var values Row
	for i := range src.Hi {
		p.Row(&values, &src.Hi[i], &src.Lo[i])
		at := l1[2*i*p.Out.Bits():]
		if exponents != nil {
			exponents[i] = p.Out.StoreBlock(at, &values)
		} else {
			p.Store(at, values[:])
		}
	}
}

// MatmulTile adds the product of the tile in SrcB, on the left, and that in SrcA to a tile of Dst,
// by the 16 MVMULs of each phase: phases outermost, then the two faces along K. It ignores m.Phase.
func (m Math) MatmulTile(dst *DstTile, b, a *SrcTile, f Fidelity) {
	var right [4]MatrixA
	var left [tileRows]RowB
	for face := range right {
		m.DecodeA(&right[face], (*[16]Row)(a[faceSide*face:]))
	}
	m.DecodeRows(left[:], b[:])
	for m.Phase = 0; m.Phase < uint8(f); m.Phase++ {
		for k := range 2 {
			for face := range 4 {
				row, column := face>>1, face&1
				to, from := faceSide*face, faceSide*(2*row+k)
				m.MulRows(dst.Hi[to:], dst.Lo[to:], &right[2*k+column], left[from:from+faceSide])
			}
		}
	}
}

// MulTile adds the elementwise products of two tiles to a tile of Dst. It ignores m.Phase.
func (m Math) MulTile(dst *DstTile, a, b *SrcTile, f Fidelity) {
	for m.Phase = 0; m.Phase < uint8(f); m.Phase++ {
		m.ElwMulRows(dst.Hi[:], dst.Lo[:], a[:], b[:])
	}
}

// AddTile writes the elementwise sums of two tiles to a tile of Dst, or adds them if accumulate.
func (m Math) AddTile(dst *DstTile, a, b *SrcTile, accumulate bool) {
	m.ElwAddRows(dst.Hi[:], dst.Lo[:], a[:], b[:], accumulate)
}

// SubTile is [Math.AddTile] for differences.
func (m Math) SubTile(dst *DstTile, a, b *SrcTile, accumulate bool) {
	m.ElwSubRows(dst.Hi[:], dst.Lo[:], a[:], b[:], accumulate)
}

// FaceOrder returns the index, in face order, of a tile's datum.
func FaceOrder(row, column int) int {
	face := row/faceSide*2 + column/faceSide
	return face*faceSide*faceSide + row%faceSide*faceSide + column%faceSide
}

// Tilize reorders a row-major matrix, whose dimensions are multiples of 32, into row-major tiles of
// faces.
func Tilize[T any](dst, src []T, columns int) {
	forTiled(len(src), columns, func(tiled, plain int) { dst[tiled] = src[plain] })
}

// Untilize is the inverse of [Tilize].
func Untilize[T any](dst, src []T, columns int) {
	forTiled(len(src), columns, func(tiled, plain int) { dst[plain] = src[tiled] })
}

func forTiled(n, columns int, f func(tiled, plain int)) {
	for plain := range n {
		row, column := plain/columns, plain%columns
		tile := row/TileSide*(columns/TileSide) + column/TileSide
		f(tile*TileData+FaceOrder(row%TileSide, column%TileSide), plain)
	}
}
