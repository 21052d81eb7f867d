package chip

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
