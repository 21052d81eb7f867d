package print

import (
	"bytes"
	"hash/fnv"

	"github.com/reprise-tt/reprise/chip"
)

// A Program has printing kernels.
type Program struct {
	ID      uint32 // in records: see [Program.Identify]
	Name    string
	Cores   []chip.Range // logical
	Kernels []Kernel
}

// A Kernel is a printing kernel.
type Kernel struct {
	Name      string
	Processor chip.Processor
	Formats   []byte // kernels.Image.Formats
}

// Identify sets the ID, a hash of everything but the cores, never 0.
func (p *Program) Identify() {
	h := fnv.New32a() // never fails
	put := func(b []byte) {
		_, _ = h.Write(le.AppendUint32(nil, uint32(len(b))))
		_, _ = h.Write(b)
	}
	put([]byte(p.Name))
	for _, k := range p.Kernels {
		put([]byte{byte(k.Processor)})
		put([]byte(k.Name))
		put(k.Formats)
	}
	p.ID = max(h.Sum32(), 1)
}

func (p *Program) kernel(on chip.Processor) *Kernel {
	for i := range p.Kernels {
		if p.Kernels[i].Processor == on {
			return &p.Kernels[i]
		}
	}
	return nil
}

type format struct {
	text  string
	file  string
	line  int
	level int8
	types []argType
}

type argType uint8

const (
	typeWord argType = 1 + iota
	typeLong
	typeFloat
	typeDouble
	typeText
)

// maxArgs is the most arguments of a format: 8 of reprise_print, 32 of DPRINT.
const maxArgs = 32

func (k *Kernel) format(at uint32) (f format, ok bool) {
	if uint64(at)+8 > uint64(len(k.Formats)) || at%4 != 0 {
		return format{}, false
	}
	b := k.Formats[at:]
	types, n := le.Uint32(b), int(b[6])
	f.line, f.level = int(le.Uint16(b[4:])), int8(b[7])
	if n > maxArgs {
		return format{}, false
	}
	for range n {
		f.types = append(f.types, argType(types&15))
		types >>= 4
	}
	b = b[8:]
	end := bytes.IndexByte(b, 0)
	if end < 0 {
		return format{}, false
	}
	f.text = string(b[:end])
	// The text is padded to 8, 32, 80 or 200 bytes; the file's name follows.
	for _, size := range []int{8, 32, 80, 200} {
		if end < size {
			b = b[min(size, len(b)):]
			if end = bytes.IndexByte(b, 0); end >= 0 {
				f.file = string(b[:end])
			}
			break
		}
	}
	return f, true
}

const placesMagic = 0x53455449 // "ITES"

// Place returns the file and line of a call of a check of package kernels/watch, by its return
// address's offset in the kernel's text.
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
