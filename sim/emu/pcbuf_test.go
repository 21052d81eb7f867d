package emu

import "testing"

// BRISC gives TRISC0 more values than its buffer holds, and waits until they are taken. TRISC1 sees
// only what comes after it left reset.
func TestPCBufs(t *testing.T) {
	const values, sum, at = 20, 20 * 21 / 2, 0x40000
	for _, arch := range arches {
		r := newRig(t, Config{Arch: arch, Synchronous: true, RefuseRaces: true})
		v := r.worker(0, 0)
		r.write(v, 0x6000, onT0().li(a0, pcBufBase).sw(a0, a0, 0).li(a3, values).label("n").lw(a2, a0, 0).add(a1, a1, a2).
			addi(a3, a3, -1).bne(a3, x0, "n").li(a4, at).sw(a1, a4, 0).commit(at).lw(a2, a0, 0).sw(a2, a4, 4).halt().bytes())
		r.write(v, 0xA000, newAsm(0xA000).li(a0, pcBufBase).lw(a1, a0, 0).li(a2, at).sw(a1, a2, 12).halt().bytes())
		b := onB().stw(pcBufBase+0x10000, 7).stw(0xFFB121B0, 0x44000)
		for i := range uint32(values) {
			b.stw(pcBufBase+4*i, i+1)
		}
		b.li(a0, pcBufBase).lw(a1, a0, 0).li(a2, at).add(a2, a2, a1).lw(a3, a2, 0).sw(a3, a2, 8)
		r.run(v, b.stw(pcBufBase+0x10000, 9).stw(pcBufBase, 55).halt())
		for i, want := range []uint32{sum, 55, sum, 9} {
			equal(t, r.ld(v, at+4*uint64(i)), want, "%v: word %d", arch, i)
		}
		r.healthy()
	}
}
