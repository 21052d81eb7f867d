package chip

// NIURegs are a tile's network interface registers: offsets from Base[noc] unless said otherwise,
// for command buffer i plus i*CommandStride; NoRegister if missing (tt-isa-documentation
// */NoC/MemoryMap.md and Counters.md; tt-metal noc_parameters.h).
type NIURegs struct {
	Base           [2]uint32
	CommandBuffers int
	CommandStride  uint32

	TargAddrLo, TargAddrMid uint32
	TargCoord               uint32 // the word of NOCXY: TARG_ADDR_MID on Wormhole, TARG_ADDR_HI on Blackhole
	RetAddrLo, RetAddrMid   uint32
	RetCoord                uint32
	PacketTag               uint32
	Ctrl                    uint32
	AtLenBe, AtLenBe1       uint32
	AtData                  uint32
	BroadcastExclude        uint32
	L1AccAtInstrn, SecCtrl  uint32
	CmdCtrl                 uint32

	NodeID, EndpointID uint32
	ClearOutstanding   uint32 // bit i clears counter ReqsOutstanding+i
	InitiatorStatus    uint32 // Wormhole CMD_BUF status, Blackhole BUF_AVAIL
	InitiatorOverflow  uint32
	Cfg0               uint32
	RouterCfg          uint32 // ROUTER_CFG_0; _1 to _4 follow
	TranslateX         uint32
	TranslateXWords    int
	TranslateY         uint32
	TranslateYWords    int
	TranslateBits      int
	TranslatePerWord   int
	IDLogical          uint32 // NOC_ID_LOGICAL: own virtual coordinate, x | y<<6
	ColumnMask         uint32
	RowMask            uint32
	DDRTable           uint32 // of the DRAM translation table
	DDRTableWords      int
	ColumnSwap         uint32
	Counters           uint32
	NumTransactionIDs  int
}

// Reg returns the address of a register that is not a command buffer's.
func (r *NIURegs) Reg(n NOC, offset uint32) uint32 { return r.Base[n&1] + offset }

// Command returns the address of a register of command buffer i.
func (r *NIURegs) Command(n NOC, i int, offset uint32) uint32 {
	return r.Base[n&1] + uint32(i)*r.CommandStride + offset
}

// Counter returns the address of a counter.
func (r *NIURegs) Counter(n NOC, c Counter) uint32 { return r.Base[n&1] + r.Counters + 4*uint32(c) }

// Bits of NIU_CFG_0 (tt-isa-documentation WormholeB0/NoC/MemoryMap.md).
const (
	NIUCfg0ClockOff  = 1 << 12 // the tile's clock is off
	NIUCfg0Header    = 1 << 13 // headers are not stored twice
	NIUCfg0Translate = 1 << 14 // coordinate translation is on
)

// Fields of a command buffer's CTRL, PACKET_TAG and LEN_BE registers and of NODE_ID
// (tt-isa-documentation WormholeB0/NoC/MemoryMap.md).
const (
	CtrlRead          = 0 << 0 // request type, bits 1:0
	CtrlAtomic        = 1 << 0
	CtrlWrite         = 2 << 0
	CtrlTypeMask      = 3 << 0
	CtrlByteEnable    = 1 << 2  // LEN_BE is a byte mask
	CtrlInline        = 1 << 3  // data from AT_DATA, destination is TARG
	CtrlResponse      = 1 << 4  // non-posted
	CtrlMulticast     = 1 << 5  // the destination is a rectangle
	CtrlLinked        = 1 << 6  // the next request is part of this transaction
	CtrlStaticVC      = 1 << 7  // use the VC of bits 15:13
	CtrlPathReserve   = 1 << 8  // multicast: reserve the tree first
	CtrlReadDropAck   = 1 << 9  // overlay acknowledgement control
	CtrlVCShift       = 13      // static virtual channel, bits 15:13
	CtrlYMajor        = 1 << 16 // multicast runs along y first
	CtrlIncludeSelf   = 1 << 17 // multicast also to the sender
	CtrlPriorityShift = 27      // arbitration priority, bits 30:27
	CtrlL1Accumulate  = 1 << 31 // Blackhole: accumulate at the destination
	PacketTagIDShift  = 10      // transaction id in PACKET_TAG, bits 13:10
	AtomicIncrement   = 1 << 12 // opcode in LEN_BE bits 15:12
	AtomicSwapMask    = 3 << 12
	AtomicCompareSwap = 4 << 12
	AtomicSwapIndex   = 6 << 12
	AtomicOpMask      = 15 << 12
	AtomicWidthShift  = 2                                      // IntWidth of an increment, bits 6:2; 31 means 32 bits
	AtomicIncrement32 = AtomicIncrement | 31<<AtomicWidthShift // of the first word of a 16-byte line: 0x107C
	NodeIDWidthShift  = 12                                     // of NODE_ID: width 7 bits, height 7 bits, then flags
	NodeIDHeightShift = 19
	NodeIDNOC0        = 1 << 28
)

