package tensix

func wordBytes(p []byte, words []uint32, addr uint32) {
	i := addr / 4
	if skip := addr % 4; skip != 0 {
		for w := words[i] >> (8 * skip); skip < 4 && len(p) > 0; skip++ {
			p[0] = byte(w)
			p, w = p[1:], w>>8
		}
		i++
	}
	for ; len(p) >= 4; i++ {
		w := words[i]
		p[0], p[1], p[2], p[3] = byte(w), byte(w>>8), byte(w>>16), byte(w>>24)
		p = p[4:]
	}
	for k := range p {
		p[k] = byte(words[i] >> (8 * k))
	}
}

func setWordBytes(words []uint32, addr uint32, p []byte) {
	set := func(b byte) {
		sh := addr % 4 * 8
		words[addr/4] = words[addr/4]&^(0xFF<<sh) | uint32(b)<<sh
		addr++
		p = p[1:]
	}
	for addr%4 != 0 && len(p) > 0 {
		set(p[0])
	}
	for ; len(p) >= 4; p = p[4:] {
		words[addr/4] = uint32(p[0]) | uint32(p[1])<<8 | uint32(p[2])<<16 | uint32(p[3])<<24
		addr += 4
	}
	for len(p) > 0 {
		set(p[0])
	}
}
