package chip

// NoRegister marks a register that an architecture does not have.
const NoRegister = 0xFFFFFFFF

// Params are the constants of an architecture. Addresses of registers are addresses in a tile as
// its processors and the NoC see them, unless a field says otherwise. Sizes are in bytes.
type Params struct {
	Arch Arch

	GridWidth, GridHeight int // whole grid in tiles, NoC coordinates 0..width-1, 0..height-1

	L1Size         uint32                // L1 of a Tensix tile
	EthernetL1Size uint32                // L1 of an Ethernet tile
	LocalRAM       uint32                // address of each processor's local RAM
	LocalRAMSize   [NumProcessors]uint32 // by Processor
	// LocalRAMAlias is the address at which the NoC reaches each processor's local RAM, or
	// NoRegister.
	LocalRAMAlias [NumProcessors]uint32

	NOCWord  uint32 // bytes of a flit: 32 or 64
	MaxBurst uint32 // largest NoC packet payload: 8192 or 16384
	Align    Alignments

	DRAMBanks    int    // banks (views) of an unharvested chip
	DRAMBankSize uint64 // bytes of each bank

	PCI     PCIParams
	BAR     BARParams
	Windows []WindowClass // smallest windows first

	NIU    NIURegs
	Debug  DebugRegs
	ARC    ARCParams
	Stream StreamParams

	// SoftReset is the address of a Tensix tile's soft reset register. Bits hold processors: see
	// [Processor.ResetBit].
	SoftReset        uint32
	ResetAll         uint32 // register value that holds all five processors
	ResetAllButBRISC uint32 // register value that lets only BRISC run
	// ResetPC is, by Processor, where each one starts when no override is set.
	ResetPC [NumProcessors]uint32
	// ResetPCRegister is, by Processor, the address of the register with the overriding start
	// address; NoRegister for BRISC, which always starts at 0. On Wormhole these are Tensix
	// configuration words, which the tile's own BRISC reaches and the NoC does not.
	ResetPCRegister [NumProcessors]uint32
	// TRISCResetPCOverride enables ResetPCRegister of TRISC0, 1, 2 by bits 0, 1, 2.
	TRISCResetPCOverride uint32
	// NCRISCResetPCOverride enables ResetPCRegister of NCRISC by bit 0.
	NCRISCResetPCOverride uint32
	// TensixConfig is the address of the Tensix configuration words.
	TensixConfig uint32

	// MulticastSkipColumns and MulticastSkipRows have a bit set for every raw NoC 0 column and row
	// without Tensix tiles; routers leave them out of multicasts.
	MulticastSkipColumns, MulticastSkipRows uint32
}

// Alignments are the rules for NoC transfers: the low bits of source and destination address must
// agree up to the alignment, which is also the unit that the host side allocates and transfers in.
// All are powers of two. Source: tt-metal tt_metal/hw/inc/internal/tt-1xx/*/noc/noc_parameters.h.
type Alignments struct {
	L1        uint32 // L1 to L1
	DRAMRead  uint32 // DRAM to L1
	DRAMWrite uint32 // L1 to DRAM
	PCIeRead  uint32 // host to L1
	PCIeWrite uint32 // L1 to host
}

// DRAM returns the alignment of buffers in DRAM: enough for reading and for writing.
func (a Alignments) DRAM() uint32 { return max(a.DRAMRead, a.DRAMWrite) }

// PCIe returns the alignment of buffers in host memory: enough for reading and for writing.
func (a Alignments) PCIe() uint32 { return max(a.PCIeRead, a.PCIeWrite) }

// PCIParams describe the chip as a PCI function and its view of host memory.
// Sources: tt-kmd enumerate.h, wormhole.c, blackhole.c.
type PCIParams struct {
	Vendor, Device uint16
	Revision       uint8
	Class          uint32    // 24-bit class code
	BARSize        [6]uint64 // by BAR number; 0 if absent or the upper half of a 64-bit one

	NOCBase uint64 // NoC address, in the PCIe tile, of offset 0 of the outbound window that goes through the iATU
	NOCSize uint64 // size of that window

	IATUBase    uint32 // BAR 2 offset of the iATU's region 0
	IATURegions int    // outbound regions
	IATUStride  uint32 // from one outbound region to the next; the inbound region r is half a stride after outbound r
	// DBIBase is the NoC address, in the PCIe tile, of the controller's own configuration space.
	DBIBase uint64
}

// BARParams are offsets in BAR 0. Sources: tt-isa-documentation
// WormholeB0/PCIExpressTile/README.md, tt-kmd blackhole.c.
type BARParams struct {
	WindowRegs     uint32 // first TLB configuration register
	WindowRegsSize uint32 // bytes per window: 8 or 12
	StridedRegs    uint32 // first strided multicast register (Blackhole), else NoRegister
	StridedCount   int    // number of 4-byte strided registers
	KernelWindow   int    // id of the window that the kernel driver keeps for itself
	NIU            [2]uint32
	ARCCSM, ARCAPB uint32
}

// DebugRegs are addresses of debug and status registers of a Tensix tile. Sources:
// tt-isa-documentation WormholeB0/TensixTile/DebugTimestamper.md,
// BlackholeA0/TensixTile/SoftReset.md.
type DebugRegs struct {
	Base                 uint32
	WallClockLow         uint32 // reading latches the high half
	WallClockHigh        uint32 // live high half
	WallClockHighLatched uint32 // high half at the last read of the low half
	// LocalRAMClearDisable turns off the clearing of local RAM on reset (Blackhole), else
	// NoRegister.
	LocalRAMClearDisable uint32
}

// Params returns the constants of the architecture. Each call returns a copy of its own, so keep it
// rather than call again on a hot path; nil for a value that is no architecture.
func (a Arch) Params() *Params {
	switch a {
	case Wormhole:
		return wormholeParams()
	case Blackhole:
		return blackholeParams()
	}
	return nil
}
