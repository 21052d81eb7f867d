package tensix

// Dst has 1,024 rows of 16 data of 16 bits (tt-isa-documentation
// WormholeB0/TensixTile/TensixCoprocessor/Dst.md).
const (
	rowSize = 16
	dstRows = 1024
)

// wideLow is how many rows below the high halves of a row of 32-bit data the low halves are.
const wideLow = 8

// row is a row of Dst, as the register holds it.
type dstRow = [rowSize]uint16

// dst is the destination register. A row that is not valid reads as zero.
type dst struct {
	rows  *[dstRows]dstRow // of registers
	valid [dstRows]bool
	// unwritten is, of each valid row, the columns that have no value since SFPSTORE or an unpacker
	// wrote others while the row was undefined. It is nil unless their use is refused.
	unwritten *[dstRows]uint16
}

// written notes that all columns of rows have values.
func (d *dst) written(row, n uint32, wide bool) {
	if d.unwritten == nil {
		return
	}
	if wide {
		row = wideRow(row)
	}
	clear(d.unwritten[row:][:n])
}

// reset makes it as ttsim has it after reset; on silicon no row would be valid.
func (d *dst) reset() {
	for i := range d.valid {
		d.valid[i] = true
	}
}

// wideRow is the row that holds the high halves of row r of 32-bit data; the low halves are in row
// wideRow(r)+wideLow.
func wideRow(r uint32) uint32 { return r&0x1F8<<1 | r&0x207 }

// read16 returns a datum of 16 bits.
func (d *dst) read16(row, col uint32) uint16 {
	if !d.valid[row] {
		return 0
	}
	return d.rows[row][col]
}

// write16 sets a datum of 16 bits.
func (d *dst) write16(row, col uint32, v uint16) {
	d.rows[row][col] = v
	d.wrote(row, 1<<col)
	d.valid[row] = true
}

// undefine makes n rows invalid.
func (d *dst) undefine(row, n uint32) {
	clear(d.valid[row:][:n])
	if d.unwritten != nil {
		clear(d.unwritten[row:][:n])
	}
}

// wrote notes that columns of a row, which is about to become valid, have values.
func (d *dst) wrote(row uint32, columns uint16) {
	if d.unwritten == nil {
		return
	}
	if !d.valid[row] {
		d.unwritten[row] = 1<<rowSize - 1
	}
	d.unwritten[row] &^= columns
}

// read32 returns a datum of 32 bits, in the order of the register.
func (d *dst) read32(row, col uint32) uint32 {
	r := wideRow(row)
	if !d.valid[r] {
		return 0
	}
	return uint32(d.rows[r][col])<<16 | uint32(d.rows[r+wideLow][col])
}

// write32 sets a datum of 32 bits.
func (d *dst) write32(row, col, v uint32) {
	r := wideRow(row)
	d.rows[r][col], d.rows[r+wideLow][col] = uint16(v>>16), uint16(v)
	d.wrote(r, 1<<col)
	d.valid[r] = true
}

// row16 makes row r valid and returns it: as it was, or cleared if it was not valid.
func (d *dst) row16(r uint32) *dstRow {
	if !d.valid[r] {
		d.rows[r], d.valid[r] = dstRow{}, true
	}
	return &d.rows[r]
}

// row32 makes row r of 32-bit data valid and returns its high and low halves.
func (d *dst) row32(r uint32) (high, low *dstRow) {
	r = wideRow(r)
	if !d.valid[r] {
		d.rows[r], d.rows[r+wideLow], d.valid[r] = dstRow{}, dstRow{}, true
	}
	return &d.rows[r], &d.rows[r+wideLow]
}

// block16 is row16 for n rows, 4 or 8, from a multiple of n on.
func (d *dst) block16(r, n uint32) []dstRow {
	for i := range n {
		d.row16(r + i)
	}
	return d.rows[r:][:n]
}

// block32 is row32 for n rows, 4 or 8, from a multiple of n on.
func (d *dst) block32(r, n uint32) (high, low []dstRow) {
	for i := range n {
		d.row32(r + i)
	}
	r = wideRow(r)
	return d.rows[r:][:n], d.rows[r+wideLow:][:n]
}

// lowest fills a row with what is less than all numbers, to take maxima from.
func lowest(r *dstRow) {
	for i := range r {
		r[i] = 0xFFFF
	}
}

// lowest16 is row16, and lowest32 row32, for maxima: a row that was not valid is less than all
// numbers.
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

// clear makes a row of zeros, of 32-bit data if wide.
func (d *dst) clear(r uint32, wide bool) {
	d.written(r, 1, wide)
	if wide {
		r = wideRow(r)
		d.rows[r+wideLow] = dstRow{}
	}
	d.rows[r], d.valid[r] = dstRow{}, true
}
