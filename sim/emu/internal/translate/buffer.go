package translate

import "encoding/binary"

// buffer collects machine code with jumps to labels.
type buffer struct {
	b      []byte
	labels []int // places by label, -1 before they are placed
	jumps  []reference
}

type reference struct{ at, label int }

func (b *buffer) byte(v ...byte)      { b.b = append(b.b, v...) }
func (b *buffer) word(v uint32)       { b.b = binary.LittleEndian.AppendUint32(b.b, v) }
func (b *buffer) at(i int) uint32     { return binary.LittleEndian.Uint32(b.b[i:]) }
func (b *buffer) set(i int, v uint32) { binary.LittleEndian.PutUint32(b.b[i:], v) }

func (b *buffer) label() int {
	b.labels = append(b.labels, -1)
	return len(b.labels) - 1
}

func (b *buffer) place(label int) { b.labels[label] = len(b.b) }

// refer notes that the code at the end of the buffer names a label.
func (b *buffer) refer(label int) { b.jumps = append(b.jumps, reference{len(b.b), label}) }
