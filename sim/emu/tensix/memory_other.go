//go:build !(386 || amd64 || arm64 || loong64 || riscv64)

package tensix

// view returns a copy, in buf, of len(buf) bytes of L1 at a byte address: the host may be
// big-endian.
func view(words []uint32, addr uint32, buf []byte) []byte {
	wordBytes(buf, words, addr)
	return buf
}

// unview writes back what view has returned for an address, if that is a copy.
func unview(words []uint32, addr uint32, data []byte) { setWordBytes(words, addr, data) }
