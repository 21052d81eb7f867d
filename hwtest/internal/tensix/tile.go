package tensix

import (
	"github.com/reprise-tt/reprise/sim/emu/tensix/arith"
	"github.com/reprise-tt/reprise/sim/emu/tensix/isa"
)

const (
	descriptorUncompressed = 0x10 // of an unpacker's descriptor
	contextsUncompressed   = 0x000F000F
	packUncompressed       = 1
	packPlane              = 0x20000 // of Wormhole's packers: one plane
)

type source struct {
	unit    isa.Config // 0 fills SrcA or Dst, 1 SrcB
	in, out arith.Format
	addr    uint32
	toDst   bool
}

func (r *engineRun) unpacker(s source) {
	u := s.unit
	r.set(isa.UnpackDescriptor+u, uint32(s.in)|descriptorUncompressed)
	if u == 1 {
		r.set(isa.UnpackDescriptor+u, 256<<16|uint32(s.in)|descriptorUncompressed)
	}
	r.set(isa.UnpackDescriptor1+u, 4<<16|1) // Z 4, Y 1
	r.set(isa.UnpackOutFormat+u, uint32(s.out))
	r.set(isa.UnpackThrottle+u, 2)
	r.setBits(isa.UnpackUncompressed+2*u, contextsUncompressed)
	r.set(isa.UnpackBase+2*u, s.addr>>4-1)
	set := isa.SrcAFormat
	if u == 1 {
		set = isa.SrcBFormat
	}
	r.set(set, uint32(s.out))
	if u == 1 {
		return
	}
	for context := range isa.Config(2) {
		r.set(isa.UnpackDst+context, 64)
		r.set(isa.UnpackXDim+context, 256)
		if s.toDst {
			r.set(isa.UnpackToDstContext+context, 1)
		}
	}
	r.set(isa.UnpackAddDst, 1)
	byAddress := uint32(1)
	if s.toDst {
		byAddress = 0
	}
	r.unpack().set(isa.ThreadSrcASetByAddress, byAddress)
}

func (r *engineRun) unpackTile(units, n uint32) {
	u := r.unpack()
	u.do(isa.SETADCXX{Units: units, End: n - 1})
	for unit := range uint32(2) {
		if unit = 1 - unit; units>>unit&1 != 0 {
			u.do(unpacr(unit, 1))
		}
	}
}

// fillDst unpacks a tile of 32 bits to Dst.
func (r *engineRun) fillDst(format arith.Format, data []byte) {
	r.set(isa.Fp32Dst, 1)
	r.unpacker(source{in: format, out: format, addr: r.place(data), toDst: true})
	r.unpackToDst(arith.TileData)
}

func unpacr(unit, valid uint32) isa.UNPACR {
	return isa.UNPACR{Last: 1, Valid: valid, Override: 1, Unit: unit}
}

func (r *engineRun) unpackToDst(n uint32) {
	u, m := r.unpack(), r.math()
	u.do(isa.SETADCXX{Units: 1, End: n - 1}, isa.UNPACR{Last: 1, Override: 1},
		isa.STALLWAIT{Block: stallSync, Wait: r.waitUnpack()}, isa.SEMPOST{Semaphores: 1 << semUnpack})
	m.do(isa.SEMWAIT{Condition: whileZero, Semaphores: 1 << semUnpack, Block: stallAll}, isa.SEMGET{Semaphores: 1 << semUnpack})
}

const (
	stallTDMA   = 0x1
	stallSync   = 0x2
	stallUnpack = 0x8
	stallMath   = 0x40
	stallConfig = 0x80
	stallAll    = 0x1FF
)

const (
	whileZero = 1
	whileMax  = 2
)

func (e *engines) waitUnpack() uint32 { return 0x6 }
func (e *engines) waitPack() uint32   { return e.by(0x78, 0x8) }
func (e *engines) waitMath() uint32   { return e.by(0x80, 0x10) }
func (e *engines) waitSFPU() uint32   { return e.by(0x4000, 0x800) }
func (e *engines) waitStores() uint32 { return e.by(0x2000, 0x400) }
func (e *engines) waitValid() uint32  { return e.waitSource(0) | e.waitSource(1) }

