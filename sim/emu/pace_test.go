package emu

import "testing"

// Between two loads of a host, a processor that counts has counted, also where the goroutine that runs a chip gets no turn.
func TestPaced(t *testing.T) {
	for _, arch := range arches {
		r := newRig(t, Config{Arch: arch, Seed: 1, Paced: true})
		v := r.worker(1, 2)
		r.run(v, newAsm(0x1000).li(a0, 0x20000).label("l").addi(a1, a1, 1).sw(a1, a0, 0).j("l"))
		off := r.point(v, 0x20000)
		for last := uint64(0); last < 1<<20; {
			n := r.dev.BARLoad(0, off, 4)
			if n == last {
				t.Fatalf("%v: two loads found %d", arch, n)
			}
			last = n
		}
		r.healthy()
	}
}
