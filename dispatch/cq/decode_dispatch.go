package cq

// DecodeDispatch reads the dispatcher command that is the whole of payload: of a
// RELAY_INLINE, or, with noFlush, of a RELAY_INLINE_NOFLUSH, whose data come from
// elsewhere. Data alias payload. The command is nil beside any error but
// ErrPadding.
func DecodeDispatch(payload []byte, noFlush bool) (DispatchCommand, error) {
	if len(payload) < HeaderSize {
		return nil, bad(ErrTruncated, len(payload), "", "%d bytes, a dispatcher command has at least 16", len(payload))
	}
	p := payload
	id := DispatchID(p[0])
	name := id.String()
	lo, hi := le.Uint64(p), le.Uint64(p[8:])
	// data are the bytes after a header of head bytes, which must be n.
	data := func(head int, n uint64) ([]byte, error) {
		if noFlush {
			n = 0
		}
		if uint64(len(p)-head) != n {
			return nil, bad(ErrFormat, head, name, "%d bytes of data, its fields say %d", len(p)-head, n)
		}
		if n == 0 {
			return nil, nil
		}
		return p[head:], nil
	}
	// small checks a command of 16 bytes.
	small := func(c DispatchCommand, lo, hi uint64) (DispatchCommand, error) {
		if len(p) != HeaderSize {
			return nil, bad(ErrFormat, HeaderSize, name, "%d bytes in the relay, want 16", len(p))
		}
		return c, same(p, name, lo, hi)
	}
	var err error
	switch id {
	case DispatchWriteLinear, DispatchWriteLinearH:
		if len(p) < LargeHeaderSize {
			return nil, bad(ErrTruncated, len(p), name, "%d bytes, want at least 32", len(p))
		}
		var c WriteLinear
		c.read(readWords(p))
		if c.Data, err = data(LargeHeaderSize, c.Length); err != nil {
			return nil, err
		}
		w := c.words()
		return c, same(p, name, w[:]...)
	case DispatchWriteHost:
		var c WriteHost
		c.read(lo, hi)
		if c.Length < HeaderSize {
			return nil, limit(name, "length", c.Length, "at least 16 bytes", "the length counts the header")
		}
		if c.Data, err = data(HeaderSize, c.Length-HeaderSize); err != nil {
			return nil, err
		}
		lo, hi = c.words()
		return c, same(p, name, lo, hi)
	case DispatchWritePaged:
		var c WritePaged
		c.read(lo, hi)
		n := uint64(c.PageSize) * uint64(c.Pages)
		if n > 1<<32-1 {
			return nil, limit(name, "pages*page size", n, "less than 4 GiB", "the firmware multiplies in 32 bits")
		}
		if c.Data, err = data(HeaderSize, n); err != nil {
			return nil, err
		}
		lo, hi = c.words()
		return c, same(p, name, lo, hi)
	case DispatchWritePacked:
		return decodePacked(p, lo, hi, noFlush)
	case DispatchWritePackedLarge:
		return decodeLarge(p, lo, noFlush)
	case DispatchWait:
		var c Wait
		c.read(lo, hi)
		lo, hi = c.words()
		return small(c, lo, hi)
	case DispatchSink:
		return small(Sink{}, uint64(id), 0)
	case DispatchDebug:
		c := DebugDispatch{Key: uint16(lo >> 16), Stride: uint32(hi)}
		n := uint32(lo >> 32)
		if uint64(len(p)-HeaderSize) != uint64(n) {
			return nil, bad(ErrFormat, 4, name, "%d bytes of data, its size says %d", len(p)-HeaderSize, n)
		}
		c.Data = p[HeaderSize:]
		lo, hi = debugWords(uint8(id), c.Key, n, c.Stride)
		return c, same(p, name, lo, hi)
	case DispatchDelay:
		c := Delay{Loops: uint32(lo >> 32)}
		lo, hi = c.words()
		return small(c, lo, hi)
	case DispatchExecBufEnd:
		return small(ExecBufEndDispatch{}, uint64(id), 0)
	case DispatchSetWriteOffset:
		c := SetWriteOffset{HostID: uint16(lo >> 16), Count: uint8(lo >> 8)}
		if c.Count > maxWriteOffsets {
			return nil, limit(name, "count", c.Count, "0 to 4", "the dispatcher has four write offsets")
		}
		if n := AtWriteOffset(int(c.Count)); len(p) != n {
			return nil, bad(ErrFormat, HeaderSize, name, "%d bytes in the relay for %d offsets, want %d", len(p), c.Count, n)
		}
		for i := range int(c.Count) {
			c.Offsets[i] = le.Uint32(p[AtWriteOffset(i):])
		}
		lo, hi = c.words()
		return c, same(p, name, lo, hi)
	case DispatchTerminate:
		return small(TerminateDispatch{}, uint64(id), 0)
	case DispatchSendGoSignal:
		var c SendGoSignal
		c.read(lo, hi)
		lo, hi = c.words()
		return small(c, lo, hi)
	case DispatchNotifySubordinate:
		var c NotifySubordinate
		c.read(lo, hi)
		lo, hi = c.words()
		return small(c, lo, hi)
	case DispatchSetNumWorkerSems:
		c := SetNumWorkerSems{Num: uint32(lo >> 32)}
		lo, hi = c.words()
		return small(c, lo, hi)
	case DispatchSetGoSignalNOCData:
		n := uint64(lo >> 32)
		if uint64(len(p)-HeaderSize) != 4*n {
			return nil, bad(ErrFormat, 4, name, "%d bytes of data for %d words", len(p)-HeaderSize, n)
		}
		c := SetGoSignalNOCData{Words: make([]uint32, n)}
		for i := range c.Words {
			c.Words[i] = le.Uint32(p[atGoNOCData(i):])
		}
		lo, hi = c.words()
		return c, same(p, name, lo, hi)
	case DispatchSequence:
		return decodeSequence(p, lo, noFlush)
	case DispatchForwardSubordinate, DispatchForwardWithArgs:
		return decodeForwardSubordinate(p, lo)
	case DispatchReadArg:
		return decodeReadArg(p, lo, hi)
	}
	if id.Newer() {
		return nil, bad(ErrNewer, 0, name, "id %d is not in the revision read here: the stream needs other firmware and another decoder", p[0])
	}
	return nil, bad(ErrIllegal, 0, "", "dispatcher command id is %d", p[0])
}

