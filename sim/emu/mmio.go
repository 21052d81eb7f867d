package emu

import (
	"github.com/reprise-tt/reprise/chip"
)

type slowResult uint8

const (
	slowDone slowResult = iota
	slowBlocked
	slowAgain // in the next round
	slowHalt
)

// readClass says what a core's load of a register depends on, false if the load has an effect or
// the register changes by itself.
func (t *tile) readClass(addr uint32) (class, bool) {
	switch {
	case addr >= niu0Base && addr < streamBase:
		noc := int(addr-niu0Base) / (niu1Base - niu0Base)
		if i := addr % (niu1Base - niu0Base) / 4; i >= 0x200/4+cntSlaveAtomicResp && i < 0x200/4+0x40 {
			return classServed0 << noc, true
		}
		return classNIU0 << noc, true
	case addr >= streamBase && addr < streamEnd:
		return classStream, true
	case t.kind == chip.Ethernet && addr >= ethTxBase:
		return classConfig, true
	case addr >= debugBase && addr < debugBase+0x1000:
		off := addr - debugBase
		return classConfig, (off < regWallClockLow || off > regWallClockLatched) && off&^0x3F != regPerfOut && off != regDebugBusData
	case addr >= gprBase && addr < gprBase+0x1000, addr >= configBase && addr < configBase+0x1000:
		return classConfig, true
	case addr >= pcBufBase && addr < pcBufEnd:
		return classMailbox, addr != pcBufBase
	case addr >= mailboxBase && addr < mailboxBase+0x4000:
		return classMailbox, addr&4 != 0
	}
	return 0, false
}

// unmapped refuses an address at which nothing answers.
func (t *tile) unmapped(o origin, what string, addr uint32) slowResult {
	return t.refuse(o, unimplemented, "mmio", addr, "%s %s tile %v, L1 ends at %#x: nothing answers at this address", what, t.kind, t.xy, t.bytes())
}

// load reads the register at addr, a multiple of 4.
func (t *tile) load(o origin, addr uint32) (uint32, slowResult) {
	switch {
	case addr >= niu0Base && addr < niu1Base:
		return t.niuLoad(o, 0, addr-niu0Base)
	case addr >= niu1Base && addr < streamBase:
		return t.niuLoad(o, 1, addr-niu1Base)
	case addr >= streamBase && addr < streamEnd:
		return t.streamLoad(o, addr-streamBase)
	case addr >= debugBase && addr < debugBase+0x1000:
		return t.debugLoad(o, addr-debugBase)
	case o.isHostLoad() && addr >= picBase && addr < picBase+0x1000: // the interrupt controller
		return 0, slowDone
	}
	if t.kind == chip.Ethernet {
		return t.eth.load(o, addr)
	}
	if addr >= pcBufBase && addr < pcBufEnd {
		return t.pcBufLoad(o, addr-pcBufBase)
	}
	switch addr &^ 0xFFF {
	case tdmaBase:
		return t.tdmaLoad(o, addr-tdmaBase)
	case gprBase:
		return t.gprLoad(o, addr-gprBase)
	case mailboxBase, mailboxBase + 0x1000, mailboxBase + 0x2000, mailboxBase + 0x3000:
		return t.mailboxLoad(o, addr-mailboxBase)
	case configBase:
		return t.configLoad(o, addr-configBase)
	}
	if k, w := t.localAt(o, addr); k != nil {
		return k.local[w], slowDone
	}
	return 0, t.unmapped(o, "load from", addr)
}

// store writes the register at addr, a multiple of 4.
func (t *tile) store(o origin, addr, v uint32) slowResult {
	switch {
	case addr >= niu0Base && addr < niu1Base:
		return t.niuStore(o, 0, addr-niu0Base, v)
	case addr >= niu1Base && addr < streamBase:
		return t.niuStore(o, 1, addr-niu1Base, v)
	case addr >= streamBase && addr < streamEnd:
		return t.streamStore(o, addr-streamBase, v)
	}
	if t.kind == chip.Ethernet {
		return t.eth.store(o, addr, v)
	}
	if addr >= pcBufBase && addr < pcBufEnd {
		return t.pcBufStore(o, addr-pcBufBase, v)
	}
	switch addr &^ 0xFFF {
	case debugBase:
		return t.debugStore(o, addr-debugBase, v)
	case tdmaBase:
		return t.tdmaStore(o, addr-tdmaBase, v)
	case mopBase:
		return t.mopStore(o, addr-mopBase, v)
	case gprBase:
		return t.gprStore(o, addr-gprBase, v)
	case pushBase, pushBase + 0x10000, pushBase + 0x20000:
		return t.pushStore(o, addr, v)
	case mailboxBase, mailboxBase + 0x1000, mailboxBase + 0x2000, mailboxBase + 0x3000:
		return t.mailboxStore(o, addr-mailboxBase, v)
	case configBase:
		return t.configStore(o, addr-configBase, v)
	}
	if k, w := t.localAt(o, addr); k != nil {
		k.storeLocal(w, v)
		return slowDone
	}
	return t.unmapped(o, "store to", addr)
}