func (e *engines) waitSource(unit int) uint32 { return e.by(0x400, 0x80) << unit }

// packer makes room for a tile in the output, and configures the packers for it.
func (r *engineRun) packer(mid, out arith.Format, wide bool) (at int, addr uint32) {
	at, addr = r.reserve(out.TileBytes())
	r.configurePackers(mid, out, wide, addr)
	return at, addr
}

func (r *engineRun) configurePackers(mid, out arith.Format, wide bool, addr uint32) {
	size := uint32(max(1, mid.Bits()/8))
	r.set(isa.PackYStride, 16*size)
	r.set(isa.PackZStride, 256*size)
	r.set(isa.PackWStride, 1024*size)
	r.set(isa.DstFormat, uint32(mid))
	if wide {
		r.set(isa.PackRead32, 1)
	}
	face := uint32(out.Bits()) * 2 // of 16 bytes
	exponents := uint32(0)
	if out.BFP() {
		exponents = 4
	}
	for i := range r.packers() {
		r.set(isa.PackInFormat+i, uint32(mid))
		r.set(isa.PackOutFormat+i, uint32(out))
		r.setBits(isa.PackOutFormat+i, r.by(packUncompressed|packPlane, packUncompressed))
		n := uint32(i)
		switch {
		case n == 0:
			r.set(isa.PackOut, 1<<31|(addr>>4-1))
			r.set(isa.PackExponents, exponents)
		case exponents != 0: // exponents of the faces follow one another, and so do data
			r.set(isa.PackOut+i, n-1)
			r.set(isa.PackExponents+i, exponents+n*face-n)
		default: // relative to the first packer's
			r.set(isa.PackOut+i, n*face-1)
		}
		r.set(isa.PackDst+i, 16*n)
	}
}

func (r *engineRun) packModes() {
	k := r.pack()
	clearY := []value{{isa.ThreadPackModeYSrcClear, 1}, {isa.ThreadPackModeYDstClear, 1}}
	if !r.blackhole() {
		k.own(clearY...)
		k.own(value{isa.ThreadPackModeYSrcClear + 1, 1}, value{isa.ThreadPackModeYDstClear + 1, 1})
		k.do(isa.SETADCXX{Units: 4, End: 255})
		return
	}
	k.own(value{isa.ThreadPackModeYSrcIncrement, 4}, value{isa.ThreadPackModeYDstIncrement, 4})
	k.own(value{isa.ThreadPackModeYSrcClear + 1, 1}, value{isa.ThreadPackModeYDstClear + 1, 1}, value{isa.ThreadPackModeZSrcClear + 1, 1})
	k.own(value{isa.ThreadPackModeYSrcClear + 2, 1}, value{isa.ThreadPackModeZSrcIncrement + 2, 1},
		value{isa.ThreadPackModeYDstIncrement + 2, 4})
	k.do(isa.SETADCXX{Units: 4, End: 15})
}

func (e *engines) pacrs() []isa.Instruction {
	if !e.blackhole() {
		return []isa.Instruction{isa.PACR{Flush: 1, Packers: 15}, isa.PACR{Last: 1, Concat: 1, Packers: 15, Mode: 1}}
	}
	var list []isa.Instruction
	for i := range 16 {
		switch {
		case i == 15:
			list = append(list, isa.PACR{Last: 1, Mode: 1})
		case i%4 == 3:
			list = append(list, isa.PACR{Mode: 2})
		default:
			list = append(list, isa.PACR{})
		}
	}
	return list
}

func (r *engineRun) packTile() {
	r.handOver()
	r.packModes()
	k := r.pack()
	k.do(awaitDst)
	k.do(r.pacrs()...)
	k.packed()
}

var awaitDst = isa.SEMWAIT{Condition: whileZero, Semaphores: 1 << semPack, Block: stallTDMA}

