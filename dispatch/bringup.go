package dispatch

import (
	"context"
	"encoding/binary"
	"fmt"
	"time"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/dispatch/abi"
	"github.com/reprise-tt/reprise/dispatch/firmware"
)

// Signals in byte 3 of a go message. Source: tt-metal dev_msgs.h.
const (
	signalDone        = 0x00
	signalInit        = 0x40
	signalGo          = 0x80
	signalReplayTrace = 0xF0
)

// firmwareTimeout bounds the start of the base firmware. Source: tt-metal waits 10 s for it.
const firmwareTimeout = 10 * time.Second

// bringUp loads the base firmware into every Tensix core and starts it.
func (d *Device) bringUp(ctx context.Context) error {
	images, err := firmware.Base(d.ch.Arch())
	if err != nil {
		return fmt.Errorf("dispatch: bring-up: %w", err)
	}
	all := d.tensixRange()
	l1 := &d.queue.L1
	word := func(v uint32) []byte { return binary.LittleEndian.AppendUint32(nil, v) }

	if err := d.multicast(all, uint64(d.pr.SoftReset), word(d.pr.ResetAll)); err != nil {
		return fmt.Errorf("dispatch: bring-up: hold cores in reset: %w", err)
	}
	for p, image := range images {
		if uint32(len(image)) > l1.FirmwareSize[p] {
			return fmt.Errorf("dispatch: bring-up: firmware of %v has %d B, its place in L1 %d B", chip.Processor(p), len(image), l1.FirmwareSize[p])
		}
		if err := d.multicast(all, uint64(l1.Firmware[p]), image); err != nil {
			return fmt.Errorf("dispatch: bring-up: load firmware of %v: %w", chip.Processor(p), err)
		}
	}
	// The mailbox up to the core state: go message INIT, everything else zero.
	mailbox := make([]byte, l1.CoreState+chip.NumProcessors*l1.CoreStateSize-l1.Mailbox)
	mailbox[l1.Go-l1.Mailbox+3] = signalInit
	for _, w := range []struct {
		what string
		addr uint32
		data []byte
	}{
		{"mailbox", l1.Mailbox, mailbox},
		{"zeros", l1.Zeros, make([]byte, l1.ZerosSize)},
		{"bank table", l1.BankTable, d.bankTable()},
		{"reset vector", 0, word(jump(l1.Firmware[chip.BRISC]))},
	} {
		if err := d.multicast(all, uint64(w.addr), w.data); err != nil {
			return fmt.Errorf("dispatch: bring-up: write %s: %w", w.what, err)
		}
	}
	for c := range d.ch.Workers() {
		if err := d.write(c, l1.CoreInfo, d.coreInfo(c)); err != nil {
			return fmt.Errorf("dispatch: bring-up: write core information of %v: %w", c, err)
		}
	}
	if err := d.multicast(all, uint64(d.pr.SoftReset), word(d.pr.ResetAllButBRISC)); err != nil {
		return fmt.Errorf("dispatch: bring-up: release cores from reset: %w", err)
	}
	for c := range d.ch.Workers() {
		if err := d.awaitDone(ctx, c, firmwareTimeout, func() {}); err != nil {
			return fmt.Errorf("dispatch: bring-up: base firmware of core %v: %w", c, err)
		}
	}
	return nil
}

// awaitDone waits until a core's first go message is DONE, and calls meanwhile between polls.
func (d *Device) awaitDone(ctx context.Context, c chip.Core, limit time.Duration, meanwhile func()) error {
	xy, err := d.ch.Virtual(c)
	if err != nil {
		return err
	}
	w := newWaiter(limit, Pace{Sleepers: d.opts.Pace.Sleepers})
	for {
		v, err := d.kd.Read32(xy, uint64(d.layoutOf(c).L1.Go))
		if err != nil {
			return err
		}
		if v>>24 == signalDone {
			return nil
		}
		if err := d.kd.Fault(); err != nil {
			return err
		}
		meanwhile()
		if err := w.pause(ctx); err != nil {
			return fmt.Errorf("go message is %#08x, expected the signal DONE; %v: %w", v, d.coreState(c), err)
		}
	}
}

// bankTable returns the table by which device code finds DRAM and L1 banks: counts, then by NoC the coordinates of DRAM banks, their
// offsets, then by NoC the coordinates of the workers' L1 banks.
func (d *Device) bankTable() []byte {
	banks := d.ch.DRAMBanks()
	b := make([]byte, d.queue.L1.BankTableSize)
	le := binary.LittleEndian
	le.PutUint32(b[0:], uint32(len(banks)))
	le.PutUint32(b[4:], uint32(len(d.l1Banks)))
	const (
		dramXY  = 8
		dramOff = dramXY + 2*2*abi.BankTableDRAM
		l1XY    = dramOff + 4*abi.BankTableDRAM
	)
	for i, bank := range banks {
		for n := range 2 {
			le.PutUint16(b[dramXY+2*(n*abi.BankTableDRAM+i):], uint16(bank.Endpoint[n].Packed()))
		}
		le.PutUint32(b[dramOff+4*i:], uint32(bank.Offset))
	}
	for i, xy := range d.l1Banks {
		for n := range 2 {
			le.PutUint16(b[l1XY+2*(n*abi.BankTableL1+i):], uint16(xy.Packed()))
		}
	}
	return b
}

// coreInfo returns a core's description of its place.
func (d *Device) coreInfo(c chip.Core) []byte {
	b := make([]byte, d.queue.L1.CoreInfoSize)
	binary.LittleEndian.PutUint32(b, abi.CoreInfoMagic)
	b[4], b[5] = uint8(c.X), uint8(c.Y)
	if !d.grid.Contains(c) {
		b[6] = 1
	}
	return b
}

// jump encodes the RISC-V instruction JAL x0 to a target below 1 MiB from address 0, where BRISC starts.
func jump(target uint32) uint32 {
	return target&0xFF000 | target&0x800<<9 | target&0x7FE<<20 | 0x6F
}
