package ttsim_test

import (
	"encoding/binary"
	"testing"

	"github.com/reprise-tt/reprise/sim/ttsim"
)

var program = []uint32{
	0x0000D537, // lui a0, 0xD
	0x0DE50513, // addi a0, a0, 0xDE
	0x000305B7, // lui a1, 0x30
	0x00A5A023, // sw a0, 0(a1)
	0x0000006F, // j .
}

func load(b board, f *ttsim.Function, words []uint32) {
	p := make([]byte, 0, 4*len(words))
	for _, w := range words {
		p = binary.LittleEndian.AppendUint32(p, w)
	}
	f.BARWrite(0, b.at(f, b.x, b.y, 0), p)
}

// release lets BRISC of the test's tile run from address 0 (soft reset bits: ttsim src/tile.cpp).
func release(b board, f *ttsim.Function) { f.BARStore(0, b.at(f, b.x, b.y, 0xFFB121B0), 4, 0x47000) }

// Registers for the little programs below (RISC-V ABI numbers).
const (
	t0, t1, t2, t3, t4 = 5, 6, 7, 28, 29
)

type assembler []uint32

func (a *assembler) emit(w ...uint32) { *a = append(*a, w...) }

func (a *assembler) li(rd, v uint32) {
	a.emit((v+0x800)&0xFFFFF000|rd<<7|0x37, v<<20|rd<<15|rd<<7|0x13) // lui, addi
}

func (a *assembler) addi(rd, rs, v uint32) { a.emit(v<<20 | rs<<15 | rd<<7 | 0x13) }

func (a *assembler) sw(rs, off, base uint32) {
	a.emit(off>>5<<25 | rs<<20 | base<<15 | 2<<12 | off&0x1F<<7 | 0x23)
}

func (a *assembler) jump(to int) {
	d := uint32(4 * (to - len(*a)))
	a.emit(d>>20&1<<31 | d>>1&0x3FF<<21 | d>>11&1<<20 | d>>12&0xFF<<12 | 0x6F)
}

// request fills the registers of NoC 0's command buffer at base register rb; t1 is used up. remote
// is in the PCIe tile, local in the program's own (registers and control bits: tt-isa-documentation
// NoC/MemoryMap.md).
func (a *assembler) request(b board, rb uint32, write bool, remote, local uint64, size uint32) {
	put := func(reg, v uint32) { a.li(t1, v); a.sw(t1, reg, rb) }
	address := func(reg uint32, addr uint64, x, y uint32) {
		put(reg, uint32(addr))
		if b.id == boards["wormhole"].id {
			put(reg+4, uint32(addr>>32)|x<<4|y<<10)
			return
		}
		put(reg+4, uint32(addr>>32))
		put(reg+8, x|y<<6)
	}
	const targ, ret, ctrl, atLen = 0x00, 0x0C, 0x1C, 0x20
	const marked, isWrite = 1 << 4, 2
	if write {
		address(targ, local, b.x, b.y)
		address(ret, remote, b.pcieX, b.pcieY)
		put(ctrl, marked|isWrite)
	} else {
		address(targ, remote, b.pcieX, b.pcieY)
		address(ret, local, b.x, b.y)
		put(ctrl, marked)
	}
	put(atLen, size)
}

const niu = 0xFFB20000

func (b board) commandBuffers() (stride, command uint32) {
	if b.id == boards["wormhole"].id {
		return 0x400, 0x28
	}
	return 0x800, 0x40
}

func runRead(b board, f *ttsim.Function, from, to uint64, size uint32) {
	_, command := b.commandBuffers()
	var a assembler
	a.li(t0, niu)
	a.request(b, t0, false, from, to, size)
	a.li(t1, 1)
	a.sw(t1, command, t0)
	a.jump(len(a))
	load(b, f, a)
	release(b, f)
}

func TestHostMemoryOrder(t *testing.T) {
	eachBoard(t, func(t *testing.T, b board, f *ttsim.Function) {
		m := &sysmem{base: 0x7_0000_0000, mem: make([]byte, 1<<16)}
		f.AttachDMA(m)
		outbound(b, f, 0, 0xFFFF, m.base)

		const source, data, flag = 0x20000, 0x1000, 0x2000
		stride, command := b.commandBuffers()
		var a assembler
		a.li(t0, niu)
		a.li(t3, niu+stride)
		a.request(b, t0, true, b.noc+data, source, 4096)
		a.request(b, t3, true, b.noc+flag, source, 4)
		a.li(t4, source)
		a.li(t1, 1)
		a.li(t2, 0)
		loop := len(a)
		a.addi(t2, t2, 1)
		a.sw(t2, 0, t4)
		a.sw(t1, command, t0)
		a.sw(t1, command, t3)
		a.jump(loop)
		load(b, f, a)
		release(b, f)

		off := b.at(f, b.x, b.y, source)
		seen := uint32(0)
		eventually(t, f, "a hundred rounds", func() bool {
			count := uint32(f.BARLoad(0, off, 4))
			now := m.word(flag)
			if after := m.word(data); int32(after-now) < 0 {
				t.Fatalf("flag %d came before its data, %d", now, after)
			}
			if count > 1 && now+1 < count {
				t.Fatalf("the device is at round %d and host memory at %d", count, now)
			}
			seen = now
			return seen > 100
		})
	})
}
