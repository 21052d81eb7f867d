package emu

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/internal/effort"
	"github.com/reprise-tt/reprise/sim/emu/internal/word"
)

// checkCase is a program that an option must refuse, and the same put right.
type checkCase struct {
	name string
	arch chip.Arch // zero: both
	cfg  Config
	do   func(r *rig, right bool)
	cat  Category
	text string // parts of the refusal, in order, between bars
}

// checkList gathers the cases of a function.
type checkList []*checkCase

// of returns a function that adds a case of some options, which refuse its program with cat.
func (l *checkList) of(cfg Config, cat Category) func(name string, do func(r *rig, right bool)) *checkCase {
	return func(name string, do func(r *rig, right bool)) *checkCase {
		k := &checkCase{name: name, cfg: cfg, do: do, cat: cat}
		*l = append(*l, k)
		return k
	}
}

// choose returns what belongs to the program put right, or to the broken one.
func choose[V any](right bool, ok, wrong V) V {
	if right {
		return ok
	}
	return wrong
}

func (k *checkCase) on(arch chip.Arch) *checkCase { k.arch = arch; return k }
func (k *checkCase) says(text string) *checkCase  { k.text = text; return k }

const staticVC1 = ctrlStaticVC | 1<<13

func (r *rig) sendTo(v, to chip.XY) nocRequest {
	return nocRequest{targ: 0x40000, targXY: v, ret: 0x50000, retXY: to, ctrl: ctrlWriteNP | staticVC1, len: 64}
}

func (r *rig) fetchFrom(v, from chip.XY) nocRequest {
	return nocRequest{buf: 1, targ: 0x50000, targXY: from, ret: 0x40000, retXY: v, ctrl: ctrlRead | staticVC1, len: 64}
}

func invalidate(a *asm, arch chip.Arch) *asm {
	return a.stw(configBase+4*cfgInvalidate(arch), 31)
}

func (a *asm) poll(arch chip.Arch, addr uint32, label string) *asm {
	a.li(a0, addr).label(label)
	if arch == chip.Blackhole {
		a.fence()
	}
	return a.lw(a1, a0, 0).beq(a1, x0, label)
}

func (a *asm) call(addr uint32) *asm { return a.li(a0, addr).emit(itype(0x67, 0, 1, a0, 0)) }

func returns(imm int32) []byte {
	return newAsm(0).addi(a2, x0, imm).emit(itype(0x67, 0, x0, 1, 0)).bytes()
}

