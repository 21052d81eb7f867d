//go:build !(386 || amd64 || arm64 || loong64 || riscv64)

package tensix

// view copies len(buf) bytes of L1 to buf: the host may be big-endian.
func view(words []uint32, addr uint32, buf []byte) []byte {
	wordBytes(buf, words, addr)
	return buf
}

func unview(words []uint32, addr uint32, data []byte) { setWordBytes(words, addr, data) }
