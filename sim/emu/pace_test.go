package emu

import (
	"encoding/binary"
	"runtime"
	"testing"
	"time"

	"github.com/reprise-tt/reprise/chip"
)

// Between two loads of a host, a processor that counts has counted.
func TestPaced(t *testing.T) {
	for _, arch := range arches {
		r := newRig(t, Config{Arch: arch, Seed: 1, Paced: true})
		v := r.worker(1, 2)
		r.run(v, onB().li(a0, 0x20000).label("l").addi(a1, a1, 1).sw(a1, a0, 0).j("l"))
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

func TestPacedRemote(t *testing.T) {
	cfgs := make([]Config, 2)
	for i := range cfgs {
		cfgs[i] = Config{Arch: chip.Wormhole, Seed: 1, Paced: true, Identity: Identity{Board: 0x140<<32 | 7, ASIC: uint64(i + 1), X: uint8(i),
			Routing: true}}
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
		far.run(v, onB().li(a0, 0x20000).label("l").addi(a1, a1, 1).sw(a1, a0, 0).j("l"))
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

// A host that loads in a loop from one chip must not keep the chip that it waits for from its turn.
func TestPacedOthers(t *testing.T) {
	word := make([]byte, 4)
	for _, u := range []struct {
		name string
		load func(r *rig, off uint64) uint32
	}{
		{"load", func(r *rig, off uint64) uint32 { return uint32(r.dev.BARLoad(0, off, 4)) }},
		{"read", func(r *rig, off uint64) uint32 {
			r.dev.BARRead(0, off, word)
			return binary.LittleEndian.Uint32(word)
		}},
	} {
		t.Run(u.name, func(t *testing.T) { testPacedOthers(t, u.load) })
	}
}

func testPacedOthers(t *testing.T, load func(r *rig, off uint64) uint32) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(2))
	runtime.LockOSThread() // as a host is that calls from C
	defer runtime.UnlockOSThread()
	const chips = 6
	cfgs := make([]Config, chips)
	for i := range cfgs {
		cfgs[i] = Config{Arch: chip.Wormhole, Seed: 1, Paced: true, Identity: Identity{Board: 0x140<<32 | 7, ASIC: uint64(i + 1), X: uint8(i),
			Routing: true}}
	}
	var links []Link
	for i := range chips - 1 {
		links = append(links, Link{i, 8, i + 1, 0})
	}
	m, err := NewMachine(cfgs, links)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Close() })
	rigs := make([]*rig, chips)
	for i := range rigs {
		c := m.Chip(i)
		rigs[i] = &rig{t, c, c, func() {}, chip.Wormhole, c.Topology(), chip.Wormhole.Params()}
		if i < chips-1 {
			rigs[i].run(rigs[i].worker(1, 1), onB().li(a0, 0x20000).label("l").addi(a1, a1, 1).sw(a1, a0, 0).j("l"))
		}
	}
	near, far := rigs[0], rigs[chips-1]
	v := far.worker(0, 0)
	gate := near.eth(8)
	a := 0x20000 | uint64(v.X)<<36 | uint64(v.Y)<<42 | (chips-1)<<48
	for n := uint32(1); n <= 50; n++ {
		for i, w := range []uint32{uint32(a), uint32(a >> 32), 4, remoteReadRequest} {
			near.st(gate, remoteRequests+remoteCommands+uint64((n-1)%4)*32+4*uint64(i), w)
		}
		near.st(gate, remoteRequests+remoteWrite, n&7)
		off := near.point(gate, remoteResponses+remoteWrite)
		for begun := time.Now(); load(near, off) != n&7; {
			if time.Since(begun) > 10*time.Second {
				t.Fatalf("answer %d has not come after 10 seconds", n)
			}
		}
	}
	near.healthy()
	far.healthy()
}

// A processor has noted what the host has heard of before the host's answer arrives (tt-metal
// fabric_erisc_router.cpp).
func TestPacedAnswer(t *testing.T) {
	for name, eases := range map[string]bool{"all have turns": false, "quiet ones have few": true} {
		t.Run(name, func(t *testing.T) { testPacedAnswer(t, eases) })
	}
}

