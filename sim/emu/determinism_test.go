package emu

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"slices"
	"strings"
	"testing"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/internal/effort"
)

// ring makes every worker wait for its semaphore, then add one to the next worker's, laps times
// around.
func ring(r *rig, laps uint32) {
	const sem = 0x30000
	var order []chip.XY
	for w := range r.topo.Workers() {
		order = append(order, r.worker(w.X, w.Y))
	}
	for i, v := range order {
		next := order[(i+1)%len(order)]
		a := onB().li(s0, 0).li(s1, laps).li(a0, sem).
			label("lap").addi(s0, s0, 1).
			label("poll")
		if r.arch == chip.Blackhole {
			a.fence()
		}
		a.lw(a1, a0, 0).bltu(a1, s0, "poll").
			request(r.arch, nocRequest{noc: chip.NOC(i % 2), buf: 3, targ: sem, targXY: next, ret: 4, retXY: v, ctrl: ctrlAtomic | ctrlMarked,
				len: 0x107C, dat: 1}).
			waitCounter(chip.NOC(i%2), cntAtomicResp, s0, "acks").
			bne(s0, s1, "lap").
			li(a2, 0x30040).sw(s0, a2, 0).halt()
		r.run(v, a)
	}
	r.st(order[0], sem, 1)
	r.eventually("ring", func() bool {
		for _, v := range order {
			if r.ld(v, 0x30040) != laps {
				return false
			}
		}
		return true
	})
	equal(r.t, r.ld(order[0], sem), laps+1, "the first semaphore")
}

func TestRing(t *testing.T) {
	for _, arch := range arches {
		for _, cfg := range []Config{
			{Arch: arch, Synchronous: true, Seed: 1},
			{Arch: arch, Synchronous: true, Seed: 2, Delay: 50},
			{Arch: arch, Seed: 3},
			{Arch: arch, Synchronous: true, Seed: 6, Parallel: true},
			{Arch: arch, Seed: 7, Parallel: true},
			{Arch: arch, Seed: 4, Delay: 9},
			{Arch: arch, Seed: 5, Harvesting: chip.Harvesting{Tensix: 5}},
		} {
			ring(newRig(t, cfg), 3)
		}
	}
}

// draws lets workers draw numbers from one counter, and returns what each made of its numbers.
func draws(r *rig) (all []uint32) {
	const (
		counter, drawn, result = 0x30080, 0x30090, 0x300A0
		start                  = 0x300B0
		sum, number            = 18, 15 // s2, a5
	)
	owner := r.worker(3, 3)
	inc := func(from, to chip.XY, addr, ret uint32) nocRequest {
		q := counts(from, to, addr, 0)
		q.ret = uint64(ret)
		return q
	}
	first := onB() // lets the others begin
	for i := range 6 {
		v := r.worker(i, 5)
		first.request(r.arch, inc(owner, v, start, drawn))
		a := onB().li(s0, 0).li(s1, 30).li(a3, drawn).li(a2, start).
			label("wait").lw(number, a2, 0).beq(number, x0, "wait").
			label("draw").li(a4, 400).
			label("compute").addi(a4, a4, -1).bne(a4, x0, "compute").
			addi(s0, s0, 1).
			request(r.arch, inc(v, owner, counter, drawn)).
			waitCounter(0, cntAtomicResp, s0, "acks").
			lw(number, a3, 0).emit(itype(0x13, 1, sum, sum, 1)).emit(rtype(0x33, 0, 0, sum, sum, number)). // slli, add
			bne(s0, s1, "draw").
			li(a2, result).sw(sum, a2, 0).halt()
		r.run(v, a)
	}
	r.run(owner, first.halt())
	for i := range 6 {
		all = append(all, r.ld(r.worker(i, 5), result))
	}
	return all
}

