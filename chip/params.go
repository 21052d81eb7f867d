package chip

// NoRegister marks a register that an architecture does not have.
const NoRegister = 0xFFFFFFFF

// Params are the constants of an architecture. Register addresses are those that a tile's
// processors and the NoC use, unless a field says otherwise. Sizes are in bytes.
type Params struct {
	Arch Arch

	GridWidth, GridHeight int // in tiles

	L1Size         uint32 // of a Tensix tile
	EthernetL1Size uint32 // of an Ethernet tile
	LocalRAM       uint32 // address of each processor's local RAM
	LocalRAMSize   [NumProcessors]uint32
	// LocalRAMAlias is where the NoC reaches each processor's local RAM, or NoRegister.
	LocalRAMAlias [NumProcessors]uint32

	NOCWord  uint32 // bytes of a flit: 32 or 64
	MaxBurst uint32 // largest NoC packet payload: 8192 or 16384
	Align    Alignments

	DRAMBanks    int // views of an unharvested chip
	DRAMBankSize uint64

	PCI     PCIParams
	BAR     BARParams
	Windows []WindowClass

	NIU    NIURegs
	Debug  DebugRegs
	ARC    ARCParams
	Stream StreamParams

	// SoftReset is the address of a Tensix tile's soft reset register ([Processor.ResetBit]).
	SoftReset        uint32
	ResetAll         uint32
	ResetAllButBRISC uint32 // lets only BRISC run
	// ResetPC is where each processor starts without an override.
	ResetPC [NumProcessors]uint32
	// ResetPCRegister overrides the start address; NoRegister for BRISC, which starts at 0. On
	// Wormhole these are Tensix configuration words, which only the tile's own BRISC reaches.
	ResetPCRegister [NumProcessors]uint32
	// TRISCResetPCOverride enables ResetPCRegister of TRISC0 to 2 by bits 0 to 2.
	TRISCResetPCOverride uint32
	// NCRISCResetPCOverride does for NCRISC, by bit 0.
	NCRISCResetPCOverride uint32

	// MulticastSkipColumns and MulticastSkipRows have a bit for every raw NoC 0 column and row
	// without Tensix tiles, which routers leave out of multicasts.
	MulticastSkipColumns, MulticastSkipRows uint32
}

// Alignments are the rules for NoC transfers: the low bits of source and destination address must
// agree up to the alignment, a power of two, which is also the host's unit of allocation. Source:
// tt-metal tt_metal/hw/inc/internal/tt-1xx/*/noc/noc_parameters.h.
type Alignments struct {
	L1        uint32 // L1 to L1
	DRAMRead  uint32 // DRAM to L1
	DRAMWrite uint32 // L1 to DRAM
	PCIeRead  uint32 // host to L1
	PCIeWrite uint32 // L1 to host
}

// DRAM returns the alignment of buffers in DRAM.
func (a Alignments) DRAM() uint32 { return max(a.DRAMRead, a.DRAMWrite) }

// PCIe returns the alignment of buffers in host memory.
func (a Alignments) PCIe() uint32 { return max(a.PCIeRead, a.PCIeWrite) }

// PCIParams describe the chip as a PCI function and its view of host memory. Sources: tt-kmd
// enumerate.h, wormhole.c, blackhole.c.
type PCIParams struct {
	Vendor, Device uint16
	Revision       uint8
	Class          uint32
	BARSize        [6]uint64 // by BAR number; 0 if absent or the upper half of a 64-bit one

	NOCBase uint64 // NoC address, in the PCIe tile, of the outbound window through the iATU
	NOCSize uint64

	IATUBase    uint32 // BAR 2 offset of region 0
	IATURegions int
	IATUStride  uint32 // between outbound regions; inbound region r is half a stride after outbound r
	DBIBase     uint64 // NoC address, in the PCIe tile, of the controller's own configuration space
}

