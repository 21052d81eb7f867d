package cq

// Append appends any prefetcher command and returns its offset, also for a relay.
func (b *Builder) Append(c PrefetchCommand) int {
	at := len(b.buf)
	if c == nil {
		return b.fail(bad(ErrFormat, 0, "", "no prefetcher command"))
	}
	if c.encode(b); b.err != nil {
		return 0
	}
	return at
}

// Dispatch appends any dispatcher command. Any dispatcher gets any, so that what was decoded
// encodes again; Check judges.
func (b *Builder) Dispatch(to Dispatcher, c DispatchCommand) int {
	switch {
	case to > Subordinate:
		return b.fail(noDispatcher(to))
	case to != Master && b.inside.on:
		return b.fail(notInSequence(to))
	}
	start := len(b.buf)
	at := b.encode(c, false)
	if b.err == nil && !b.inside.on {
		b.buf[start+1] = byte(to)
	}
	return at
}

func noDispatcher(to Dispatcher) error {
	return limit(nameRelay, "dispatcher", uint8(to), "0 or 1", "pass Master or Subordinate")
}

func notInSequence(to Dispatcher) error {
	return bad(ErrFormat, 0, DispatchSequence.String(), "a command for %v in a sequence: hand it over", to)
}

func (b *Builder) noFlush(c DispatchCommand) int {
	start := len(b.buf)
	at := b.encode(c, true)
	if b.err == nil && !b.inside.on {
		b.buf[start] = byte(PrefetchRelayInlineNoFlush)
	}
	return at
}

func (b *Builder) encode(c DispatchCommand, header bool) int {
	if c == nil {
		return b.fail(bad(ErrFormat, AtRelayed, "", "no dispatcher command in a relay"))
	}
	return c.encode(b, header)
}

func (c RelayLinearH) encode(b *Builder) int       { return b.RelayLinearH(c) }
func (c RelayPaged) encode(b *Builder) int         { return b.RelayPaged(c) }
func (c RelayPagedPacked) encode(b *Builder) int   { return b.RelayPagedPacked(c) }
func (c RelayInline) encode(b *Builder) int        { return b.Dispatch(c.To, c.Command) }
func (c RelayInlineNoFlush) encode(b *Builder) int { return b.noFlush(c.Command) }
func (c ExecBuf) encode(b *Builder) int            { return b.ExecBuf(c) }
func (c ExecBufEnd) encode(b *Builder) int         { return b.ExecBufEnd() }
func (c Stall) encode(b *Builder) int              { return b.Stall() }
func (c TerminatePrefetch) encode(b *Builder) int  { return b.bare(head{lo: uint64(PrefetchTerminate)}) }
func (c Wait) encode(b *Builder, _ bool) int       { return b.Wait(Master, c) }
func (c Sink) encode(b *Builder, _ bool) int       { return b.small(Master, head{lo: uint64(DispatchSink)}) }
func (c ExecBufEndDispatch) encode(b *Builder, _ bool) int {
	return b.small(Master, head{lo: uint64(c.ID())})
}
func (c SetWriteOffset) encode(b *Builder, _ bool) int { return b.SetWriteOffset(c) }
func (c TerminateDispatch) encode(b *Builder, _ bool) int {
	return b.small(Master, head{lo: uint64(DispatchTerminate)})
}
func (c SendGoSignal) encode(b *Builder, _ bool) int      { return b.SendGoSignal(Master, c) }
func (c NotifySubordinate) encode(b *Builder, _ bool) int { return b.NotifySubordinate(c) }
func (c WritePacked) encode(b *Builder, header bool) int {
	return b.packed(&c, header && len(c.Data) == 0).At
}
func (c WritePackedLarge) encode(b *Builder, header bool) int {
	at, _ := b.packedLarge(&c, header)
	return at
}
func (c Opaque) encode(b *Builder, _ bool) int {
	p, at := b.relay(PrefetchRelayInline, Master, uint64(len(c.Payload)))
	copy(p, c.Payload)
	return at
}

// RelayLinearH appends the command.
func (b *Builder) RelayLinearH(c RelayLinearH) int {
	return b.large([4]uint64{uint64(PrefetchRelayLinearH) | uint64(c.NOC)<<32, c.Addr, uint64(c.Length)})
}

// RelayPaged appends the command.
func (b *Builder) RelayPaged(c RelayPaged) int {
	if c.LengthAdjust > maxLengthAdjust {
		return b.fail(limit(c.ID().String(), "length adjust", c.LengthAdjust, "0 to 32767 bytes", "relay fewer pages"))
	}
	f := uint64(c.LengthAdjust&maxLengthAdjust) | bit(c.DRAM)<<15
	return b.bare(head{uint64(PrefetchRelayPaged) | uint64(c.StartPage)<<8 | f<<16 | uint64(c.Base)<<32,
		uint64(c.PageSize) | uint64(c.Pages)<<32})
}