func (th *engineThread) packed() {
	th.do(isa.STALLWAIT{Block: stallSync, Wait: th.r.waitPack()}, isa.SEMGET{Semaphores: 1 << semPack})
}

func packedTile(p *arith.Pack, dst *arith.DstTile) []byte {
	tile := make([]byte, p.Out.TileBytes())
	p.Tile(tile, dst)
	return tile
}

func (r *engineRun) handOver() {
	r.math().do(isa.STALLWAIT{Block: stallSync, Wait: r.waitMath() | r.waitSFPU()}, isa.SEMPOST{Semaphores: 1 << semPack})
}

func (th *engineThread) freeSources(mask uint32) { th.do(isa.SETRWC{Clear: mask, Mask: 15}) }

// phase begins a fidelity phase, and returns its last instruction's address mode. Wormhole has a
// register for the phase, Blackhole an address mode.
func (r *engineRun) phase(n uint32) (last uint32) {
	m := r.math()
	if !r.blackhole() {
		m.set(isa.ThreadFidelityBase, n)
		return 0
	}
	if n == 0 {
		m.set(isa.ThreadModeFidelityIncrement+5, 1)
	}
	return 5
}

var rowCounters = isa.SETRWC{Mask: 7}

func (th *engineThread) matmulModes() {
	th.mode(0, steps{b: 8, dst: 8})
	th.mode(1, steps{a: 16, dst: 8}, isa.ThreadModeSrcBCarry)
	th.mode(2, steps{b: 32, dst: 8}, isa.ThreadModeSrcACarry, isa.ThreadModeSrcBCarry)
	th.mode(3, steps{a: 32, b: 48}, isa.ThreadModeSrcACarry, isa.ThreadModeSrcBCarry, isa.ThreadModeDstCarry)
}

// steps are what an address mode adds to the counters of SrcA, SrcB and Dst.
type steps struct{ a, b, dst uint32 }

var byEight = steps{8, 8, 8}

// mode sets an address mode: its steps, and fields of one bit.
func (th *engineThread) mode(i isa.Thread, s steps, flags ...isa.Thread) {
	ab := []value{{isa.ThreadModeSrcAIncrement + i, s.a}, {isa.ThreadModeSrcBIncrement + i, s.b}}
	dst := []value{{isa.ThreadModeDstIncrement + i, s.dst}}
	for _, f := range flags {
		if f >= isa.ThreadModeDstIncrement {
			dst = append(dst, value{f + i, 1})
		} else {
			ab = append(ab, value{f + i, 1})
		}
	}
	th.own(ab...)
	th.own(dst...)
}

func mvmuls(last uint32) []isa.Instruction {
	var list []isa.Instruction
	for _, mode := range []uint32{0, 1, 0, 2, 0, 1, 0, 3, 0, 1, 0, 2, 0, 1, 0, last} {
		list = append(list, isa.MVMUL{Mode: mode})
	}
	return list
}

// matmul multiplies SrcB, on the left, and SrcA, and frees both.
func (r *engineRun) matmul(f arith.Fidelity) {
	m := r.math()
	m.matmulModes()
	for n := range uint32(f) {
		m.do(mvmuls(r.phase(n))...)
		m.do(rowCounters)
	}
	m.freeSources(3)
}

func (r *engineRun) eight(in isa.Instruction) {
	m := r.math()
	m.mode(0, byEight)
	for range 8 {
		m.do(in)
	}
	m.do(rowCounters)
}

func (r *engineRun) elementwise(in isa.Instruction, f arith.Fidelity) {
	m := r.math()
	m.mode(0, byEight)
	for n := range uint32(f) {
		last := r.phase(n)
		for range 7 {
			m.do(in)
		}
		m.do(withMode(in, last))
		m.do(rowCounters)
	}
	m.freeSources(3)
}

func withMode(in isa.Instruction, mode uint32) isa.Instruction {
	switch i := in.(type) {
	case isa.ELWADD:
		i.Mode = mode
		return i
	case isa.ELWSUB:
		i.Mode = mode
		return i
	case isa.ELWMUL:
		i.Mode = mode
		return i
	}
	return in
}