func TestDeterminism(t *testing.T) {
	for _, arch := range arches {
		for _, delay := range []int{0, 40} {
			run := func(seed uint64) (string, uint64) {
				r := newRig(t, Config{Arch: arch, Synchronous: true, Seed: seed, Delay: delay})
				ring(r, 2)
				one, two := r.worker(0, 0), r.worker(5, 6)
				r.st(one, 0xFFB121B0, 0x47800)
				r.st(two, 0xFFB121B0, 0x47800)
				r.run(two, ping(arch, two, one, 10, false))
				r.run(one, ping(arch, one, two, 10, true))
				r.healthy()
				return r.dump() + fmt.Sprint(draws(newRig(t, Config{Arch: arch, Synchronous: true, Seed: seed, Delay: delay}))), r.c.clock
			}
			first, clock := run(11)
			if clock == 0 || !strings.Contains(first, "parked") {
				t.Fatalf("nothing ran: %s", first)
			}
			again, _ := run(11)
			noDiff(t, again, first, "%v delay %d: the same seed ran differently", arch, delay)
			if other, _ := run(12); other == first {
				t.Errorf("%v delay %d: another seed ran the same", arch, delay)
			}
		}
	}
}

func TestDump(t *testing.T) {
	r := syncRig(t, chip.Blackhole)
	v := r.worker(3, 3)
	r.run(v, onB().li(a0, 0x40000).label("w").lw(a1, a0, 0).beq(a1, x0, "w").halt())
	dump := r.dump()
	for _, want := range []string{"tile " + r.raw(v).String() + " (virtual " + v.String() + ") BRISC", "parked", "waits on L1 [0x40000]"} {
		if !strings.Contains(dump, want) {
			t.Errorf("no %q in dump: %s", want, dump)
		}
	}
	if n := strings.Count(dump, "\n"); n != 2 {
		t.Errorf("%d lines, want one for the chip and one for the core:\n%s", n, dump)
	}
}

func TestRefuseUnwritten(t *testing.T) {
	tests := []struct {
		name string
		do   func(r *rig, v chip.XY)
		ok   bool
	}{
		{"load of written memory", program(func(a *asm) { a.stw(0x40000, 5).lw(a1, t0, 0) }), true},
		{"load of memory the host wrote", func(r *rig, v chip.XY) {
			r.write(v, 0x40000, pattern(64, 1))
			r.run(v, onB().li(a0, 0x40000).lw(a1, a0, 60).halt())
		}, true},
		{"load", program(func(a *asm) { a.li(a0, 0x40000).lw(a1, a0, 0) }), false},
		{"load of a byte of another word", program(func(a *asm) { a.stw(0x40000, 5).lbu(a1, t0, 4) }), false},
		{"instruction fetch", program(func(a *asm) { a.li(a0, 0x50000).emit(itype(0x67, 0, x0, a0, 0)) }), false},
		{"NoC write from it", func(r *rig, v chip.XY) {
			r.issue(v, nocRequest{targ: 0x40000, targXY: v, ret: 0x50000, retXY: r.worker(1, 1), ctrl: ctrlWriteNP, len: 16})
		}, false},
		{"NoC read of it", func(r *rig, v chip.XY) {
			r.issue(v, nocRequest{targ: 0x40000, targXY: r.worker(1, 1), ret: 0x50000, retXY: v, ctrl: ctrlRead, len: 16})
		}, false},
		{"atomic", func(r *rig, v chip.XY) {
			r.issue(v, counts(v, r.worker(1, 1), 0x40000, 0))
		}, false},
		{"host load", func(r *rig, v chip.XY) { r.ld(v, 0x40000) }, false},
	}
	for _, arch := range arches {
		for _, tt := range tests {
			r := newRig(t, Config{Arch: arch, Synchronous: true, RefuseUnwritten: true})
			tt.do(r, r.worker(0, 0))
			if tt.ok {
				r.healthy()
			} else {
				r.refused(unpredictable)
			}
		}
		r := newRig(t, Config{Arch: arch, Synchronous: true, RefuseUnwritten: true})
		r.run(r.worker(0, 0), onB().lw(a1, x0, arcThrottle).halt())
		if err := r.dev.Fault(); (err == nil) != (arch == chip.Blackhole) {
			t.Errorf("%v: load of what Blackhole's ARC firmware has written: %v", arch, err)
		}
	}
}

