package tensix

// Dst has 1,024 rows of 16 data of 16 bits (tt-isa-documentation
// WormholeB0/TensixTile/TensixCoprocessor/Dst.md).
const (
	rowSize = 16
	dstRows = 1024
)

// wideLow is the distance in rows between the halves of a row of 32-bit data.
const wideLow = 8

type dstRow = [rowSize]uint16

// dst is the destination register. An invalid row reads as zero.
type dst struct {
	rows  *[dstRows]dstRow // of registers
	valid [dstRows]bool
	// unwritten has each valid row's columns without a value, as SFPSTORE and unpackers write only
	// some. It is nil unless their use is refused.
	unwritten *[dstRows]uint16
}

func (d *dst) written(row, n uint32, wide bool) {
	if d.unwritten == nil {
		return
	}
	if wide {
		row = wideRow(row)
	}
	clear(d.unwritten[row:][:n])
}

// ttsim's state after reset; on silicon no row would be valid.
func (d *dst) reset() {
	for i := range d.valid {
		d.valid[i] = true
	}
}

// wideRow is the row of the high halves; row wideRow(r)+wideLow has the low halves.
func wideRow(r uint32) uint32 { return r&0x1F8<<1 | r&0x207 }

func (d *dst) read16(row, col uint32) uint16 {
	if !d.valid[row] {
		return 0
	}
	return d.rows[row][col]
}

func (d *dst) write16(row, col uint32, v uint16) {
	d.rows[row][col] = v
	d.wrote(row, 1<<col)
	d.valid[row] = true
}

func (d *dst) undefine(row, n uint32) {
	clear(d.valid[row:][:n])
	if d.unwritten != nil {
		clear(d.unwritten[row:][:n])
	}
}

// usesDst tells the tile that the newest instruction uses n rows.
func (e *Engine) usesDst(row, n uint32, wide, writes bool) {
	if e.hazards == nil || e.hazards.threads[e.issuer].assumes(&e.threads[e.issuer].queue, BootIsOver) {
		return
	}
	if wide {
		row, n = wideRow(row&^7), 2*(row&7+n)
	}
	e.tile.UsedDst(int(e.issuer), row, n, writes)
}

// wrote precedes making the row valid.
func (d *dst) wrote(row uint32, columns uint16) {
	if d.unwritten == nil {
		return
	}
	if !d.valid[row] {
		d.unwritten[row] = 1<<rowSize - 1
	}
	d.unwritten[row] &^= columns
}

func (d *dst) read32(row, col uint32) uint32 {
	r := wideRow(row)
	if !d.valid[r] {
		return 0
	}
	return uint32(d.rows[r][col])<<16 | uint32(d.rows[r+wideLow][col])
}

func (d *dst) write32(row, col, v uint32) {
	r := wideRow(row)
	d.rows[r][col], d.rows[r+wideLow][col] = uint16(v>>16), uint16(v)
	d.wrote(r, 1<<col)
	d.valid[r] = true
}

// row16 makes row r valid, cleared if it was invalid.
func (d *dst) row16(r uint32) *dstRow {
	if !d.valid[r] {
		d.rows[r], d.valid[r] = dstRow{}, true
	}
	return &d.rows[r]
}

// row32 is row16 for the high and low halves of 32-bit data.
func (d *dst) row32(r uint32) (high, low *dstRow) {
	r = wideRow(r)
	if !d.valid[r] {
		d.rows[r], d.rows[r+wideLow], d.valid[r] = dstRow{}, dstRow{}, true
	}
	return &d.rows[r], &d.rows[r+wideLow]
}

// block16 is row16 for n rows, 4 or 8; r is a multiple of n.
func (d *dst) block16(r, n uint32) []dstRow {
	for i := range n {
		d.row16(r + i)
	}
	return d.rows[r:][:n]
}

func (d *dst) block32(r, n uint32) (high, low []dstRow) {
	for i := range n {
		d.row32(r + i)
	}
	r = wideRow(r)
	return d.rows[r:][:n], d.rows[r+wideLow:][:n]
}

// lowest is the identity of maximum.
func lowest(r *dstRow) {
	for i := range r {
		r[i] = 0xFFFF
	}
}

// lowest16 and lowest32 fill an invalid row by lowest.
func (d *dst) lowest16(r uint32) *dstRow {
	if !d.valid[r] {
		lowest(&d.rows[r])
		d.valid[r] = true
	}
	return &d.rows[r]
}

func (d *dst) lowest32(r uint32) (high, low *dstRow) {
	if r = wideRow(r); !d.valid[r] {
		lowest(&d.rows[r])
		lowest(&d.rows[r+wideLow])
		d.valid[r] = true
	}
	return &d.rows[r], &d.rows[r+wideLow]
}

func (d *dst) clear(r uint32, wide bool) {
	d.written(r, 1, wide)
	if wide {
		r = wideRow(r)
		d.rows[r+wideLow] = dstRow{}
	}
	d.rows[r], d.valid[r] = dstRow{}, true
}
