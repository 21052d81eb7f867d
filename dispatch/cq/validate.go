package cq

import "fmt"

// size is the number of bytes of a dispatcher command in a relay.
func size(c DispatchCommand, noFlush bool) int {
	data := func(head int, n uint64) int {
		if noFlush {
			return head
		}
		return head + int(n)
	}
	switch c := c.(type) {
	case WriteLinear:
		return data(LargeHeaderSize, c.words()[2])
	case WriteHost:
		_, n := c.words()
		return data(HeaderSize, n-HeaderSize)
	case WritePaged:
		return data(HeaderSize, uint64(c.PageSize)*uint64(c.Pages))
	case WritePacked:
		if noFlush && len(c.Data) == 0 {
			return HeaderSize + SlotStride(c.subBytes())
		}
		return HeaderSize + SlotStride(c.subBytes()) + c.slots()*SlotStride(int(c.Size))
	case WritePackedLarge:
		return data(SlotStride(AtLargeSub(len(c.Subs))), uint64(c.dataBytes()))
	case SetWriteOffset:
		return AtWriteOffset(int(c.Count))
	case SetGoSignalNOCData:
		return atGoNOCData(len(c.Words))
	case DebugDispatch:
		return HeaderSize + len(c.Data)
	case Sequence:
		return c.each(noFlush, nil)
	case ForwardSubordinate:
		return ForwardSubordinateSize
	case ReadArg:
		return c.Size()
	case Opaque:
		return len(c.Payload)
	}
	return HeaderSize
}

func words(n int) string { return fmt.Sprintf("at most %d", n) }

// within tests the size of a whole prefetcher command.
func (m Limits) within(l Layout, name string, n int) error {
	if n = l.Stride(n); n > m.MaxCommand {
		return limit(name, "size", n, words(m.MaxCommand)+" bytes", "split it, or send the data by a relay")
	}
	return nil
}

func multiple(name, field string, v uint64, of int, fix string) error {
	if v%uint64(of) != 0 {
		return limit(name, field, v, fmt.Sprintf("a multiple of %d bytes", of), fix)
	}
	return nil
}

func offsetIndex(name string, i int) error {
	if i >= maxWriteOffsets {
		return limit(name, "offset index", i, "0 to 3", "the dispatcher has four write offsets")
	}
	return nil
}

// Validate tests the length.
func (c RelayLinear) Validate(Layout, Limits) error {
	if c.Length == 0 {
		return limit(c.Name(), "length", c.Length, "at least 1 byte", "leave the write and its relay out")
	}
	return nil
}

// Validate tests the length: it must fit the scratch buffer and a fetch entry,
// less one header of the PCIe alignment.
func (c RelayLinearH) Validate(l Layout, m Limits) error {
	if n := min(m.Scratch, m.MaxCommand) - l.PCIeAlign(); c.Length == 0 || uint64(c.Length) > uint64(n) {
		return limit(c.Name(), "length", c.Length, fmt.Sprintf("1 to %d bytes", n), "split the write")
	}
	return nil
}

// Validate tests the page size and the length.
func (c RelayPaged) Validate(l Layout, _ Limits) error {
	n := uint64(c.PageSize) * uint64(c.Pages)
	a := L1Align
	if c.DRAM {
		a = l.DRAMAlign()
	}
	switch {
	case n == 0 || n > 1<<32-1:
		return limit(c.Name(), "pages*page size", n, "1 byte to 4 GiB - 1", "relay the pages by several commands")
	case c.LengthAdjust > maxLengthAdjust || uint64(c.LengthAdjust) >= n:
		return limit(c.Name(), "length adjust", c.LengthAdjust, fmt.Sprintf("less than the %d bytes read and at most 32767", n),
			"relay fewer pages")
	}
	return multiple(c.Name(), "page size", uint64(c.PageSize), a, "pass the page size as the allocator rounded it")
}

