package cq

import "pgregory.net/rapid"

// Generators of commands as Decode delivers them: lengths filled in, data set
// where the command has any, nil where it has none.

func genBytes(n int) *rapid.Generator[[]byte] {
	return rapid.SliceOfN(rapid.Byte(), n, n)
}

func u8(t *rapid.T, n string) uint8   { return rapid.Uint8().Draw(t, n) }
func u16(t *rapid.T, n string) uint16 { return rapid.Uint16().Draw(t, n) }
func u32(t *rapid.T, n string) uint32 { return rapid.Uint32().Draw(t, n) }
func u64(t *rapid.T, n string) uint64 { return rapid.Uint64().Draw(t, n) }
func flag(t *rapid.T, n string) bool  { return rapid.Bool().Draw(t, n) }
func num(t *rapid.T, n string, lo, hi int) int {
	return rapid.IntRange(lo, hi).Draw(t, n)
}

func genData(t *rapid.T, n int) []byte {
	if n == 0 {
		return nil
	}
	return genBytes(n).Draw(t, "data")
}

func genDispatch(t *rapid.T, noFlush bool) DispatchCommand {
	// run is a length of data for inline commands.
	run := func() int { return num(t, "run", 0, 300) }
	switch n := num(t, "dispatcher id", 1, 20); DispatchID(n) {
	case 18:
		var c Sequence
		for range num(t, "commands", 1, 5) {
			c.Commands = append(c.Commands, genSingle(t, false))
		}
		if noFlush {
			c.Commands = append(c.Commands, genSingle(t, true))
		}
		return c
	case 19:
		if flag(t, "terminate") {
			return ForwardSubordinate{Wait: flag(t, "wait"), Command: TerminateDispatch{}}
		}
		return ForwardSubordinate{flag(t, "wait"), flag(t, "args"), SendGoSignal{GoWord(u32(t, "go")), u8(t, "multicast"), u8(t, "unicasts"),
			u8(t, "start"), u32(t, "count"), u32(t, "stream")}}
	case 20:
		c := ReadArg{OffsetIndex: u8(t, "index"), NOC: u32(t, "noc"), Addr: u32(t, "addr")}
		for range num(t, "targets", 1, 20) {
			c.Targets = append(c.Targets, ArgTarget{u32(t, "target"), u16(t, "offset"), u8(t, "dests")})
		}
		return c
	case DispatchWriteLinear, DispatchWriteLinearH:
		c := WriteLinear{H: flag(t, "h"), McastDests: u8(t, "mcast"), OffsetIndex: u8(t, "index"), NOC: u32(t, "noc"), Addr: u64(t, "addr"),
			Length: u64(t, "length")}
		if !noFlush {
			c.Data = genData(t, run())
			c.Length = uint64(len(c.Data))
		}
		return c
	case DispatchWriteHost:
		c := WriteHost{Event: flag(t, "event"), Pad1: u16(t, "pad1"), Pad2: u32(t, "pad2"), Length: max(16, u64(t, "length"))}
		if !noFlush {
			c.Data = genData(t, run())
			c.Length = 16 + uint64(len(c.Data))
		}
		return c
	case DispatchWritePaged:
		c := WritePaged{DRAM: flag(t, "dram"), StartPage: u16(t, "start"), Base: u32(t, "base"),
			PageSize: uint32(num(t, "page size", 0, 64)), Pages: uint32(num(t, "pages", 0, 8))}
		if !noFlush {
			c.Data = genData(t, int(c.PageSize*c.Pages))
		}
		return c
	case DispatchWritePacked:
		c := WritePacked{Type: PackedType(num(t, "type", 0, 15)), NoStride: flag(t, "no stride"), OffsetIndex: u16(t, "index"),
			Size: uint16(num(t, "size", 1, 80)), Addr: u32(t, "addr")}
		if n := num(t, "count", 1, 20); flag(t, "multicast") {
			for range n {
				c.Rects = append(c.Rects, Rect{u32(t, "noc"), u32(t, "dests")})
			}
		} else {
			for range n {
				c.Cores = append(c.Cores, u32(t, "noc"))
			}
		}
		c.Data = genData(t, c.slots()*SlotStride(int(c.Size)))
		return c
	case DispatchWritePackedLarge:
		c := WritePackedLarge{Type: LargeType(u8(t, "type")), Alignment: 1 << num(t, "alignment", 0, 7), OffsetIndex: u16(t, "index")}
		for range num(t, "count", 1, MaxLargeSubs) {
			n := uint32(num(t, "length", 1, 100))
			if noFlush {
				n = uint32(num(t, "length", 1, maxLargeLength))
			}
			c.Subs = append(c.Subs, LargeSub{u32(t, "noc"), u32(t, "addr"), n, u8(t, "dests"), flag(t, "unlink")})
		}
		if !noFlush {
			c.Data = genData(t, c.dataBytes())
		}
		return c
	case DispatchWait:
		return Wait{WaitFlags(u8(t, "flags")), u16(t, "stream"), u32(t, "addr"), u32(t, "count")}
	case DispatchSink:
		return Sink{}
	case DispatchDebug:
		return DebugDispatch{u16(t, "key"), u32(t, "stride"), genBytes(run()).Draw(t, "data")}
	case DispatchDelay:
		return Delay{u32(t, "loops")}
	case DispatchExecBufEnd:
		return ExecBufEndDispatch{}
	case DispatchSetWriteOffset:
		c := SetWriteOffset{HostID: u16(t, "host id"), Count: uint8(num(t, "count", 0, 4))}
		for i := range c.Count {
			c.Offsets[i] = u32(t, "offset")
		}
		return c
	case DispatchTerminate:
		return TerminateDispatch{}
	case DispatchSendGoSignal:
		return SendGoSignal{GoWord(u32(t, "go")), u8(t, "multicast"), u8(t, "unicasts"), u8(t, "start"), u32(t, "count"), u32(t, "stream")}
	case DispatchNotifySubordinate:
		return NotifySubordinate{flag(t, "wait"), u16(t, "mask")}
	case DispatchSetNumWorkerSems:
		return SetNumWorkerSems{u32(t, "num")}
	case DispatchSetGoSignalNOCData:
		n := num(t, "words", 0, 64)
		return SetGoSignalNOCData{rapid.SliceOfN(rapid.Uint32(), n, n).Draw(t, "words")}
	}
	panic("unreachable: every id has a case")
}