// Counter is an NIU counter index (tt-isa-documentation */NoC/Counters.md).
type Counter uint8

// ReqsOutstanding and WriteReqsOutgoing have one per transaction id, 8 bits wide.
const (
	AtomicRespReceived           Counter = 0x0
	WrAckReceived                Counter = 0x1
	RdRespReceived               Counter = 0x2
	RdDataWordReceived           Counter = 0x3
	CmdAccepted                  Counter = 0x4
	RdReqSent                    Counter = 0x5
	NonpostedAtomicSent          Counter = 0x6
	PostedAtomicSent             Counter = 0x7
	NonpostedWrDataWordSent      Counter = 0x8
	PostedWrDataWordSent         Counter = 0x9
	NonpostedWrReqSent           Counter = 0xA
	PostedWrReqSent              Counter = 0xB
	NonpostedWrReqStarted        Counter = 0xC
	PostedWrReqStarted           Counter = 0xD
	RdReqStarted                 Counter = 0xE
	NonpostedAtomicStarted       Counter = 0xF
	ReqsOutstanding              Counter = 0x10
	WriteReqsOutgoing            Counter = 0x20
	SlaveFirst                   Counter = 0x30
	SlaveRdDataWordSent          Counter = 0x33
	SlaveNonpostedWrDataReceived Counter = 0x38
	SlavePostedWrDataReceived    Counter = 0x39
	SlaveLast                    Counter = 0x3D
)

// common sets what is equal on all architectures.
func (r *NIURegs) common() {
	r.Base, r.CommandBuffers, r.NumTransactionIDs = [2]uint32{0xFFB20000, 0xFFB30000}, 4, 16
	r.TargAddrMid, r.RetAddrLo, r.RetAddrMid, r.PacketTag, r.Ctrl, r.AtLenBe = 0x04, 0x0C, 0x10, 0x18, 0x1C, 0x20
	r.Cfg0, r.RouterCfg, r.TranslateX, r.Counters = 0x100, 0x104, 0x118, 0x200
}

func wormholeNIU() NIURegs {
	return NIURegs{
		CommandStride: 0x400, TargCoord: 0x04, RetCoord: 0x10, AtLenBe1: NoRegister, AtData: 0x24,
		BroadcastExclude: NoRegister, L1AccAtInstrn: NoRegister, SecCtrl: NoRegister, CmdCtrl: 0x28,
		NodeID: 0x2C, EndpointID: 0x30, ClearOutstanding: 0x50,
		InitiatorStatus: 0x54, InitiatorOverflow: NoRegister,
		TranslateXWords: 4, TranslateY: 0x128, TranslateYWords: 4,
		TranslateBits: 4, TranslatePerWord: 8,
		IDLogical: 0x138, ColumnMask: NoRegister, RowMask: NoRegister, DDRTable: NoRegister, ColumnSwap: NoRegister,
	}
}

func blackholeNIU() NIURegs {
	return NIURegs{
		CommandStride: 0x800, TargCoord: 0x08, RetCoord: 0x14, AtLenBe1: 0x24, AtData: 0x28,
		BroadcastExclude: 0x2C, L1AccAtInstrn: 0x30, SecCtrl: 0x34, CmdCtrl: 0x40,
		NodeID: 0x44, EndpointID: 0x48, ClearOutstanding: 0x60,
		InitiatorStatus: 0x64, InitiatorOverflow: 0x68,
		TranslateXWords: 6, TranslateY: 0x130, TranslateYWords: 6,
		TranslateBits: 5, TranslatePerWord: 6,
		IDLogical: 0x148, ColumnMask: 0x150, RowMask: 0x154, DDRTable: 0x158, DDRTableWords: 6, ColumnSwap: 0x170,
	}
}
