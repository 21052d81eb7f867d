package cq

// WriteLinear appends the command with its data, or with Length zeros to fill if
// there are none. The data are at AtLargeData.
func (b *Builder) WriteLinear(c WriteLinear) int { return b.writeLinear(&c, false) }

// WriteLinearHeader appends the command without its Length bytes of data: the
// next command must be the relay that brings them.
func (b *Builder) WriteLinearHeader(c WriteLinear) int { return b.writeLinear(&c, true) }

func (b *Builder) writeLinear(c *WriteLinear, noFlush bool) int {
	if noFlush && len(c.Data) != 0 {
		return b.failData(c.Name())
	}
	w := c.words()
	p, at := b.payload(noFlush, LargeHeaderSize, w[2])
	if p == nil {
		return 0
	}
	h := (*[32]byte)(p)
	le.PutUint64(h[0:], w[0])
	le.PutUint64(h[8:], w[1])
	le.PutUint64(h[16:], w[2])
	le.PutUint64(h[24:], w[3])
	fill(p[LargeHeaderSize:], c.Data)
	return at
}

func (b *Builder) failData(name string) int {
	return b.fail(bad(ErrFormat, 0, name, "a NOFLUSH carries no data: give Length, and a relay after it"))
}

// WriteHost appends the command with its data, or with Length-16 zeros to fill if
// there are none.
func (b *Builder) WriteHost(c WriteHost) int { return b.writeHost(&c, false) }

// WriteHostHeader appends the command without its Length-16 bytes of data: the
// next command must be the relay that brings them.
func (b *Builder) WriteHostHeader(c WriteHost) int { return b.writeHost(&c, true) }

func (b *Builder) writeHost(c *WriteHost, noFlush bool) int {
	lo, hi := c.words()
	if hi < HeaderSize {
		return b.fail(limit(c.Name(), "length", hi, "at least 16 bytes", "count the header: 16 plus the data"))
	}
	if noFlush && len(c.Data) != 0 {
		return b.failData(c.Name())
	}
	return b.headed(noFlush, lo, hi, hi-HeaderSize, c.Data)
}

// WritePaged appends the command with its data, or with zeros to fill if there
// are none.
func (b *Builder) WritePaged(c WritePaged) int { return b.writePaged(&c, false) }

// WritePagedHeader appends the command without its data: the next command must
// be the relay that brings them.
func (b *Builder) WritePagedHeader(c WritePaged) int { return b.writePaged(&c, true) }

func (b *Builder) writePaged(c *WritePaged, noFlush bool) int {
	n := uint64(c.PageSize) * uint64(c.Pages)
	switch {
	case noFlush && len(c.Data) != 0:
		return b.failData(c.Name())
	case n > 1<<32-1:
		return b.fail(limit(c.Name(), "pages*page size", n, "less than 4 GiB", "use several commands"))
	case len(c.Data) != 0 && uint64(len(c.Data)) != n:
		return b.fail(bad(ErrFormat, HeaderSize, c.Name(), "%d bytes of data for %d pages of %d bytes", len(c.Data), c.Pages, c.PageSize))
	}
	lo, hi := c.words()
	return b.headed(noFlush, lo, hi, n, c.Data)
}

// headed appends a command of 16 bytes and n bytes of data.
func (b *Builder) headed(noFlush bool, lo, hi, n uint64, data []byte) int {
	p, at := b.payload(noFlush, HeaderSize, n)
	if p == nil {
		return 0
	}
	h := (*[16]byte)(p)
	le.PutUint64(h[0:], lo)
	le.PutUint64(h[8:], hi)
	fill(p[HeaderSize:], data)
	return at
}

// Packed tells where a WRITE_PACKED lies in the stream.
type Packed struct {
	At     int // the dispatcher command
	Data   int // the first data slot
	Stride int // bytes from slot to slot
	Size   int // bytes of data in a slot
	Slots  int
}

// Slot is the offset of slot i's Size bytes in the stream.
func (p Packed) Slot(i int) int { return p.Data + i*p.Stride }

// WritePacked appends the command with its data, or with zeros to fill if there
// are none.
func (b *Builder) WritePacked(c WritePacked) Packed { return b.packed(&c, false) }

