package print

import (
	"bytes"
	"hash/fnv"

	"github.com/reprise-tt/reprise/chip"
)

// A Program is the kernels that print on some cores of a program.
type Program struct {
	ID      uint32 // by which records name it: see [Program.Identify]
	Name    string
	Cores   []chip.Range // logical
	Kernels []Kernel
}

// A Kernel prints.
type Kernel struct {
	Name      string
	Processor chip.Processor
	Formats   []byte // kernels.Image.Formats
}

// Identify sets the ID, which depends on everything but the cores. It is never 0.
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

// kernel returns the one on a processor, nil if none there prints.
func (p *Program) kernel(on chip.Processor) *Kernel {
	for i := range p.Kernels {
		if p.Kernels[i].Processor == on {
			return &p.Kernels[i]
		}
	}
	return nil
}

// A format is an entry of a kernel's formats.
type format struct {
	text  string
	file  string
	line  int
	level int8
	types []argType
}

// argType is the type of an argument as a record has it.
type argType uint8

const (
	typeWord argType = 1 + iota
	typeLong
	typeFloat
	typeDouble
	typeText
)

// maxArgs is how many a format has at most: 8 of reprise_print, 32 of DPRINT.
const maxArgs = 32

// format reads the entry at an offset. It is false if there is none.
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
	// The text is filled to 8, 32, 80 or 200 bytes; the name of the file is after it.
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