// A block that the host reads has garbage, by seed, where nothing was written.
func TestUnwrittenBlocks(t *testing.T) {
	for _, arch := range arches {
		var blocks [2][]byte
		for seed := range blocks {
			r := newRig(t, Config{Arch: arch, Synchronous: true, RefuseUnwritten: true, Seed: uint64(seed)})
			v := r.worker(0, 0)
			r.write(v, 0x40010, pattern(16, 1))
			blocks[seed] = r.read(v, 0x40000, 64)
			noDiff(t, blocks[seed][16:32], pattern(16, 1), "%v: what was written", arch)
			r.healthy()
		}
		for _, at := range []int{0, 4, 12, 32, 60} {
			if a, b := blocks[0][at:at+4], blocks[1][at:at+4]; bytes.Equal(a, b) || bytes.Equal(a, make([]byte, 4)) {
				t.Errorf("%v: word %d is %x with one seed and %x with another", arch, at/4, a, b)
			}
		}
	}
}

func TestDataCache(t *testing.T) {
	poll := func(fence bool) *asm {
		a := onB().li(a0, 0x40000).sw(x0, a0, 0).li(a2, 0x1234).sh(a2, a0, 6).lw(a3, a0, 4).label("w")
		if fence {
			a.fence()
		}
		return a.lw(a1, a0, 0).beq(a1, x0, "w").sw(a3, a0, 64).halt()
	}
	for _, tt := range []struct {
		cache, fence, wakes bool
		arch                chip.Arch
	}{{false, false, true, chip.Blackhole}, {true, false, false, chip.Blackhole}, {true, true, true, chip.Blackhole},
		{true, false, true, chip.Wormhole}} {
		r := newRig(t, Config{Arch: tt.arch, Synchronous: true, DataCache: tt.cache})
		v := r.worker(0, 0)
		r.run(v, poll(tt.fence))
		before := r.c.Retired(r.raw(v), chip.BRISC)
		r.st(v, 0x40000, 1)
		equal(t, r.ld(v, 0x40040) == 0x12340000, tt.wakes, "cache %v fence %v on %v: saw the store", tt.cache, tt.fence, tt.arch)
		if n := r.c.Retired(r.raw(v), chip.BRISC); n > before+minSlice {
			t.Errorf("cache %v fence %v: %d instructions after the store", tt.cache, tt.fence, n-before)
		}
		r.healthy()
	}
	ring(newRig(t, Config{Arch: chip.Blackhole, Seed: 3, DataCache: true, Delay: 20}), 2)
}

const (
	mixData, mixCome, mixSum, mixGo, mixBack, mixSem, mixDone = 0x40000, 0x42000, 0x43000, 0x43100, 0x43200, 0x43300, 0x43400
)

// mixed makes each worker read words from DRAM, add to them, write them to DRAM and to its
// neighbour, and tell a T core, which adds what has come, and then the neighbour.
func mixed(r *rig, laps uint32) []chip.XY {
	var workers []chip.XY
	for w := range r.topo.Workers() {
		workers = append(workers, r.worker(w.X, w.Y))
	}
	banks := r.topo.DRAMBanks()
	for i, v := range workers {
		next, b := workers[(i+1)%len(workers)], banks[i%len(banks)]
		at := b.Offset + 0x1000*uint64(i)
		r.write(b.HostEndpoint, at, pattern(256, uint64(i)))
		move := func(a *asm, targ, ret uint64, to chip.XY, n uint32) {
			a.request(r.arch, nocRequest{targ: targ, targXY: v, ret: ret, retXY: to, ctrl: ctrlWriteNP, len: n})
		}
		a := onB().li(s0, 0).li(s1, laps).li(gp, 0).label("lap").addi(s0, s0, 1).addi(gp, gp, 2).
			request(r.arch, nocRequest{buf: 1, targ: at, targXY: b.Endpoint[0], ret: mixData, retXY: v, ctrl: ctrlRead, len: 256}).
			waitCounter(0, cntReadResp, s0, "read").
			li(a4, 8).li(a1, mixData+256).
			label("again").li(a0, mixData).
			label("add").lw(a2, a0, 0).add(a2, a2, s0).add(a3, a3, a2).sw(a2, a0, 0).addi(a0, a0, 4).bne(a0, a1, "add").
			addi(a4, a4, -1).bne(a4, x0, "again")
		move(a, mixData, at, b.Endpoint[0], 256)
		move(a, mixData, mixCome, next, 64)
		a.waitCounter(0, cntWriteAck, gp, "acks").
			li(a0, mixGo).sw(s0, a0, 0).
			label("back").lw(a1, a0, mixBack-mixGo).bne(a1, s0, "back").
			request(r.arch, counts(v, next, mixSem, 0)).
			waitCounter(0, cntAtomicResp, s0, "atomic").
			li(a0, mixSem).label("poll").lw(a1, a0, 0).bltu(a1, s0, "poll").
			bne(s0, s1, "lap").stw(mixDone, 0x600D).halt()
		r.load(v, a)
		r.write(v, uint64(triscBase[0]), newAsm(triscBase[0]).li(s0, 0).li(a0, mixGo).li(a5, mixSum).
			label("lap").addi(s0, s0, 1).label("poll").lw(a1, a0, 0).bne(a1, s0, "poll").
			li(a2, mixCome).li(a3, mixCome+64).lw(a4, a5, 0).
			label("sum").lw(a1, a2, 0).add(a4, a4, a1).addi(a2, a2, 4).bne(a2, a3, "sum").
			sw(a4, a5, 0).sw(s0, a0, mixBack-mixGo).j("lap").bytes())
		r.st(v, mixDone, 0)
	}
	for _, v := range workers {
		r.st(v, 0xFFB121B0, 0x47800&^0x1800)
	}
	return workers
}

