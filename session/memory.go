package session

import (
	"bytes"
)

// pin is host memory that the device reaches.
type pin struct {
	file uint64
	va   uint64 // 0 for a buffer of the driver
	off  uint64 // mmap offset of a buffer of the driver
	mem  []byte // nil when it is not there any more
	seen []byte // what it held when last looked at
}

// memory is all host memory that the device reaches, in the order in which it was pinned.
type memory struct{ pins []*pin }

func (m *memory) add(p *pin) {
	p.seen = bytes.Clone(p.mem)
	m.pins = append(m.pins, p)
}

// number returns the number of the newest pin at an address.
func (m *memory) number(file, va uint64) (int, bool) {
	for i := len(m.pins) - 1; i >= 0; i-- {
		if p := m.pins[i]; p.file == file && p.va == va && p.mem != nil {
			return i, true
		}
	}
	return 0, false
}

// drop stops looking at a pin: it may be unmapped at any time from now on.
func (m *memory) drop(i int) { m.pins[i].mem, m.pins[i].seen = nil, nil }

// dropFile drops what a file pinned.
func (m *memory) dropFile(file uint64) {
	for i, p := range m.pins {
		if p.file == file {
			m.drop(i)
		}
	}
}

const (
	memoryBlock = 4096 // compared at once
	memoryWord  = 8
	memoryGap   = 64 // pieces that are closer are one
)

// changes returns what has changed since the last time, in order.
func (m *memory) changes() []Delta {
	var out []Delta
	for n, p := range m.pins {
		for at := 0; at < len(p.mem); at += memoryBlock {
			end := min(at+memoryBlock, len(p.mem))
			if bytes.Equal(p.mem[at:end], p.seen[at:end]) {
				continue
			}
			// Looked at once: the device may go on writing.
			now := bytes.Clone(p.mem[at:end])
			out = pieces(out, uint64(n), at, now, p.seen[at:end])
			copy(p.seen[at:], now)
		}
	}
	return out
}

// pieces appends the differing pieces of a block at an offset of a pin.
func pieces(out []Delta, n uint64, at int, now, was []byte) []Delta {
	for i := 0; i < len(now); i += memoryWord {
		w := min(i+memoryWord, len(now))
		if bytes.Equal(now[i:w], was[i:w]) {
			continue
		}
		if k := len(out) - 1; k >= 0 && out[k].Pin == n {
			if end := int(out[k].Off) + len(out[k].Data); end >= at && end <= at+i && at+i-end <= memoryGap {
				out[k].Data = append(out[k].Data, now[end-at:w]...)
				continue
			}
		}
		out = append(out, Delta{Pin: n, Off: uint64(at + i), Data: bytes.Clone(now[i:w])})
	}
	return out
}

// apply writes what the device wrote. It reports a piece that lies in no pin.
func (m *memory) apply(ds []Delta) bool {
	for _, d := range ds {
		if d.Pin >= uint64(len(m.pins)) {
			return false
		}
		p := m.pins[d.Pin]
		if d.Off > uint64(len(p.mem)) || uint64(len(d.Data)) > uint64(len(p.mem))-d.Off {
			return false
		}
		copy(p.mem[d.Off:], d.Data)
		copy(p.seen[d.Off:], d.Data)
	}
	return true
}

func sameDeltas(a, b []Delta) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i].Pin != b[i].Pin || a[i].Off != b[i].Off || !bytes.Equal(a[i].Data, b[i].Data) {
			return false
		}
	}
	return true
}
