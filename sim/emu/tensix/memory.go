package tensix

import "unsafe"

// view returns len(buf) bytes of L1 in place: host and L1 are little-endian.
func view(words []uint32, addr uint32, buf []byte) []byte {
	if len(buf) == 0 {
		return buf
	}
	_ = words[(addr+uint32(len(buf))-1)/4]
	return unsafe.Slice((*byte)(unsafe.Add(unsafe.Pointer(&words[0]), addr)), len(buf))
}

func setWordBytes(words []uint32, addr uint32, p []byte) { copy(view(words, addr, p), p) }