// RelayPagedPacked appends the command; entry i of the list is at AtPagedSub(i).
func (b *Builder) RelayPagedPacked(c RelayPagedPacked) int {
	if b.err != nil || b.outside(PrefetchRelayPagedPacked) {
		return 0
	}
	n := len(c.Subs)
	if n == 0 || n > maxPagedSubs {
		return b.fail(countLimit(own().prefetch.by(uint8(c.ID())), n))
	}
	var total uint64
	for i := range c.Subs {
		total += uint64(c.Subs[i].Length)
	}
	if total > 1<<32-1 {
		return b.fail(limit(c.ID().String(), "total length", total, "less than 4 GiB", "use several commands"))
	}
	p, at := b.padded(AtPagedSub(n))
	head{uint64(PrefetchRelayPagedPacked) | uint64(uint16(n))<<16 | total<<32, uint64(uint32(len(p)))}.put(p)
	for i, s := range c.Subs {
		q := (*[12]byte)(p[AtPagedSub(i):])
		le.PutUint32(q[0:], uint32(s.StartPage)|uint32(s.LogPageSize)<<16)
		le.PutUint32(q[4:], s.Base)
		le.PutUint32(q[8:], s.Length)
	}
	return at
}

// ExecBuf is for a fetch entry with the stall bit.
func (b *Builder) ExecBuf(c ExecBuf) int {
	return b.bare(head{uint64(PrefetchExecBuf) | uint64(c.Base)<<32, uint64(c.LogPageSize) | uint64(c.Pages)<<32})
}

// ExecBufEnd appends the command with the dispatcher's EXEC_BUF_END inside.
func (b *Builder) ExecBufEnd() int {
	p, at := b.relay(PrefetchExecBufEnd, Master, HeaderSize)
	if p == nil {
		return 0
	}
	head{lo: uint64(DispatchExecBufEnd)}.put(p)
	return at - HeaderSize
}

// Stall needs a WAIT with NotifyFetch right before it; WaitStall writes both.
func (b *Builder) Stall() int { return b.bare(head{lo: uint64(PrefetchStall)}) }

// WaitStall appends the WAIT to the master, with WaitBarrier and NotifyFetch added, and its STALL.
// It returns the WAIT's offset.
func (b *Builder) WaitStall(c Wait) int {
	c.Flags |= WaitBarrier | NotifyFetch
	at := b.Wait(Master, c)
	b.Stall()
	return at
}

func (c DebugPrefetch) encode(b *Builder) int {
	if b.err != nil || b.outside(PrefetchDebug) {
		return 0
	}
	p, at := b.padded(HeaderSize + len(c.Data))
	debugWords(uint8(PrefetchDebug), c.Key, uint32(len(c.Data)), uint32(len(p))).put(p)
	copy(p[HeaderSize:], c.Data)
	return at
}

func (c RelayRingbuffer) encode(b *Builder) int {
	if b.err != nil || b.outside(PrefetchRelayRingbuffer) {
		return 0
	}
	n := len(c.Subs)
	if n == 0 || n > MaxRingSubs {
		return b.fail(countLimit(own().prefetch.by(uint8(c.ID())), n))
	}
	p, at := b.padded(atRingSub(n))
	head{lo: uint64(PrefetchRelayRingbuffer) | uint64(uint16(n))<<16 | uint64(uint32(len(p)))<<32}.put(p)
	for i, s := range c.Subs {
		q := (*[8]byte)(p[atRingSub(i):])
		le.PutUint32(q[0:], s.Start)
		le.PutUint32(q[4:], s.Length)
	}
	return at
}

// WriteLinear without Data writes Length zeros to fill, 32 bytes after the offset returned.
func (b *Builder) WriteLinear(c WriteLinear) int { return c.encode(b, false) }

// WriteLinearHeader leaves the data to a relay, the next command.
func (b *Builder) WriteLinearHeader(c WriteLinear) int { return c.encode(b, true) }

