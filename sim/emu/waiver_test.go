package emu

import (
	"bytes"
	"encoding/binary"
	"strings"
	"testing"
	"time"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/internal/effort"
	"github.com/reprise-tt/reprise/internal/expect"
)

// assumed are programs that rely on one assumption.
func assumed() map[Assumptions]func(r *rig, v, w chip.XY) *asm {
	return map[Assumptions]func(r *rig, v, w chip.XY) *asm{
		// It sends a word that it has just stored.
		StoresInOrder: func(r *rig, v, w chip.XY) *asm {
			return onB().stw(0x40000, 7).request(r.arch, r.sendTo(v, w)).halt()
		},
		// It tells by a stream of a word that it has just stored.
		StoredBeforePush: func(r *rig, v, w chip.XY) *asm {
			update, available := uint32(streamBase+0x3088), uint32(streamBase+0x3100)
			if r.arch == chip.Blackhole {
				update, available = streamBase+0x3438, streamBase+0x34A4
			}
			if r.dev != nil {
				taker := newAsm(triscBase[0]).poll(r.arch, available, "stream").li(a0, 0x40000).lw(a1, a0, 0).sw(a1, a0, 8).halt()
				r.write(v, uint64(triscBase[0]), taker.bytes())
			}
			return onB().stw(0xFFB121B0, 0x46000).stw(0x40000, 7).stw(update, 1<<6).halt().forget(8)
		},
		// It changes the source of a write that is counted as sent.
		SentIsRead: func(r *rig, v, w chip.XY) *asm {
			return onB().li(s0, 1).request(r.arch, r.sendTo(v, w)).waitCounter(0, cntWriteSent, s0, "sent").stw(0x40020, 7).halt()
		},
		// It polls an id's counter straight after the request.
		CountedAtOnce: func(r *rig, v, w chip.XY) *asm {
			q := r.fetchFrom(v, w)
			q.tag = 3 << 10
			return onB().request(r.arch, q).waitCounter(0, cntOutstanding+3, x0, "answered").halt()
		},
		// It sends bytes, and tells another program, which then changes them.
		ReadInOrder: func(r *rig, v, w chip.XY) *asm {
			if r.dev != nil {
				r.changesPage(v, w)
			}
			return onB().request(r.arch, r.sendTo(v, r.worker(3, 3))).request(r.arch, increment(v, w, 0x48000)).halt()
		},
		// It loads a word just after a store to its last byte.
		PassedBytesUnused: func(r *rig, v, w chip.XY) *asm {
			return onB().stw(0x48000, 0x010203).li(a0, 0x48000).sb(x0, a0, 3).lw(a1, a0, 0).
				emit(itype(0x13, 1, a1, a1, 8)).sw(a1, a0, 8).halt().forget(8)
		},
		UnwrittenUnused: func(r *rig, v, w chip.XY) *asm {
			return onB().li(a0, 0x48000).lw(a1, a0, 0).sw(a1, a0, 8).halt().forget(16)
		},
		PaddingUnused: func(r *rig, v, _ chip.XY) *asm {
			bank := r.topo.DRAMBanks()[0]
			if r.dev != nil {
				r.write(bank.HostEndpoint, bank.Offset+0x10000, make([]byte, 48))
			}
			q := r.fetchFrom(v, bank.Endpoint[0])
			q.targ = bank.Offset + 0x10000
			return onB().request(r.arch, q).halt().forget(16)
		},
		// It releases a semaphore while unpacker 0 may work.
		ContextIsRead: func(*rig, chip.XY, chip.XY) *asm {
			return onB().pushes(pushInit, pushPost, pushUnpack, pushGet)
		},
		// It tells others that SrcA is cleared.
		ZeroedAtOnce: func(*rig, chip.XY, chip.XY) *asm {
			return onB().pushes(pushInit, pushZero, pushPost)
		},
		// It uses a semaphore while the vector unit may still work.
		BootIsOver: func(*rig, chip.XY, chip.XY) *asm {
			return onB().pushes(pushInit, pushStore, pushPost)
		},
		// It loads the first of rows 0 to 15 of Dst, which it has made undefined, unlike 16 to 63.
		PartOfTile: func(*rig, chip.XY, chip.XY) *asm {
			return onB().pushes(pushInit, pushZeroRows, pushLoad)
		},
	}
}

