package abi

import "github.com/reprise-tt/reprise/chip"

// L1Map is the layout of a worker's L1. Addresses are bytes from the start of L1; fields that
// tt-metal also has are at tt-metal's addresses (tt_metal/hw/inc/internal/tt-1xx/*/dev_mem_map.h).
type L1Map struct {
	AtomicReturn    uint32
	Barrier         uint32
	InlineScratch   uint32 // Blackhole: staging for inline writes to L1, 64 B; else chip.NoRegister
	Mailbox         uint32 // most of the following
	MailboxSize     uint32
	SubordinateSync uint32 // u8[4]: NCRISC, TRISC0, TRISC1, TRISC2
	LaunchReadPtr   uint32
	Launch          uint32 // LaunchEntries messages of LaunchSize bytes
	LaunchEntries   uint32
	LaunchSize      uint32
	Go              uint32 // GoEntries messages of 4 bytes
	GoEntries       uint32
	GoIndex         uint32 // u32: go message in use
	CoreInfo        uint32 // [CoreInfo]
	CoreInfoSize    uint32
	CoreState       uint32 // by Processor: [CoreState]
	CoreStateSize   uint32
	Zeros           uint32 // bytes that stay zero
	ZerosSize       uint32
	// Firmware is, by Processor, the load and link address of the base firmware, FirmwareSize its
	// room.
	Firmware         [chip.NumProcessors]uint32
	FirmwareSize     [chip.NumProcessors]uint32
	BankTable        uint32 // [BankTable]
	BankTableSize    uint32
	KernelConfig     uint32
	KernelConfigSize uint32
	// Print is the ring that kernels print to (package kernels/print); 0 for tt-metal.
	Print     uint32
	PrintSize uint32
	// Watch is the reports of package kernels/watch; 0 for tt-metal.
	Watch     uint32
	WatchSize uint32
	// Tiles is the table for checks of NoC requests: [Tiles]; 0 for tt-metal.
	Tiles      uint32
	TilesSize  uint32
	Unreserved uint32 // first byte for buffers
	Size       uint32 // end of L1
}

// KernelEnd is the end of the memory for programs' kernels, arguments and configuration.
func (m *L1Map) KernelEnd() uint32 { return m.KernelConfig + m.KernelConfigSize }

const ownBankTableSize = 4 + 4 + 2*2*maxDRAMBanks + 4*maxDRAMBanks + 2*2*maxL1Banks

func ownL1(arch chip.Arch) L1Map {
	p := arch.Params()
	m := L1Map{
		AtomicReturn: 4, Barrier: 12, InlineScratch: chip.NoRegister, Mailbox: 0x10, MailboxSize: 0x410, LaunchEntries: 8, LaunchSize: 96,
		GoEntries: 9, CoreInfoSize: 64, CoreStateSize: 16, Zeros: 0x3200, ZerosSize: 512, BankTableSize: ownBankTableSize,
		FirmwareSize: [chip.NumProcessors]uint32{0x1800, 0x800, 0x600, 0x600, 0x600}, KernelConfig: 0x7D80, KernelConfigSize: kernelConfigSize,
		Print: 0x1C00, PrintSize: 0x1500, Watch: 0x3100, WatchSize: 0x100, Tiles: 0x1A00, TilesSize: 0x200, Size: p.L1Size,
	}
	if arch == chip.Blackhole {
		m.InlineScratch, m.Mailbox, m.Zeros, m.KernelConfig = 32, 0x60, 0x3240, 0x8740
		m.FirmwareSize = [chip.NumProcessors]uint32{0x1C00, 0x600, 0x600, 0x600, 0x600}
	}
	m.SubordinateSync, m.LaunchReadPtr, m.Launch = m.Mailbox+8, m.Mailbox+0xC, m.Mailbox+0x10
	m.Go = m.Launch + m.LaunchEntries*m.LaunchSize
	m.GoIndex, m.CoreInfo, m.CoreState = m.Go+0x30, m.Mailbox+0x370, m.Mailbox+0x3C0
	m.BankTable = m.Zeros + 0x600
	for i, size := range m.FirmwareSize {
		m.Firmware[i] = m.BankTable
		m.BankTable += size
	}
	m.Unreserved = alignUp(m.KernelEnd(), p.Align.PCIe())
	return m
}

func alignUp(a, n uint32) uint32 { return (a + n - 1) / n * n }

// ownLaunch is tt-metal's launch message of ttnn 0.65.1.
func ownLaunch() Launch {
	return Launch{
		ConfigBase: 0, Semaphores: 12, Circular: 18, Args: 22, Mode: 42, Text: 44, CBMask: 64, NOC: 68, NOCMode: 69, FirstRemote: 70,
		HostID: 72, Enables: 76, NCRISCSize: 90, Origin: 92, Preload: 95, CircularBuffers: 32, ArgSlots: chip.NumProcessors,
	}
}