// BARParams are offsets in BAR 0 (tt-isa-documentation WormholeB0/PCIExpressTile/README.md, tt-kmd
// blackhole.c).
type BARParams struct {
	WindowRegs     uint32 // first TLB configuration register
	WindowRegsSize uint32 // per window: 8 or 12
	StridedRegs    uint32 // first strided multicast register (Blackhole), else NoRegister
	StridedCount   int
	KernelWindow   int // id of the window that the kernel driver keeps
	NIU            [2]uint32
	ARCCSM, ARCAPB uint32
}

// DebugRegs are addresses of debug and status registers of a Tensix tile (tt-isa-documentation
// WormholeB0/TensixTile/DebugTimestamper.md, BlackholeA0/TensixTile/SoftReset.md).
type DebugRegs struct {
	WallClockLow  uint32 // reading latches the high half
	WallClockHigh uint32
}

// Params returns a copy of the architecture's constants, nil for none. Don't call it on a hot path.
func (a Arch) Params() *Params {
	var p *Params
	switch a {
	case Wormhole:
		p = wormholeParams()
	case Blackhole:
		p = blackholeParams()
	default:
		return nil
	}
	p.Arch, p.GridHeight = a, 12
	p.LocalRAM = 0xFFB00000
	p.SoftReset, p.ResetAll, p.ResetAllButBRISC = 0xFFB121B0, 0x47800, 0x47000
	p.ResetPC = [NumProcessors]uint32{0, 0x12000, 0x6000, 0xA000, 0xE000}
	p.PCI.Vendor, p.PCI.Class, p.PCI.IATURegions, p.PCI.IATUStride = 0x1E52, 0x120000, 16, 0x200
	p.BAR.WindowRegs, p.BAR.ARCCSM, p.BAR.ARCAPB = 0x1FC00000, 0x1FE80000, 0x1FF00000
	p.NIU.common()
	p.ARC.CSMSize, p.ARC.Scratch, p.ARC.MiscControl = 512<<10, 0x60, 0x100
	p.ARC.NIU = [2]uint32{0x50000, 0x58000}
	t := &p.Stream
	t.Base, t.Stride, t.Count, t.FirstDispatch = 0xFFB40000, 0x1000, 64, 48
	d := &p.Debug
	d.WallClockLow, d.WallClockHigh = 0xFFB121F0, 0xFFB121F4
	return p
}

func blackholeParams() *Params {
	return &Params{
		GridWidth:      17,
		L1Size:         0x180000,
		EthernetL1Size: 0x80000,
		LocalRAMSize:   [NumProcessors]uint32{8192, 8192, 4096, 4096, 4096},
		LocalRAMAlias:  [NumProcessors]uint32{0xFFB14000, 0xFFB16000, 0xFFB18000, 0xFFB1A000, 0xFFB1C000},

		NOCWord:  64,
		MaxBurst: 16384,
		Align:    Alignments{L1: 16, DRAMRead: 64, DRAMWrite: 16, PCIeRead: 64, PCIeWrite: 16},

		DRAMBanks: 8,
		// The NoC decodes addresses of the 4 GiB from 0xFF000000 as registers of the DRAM tile.
		DRAMBankSize: 0xFF000000,

		PCI: PCIParams{
			Device:  0xB140,
			BARSize: [6]uint64{0: 512 << 20, 2: 1 << 20, 4: 32 << 30},
			NOCBase: 1 << 60, NOCSize: 1 << 58,
			IATUBase: 0x1000,
			DBIBase:  0xF800_0000_0000_0000,
		},
		BAR: BARParams{
			WindowRegsSize: 12, StridedRegs: 0x1FC009D8, StridedCount: 32,
			KernelWindow: 201,
			NIU:          [2]uint32{0x1FD04000, 0x1FD14000},
		},
		Windows: []WindowClass{
			{Size: 2 << 20, First: 0, Count: 202, BAR: 0, Offset: 0},
			{Size: 4 << 30, First: 202, Count: 8, BAR: 4, Offset: 0},
		},

		NIU: NIURegs{CommandStride: 0x800, TargCoord: 0x08, RetCoord: 0x14, CmdCtrl: 0x40, NodeID: 0x44, IDLogical: 0x148},
		ARC: ARCParams{
			APB: 0x8000_0000, CSM: 0x1000_0000, ResetUnit: 0x8003_0000,
			TelemetryTable: 0x400 + 4*13, TelemetryValues: 0x400 + 4*12, // in SCRATCH_RAM, from 0x400 on
		},
		Stream: StreamParams{
			offset: [numStreamRegs]uint32{4 * 4, 4 * 8, 4 * 10, 4 * 270, 4 * 297},
		},

		ResetPCRegister:       [NumProcessors]uint32{NoRegister, 0xFFB12238, 0xFFB12228, 0xFFB1222C, 0xFFB12230},
		TRISCResetPCOverride:  0xFFB12234,
		NCRISCResetPCOverride: 0xFFB1223C,

		MulticastSkipColumns: 0x301,
		MulticastSkipRows:    0x03,
	}
}