func checks() (list checkList) {
	races, stale := list.of(Config{RefuseRaces: true}, undefined), list.of(Config{RefuseStaleCode: true}, undefined)
	unwritten, counters := list.of(Config{RefuseUnwritten: true}, unpredictable), list.of(Config{RefuseCounters: true}, undefined)
	one := func(a *asm) *asm { return a.li(s0, 1) }
	races("a write's source is overwritten before it has left", func(r *rig, right bool) {
		v := r.worker(0, 0)
		a := one(onB()).request(r.arch, r.sendTo(v, r.worker(2, 2)))
		a.waitCounter(0, cntWriteSent, s0, "sent") // it has begun to leave, no more
		if right {
			a.waitCounter(0, cntOutgoing, x0, "read")
		}
		r.run(v, a.stw(0x40020, 7).halt())
	}).says("BRISC pc=|race: store to 4 bytes that a NoC write may still be reading|write of 64 bytes from 0x40000|BRISC pc=")
	races("a word is overwritten before its receiver says that it has come", func(r *rig, right bool) {
		v, w := r.worker(0, 0), r.worker(2, 2)
		flag := r.sendTo(v, w)
		flag.len = 4
		r.write(v, 0x40000, []byte{1, 0, 0, 0})
		answer, come := onB(), func(a *asm) { a.poll(r.arch, 0x50000, "come") }
		if right {
			come(answer)
		}
		answer.request(r.arch, counts(w, v, 0x30000, staticVC1))
		if !right {
			come(answer)
		}
		r.run(w, answer.halt())
		r.run(v, onB().request(r.arch, flag).poll(r.arch, 0x30000, "told").stw(0x40000, 2).halt())
	}).says("race: store to 4 bytes that a NoC write may still be reading")
	races("a write's source is overwritten by another write to it", func(r *rig, right bool) {
		v, w := r.worker(0, 0), r.worker(2, 2)
		r.write(w, 0x40000, pattern(64, 1))
		back := r.sendTo(w, v)
		back.ret = 0x40000
		r.run(w, onB().poll(r.arch, 0x30000, "go").request(r.arch, back).halt())
		a := one(onB()).request(r.arch, r.sendTo(v, w))
		if right {
			a.waitCounter(0, cntOutgoing, x0, "sent")
		}
		r.run(v, a.request(r.arch, counts(v, w, 0x30000, staticVC1)).halt())
	}).says("race: store to 64 bytes that a NoC write may still be reading")
	races("a read's destination is looked at before the read is counted", func(r *rig, right bool) {
		v := r.worker(0, 0)
		a := one(onB()).request(r.arch, r.fetchFrom(v, r.worker(2, 2)))
		if right {
			a.waitCounter(0, cntReadResp, s0, "read")
		}
		r.run(v, a.li(a0, 0x40000).lw(a1, a0, 0).halt())
	}).says("race: load of 4 bytes that a NoC read may still be writing|read of 64 bytes of tile|0x50000 to 0x40000")
	races("one read of two is counted", func(r *rig, right bool) {
		v := r.worker(0, 0)
		second := r.fetchFrom(v, r.worker(3, 3))
		second.ret, second.buf = 0x48000, 2
		a := one(onB()).request(r.arch, r.fetchFrom(v, r.worker(2, 2))).request(r.arch, second)
		if right {
			a.addi(s0, s0, 1).waitCounter(0, cntReadResp, s0, "two")
		} else {
			a.li(t0, niu0Base+0x200+4*cntReadSent).label("one").lw(t1, t0, 0).bltu(t1, s0, "one")
		}
		r.run(v, a.li(a0, 0x40000).lw(a1, a0, 0).halt())
	}).says("race: load of 4 bytes that a NoC read may still be writing")
	races("a read goes into the source of a write", func(r *rig, right bool) {
		v := r.worker(0, 0)
		a := one(onB()).request(r.arch, r.sendTo(v, r.worker(2, 2)))
		if right {
			a.waitCounter(0, cntWriteAck, s0, "acks")
		}
		r.run(v, a.request(r.arch, r.fetchFrom(v, r.worker(3, 3))).halt())
	}).says("race: store to 64 bytes that a NoC write may still be reading")
	races("a done signal overtakes data on another path", func(r *rig, right bool) {
		v, w := r.worker(0, 0), r.worker(2, 2)
		r.run(w, onB().poll(r.arch, 0x30000, "sem").li(a0, 0x50000).lw(a1, a0, 0).halt())
		vc := choose[uint32](right, 1, 2)
		r.run(v, onB().request(r.arch, r.sendTo(v, w)).
			request(r.arch, counts(v, w, 0x30000, ctrlStaticVC|vc<<13)).halt())
	}).says("race: load of 4 bytes of a NoC write that need not have arrived|write of 64 bytes from 0x40000|the signal at 0x30000 that was seen here, atomic")
	races("a stream says done before data is acknowledged", func(r *rig, right bool) {
		v, w := r.worker(0, 0), r.worker(2, 2)
		update, available := uint32(0x088), uint32(0x100)
		if r.arch == chip.Blackhole {
			update, available = 0x438, 0x4A4
		}
		const stream = streamBase + 0x3000
		r.run(w, onB().poll(r.arch, stream+available, "stream").li(a0, 0x50000).lw(a1, a0, 0).halt())
		a := one(onB()).request(r.arch, r.sendTo(v, w))
		if right {
			a.waitCounter(0, cntWriteAck, s0, "acks")
		}
		r.run(v, a.request(r.arch, nocRequest{noc: 1, buf: 3, targ: uint64(stream + update), targXY: w, ret: 4, retXY: v,
			ctrl: ctrlWrite | ctrlInline | staticVC1, len: 15, dat: 1 << 6}).halt())
	}).says("race: load of 4 bytes of a NoC write that need not have arrived|inline write")
	stale("code is changed by the processor that runs it", func(r *rig, right bool) {
		v := r.worker(0, 0)
		r.write(v, 0x8000, returns(1))
		a := onB().call(0x8000).stw(0x8000, itype(0x13, 0, a2, x0, 2))
		if right {
			invalidate(a, r.arch)
		}
		r.run(v, a.call(0x8000).halt())
	}).says("BRISC pc=0x8000|stale code: the processor has executed this line|BRISC pc=0x10")
	// Right: data that begin right after the fetch where the code ends.
	stale("code is changed, in the fetch that is executed", func(r *rig, right bool) {
		v := r.worker(0, 0)
		r.write(v, 0x8000, returns(1))
		r.run(v, onB().call(0x8000).stw(choose[uint32](right, 0x8010, 0x800C), 7).call(0x8000).halt())
	}).says("BRISC pc=0x8000|stale code: the processor has executed this line|BRISC pc=0x10")
	stale("all of a line comes into the cache with its end", func(r *rig, right bool) {
		v := r.worker(0, 0)
		r.write(v, 0x8030, returns(1))
		a := onB().call(0x8030).stw(0x8000, itype(0x67, 0, x0, 1, 0))
		if right {
			invalidate(a, r.arch)
		}
		r.run(v, a.call(0x8000).halt())
	}).says("BRISC pc=0x8000|stale code: the processor may have prefetched this line|BRISC pc=0x10")
	stale("code that may be prefetched is delivered through the NoC", func(r *rig, right bool) {
		v := r.worker(0, 0)
		a := onB().poll(r.arch, 0x30000, "go")
		if right {
			invalidate(a, r.arch)
		}
		r.run(v, a.call(0x1100).halt())
		r.write(v, 0x1100, returns(1))
		r.st(v, 0x30000, 1)
	}).says("stale code: the processor may have prefetched this line|the host has changed it")
	unwritten("DRAM that was never written is read", func(r *rig, right bool) {
		v, b := r.worker(0, 0), r.topo.DRAMBanks()[0]
		if right {
			r.write(b.HostEndpoint, b.Offset+0x10000, pattern(64, 1))
		}
		r.run(v, onB().request(r.arch, nocRequest{targ: b.Offset + 0x10000, targXY: b.Endpoint[0], ret: 0x40000, retXY: v,
			ctrl: ctrlRead, len: 64}).halt())
	}).says("BRISC pc=|read of memory of DRAM controller 0 that was never written")
	unwritten("local RAM that was never written is read", func(r *rig, right bool) {
		a := onB().li(a0, localBase+64)
		if right {
			a.sb(x0, a0, 1)
		}
		r.run(r.worker(0, 0), a.lw(a1, a0, 0).halt())
	}).on(chip.Wormhole).says("BRISC pc=|load from local RAM that was never written")
	counters("an id is waited for after a multicast with it", func(r *rig, right bool) {
		v, start, end := r.worker(0, 0), r.worker(1, 1), r.worker(3, 1)
		q := nocRequest{targ: 0x40000, targXY: v, ret: 0x50000, retXY: end, start: &start, ctrl: ctrlMulticast | ctrlStaticVC | 4<<13, len: 64,
			tag: 3 << 10}
		a := one(onB()).request(r.arch, q).addi(s0, s0, 2).waitCounter(0, cntWriteAck, s0, "acks")
		a.li(t0, niu0Base+layoutOf(r.arch).cmd).lw(t1, t0, 0)
		if right {
			a.stw(niu0Base+layoutOf(r.arch).clearReqs, 1<<3)
		}
		r.run(v, a.waitCounter(0, cntOutstanding+3, x0, "id").halt())
	}).says("the counter of transaction id 3 is 25|nothing is unanswered: a multicast took it beyond zero")
	counters("an id is looked at right after its request was started", func(r *rig, right bool) {
		v := r.worker(0, 0)
		q := r.fetchFrom(v, r.worker(2, 2))
		q.tag = 5 << 10
		a := onB().request(r.arch, q)
		if l := layoutOf(r.arch); right {
			a.li(t0, niu0Base+l.stride+l.cmd).label("ready").lw(t1, t0, 0).bne(t1, x0, "ready")
		}
		r.run(v, a.waitCounter(0, cntOutstanding+5, x0, "id").halt())
	}).says("transaction id 5 is looked at before a CMD_CTRL was loaded")
	counters("more is subtracted from a stream than it has", func(r *rig, right bool) {
		update := uint32(streamBase + 0x3088)
		if r.arch == chip.Blackhole {
			update = streamBase + 0x3438
		}
		have := choose[uint32](right, 5, 4)
		five := uint32(5)
		r.run(r.worker(0, 0), onB().stw(update, have<<6).stw(update, -five<<6).halt())
	}).says("BRISC pc=|SPACE_AVAILABLE of stream 3 is|and 5 is to be subtracted")
	counters("a TLB window is used half-way through its configuration", func(r *rig, right bool) {
		r.st(r.worker(0, 0), 0x40000, 1)
		base, off, words := uint64(0x1FC00000), uint64(0), 3
		if r.arch == chip.Wormhole {
			base, off, words = base+8*166, 0x0B000000, 2
		}
		if !right {
			words--
		}
		v := r.worker(1, 1)
		cfg := []uint64{0, uint64(v.X)<<11 | uint64(v.Y)<<17, 0}
		if r.arch == chip.Wormhole {
			w := uint64(v.X)<<12 | uint64(v.Y)<<18
			cfg = []uint64{w & 0xFFFFFFFF, w >> 32}
		}
		for i := range words {
			r.dev.BARStore(0, base+4*uint64(i), 4, cfg[i])
		}
		r.dev.BARStore(0, off+0x40000, 4, 7)
	}).says("host: tlb window: window|is used after only some of its")
	return list
}

