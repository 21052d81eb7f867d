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

// Params returns the constants of the architecture; nil for a value that is no architecture. Each
// call returns a new copy, so don't call it on a hot path.
func (a Arch) Params() *Params {
	switch a {
	case Wormhole:
		return wormholeParams()
	case Blackhole:
		return blackholeParams()
	}
	return nil
}

func blackholeParams() *Params {
	return &Params{
		Arch:       Blackhole,
		GridWidth:  17,
		GridHeight: 12,

		L1Size:         0x180000,
		EthernetL1Size: 0x80000,
		LocalRAM:       0xFFB00000,
		LocalRAMSize:   [NumProcessors]uint32{8192, 8192, 4096, 4096, 4096},
		LocalRAMAlias:  [NumProcessors]uint32{0xFFB14000, 0xFFB16000, 0xFFB18000, 0xFFB1A000, 0xFFB1C000},

		NOCWord:  64,
		MaxBurst: 16384,
		Align:    Alignments{L1: 16, DRAMRead: 64, DRAMWrite: 16, PCIeRead: 64, PCIeWrite: 16},

		DRAMBanks: 8,
		// The bank has 4 GiB; the NoC decodes addresses from 0xFF000000 as registers of the DRAM
		// tile.
		DRAMBankSize: 0xFF000000,

		PCI: PCIParams{
			Vendor: 0x1E52, Device: 0xB140, Revision: 0, Class: 0x120000,
			BARSize: [6]uint64{0: 512 << 20, 2: 1 << 20, 4: 32 << 30},
			NOCBase: 1 << 60, NOCSize: 1 << 58,
			IATUBase: 0x1000, IATURegions: 16, IATUStride: 0x200,
			DBIBase: 0xF800_0000_0000_0000,
		},
		BAR: BARParams{
			WindowRegs: 0x1FC00000, WindowRegsSize: 12, StridedRegs: 0x1FC009D8, StridedCount: 32,
			KernelWindow: 201,
			NIU:          [2]uint32{0x1FD04000, 0x1FD14000},
			ARCCSM:       0x1FE80000, ARCAPB: 0x1FF00000,
		},
		Windows: []WindowClass{
			{Size: 2 << 20, First: 0, Count: 202, BAR: 0, Offset: 0},
			{Size: 4 << 30, First: 202, Count: 8, BAR: 4, Offset: 0},
		},

		NIU:    blackholeNIU(),
		Debug:  debugRegs(0xFFB12224),
		ARC:    blackholeARC(),
		Stream: blackholeStreams(),

		SoftReset:             0xFFB121B0,
		ResetAll:              0x47800,
		ResetAllButBRISC:      0x47000,
		ResetPC:               [NumProcessors]uint32{0, 0x12000, 0x6000, 0xA000, 0xE000},
		ResetPCRegister:       [NumProcessors]uint32{NoRegister, 0xFFB12238, 0xFFB12228, 0xFFB1222C, 0xFFB12230},
		TRISCResetPCOverride:  0xFFB12234,
		NCRISCResetPCOverride: 0xFFB1223C,
		TensixConfig:          0xFFEF0000,

		MulticastSkipColumns: 0x301,
		MulticastSkipRows:    0x03,
	}
}

func debugRegs(clearDisable uint32) DebugRegs {
	return DebugRegs{
		Base:                 0xFFB12000,
		WallClockLow:         0xFFB121F0,
		WallClockHigh:        0xFFB121F4,
		WallClockHighLatched: 0xFFB121F8,
		LocalRAMClearDisable: clearDisable,
	}
}

func wormholeParams() *Params {
	return &Params{
		Arch:       Wormhole,
		GridWidth:  10,
		GridHeight: 12,

		L1Size:         0x16E000,
		EthernetL1Size: 0x40000,
		LocalRAM:       0xFFB00000,
		LocalRAMSize:   [NumProcessors]uint32{4096, 4096, 2048, 2048, 2048},
		LocalRAMAlias:  [NumProcessors]uint32{NoRegister, NoRegister, NoRegister, NoRegister, NoRegister},

		NOCWord:  32,
		MaxBurst: 8192,
		Align:    Alignments{L1: 16, DRAMRead: 32, DRAMWrite: 16, PCIeRead: 32, PCIeWrite: 16},

		DRAMBanks:    12,
		DRAMBankSize: 1 << 30,

		PCI: PCIParams{
			Vendor: 0x1E52, Device: 0x401E, Revision: 1, Class: 0x120000,
			BARSize: [6]uint64{0: 512 << 20, 2: 1 << 20, 4: 32 << 20},
			NOCBase: 0x8_0000_0000, NOCSize: 0xFFFE_0000,
			IATUBase: 0x1200, IATURegions: 16, IATUStride: 0x200,
			DBIBase: 0x8_0000_0000,
		},
		BAR: BARParams{
			WindowRegs: 0x1FC00000, WindowRegsSize: 8, StridedRegs: NoRegister,
			KernelWindow: 185,
			NIU:          [2]uint32{0x1FD20000, 0x1FDA0000},
			ARCCSM:       0x1FE80000, ARCAPB: 0x1FF00000,
		},
		Windows: []WindowClass{
			{Size: 1 << 20, First: 0, Count: 156, BAR: 0, Offset: 0},
			{Size: 2 << 20, First: 156, Count: 10, BAR: 0, Offset: 0x09C00000},
			{Size: 16 << 20, First: 166, Count: 20, BAR: 0, Offset: 0x0B000000},
		},

		NIU:    wormholeNIU(),
		Debug:  debugRegs(NoRegister),
		ARC:    wormholeARC(),
		Stream: wormholeStreams(),

		SoftReset:        0xFFB121B0,
		ResetAll:         0x47800,
		ResetAllButBRISC: 0x47000,
		ResetPC:          [NumProcessors]uint32{0, 0x12000, 0x6000, 0xA000, 0xE000},
		// Tensix configuration words 162 and 158..160.
		ResetPCRegister:       [NumProcessors]uint32{NoRegister, 0xFFEF0288, 0xFFEF0278, 0xFFEF027C, 0xFFEF0280},
		TRISCResetPCOverride:  0xFFEF0284,
		NCRISCResetPCOverride: 0xFFEF028C,
		TensixConfig:          0xFFEF0000,

		MulticastSkipColumns: 0x21,
		MulticastSkipRows:    0x41,
	}
}