// WritePackedHeader appends the command with its list and without its data: the next command must be the relay that
// brings them, each slot padded to 16 bytes.
func (b *Builder) WritePackedHeader(c WritePacked) int {
	if len(c.Data) != 0 {
		return b.failData(c.Name())
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
	subs := c.subBytes()
	head := HeaderSize + (subs+L1Align-1)&^(L1Align-1)
	stride, slots := SlotStride(int(c.Size)), c.slots()
	p, at := b.payload(noFlush, head, uint64(slots*stride))
	if p == nil {
		return Packed{}
	}
	lo, hi := c.words()
	le.PutUint64(p[0:], lo)
	le.PutUint64(p[8:], hi)
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

// check tests what the format demands.
func (c *WritePacked) check() error {
	name := DispatchWritePacked.String()
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
		return bad(ErrFormat, HeaderSize, name, "%d bytes of data for %d slots of %d bytes", len(c.Data), c.slots(), SlotStride(int(c.Size)))
	}
	return nil
}

// WritePackedLarge appends the command with its data, or with zeros to fill if
// there are none. data is the offset of the first block in the stream.
func (b *Builder) WritePackedLarge(c WritePackedLarge) (at, data int) {
	return b.packedLarge(&c, false)
}

// WritePackedLargeHeader appends the command without its data: the next command
// must be the relay that brings them, each block padded to Alignment.
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
	lo, hi := c.words()
	le.PutUint64(p[0:], lo)
	le.PutUint64(p[8:], hi)
	for i := range c.Subs {
		s := &c.Subs[i]
		q := (*[12]byte)(p[AtLargeSub(i):])
		le.PutUint32(q[0:], s.NOC)
		le.PutUint32(q[4:], s.Addr)
		le.PutUint32(q[8:], uint32(s.word()))
	}
	clear(p[subs:head])
	fill(p[head:], c.Data)
	return at, at + head
}

func (c *WritePackedLarge) check(noFlush bool) error {
	name := DispatchWritePackedLarge.String()
	if n := len(c.Subs); n == 0 || n > MaxLargeSubs {
		return limit(name, "sub-commands", n, "1 to 35", "use several commands")
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
	lo, hi := c.words()
	return b.small(to, lo, hi)
}

// Sink appends the command.
func (b *Builder) Sink() int { return b.small(Master, uint64(DispatchSink), 0) }

// DebugDispatch appends the command.
func (b *Builder) DebugDispatch(c DebugDispatch) int {
	lo, hi := debugWords(uint8(DispatchDebug), c.Key, uint32(len(c.Data)), c.Stride)
	return b.headed(false, lo, hi, uint64(len(c.Data)), c.Data)
}

// Delay appends the command.
func (b *Builder) Delay(c Delay) int {
	lo, hi := c.words()
	return b.small(Master, lo, hi)
}

// SetWriteOffset appends the command; offset i is at AtWriteOffset(i).
func (b *Builder) SetWriteOffset(c SetWriteOffset) int {
	if c.Count > maxWriteOffsets {
		return b.fail(limit(c.Name(), "count", c.Count, "0 to 4", "the dispatcher has four offsets"))
	}
	p, at := b.relay(PrefetchRelayInline, Master, uint64(AtWriteOffset(int(c.Count))))
	if p == nil {
		return 0
	}
	lo, hi := c.words()
	le.PutUint64(p[0:], lo)
	le.PutUint64(p[8:], hi)
	for i := range int(c.Count) {
		le.PutUint32(p[AtWriteOffset(i):], c.Offsets[i])
	}
	return at
}

// TerminateDispatch appends the command.
func (b *Builder) TerminateDispatch(to Dispatcher) int {
	return b.small(to, uint64(DispatchTerminate), 0)
}

// SendGoSignal appends the command.
func (b *Builder) SendGoSignal(to Dispatcher, c SendGoSignal) int {
	lo, hi := c.words()
	return b.small(to, lo, hi)
}

// NotifySubordinate appends the command.
func (b *Builder) NotifySubordinate(c NotifySubordinate) int {
	lo, hi := c.words()
	return b.small(Master, lo, hi)
}

// SetNumWorkerSems appends the command.
func (b *Builder) SetNumWorkerSems(to Dispatcher, c SetNumWorkerSems) int {
	lo, hi := c.words()
	return b.small(to, lo, hi)
}

// SetGoSignalNOCData appends the command; word i is at atGoNOCData(i).
func (b *Builder) SetGoSignalNOCData(to Dispatcher, c SetGoSignalNOCData) int {
	if to > Subordinate {
		return b.fail(limit("RELAY_INLINE", "dispatcher", uint8(to), "0 or 1", "pass Master or Subordinate"))
	}
	p, at := b.relay(PrefetchRelayInline, to, uint64(atGoNOCData(len(c.Words))))
	if p == nil {
		return 0
	}
	lo, hi := c.words()
	le.PutUint64(p[0:], lo)
	le.PutUint64(p[8:], hi)
	putWords(p[HeaderSize:], c.Words)
	return at
}

// putWords writes words, four at a time.
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