// engineChecks are products with a request before or after the T cores leave reset.
func engineChecks() (list checkList) {
	races := list.of(Config{RefuseRaces: true}, undefined)
	product := func(name, says string, before bool, of func(r *rig, v, w chip.XY) nocRequest) {
		races(name, func(r *rig, right bool) {
			v, w := r.worker(0, 0), r.worker(2, 2)
			r.write(v, tileA, make([]byte, tileDone+4-tileA))
			unpack, math, pack := matmul(r.arch, 1)
			for _, a := range []*asm{unpack, math, pack} {
				r.write(v, uint64(a.base), a.bytes())
			}
			a, q := onB().li(s0, 1), of(r, v, w)
			if before {
				a.request(r.arch, q)
			}
			if before && right {
				a.waitCounter(0, cntReadResp, s0, "read")
			}
			a.stw(0xFFB121B0, 0x40000)
			if before || right {
				a.poll(r.arch, tileDone, "done")
			}
			if !before {
				a.request(r.arch, q)
			}
			r.run(v, a.halt())
		}).says(says)
	}
	product("an unpacker reads what a NoC read may still be writing", "TRISC0 pc=|race: load of|that a NoC read may still be writing: read of 64 bytes", true,
		func(r *rig, v, w chip.XY) nocRequest { q := r.fetchFrom(v, w); q.ret = tileA; return q })
	product("a result is sent that a packer may not have written", "TRISC2 pc=|race: store to|that a NoC write may still be reading: write of 64 bytes", false,
		func(r *rig, v, w chip.XY) nocRequest { q := r.sendTo(v, w); q.targ = tileOut; return q })
	races("rows of Dst are announced before they are written", func(r *rig, right bool) {
		v := r.worker(0, 0)
		r.write(v, tileA, make([]byte, tileDone+4-tileA))
		unpack, math, pack := matmul(r.arch, 1)
		zero, post := newAsm(0).ttinsn(0x10000000|3<<19).bytes(), newAsm(0).ttinsn(semPost(1)).bytes()
		swap := strings.NewReplacer(string(zero), string(post), string(post), string(zero))
		code := swap.Replace(string(math.bytes()))
		if right {
			code = swap.Replace(code)
		}
		r.write(v, uint64(math.base), []byte(code))
		r.write(v, uint64(unpack.base), unpack.bytes())
		r.write(v, uint64(pack.base), pack.bytes())
		r.run(v, onB().stw(0xFFB121B0, 0x40000).poll(r.arch, tileDone, "done").halt())
	}).says("row 0x|of Dst of tile|TRISC|Nothing that one of the two did")
	return list
}

