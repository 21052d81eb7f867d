package emu

import "testing"

// BRISC gives TRISC0 more values than its buffer holds, and waits until they are taken and its
// Tensix instructions done. TRISC1 sees only what comes after it left reset.
func TestPCBufs(t *testing.T) {
	const values, sum, seen, second = 20, 0x40000, 0x40010, 0x40020
	for _, arch := range arches {
		for _, races := range []bool{false, true} {
			r := newRig(t, Config{Arch: arch, Synchronous: true, MaxRun: 1000, RefuseRaces: races})
			v := r.worker(0, 0)
			r.write(v, 0x6000, onT0().li(a0, pcBufBase).sw(a0, a0, 0).li(a1, 0).li(a3, values).label("next").lw(a2, a0, 0).add(a1, a1, a2).
				addi(a3, a3, -1).bne(a3, x0, "next").li(a4, sum).sw(a1, a4, 0).commit(sum).lw(a2, a0, 0).sw(a2, a4, 4).halt().bytes())
			r.write(v, 0xA000, newAsm(0xA000).li(a0, pcBufBase).lw(a1, a0, 0).li(a2, second).sw(a1, a2, 0).halt().bytes())
			b := onB().stw(pcBufBase+0x10000, 7).stw(0xFFB121B0, 0x44000)
			for i := range uint32(values) {
				b.stw(pcBufBase+4*i, i+1)
			}
			b.li(a0, pcBufBase).lw(a1, a0, 0).addi(a1, a1, 100).li(a2, sum).lw(a3, a2, 0).add(a3, a3, a1).li(a2, seen).sw(a3, a2, 0).
				stw(pcBufBase+0x10000, 9).stw(pcBufBase, 55).halt()
			r.run(v, b)
			r.eventually("values", func() bool { return r.c.Fault() != nil || r.ld(v, sum+4) != 0 && r.ld(v, second) != 0 })
			r.healthy()
			for at, want := range map[uint64]uint32{sum: values * (values + 1) / 2, seen: 100 + values*(values+1)/2, sum + 4: 55, second: 9} {
				equal(t, r.ld(v, at), want, "%v: word %#x", arch, at)
			}
		}
	}
}