func (c WriteLinear) encode(b *Builder, noFlush bool) int {
	if noFlush && len(c.Data) != 0 {
		return b.failData(c.ID().String())
	}
	n := c.Length
	if len(c.Data) != 0 {
		n = uint64(len(c.Data))
	}
	p, at := b.payload(noFlush, LargeHeaderSize, n)
	if p == nil {
		return 0
	}
	lo := uint64(DispatchWriteLinear) + bit(c.H) | uint64(c.McastDests)<<8 | uint64(c.OffsetIndex)<<16 | uint64(c.NOC)<<32
	head{lo, c.Addr}.put(p)
	head{lo: n}.put(p[HeaderSize:])
	fill(p[LargeHeaderSize:], c.Data)
	return at
}

func (b *Builder) failData(name string) int {
	return b.fail(bad(ErrFormat, 0, name, "a NOFLUSH carries no data: give Length, and a relay after it"))
}

// WriteHost without Data writes Length-16 zeros to fill.
func (b *Builder) WriteHost(c WriteHost) int { return c.encode(b, false) }

// WriteHostHeader appends the command without its data, which the next command, a relay, must
// bring.
func (b *Builder) WriteHostHeader(c WriteHost) int { return c.encode(b, true) }

func (c WriteHost) encode(b *Builder, noFlush bool) int {
	hi := c.Length
	if len(c.Data) != 0 {
		hi = HeaderSize + uint64(len(c.Data))
	}
	if hi < HeaderSize {
		return b.fail(limit(c.ID().String(), "length", hi, "at least 16 bytes", "count the header: 16 plus the data"))
	}
	if noFlush && len(c.Data) != 0 {
		return b.failData(c.ID().String())
	}
	w := head{uint64(DispatchWriteHost) | bit(c.Event)<<8 | uint64(c.Pad1)<<16 | uint64(c.Pad2)<<32, hi}
	return b.headed(noFlush, w, hi-HeaderSize, c.Data)
}

// WritePaged appends the command with its data, or with zeros to fill if there are none.
func (b *Builder) WritePaged(c WritePaged) int { return c.encode(b, false) }

// WritePagedHeader appends the command without its data, which the next command, a relay, must
// bring.
func (b *Builder) WritePagedHeader(c WritePaged) int { return c.encode(b, true) }

func (c WritePaged) encode(b *Builder, noFlush bool) int {
	n := uint64(c.PageSize) * uint64(c.Pages)
	switch {
	case noFlush && len(c.Data) != 0:
		return b.failData(c.ID().String())
	case n > 1<<32-1:
		return b.fail(limit(c.ID().String(), "pages*page size", n, "less than 4 GiB", "use several commands"))
	case len(c.Data) != 0 && uint64(len(c.Data)) != n:
		return b.fail(bad(ErrFormat, HeaderSize, c.ID().String(), "%d bytes of data for %d pages of %d bytes", len(c.Data), c.Pages,
			c.PageSize))
	}
	return b.headed(noFlush, head{uint64(DispatchWritePaged) | bit(c.DRAM)<<8 | uint64(c.StartPage)<<16 | uint64(c.Base)<<32,
		uint64(c.PageSize) | uint64(c.Pages)<<32}, n, c.Data)
}

func (b *Builder) headed(noFlush bool, w head, n uint64, data []byte) int {
	p, at := b.payload(noFlush, HeaderSize, n)
	if p == nil {
		return 0
	}
	w.put(p)
	fill(p[HeaderSize:], data)
	return at
}

// Packed is where a WRITE_PACKED lies in the stream.
type Packed struct {
	At     int // the dispatcher command
	Data   int // the first data slot
	Stride int // bytes from slot to slot
	Size   int // bytes of data in a slot
	Slots  int
}

// Slot is the offset of slot i in the stream.
func (p Packed) Slot(i int) int { return p.Data + i*p.Stride }

// WritePacked without Data writes zeros to fill.
func (b *Builder) WritePacked(c WritePacked) Packed { return b.packed(&c, false) }

// WritePackedHeader leaves the data to a relay, each slot padded to 16 bytes.
func (b *Builder) WritePackedHeader(c WritePacked) int {
	if len(c.Data) != 0 {
		return b.failData(c.ID().String())
	}
	return b.packed(&c, true).At
}

func (b *Builder) packed(c *WritePacked, noFlush bool) Packed {
	if b.err != nil {
		return Packed{}
	}
	if err := c.check(); err != nil {
		b.fail(err)
		return Packed{}
	}
	subs := 4*len(c.Cores) + 8*len(c.Rects)
	head := HeaderSize + (subs+L1Align-1)&^(L1Align-1)
	stride, slots := SlotStride(int(c.Size)), c.slots()
	p, at := b.payload(noFlush, head, uint64(slots*stride))
	if p == nil {
		return Packed{}
	}
	c.words().put(p)
	q := p[HeaderSize : HeaderSize+subs]
	if len(c.Rects) == 0 {
		putWords(q, c.Cores)
	} else {
		for _, r := range c.Rects {
			le.PutUint64(q[:8], uint64(r.NOC)|uint64(r.Dests)<<32)
			q = q[8:]
		}
	}
	if HeaderSize+subs < head {
		clear(p[HeaderSize+subs : head])
	}
	fill(p[head:], c.Data)
	return Packed{At: at, Data: at + head, Stride: stride, Size: int(c.Size), Slots: slots}
}