// Every check refuses its broken program, however quick the NoC is, and accepts the right one.
func TestChecks(t *testing.T) {
	testChecks(t, slices.Concat(checks(), owedChecks(), engineChecks(), moverChecks(), overflowChecks()))
}

func testChecks(t *testing.T, list checkList) {
	for _, k := range list {
		for _, arch := range arches {
			if k.arch != 0 && k.arch != arch {
				continue
			}
			for _, delay := range effort.Of([]int{60}, []int{0, 60}, []int{0, 1, 60, 100, 500}) {
				for seed := range effort.Of[uint64](1, 1, 5) {
					t.Run(fmt.Sprintf("%s/%v delay %d seed %d", k.name, arch, delay, seed), func(t *testing.T) {
						for _, right := range []bool{true, false} {
							if k.cat == 0 && !right {
								break
							}
							cfg := k.cfg
							cfg.Arch, cfg.Synchronous, cfg.Seed, cfg.Delay = arch, true, seed, delay
							r := newRig(t, cfg)
							k.do(r, right)
							if right {
								r.healthy()
								continue
							}
							stopped := r.refused(k.cat)
							rest := stopped.Error()
							for part := range strings.SplitSeq(k.text, "|") {
								_, after, ok := strings.Cut(rest, part)
								if !ok {
									t.Errorf("refusal %q doesn't say %q", r.c.Fault(), part)
									break
								}
								rest = after
							}
							goesOn(t, k, cfg, stopped)
						}
					})
				}
			}
		}
	}
}