func decodePacked(p []byte, lo, hi uint64, noFlush bool) (DispatchCommand, error) {
	name := DispatchWritePacked.String()
	flags, n := uint8(lo>>8), int(uint16(lo>>16))
	c := WritePacked{Type: PackedType(flags >> 4), NoStride: flags&packedNoStride != 0,
		OffsetIndex: uint16(lo >> 32), Size: uint16(lo >> 48), Addr: uint32(hi)}
	per, most := 4, maxPackedCores
	if flags&packedMulticast != 0 {
		per, most = 8, maxPackedRects
	}
	switch {
	case n == 0 || n > most:
		return nil, limit(name, "sub-commands", n, "1 to 1020 tiles or 510 rectangles", "the list must lie in the first 4096 bytes")
	case c.Size == 0:
		return nil, limit(name, "size", c.Size, "at least 1 byte", "leave the command out")
	}
	slots := n
	if c.NoStride {
		slots = 1
	}
	end := HeaderSize + n*per
	head := SlotStride(end)
	if want := head + slots*SlotStride(int(c.Size)); len(p) != want && (!noFlush || len(p) != head) {
		return nil, bad(ErrFormat, HeaderSize, name, "%d bytes in the relay for %d tiles or rectangles and %d slots of %d bytes, want %d",
			len(p), n, slots, c.Size, want)
	}
	if per == 4 {
		c.Cores = make([]uint32, n)
		for i := range c.Cores {
			c.Cores[i] = le.Uint32(p[AtPackedCore(i):])
		}
	} else {
		c.Rects = make([]Rect, n)
		for i := range c.Rects {
			q := p[atPackedRect(i):]
			c.Rects[i] = Rect{le.Uint32(q), le.Uint32(q[4:])}
		}
	}
	if len(p) > head {
		c.Data = p[head:]
	}
	lo, hi = c.words()
	if err := same(p, name, lo, hi); err != nil {
		return c, err
	}
	return c, zeros(p[:head], end, name)
}

func decodeLarge(p []byte, lo uint64, noFlush bool) (DispatchCommand, error) {
	name := DispatchWritePackedLarge.String()
	n := int(uint16(lo >> 16))
	c := WritePackedLarge{Type: LargeType(lo >> 8), Alignment: uint16(lo >> 32), OffsetIndex: uint16(lo >> 48)}
	end := AtLargeSub(n)
	head := SlotStride(end)
	switch {
	case n == 0 || n > MaxLargeSubs:
		return nil, limit(name, "sub-commands", n, "1 to 35", "the firmware keeps no more")
	case c.Alignment == 0 || c.Alignment&(c.Alignment-1) != 0:
		return nil, limit(name, "alignment", c.Alignment, "a power of two", "the firmware rounds with a mask")
	case len(p) < head:
		return nil, bad(ErrTruncated, len(p), name, "%d bytes in the relay, the list of %d sub-commands ends at %d", len(p), n, head)
	}
	c.Subs = make([]LargeSub, n)
	for i := range c.Subs {
		q := p[AtLargeSub(i):]
		w := le.Uint32(q[8:])
		c.Subs[i] = LargeSub{NOC: le.Uint32(q), Addr: le.Uint32(q[4:]), Length: w&0xFFFF + 1, Dests: uint8(w >> 16), Unlink: w>>24&1 != 0}
	}
	want := head
	if !noFlush {
		want += c.dataBytes()
	}
	if len(p) != want {
		return nil, bad(ErrFormat, head, name, "%d bytes in the relay, its list needs %d", len(p), want)
	}
	if !noFlush {
		c.Data = p[head:]
	}
	l0, h0 := c.words()
	if err := same(p, name, l0, h0); err != nil {
		return c, err
	}
	for i := range c.Subs {
		if at := AtLargeSub(i) + 11; p[at]&^1 != 0 {
			return c, bad(ErrPadding, at, name, "flags of sub-command %d are 0x%02x, only bit 0 is known", i, p[at])
		}
	}
	return c, zeros(p[:head], end, name)
}