// Validate tests the list.
func (c RelayPagedPacked) Validate(l Layout, m Limits) error {
	if n := len(c.Subs); n == 0 || n > maxPagedSubs {
		return limit(c.Name(), "sub-commands", n, "1 to 35", "use several commands")
	}
	for _, s := range c.Subs {
		if s.Length == 0 || int(s.Length) > m.Scratch/2 {
			return limit(c.Name(), "length of a sub-command", s.Length, fmt.Sprintf("1 to %d bytes, half the scratch buffer", m.Scratch/2),
				"split it")
		}
		if s.LogPageSize > 31 {
			return limit(c.Name(), "log2 page size", s.LogPageSize, "at most 31", "pass the logarithm, not the size")
		}
		if err := multiple(c.Name(), "length of a sub-command", uint64(s.Length), l.DRAMAlign(),
			"round it up to the DRAM alignment"); err != nil {
			return err
		}
	}
	return nil
}

// Validate tests the dispatcher command and whether it fits.
func (c RelayInline) Validate(l Layout, m Limits) error {
	if c.Command == nil {
		return bad(ErrFormat, AtRelayed, c.Name(), "no dispatcher command in it")
	}
	if err := c.Command.Validate(l, m); err != nil {
		return err
	}
	n := size(c.Command, false)
	if c.To == Subordinate {
		switch c.Command.(type) {
		case SendGoSignal, SetNumWorkerSems, SetGoSignalNOCData, Wait, TerminateDispatch:
		default:
			return bad(ErrFormat, AtRelayed, c.Command.Name(),
				"dispatch_s knows go signals, their tables, WAIT and TERMINATE only: send it to the master")
		}
		if n > m.SubordinatePage {
			return limit(c.Command.Name(), "size", n, words(m.SubordinatePage)+" bytes, a page of dispatch_s",
				"send fewer words, or send it to the master")
		}
	} else if c.To != Master {
		return limit(c.Name(), "dispatcher", uint8(c.To), "0 or 1", "pass Master or Subordinate")
	}
	// The prefetcher takes all pages of a relay at once, and the dispatcher gives
	// pages back a block late: only half of its ring is sure to come free.
	if c.To == Master && n > m.DispatchRing/2 {
		return limit(c.Command.Name(), "size", n, words(m.DispatchRing/2)+" bytes, half the dispatcher's ring",
			"split it, or send the data by a relay")
	}
	return m.within(l, c.Command.Name(), HeaderSize+n)
}

// Validate tests the dispatcher command and whether it fits one page.
func (c RelayInlineNoFlush) Validate(l Layout, m Limits) error {
	if c.Command == nil {
		return bad(ErrFormat, AtRelayed, c.Name(), "no dispatcher command in it")
	}
	if s, ok := c.Command.(Sequence); ok {
		return s.validate(l, m, true)
	}
	if err := c.Command.Validate(l, m); err != nil {
		return err
	}
	if n := size(c.Command, true); n > m.DispatchPage {
		return limit(c.Command.Name(), "size", n, words(m.DispatchPage)+" bytes, a page of the dispatcher", "use several commands")
	}
	return nil
}

// Validate tests the page size and count.
func (c ExecBuf) Validate(l Layout, _ Limits) error { return c.validate(l, c.Name()) }

func (c ExecBuf) validate(l Layout, name string) error {
	if c.LogPageSize > 31 || 1<<c.LogPageSize < l.DRAMAlign() {
		return limit(name, "log2 page size", c.LogPageSize, "the logarithm of a size from the DRAM alignment to 2 GiB", "tt-metal uses 10 to 12")
	}
	if c.Pages == 0 {
		return limit(name, "pages", c.Pages, "at least 1", "a buffer holds at least its EXEC_BUF_END")
	}
	return nil
}

// Validate finds nothing.
func (ExecBufEnd) Validate(Layout, Limits) error { return nil }

// Validate finds nothing.
func (Stall) Validate(Layout, Limits) error { return nil }

// Validate tests the size.
func (c DebugPrefetch) Validate(l Layout, m Limits) error {
	return m.within(l, c.Name(), HeaderSize+len(c.Data))
}

// Validate finds nothing.
func (TerminatePrefetch) Validate(Layout, Limits) error { return nil }

