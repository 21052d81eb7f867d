package abi

import "github.com/reprise-tt/reprise/chip"

// L1Map is the layout of a worker's L1, on which the base firmware, the host and kernels agree.
// Addresses are bytes from the start of L1. Fields that tt-metal also has are at tt-metal's
// addresses (tt_metal/hw/inc/internal/tt-1xx/*/dev_mem_map.h).
type L1Map struct {
	AtomicReturn    uint32 // u32 that atomics return old values to
	Barrier         uint32 // u32 for the host's memory barriers
	InlineScratch   uint32 // Blackhole: staging for inline writes to L1, 64 B; chip.NoRegister on Wormhole
	Mailbox         uint32 // MailboxSize bytes, most of the following
	MailboxSize     uint32
	SubordinateSync uint32 // u8[4]: NCRISC, TRISC0, TRISC1, TRISC2
	LaunchReadPtr   uint32 // u32: next launch message to run
	Launch          uint32 // LaunchEntries launch messages of LaunchSize bytes
	LaunchEntries   uint32
	LaunchSize      uint32
	Go              uint32 // GoEntries go messages of 4 bytes
	GoEntries       uint32
	GoIndex         uint32 // u32: which go message is in use
	CoreInfo        uint32 // CoreInfoSize bytes that tell a core its coordinates: [CoreInfo]
	CoreInfoSize    uint32
	CoreState       uint32 // per Processor, CoreStateSize bytes with its present state: [CoreState]
	CoreStateSize   uint32
	Zeros           uint32 // ZerosSize bytes that stay zero
	ZerosSize       uint32
	// Firmware is, by Processor, the load and link address of the base firmware, FirmwareSize its
	// room.
	Firmware         [chip.NumProcessors]uint32
	FirmwareSize     [chip.NumProcessors]uint32
	BankTable        uint32 // bank to NoC table, BankTableSize bytes, written by the host at bring-up: [BankTable]
	BankTableSize    uint32
	KernelConfig     uint32 // ring of kernel configurations: KernelConfigSize bytes
	KernelConfigSize uint32
	// Print is the ring of PrintSize bytes that kernels print to (package kernels/print); 0 for
	// revisions of tt-metal.
	Print     uint32
	PrintSize uint32
	// Watch is the WatchSize bytes of reports of failed checks (package kernels/watch); 0 for
	// revisions of tt-metal.
	Watch     uint32
	WatchSize uint32
	// Tiles is the table of the chip's tiles for checks of NoC requests: [Tiles]; 0 for revisions
	// of tt-metal.
	Tiles      uint32
	TilesSize  uint32
	Unreserved uint32 // first byte for buffers
	Size       uint32 // end of L1
}

const ownBankTableSize = 4 + 4 + 2*2*maxDRAMBanks + 4*maxDRAMBanks + 2*2*maxL1Banks

func wormholeL1() L1Map {
	return L1Map{
		AtomicReturn: 4, Barrier: 12, InlineScratch: chip.NoRegister,
		Mailbox: 0x10, MailboxSize: 0x410, SubordinateSync: 0x18, LaunchReadPtr: 0x1C,
		Launch: 0x20, LaunchEntries: 8, LaunchSize: 96,
		Go: 0x320, GoEntries: 9, GoIndex: 0x350,
		CoreInfo: 0x380, CoreInfoSize: 64, CoreState: 0x3D0, CoreStateSize: 16,
		Zeros: 0x3200, ZerosSize: 512,
		Firmware:     [chip.NumProcessors]uint32{0x3800, 0x5000, 0x5800, 0x5E00, 0x6400},
		FirmwareSize: [chip.NumProcessors]uint32{0x1800, 0x800, 0x600, 0x600, 0x600},
		BankTable:    0x6A00, BankTableSize: ownBankTableSize,
		Print: 0x1C00, PrintSize: 0x1500, Watch: 0x3100, WatchSize: 0x100, Tiles: 0x1A00, TilesSize: 0x200,
		KernelConfig: 0x7D80, KernelConfigSize: 0x11400,
		Unreserved: 0x19180, Size: 0x16E000,
	}
}

func blackholeL1() L1Map {
	return L1Map{
		AtomicReturn: 4, Barrier: 12, InlineScratch: 32,
		Mailbox: 0x60, MailboxSize: 0x410, SubordinateSync: 0x68, LaunchReadPtr: 0x6C,
		Launch: 0x70, LaunchEntries: 8, LaunchSize: 96,
		Go: 0x370, GoEntries: 9, GoIndex: 0x3A0,
		CoreInfo: 0x3D0, CoreInfoSize: 64, CoreState: 0x420, CoreStateSize: 16,
		Zeros: 0x3240, ZerosSize: 512,
		Firmware:     [chip.NumProcessors]uint32{0x3840, 0x5440, 0x5A40, 0x6040, 0x6640},
		FirmwareSize: [chip.NumProcessors]uint32{0x1C00, 0x600, 0x600, 0x600, 0x600},
		BankTable:    0x6C40, BankTableSize: ownBankTableSize,
		Print: 0x1C00, PrintSize: 0x1500, Watch: 0x3100, WatchSize: 0x100, Tiles: 0x1A00, TilesSize: 0x200,
		KernelConfig: 0x8740, KernelConfigSize: 0x11400,
		Unreserved: 0x19B40, Size: 0x180000,
	}
}
