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
		r.run(v, counter(0x20000))
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
	_, rigs := row(t, 2, Config{Seed: 1, Paced: true})
	g, far := newGateway(rigs[0]), rigs[1]
	workers := []chip.XY{far.worker(0, 0), far.worker(1, 0), far.worker(2, 0), far.worker(3, 0)}
	for _, v := range workers {
		far.run(v, counter(0x20000))
	}
	for i := range 100 {
		v, first := workers[i%len(workers)], g.asks
		lo, hi := remoteAt(1, v, 0x20000)
		g.put(lo, hi, 4, remoteReadRequest)
		g.ask(lo, hi, 4, remoteReadRequest)
		g.eventually("answers", func() bool { return g.answers() == g.asks&7 })
		if found := g.answer(first); found == g.answer(first+1) {
			t.Fatalf("two loads from %v found %d", v, found)
		}
	}
	g.healthy()
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
	_, rigs := row(t, chips, Config{Seed: 1, Paced: true})
	for _, r := range rigs[:chips-1] {
		r.run(r.worker(1, 1), counter(0x20000))
	}
	g, far := newGateway(rigs[0]), rigs[chips-1]
	lo, hi := remoteAt(chips-1, far.worker(0, 0), 0x20000)
	for n := uint32(1); n <= 50; n++ {
		g.ask(lo, hi, 4, remoteReadRequest)
		off := g.point(g.at, remoteResponses+remoteWrite)
		for begun := time.Now(); load(g.rig, off) != n&7; {
			if time.Since(begun) > 10*time.Second {
				t.Fatalf("answer %d has not come after 10 seconds", n)
			}
		}
	}
	g.healthy()
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
	_, rigs := machineOf(t, []Config{cfg, cfg}, Link{0, 0, 1, 0})
	r := rigs[0]
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
		for r.c.BARLoad(0, status, 4) != n {
		}
		r.c.BARStore(0, status, 4, n+1)
		for begun := time.Now(); r.c.BARLoad(0, end, 4) != n; {
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
				equal(t, r.ld(v, out), 0x600D, "TRISC0 has executed 150 instructions when BRISC has executed 600")
				r.healthy()
			})
		}
	}
}