func increment(v, w chip.XY, addr uint64) nocRequest {
	return nocRequest{buf: 3, targ: addr, targXY: w, ret: 4, retXY: v, ctrl: ctrlAtomic | ctrlMarked | ctrlStaticVC | 2<<13,
		len: 0x107C, dat: 1}
}

// changesPage lets w change the word at 0x40000 of v once the one at 0x48000 of w isn't 0.
func (r *rig) changesPage(v, w chip.XY) {
	r.write(w, 0x48000, make([]byte, 16))
	r.run(w, onB().poll(r.arch, 0x48000, "page").request(r.arch, increment(w, v, 0x40000)).halt())
}

func TestReadInOrderHoldsForOthers(t *testing.T) {
	for _, arch := range arches {
		for name, c := range map[string]struct {
			others   bool
			accepted bool
			program  func(a *asm, r *rig, v, w chip.XY) *asm
		}{
			"another agent": {true, true, func(a *asm, r *rig, v, w chip.XY) *asm { return a.request(arch, increment(v, w, 0x48000)) }},
			"own store": {false, false, func(a *asm, r *rig, v, w chip.XY) *asm {
				return a.request(arch, increment(v, w, 0x48000)).stw(0x40000, 7)
			}},
			"the other NoC": {true, false, func(a *asm, r *rig, v, w chip.XY) *asm {
				q := increment(v, w, 0x48000)
				q.noc = 1
				return a.request(arch, q)
			}},
		} {
			build := func(r *rig, v, w chip.XY) *asm {
				return c.program(onB().request(arch, r.sendTo(v, r.worker(3, 3))), r, v, w).halt()
			}
			plan := planned(t, arch)
			text := build(plan, plan.worker(0, 0), plan.worker(2, 2)).bytes()
			for _, delay := range []int{0, 80} {
				r := newRig(t, Config{Arch: arch, Synchronous: true, Delay: delay, RefuseRaces: true,
					Waivers: []Waiver{{Name: "it", Text: text, Assume: ReadInOrder}}})
				v, w := r.worker(0, 0), r.worker(2, 2)
				r.write(v, 0x40000, pattern(64, 1))
				if c.others {
					r.changesPage(v, w)
				} else {
					r.write(w, 0x48000, make([]byte, 16))
				}
				r.run(v, build(r, v, w))
				if err := r.dev.Fault(); (err == nil) != c.accepted {
					t.Errorf("%v, delay %d, %s: %v", arch, delay, name, err)
				}
			}
		}
	}
}

// Tensix instructions; the semaphore is number 1.
const (
	pushInit   = 0xA3<<24 | 15<<20 | 1<<3
	pushPost   = 0xA4<<24 | 1<<3
	pushGet    = 0xA5<<24 | 1<<3
	pushUnpack = 0x43<<24 | 1
	pushZero   = 0x11<<24 | 7

	pushZeroRows = 0x10<<24 | 1<<19
	pushLoad     = 0x70 << 24
	pushStore    = 0x72 << 24
)

func (a *asm) pushes(list ...uint32) *asm {
	for _, w := range list {
		a.stw(pushBase, w)
	}
	return a.forget(8).halt()
}

