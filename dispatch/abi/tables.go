package abi

import "github.com/reprise-tt/reprise/chip"

const numNOCs = 2

// revisionTable is a revision of tt-metal. Sources, each of that revision:
// tt_metal/hw/inc/internal/tt-1xx/{wormhole,blackhole}/dev_mem_map.h for L1 maps, scratch areas,
// bank tables and virtual maps; tt_metal/hw/inc/hostdev/dev_msgs.h (mailboxes_t,
// kernel_config_msg_t, watcher_msg_t, core_info_msg_t) for the mailbox;
// tt_metal/llrt/hal/tt-1xx/*/*_hal_tensix.cpp for the kernel configuration and the first free byte.
type revisionTable struct {
	revision            Revision
	launch              Launch
	watcher             uint32 // offset in the mailbox
	tripped             uint32 // offset of assert_status.tripped in the watcher's fields
	queues              []QueueForm
	wormhole, blackhole archTable
}

type archTable struct {
	l1    L1Map
	boot  Boot // without the watcher
	cbs   int  // NUM_CIRCULAR_BUFFERS of tt_metal/api/tt-metalium/circular_buffer_constants.h
	shift int  // NOC_COORD_REG_OFFSET of noc_parameters.h
}

// tables returns the revisions of tt-metal, oldest first.
func tables() []revisionTable { return []revisionTable{january(), march(), may()} }

func (t *revisionTable) layout(arch chip.Arch) *Layout {
	l := &Layout{
		Revision: t.revision, Arch: arch, Launch: t.launch,
		Banks: BankTable{Fields: []BankField{DRAMPlaces, L1Places, DRAMOffsets, L1Offsets}},
		Info: CoreInfo{
			Magic: 0x50EC09A3, MagicAt: 0xF0, Logical: 0xE8, Dispatch: Absent, NOCSize: 0xE4, Workers: 0xE6, Unreserved: 0xEC,
			Watched: WatchedTiles{Bounds: 0, Physical: 0x20, Virtual: 0x89, Harvested: 0xE0, End: 0xE4},
		},
	}
	var a *archTable
	switch arch {
	case chip.Wormhole:
		a = &t.wormhole
	case chip.Blackhole:
		a = &t.blackhole
	default:
		return nil
	}
	l.L1, l.Boot, l.Launch.CircularBuffers, l.Banks.Shift = a.l1, a.boot, a.cbs, a.shift
	l.Boot.Watcher = Watcher{
		Enable: t.watcher, Sanitize: t.watcher + 0x18 + 0x12, Stride: 0x18, Assert: t.watcher + t.tripped, HasWatcher: true,
	}
	l.State = CoreState{Waypoint: 0, Detail: Absent, Kernels: Absent}
	return l
}

// scratch returns the areas of initial data of local RAM, one after the other, each as large as its
// processor's local RAM. The T cores' is smaller.
func scratch(first, dataMovement, compute uint32) [chip.NumProcessors]uint32 {
	t := first + 2*dataMovement
	return [chip.NumProcessors]uint32{first, first + dataMovement, t, t + compute, t + 2*compute}
}

func january() revisionTable {
	return revisionTable{
		revision: Revision{Name: "2026-01-09", Commit: "a4347c0dda", Date: "2026-01-09"},
		launch:   launch96(), watcher: 0x348, tripped: 0x4E,
		queues: []QueueForm{{FetchEntry: 2, WaitStream: 8, ClearStream: 16}},
		wormhole: archTable{
			l1: L1Map{
				AtomicReturn: 4, Barrier: 12, InlineScratch: chip.NoRegister,
				Mailbox: 0x10, MailboxSize: 0x31E0, SubordinateSync: 0x18, LaunchReadPtr: 0x1C,
				Launch: 0x20, LaunchEntries: 8, LaunchSize: 96,
				Go: 0x320, GoEntries: 9, GoIndex: 0x350,
				CoreInfo: 0x10 + 0x858, CoreInfoSize: 0xF8, CoreState: 0x10 + 0x348 + 4, CoreStateSize: 4,
				Zeros: 0x3200, ZerosSize: 512,
				Firmware:     [chip.NumProcessors]uint32{0x3800, 0x5000, 0x5800, 0x5E00, 0x6400},
				FirmwareSize: [chip.NumProcessors]uint32{0x1800, 0x800, 0x600, 0x600, 0x600},
				BankTable:    0xC4F0, BankTableSize: 0x800,
				KernelConfig: 0x7CF0, KernelConfigSize: 0x11400,
				Unreserved: 0x19100, Size: 0x16E000,
			},
			boot: Boot{
				Scratch: scratch(0x7CF0, 4096, 2048), IRAM: 0xFFC00000, IRAMSize: 0x4000,
				Virtual: 0xCCF0, VirtualRows: 12, VirtualSize: 24,
			},
			cbs: 32, shift: 4,
		},
		blackhole: archTable{
			l1: L1Map{
				AtomicReturn: 4, Barrier: 12, InlineScratch: 32,
				Mailbox: 0x60, MailboxSize: 0x31E0, SubordinateSync: 0x68, LaunchReadPtr: 0x6C,
				Launch: 0x70, LaunchEntries: 8, LaunchSize: 96,
				Go: 0x370, GoEntries: 9, GoIndex: 0x3A0,
				CoreInfo: 0x60 + 0x858, CoreInfoSize: 0xF8, CoreState: 0x60 + 0x348 + 4, CoreStateSize: 4,
				Zeros: 0x3240, ZerosSize: 512,
				Firmware:     [chip.NumProcessors]uint32{0x3840, 0x5440, 0x5A40, 0x6040, 0x6640},
				FirmwareSize: [chip.NumProcessors]uint32{0x1C00, 0x600, 0x600, 0x600, 0x600},
				BankTable:    0x112B0, BankTableSize: 0x800,
				KernelConfig: 0x82B0, KernelConfigSize: 0x11400,
				Unreserved: 0x196C0, Size: 0x180000,
			},
			boot: Boot{
				Scratch: scratch(0x82B0, 8192, 4096),
				Virtual: 0x11AB0, VirtualRows: 20, VirtualSize: 32,
			},
			cbs: 32,
		},
	}
}

