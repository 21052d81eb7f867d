package cq

// PrefetchCommand is a type in this file, or LoopBegin, LoopEnd, Branch or CallTrace, which are
// this runtime's own.
type PrefetchCommand interface {
	ID() PrefetchID
	encode(b *Builder) int
}

// RelayLinear appends Length bytes at Addr of the tile NOC to the dispatcher command of the NOFLUSH
// before it.
type RelayLinear struct {
	Length uint64
	NOC    uint32 // Layout.NOCXY
	Addr   uint64
}

// RelayLinearH is RelayLinear on the prefetcher of the chip with the PCIe link. It must be alone in
// its fetch entry.
type RelayLinearH struct {
	NOC    uint32
	Addr   uint64
	Length uint32
}

// RelayPaged appends Pages*PageSize-LengthAdjust bytes of interleaved pages from StartPage on to
// the dispatcher command of the NOFLUSH before it.
type RelayPaged struct {
	StartPage    uint8
	DRAM         bool   // else L1 banks
	LengthAdjust uint16 // of the last page, 0 to 0x7FFF
	Base         uint32 // address in every bank
	PageSize     uint32 // as allocated
	Pages        uint32
}

// RelayPagedPacked is RelayPaged for several interleaved buffers in DRAM.
type RelayPagedPacked struct {
	Subs []PagedSub // 1 to maxPagedSubs
}

// PagedSub is one buffer of a RelayPagedPacked.
type PagedSub struct {
	StartPage   uint16 // 0 to banks-1
	LogPageSize uint16 // log2 of bytes
	Base        uint32 // address in every bank
	Length      uint32 // a multiple of the DRAM alignment
}

// RelayInline carries one dispatcher command with all its data.
type RelayInline struct {
	To      Dispatcher
	Command DispatchCommand
}

// RelayInlineNoFlush carries a dispatcher command to the master without its data, which the next
// command, a relay, brings.
type RelayInlineNoFlush struct {
	Command DispatchCommand
}

// ExecBuf runs the commands in an interleaved buffer in DRAM, from its page 0 to an EXEC_BUF_END.
// Its fetch entry must have the stall bit.
type ExecBuf struct {
	Base        uint32 // address in every bank
	LogPageSize uint32 // log2 of bytes
	Pages       uint32
}

// ExecBufEnd ends an EXEC_BUF; it tells the dispatcher too.
type ExecBufEnd struct{}

// Stall holds the prefetcher until the dispatcher has run one more WAIT with NotifyFetch than there
// were STALLs before.
type Stall struct{}

// DebugPrefetch logs a checksum of its data in instrumented firmware.
type DebugPrefetch struct {
	Key  uint16
	Data []byte
}

// TerminatePrefetch ends the prefetcher.
type TerminatePrefetch struct{}

// PagedToRingbuffer reads a binary from DRAM into the prefetcher's cache; the next
// RelayRingbuffer's offsets count from it.
type PagedToRingbuffer struct {
	Reset       bool
	LogPageSize uint8
	StartPage   uint8
	Advance     uint32 // bytes
	Base        uint32 // address in every bank
	Length      uint32 // a multiple of the DRAM alignment
}

// SetRingbufferOffset sets the start of the next RelayRingbuffer's offsets, or moves the cache's
// write pointer.
type SetRingbufferOffset struct {
	Offset uint32
	Write  bool // move the write pointer instead
}

// RelayRingbuffer appends ranges of the prefetcher's cache to the dispatcher command of the NOFLUSH
// before it.
type RelayRingbuffer struct {
	Subs []RingSub // 1 to MaxRingSubs
}

// RingSub is a range of the prefetcher's cache, in bytes.
type RingSub struct {
	Start  uint32 // from the current offset
	Length uint32
}

// By hand and not from the forms: a capture is full of them. TestDescriptors holds them to the
// forms.

func (c RelayLinear) encode(b *Builder) int {
	return b.large([4]uint64{uint64(PrefetchRelayLinear) | c.Length<<24, c.Length>>40 | uint64(c.NOC)<<24 | c.Addr<<56, c.Addr >> 8})
}

func readRelayLinear(it *item, _ []item) PrefetchCommand {
	return RelayLinear{it.u64(3), it.u32(11), it.u64(15)}
}

func readRelayLinearH(it *item, _ []item) PrefetchCommand {
	return RelayLinearH{it.u32(4), it.u64(8), it.u32(16)}
}

func readRelayPaged(it *item, _ []item) PrefetchCommand {
	f := it.u16(2)
	return RelayPaged{it.u8(1), f>>15 != 0, f & maxLengthAdjust, it.u32(4), it.u32(8), it.u32(12)}
}

