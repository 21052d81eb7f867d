package ops

import (
	"encoding/binary"
	"math/bits"
)

// A tile of BFloat8B has the exponents of its blocks first, then signs and magnitudes, in the order
// of BFloat16.
const (
	blockSize      = 16
	tileBlocks     = tileSize * tileSize / blockSize
	blockTileBytes = tileBlocks * (1 + blockSize)
)

// packBlocks converts tiles of BFloat16 to tiles of BFloat8B, as packers do (package arith,
// Format.StoreBlock). Subnormal numbers become 0, because the exponents of unpackers wrap below 1.
func packBlocks(from []byte) []byte {
	const tileBytes = 2 * tileSize * tileSize
	out := make([]byte, len(from)/tileBytes*blockTileBytes)
	for to := out; len(from) > 0; from, to = from[tileBytes:], to[blockTileBytes:] {
		for i := range tileBlocks {
			block := from[2*blockSize*i:]
			var exponent byte
			for k := range blockSize {
				exponent = max(exponent, byte(binary.LittleEndian.Uint16(block[2*k:])>>7))
			}
			to[i] = exponent
			for k := range blockSize {
				to[tileBlocks+blockSize*i+k] = packInBlock(binary.LittleEndian.Uint16(block[2*k:]), exponent)
			}
		}
	}
	return out
}

// packInBlock returns a BFloat16's sign and magnitude in a block of an exponent. Zero has no sign.
func packInBlock(v uint16, exponent byte) byte {
	down := exponent - byte(v>>7)
	if v&0x7F80 == 0 || down >= 8 {
		return 0
	}
	m := byte(min((uint32(v&0x7F|0x80)+1<<down)>>(down+1), 0x7F))
	if m == 0 {
		return 0
	}
	return m | byte(v>>15)<<7
}

func unpackBlocks(from []byte) []byte {
	var out []byte
	for ; len(from) > 0; from = from[blockTileBytes:] {
		for i, x := range from[tileBlocks:blockTileBytes] {
			out = binary.LittleEndian.AppendUint16(out, unpackInBlock(x, from[i/blockSize]))
		}
	}
	return out
}

// unpackInBlock returns the BFloat16 of a sign and 7 bits of magnitude, of which the uppermost
// counts 1, times two to the exponent. Minus zero stands for minus infinity.
func unpackInBlock(x, exponent byte) uint16 {
	sign, magnitude := uint16(x&0x80)<<8, x<<1
	switch {
	case magnitude == 0 && sign != 0:
		return 0xFF80
	case magnitude == 0:
		return 0
	}
	up := bits.LeadingZeros8(magnitude)
	return sign | uint16(exponent-byte(up))<<7 | uint16(magnitude<<up&0x7E)
}
