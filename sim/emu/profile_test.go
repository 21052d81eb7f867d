package emu

import (
	"encoding/binary"
	"maps"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/reprise-tt/reprise/chip"
)

// A loop that counts is counted in whole; of one that polls there are few rounds.
func TestProfile(t *testing.T) {
	const word, rounds = 0x30000, 1000
	for _, arch := range arches {
		r := syncRig(t, arch)
		v := r.worker(0, 0)
		if n := r.c.Profile(r.raw(v), chip.BRISC); len(n) != 0 {
			t.Fatalf("%v: counted before: %v", arch, n)
		}
		a := onB().li(a0, rounds).label("work").addi(a0, a0, -1).bne(a0, x0, "work")
		a.li(a1, word).label("poll").lw(a2, a1, 0).beq(a2, x0, "poll").addi(a3, a2, 0).label("end").halt()
		at := func(label string) uint32 { return a.base + 4*uint32(a.labels[label]) }
		r.write(v, word, make([]byte, 4))
		r.run(v, a)
		before := r.c.Retired(r.raw(v), chip.BRISC)
		for range 50 {
			r.write(v, word+4, []byte{1, 2, 3, 4}) // beside the word, which wakes the core
		}
		if n := r.c.Retired(r.raw(v), chip.BRISC) - before; n < 50 {
			t.Errorf("%v: %d instructions while it polls", arch, n)
		}
		r.write(v, word, binary.LittleEndian.AppendUint32(nil, 1))
		n := r.c.Profile(r.raw(v), chip.BRISC)
		if n[at("work")] != rounds || n[at("work")+4] != rounds {
			t.Errorf("%v: the loop is counted %d and %d times, not %d", arch, n[at("work")], n[at("work")+4], rounds)
		}
		if p := n[at("poll")]; p < 1 || p > 3 {
			t.Errorf("%v: %d rounds of polling", arch, p)
		}
		if n[at("end")-4] != 1 || n[at("end")] < 1 || n[at("end")] > 3 {
			t.Errorf("%v: the end is counted %d and %d times", arch, n[at("end")-4], n[at("end")])
		}
		if n := r.c.Profile(chip.XY{X: 0, Y: 0}, chip.BRISC); n != nil {
			t.Errorf("%v: a tile without processors has counts: %v", arch, n)
		}
		r.healthy()
	}
}

func TestWork(t *testing.T) {
	for _, arch := range arches {
		r := syncRig(t, arch)
		a, b := r.worker(0, 0), r.worker(1, 1)
		r.issue(a, r.sendTo(a, b))
		r.issue(a, r.fetchFrom(a, b))
		r.issue(a, r.increment(a, b, 0x60000))
		corner := a
		r.issue(a, nocRequest{targ: 0x40000, targXY: a, ret: 0x50000, start: &corner, retXY: b, ctrl: ctrlMulticast,
			len: 100}) // not to itself
		want := Work{NoCBytes: 64 + 64 + 4 + 3*100}
		noDiff(t, r.c.Work(), want, "%v: requests", arch)
		r.run(a, onB().addi(a0, x0, 1).addi(a0, a0, 1).halt())
		r.run(b, onB().addi(a0, x0, 1).halt())
		want.Instructions = r.c.Retired(r.raw(a), chip.BRISC) + r.c.Retired(r.raw(b), chip.BRISC)
		if diff := cmp.Diff(want, r.c.Work()); diff != "" || want.Instructions < 5 {
			t.Errorf("%v: programs (-want +got):\n%s", arch, diff)
		}
		r.healthy()
		r.reset()
		equal(t, r.c.Work(), (Work{}), "%v: after a reset", arch)
	}
}