func readRelayPagedPacked(it *item, _ []item) PrefetchCommand {
	var c RelayPagedPacked
	c.Subs = make([]PagedSub, it.count)
	for i := range c.Subs {
		q := it.entry(i)
		c.Subs[i] = PagedSub{le.Uint16(q), le.Uint16(q[2:]), le.Uint32(q[4:]), le.Uint32(q[8:])}
	}
	return c
}

func readRelayInline(it *item, kids []item) PrefetchCommand {
	return RelayInline{Dispatcher(it.u8(1)), inside(it, kids)}
}

func readRelayNoFlush(it *item, kids []item) PrefetchCommand {
	return RelayInlineNoFlush{inside(it, kids)}
}

func inside(it *item, kids []item) DispatchCommand {
	if len(kids) == 0 {
		return Opaque{Payload: it.rest()}
	}
	return kids[0].form.dispatch(&kids[0], kids[1:1+kids[0].kids])
}

func readExecBuf(it *item, _ []item) PrefetchCommand {
	return ExecBuf{it.u32(4), it.u32(8), it.u32(12)}
}

func debugWords(id uint8, key uint16, size, stride uint32) head {
	return head{uint64(id) | uint64(key)<<16 | uint64(size)<<32, uint64(stride)}
}

func readDebugPrefetch(it *item, _ []item) PrefetchCommand {
	return DebugPrefetch{it.u16(2), it.rest()}
}

func (c PagedToRingbuffer) encode(b *Builder) int {
	return b.bare(head{uint64(PrefetchPagedToRingbuffer) | bit(c.Reset)<<8 | uint64(c.LogPageSize)<<16 |
		uint64(c.StartPage)<<24 | uint64(c.Advance)<<32,
		uint64(c.Base) | uint64(c.Length)<<32})
}

func readPagedToRingbuffer(it *item, _ []item) PrefetchCommand {
	return PagedToRingbuffer{it.u8(1)&1 != 0, it.u8(2), it.u8(3), it.u32(4), it.u32(8), it.u32(12)}
}

func (c SetRingbufferOffset) encode(b *Builder) int {
	return b.bare(head{uint64(PrefetchSetRingbufferOffset) | uint64(c.Offset)<<8, bit(c.Write)})
}

func readSetRingbufferOffset(it *item, _ []item) PrefetchCommand {
	return SetRingbufferOffset{it.u32(1), it.u8(8) != 0}
}

func readRelayRingbuffer(it *item, _ []item) PrefetchCommand {
	var c RelayRingbuffer
	c.Subs = make([]RingSub, it.count)
	for i := range c.Subs {
		q := it.entry(i)
		c.Subs[i] = RingSub{le.Uint32(q), le.Uint32(q[4:])}
	}
	return c
}

func (it *item) u8(at int) uint8   { return it.raw[at] }
func (it *item) u16(at int) uint16 { return le.Uint16(it.raw[at:]) }
func (it *item) u32(at int) uint32 { return le.Uint32(it.raw[at:]) }
func (it *item) u64(at int) uint64 { return le.Uint64(it.raw[at:]) }

func (it *item) rest() []byte { return it.raw[it.head:len(it.raw):len(it.raw)] }

func bit(b bool) uint64 {
	if b {
		return 1
	}
	return 0
}

func (RelayLinear) ID() PrefetchID         { return PrefetchRelayLinear }
func (RelayLinearH) ID() PrefetchID        { return PrefetchRelayLinearH }
func (RelayPaged) ID() PrefetchID          { return PrefetchRelayPaged }
func (RelayPagedPacked) ID() PrefetchID    { return PrefetchRelayPagedPacked }
func (RelayInline) ID() PrefetchID         { return PrefetchRelayInline }
func (RelayInlineNoFlush) ID() PrefetchID  { return PrefetchRelayInlineNoFlush }
func (ExecBuf) ID() PrefetchID             { return PrefetchExecBuf }
func (ExecBufEnd) ID() PrefetchID          { return PrefetchExecBufEnd }
func (Stall) ID() PrefetchID               { return PrefetchStall }
func (DebugPrefetch) ID() PrefetchID       { return PrefetchDebug }
func (TerminatePrefetch) ID() PrefetchID   { return PrefetchTerminate }
func (PagedToRingbuffer) ID() PrefetchID   { return PrefetchPagedToRingbuffer }
func (SetRingbufferOffset) ID() PrefetchID { return PrefetchSetRingbufferOffset }
func (RelayRingbuffer) ID() PrefetchID     { return PrefetchRelayRingbuffer }