// goesOn runs a broken program on a chip that is told of findings: the first one is what stops
// others, and no check stops this one.
func goesOn(t *testing.T, k *checkCase, cfg Config, want *Refusal) {
	if want.Check == "" { // no chip goes on after that
		return
	}
	var found []Refusal
	cfg.Findings = func(f *Finding) { found = append(found, f.Refusal) }
	r := newRig(t, cfg)
	k.do(r, false)
	fault := (*Refusal)(nil)
	stopped := errors.As(r.c.Fault(), &fault) && fault.Check != ""
	if stopped || len(found) == 0 || found[0].Error() != want.Error() || found[0].Check != want.Check {
		t.Errorf("%d findings, %v, want first %v; the chip: %v", len(found), found[:min(1, len(found))], want, r.c.Fault())
	}
}

func TestCoresTellWrongCountOfDestinations(t *testing.T) {
	for _, arch := range arches {
		r := newRig(t, Config{Arch: arch, Synchronous: true, Delay: 30})
		v, start, end := r.worker(0, 0), r.worker(1, 1), r.worker(3, 1)
		q := nocRequest{targ: 0x40000, targXY: v, ret: 0x50000, retXY: end, start: &start,
			ctrl: ctrlMulticast | ctrlStaticVC | 4<<13, len: 64}
		r.run(v, onB().li(s0, 7).request(arch, q).waitCounter(0, cntWriteAck, s0, "acks").halt())
		r.healthy()
		want := IdleNIU{NIU: 0, Acks: 3}
		if !slices.ContainsFunc(r.c.Cores(), func(s CoreState) bool { return slices.Contains(s.Idle, want) }) {
			t.Errorf("no %+v in %s", want, r.dump())
		}
	}
}

