package emu

import "github.com/reprise-tt/reprise/chip"

// overflowChecks are stacks that run over, and circular buffers from which more is taken than is
// there.
func overflowChecks() (list checkList) {
	const top, sp = localBase + 0x1000, 2
	overflow, counters := list.of(Config{RefuseOverflow: true}, undefined), list.of(Config{RefuseCounters: true}, undefined)
	// deep is a kernel with data up to an offset that calls through a pointer and then takes n
	// bytes of stack.
	deep := func(r *rig, at, data uint32, n int32) {
		a := newAsm(at).addi(sp, sp, -16).sw(1, sp, 12).stw(localBase+data-4, 1).call(at + 0x800)
		a.li(a0, uint32(n)).sub(sp, sp, a0).sw(x0, sp, 0).add(sp, sp, a0)
		r.write(r.worker(0, 0), uint64(at), a.lw(1, sp, 12).addi(sp, sp, 16).emit(itype(0x67, 0, x0, 1, 0)).bytes())
		r.write(r.worker(0, 0), uint64(at+0x800), returns(1))
	}
	overflow("a stack comes down to data", func(r *rig, right bool) {
		a := onB().li(sp, top).stw(localBase+0x4FC, 1)
		r.run(r.worker(0, 0), a.addi(sp, sp, -0x700).addi(sp, sp, choose[int32](right, -0x400, -0x410)).halt())
	}).says("BRISC pc=|stack overflow: the stack pointer goes down from 0xffb00900 to 0xffb004f0, and data end at 0xffb00500")
	overflow("a stack leaves local RAM", func(r *rig, right bool) {
		a := onB().li(sp, localBase+0x40).li(a0, choose[uint32](right, 0x40, 0x80))
		r.run(r.worker(0, 0), a.sub(sp, sp, a0).halt())
	}).says("the stack pointer goes down from 0xffb00040 to 0xffafffc0, and data end at 0xffb00000")
	overflow("a kernel's stack comes down to its own data", func(r *rig, right bool) {
		deep(r, 0x3000, 0xC00, choose[int32](right, 0x380, 0x400))
		r.run(r.worker(0, 0), onB().li(sp, top).stw(localBase+0x3FC, 1).call(0x3000).halt())
	}).says("BRISC pc=0x30|and data end at 0xffb00c00")
	overflow("a kernel's stack comes down to the firmware's data, after one with more data of its own", func(r *rig, right bool) {
		deep(r, 0x3000, 0xC00, 0x100)
		deep(r, 0x5000, 0x300, choose[int32](right, 0xBE0, 0xBF4))
		r.run(r.worker(0, 0), onB().li(sp, top).stw(localBase+0x3FC, 1).call(0x3000).call(0x5000).halt())
	}).says("BRISC pc=0x50|and data end at 0xffb00400")
	counters("more pages are taken from a circular buffer than are there", func(r *rig, right bool) {
		s := &r.c.params.Stream
		put, taken := s.Reg(s.FirstCB+2, chip.RemoteDestBufSize), s.Reg(s.FirstCB+2, chip.RemoteDestBufStart)
		a := onB().stw(put, 0xFFFF).stw(taken, 0xFFFE).stw(put, 0).stw(taken, choose[uint32](right, 0, 1))
		r.run(r.worker(0, 0), a.stw(put, 0).stw(taken, 0).halt()) // as firmware does before a program
	}).says("BRISC pc=|stream: circular buffer 2: 3 pages are taken, and 2 are there")
	return list
}