// Validate tests the length.
func (c PagedToRingbuffer) Validate(l Layout, m Limits) error {
	switch {
	case c.Length == 0 || uint64(c.Length) > uint64(m.Ringbuffer):
		return limit(c.Name(), "length", c.Length, fmt.Sprintf("1 to %d bytes, the cache", m.Ringbuffer), "relay the binary from DRAM")
	case c.Advance > uint32(m.Ringbuffer):
		return limit(c.Name(), "advance", c.Advance, words(m.Ringbuffer)+" bytes, the cache", "relay the binary from DRAM")
	case c.LogPageSize > 31:
		return limit(c.Name(), "log2 page size", c.LogPageSize, "at most 31", "pass the logarithm, not the size")
	}
	return multiple(c.Name(), "length", uint64(c.Length), l.DRAMAlign(), "round it up to the DRAM alignment")
}

// Validate tests the offset.
func (c SetRingbufferOffset) Validate(_ Layout, m Limits) error {
	if uint64(c.Offset) > uint64(m.Ringbuffer) {
		return limit(c.Name(), "offset", c.Offset, words(m.Ringbuffer)+" bytes, the cache", "start the cache again")
	}
	return nil
}

// Validate tests the list.
func (c RelayRingbuffer) Validate(_ Layout, m Limits) error {
	if n := len(c.Subs); n == 0 || n > MaxRingSubs {
		return limit(c.Name(), "sub-commands", n, "1 to 52", "use several commands")
	}
	for _, s := range c.Subs {
		if e := uint64(s.Start) + uint64(s.Length); s.Length == 0 || e > uint64(m.Ringbuffer) {
			return limit(c.Name(), "end of a range", e, fmt.Sprintf("at most %d bytes, the cache, and a length above 0", m.Ringbuffer),
				"cache the binary first")
		}
	}
	return nil
}

// Validate tests the offset index.
func (c WriteLinear) Validate(Layout, Limits) error { return offsetIndex(c.Name(), int(c.OffsetIndex)) }

// Validate tests the length.
func (c WriteHost) Validate(Layout, Limits) error {
	if _, n := c.words(); n < HeaderSize {
		return limit(c.Name(), "length", n, "at least 16 bytes", "count the header: 16 plus the data")
	}
	return nil
}

// Validate tests the size of the pages.
func (c WritePaged) Validate(_ Layout, _ Limits) error {
	n := uint64(c.PageSize) * uint64(c.Pages)
	if n == 0 || n > 1<<32-1 {
		return limit(c.Name(), "pages*page size", n, "1 byte to 4 GiB - 1", "use several commands")
	}
	return nil
}

// Validate tests the number of tiles, the size and the offset index.
func (c WritePacked) Validate(_ Layout, m Limits) error {
	if err := c.check(); err != nil {
		return err
	}
	if n := len(c.Cores); n > m.MaxUnicast {
		return limit(c.Name(), "cores", n, words(m.MaxUnicast)+" (the firmware keeps as many as the compute grid has)", "use several commands")
	}
	if n := len(c.Rects); n > m.MaxUnicast/2 {
		return limit(c.Name(), "rectangles", n, words(m.MaxUnicast/2)+" (half of what the firmware keeps of single tiles)",
			"use several commands")
	}
	for _, r := range c.Rects {
		if r.Dests == 0 {
			return limit(c.Name(), "dests", r.Dests, "at least 1", "count the tiles of the rectangle")
		}
	}
	if int(c.Size) > m.DispatchPage {
		return limit(c.Name(), "size", c.Size, words(m.DispatchPage)+" bytes, a page of the dispatcher", "use WRITE_PACKED_LARGE")
	}
	return offsetIndex(c.Name(), int(c.OffsetIndex))
}