// everything is a digest of all that programs can see of a chip, and when.
func (r *rig) everything() string {
	h := sha256.New()
	for _, t := range r.c.tiles {
		words(h, t.l1...)
		for n := range t.niu {
			u := t.niu[n]
			fmt.Fprintf(h, "%+v", *u.niuWords)
			u.niuWords, u.linked.to = nil, nil
			fmt.Fprintf(h, "%+v", u)
		}
		fmt.Fprintf(h, "%+v %d", t.streams, t.newest)
		for _, k := range t.cores {
			fmt.Fprintln(h, k.X[:32], k.pc, k.state, k.retired)
			words(h, k.local...)
		}
	}
	for _, d := range r.c.drams {
		for i, p := range d.pages {
			if p != nil {
				fmt.Fprintln(h, "page", i)
				words(h, p...)
			}
		}
	}
	return fmt.Sprintf("%x at %d, %+v", h.Sum(nil)[:8], r.c.clock, r.c.Work())
}

func words(h hash.Hash, w ...uint32) {
	for part := range slices.Chunk(w, 1024) {
		p := make([]byte, 0, 4096)
		for _, v := range part {
			p = binary.LittleEndian.AppendUint32(p, v)
		}
		h.Write(p)
	}
}

func TestTilesRunAlikeOnAnyNumberOfGoroutines(t *testing.T) {
	effort.Raced(t)
	for _, arch := range arches {
		seen, seeds := map[string]bool{}, effort.Of[uint64](1, 2, 2)
		for seed := range seeds {
			first := ""
			for _, n := range []int{1, 2, 3, 8} {
				r := newRig(t, Config{Arch: arch, Synchronous: true, Seed: seed, Parallel: true, Workers: n, MaxRun: 1})
				r.c.translated.hot = 200
				workers := mixed(r, 3)
				var got strings.Builder
				for steps := 0; r.c.busy(); steps++ {
					r.c.step()
					if steps%50 == 0 {
						fmt.Fprintln(&got, r.everything())
					}
				}
				fmt.Fprintln(&got, r.everything())
				r.healthy()
				for _, v := range workers {
					if r.ld(v, mixDone) != 0x600D {
						t.Fatalf("%v seed %d: worker %v has not ended", arch, seed, v)
					}
				}
				if first == "" {
					first = got.String()
				}
				noDiff(t, got.String(), first, "%v seed %d: %d goroutines run otherwise than 1", arch, seed, n)
				if n > 1 && r.c.crew.Size() == 0 {
					t.Errorf("%v seed %d: no goroutine helped", arch, seed)
				}
				r.c.Close()
			}
			seen[first] = true
		}
		equal(t, uint64(len(seen)), seeds, "%v: different runs of all seeds", arch)
	}
}

