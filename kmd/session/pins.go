package session

import (
	"bytes"
	"slices"

	"github.com/reprise-tt/reprise/internal/kabi"
)

// anonymous has pin numbers for addresses, which differ between processes.
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

func pinRange(arg []byte) (va, size uint64) {
	in := decode[kabi.PinPagesIn](arg)
	return in.VirtualAddress, in.Size
}

func setAddress(req uint32, arg []byte, va uint64) {
	switch req {
	case kabi.IoctlPinPages:
		in := decode[kabi.PinPagesIn](arg)
		in.VirtualAddress = va
		kabi.Put(arg, &in)
	case kabi.IoctlUnpinPages:
		in := decode[kabi.UnpinPagesIn](arg)
		in.VirtualAddress = va
		kabi.Put(arg, &in)
	}
}

func (m *memory) unpinned(file uint64, arg []byte) (int, bool) {
	return m.number(file, decode[kabi.UnpinPagesIn](arg).VirtualAddress)
}

func (m *memory) allocated(file uint64, arg []byte) {
	out := output[kabi.AllocateDMABufIn, kabi.AllocateDMABufOut](arg)
	m.add(&pin{file: file, off: out.MappingOffset}, nil)
}

func (m *memory) buffer(file, off uint64) *pin {
	i := slices.IndexFunc(m.pins, func(p *pin) bool {
		return p.file == file && p.va == 0 && p.off == off && off != 0 && p.region == nil
	})
	if i < 0 {
		return nil
	}
	return m.pins[i]
}

func inputSize(req uint32) int {
	switch req {
	case kabi.IoctlPinPages:
		return kabi.Size[kabi.PinPagesIn]()
	case kabi.IoctlUnpinPages:
		return kabi.Size[kabi.UnpinPagesIn]()
	}
	return 0
}
