package cq

import "fmt"

// Field is one field of a command as it lies in the stream.
type Field struct {
	Name   string
	Offset int    // in bytes from the command's start
	Size   int    // in bytes
	Value  uint64 // little-endian
	Text   string // the value for people
}

func deci[T uint8 | uint16 | uint32 | uint64](name string, off, size int, v T) Field {
	return Field{name, off, size, uint64(v), fmt.Sprint(uint64(v))}
}

func hexa[T uint8 | uint16 | uint32 | uint64](name string, off, size int, v T) Field {
	return Field{name, off, size, uint64(v), fmt.Sprintf("0x%x", uint64(v))}
}

func text[T ~uint8 | ~uint16 | ~uint32](name string, off, size int, v T, s string) Field {
	return Field{name, off, size, uint64(v), s}
}

func yes(name string, off int, b bool) Field {
	return Field{name, off, 1, bit(b), fmt.Sprint(b)}
}

func (l Layout) tile(name string, off int, w uint32) Field {
	s := fmt.Sprintf("0x%x", w)
	if x, y, ok := l.SplitXY(w); ok {
		s = fmt.Sprintf("(%d,%d)", x, y)
	}
	return Field{name, off, 4, uint64(w), s}
}

func (l Layout) rect(name string, off int, w uint32) Field {
	s := fmt.Sprintf("0x%x", w)
	if x0, y0, x1, y1, ok := l.SplitRect(w); ok {
		s = fmt.Sprintf("(%d,%d)-(%d,%d)", x0, y0, x1, y1)
	}
	return Field{name, off, 4, uint64(w), s}
}

func index(name string, i int) string { return fmt.Sprintf("%s[%d]", name, i) }

// Fields lists the fields.
func (c RelayLinear) Fields(l Layout) []Field {
	return []Field{deci("length", atRelayLinearLength, 8, c.Length), l.tile("noc", atRelayLinearNOC, c.NOC),
		hexa("addr", atRelayLinearAddr, 8, c.Addr)}
}

// Fields lists the fields.
func (c RelayLinearH) Fields(l Layout) []Field {
	return []Field{l.tile("noc", atRelayLinearHNOC, c.NOC), hexa("addr", atRelayLinearHAddr, 8, c.Addr),
		deci("length", atRelayLinearHLength, 4, c.Length)}
}

// Fields lists the fields.
func (c RelayPaged) Fields(Layout) []Field {
	lo, _ := c.words()
	f := uint16(lo >> 16)
	return []Field{deci("start", atRelayPagedStart, 1, c.StartPage),
		text("flags", 2, 2, f, fmt.Sprintf("%s less %d", memory(c.DRAM), c.LengthAdjust)),
		hexa("base", atRelayPagedBase, 4, c.Base), deci("page_size", atRelayPagedPageSize, 4, c.PageSize),
		deci("pages", atRelayPagedPages, 4, c.Pages)}
}

func memory(dram bool) string {
	if dram {
		return "dram"
	}
	return "l1"
}

// Fields lists the fields.
func (c RelayPagedPacked) Fields(l Layout) []Field {
	var total uint32
	for _, s := range c.Subs {
		total += s.Length
	}
	f := []Field{deci("count", 2, 2, uint16(len(c.Subs))), deci("total", 4, 4, total),
		deci("stride", 8, 4, uint32(l.Stride(AtPagedSub(len(c.Subs)))))}
	for i, s := range c.Subs {
		at := AtPagedSub(i)
		f = append(f, deci(index("start", i), at+AtPagedSubStart, 2, s.StartPage), deci(index("log2_page", i), at+2, 2, s.LogPageSize),
			hexa(index("base", i), at+AtPagedSubBase, 4, s.Base), deci(index("length", i), at+atPagedSubLength, 4, s.Length))
	}
	return f
}

// Fields lists the relay's own fields.
func (c RelayInline) Fields(l Layout) []Field { return relayFields(l, c.To, size(c.Command, false)) }

// Fields lists the relay's own fields.
func (c RelayInlineNoFlush) Fields(l Layout) []Field {
	return relayFields(l, Master, size(c.Command, true))
}

