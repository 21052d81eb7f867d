package cq

// RelayLinear appends the command.
func (b *Builder) RelayLinear(c RelayLinear) int { return b.large(c.words()) }

// RelayLinearH appends the command.
func (b *Builder) RelayLinearH(c RelayLinearH) int { return b.large(c.words()) }

// RelayPaged appends the command.
func (b *Builder) RelayPaged(c RelayPaged) int {
	if c.LengthAdjust > maxLengthAdjust {
		return b.fail(limit(c.Name(), "length adjust", c.LengthAdjust, "0 to 32767 bytes", "relay fewer pages"))
	}
	return b.bare(c.words())
}

// RelayPagedPacked appends the command; At i of the list is AtPagedSub(i).
func (b *Builder) RelayPagedPacked(c RelayPagedPacked) int {
	if b.err != nil || b.outside(PrefetchRelayPagedPacked) {
		return 0
	}
	n := len(c.Subs)
	if n == 0 || n > maxPagedSubs {
		return b.fail(limit(c.Name(), "sub-commands", n, "1 to 35", "use several commands"))
	}
	var total uint64
	for i := range c.Subs {
		total += uint64(c.Subs[i].Length)
	}
	if total > 1<<32-1 {
		return b.fail(limit(c.Name(), "total length", total, "less than 4 GiB", "use several commands"))
	}
	at := len(b.buf)
	end := AtPagedSub(n)
	stride := b.layout.Stride(end)
	p := b.grow(stride)
	w0, w1 := pagedPackedWords(n, uint32(total), stride)
	le.PutUint64(p[0:], w0)
	le.PutUint64(p[8:], w1)
	for i, s := range c.Subs {
		q := (*[12]byte)(p[AtPagedSub(i):])
		le.PutUint32(q[0:], uint32(s.StartPage)|uint32(s.LogPageSize)<<16)
		le.PutUint32(q[4:], s.Base)
		le.PutUint32(q[8:], s.Length)
	}
	clear(p[end:])
	return at
}

// ExecBuf appends the command. Its fetch entry must have the stall bit.
func (b *Builder) ExecBuf(c ExecBuf) int { return b.bare(c.words()) }

// ExecBufEnd appends the command, with the dispatcher's EXEC_BUF_END in it.
func (b *Builder) ExecBufEnd() int {
	p, at := b.relay(PrefetchExecBufEnd, Master, HeaderSize)
	if p == nil {
		return 0
	}
	le.PutUint64(p[0:], uint64(DispatchExecBufEnd))
	le.PutUint64(p[8:], 0)
	return at - HeaderSize
}

// Stall appends the command. Right before it the dispatcher must get a WAIT with
// NotifyFetch; WaitStall writes both.
func (b *Builder) Stall() int { return b.bare(uint64(PrefetchStall), 0) }

// WaitStall appends the WAIT to the master with WaitBarrier and NotifyFetch added, and
// the STALL that belongs to it, and returns the offset of the WAIT.
func (b *Builder) WaitStall(c Wait) int {
	c.Flags |= WaitBarrier | NotifyFetch
	at := b.Wait(Master, c)
	b.Stall()
	return at
}

// DebugPrefetch appends the command.
func (b *Builder) DebugPrefetch(c DebugPrefetch) int {
	if b.err != nil || b.outside(PrefetchDebug) {
		return 0
	}
	at := len(b.buf)
	end := HeaderSize + len(c.Data)
	stride := b.layout.Stride(end)
	p := b.grow(stride)
	w0, w1 := debugWords(uint8(PrefetchDebug), c.Key, uint32(len(c.Data)), uint32(stride))
	le.PutUint64(p[0:], w0)
	le.PutUint64(p[8:], w1)
	copy(p[HeaderSize:], c.Data)
	clear(p[end:])
	return at
}

// TerminatePrefetch appends the command.
func (b *Builder) TerminatePrefetch() int { return b.bare(uint64(PrefetchTerminate), 0) }

// PagedToRingbuffer appends the command.
func (b *Builder) PagedToRingbuffer(c PagedToRingbuffer) int { return b.bare(c.words()) }

// SetRingbufferOffset appends the command.
func (b *Builder) SetRingbufferOffset(c SetRingbufferOffset) int { return b.bare(c.words()) }

// RelayRingbuffer appends the command; At i of the list is atRingSub(i).
func (b *Builder) RelayRingbuffer(c RelayRingbuffer) int {
	if b.err != nil || b.outside(PrefetchRelayRingbuffer) {
		return 0
	}
	n := len(c.Subs)
	if n == 0 || n > MaxRingSubs {
		return b.fail(limit(c.Name(), "sub-commands", n, "1 to 52", "use several commands"))
	}
	at := len(b.buf)
	end := atRingSub(n)
	stride := b.layout.Stride(end)
	p := b.grow(stride)
	w0, w1 := ringWords(n, stride)
	le.PutUint64(p[0:], w0)
	le.PutUint64(p[8:], w1)
	for i, s := range c.Subs {
		q := (*[8]byte)(p[atRingSub(i):])
		le.PutUint32(q[0:], s.Start)
		le.PutUint32(q[4:], s.Length)
	}
	clear(p[end:])
	return at
}
