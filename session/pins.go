package session

import (
	"bytes"

	"github.com/reprise-tt/reprise/internal/kabi"
)

// anonymous is a copy of a request's argument without what differs from process to process: addresses of memory, which
// become numbers of pins.
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

// unpin stops looking at memory that is about to be unpinned.
func (m *memory) unpin(file uint64, arg []byte) {
	var in kabi.UnpinPagesIn
	copy(kabi.PartBytes(&in), arg)
	if n, ok := m.number(file, in.VirtualAddress); ok {
		m.drop(n)
	}
}

// pinned begins to look at memory after a request that has pinned it.
func (m *memory) pinned(file uint64, req uint32, arg []byte) {
	if req == kabi.IoctlPinPages {
		var in kabi.PinPagesIn
		copy(kabi.PartBytes(&in), arg)
		m.add(&pin{file: file, va: in.VirtualAddress, mem: memoryAt(in.VirtualAddress, in.Size)})
	}
	if req == kabi.IoctlAllocateDMABuf {
		var out kabi.AllocateDMABufOut
		if at := kabi.Size[kabi.AllocateDMABufIn](); len(arg) > at {
			copy(kabi.PartBytes(&out), arg[at:])
		}
		m.add(&pin{file: file, off: out.MappingOffset})
	}
}

// buffer begins to look at a buffer of the driver that was mapped, and reports whether it is one.
func (m *memory) buffer(file, off uint64, mem []byte) bool {
	for _, p := range m.pins {
		if p.file == file && p.va == 0 && p.off == off && off != 0 {
			p.mem, p.seen = mem, bytes.Clone(mem)
			return true
		}
	}
	return false
}

// bufferSize is length if a buffer of the driver lies at an mmap offset, and 0 otherwise.
func (m *memory) bufferSize(file, off uint64, length int) int {
	for _, p := range m.pins {
		if p.file == file && p.va == 0 && p.off == off && off != 0 {
			return length
		}
	}
	return 0
}

// unmap stops looking at a buffer of the driver whose mapping goes.
func (m *memory) unmap(mem []byte) {
	for i, p := range m.pins {
		if len(mem) > 0 && len(p.mem) > 0 && &p.mem[0] == &mem[0] {
			m.drop(i)
		}
	}
}

// inputSize is how many bytes at the start of a request's argument are replaced by anonymous.
func inputSize(req uint32) int {
	switch req {
	case kabi.IoctlPinPages:
		return kabi.Size[kabi.PinPagesIn]()
	case kabi.IoctlUnpinPages:
		return kabi.Size[kabi.UnpinPagesIn]()
	}
	return 0
}