func (c *WritePacked) check() error {
	const name = "WRITE_PACKED"
	n, m := len(c.Cores), len(c.Rects)
	switch {
	case (n == 0) == (m == 0):
		return bad(ErrFormat, 2, name, "%d cores and %d rectangles: exactly one kind must be given", n, m)
	case n > maxPackedCores:
		return limit(name, "cores", n, "1 to 1020", "use several commands")
	case m > maxPackedRects:
		return limit(name, "rectangles", m, "1 to 510", "use several commands")
	case c.Type > 0xF:
		return limit(name, "type", uint8(c.Type), "0 to 15", "use a PackedType")
	case c.Size == 0:
		return limit(name, "size", c.Size, "at least 1 byte", "leave the command out")
	case len(c.Data) != 0 && len(c.Data) != c.slots()*SlotStride(int(c.Size)):
		return bad(ErrFormat, HeaderSize, name, "%d bytes of data for %d slots of %d bytes", len(c.Data), c.slots(),
			SlotStride(int(c.Size)))
	}
	return nil
}

// WritePackedLarge without Data writes zeros to fill, from offset data on.
func (b *Builder) WritePackedLarge(c WritePackedLarge) (at, data int) {
	return b.packedLarge(&c, false)
}

// WritePackedLargeHeader leaves the data to a relay, each block padded to Alignment.
func (b *Builder) WritePackedLargeHeader(c WritePackedLarge) int {
	at, _ := b.packedLarge(&c, true)
	return at
}

func (b *Builder) packedLarge(c *WritePackedLarge, noFlush bool) (at, data int) {
	if b.err != nil {
		return 0, 0
	}
	if err := c.check(noFlush); err != nil {
		b.fail(err)
		return 0, 0
	}
	subs := AtLargeSub(len(c.Subs))
	head := (subs + L1Align - 1) &^ (L1Align - 1)
	p, at := b.payload(noFlush, head, uint64(c.dataBytes()))
	if p == nil {
		return 0, 0
	}
	c.words().put(p)
	for i := range c.Subs {
		s := &c.Subs[i]
		q := (*[12]byte)(p[AtLargeSub(i):])
		le.PutUint32(q[0:], s.NOC)
		le.PutUint32(q[4:], s.Addr)
		le.PutUint32(q[8:], uint32(uint16(s.Length-1))|uint32(s.Dests)<<16|uint32(bit(s.Unlink))<<24)
	}
	clear(p[subs:head])
	fill(p[head:], c.Data)
	return at, at + head
}

func (c *WritePackedLarge) check(noFlush bool) error {
	const name = "WRITE_PACKED_LARGE"
	if n := len(c.Subs); n == 0 || n > MaxLargeSubs {
		return countLimit(own().dispatch.by(uint8(c.ID())), n)
	}
	if a := c.Alignment; a == 0 || a&(a-1) != 0 {
		return limit(name, "alignment", a, "a power of two", "16 for inline data, the DRAM alignment for relayed data")
	}
	for i := range c.Subs {
		if n := c.Subs[i].Length; n == 0 || n > maxLargeLength {
			return limit(name, "length of a sub-command", n, "1 to 65536 bytes", "split it")
		}
	}
	if noFlush && len(c.Data) != 0 {
		return bad(ErrFormat, 0, name, "a NOFLUSH carries no data: put a relay after it")
	}
	if n := c.dataBytes(); len(c.Data) != 0 && len(c.Data) != n {
		return bad(ErrFormat, AtLargeSub(len(c.Subs)), name, "%d bytes of data for blocks of %d bytes", len(c.Data), n)
	}
	return nil
}

// Wait appends the command.
func (b *Builder) Wait(to Dispatcher, c Wait) int {
	return b.small(to, head{uint64(DispatchWait) | uint64(c.Flags)<<8 | uint64(c.Stream)<<16 | uint64(c.Addr)<<32, uint64(c.Count)})
}

func (c DebugDispatch) encode(b *Builder, _ bool) int {
	w := debugWords(uint8(DispatchDebug), c.Key, uint32(len(c.Data)), c.Stride)
	return b.headed(false, w, uint64(len(c.Data)), c.Data)
}

