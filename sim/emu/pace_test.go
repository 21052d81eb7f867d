package emu

import (
	"testing"

	"github.com/reprise-tt/reprise/chip"
)

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

// The same is so for the processors of a chip that the host reaches through another one.
func TestPacedRemote(t *testing.T) {
	cfgs := make([]Config, 2)
	for i := range cfgs {
		cfgs[i] = Config{Arch: chip.Wormhole, Seed: 1, Paced: true, Identity: Identity{Board: 0x140<<32 | 7, ASIC: uint64(i + 1), X: uint8(i), Routing: true}}
	}
	m, err := NewMachine(cfgs, []Link{{0, 8, 1, 0}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Close() })
	here, there := m.Chip(0), m.Chip(1)
	far := &rig{t, there, there, func() {}, chip.Wormhole, there.Topology(), chip.Wormhole.Params()}
	near := &rig{t, here, here, func() {}, chip.Wormhole, here.Topology(), chip.Wormhole.Params()}
	workers := []chip.XY{far.worker(0, 0), far.worker(1, 0), far.worker(2, 0), far.worker(3, 0)}
	for _, v := range workers {
		far.run(v, newAsm(0x1000).li(a0, 0x20000).label("l").addi(a1, a1, 1).sw(a1, a0, 0).j("l"))
	}
	gate, asks := near.eth(8), uint32(0)
	twice := func(v chip.XY) (found [2]uint32) {
		a := 0x20000 | uint64(v.X)<<36 | uint64(v.Y)<<42 | 1<<48
		first := asks
		for range found {
			for i, w := range []uint32{uint32(a), uint32(a >> 32), 4, remoteReadRequest} {
				near.st(gate, remoteRequests+remoteCommands+uint64(asks%4)*32+4*uint64(i), w)
			}
			asks++
		}
		near.st(gate, remoteRequests+remoteWrite, asks&7)
		near.eventually("answers", func() bool { return near.ld(gate, remoteResponses+remoteWrite) == asks&7 })
		for i := range found {
			found[i] = near.ld(gate, remoteResponses+remoteCommands+uint64((first+uint32(i))%4)*32+8)
		}
		return found
	}
	for i := range 100 {
		v := workers[i%len(workers)]
		if found := twice(v); found[0] == found[1] {
			t.Fatalf("two loads from %v found %d", v, found[0])
		}
	}
	near.healthy()
	far.healthy()
}