// What a tile reads of DRAM before something has written it is kept as it was then.
func TestTrack(t *testing.T) {
	for _, arch := range arches {
		r := newRig(t, Config{Arch: arch, Synchronous: true, Track: true})
		b, v := r.topo.DRAMBanks()[1], r.worker(0, 0)
		request := func(write bool, off uint64, n uint32) {
			q := nocRequest{noc: chip.NOC0, targ: b.Offset + off, targXY: b.Endpoint[0], ret: 0x40000 + off, retXY: v, ctrl: ctrlRead,
				len: n}
			if write {
				q.targ, q.targXY, q.ret, q.retXY, q.ctrl = q.ret, q.retXY, q.targ, q.targXY, ctrlWriteNP
			}
			r.issue(v, q)
			r.healthy()
		}
		words := func(m func(func(uint64, uint32) bool)) map[uint64]uint32 {
			out := map[uint64]uint32{}
			for a, v := range m {
				if a -= TrackAddress(b.Controller, b.Offset); a < b.Size { // no L1
					out[a] = v
				}
			}
			return out
		}
		r.write(b.HostEndpoint, b.Offset+0x100, []byte{1, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0, 4, 0, 0, 0})
		got := r.c.TakeTrack()
		want := map[uint64]uint32{0x100: 1, 0x104: 2, 0x108: 3, 0x10C: 4}
		equal(t, cmp.Diff(want, words(got.Written.All)), "", "%v: the host's write", arch)
		equal(t, len(got.Read), 0, "%v: words read", arch)

		r.read(b.HostEndpoint, b.Offset+0x100, 16)
		request(false, 0x100, 8)
		r.write(b.HostEndpoint, b.Offset+0x104, []byte{7, 0, 0, 0, 8, 0, 0, 0})
		request(false, 0x100, 16)
		r.write(v, 0x40200, make([]byte, 16))
		request(true, 0x200, 16)
		request(false, 0x200, 16)
		got = r.c.TakeTrack()
		equal(t, cmp.Diff(map[uint64]uint32{0x100: 1, 0x104: 2, 0x10C: 4}, words(got.Read.All)), "", "%v: reads", arch)
		want = map[uint64]uint32{0x104: 7, 0x108: 8, 0x200: 0, 0x204: 0, 0x208: 0, 0x20C: 0}
		equal(t, cmp.Diff(want, words(got.Written.All)), "", "%v: writes", arch)
		equal(t, len(maps.Collect(r.c.TakeTrack().Read.All)), 0, "%v: words after", arch)
	}
}

// Processors and engines use their L1 without requests.
func TestTrackL1(t *testing.T) {
	for _, arch := range arches {
		r := newRig(t, Config{Arch: arch, Synchronous: true, Track: true})
		v := r.worker(0, 0)
		words := func(m func(func(uint64, uint32) bool)) map[uint64]uint32 {
			out := map[uint64]uint32{}
			for a, w := range m {
				out[a-TrackL1Address(r.raw(v), 0)] = w
			}
			return out
		}
		r.write(v, 0x41000, []byte{1, 0, 0, 0, 2, 0, 0, 0})
		r.c.TakeTrack()
		a := onB().li(t0, 0x41000).lw(t1, t0, 0).sw(t1, t0, 8).sb(t1, t0, 4).lw(t1, t0, 4).lw(t1, t0, 8)
		if arch == chip.Blackhole {
			a.addi(t0, t0, 12).li(t1, 5).emit(rtype(0x2F, 2, 0, x0, t0, t1)) // amoadd
		}
		r.run(v, a.stw(0x5000, 1).halt())
		r.healthy()
		got := r.c.TakeTrack()
		read, changed := map[uint64]uint32{0x41000: 1}, map[uint64]uint32{0x41008: 1, 0x41004: 1}
		if arch == chip.Blackhole {
			read[0x4100C], changed[0x4100C] = 0, 5
		}
		equal(t, cmp.Diff(read, words(got.Read.All)), "", "%v: a core's loads", arch)
		equal(t, cmp.Diff(changed, words(got.Written.All)), "", "%v: a core's stores", arch)

		r = newRig(t, Config{Arch: arch, Synchronous: true, Track: true})
		workers := r.multiply(1, 1)
		v = workers[0]
		r.await(workers)
		got = r.c.TakeTrack() // with the host's
		out := words(got.Written.All)
		r.st(v, 0xFFB121B0, 0x47800)
		r.st(v, 0xFFB121B0, 0x47800&^0x7000)
		r.await(workers)
		in := words(r.c.TakeTrack().Read.All)
		for i, want := range r.products(workers) {
			if at := uint64(tileOut + i); out[at&^3]>>(at%4*8)&0xFF != uint32(want) {
				t.Fatalf("%v: byte %#x of what engines wrote is %#x, want %#x", arch, at, out[at&^3], want)
			}
		}
		operands := r.read(v, tileA, 2*2048)
		for at := uint64(0); at < 2*2048; at += 4 {
			if _, noted := got.Read.Get(TrackL1Address(r.raw(v), 0) + tileA + at); noted {
				t.Fatalf("%v: %#x, which the host wrote before, counts as read", arch, tileA+at)
			}
			if w, ok := in[tileA+at]; !ok || w != binary.LittleEndian.Uint32(operands[at:]) {
				t.Fatalf("%v: engines read %#x, %v from %#x", arch, w, ok, tileA+at)
			}
		}
	}
}
