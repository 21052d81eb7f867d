package abi

import (
	"encoding/binary"
	"fmt"

	"github.com/reprise-tt/reprise/chip"
)

const numNOCs = 2

// Absent marks a field that a revision lacks.
const Absent = 0xFFFFFFFF

// Boot is what the host writes before tt-metal's base firmware starts, beside the mailbox, the bank
// table, core information and the firmware. Source: tt-metal
// tt_metal/hw/inc/internal/tt-1xx/*/dev_mem_map.h.
type Boot struct {
	// Scratch is, by processor, the L1 address of the initial data of its local RAM, which its
	// firmware copies there.
	Scratch [chip.NumProcessors]uint32
	// IRAM is where kernels of Wormhole's NCRISC are linked and run, IRAMSize its bytes; 0 where
	// they run from L1.
	IRAM, IRAMSize uint32
	// Virtual is the L1 address of the virtual coordinates of workers: a byte for each column,
	// then, from VirtualRows bytes on, one for each row; VirtualSize bytes.
	Virtual, VirtualRows, VirtualSize uint32
	Watcher                           Watcher
}

// Watcher has the offsets, from the mailbox, of fields that the host initializes for tt-metal's
// watcher. Source: tt-metal dev_msgs.h (watcher_msg_t), watcher_server.cpp.
type Watcher struct {
	Enable   uint32 // u32: 2 disabled, 3 enabled
	Sanitize uint32 // u16 for each NoC, Stride bytes apart: 2 without an error
	Stride   uint32 // 0 without a watcher
	Assert   uint32 // u8: 2 without an error
}

const (
	watcherDisabled = 2
	watcherOK       = 2
)

// CoreState has the offsets in a processor's part of L1Map.CoreState: a waypoint's four characters,
// a word that explains it, and the number of kernels that have run; Absent for missing ones.
// tt-metal's firmware has waypoints only if built with the watcher.
type CoreState struct {
	Waypoint, Detail, Kernels uint32
}

// BankField is a part of a bank table.
type BankField uint8

// Parts of a bank table. Coordinates are x | y<<6, as software names them on that NoC.
const (
	BankCounts  BankField = iota // u32 DRAM banks, u32 L1 banks
	DRAMPlaces                   // by NoC and DRAM bank: u16 coordinates
	L1Places                     // by NoC and L1 bank: u16 coordinates
	DRAMOffsets                  // by DRAM bank: u32
	L1Offsets                    // by L1 bank: u32, 0
)

// BankTable is the table by which device code finds banks: its parts, and its room in banks; 0 for
// as many as the firmware was compiled for.
type BankTable struct {
	Fields   []BankField
	DRAM, L1 int
	Shift    int
}

// Room of this runtime's own table.
const (
	maxDRAMBanks = 16
	maxL1Banks   = 160
)

// Encode returns the table for banks of DRAM and for the workers, by L1 bank, in virtual
// coordinates. Firmware that was compiled for a number of banks needs exactly that many.
func (t *BankTable) Encode(dram []chip.Bank, l1 []chip.XY) []byte {
	nd, nl := max(len(dram), t.DRAM), max(len(l1), t.L1)
	le := binary.LittleEndian
	var b []byte
	for _, f := range t.Fields {
		at := len(b)
		switch f {
		case BankCounts:
			b = le.AppendUint32(le.AppendUint32(b, uint32(len(dram))), uint32(len(l1)))
		case DRAMPlaces:
			b = append(b, make([]byte, 2*numNOCs*nd)...)
			for n := range numNOCs {
				for i := range dram {
					le.PutUint16(b[at+2*(n*nd+i):], uint16(dram[i].Endpoint[n].Packed()<<t.Shift))
				}
			}
		case L1Places:
			b = append(b, make([]byte, 2*numNOCs*nl)...)
			for n := range numNOCs {
				for i, xy := range l1 {
					le.PutUint16(b[at+2*(n*nl+i):], uint16(xy.Packed()<<t.Shift))
				}
			}
		case DRAMOffsets:
			b = append(b, make([]byte, 4*nd)...)
			for i := range dram {
				le.PutUint32(b[at+4*i:], uint32(dram[i].Offset))
			}
		case L1Offsets:
			b = append(b, make([]byte, 4*nl)...)
		}
	}
	return b
}

// CoreInfoMagic is the first word of core information for this runtime's own firmware, "RPR1" in
// memory order: the host has set the core up.
const CoreInfoMagic = 0x31525052

