package emu

import "github.com/reprise-tt/reprise/chip"

func (t *tile) streamAt(o origin, off uint32) *stream {
	if n := off / 0x1000; n < uint32(len(t.streams)) {
		return &t.streams[n]
	}
	t.chip.refuse(o, UndefinedBehavior, "stream", uint64(streamBase+off), "stream %d: the tile has %d", off/0x1000, len(t.streams))
	return nil
}

func (t *tile) streamLoad(o origin, off uint32) (uint32, slowResult) {
	s := t.streamAt(o, off)
	if s == nil {
		return 0, slowHalt
	}
	if t.check != nil && o.mine() != nil {
		t.check.Look(streamBase + off)
	}
	at := streamBase + off&^0xFFF
	switch streamRegister(t.chip.arch, off&0xFFF) {
	case streamRemoteSource:
		return s.remoteSource, slowDone
	case streamBufStart:
		t.check.Acquire(o.checked(), at+uint32(streamBufStart))
		return s.bufStart, slowDone
	case streamBufSize:
		t.check.Acquire(o.checked(), at+uint32(streamBufSize))
		return s.bufSize, slowDone
	case streamAvailable:
		t.check.Acquire(o.checked(), at+uint32(streamAvailable))
		return s.available, slowDone
	}
	if o.isHostLoad() { // a stream has registers for all that it does as a coprocessor of the NoC
		return 0, slowDone
	}
	t.chip.refuse(o, UnimplementedFunctionality, "stream", uint64(streamBase+off), "load of stream %d register %#x", off/0x1000, off&0xFFF)
	return 0, slowHalt
}

func (t *tile) streamStore(o origin, off, v uint32) slowResult {
	s := t.streamAt(o, off)
	if s == nil {
		return slowHalt
	}
	at := streamBase + off&^0xFFF
	switch streamRegister(t.chip.arch, off&0xFFF) {
	case streamRemoteSource:
		if v > 0xFFFFFF {
			t.chip.refuse(o, UnsupportedFunctionality, "stream", uint64(streamBase+off), "REMOTE_SRC = %#x: it has 24 bits", v)
			return slowHalt
		}
		s.remoteSource = v
	case streamBufStart:
		if !t.checkTaken(o, off, v) {
			return slowHalt
		}
		s.bufStart = v & streamMask
		t.check.Release(o.checked(), at+uint32(streamBufStart))
	case streamBufSize:
		s.bufSize = v & streamMask
		s.available = s.bufSize
		t.check.Release(o.checked(), at+uint32(streamBufSize))
		t.check.Release(o.checked(), at+uint32(streamAvailable))
	case streamUpdate:
		if v&0x3F != 0 {
			t.chip.refuse(o, UnsupportedFunctionality, "stream", uint64(streamBase+off),
				"SPACE_AVAILABLE_UPDATE = %#x: the destination index in bits 5:0 must be 0", v)
			return slowHalt
		}
		// Half of the range goes down. Up it may wrap: cores that wait compare modulo the range.
		// The host may set any value.
		if n := v >> 6 & streamMask; t.chip.cfg.RefuseCounters && o.core != nil && n > streamMask/2+1 && s.available < streamMask+1-n {
			t.chip.refuse(o, UndefinedBehavior, "stream", uint64(streamBase+off),
				"SPACE_AVAILABLE of stream %d is %d, and %d is to be subtracted: it would go below zero", off/0x1000, s.available, streamMask+1-n)
			return slowHalt
		}
		s.available = (s.available + v>>6) & streamMask
		t.check.Release(o.checked(), at+uint32(streamAvailable))
	default:
		t.chip.refuse(o, UnimplementedFunctionality, "stream", uint64(streamBase+off), "store to stream %d register %#x", off/0x1000, off&0xFFF)
		return slowHalt
	}
	t.changed(classStream)
	return slowDone
}

// checkTaken refuses a store of v to the counter of pages that were taken from a circular buffer if
// it overtakes the one of pages that were put there. Both wrap at 16 bits, and firmware sets both
// to zero before a program.
func (t *tile) checkTaken(o origin, off, v uint32) bool {
	cb := int(off/0x1000) - t.chip.params.Stream.FirstCB
	if !t.chip.cfg.RefuseCounters || o.mine() == nil || t.kind != chip.Tensix || cb < 0 || cb >= pageCounters {
		return true
	}
	put, taken := uint16(t.streams[off/0x1000].bufSize), uint16(t.streams[off/0x1000].bufStart)
	if n := uint16(v) - put; n == 0 || n > 1<<15 {
		return true
	}
	t.chip.refuse(o, UndefinedBehavior, "stream", uint64(streamBase+off),
		"circular buffer %d: %d pages are taken, and %d are there", cb, uint16(v)-taken, put-taken)
	return false
}
