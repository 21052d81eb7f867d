package cq

// DispatchCommand is a type in this file, or Sequence, ForwardSubordinate or ReadArg, which are
// this runtime's own.
type DispatchCommand interface {
	ID() DispatchID
	encode(b *Builder, header bool) int // header: without data that a relay may bring
}

// WriteLinear writes bytes to a tile or a rectangle of tiles, at Addr plus the write offset
// OffsetIndex.
type WriteLinear struct {
	H           bool   // WRITE_LINEAR_H: on the dispatcher of the chip with the PCIe link
	McastDests  uint8  // tiles in the rectangle, 0 = one tile
	OffsetIndex uint8  // 0 to 3, see SetWriteOffset
	NOC         uint32 // Layout.NOCXY, or NOCRect with McastDests
	Addr        uint64
	Length      uint64
	Data        []byte // empty in a NOFLUSH
}

// WriteHost (WRITE_LINEAR_H_HOST) writes a record to the completion queue: this header of 16 bytes,
// then the data.
type WriteHost struct {
	Event  bool   // an event, else data of a read
	Pad1   uint16 // passed on
	Pad2   uint32 // passed on
	Length uint64 // bytes with the header; 16+len(Data) if there are Data
	Data   []byte // empty in a NOFLUSH
}

// WritePaged writes Pages interleaved pages from StartPage on, without write offsets.
type WritePaged struct {
	DRAM      bool // else L1 banks
	StartPage uint16
	Base      uint32 // address in every bank
	PageSize  uint32 // bytes
	Pages     uint32
	Data      []byte // Pages*PageSize bytes; empty in a NOFLUSH
}

// WritePacked writes Size bytes at the same address of several tiles or rectangles of tiles.
type WritePacked struct {
	Type        PackedType // for profilers, 0 to 15
	NoStride    bool       // all get the only slot
	OffsetIndex uint16     // see SetWriteOffset
	Size        uint16     // bytes
	Addr        uint32
	Cores       []uint32 // Layout.NOCXY each
	Rects       []Rect
	Data        []byte // slots of SlotStride(Size) bytes; nil for zeros that the caller fills in
}

// Rect is a rectangle of tiles in a WritePacked.
type Rect struct {
	NOC   uint32 // Layout.NOCRect
	Dests uint32 // tiles in it
}

// WritePackedLarge writes runs of bytes of different sizes to rectangles of tiles.
type WritePackedLarge struct {
	Type        LargeType
	Alignment   uint16 // of the blocks: 16, or the DRAM alignment for relayed data; a power of two
	OffsetIndex uint16 // see SetWriteOffset
	Subs        []LargeSub
	Data        []byte // blocks padded to Alignment; nil for zeros that the caller fills in; empty in a NOFLUSH
}

// LargeSub is one run of a WritePackedLarge.
type LargeSub struct {
	NOC    uint32 // Layout.NOCRect, also for one tile
	Addr   uint32
	Length uint32 // bytes, 1 to 65536
	Dests  uint8  // at least 1
	Unlink bool   // last for this rectangle
}

// Wait makes the dispatcher wait.
type Wait struct {
	Flags  WaitFlags
	Stream uint16 // index, as 48
	Addr   uint32 // for WaitMemory
	Count  uint32 // a Count for streams, a Seq for memory
}

// Sink is a command for tests of the dispatcher.
type Sink struct{}

// DebugDispatch logs a checksum of its data in instrumented firmware.
type DebugDispatch struct {
	Key    uint16
	Stride uint32 // to the next command; may lie within the data
	Data   []byte
}

// Delay spins, for tests.
type Delay struct{ Loops uint32 }

// ExecBufEndDispatch is what the prefetcher's EXEC_BUF_END carries.
type ExecBufEndDispatch struct{}

// SetWriteOffset sets the first Count write offsets, which WRITE_LINEAR, WRITE_PACKED and
// WRITE_PACKED_LARGE add to their addresses.
type SetWriteOffset struct {
	HostID  uint16 // for profilers
	Count   uint8  // 0 to 4
	Offsets [maxWriteOffsets]uint32
}

// TerminateDispatch ends the dispatcher.
type TerminateDispatch struct{}