func relayFields(l Layout, to Dispatcher, n int) []Field {
	return []Field{text("to", 1, 1, to, to.String()), deci("length", 4, 4, uint32(n)), deci("stride", 8, 4, uint32(l.Stride(HeaderSize+n)))}
}

// Fields lists the fields.
func (c ExecBuf) Fields(Layout) []Field {
	return []Field{hexa("base", atExecBufBase, 4, c.Base), deci("log2_page", atExecBufLogPage, 4, c.LogPageSize),
		deci("pages", atExecBufPages, 4, c.Pages)}
}

// Fields lists the relay's fields.
func (ExecBufEnd) Fields(l Layout) []Field { return relayFields(l, Master, HeaderSize) }

// Fields lists none.
func (Stall) Fields(Layout) []Field { return nil }

// Fields lists the fields.
func (c DebugPrefetch) Fields(l Layout) []Field {
	return []Field{hexa("key", 2, 2, c.Key), deci("size", 4, 4, uint32(len(c.Data))),
		deci("stride", 8, 4, uint32(l.Stride(HeaderSize+len(c.Data))))}
}

// Fields lists none.
func (TerminatePrefetch) Fields(Layout) []Field { return nil }

// Fields lists the fields.
func (c PagedToRingbuffer) Fields(Layout) []Field {
	return []Field{yes("reset", atToRingbufferFlags, c.Reset), deci("log2_page", 2, 1, c.LogPageSize), deci("start", 3, 1, c.StartPage),
		deci("advance", atToRingbufferAdvance, 4, c.Advance), hexa("base", atToRingbufferBase, 4, c.Base),
		deci("length", atToRingbufferLength, 4, c.Length)}
}

// Fields lists the fields.
func (c SetRingbufferOffset) Fields(Layout) []Field {
	return []Field{hexa("offset", atRingbufferOffset, 4, c.Offset), yes("write", 8, c.Write)}
}

// Fields lists the fields.
func (c RelayRingbuffer) Fields(l Layout) []Field {
	f := []Field{deci("count", 2, 2, uint16(len(c.Subs))), deci("stride", 4, 4, uint32(l.Stride(atRingSub(len(c.Subs)))))}
	for i, s := range c.Subs {
		f = append(f, hexa(index("start", i), atRingSub(i)+atRingSubStart, 4, s.Start), deci(index("length", i), atRingSub(i)+atRingSubLength,
			4, s.Length))
	}
	return f
}

// Fields lists the fields.
func (c WriteLinear) Fields(l Layout) []Field {
	noc := l.tile("noc", atWriteLinearNOC, c.NOC)
	if c.McastDests != 0 {
		noc = l.rect("noc", atWriteLinearNOC, c.NOC)
	}
	return []Field{deci("mcast", 1, 1, c.McastDests), deci("offset_index", 2, 1, c.OffsetIndex), noc,
		hexa("addr", atWriteLinearAddr, 8, c.Addr), deci("length", AtWriteLinearLength, 8, c.words()[2])}
}

// Fields lists the fields.
func (c WriteHost) Fields(Layout) []Field {
	_, n := c.words()
	return []Field{yes("event", 1, c.Event), hexa("pad1", atWriteHostPad1, 2, c.Pad1), hexa("pad2", atWriteHostPad2, 4, c.Pad2),
		deci("length", 8, 8, n)}
}

// Fields lists the fields.
func (c WritePaged) Fields(Layout) []Field {
	return []Field{text("memory", 1, 1, uint8(bit(c.DRAM)), memory(c.DRAM)), deci("start", atWritePagedStart, 2, c.StartPage),
		hexa("base", atWritePagedBase, 4, c.Base), deci("page_size", 8, 4, c.PageSize), deci("pages", 12, 4, c.Pages)}
}

// Fields lists the fields.
func (c WritePacked) Fields(l Layout) []Field {
	lo, _ := c.words()
	flags := uint8(lo >> 8)
	s := c.Type.String()
	if flags&packedMulticast != 0 {
		s += "|multicast"
	}
	if c.NoStride {
		s += "|no stride"
	}
	f := []Field{text("flags", 1, 1, flags, s), deci("count", 2, 2, uint16(lo>>16)), deci("offset_index", atPackedOffsetIndex, 2,
		c.OffsetIndex),
		deci("size", 6, 2, c.Size), hexa("addr", AtPackedAddr, 4, c.Addr)}
	if len(c.Rects) == 0 {
		for i, xy := range c.Cores {
			f = append(f, l.tile(index("noc", i), AtPackedCore(i), xy))
		}
	}
	for i, r := range c.Rects {
		f = append(f, l.rect(index("noc", i), atPackedRect(i), r.NOC), deci(index("dests", i), atPackedRect(i)+4, 4, r.Dests))
	}
	return f
}

