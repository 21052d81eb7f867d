package session

import (
	"encoding/hex"
	"fmt"

	"github.com/reprise-tt/reprise/internal/kabi"
)

// places tracks the targets of mappings: an access's name must not depend on which window the host
// had free.
type places struct {
	windows map[object]*window
	offsets map[offset]view
	maps    map[uint64]mapped
}

type object struct {
	file uint64
	id   uint32
}

type offset struct{ file, off uint64 }

type window struct {
	size   uint64
	config string
}

type view struct {
	*window
	caching byte
}

type mapped struct {
	view
	off uint64 // of a mapping of no window
}

func newPlaces() places {
	return places{windows: map[object]*window{}, offsets: map[offset]view{}, maps: map[uint64]mapped{}}
}

func (p *places) note(e *Event) {
	switch {
	case e.Errno != 0 || e.Text != "":
	case e.Kind == KindMmap:
		p.maps[e.Map] = mapped{view: p.offsets[offset{e.File, e.Off}], off: e.Off}
	case e.Kind == KindUnmap:
		delete(p.maps, e.Map)
	case e.Kind != KindIoctl:
	case e.Request == kabi.IoctlAllocateTLB:
		in, out := decode[kabi.AllocateTLBIn](e.In), output[kabi.AllocateTLBIn, kabi.AllocateTLBOut](e.Data)
		w := &window{size: in.Size}
		p.windows[object{e.File, out.ID}] = w
		p.offsets[offset{e.File, out.MmapOffsetUC}] = view{w, 'u'}
		p.offsets[offset{e.File, out.MmapOffsetWC}] = view{w, 'w'}
	case e.Request == kabi.IoctlConfigureTLB:
		if w := p.windows[object{e.File, decode[kabi.ConfigureTLBIn](e.In).ID}]; w != nil {
			w.config = configOf(e.In)
		}
	}
}

func configOf(arg []byte) string {
	in := decode[kabi.ConfigureTLBIn](arg)
	in.ID = 0
	return hex.EncodeToString(kabi.PartBytes(&in))
}

// key names the object of an event. Events with the same key keep their order.
func (p *places) key(e *Event) string {
	switch e.Kind {
	case KindLoad, KindStore, KindRead, KindWrite:
		m := p.maps[e.Map]
		if m.window == nil {
			return fmt.Sprintf("%d %d off %x %x %x", e.Kind, e.File, m.off, e.Off, e.Size)
		}
		return fmt.Sprintf("%d %d %c %x %s %x %x", e.Kind, e.File, m.caching, m.size, m.config, e.Off, e.Size)
	case KindIoctl:
		switch {
		case e.Request == kabi.IoctlConfigureTLB:
			return fmt.Sprintf("tlb %d %s", e.File, configOf(e.In))
		case e.isQuery() || e.isRelease() || e.Request == kabi.IoctlLockCtl:
			return fmt.Sprintf("ask %d %x %x", e.File, e.Request, e.In)
		}
		return fmt.Sprintf("ioctl %d %x", e.File, e.Request)
	case KindMmap:
		return fmt.Sprintf("mmap %d %x %x", e.File, e.Off, e.Size)
	}
	return fmt.Sprintf("%d %d", e.Kind, e.File)
}