func TestWaivers(t *testing.T) {
	for _, arch := range arches {
		for a, program := range assumed() {
			if (a == PassedBytesUnused || a == PartOfTile) && arch != chip.Wormhole {
				continue
			}
			run := func(name string, accepted bool, waivers func(text []byte) []Waiver) {
				for i, delay := range effort.Of([]int{80, 80}, []int{0, 80, 80}, []int{0, 80, 80}) {
					cfg := Config{Arch: arch, Synchronous: true, Delay: delay, RefuseRaces: true, RefuseCounters: true,
						RefuseUnwritten: a == UnwrittenUnused || a == PaddingUnused}
					plan := planned(t, arch)
					cfg.Waivers = waivers(program(plan, plan.worker(0, 0), plan.worker(2, 2)).bytes())
					if list := cfg.Waivers; i == 0 { // of code that comes later
						cfg.Waivers = nil
						cfg.RefreshWaivers = func() (out []Waiver) { out, list = list, nil; return out }
					}
					r := newRig(t, cfg)
					v, w := r.worker(0, 0), r.worker(2, 2)
					r.write(v, 0x40000, pattern(64, 1))
					r.write(w, 0x50000, pattern(64, 2))
					r.run(v, program(r, v, w))
					if err := r.dev.Fault(); (err == nil) != accepted {
						t.Errorf("%v, assumption %#x, delay %d, %s: %v", arch, a, delay, name, err)
					}
				}
			}
			run("no waiver", false, func([]byte) []Waiver { return nil })
			run("waiver", true, func(text []byte) []Waiver { return []Waiver{{Name: "it", Text: text, Assume: a}} })
			run("waiver of everything", true, func(text []byte) []Waiver {
				return []Waiver{{Name: "it", Text: text, Assume: allAssumptions}}
			})
			run("one waiver of two", true, func(text []byte) []Waiver {
				return []Waiver{{Name: "other", Text: pattern(256, 3), Assume: allAssumptions}, {Name: "it", Text: text, Assume: a}}
			})
			run("waiver of another assumption", false, func(text []byte) []Waiver {
				return []Waiver{{Name: "it", Text: text, Assume: allAssumptions &^ a &^ BootIsOver}}
			}) // which is about all units
			run("waiver of another program", false, func(text []byte) []Waiver {
				for i := 8; i < len(text); i += 16 {
					text[i] ^= 0x80
				}
				return []Waiver{{Name: "other", Text: text, Assume: allAssumptions}}
			})
		}
	}
}

func TestWaiversThatAreNone(t *testing.T) {
	for name, w := range map[string]Waiver{
		"no assumption": {Text: make([]byte, 64)},
		"unknown":       {Text: make([]byte, 64), Assume: 1 << 15},
		"short":         {Text: make([]byte, 60), Assume: SentIsRead},
	} {
		fails(t, second(New(Config{Arch: chip.Blackhole, Waivers: []Waiver{w}})), ErrConfig, "%s", name)
	}
}

func TestSourceKeepsItsValue(t *testing.T) {
	for _, arch := range arches {
		for _, right := range []bool{true, false} {
			r := newRig(t, Config{Arch: arch, Synchronous: true, Delay: 80, RefuseRaces: true})
			v := r.worker(0, 0)
			r.write(v, 0x40000, pattern(64, 1))
			a := onB().request(arch, r.sendTo(v, r.worker(2, 2))).li(a0, 0x40000)
			for i := range int32(4) {
				a.lbu(a1, a0, 4*i).sb(a1, a0, 4*i).lw(a1, a0, 16+4*i).sw(a1, a0, 16+4*i)
			}
			if !right {
				a.lbu(a1, a0, 33).addi(a1, a1, 1).sb(a1, a0, 33)
			}
			r.run(v, a.halt())
			if err := r.dev.Fault(); (err == nil) != right {
				t.Errorf("%v, %v: %v", arch, right, err)
			}
		}
	}
}