func march() revisionTable {
	return revisionTable{
		revision: Revision{Name: "2026-03-12", Commit: "2f3626c410", Date: "2026-03-12"},
		launch:   launch112(), watcher: 0x3C8, tripped: 0x4E,
		queues: []QueueForm{{FetchEntry: 2, Progress: true, WaitStream: 8, ClearStream: 16}},
		wormhole: archTable{
			l1: L1Map{
				AtomicReturn: 4, Barrier: 12, InlineScratch: chip.NoRegister,
				Mailbox: 0x10, MailboxSize: 0x3260, SubordinateSync: 0x18, LaunchReadPtr: 0x1C,
				Launch: 0x20, LaunchEntries: 8, LaunchSize: 112,
				Go: 0x3A0, GoEntries: 9, GoIndex: 0x3D0,
				CoreInfo: 0x10 + 0x8D8, CoreInfoSize: 0xF8, CoreState: 0x10 + 0x3C8 + 4, CoreStateSize: 4,
				Zeros: 0x3280, ZerosSize: 512,
				Firmware:     [chip.NumProcessors]uint32{0x3880, 0x5080, 0x5880, 0x5E80, 0x6480},
				FirmwareSize: [chip.NumProcessors]uint32{0x1800, 0x800, 0x600, 0x600, 0x600},
				BankTable:    0xC920, BankTableSize: 0x800,
				KernelConfig: 0x8120, KernelConfigSize: 0x11400,
				Unreserved: 0x19520, Size: 0x16E000,
			},
			boot: Boot{
				Scratch: scratch(0x8120, 4096, 2048), IRAM: 0xFFC00000, IRAMSize: 0x4000,
				Virtual: 0xD120, VirtualRows: 12, VirtualSize: 24,
			},
			cbs: 32, shift: 4,
		},
		blackhole: archTable{
			l1: L1Map{
				AtomicReturn: 4, Barrier: 12, InlineScratch: 32,
				Mailbox: 0x60, MailboxSize: 0x3260, SubordinateSync: 0x68, LaunchReadPtr: 0x6C,
				Launch: 0x70, LaunchEntries: 8, LaunchSize: 112,
				Go: 0x3F0, GoEntries: 9, GoIndex: 0x420,
				CoreInfo: 0x60 + 0x8D8, CoreInfoSize: 0xF8, CoreState: 0x60 + 0x3C8 + 4, CoreStateSize: 4,
				Zeros: 0x32C0, ZerosSize: 512,
				Firmware:     [chip.NumProcessors]uint32{0x38C0, 0x5AC0, 0x64C0, 0x6EC0, 0x78C0},
				FirmwareSize: [chip.NumProcessors]uint32{0x2200, 0xA00, 0xA00, 0xA00, 0xA00},
				BankTable:    0x12DE0, BankTableSize: 0x800,
				KernelConfig: 0x9DE0, KernelConfigSize: 0x11400,
				Unreserved: 0x1B200, Size: 0x180000,
			},
			boot: Boot{
				Scratch: scratch(0x9DE0, 8192, 4096),
				Virtual: 0x135E0, VirtualRows: 20, VirtualSize: 32,
			},
			cbs: 64,
		},
	}
}