// SetWriteOffset appends the command; offset i is at AtWriteOffset(i).
func (b *Builder) SetWriteOffset(c SetWriteOffset) int {
	if c.Count > maxWriteOffsets {
		return b.fail(countLimit(own().dispatch.by(uint8(c.ID())), int(c.Count)))
	}
	p, at := b.relay(PrefetchRelayInline, Master, uint64(AtWriteOffset(int(c.Count))))
	if p == nil {
		return 0
	}
	head{uint64(DispatchSetWriteOffset) | uint64(c.Count)<<8 | uint64(c.HostID)<<16, 0}.put(p)
	for i := range int(c.Count) {
		le.PutUint32(p[AtWriteOffset(i):], c.Offsets[i])
	}
	return at
}

// SendGoSignal appends the command.
func (b *Builder) SendGoSignal(to Dispatcher, c SendGoSignal) int { return b.small(to, c.words()) }

// NotifySubordinate appends the command.
func (b *Builder) NotifySubordinate(c NotifySubordinate) int {
	return b.small(Master, head{uint64(DispatchNotifySubordinate) | bit(c.Wait)<<8 | uint64(c.Mask)<<16, 0})
}

func (c SetGoSignalNOCData) encode(b *Builder, _ bool) int {
	p, at := b.relay(PrefetchRelayInline, Master, HeaderSize+4*uint64(len(c.Words)))
	if p == nil {
		return 0
	}
	head{uint64(DispatchSetGoSignalNOCData) | uint64(uint32(len(c.Words)))<<32, 0}.put(p)
	putWords(p[HeaderSize:], c.Words)
	return at
}

func putWords(q []byte, words []uint32) {
	for len(words) >= 4 && len(q) >= 16 {
		w, p := (*[4]uint32)(words), (*[16]byte)(q)
		le.PutUint64(p[0:], uint64(w[0])|uint64(w[1])<<32)
		le.PutUint64(p[8:], uint64(w[2])|uint64(w[3])<<32)
		words, q = words[4:], q[16:]
	}
	for i, w := range words {
		le.PutUint32(q[4*i:], w)
	}
}

func (c ReadArg) encode(b *Builder, _ bool) int {
	if n := len(c.Targets); n == 0 || n > MaxArgTargets {
		return b.fail(countLimit(own().dispatch.by(uint8(c.ID())), n))
	}
	p, at := b.relay(PrefetchRelayInline, Master, uint64(c.Size()))
	if p == nil {
		return 0
	}
	clear(p)
	head{uint64(DispatchReadArg) | uint64(c.OffsetIndex)<<8 | uint64(uint16(len(c.Targets)))<<16, uint64(c.NOC) | uint64(c.Addr)<<32}.put(p)
	for i, t := range c.Targets {
		le.PutUint64(p[atArgTarget(i):], uint64(t.NOC)|uint64(t.Addr)<<32|uint64(t.Dests)<<48)
	}
	return at
}

// Sequence appends the command.
func (b *Builder) Sequence(c Sequence) int { return c.encode(b, false) }

func (c Sequence) encode(b *Builder, noFlush bool) int {
	b.BeginSequence()
	for i, d := range c.Commands {
		if noFlush && i == len(c.Commands)-1 {
			b.noFlush(d)
		} else {
			b.Dispatch(Master, d)
		}
	}
	if noFlush && b.err == nil {
		b.inside.id = PrefetchRelayInlineNoFlush
	}
	return b.EndSequence()
}

func (c ForwardSubordinate) encode(b *Builder, _ bool) int {
	switch d := c.Command.(type) {
	case SendGoSignal:
		return b.forwardSubordinate(c, d.words())
	case TerminateDispatch:
		return b.forwardSubordinate(c, head{lo: uint64(DispatchTerminate)})
	}
	return b.fail(bad(ErrFormat, AtForwarded, c.ID().String(), "%T can't be forwarded", c.Command))
}

// ForwardSubordinateGo appends the ForwardSubordinate of a go signal without an allocation. The
// signal is at AtForwarded.
func (b *Builder) ForwardSubordinateGo(wait bool, c SendGoSignal) int {
	return b.forwardSubordinate(ForwardSubordinate{Wait: wait}, c.words())
}

func (b *Builder) forwardSubordinate(c ForwardSubordinate, w head) int {
	p, at := b.relay(PrefetchRelayInline, Master, ForwardSubordinateSize)
	if p == nil {
		return 0
	}
	c.words().put(p)
	w.put(p[AtForwarded:])
	return at
}