// What tt-umd's tests do at undocumented addresses has the effect that they expect, and is refused
// by option.
func TestUnmappedAddresses(t *testing.T) {
	for _, strict := range []bool{false, true} {
		refused := func(r *rig, what string) {
			t.Helper()
			if fault := r.dev.Fault(); strict != (fault != nil) {
				t.Errorf("%v: %s, strict %v: fault %v", r.arch, what, strict, fault)
			}
		}

		r := newRig(t, Config{Arch: chip.Blackhole, Synchronous: true, Seed: 1, RefuseUnmapped: strict})
		v := r.worker(1, 2)
		r.run(v, onB().stw(0x40000, 5).stw(0xFFB12284, 7).stw(0x40000, 9).halt())
		refused(r, "store beyond the last debug register")
		if got := r.ld(v, 0x40000); !strict && got != 9 {
			t.Errorf("the program stopped at the store: %d", got)
		}

		r = newRig(t, Config{Arch: chip.Blackhole, Synchronous: true, Seed: 1, RefuseUnmapped: strict})
		start, end := r.worker(0, 0), r.worker(13, 9)
		for i, w := range []uint32{0, uint32(end.X)<<11 | uint32(end.Y)<<17 | uint32(start.X)<<23 | uint32(start.Y)<<29,
			uint32(start.Y)>>3 | 1<<5} {
			r.dev.BARStore(0, 0x1FC00000+12*7+uint64(4*i), 4, uint64(w))
		}
		r.dev.BARLoad(0, 7<<21+0x30000, 4)
		refused(r, "load through a multicast window")

		r = newRig(t, Config{Arch: chip.Blackhole, Synchronous: true, Seed: 1, RefuseUnmapped: strict})
		r.dev.BARStore(0, r.point(chip.XY{X: 15, Y: 15}, 0x1000), 4, 1)
		refused(r, "store to coordinates of no tile")

		for bar, words := range map[int][]uint32{0: {0, 0, 1 << 9}, 4: {0, 1 << 30, 0}} {
			r = newRig(t, Config{Arch: chip.Blackhole, Synchronous: true, Seed: 1, RefuseUnmapped: strict})
			v, window, off := r.worker(1, 2), 7, uint64(7<<21)
			words[1] |= (uint32(v.X) | uint32(v.Y)<<6) << 11
			if bar == 4 {
				window, off, words[1] = 202, 0, 1<<30|uint32(v.X)|uint32(v.Y)<<6
			}
			for i, w := range words {
				r.dev.BARStore(0, 0x1FC00000+12*uint64(window)+uint64(4*i), 4, uint64(w))
			}
			r.dev.BARStore(bar, off+0x30000, 4, 5)
			refused(r, "window with a static virtual channel")
			if got := r.ld(v, 0x30000); !strict && got != 5 {
				t.Errorf("a store through such a window left %d", got)
			}
		}

		r = newRig(t, Config{Arch: chip.Blackhole, Synchronous: true, Seed: 1, RefuseUnmapped: strict})
		scratch := uint64(r.params.BAR.ARCAPB) + 0x30068
		r.dev.BARStore(0, scratch, 4, 0x1234)
		got := r.dev.BARLoad(0, scratch, 4)
		if r.topo.PCIe(chip.NOC0).X != 11 {
			refused(r, "ARC registers in BAR 0 of a card that doesn't show them")
			if !strict && got != 0 {
				t.Errorf("an ARC register that BAR 0 doesn't show is %#x", got)
			}
		} else if inNOC := r.ld(r.topo.ARC(), 0x80030068); got != 0x1234 || inNOC != 0x1234 {
			t.Errorf("an ARC register is %#x in BAR 0 and %#x for the NoC after a store of 0x1234", got, inNOC)
		}

		r = newRig(t, Config{Arch: chip.Wormhole, Synchronous: true, Seed: 1, RefuseUnmapped: strict})
		v = r.worker(1, 2)
		p := binary.LittleEndian.AppendUint64(pattern(32, 3), 11)
		r.write(v, 0x40000000, p)
		if strict {
			refused(r, "store to 0x40000000 of a worker")
			continue
		}
		for _, addr := range []uint64{0, 0x40000000} {
			if got := r.read(v, addr, len(p)); !bytes.Equal(got, p) {
				t.Errorf("%#x of a worker after a store to its alias: %x, want %x", addr, got, p)
			}
		}
		r.healthy()
	}

	// Only workers get what a host multicasts, wherever the rectangle ends.
	for _, arch := range arches {
		for _, whole := range []bool{false, true} {
			if whole && arch == chip.Blackhole {
				continue // a rectangle of raw coordinates can't be written down
			}
			for _, strict := range []bool{false, true} {
				r := newRig(t, Config{Arch: arch, Synchronous: true, Seed: 1, RefuseUnmapped: strict})
				dram, eth := r.topo.DRAMBanks()[0].Endpoint[0], r.ethernet()
				start, end := dram, dram
				if whole {
					start, end = chip.XY{}, chip.XY{X: uint8(r.params.GridWidth - 1), Y: uint8(r.params.GridHeight - 1)}
				}
				const at = 0x30000
				for _, xy := range []chip.XY{dram, eth, r.worker(0, 0)} {
					r.st(xy, at, 1)
				}
				off := uint64(7<<21 + at)
				if arch == chip.Wormhole {
					off = 7<<20 + at
					r.dev.BARStore(0, 0x1FC00000+8*7, 8, uint64(end.X)<<16|uint64(end.Y)<<22|uint64(start.X)<<28|uint64(start.Y)<<34|1<<41)
				} else {
					for i, w := range []uint32{0, uint32(end.X)<<11 | uint32(end.Y)<<17 | uint32(start.X)<<23 | uint32(start.Y)<<29,
						uint32(start.Y)>>3 | 1<<5} {
						r.dev.BARStore(0, 0x1FC00000+12*7+uint64(4*i), 4, uint64(w))
					}
				}
				r.dev.BARStore(0, off, 4, 2)
				if fault := r.dev.Fault(); strict != (fault != nil) {
					t.Errorf("%v: a multicast to %v-%v, strict %v: fault %v", arch, start, end, strict, fault)
				}
				if strict {
					continue
				}
				worker := uint32(1)
				if whole {
					worker = 2
				}
				for name, c := range map[string]struct {
					xy   chip.XY
					want uint32
				}{"DRAM": {dram, 1}, "Ethernet": {eth, 1}, "a worker": {r.worker(0, 0), worker}} {
					equal(t, r.ld(c.xy, at), c.want, "%v: %s after a multicast to %v-%v", arch, name, start, end)
				}
			}
		}
	}

	// Elsewhere nothing changes.
	for _, c := range []struct {
		arch chip.Arch
		do   func(*rig, chip.XY)
	}{
		{chip.Blackhole, func(r *rig, v chip.XY) { r.ld(v, 0xFFB12284) }},
		{chip.Blackhole, func(r *rig, v chip.XY) { r.st(v, 0xFFB12100, 1) }},
		{chip.Wormhole, func(r *rig, v chip.XY) { r.run(v, onB().stw(0xFFB12284, 7).halt()) }},
		{chip.Wormhole, func(r *rig, v chip.XY) { r.run(v, onB().stw(0x40000000, 7).halt()) }},
		{chip.Wormhole, func(r *rig, v chip.XY) { r.write(v, 0x40000000+1464<<10-4, make([]byte, 8)) }},
		{chip.Blackhole, func(r *rig, v chip.XY) { r.write(v, 0x40000000, make([]byte, 8)) }},
	} {
		r := syncRig(t, c.arch)
		c.do(r, r.worker(1, 2))
		if r.c.Fault() == nil {
			t.Errorf("%v: an access to an unmapped address was accepted", c.arch)
		}
	}
}