// MaxSubDevices is how many sub-devices there can be: each has a go message of every worker and a
// completion stream.
const MaxSubDevices = 8

// SendGoSignal waits until the stream has reached WaitCount, then sends the go word to all workers
// or to the tiles of SetGoSignalNOCData.
type SendGoSignal struct {
	Go         GoWord
	Multicast  uint8
	NumUnicast uint8
	NOCStart   uint8
	WaitCount  uint32 // a Count
	WaitStream uint32
}

// NoMulticast in SendGoSignal.Multicast.
const NoMulticast = 0xFF

// NotifySubordinate lets dispatch_s send one more go signal for each sub-device in Mask.
type NotifySubordinate struct {
	Wait bool // until all writes of the dispatcher have landed
	Mask uint16
}

// SetNumWorkerSems tells dispatch_s how many sub-devices there are.
type SetNumWorkerSems struct{ Num uint32 }

// SetGoSignalNOCData sets the table of tiles for go signals.
type SetGoSignalNOCData struct{ Words []uint32 }

// Opaque is an unreadable payload of a relay.
type Opaque struct{ Payload []byte }

func readWriteLinear(it *item, _ []item) DispatchCommand {
	return WriteLinear{DispatchID(it.u8(0)) == DispatchWriteLinearH, it.u8(1), it.u8(2), it.u32(4), it.u64(8), it.u64(16), it.some()}
}

func (it *item) some() []byte {
	if it.inline() == 0 {
		return nil
	}
	return it.rest()
}

func readWriteHost(it *item, _ []item) DispatchCommand {
	return WriteHost{it.u8(1)&1 != 0, it.u16(2), it.u32(4), it.u64(8), it.some()}
}

func readWritePaged(it *item, _ []item) DispatchCommand {
	return WritePaged{it.u8(1)&1 != 0, it.u16(2), it.u32(4), it.u32(8), it.u32(12), it.some()}
}

const (
	packedMulticast = 0x01
	packedNoStride  = 0x02
)

func (c *WritePacked) words() head {
	n := len(c.Cores)
	f := uint64(c.Type&0xF) << 4
	if len(c.Rects) != 0 {
		n = len(c.Rects)
		f |= packedMulticast
	}
	if c.NoStride {
		f |= packedNoStride
	}
	return head{uint64(DispatchWritePacked) | f<<8 | uint64(uint16(n))<<16 | uint64(c.OffsetIndex)<<32 | uint64(c.Size)<<48, uint64(c.Addr)}
}

func readWritePacked(it *item, _ []item) DispatchCommand {
	flags := it.u8(1)
	c := WritePacked{Type: PackedType(flags >> 4), NoStride: flags&packedNoStride != 0, OffsetIndex: it.u16(4), Size: it.u16(6),
		Addr: it.u32(8), Data: it.some()}
	if flags&packedMulticast == 0 {
		c.Cores = it.readWords()
		return c
	}
	c.Rects = make([]Rect, it.count)
	for i := range c.Rects {
		q := it.entry(i)
		c.Rects[i] = Rect{le.Uint32(q), le.Uint32(q[4:])}
	}
	return c
}

func (it *item) readWords() []uint32 {
	w := make([]uint32, it.count)
	for i := range w {
		w[i] = it.u32(HeaderSize + 4*i)
	}
	return w
}

// Slot returns the data of a core or rectangle; nil without.
func (c *WritePacked) Slot(i int) []byte {
	n := SlotStride(int(c.Size))
	if c.NoStride {
		i = 0
	}
	if len(c.Data) < (i+1)*n {
		return nil
	}
	return c.Data[i*n:][:n]
}

func (c *WritePacked) slots() int {
	if c.NoStride {
		return 1
	}
	return len(c.Cores) + len(c.Rects)
}

func (c *WritePackedLarge) words() head {
	return head{uint64(DispatchWritePackedLarge) | uint64(c.Type)<<8 | uint64(uint16(len(c.Subs)))<<16 | uint64(c.Alignment)<<32 |
		uint64(c.OffsetIndex)<<48, 0}
}

