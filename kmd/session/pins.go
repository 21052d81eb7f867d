package session

import (
	"bytes"

	"github.com/reprise-tt/reprise/internal/kabi"
)

// anonymous copies a request's argument without the parts that differ between processes: addresses
// of memory become pin numbers.
func (m *memory) anonymous(file uint64, req uint32, arg []byte) []byte {
	b := bytes.Clone(arg)
	switch req {
	case kabi.IoctlPinPages:
		var in kabi.PinPagesIn
		copy(kabi.PartBytes(&in), b)
		in.VirtualAddress = uint64(len(m.pins))
		copy(b, kabi.PartBytes(&in))
	case kabi.IoctlUnpinPages:
		var in kabi.UnpinPagesIn
		copy(kabi.PartBytes(&in), b)
		n, ok := m.number(file, in.VirtualAddress)
		if !ok {
			n = len(m.pins)
		}
		in.VirtualAddress = uint64(n)
		copy(b, kabi.PartBytes(&in))
	}
	return b
}

// pinRange returns the range of a pin request.
func pinRange(arg []byte) (va, size uint64) {
	var in kabi.PinPagesIn
	copy(kabi.PartBytes(&in), arg)
	return in.VirtualAddress, in.Size
}

// setAddress changes the address in the argument of a pin or unpin request.
func setAddress(req uint32, arg []byte, va uint64) {
	switch req {
	case kabi.IoctlPinPages:
		var in kabi.PinPagesIn
		copy(kabi.PartBytes(&in), arg)
		in.VirtualAddress = va
		copy(arg, kabi.PartBytes(&in))
	case kabi.IoctlUnpinPages:
		var in kabi.UnpinPagesIn
		copy(kabi.PartBytes(&in), arg)
		in.VirtualAddress = va
		copy(arg, kabi.PartBytes(&in))
	}
}

// unpinned returns the pin of an unpin request.
func (m *memory) unpinned(file uint64, arg []byte) (int, bool) {
	var in kabi.UnpinPagesIn
	copy(kabi.PartBytes(&in), arg)
	return m.number(file, in.VirtualAddress)
}

// allocated lists a new buffer of the driver. Its bytes are compared once it is mapped.
func (m *memory) allocated(file uint64, arg []byte) {
	var out kabi.AllocateDMABufOut
	if at := kabi.Size[kabi.AllocateDMABufIn](); len(arg) > at {
		copy(kabi.PartBytes(&out), arg[at:])
	}
	m.add(&pin{file: file, off: out.MappingOffset}, nil)
}

// buffer returns the unmapped buffer of the driver at an mmap offset, or nil.
func (m *memory) buffer(file, off uint64) *pin {
	for _, p := range m.pins {
		if p.file == file && p.va == 0 && p.off == off && off != 0 && p.region == nil {
			return p
		}
	}
	return nil
}

func (m *memory) indexOf(p *pin) int {
	for i, o := range m.pins {
		if o == p {
			return i
		}
	}
	return -1
}

// inputSize returns the size of the prefix that anonymous replaces.
func inputSize(req uint32) int {
	switch req {
	case kabi.IoctlPinPages:
		return kabi.Size[kabi.PinPagesIn]()
	case kabi.IoctlUnpinPages:
		return kabi.Size[kabi.UnpinPagesIn]()
	}
	return 0
}
