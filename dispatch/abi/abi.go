// Package abi describes, as data, what the host and the firmware of a Tensix core agree on: the L1
// map, the launch message, and what the host writes before a core starts. Workers and command-queue
// cores of one chip may have layouts of different revisions.
package abi

import (
	"fmt"

	"github.com/reprise-tt/reprise/chip"
)

// Revision is a state of tt-metal's sources, or this runtime's own.
type Revision struct {
	Name   string // "reprise" for this runtime's own, otherwise the date
	Commit string // of tt-metal, 7 or 10 hexadecimal digits
	Date   string // YYYY-MM-DD
}

// Own reports whether the revision is this runtime's own firmware.
func (r Revision) Own() bool { return r.Name == ownName }

func (r Revision) String() string {
	if r.Own() {
		return "this runtime's own firmware"
	}
	return "tt-metal of " + r.Date + " (" + r.Commit + ")"
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
}

// Own returns the layout of this runtime's own firmware; nil for no architecture.
func Own(arch chip.Arch) *Layout {
	if arch != chip.Wormhole && arch != chip.Blackhole {
		return nil
	}
	return &Layout{
		Revision: Revision{Name: ownName}, Arch: arch, L1: ownL1(arch), Launch: launch96(),
		Banks: BankTable{Fields: []BankField{BankCounts, DRAMPlaces, DRAMOffsets, L1Places}, DRAM: maxDRAMBanks, L1: maxL1Banks},
		Info: CoreInfo{Magic: CoreInfoMagic, MagicAt: 0, Logical: 4, Dispatch: 6, NOCSize: Absent, Workers: Absent, Unreserved: Absent,
			Watched: WatchedTiles{Bounds: Absent}},
		State: CoreState{Waypoint: 0, Detail: 4, Kernels: 8},
	}
}

// Revisions returns this runtime's own revision, then those of tt-metal, oldest first.
func Revisions() []Revision {
	out := []Revision{{Name: ownName}}
	for _, t := range tables() {
		out = append(out, t.revision)
	}
	return out
}

// Of returns nil for an unknown name.
func Of(name string, arch chip.Arch) *Layout {
	if name == ownName {
		return Own(arch)
	}
	for _, t := range tables() {
		if t.revision.Name == name {
			return t.layout(arch)
		}
	}
	return nil
}

// UnknownFirmwareError: base firmware is at addresses of no revision.
type UnknownFirmwareError struct {
	Addresses [chip.NumProcessors]uint32
}

func (e *UnknownFirmwareError) Error() string {
	s := ""
	for p, a := range e.Addresses {
		s += fmt.Sprintf(" %v at %#x", chip.Processor(p), a)
	}
	known := ""
	for _, r := range Revisions()[1:] {
		known += ", " + r.Date + " (" + r.Commit + ")"
	}
	return "abi: base firmware with" + s + " is of no revision of tt-metal that is known: use one from" + known[1:]
}

// ByFirmware returns tt-metal's layout whose base firmwares have these L1 addresses, by processor,
// or an *UnknownFirmwareError.
func ByFirmware(addresses [chip.NumProcessors]uint32) (*Layout, error) {
	all := tables()
	for i := range all {
		t := &all[len(all)-1-i]
		for _, arch := range []chip.Arch{chip.Wormhole, chip.Blackhole} {
			if l := t.layout(arch); l.L1.Firmware == addresses {
				return l, nil
			}
		}
	}
	return nil, &UnknownFirmwareError{Addresses: addresses}
}
