// Package abi describes, as data, what the host and the firmware of a Tensix core agree on: the L1
// map, the launch message, and what the host writes before a core starts. Workers and command-queue
// cores of one chip may have layouts of different revisions.
package abi

import (
	"fmt"
	"slices"

	"github.com/reprise-tt/reprise/chip"
)

// Revision is a state of tt-metal's sources, as ttnn wheels have it, or this runtime's own.
type Revision struct {
	Name string // "reprise" for this runtime's own, otherwise the first wheel with this layout
	Last string // the last such wheel that is known; empty for this runtime's own
}

// Own reports whether the revision is this runtime's own firmware.
func (r Revision) Own() bool { return r.Name == ownName }

// Wheels is like "ttnn 0.76.0 to 0.77.0".
func (r Revision) Wheels() string {
	if r.Last == r.Name {
		return "ttnn " + r.Name
	}
	return "ttnn " + r.Name + " to " + r.Last
}

func (r Revision) String() string {
	if r.Own() {
		return "this runtime's own firmware"
	}
	return "tt-metal of " + r.Wheels()
}

const ownName = "reprise"

// Layout is a revision on one architecture. It is read only.
type Layout struct {
	Revision Revision
	Arch     chip.Arch
	L1       L1Map
	Launch   Launch
	Banks    BankTable
	Info     CoreInfo
	Boot     Boot
	State    CoreState

	wheels []string // of tt-metal's
	facts  Facts
}

// Launch has the offsets in bytes of the launch message's fields. Source: tt-metal
// tt_metal/hw/inc/hostdev/dev_msgs.h (kernel_config_msg_t).
type Launch struct {
	ConfigBase  uint32 // u32: L1 address of the program's slot
	Semaphores  uint32 // u16: offset in the slot
	Circular    uint32 // u16: offset in the slot
	Args        uint32 // by processor, u16 offset of unique and u16 offset of common arguments in the slot
	Mode        uint32 // u8: 0 started by the dispatcher, 1 by the host
	Text        uint32 // by processor, u32: offset of its kernel from the slot
	CBMask      uint32 // u32, or u64 with more than 32 circular buffers: those in use
	NOC         uint32 // u8: of BRISC's kernel
	NOCMode     uint32 // u8: 0 if BRISC and NCRISC have a NoC each, 1 if both use both
	FirstRemote uint32 // u8: the lowest remote circular buffer, or CircularBuffers
	HostID      uint32 // the host's name for the program
	Enables     uint32 // u32: a bit for each processor with a kernel
	NCRISCSize  uint32 // bytes of the kernel / 16
	Origin      uint32 // u8 x and u8 y: the logical core that relative coordinates are relative to; 0 with messages of 112 B
	Preload     uint32 // u8, the last: 0x80 lets a core prepare before its go signal

	CircularBuffers int // of a core
	// ArgSlots is chip.NumProcessors, or 3 in wheels up to 0.62.2, where compute processors share
	// arguments and a bit of Enables.
	ArgSlots uint32
}

// ArgsAt is the offset of a processor's entry of Args.
func (l *Launch) ArgsAt(p chip.Processor) uint32 { return l.Args + 4*min(uint32(p), l.ArgSlots-1) }

// Enabled returns a bit for each processor that a launch message starts; others say that it is none
// of this layout.
func (l *Launch) Enabled(message []byte) uint32 {
	v := uint32(message[l.Enables])
	if l.ArgSlots < chip.NumProcessors && v&4 != 0 {
		v |= 1<<chip.TRISC1 | 1<<chip.TRISC2
	}
	return v
}

// Own returns the layout of this runtime's own firmware; nil for no architecture.
func Own(arch chip.Arch) *Layout {
	if arch != chip.Wormhole && arch != chip.Blackhole {
		return nil
	}
	return &Layout{
		Revision: Revision{Name: ownName}, Arch: arch, L1: ownL1(arch), Launch: ownLaunch(),
		Banks: BankTable{Fields: []BankField{BankCounts, DRAMPlaces, DRAMOffsets, L1Places}, DRAM: maxDRAMBanks, L1: maxL1Banks},
		Info: CoreInfo{Magic: CoreInfoMagic, MagicAt: 0, Logical: 4, Dispatch: 6, NOCSize: Absent, Workers: Absent, Unreserved: Absent,
			Watched: WatchedTiles{Bounds: Absent}},
		State: CoreState{Waypoint: 0, Detail: 4, Kernels: 8},
	}
}

// Wheels returns the ttnn wheels with tt-metal's layout.
func (l *Layout) Wheels() []string { return slices.Clone(l.wheels) }

// Known returns tt-metal's layouts for an architecture, oldest first.
func Known(arch chip.Arch) (all []*Layout) {
	for _, l := range tables() {
		if l.Arch == arch {
			all = append(all, l)
		}
	}
	return all
}

// Of returns the layout of a wheel's firmware, or for "reprise" this runtime's own; nil for an
// unknown name.
func Of(name string, arch chip.Arch) *Layout {
	if name == ownName {
		return Own(arch)
	}
	if wheel, ok := formerNames[name]; ok {
		name = wheel
	}
	for _, l := range Known(arch) {
		if slices.Contains(l.wheels, name) {
			return l
		}
	}
	return nil
}

// formerNames are names in older trace files: dates of commits with these wheels' layouts.
var formerNames = map[string]string{"2026-01-09": "0.65.1", "2026-03-12": "0.67.0"}

// UnknownFirmwareError: base firmware is of no known revision.
type UnknownFirmwareError struct {
	Addresses [chip.NumProcessors]uint32
	// Conflicts says what the firmware contradicts of each revision with these addresses.
	Conflicts []error
}

func (e *UnknownFirmwareError) Error() string {
	s := "abi: base firmware with"
	for p, a := range e.Addresses {
		s += fmt.Sprintf(" %v at %#x", chip.Processor(p), a)
	}
	if len(e.Conflicts) > 0 {
		s += " is like that of known wheels, but for"
		for i, err := range e.Conflicts {
			if i > 0 {
				s += ","
			}
			s += " " + err.Error()
		}
	} else {
		s += " is of no known ttnn wheel"
	}
	known := Known(chip.Blackhole)
	return s + ": known are " + known[0].Revision.Name + " to " + known[len(known)-1].Revision.Last
}

// ByFirmware returns tt-metal's layouts whose base firmwares have these L1 addresses, by processor,
// and agree with what the firmware tells, newest first; or an *UnknownFirmwareError.
func ByFirmware(addresses [chip.NumProcessors]uint32, told Facts) (fit []*Layout, err error) {
	unknown := &UnknownFirmwareError{Addresses: addresses}
	for _, l := range slices.Backward(tables()) {
		if l.L1.Firmware != addresses {
			continue
		}
		if err := l.Check(told); err != nil {
			unknown.Conflicts = append(unknown.Conflicts, fmt.Errorf("%s: %w", l.Revision.Wheels(), err))
			continue
		}
		fit = append(fit, l)
	}
	if fit == nil {
		return nil, unknown
	}
	return fit, nil
}

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
