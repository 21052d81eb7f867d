package session

import (
	"bytes"
	"slices"

	"github.com/reprise-tt/reprise/internal/kabi"
)

// anonymous copies a request's argument with pin numbers for addresses, which differ between
// processes.
func (m *memory) anonymous(file uint64, req uint32, arg []byte) []byte {
	b := bytes.Clone(arg)
	n := len(m.pins)
	if req == kabi.IoctlUnpinPages {
		if i, ok := m.unpinned(file, arg); ok {
			n = i
		}
	}
	setAddress(req, b, uint64(n))
	return b
}

// pinRange returns the range of a pin request.
func pinRange(arg []byte) (va, size uint64) {
	in := decode[kabi.PinPagesIn](arg)
	return in.VirtualAddress, in.Size
}

// setAddress changes the address in the argument of a pin or unpin request.
func setAddress(req uint32, arg []byte, va uint64) {
	switch req {
	case kabi.IoctlPinPages:
		in := decode[kabi.PinPagesIn](arg)
		in.VirtualAddress = va
		copy(arg, kabi.PartBytes(&in))
	case kabi.IoctlUnpinPages:
		in := decode[kabi.UnpinPagesIn](arg)
		in.VirtualAddress = va
		copy(arg, kabi.PartBytes(&in))
	}
}

// unpinned returns the number of an unpin request's pin.
func (m *memory) unpinned(file uint64, arg []byte) (int, bool) {
	return m.number(file, decode[kabi.UnpinPagesIn](arg).VirtualAddress)
}

// allocated lists a new buffer of the driver, which is compared once it is mapped.
func (m *memory) allocated(file uint64, arg []byte) {
	out := output[kabi.AllocateDMABufIn, kabi.AllocateDMABufOut](arg)
	m.add(&pin{file: file, off: out.MappingOffset}, nil)
}

// buffer returns the unmapped buffer of the driver at an mmap offset, or nil.
func (m *memory) buffer(file, off uint64) *pin {
	i := slices.IndexFunc(m.pins, func(p *pin) bool {
		return p.file == file && p.va == 0 && p.off == off && off != 0 && p.region == nil
	})
	if i < 0 {
		return nil
	}
	return m.pins[i]
}

// inputSize returns how many bytes the host's own input has, which anonymous changes.
func inputSize(req uint32) int {
	switch req {
	case kabi.IoctlPinPages:
		return kabi.Size[kabi.PinPagesIn]()
	case kabi.IoctlUnpinPages:
		return kabi.Size[kabi.UnpinPagesIn]()
	}
	return 0
}
