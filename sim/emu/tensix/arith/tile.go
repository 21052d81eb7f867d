package arith

// A tile has 32 rows of 32 data, in four faces of 16 by 16: upper left, upper right, lower left,
// lower right. Registers and L1 hold one face after the other, each row by row.
const (
	TileSide = 32
	TileData = TileSide * TileSide
	faceSide = 16
	tileRows = TileData / faceSide
)

// SrcTile is a bank of SrcA or SrcB that holds a tile: row i of face f is row 16f+i.
type SrcTile [tileRows]Row

// DstTile is a tile in Dst. Lo has the lower halves if Dst has 32 bits, and isn't used otherwise.
// The zero value is a tile of zeros.
type DstTile struct{ Hi, Lo [tileRows]DstRow }

// Fidelity is how many phases a multiplication has.
type Fidelity uint8

const (
	LoFi  Fidelity = 1 + iota // upper mantissa bits of both
	HiFi2                     // and lower ones of SrcA
	HiFi3                     // and lower ones of SrcB
	HiFi4                     // all bits
)

// TileBytes returns how many bytes of L1 a tile takes: for block formats the exponents of its 64
// blocks come first.
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

// DstTile unpacks a tile of data of 32 bits to Dst.
func (u *Unpack) DstTile(dst *DstTile, l1 []byte) {
	var row Row
	for i := range dst.Hi {
		u.DstElements(row[:], l1[4*faceSide*i:])
		for c, v := range row {
			dst.Hi[i][c], dst.Lo[i][c] = uint16(v>>16), uint16(v)
		}
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

// MatmulTile adds to a tile of Dst the product of the tile in SrcB, on the left, and that in SrcA,
// on the right, as 16 MVMULs for each phase do: phases outermost, then the two faces along K. The
// phase of m doesn't matter.
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

// MulTile adds to a tile of Dst the products of the data of two tiles. The phase of m doesn't
// matter.
func (m Math) MulTile(dst *DstTile, a, b *SrcTile, f Fidelity) {
	for m.Phase = 0; m.Phase < uint8(f); m.Phase++ {
		m.ElwMulRows(dst.Hi[:], dst.Lo[:], a[:], b[:])
	}
}

// AddTile writes the sums of the data of two tiles to a tile of Dst, or adds them if accumulate is
// set.
func (m Math) AddTile(dst *DstTile, a, b *SrcTile, accumulate bool) {
	m.ElwAddRows(dst.Hi[:], dst.Lo[:], a[:], b[:], accumulate)
}

// SubTile writes the differences of the data of two tiles to a tile of Dst, or adds them if
// accumulate is set.
func (m Math) SubTile(dst *DstTile, a, b *SrcTile, accumulate bool) {
	m.ElwSubRows(dst.Hi[:], dst.Lo[:], a[:], b[:], accumulate)
}

// FaceOrder returns where in a tile of faces the datum of a row and a column of the tile stands.
func FaceOrder(row, column int) int {
	face := row/faceSide*2 + column/faceSide
	return face*faceSide*faceSide + row%faceSide*faceSide + column%faceSide
}

// Tilize brings a matrix, row by row, to the order of tiles: tiles row by row, in each the faces.
// The matrix has columns columns, a multiple of 32, and its rows are a multiple of 32 too.
func Tilize[T any](dst, src []T, columns int) {
	forTiled(len(src), columns, func(tiled, plain int) { dst[tiled] = src[plain] })
}

// Untilize is the inverse of [Tilize].
func Untilize[T any](dst, src []T, columns int) {
	forTiled(len(src), columns, func(tiled, plain int) { dst[plain] = src[tiled] })
}

// forTiled calls f with both places of each datum of a matrix.
func forTiled(n, columns int, f func(tiled, plain int)) {
	for plain := range n {
		row, column := plain/columns, plain%columns
		tile := row/TileSide*(columns/TileSide) + column/TileSide
		f(tile*TileData+FaceOrder(row%TileSide, column%TileSide), plain)
	}
}