// With a slow NoC a write takes what its source holds when it leaves, and requests to different
// tiles swap, for some seeds.
func TestDelayShows(t *testing.T) {
	for _, arch := range arches {
		late, swapped := 0, 0
		for seed := range uint64(40) {
			r := newRig(t, Config{Arch: arch, Synchronous: true, Seed: seed, Delay: 60})
			v, one, two := r.worker(0, 0), r.worker(2, 2), r.worker(3, 3)
			q := r.sendTo(v, one)
			a := onB().stw(0x40000, 1).request(arch, q)
			for range 80 {
				a.addi(a0, a0, 1)
			}
			r.run(v, a.stw(0x40000, 2).halt())
			if r.ld(one, 0x50000) == 2 {
				late++
			}
			// The second write's bytes have arrived, the first one's haven't.
			first, second := r.fetchFrom(v, one), r.fetchFrom(v, two)
			second.buf, second.ret = 2, 0x48000
			first.tag, second.tag = 1<<10, 2<<10
			r.st(v, 0xFFB121B0, 0x47800)
			r.run(v, onB().request(arch, first).request(arch, second).
				li(t0, niu0Base+0x200+4*(cntOutstanding+2)).label("w").lw(t1, t0, 0).bne(t1, x0, "w").
				lw(t1, t0, -4).stw2(0x60000).halt())
			if r.ld(v, 0x60000) != 0 {
				swapped++
			}
			r.healthy()
		}
		if late == 0 || late == 40 || swapped == 0 || swapped == 40 {
			t.Errorf("%v: of 40 seeds %d send what was stored after the start, %d swap responses: want some, not all", arch, late, swapped)
		}
	}
}

// delayed runs a program under waivers on some seeds of a slow NoC, and checks that it sends what
// it shouldn't, by some seeds, unless a waiver of assume is for its text.
func delayed(t *testing.T, assume Assumptions, seeds uint64, program func(r *rig, v, w chip.XY) *asm, wrong func(r *rig) [2]bool) {
	for _, arch := range arches {
		plan := planned(t, arch)
		text := program(plan, plan.worker(0, 0), plan.worker(2, 2)).bytes()
		other := slices.Clone(text)
		for i := 8; i < len(other); i += 16 {
			other[i] ^= 0x80
		}
		for _, c := range []struct {
			name    string
			waivers []Waiver
			right   bool
		}{
			{"no waiver", nil, false},
			{"waiver", []Waiver{{Name: "it", Text: text, Assume: assume}}, true},
			{"waiver of another assumption", []Waiver{{Name: "it", Text: text, Assume: StoresInOrder}}, false},
			{"waiver of another program", []Waiver{{Name: "other", Text: other, Assume: assume}}, false},
		} {
			var n [2]int
			for seed := range seeds {
				r := newRig(t, Config{Arch: arch, Synchronous: true, Seed: seed, Delay: 1000, Waivers: c.waivers})
				v, w := r.worker(0, 0), r.worker(2, 2)
				r.st(v, 0x40000, 1)
				r.run(v, program(r, v, w))
				r.healthy()
				for i, bad := range wrong(r) {
					n[i] += int(word.Bool(bad))
				}
				if !c.right && n[0] > 0 && n[1] > 0 {
					break // shown
				}
			}
			if c.right && n != [2]int{} || !c.right && (n[0] == 0 || n[1] == 0) {
				t.Errorf("%v, %s: of %d seeds %d send what they shouldn't", arch, c.name, seeds, n)
			}
		}
	}
}

