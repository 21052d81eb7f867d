package cq

// Append appends any prefetcher command and returns its offset (for a relay too
// that of the prefetcher's command).
func (b *Builder) Append(c PrefetchCommand) int {
	at := len(b.buf)
	b.append(c)
	if b.err != nil {
		return 0
	}
	return at
}

func (b *Builder) append(c PrefetchCommand) int {
	switch c := c.(type) {
	case RelayLinear:
		return b.RelayLinear(c)
	case RelayLinearH:
		return b.RelayLinearH(c)
	case RelayPaged:
		return b.RelayPaged(c)
	case RelayPagedPacked:
		return b.RelayPagedPacked(c)
	case RelayInline:
		return b.inline(c.To, c.Command)
	case RelayInlineNoFlush:
		return b.noFlush(c.Command)
	case ExecBuf:
		return b.ExecBuf(c)
	case ExecBufEnd:
		return b.ExecBufEnd()
	case Stall:
		return b.Stall()
	case DebugPrefetch:
		return b.DebugPrefetch(c)
	case TerminatePrefetch:
		return b.TerminatePrefetch()
	case PagedToRingbuffer:
		return b.PagedToRingbuffer(c)
	case SetRingbufferOffset:
		return b.SetRingbufferOffset(c)
	case RelayRingbuffer:
		return b.RelayRingbuffer(c)
	case LoopBegin:
		return b.LoopBegin(c)
	case LoopEnd:
		return b.LoopEnd(c)
	case Branch:
		return b.Branch(c)
	case CallTrace:
		return b.CallTrace(c)
	}
	return b.fail(bad(ErrFormat, 0, "", "%T is no prefetcher command of this package", c))
}

// inline appends a RELAY_INLINE. Which dispatcher may get which command is for
// Validate to say; here any goes to any, so that what was decoded encodes again.
func (b *Builder) inline(to Dispatcher, c DispatchCommand) int {
	if to > Subordinate {
		return b.fail(limit("RELAY_INLINE", "dispatcher", uint8(to), "0 or 1", "pass Master or Subordinate"))
	}
	start := len(b.buf)
	at := 0
	switch c := c.(type) {
	case WriteLinear:
		at = b.WriteLinear(c)
	case WriteHost:
		at = b.WriteHost(c)
	case WritePaged:
		at = b.WritePaged(c)
	case WritePackedLarge:
		at, _ = b.WritePackedLarge(c)
	default:
		at = b.whole(c)
	}
	if b.err == nil && !b.inside.on {
		b.buf[start+1] = byte(to)
	}
	return at
}

// noFlush appends a RELAY_INLINE_NOFLUSH.
func (b *Builder) noFlush(c DispatchCommand) int {
	start := len(b.buf)
	at := 0
	switch c := c.(type) {
	case WriteLinear:
		at = b.WriteLinearHeader(c)
	case WriteHost:
		at = b.WriteHostHeader(c)
	case WritePaged:
		at = b.WritePagedHeader(c)
	case WritePackedLarge:
		at = b.WritePackedLargeHeader(c)
	case Sequence:
		return b.SequenceHeader(c)
	case WritePacked:
		if len(c.Data) == 0 {
			return b.WritePackedHeader(c)
		}
		at = b.whole(c)
	default:
		at = b.whole(c)
	}
	if b.err == nil && !b.inside.on {
		b.buf[start] = byte(PrefetchRelayInlineNoFlush)
	}
	return at
}

// whole appends a command that looks the same in both relays, in a RELAY_INLINE
// to the master.
func (b *Builder) whole(c DispatchCommand) int {
	switch c := c.(type) {
	case WritePacked:
		return b.WritePacked(c).At
	case Wait:
		return b.Wait(Master, c)
	case Sink:
		return b.Sink()
	case DebugDispatch:
		return b.DebugDispatch(c)
	case Delay:
		return b.Delay(c)
	case ExecBufEndDispatch:
		return b.small(Master, uint64(DispatchExecBufEnd), 0)
	case SetWriteOffset:
		return b.SetWriteOffset(c)
	case TerminateDispatch:
		return b.TerminateDispatch(Master)
	case SendGoSignal:
		return b.SendGoSignal(Master, c)
	case NotifySubordinate:
		return b.NotifySubordinate(c)
	case SetNumWorkerSems:
		return b.SetNumWorkerSems(Master, c)
	case SetGoSignalNOCData:
		return b.SetGoSignalNOCData(Master, c)
	case Sequence:
		return b.Sequence(c)
	case ForwardSubordinate:
		return b.ForwardSubordinate(c)
	case ReadArg:
		return b.ReadArg(c)
	case Opaque:
		p, at := b.relay(PrefetchRelayInline, Master, uint64(len(c.Payload)))
		copy(p, c.Payload)
		return at
	}
	return b.fail(bad(ErrFormat, AtRelayed, "", "%T is no dispatcher command of this package", c))
}
