package tensix

import "unsafe"

func flat(rows *[srcRows]srcRow, row, n uint32) []uint32 {
	r := rows[row:][:n]
	return unsafe.Slice(&r[0][0], rowSize*len(r))
}
