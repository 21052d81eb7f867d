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
	AtLenBe                 uint32
	CmdCtrl                 uint32

	NodeID            uint32
	Cfg0              uint32
	RouterCfg         uint32 // ROUTER_CFG_0; _1 to _4 follow
	TranslateX        uint32
	TranslateXWords   int
	TranslateY        uint32
	TranslateYWords   int
	IDLogical         uint32 // NOC_ID_LOGICAL: own virtual coordinate, x | y<<6
	Counters          uint32
	NumTransactionIDs int
}

// Reg returns the address of a register that is not a command buffer's.
func (r *NIURegs) Reg(n NOC, offset uint32) uint32 { return r.Base[n&1] + offset }

// Command returns the address of a register of command buffer i.
func (r *NIURegs) Command(n NOC, i int, offset uint32) uint32 {
	return r.Base[n&1] + uint32(i)*r.CommandStride + offset
}

// Counter returns the address of a counter.
func (r *NIURegs) Counter(n NOC, c Counter) uint32 { return r.Base[n&1] + r.Counters + 4*uint32(c) }

// Fields of a command buffer's CTRL and LEN_BE registers and of NODE_ID
// (tt-isa-documentation WormholeB0/NoC/MemoryMap.md).
const (
	CtrlRead          = 0 << 0 // request type, bits 1:0
	CtrlWrite         = 2 << 0
	CtrlResponse      = 1 << 4                                 // non-posted
	CtrlStaticVC      = 1 << 7                                 // use the VC of bits 15:13
	CtrlVCShift       = 13                                     // static virtual channel, bits 15:13
	AtomicIncrement   = 1 << 12                                // opcode in LEN_BE bits 15:12
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
		CommandStride: 0x400, TargCoord: 0x04, RetCoord: 0x10, CmdCtrl: 0x28, NodeID: 0x2C,
		TranslateXWords: 4, TranslateY: 0x128, TranslateYWords: 4, IDLogical: 0x138,
	}
}

func blackholeNIU() NIURegs {
	return NIURegs{
		CommandStride: 0x800, TargCoord: 0x08, RetCoord: 0x14, CmdCtrl: 0x40, NodeID: 0x44,
		TranslateXWords: 6, TranslateY: 0x130, TranslateYWords: 6, IDLogical: 0x148,
	}
}