// busyUntil makes n workers count, each to another number, and then do what last appends.
func busyUntil(r *rig, n int, last func(a *asm, v, next chip.XY)) {
	var workers []chip.XY
	for w := range r.topo.Workers() {
		if workers = append(workers, r.worker(w.X, w.Y)); len(workers) == n {
			break
		}
	}
	for i, v := range workers {
		a := onB().li(a0, 0x40000).li(s0, 2000+uint32(i%5)).
			label("count").addi(s0, s0, -1).sw(s0, a0, 0).bne(s0, x0, "count")
		last(a, v, workers[(i+1)%n])
		r.load(v, a.halt())
	}
	for _, v := range workers {
		r.st(v, 0xFFB121B0, 0x47000)
	}
}

func TestTilesAreRefusedAlike(t *testing.T) {
	for _, arch := range arches {
		for _, tt := range []struct {
			name string
			bad  func(a *asm, v, next chip.XY)
			cat  Category
		}{
			{"a load from nowhere", func(a *asm, v, next chip.XY) { a.li(a0, 0xFF000000).lw(a1, a0, 0) }, unimplemented},
			{"a write to a register that isn't there", func(a *asm, v, next chip.XY) {
				a.request(arch, nocRequest{targ: 0x40000, targXY: v, ret: 0xFF000000, retXY: next, ctrl: ctrlWriteNP, len: 4})
			}, unimplemented},
			{"a read of a register that isn't there", func(a *asm, v, next chip.XY) {
				a.request(arch, nocRequest{targ: 0xFF000000, targXY: next, ret: 0x40000, retXY: v, ctrl: ctrlRead, len: 4})
			}, unimplemented},
		} {
			var first *Refusal
			for _, n := range []int{1, 2, 8} {
				var pc uint32
				r := newRig(t, Config{Arch: arch, Synchronous: true, Seed: 4, Parallel: true, Workers: n, MaxRun: 1})
				busyUntil(r, 20, func(a *asm, v, next chip.XY) {
					tt.bad(a, v, next)
					pc = a.base + 4*uint32(len(a.w)-1)
					a.li(a0, 0x40040).li(a1, 7).sw(a1, a0, 0)
				})
				for r.c.busy() {
					r.c.step()
				}
				var got *Refusal
				if !errors.As(r.c.Fault(), &got) {
					t.Fatalf("%v: %s on %d goroutines: %v, want a refusal", arch, tt.name, n, r.c.Fault())
				}
				if got.Category != tt.cat || !got.HasCore || got.PC != pc {
					t.Errorf("%v: %s on %d goroutines: %v, want %v at pc %#x", arch, tt.name, n, got, tt.cat, pc)
				}
				if first == nil {
					first = got
				}
				noDiff(t, got, first, "%v: %s: %d goroutines are refused otherwise than 1", arch, tt.name, n)
			}
		}
	}
}

func TestOutboxesFill(t *testing.T) {
	const from, to, count = 0x50000, 0x60000, 0x70000
	for _, arch := range arches {
		for _, n := range []uint32{4, 8 << 10} {
			const times = 200
			r := newRig(t, Config{Arch: arch, Synchronous: true, Seed: 1, Parallel: true, Workers: 2})
			last := map[chip.XY]chip.XY{}
			busyUntil(r, 6, func(a *asm, v, next chip.XY) {
				last[next] = v
				q := nocRequest{targ: from, targXY: v, ret: to, retXY: next, ctrl: ctrlWrite, len: n}
				stores := q.stores(arch)
				cmd := stores[len(stores)-1]
				a.request(arch, q).li(s0, 1).li(s1, times).li(a0, from).li(a1, cmd[0]).li(a2, 1).
					label("post").sw(s0, a0, 0).sw(a2, a1, 0).addi(s0, s0, 1).bne(s0, s1, "post").
					request(arch, nocRequest{buf: 3, targ: count, targXY: next, ret: 4, retXY: v, ctrl: ctrlAtomic, len: 0x107C, dat: 1})
			})
			r.healthy()
			for v := range last {
				if got, told := r.ld(v, to), r.ld(v, count); got != times-1 || told != 1 {
					t.Errorf("%v: of %d writes of %d bytes the last is %d, and %d signals have come", arch, times, n, got, told)
				}
				equal(t, r.counter(v, 0, cntSlaveWrite+1), times, "%v: writes of %d bytes that came", arch, n)
			}
		}
	}
}