// Fields lists the fields.
func (c WritePackedLarge) Fields(l Layout) []Field {
	f := []Field{text("type", 1, 1, c.Type, c.Type.String()), deci("count", 2, 2, uint16(len(c.Subs))), deci("alignment", 4, 2, c.Alignment),
		deci("offset_index", 6, 2, c.OffsetIndex)}
	for i, s := range c.Subs {
		at := AtLargeSub(i)
		n := uint16(s.Length - 1)
		f = append(f, l.rect(index("noc", i), at+atLargeSubNOC, s.NOC), hexa(index("addr", i), at+AtLargeSubAddr, 4, s.Addr),
			text(index("length", i), at+atLargeSubLength, 2, n, fmt.Sprint(s.Length)), deci(index("dests", i), at+10, 1, s.Dests),
			yes(index("unlink", i), at+11, s.Unlink))
	}
	return f
}

// Fields lists the fields.
func (c Wait) Fields(Layout) []Field {
	return []Field{text("flags", AtWaitFlags, 1, c.Flags, c.Flags.String()), deci("stream", AtWaitStream, 2, c.Stream),
		hexa("addr", atWaitAddr, 4, c.Addr), deci("count", AtWaitCount, 4, c.Count)}
}

// Fields lists none.
func (Sink) Fields(Layout) []Field { return nil }

// Fields lists the fields.
func (c DebugDispatch) Fields(Layout) []Field {
	return []Field{hexa("key", 2, 2, c.Key), deci("size", 4, 4, uint32(len(c.Data))), deci("stride", 8, 4, c.Stride)}
}

// Fields lists the fields.
func (c Delay) Fields(Layout) []Field { return []Field{deci("loops", 4, 4, c.Loops)} }

// Fields lists none.
func (ExecBufEndDispatch) Fields(Layout) []Field { return nil }

// Fields lists the fields.
func (c SetWriteOffset) Fields(Layout) []Field {
	f := []Field{deci("count", 1, 1, c.Count), deci("host_id", AtHostID, 2, c.HostID)}
	for i := range min(int(c.Count), maxWriteOffsets) {
		f = append(f, hexa(index("offset", i), AtWriteOffset(i), 4, c.Offsets[i]))
	}
	return f
}

// Fields lists none.
func (TerminateDispatch) Fields(Layout) []Field { return nil }

// Fields lists the fields.
func (c SendGoSignal) Fields(Layout) []Field {
	mcast := deci("multicast", atGoMulticast, 1, c.Multicast)
	if c.Multicast == NoMulticast {
		mcast.Text = "none"
	}
	return []Field{text("go", AtGoWord, 4, c.Go, fmt.Sprintf("0x%08x (%v)", uint32(c.Go), c.Go)), mcast,
		deci("unicasts", atGoNumUnicast, 1, c.NumUnicast), deci("noc_start", atGoNOCStart, 1, c.NOCStart),
		deci("wait_count", AtGoWaitCount, 4, c.WaitCount), deci("wait_stream", AtGoWaitStream, 4, c.WaitStream)}
}

// Fields lists the fields.
func (c NotifySubordinate) Fields(Layout) []Field {
	return []Field{yes("wait", 1, c.Wait), hexa("mask", atNotifyMask, 2, c.Mask)}
}

// Fields lists the fields.
func (c SetNumWorkerSems) Fields(Layout) []Field { return []Field{deci("num", 4, 4, c.Num)} }

// Fields lists the fields.
func (c SetGoSignalNOCData) Fields(l Layout) []Field {
	f := []Field{deci("count", 4, 4, uint32(len(c.Words)))}
	for i, w := range c.Words {
		f = append(f, l.tile(index("noc", i), atGoNOCData(i), w))
	}
	return f
}

// Fields lists none.
func (Opaque) Fields(Layout) []Field { return nil }