// CoreInfo has the offsets of the fields that tell a core its place; Absent for missing ones.
// Source of tt-metal's: dev_msgs.h (core_info_msg_t).
type CoreInfo struct {
	Magic, MagicAt uint32 // u32
	Logical        uint32 // u8 x, u8 y: logical coordinates
	Dispatch       uint32 // u8: 1 on a core that programs may not use
	NOCSize        uint32 // grid of tiles, u8 each
	Workers        uint32 // logical grid, u8 each
	Unreserved     uint32 // u32: L1Map.Unreserved
	Watched        WatchedTiles
}

// WatchedTiles has the offsets of the tables by which the watcher checks NoC requests. Only
// firmware and kernels built with the watcher read them.
type WatchedTiles struct {
	Bounds    uint32 // u64 each: first and last address of host memory, then of DRAM; may be Absent
	Physical  uint32 // tiles that are no workers by coordinates on NoC 0: u8 x, u8 y, u8 kind
	Virtual   uint32 // by virtual coordinates
	Harvested uint32 // up to Virtual rows or columns: u8 each, by coordinates on NoC 0, then as many virtual ones
	End       uint32
}

// KernelTables returns the L1 between tt-metal's base firmware and its kernels' configuration. Its
// host leaves tables for kernels there, such as those of its fabric. This runtime's own has none.
func (l *Layout) KernelTables() (start, end uint32) {
	if l.Revision.Own() {
		return 0, 0
	}
	for p, at := range l.L1.Firmware {
		start = max(start, at+l.L1.FirmwareSize[p])
	}
	return start, max(start, l.L1.KernelConfig)
}

// EncodeInfo returns the core information of a core that programs may use (worker) or not.
func (l *Layout) EncodeInfo(ch *chip.Chip, c chip.Core, worker bool) []byte {
	p, f := ch.Params(), &l.Info
	b := make([]byte, l.L1.CoreInfoSize)
	le := binary.LittleEndian
	if f.MagicAt != Absent {
		le.PutUint32(b[f.MagicAt:], f.Magic)
	}
	b[f.Logical], b[f.Logical+1] = uint8(c.X), uint8(c.Y)
	if f.Dispatch != Absent && !worker {
		b[f.Dispatch] = 1
	}
	if f.NOCSize != Absent {
		b[f.NOCSize], b[f.NOCSize+1] = uint8(p.GridWidth), uint8(p.GridHeight)
	}
	if f.Workers != Absent {
		w, h := ch.Grid()
		b[f.Workers], b[f.Workers+1] = uint8(w), uint8(h)
	}
	if f.Unreserved != Absent {
		le.PutUint32(b[f.Unreserved:], l.L1.Unreserved)
	}
	if f.Watched.Bounds != Absent {
		f.Watched.encode(b, ch)
	}
	return b
}

// Source: tt-metal dev_msgs.h.
const signalInit = 0x40

// Mailbox returns the mailbox before a start: the go message says INIT, the watcher is off, the
// rest is zero.
func (l *Layout) Mailbox() []byte {
	b := make([]byte, l.L1.MailboxSize)
	b[l.L1.Go-l.L1.Mailbox+3] = signalInit
	w := &l.Boot.Watcher
	if w.Stride == 0 {
		return b
	}
	le := binary.LittleEndian
	le.PutUint32(b[w.Enable:], watcherDisabled)
	for n := range uint32(numNOCs) {
		le.PutUint16(b[w.Sanitize+n*w.Stride:], watcherOK)
	}
	b[w.Assert] = watcherOK
	return b
}

// VirtualMap returns the virtual coordinates of columns and rows of the logical grid; nil where the
// host writes none.
func (l *Layout) VirtualMap(columns, rows []chip.XY) ([]byte, error) {
	m := &l.Boot
	if m.VirtualSize == 0 {
		return nil, nil
	}
	if len(columns) > int(m.VirtualRows) || len(rows) > int(m.VirtualSize-m.VirtualRows) {
		return nil, fmt.Errorf("abi: virtual coordinates of %d columns and %d rows: %d and %d have room", len(columns), len(rows), m.VirtualRows,
			m.VirtualSize-m.VirtualRows)
	}
	b := make([]byte, m.VirtualSize)
	for i, xy := range columns {
		b[i] = uint8(xy.X)
	}
	for i, xy := range rows {
		b[int(m.VirtualRows)+i] = uint8(xy.Y)
	}
	return b, nil
}