func wormholeParams() *Params {
	return &Params{
		GridWidth:      10,
		L1Size:         0x16E000,
		EthernetL1Size: 0x40000,
		LocalRAMSize:   [NumProcessors]uint32{4096, 4096, 2048, 2048, 2048},
		LocalRAMAlias:  [NumProcessors]uint32{NoRegister, NoRegister, NoRegister, NoRegister, NoRegister},

		NOCWord:  32,
		MaxBurst: 8192,
		Align:    Alignments{L1: 16, DRAMRead: 32, DRAMWrite: 16, PCIeRead: 32, PCIeWrite: 16},

		DRAMBanks:    12,
		DRAMBankSize: 1 << 30,

		PCI: PCIParams{
			Device: 0x401E, Revision: 1,
			BARSize: [6]uint64{0: 512 << 20, 2: 1 << 20, 4: 32 << 20},
			NOCBase: 0x8_0000_0000, NOCSize: 0xFFFE_0000,
			IATUBase: 0x1200,
			DBIBase:  0x8_0000_0000,
		},
		BAR: BARParams{
			WindowRegsSize: 8, StridedRegs: NoRegister,
			KernelWindow: 185,
			NIU:          [2]uint32{0x1FD20000, 0x1FDA0000},
		},
		Windows: []WindowClass{
			{Size: 1 << 20, First: 0, Count: 156, BAR: 0, Offset: 0},
			{Size: 2 << 20, First: 156, Count: 10, BAR: 0, Offset: 0x09C00000},
			{Size: 16 << 20, First: 166, Count: 20, BAR: 0, Offset: 0x0B000000},
		},

		NIU: NIURegs{CommandStride: 0x400, TargCoord: 0x04, RetCoord: 0x10, CmdCtrl: 0x28, NodeID: 0x2C, IDLogical: 0x138},
		ARC: ARCParams{
			APB: 0x8_8000_0000, CSM: 0x8_1000_0000, ResetUnit: 0x8_8003_0000,
			TelemetryTable: 0x1D0, TelemetryValues: 0x1D4,
			PointerBase: 0x8_0000_0000,
		},
		Stream: StreamParams{
			FirstCB: 8,
			offset:  [numStreamRegs]uint32{4 * 0, 4 * 3, 4 * 4, 4 * 34, 4 * 64},
		},

		// Tensix configuration words 162 and 158..160.
		ResetPCRegister:       [NumProcessors]uint32{NoRegister, 0xFFEF0288, 0xFFEF0278, 0xFFEF027C, 0xFFEF0280},
		TRISCResetPCOverride:  0xFFEF0284,
		NCRISCResetPCOverride: 0xFFEF028C,

		MulticastSkipColumns: 0x21,
		MulticastSkipRows:    0x41,
	}
}