// sent reports whether a worker got the second of two values, rather than the first.
func (r *rig) sent(v chip.XY, addr uint64, first uint32) bool {
	got := r.ld(v, addr)
	if got != first && got != first+1 {
		r.t.Fatalf("%d was sent, want %d or one more", got, first)
	}
	return got != first
}

// A write that is counted as sent may carry what was stored since, unless its code has a waiver of
// SentIsRead, with which writes are also counted in order.
func TestDelaySendsWhatWasRead(t *testing.T) {
	// It sends 1, then 2 from the same place; then 3 on another virtual channel, waits until any
	// further write is counted, and stores 4.
	program := func(r *rig, v, one chip.XY) *asm {
		first, second, third, fourth := r.sendTo(v, one), r.sendTo(v, one), r.sendTo(v, one), r.sendTo(v, r.worker(3, 3))
		second.ret = 0x50100
		third.targ, third.ret = 0x40200, 0x50200
		fourth.buf, fourth.targ, fourth.ctrl = 1, 0x40300, ctrlWriteNP|ctrlStaticVC|2<<13
		return onB().stw(0x40000, 1).request(r.arch, first).li(s0, 1).waitCounter(0, cntWriteSent, s0, "first").
			stw(0x40000, 2).request(r.arch, second).li(s0, 2).waitCounter(0, cntWriteSent, s0, "second").
			stw(0x40200, 3).request(r.arch, third).request(r.arch, fourth).
			li(t0, niu0Base+0x200+4*cntWriteSent).label("third").lw(t1, t0, 0).beq(t1, s0, "third").stw(0x40200, 4).halt()
	}
	delayed(t, SentIsRead, 40, program, func(r *rig) [2]bool {
		return [2]bool{r.sent(r.worker(2, 2), 0x50000, 1), r.sent(r.worker(2, 2), 0x50200, 3)}
	})
}

// A write may carry what was changed because of a later request, unless its code has a waiver of
// ReadInOrder.
func TestDelayReadsInOrder(t *testing.T) {
	delayed(t, ReadInOrder, 100, assumed()[ReadInOrder], func(r *rig) [2]bool {
		changed := r.sent(r.worker(3, 3), 0x50000, 1)
		return [2]bool{changed, changed}
	})
}

func (a *asm) stw2(addr uint32) *asm { return a.li(t0, addr).sw(t1, t0, 0) }

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
	for _, n := range []int{0, 10, 31} {
		counters(fmt.Sprintf("more pages are taken from the circular buffer of stream %d than are there", n), func(r *rig, right bool) {
			s := &r.c.params.Stream
			put, taken := s.Reg(n, chip.RemoteDestBufSize), s.Reg(n, chip.RemoteDestBufStart)
			a := onB().stw(put, 0xFFFF).stw(taken, 0xFFFE).stw(put, 0).stw(taken, choose[uint32](right, 0, 1))
			r.run(r.worker(0, 0), a.stw(put, 0).stw(taken, 0).halt()) // as firmware does before a program
		}).says(fmt.Sprintf("BRISC pc=|stream: circular buffer of stream %d: 3 pages are taken, and 2 are there", n))
	}
	counters("a page is taken after one that wasn't there", func(r *rig, right bool) {
		v, taken := r.worker(0, 0), r.c.params.Stream.Reg(1, chip.RemoteDestBufStart)
		r.write(v, uint64(taken), []byte{1, 0, 0, 0})
		r.run(v, onB().stw(taken, choose[uint32](right, 0, 2)).halt())
	}).says("stream 1: 1 pages are taken, and 0 are there")
	return list
}