func readWritePackedLarge(it *item, _ []item) DispatchCommand {
	c := WritePackedLarge{Type: LargeType(it.u8(1)), Alignment: it.u16(4), OffsetIndex: it.u16(6), Subs: make([]LargeSub, it.count)}
	for i := range c.Subs {
		q := it.entry(i)
		c.Subs[i] = LargeSub{le.Uint32(q), le.Uint32(q[4:]), uint32(le.Uint16(q[8:])) + 1, q[10], q[11]&1 != 0}
	}
	if !it.header {
		c.Data = it.rest()
	}
	return c
}

func (c *WritePackedLarge) dataBytes() int {
	n, a := 0, int(c.Alignment)-1
	for i := range c.Subs {
		n += (int(c.Subs[i].Length) + a) &^ a
	}
	return n
}

func readWait(it *item, _ []item) DispatchCommand {
	return Wait{WaitFlags(it.u8(1)), it.u16(2), it.u32(4), it.u32(8)}
}

func readDebugDispatch(it *item, _ []item) DispatchCommand {
	return DebugDispatch{it.u16(2), it.u32(8), it.rest()}
}

func readDelay(it *item, _ []item) DispatchCommand { return Delay{it.u32(4)} }

func readSetWriteOffset(it *item, _ []item) DispatchCommand {
	c := SetWriteOffset{HostID: it.u16(2), Count: uint8(it.count)}
	copy(c.Offsets[:], it.readWords())
	return c
}

func (c SendGoSignal) words() head {
	return head{uint64(DispatchSendGoSignal) | uint64(c.Go)<<8 | uint64(c.Multicast)<<40 | uint64(c.NumUnicast)<<48 | uint64(c.NOCStart)<<56,
		uint64(c.WaitCount) | uint64(c.WaitStream)<<32}
}

func readSendGoSignal(it *item, _ []item) DispatchCommand {
	return SendGoSignal{GoWord(it.u32(1)), it.u8(5), it.u8(6), it.u8(7), it.u32(8), it.u32(12)}
}

func readNotifySubordinate(it *item, _ []item) DispatchCommand {
	return NotifySubordinate{it.u8(1)&1 != 0, it.u16(2)}
}

func (c Delay) encode(b *Builder, _ bool) int {
	return b.small(Master, head{uint64(DispatchDelay) | uint64(c.Loops)<<32, 0})
}

func (c SetNumWorkerSems) encode(b *Builder, _ bool) int {
	return b.small(Master, head{uint64(DispatchSetNumWorkerSems) | uint64(c.Num)<<32, 0})
}

func readSetNumWorkerSems(it *item, _ []item) DispatchCommand { return SetNumWorkerSems{it.u32(4)} }

func readSetGoSignalNOCData(it *item, _ []item) DispatchCommand {
	return SetGoSignalNOCData{it.readWords()}
}

func (c WriteLinear) ID() DispatchID {
	if c.H {
		return DispatchWriteLinearH
	}
	return DispatchWriteLinear
}
func (WriteHost) ID() DispatchID          { return DispatchWriteHost }
func (WritePaged) ID() DispatchID         { return DispatchWritePaged }
func (WritePacked) ID() DispatchID        { return DispatchWritePacked }
func (WritePackedLarge) ID() DispatchID   { return DispatchWritePackedLarge }
func (Wait) ID() DispatchID               { return DispatchWait }
func (Sink) ID() DispatchID               { return DispatchSink }
func (DebugDispatch) ID() DispatchID      { return DispatchDebug }
func (Delay) ID() DispatchID              { return DispatchDelay }
func (ExecBufEndDispatch) ID() DispatchID { return DispatchExecBufEnd }
func (SetWriteOffset) ID() DispatchID     { return DispatchSetWriteOffset }
func (TerminateDispatch) ID() DispatchID  { return DispatchTerminate }
func (SendGoSignal) ID() DispatchID       { return DispatchSendGoSignal }
func (NotifySubordinate) ID() DispatchID  { return DispatchNotifySubordinate }
func (SetNumWorkerSems) ID() DispatchID   { return DispatchSetNumWorkerSems }
func (SetGoSignalNOCData) ID() DispatchID { return DispatchSetGoSignalNOCData }

// ID is the first byte of the payload, 0 if the payload is empty.
func (c Opaque) ID() DispatchID {
	if len(c.Payload) == 0 {
		return 0
	}
	return DispatchID(c.Payload[0])
}
