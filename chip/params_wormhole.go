package chip

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
