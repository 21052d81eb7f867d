//go:build 386 || amd64 || arm64 || loong64 || riscv64

package tensix

import "unsafe"

// view returns len(buf) bytes of L1 at a byte address, in place: the host is little-endian, as L1
// is.
func view(words []uint32, addr uint32, buf []byte) []byte {
	if len(buf) == 0 {
		return buf
	}
	_ = words[(addr+uint32(len(buf))-1)/4]
	return unsafe.Slice((*byte)(unsafe.Add(unsafe.Pointer(&words[0]), addr)), len(buf))
}

// unview writes back what view has returned for an address, if that is a copy.
func unview(words []uint32, addr uint32, data []byte) {}
