package chip

// NIURegs are a tile's network interface registers: offsets from Base[noc] unless said otherwise,
// for command buffer i plus i*CommandStride (tt-isa-documentation */NoC/MemoryMap.md and
// Counters.md; tt-metal noc_parameters.h).
type NIURegs struct {
	Base          [2]uint32
	CommandStride uint32

	TargAddrLo, TargAddrMid uint32
	TargCoord               uint32 // the word of NOCXY: TARG_ADDR_MID on Wormhole, TARG_ADDR_HI on Blackhole
	RetAddrLo, RetAddrMid   uint32
	RetCoord                uint32
	Ctrl                    uint32
	AtLenBe                 uint32
	CmdCtrl                 uint32

	NodeID    uint32
	Cfg0      uint32
	IDLogical uint32 // NOC_ID_LOGICAL: own virtual coordinate, x | y<<6
	Counters  uint32
}

// Reg returns the address of a register that is not a command buffer's.
func (r *NIURegs) Reg(n NOC, offset uint32) uint32 { return r.Base[n&1] + offset }

// Command returns the address of a register of command buffer i.
func (r *NIURegs) Command(n NOC, i int, offset uint32) uint32 {
	return r.Base[n&1] + uint32(i)*r.CommandStride + offset
}

// Counter returns the address of a counter.
func (r *NIURegs) Counter(n NOC, c Counter) uint32 { return r.Base[n&1] + r.Counters + 4*uint32(c) }

// Fields of a command buffer's CTRL register and of NODE_ID (tt-isa-documentation
// WormholeB0/NoC/MemoryMap.md).
const (
	CtrlRead          = 0 << 0 // request type, bits 1:0
	CtrlWrite         = 2 << 0
	CtrlResponse      = 1 << 4 // non-posted
	CtrlStaticVC      = 1 << 7 // use the VC of bits 15:13
	CtrlVCShift       = 13     // static virtual channel, bits 15:13
	NodeIDWidthShift  = 12     // of NODE_ID: width 7 bits, height 7 bits, then flags
	NodeIDHeightShift = 19
	NodeIDNOC0        = 1 << 28
)

// Counter is an NIU counter index (tt-isa-documentation */NoC/Counters.md).
type Counter uint8

// Counters that hosts read.
const (
	WrAckReceived  Counter = 0x1
	RdRespReceived Counter = 0x2
)

// common sets what is equal on all architectures.
func (r *NIURegs) common() {
	r.Base = [2]uint32{0xFFB20000, 0xFFB30000}
	r.TargAddrMid, r.RetAddrLo, r.RetAddrMid, r.Ctrl, r.AtLenBe, r.Cfg0, r.Counters = 0x04, 0x0C, 0x10, 0x1C, 0x20, 0x100, 0x200
}