// may is the newest revision whose memory maps of both architectures can be read together: those at
// 00f67de of a fork, with the dispatch telemetry region that was merged after 28 May 2026. The
// mailbox is March's with the 16 B of debug_assert_msg_t of later dev_msgs.h. It is inferred: the
// size agrees with MEM_MAILBOX_SIZE.
func may() revisionTable {
	return revisionTable{
		revision: Revision{Name: "2026-05", Commit: "00f67de", Date: "2026-05"},
		launch:   launch112(), watcher: 0x3C8, tripped: 0x52,
		queues: mayQueues(),
		wormhole: archTable{
			l1: L1Map{
				AtomicReturn: 4, Barrier: 12, InlineScratch: chip.NoRegister,
				Mailbox: 0x10, MailboxSize: 0x3270, SubordinateSync: 0x18, LaunchReadPtr: 0x1C,
				Launch: 0x20, LaunchEntries: 8, LaunchSize: 112,
				Go: 0x3A0, GoEntries: 9, GoIndex: 0x3D0,
				CoreInfo: 0x10 + 0x8E8, CoreInfoSize: 0xF8, CoreState: 0x10 + 0x3C8 + 4, CoreStateSize: 4,
				Zeros: 0x3280, ZerosSize: 512,
				Firmware:     [chip.NumProcessors]uint32{0x3880, 0x50A0, 0x58A0, 0x5EA0, 0x64A0},
				FirmwareSize: [chip.NumProcessors]uint32{0x1820, 0x800, 0x600, 0x600, 0x600},
				BankTable:    0xC9C0, BankTableSize: 0x800,
				KernelConfig: 0x81C0, KernelConfigSize: 0x11400,
				Unreserved: 0x195C0, Size: 0x16E000,
			},
			boot: Boot{
				Scratch: scratch(0x81C0, 4096, 2048), IRAM: 0xFFC00000, IRAMSize: 0x4000,
				Virtual: 0xD1C0, VirtualRows: 12, VirtualSize: 24,
			},
			cbs: 32, shift: 4,
		},
		blackhole: archTable{
			l1: L1Map{
				AtomicReturn: 4, Barrier: 12, InlineScratch: 32,
				Mailbox: 0x60, MailboxSize: 0x3270, SubordinateSync: 0x68, LaunchReadPtr: 0x6C,
				Launch: 0x70, LaunchEntries: 8, LaunchSize: 112,
				Go: 0x3F0, GoEntries: 9, GoIndex: 0x420,
				CoreInfo: 0x60 + 0x8E8, CoreInfoSize: 0xF8, CoreState: 0x60 + 0x3C8 + 4, CoreStateSize: 4,
				Zeros: 0x32E0, ZerosSize: 512,
				Firmware:     [chip.NumProcessors]uint32{0x38E0, 0x5AE0, 0x64E0, 0x6EE0, 0x78E0},
				FirmwareSize: [chip.NumProcessors]uint32{0x2200, 0xA00, 0xA00, 0xA00, 0xA00},
				BankTable:    0x12E80, BankTableSize: 0x800,
				KernelConfig: 0x9E80, KernelConfigSize: 0x11400,
				Unreserved: 0x1B280, Size: 0x180000,
			},
			boot: Boot{
				Scratch: scratch(0x9E80, 8192, 4096),
				Virtual: 0x13680, VirtualRows: 20, VirtualSize: 32,
			},
			cbs: 64,
		},
	}
}

// mayQueues returns the forms of May 2026. Prefetch queue entries have 4 bytes since tt-metal's
// pull request 44039, merged that month. It isn't known when the flags of a WAIT moved for
// CLEAR_MEMORY; code doesn't tell, debug information does.
func mayQueues() []QueueForm {
	return []QueueForm{
		{FetchEntry: 4, Progress: true, WaitStream: 8, ClearStream: 16},
		{FetchEntry: 2, Progress: true, WaitStream: 8, ClearStream: 16},
	}
}

func launch96() Launch {
	return Launch{
		ConfigBase: 0, Semaphores: 12, Circular: 18, Args: 22, Mode: 42, Text: 44, CBMask: 64, NOC: 68, NOCMode: 69, FirstRemote: 70,
		HostID: 72, Enables: 76, NCRISCSize: 90, Origin: 92, Preload: 95, CircularBuffers: 32,
	}
}

// launch112 is the launch message from 29 January 2026 on.
func launch112() Launch {
	return Launch{
		ConfigBase: 0, Semaphores: 12, Circular: 18, Args: 22, Mode: 42, Text: 44, CBMask: 64, NOC: 72, NOCMode: 73, FirstRemote: 74,
		HostID: 76, Enables: 80, NCRISCSize: 94, Preload: 111,
	}
}