// owedChecks are programs whose end is reported while what they asked the NoC for need not be done.
func owedChecks() (list checkList) {
	races := list.of(Config{RefuseRaces: true}, undefined)
	// end adds 1 to a stream of w in which completions are counted.
	end := func(r *rig, a *asm, v, w chip.XY, noc chip.NOC) *asm {
		p := r.arch.Params()
		return a.request(r.arch, nocRequest{
			noc: noc, buf: 2, targ: uint64(p.Stream.Reg(p.Stream.FirstDispatch+2, chip.SpaceAvailableUpdate)), targXY: w, ret: 4, retXY: v,
			ctrl: ctrlWrite | ctrlInline | staticVC1, len: 15, dat: 1 << 6,
		}).halt()
	}
	// one is a program with one request, and its end, for which wait says what it must wait for.
	one := func(name, says string, q func(r *rig, v, w chip.XY) nocRequest, wait func(a *asm)) {
		races(name, func(r *rig, right bool) {
			v, w := r.worker(0, 0), r.worker(2, 2)
			a := onB().li(s0, 1).request(r.arch, q(r, v, w))
			if right {
				wait(a)
			} else {
				a.waitCounter(0, cntOutgoing+7, x0, "other") // an unused id says nothing
			}
			r.run(v, end(r, a, v, w, 0))
		}).says("BRISC pc=|the end of a program is reported|" + says)
	}
	counter := func(i uint32) func(*asm) { return func(a *asm) { a.waitCounter(0, i, s0, "c") } }
	zero := func(i uint32) func(*asm) { return func(a *asm) { a.waitCounter(0, i, x0, "z") } }
	write := func(r *rig, v, w chip.XY) nocRequest { return r.sendTo(v, w) }
	tagged := func(r *rig, v, w chip.XY) nocRequest { q := r.sendTo(v, w); q.tag = 3 << 10; return q }
	word := func(r *rig, v, w chip.XY) nocRequest {
		p := r.arch.Params() // a stream that counts something else
		return nocRequest{buf: 3, targ: uint64(p.Stream.Reg(3, chip.SpaceAvailableUpdate)), targXY: w, ret: 4, retXY: v,
			ctrl: ctrlWriteNP | ctrlInline | staticVC1, len: 15, dat: 1 << 6}
	}
	one("a program ends before its write is acknowledged", "write of 64 bytes from 0x40000|WR_ACK_RECEIVED|a write barrier",
		write, counter(cntWriteAck))
	one("a program ends before its write with an id is", "write of 64 bytes|a write barrier", tagged, zero(cntOutstanding+3))
	one("a program ends before its word is acknowledged", "inline write of 4 bytes|a write barrier", word, counter(cntWriteAck))
	one("a program ends before its atomic is answered", "atomic of 4 bytes|an atomic barrier",
		func(r *rig, v, w chip.XY) nocRequest { r.st(w, 0x30000, 0); return r.increment(v, w, 0x30000) }, counter(cntAtomicResp))
	one("a program ends before its read has landed", "read of 64 bytes|a read barrier",
		func(r *rig, v, w chip.XY) nocRequest { return r.fetchFrom(v, w) }, counter(cntReadResp))
	one("a program ends before its posted write has left", "write of 64 bytes|a flush of posted writes",
		func(r *rig, v, w chip.XY) nocRequest { q := r.sendTo(v, w); q.ctrl &^= ctrlMarked; return q }, zero(cntOutgoing))
	races("a program ends before the write of its other processor is acknowledged", func(r *rig, right bool) {
		v, w := r.worker(1, 1), r.worker(2, 2)
		q := r.sendTo(v, w)
		q.noc = 1
		t := onT0().li(s0, 1).request(r.arch, q)
		if right {
			t.waitCounter(1, cntWriteAck, s0, "acks")
		}
		b := onB().li(s0, 1).until(r.stream(false), s0, "w")
		r.together(v, end(r, b, v, w, 0), t.stw(r.stream(false), 1).halt())
	}).says("BRISC pc=|the end of a program is reported|write of 64 bytes|started by tile|TRISC0 pc=|on NoC 1|a write barrier")
	return list
}