// genSingle is genDispatch without sequences.
func genSingle(t *rapid.T, noFlush bool) DispatchCommand {
	for {
		if d := genDispatch(t, noFlush); d.ID() != DispatchSequence {
			return d
		}
	}
}

func genPrefetch(t *rapid.T) PrefetchCommand {
	switch PrefetchID(num(t, "prefetcher id", 1, 18)) {
	case 15:
		return LoopBegin{u16(t, "loop"), u32(t, "exit"), u32(t, "count")}
	case 16:
		return LoopEnd{u16(t, "loop"), flag(t, "limited"), u32(t, "body")}
	case 17:
		return Branch{Compare: Compare(num(t, "compare", 0, int(compares)-1)), Level: u8(t, "level"), Same: flag(t, "same"),
			Leave: flag(t, "leave"), Limited: flag(t, "limited"),
			Else: u32(t, "else"), NOC: u32(t, "noc"), Addr: u32(t, "addr"), Value: u32(t, "value")}
	case 18:
		return CallTrace{u32(t, "base"), u32(t, "log"), u32(t, "pages")}
	case PrefetchRelayLinear:
		return RelayLinear{u64(t, "length"), u32(t, "noc"), u64(t, "addr")}
	case PrefetchRelayLinearH:
		return RelayLinearH{u32(t, "noc"), u64(t, "addr"), u32(t, "length")}
	case PrefetchRelayPaged:
		return RelayPaged{u8(t, "start"), flag(t, "dram"), uint16(num(t, "adjust", 0, maxLengthAdjust)), u32(t, "base"), u32(t, "page size"),
			u32(t, "pages")}
	case PrefetchRelayPagedPacked:
		var c RelayPagedPacked
		for range num(t, "count", 1, maxPagedSubs) {
			c.Subs = append(c.Subs, PagedSub{u16(t, "start"), u16(t, "log"), u32(t, "base"), uint32(num(t, "length", 0, 1<<26))})
		}
		return c
	case PrefetchRelayInline:
		return RelayInline{Dispatcher(num(t, "to", 0, 1)), genDispatch(t, false)}
	case PrefetchRelayInlineNoFlush:
		return RelayInlineNoFlush{genDispatch(t, true)}
	case PrefetchExecBuf:
		return ExecBuf{u32(t, "base"), u32(t, "log"), u32(t, "pages")}
	case PrefetchExecBufEnd:
		return ExecBufEnd{}
	case PrefetchStall:
		return Stall{}
	case PrefetchDebug:
		return DebugPrefetch{u16(t, "key"), genBytes(num(t, "size", 0, 200)).Draw(t, "data")}
	case PrefetchTerminate:
		return TerminatePrefetch{}
	case PrefetchPagedToRingbuffer:
		return PagedToRingbuffer{flag(t, "reset"), u8(t, "log"), u8(t, "start"), u32(t, "advance"), u32(t, "base"), u32(t, "length")}
	case PrefetchSetRingbufferOffset:
		return SetRingbufferOffset{u32(t, "offset"), flag(t, "write")}
	case PrefetchRelayRingbuffer:
		var c RelayRingbuffer
		for range num(t, "count", 1, MaxRingSubs) {
			c.Subs = append(c.Subs, RingSub{u32(t, "start"), u32(t, "length")})
		}
		return c
	}
	panic("unreachable: every id has a case")
}

func genLayout(t *rapid.T) Layout {
	return rapid.SampledFrom([]Layout{Wormhole, Blackhole}).Draw(t, "layout")
}

// appendCommand appends a prefetcher command.
func appendCommand(dst []byte, l Layout, c PrefetchCommand) ([]byte, error) {
	b := NewBuilder(l, dst)
	b.Append(c)
	return b.Finish()
}