// Validate tests the list: lengths are multiples of 16, a rectangle keeps
// until a run unlinks it, the last run unlinks.
func (c WritePackedLarge) Validate(_ Layout, m Limits) error {
	if err := c.check(len(c.Data) == 0); err != nil {
		return err
	}
	linked := false
	for i, s := range c.Subs {
		if s.Dests == 0 {
			return limit(c.Name(), "dests", s.Dests, "at least 1", "the write is always a multicast, to a rectangle of one tile if need be")
		}
		if err := multiple(c.Name(), "length of a sub-command", uint64(s.Length), L1Align, "round it up"); err != nil {
			return err
		}
		if p := max(i-1, 0); linked && (s.NOC != c.Subs[p].NOC || s.Dests != c.Subs[p].Dests) {
			return bad(ErrFormat, AtLargeSub(i), c.Name(), "the rectangle changes without an unlink before it: set Unlink on sub-command %d", p)
		}
		linked = !s.Unlink
	}
	if linked {
		return bad(ErrFormat, AtLargeSub(len(c.Subs)-1), c.Name(), "the last sub-command does not unlink: set Unlink on it")
	}
	return offsetIndex(c.Name(), int(c.OffsetIndex))
}

// Validate tests the flags.
func (c Wait) Validate(Layout, Limits) error {
	if c.Flags&^(WaitBarrier|NotifyFetch|WaitMemory|WaitStream|ClearStream) != 0 {
		return limit(c.Name(), "flags", uint8(c.Flags), "bits 0 to 4 only", "newer revisions use other bits: clear a stream with 0x10 here")
	}
	if c.Flags&WaitMemory != 0 && c.Addr%4 != 0 {
		return limit(c.Name(), "addr", c.Addr, "a multiple of 4", "wait for a 32-bit word")
	}
	return nil
}

// Validate finds nothing.
func (Sink) Validate(Layout, Limits) error { return nil }

// Validate finds nothing.
func (DebugDispatch) Validate(Layout, Limits) error { return nil }

// Validate finds nothing.
func (Delay) Validate(Layout, Limits) error { return nil }

// Validate finds nothing.
func (ExecBufEndDispatch) Validate(Layout, Limits) error { return nil }

// Validate tests the number of offsets.
func (c SetWriteOffset) Validate(Layout, Limits) error {
	if c.Count > maxWriteOffsets {
		return limit(c.Name(), "count", c.Count, "0 to 4", "the dispatcher has four write offsets")
	}
	return nil
}

// Validate finds nothing.
func (TerminateDispatch) Validate(Layout, Limits) error { return nil }

// Validate tests the slot and the table entries.
func (c SendGoSignal) Validate(_ Layout, m Limits) error {
	if c.Multicast != NoMulticast && int(c.Multicast) >= m.SubDevices {
		return limit(c.Name(), "multicast", c.Multicast, fmt.Sprintf("below %d, or 255", m.SubDevices),
			"pass the sub-device's index, or NoMulticast")
	}
	if n := int(c.NOCStart) + int(c.NumUnicast); n > m.GoNOCEntries {
		return limit(c.Name(), "end of the table entries", n, words(m.GoNOCEntries), "the table holds no more")
	}
	return nil
}

// Validate tests the mask.
func (c NotifySubordinate) Validate(_ Layout, m Limits) error {
	if uint64(c.Mask)>>uint(m.SubDevices) != 0 {
		return limit(c.Name(), "mask", c.Mask, fmt.Sprintf("below 1<<%d", m.SubDevices), "one bit for each sub-device")
	}
	return nil
}

// Validate tests the number.
func (c SetNumWorkerSems) Validate(_ Layout, m Limits) error {
	if uint64(c.Num) > uint64(m.SubDevices) {
		return limit(c.Name(), "num", c.Num, words(m.SubDevices), "pass the number of sub-devices")
	}
	return nil
}

// Validate tests the number of words.
func (c SetGoSignalNOCData) Validate(_ Layout, m Limits) error {
	if n := len(c.Words); n > m.GoNOCEntries {
		return limit(c.Name(), "words", n, words(m.GoNOCEntries), "the table holds no more")
	}
	return nil
}

// Validate refuses it: its command is unknown.
func (c Opaque) Validate(Layout, Limits) error {
	return bad(ErrFormat, 0, c.Name(), "%d bytes that are no known command", len(c.Payload))
}