func testPacedAnswer(t *testing.T, eases bool) {
	const heard, near, far, done = 0x20000, 0x20100, 0x20200, 0x20300
	cfg := Config{Arch: chip.Blackhole, Seed: 1, Paced: true, EasesIdle: eases}
	m, err := NewMachine([]Config{cfg, cfg}, []Link{{0, 0, 1, 0}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Close() })
	c := m.Chip(0)
	r := &rig{t, c, c, func() {}, chip.Blackhole, c.Topology(), chip.Blackhole.Params()}
	v := r.worker(0, 0)
	// Both count rounds in a1. Values are 2*round while a processor waits for its answer, and
	// 2*round+1 for the answer. s0 counts so that they aren't taken for waiting.
	first := onB().li(a0, heard).li(a2, near).li(a3, far).li(t1, done).label("next").
		addi(a1, a1, 2).sw(a1, a0, 0).sw(a1, a2, 0).addi(a4, a1, 1).
		label("answer").addi(s0, s0, 1).lw(a5, a2, 0).bne(a5, a4, "answer").sw(a4, a3, 0).
		label("done").addi(s0, s0, 1).lw(a5, t1, 0).bne(a5, a1, "done").j("next")
	second := onT0().li(a0, heard).li(a3, far).li(t1, done).label("next").
		addi(a1, a1, 2).addi(a4, a1, 1).
		label("heard").addi(s0, s0, 1).lw(a5, a0, 0).bne(a5, a1, "heard").sw(a1, a3, 0).
		label("answer").addi(s0, s0, 1).lw(a5, a3, 0).bne(a5, a4, "answer").sw(a1, t1, 0).j("next")
	for i := 1; i < 10; i++ { // so that a round has more slices than a load waits for
		filler := onB().label("l").addi(s0, s0, 1).j("l")
		if eases {
			filler = talker(chip.Blackhole, 0x20000) // beside which the two are quiet
		}
		r.run(r.worker(i, 1), filler)
	}
	r.together(v, first, second)
	status, end := r.point(v, near), uint64(0)
	end = status - near + done
	rounds := uint64(500)
	if eases { // each waits for the turn of a quiet processor
		rounds = 100
	}
	for n := uint64(2); n < 2*rounds; n += 2 {
		for c.BARLoad(0, status, 4) != n {
		}
		c.BARStore(0, status, 4, n+1)
		for begun := time.Now(); c.BARLoad(0, end, 4) != n; {
			if time.Since(begun) > 30*time.Second {
				t.Fatalf("round %d: the second processor waits for an answer that it has overwritten", n/2)
			}
		}
	}
	r.healthy()
}

// TT-NN's dispatcher counts on it: see together.
func TestTogether(t *testing.T) {
	const rounds, mark, order, out = 200, 0x20000, 0x20100, 0x20200
	for _, arch := range arches {
		for name, u := range map[string]struct{ wake, rest uint32 }{
			"started": {0x46000, 0x47000}, // what BRISC stores to the register of resets, with TRISC0 running or held
			"woken":   {0x46000, 0x46000},
		} {
			t.Run(arch.String()+"/"+name, func(t *testing.T) {
				r := newRig(t, Config{Arch: arch, Seed: 1, Paced: true})
				v := r.worker(0, 0)
				b := onB().li(s0, 1).li(s1, rounds).label("next").
					spend(20000, "earlier"). // so that its slices are long
					stw(0xFFB121B0, u.wake).li(t0, order).sw(s0, t0, 0).
					spend(300, "later").
					li(a0, mark).lw(a1, a0, 0).bne(a1, s0, "bad").
					stw(0xFFB121B0, u.rest).addi(s0, s0, 1).bne(s0, s1, "next").
					stw(out, 0x600D).halt().
					label("bad").li(a0, out).sw(s0, a0, 0).halt()
				first := onT0().label("again").li(a0, order).li(a1, mark).lw(a2, a1, 0).
					label("wait").lw(a3, a0, 0).beq(a3, a2, "wait").
					li(a4, 50).label("work").addi(a4, a4, -1).bne(a4, x0, "work").sw(a3, a1, 0).j("again")
				r.write(v, uint64(first.base), first.bytes())
				r.run(v, b)
				r.eventually("the end", func() bool { return r.ld(v, out) != 0 })
				if got := r.ld(v, out); got != 0x600D {
					t.Errorf("in round %d TRISC0 has not executed 150 instructions when BRISC has executed 600", got)
				}
				r.healthy()
			})
		}
	}
}
