package print

import (
	"bytes"

	"github.com/reprise-tt/reprise/chip"
)

const placesMagic = 0x53455449 // "ITES"

// Place returns the file and line of a call of a check of package kernels/watch, by its return
// address's offset in the kernel's text: see package kernels. It is false if unknown.
func (p *Program) Place(on chip.Processor, offset uint32) (file string, line int, ok bool) {
	k := p.kernel(on)
	if k == nil {
		return "", 0, false
	}
	b := k.Formats
	if len(b) < 8 || le.Uint32(b[len(b)-4:]) != placesMagic {
		return "", 0, false
	}
	count := le.Uint32(b[len(b)-8:])
	table := b[:len(b)-8]
	if uint64(count)*12 > uint64(len(table)) {
		return "", 0, false
	}
	table = table[len(table)-int(count)*12:]
	for ; len(table) > 0; table = table[12:] {
		if le.Uint32(table) != offset {
			continue
		}
		name := le.Uint32(table[8:])
		if uint64(name) >= uint64(len(b)) {
			return "", 0, false
		}
		n := bytes.IndexByte(b[name:], 0)
		if n < 0 {
			return "", 0, false
		}
		return string(b[name:][:n]), int(le.Uint32(table[4:])), true
	}
	return "", 0, false
}