// A host that clears L1 under processors loses them, not the chip, as tt-umd's tests do
// (TestRiscProgram). A tool's user is told.
func TestHostOverwritesCode(t *testing.T) {
	stops := func(r *rig, what string) {
		t.Helper()
		for deadline := time.Now().Add(20 * time.Second); r.dev.Fault() == nil; time.Sleep(50 * time.Microsecond) {
			if time.Now().After(deadline) {
				t.Fatalf("%v: %s: the chip goes on", r.arch, what)
			}
		}
	}
	for _, arch := range arches {
		for name, code := range map[string]func(a *asm) *asm{
			"waits":  func(a *asm) *asm { return a.halt() },
			"counts": func(a *asm) *asm { return a.li(a0, 0x20000).label("l").addi(a1, a1, 1).sw(a1, a0, 0).j("l") },
		} {
			for with, bytes := range map[string][]byte{"zeros": make([]byte, 0x40000), "ones": bytes.Repeat([]byte{0xFF}, 0x40000)} {
				for _, by := range []string{"host", "strict host", "tool"} {
					r := newRig(t, Config{Arch: arch, Seed: 1, RefuseUnmapped: by == "strict host"})
					v := r.worker(1, 2)
					r.run(v, code(newAsm(0x20).stw(0x30000, 7)))
					r.eventually("the program runs", func() bool { return r.ld(v, 0x30000) == 7 })
					if by == "tool" {
						expect.Must(t, r.c.Observe().WriteTile(v, 0, bytes))
					} else {
						r.write(v, 0, bytes)
					}
					if by != "host" {
						stops(r, "a processor that "+name+", "+with)
						continue
					}
					r.eventually("the processor stops", func() bool {
						cores := r.c.Cores()
						return len(cores) == 1 && strings.HasPrefix(cores[0].State, "lost")
					})
					r.st(v, 0xFFB121B0, 0x47800)
					r.run(v, newAsm(0x20).stw(0x30000, 9).halt())
					r.eventually("it runs after a reset", func() bool { return r.ld(v, 0x30000) == 9 })

					// Its own faults afterwards are refused as before.
					r.st(v, 0xFFB121B0, 0x47800)
					r.run(v, newAsm(0x800).stw(0x30000, 8))
					stops(r, "a program that runs through its end")
				}
			}
		}
	}
}