// A tile that waits for DRAM's answer goes on in the same window, and reads what it has written.
func TestDRAMAnswersInWindow(t *testing.T) {
	const laps, from, back, bad = 16, 0x50000, 0x60000, 0x70000
	for _, arch := range arches {
		for _, c := range []struct {
			name  string
			apart uint64 // from what is written to what is read
			most  int    // windows
		}{
			{"reads elsewhere", 0x800, laps / 2},
			{"reads the same", 0, 3 * laps},
			{"reads its end", 48, 3 * laps},
		} {
			r := newRig(t, Config{Arch: arch, Synchronous: true, Seed: 1, Parallel: true, Workers: 2, MaxRun: 1})
			banks := r.topo.DRAMBanks()
			i := 0
			busyUntil(r, 6, func(a *asm, v, next chip.XY) {
				b := banks[0]
				at := b.Offset + 0x1000*uint64(i)
				i++
				r.st(v, bad, 0)
				r.write(b.HostEndpoint, at+0x800, make([]byte, 64))
				a.li(s0, 0).li(s1, laps).label("lap").addi(s0, s0, 1).
					li(a0, from).sw(s0, a0, 0).sw(s0, a0, 48).
					request(arch, nocRequest{targ: from, targXY: v, ret: at, retXY: b.Endpoint[0], ctrl: ctrlWriteNP, len: 64}).
					waitCounter(0, cntWriteAck, s0, "ack").
					request(arch, nocRequest{buf: 1, targ: at + c.apart, targXY: b.Endpoint[0], ret: back + c.apart, retXY: v,
						ctrl: ctrlRead, len: 16}).
					waitCounter(0, cntReadResp, s0, "read").
					li(a0, back).lw(a1, a0, int32(c.apart))
				want := s0
				if c.apart == 0x800 {
					want = x0
				}
				a.li(a0, bad).beq(a1, want, "right").sw(s0, a0, 0).label("right").bne(s0, s1, "lap").li(a1, 1).sw(a1, a0, 4)
			})
			windows := 0
			for r.c.busy() {
				if r.c.wideNext() {
					windows++
				}
				r.c.step()
			}
			r.healthy()
			for v := range r.topo.Workers() {
				if i--; i < 0 {
					break
				}
				if lap, done := r.ld(r.worker(v.X, v.Y), bad), r.ld(r.worker(v.X, v.Y), bad+4); lap != 0 || done != 1 {
					t.Errorf("%v, %s: worker %v read something else in lap %d; ended %d", arch, c.name, v, lap, done)
				}
			}
			if windows > c.most {
				t.Errorf("%v, %s: %d windows for %d laps, want %d at most", arch, c.name, windows, laps, c.most)
			}
			r.c.Close()
		}
	}
}

func TestShareOfWindow(t *testing.T) {
	r := newRig(t, Config{Arch: chip.Blackhole, Synchronous: true, Seed: 1, Parallel: true, Workers: 2, MaxRun: 1})
	busyUntil(r, 6, func(a *asm, v, next chip.XY) { a.label("on").addi(a1, a1, 1).j("on") })
	for range 20 {
		if wide, n := r.c.wideNext(), r.c.step(); wide && (n < 6*maxTileUsed || n > 6*(maxTileUsed+maxSlice)+1) {
			t.Fatalf("a window of 6 tiles has %d instructions", n)
		} else if wide && r.c.longest < maxTileUsed {
			t.Fatalf("cores have executed %d instructions in %d clocks", n/6, r.c.longest)
		} else if !wide && n > maxSlice+1 {
			t.Fatalf("%d instructions without a window", n)
		}
	}
}

func (s *sched) wideNext() bool {
	defer func(pos int) { s.pos = pos }(s.pos)
	if s.pos >= len(s.queue) {
		s.pos = 0
	}
	return s.wide()
}
