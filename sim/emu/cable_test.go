package emu

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/internal/kabi"
	"github.com/reprise-tt/reprise/internal/seam"
	"github.com/reprise-tt/reprise/sim/driver"
	"github.com/reprise-tt/reprise/sim/ttsim"
	"github.com/reprise-tt/reprise/sim/ttsim/ttsimtest"
)

// cabled is two machines of one chip each, joined by cables as pair's chips are by links.
func cabled(t testing.TB, cfg Config) ([2]*Machine, [2]*rig) {
	t.Helper()
	var ms [2]*Machine
	var rs [2]*rig
	type sent struct {
		cable int
		s     Signal
	}
	var to [2]chan sent // by receiver
	var ids [2]Identity
	var wg sync.WaitGroup
	for i := range to {
		to[i] = make(chan sent, 1000) // more than can be under way
		ids[i] = Identity{Board: 0x140<<32 | 7, ASIC: uint64(i + 1), Location: uint8(i), X: uint8(i)}
	}
	channels := [2][2]int{{8, 9}, {0, 1}}
	for i := range ms {
		cfg := cfg
		cfg.Seed += uint64(i)
		cfg.Identity = ids[i]
		var cables []Cable
		for k, channel := range channels[i] {
			cables = append(cables, Cable{Channel: channel, Peer: ids[1-i], PeerChannel: channels[1-i][k],
				Send: func(s Signal) { to[1-i] <- sent{k, s} }})
		}
		var err error
		if ms[i], err = NewMachine([]Config{cfg}, nil, cables...); err != nil {
			t.Fatal(err)
		}
		rs[i] = rigOf(t, ms[i].Chip(0))
	}
	for i := range to {
		wg.Go(func() {
			for s := range to[i] {
				if err := ms[i].Receive(s.cable, s.s); err != nil {
					t.Error(err)
				}
			}
		})
	}
	t.Cleanup(func() {
		ms[0].Close()
		ms[1].Close()
		close(to[0])
		close(to[1])
		wg.Wait()
	})
	return ms, rs
}

func TestCable(t *testing.T) {
	for _, cfg := range []Config{{Seed: 3}, {Seed: 9, Delay: 50, RefuseUnwritten: true, RefuseStaleCode: true, RefuseRaces: true,
		RefuseCounters: true}} {
		for _, arch := range arches {
			cfg.Arch = arch
			_, rs := cabled(t, cfg)
			tx, rx := rs[0].eth(8), rs[1].eth(0)
			const parts = 3 * txWindow
			data := make([]byte, parts*64)
			for i := range data {
				data[i] = byte(i * 7)
			}
			rs[0].write(tx, 0x30000, data)
			rs[0].write(tx, 0x31000, append([]byte{1}, make([]byte, 15)...))
			rs[1].write(rx, 0x32000, make([]byte, len(data)+0x1100))
			a := newAsm(ethCode)
			for i := range uint32(parts) {
				a.send(arch, 0, 0x30000+64*i, 0x32000+64*i, 64)
			}
			rs[1].release(rx, newAsm(ethCode).waitFor(0x33000, 1).li(a0, 0x32000+parts*64-4).lw(a1, a0, 0).li(a0, 0x33020).sw(a1,
				a0, 0).halt())
			rs[0].release(tx, a.send(arch, 0, 0x31000, 0x33000, 16).halt())
			rs[1].eventually("the receiver's answer", func() bool { return rs[1].ld(rx, 0x33020) != 0 })
			if got := rs[1].read(rx, 0x32000, len(data)); !bytes.Equal(got, data) {
				t.Errorf("%v: other bytes arrived than were sent", arch)
			}
			rs[0].healthy()
			rs[1].healthy()
		}
	}
}

func TestCableState(t *testing.T) {
	state := map[chip.Arch]uint64{chip.Wormhole: whTrained, chip.Blackhole: bhStatus + 4}
	up := map[chip.Arch]uint32{chip.Wormhole: 1, chip.Blackhole: 1}
	for _, arch := range arches {
		ms, rs := cabled(t, Config{Arch: arch})
		both := func(what string, want bool) {
			rs[0].eventually(what, func() bool {
				return (rs[0].ld(rs[0].eth(8), state[arch]) == up[arch]) == want &&
					(rs[1].ld(rs[1].eth(0), state[arch]) == up[arch]) == want
			})
		}
		both("links at first", true)
		must(t, ms[1].SetLink(0, 0, false))
		both("links that are down", false)
		must(t, ms[0].SetLink(0, 8, true))
		both("links that are up again", true)
	}
}

// A packet that arrives after its sender's reset gives no room twice; one that a receiver's reset
// loses gives room.
func TestCableReset(t *testing.T) {
	for _, arch := range arches {
		_, rs := cabled(t, Config{Arch: arch})
		for round := range 3 {
			tx, rx := rs[0].eth(8), rs[1].eth(0)
			rs[0].write(tx, 0x30000, bytes.Repeat([]byte{byte(round + 1)}, 16))
			rs[1].write(rx, 0x32000, make([]byte, 16))
			a := newAsm(ethCode).free(arch, 0) // of packets of the last round, of whose loss the sender learns late
			for range txWindow + 4 {
				a.send(arch, 0, 0x30000, 0x32000, 16)
			}
			rs[0].release(tx, a.halt())
			rs[1].eventually(fmt.Sprintf("the last packet of round %d, %v", round, arch),
				func() bool { return rs[1].ld(rx, 0x32000) == 0x01010101*uint32(round+1) })
			rs[0].st(tx, 0xFFB121B0, 0x1800) // its processors end
			rs[round%2].reset()
		}
		rs[0].healthy()
		rs[1].healthy()
	}
}

func TestCableRefusals(t *testing.T) {
	ms, _ := cabled(t, Config{Arch: chip.Blackhole})
	ok := Signal{Kind: SignalPacket, Copies: 1, Dest: 0x30000, Words: make([]uint32, 4)}
	for name, change := range map[string]func(*Signal){
		"kind":          func(s *Signal) { s.Kind = 99 },
		"no kind":       func(s *Signal) { s.Kind = 0 },
		"queue":         func(s *Signal) { s.Queue = 3 },
		"copies":        func(s *Signal) { s.Copies = 3 },
		"odd bytes":     func(s *Signal) { s.Words = s.Words[:3] },
		"odd address":   func(s *Signal) { s.Dest++ },
		"beyond L1":     func(s *Signal) { s.Dest = 512<<10 - 8&^15 + 16 },
		"overflow":      func(s *Signal) { s.Dest = 0xFFFFFFF0 },
		"register":      func(s *Signal) { s.Register = true },
		"register odd":  func(s *Signal) { s.Register, s.Words, s.Dest = true, s.Words[:1], 2 },
		"taken's queue": func(s *Signal) { *s = Signal{Kind: SignalTaken, Queue: 200} },
	} {
		s := ok
		change(&s)
		fails(t, ms[0].Receive(0, s), ErrConfig, "%s", name)
	}
	for _, i := range []int{-1, 2} {
		fails(t, ms[0].Receive(i, ok), ErrConfig, "cable %d", i)
	}
	send := func(Signal) {}
	for name, tc := range map[string]struct {
		cfg    Config
		cables []Cable
	}{
		"no channel":  {Config{}, []Cable{{Channel: 20, Send: send}}},
		"no chip":     {Config{}, []Cable{{Chip: 1, Send: send}}},
		"twice":       {Config{}, []Cable{{Send: send}, {Send: send}}},
		"no Send":     {Config{}, []Cable{{}}},
		"synchronous": {Config{Synchronous: true}, []Cable{{Send: send}}},
		"routing":     {Config{Arch: chip.Wormhole, Identity: Identity{Routing: true}}, []Cable{{Send: send}}},
	} {
		if tc.cfg.Arch == 0 {
			tc.cfg.Arch = chip.Blackhole
		}
		fails(t, second(NewMachine([]Config{tc.cfg}, nil, tc.cables...)), ErrConfig, "%s", name)
	}
}

type peerPair struct {
	rigs [2]*rig
	drv  *driver.Driver
	// at is each card's NoC address of the first MiB of L1 of the other one's worker (3,3).
	at [2]uint64
}

func (p *peerPair) target(i int) chip.XY { return p.rigs[i].worker(3, 3) }

// peersOf maps the BARs of two functions for each other, each with a window aimed at L1.
func peersOf(t *testing.T, rigs [2]*rig) *peerPair {
	t.Helper()
	p := &peerPair{rigs: rigs}
	var err error
	p.drv, err = driver.New(driver.Config{Arch: rigs[0].arch, Functions: []driver.Function{rigs[0].dev, rigs[1].dev}})
	must(t, err)
	var files [2]seam.File
	for i := range files {
		if files[i], err = p.drv.Node(i).Open(syscall.O_RDWR); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { files[i].Close() })
	}
	for i, r := range rigs {
		fd, err := files[1-i].(interface{ Descriptor() (int, error) }).Descriptor()
		must(t, err)
		in, base := kabi.MapPeerBarIn{PeerFD: uint32(fd), PeerBarLength: 1 << 20}, uint64(0)
		v := p.target(i)
		if r.arch == chip.Blackhole { // window 1
			in.PeerBarOffset = 2 << 20
			for k, w := range [3]uint32{0, uint32(v.X)<<11 | uint32(v.Y)<<17, 0} {
				r.dev.BARStore(0, 0x1FC00000+12+uint64(4*k), 4, uint64(w))
			}
		} else { // window 0
			base = r.params.PCI.NOCBase
			r.dev.BARStore(0, 0x1FC00000, 8, uint64(v.X)<<16|uint64(v.Y)<<22)
		}
		a := kabi.MapPeerBar{In: in}
		must(t, files[i].Ioctl(kabi.IoctlMapPeerBar, kabi.Bytes(&a)))
		p.at[i] = base + a.Out.DMAAddress
	}
	return p
}

func peerMachines(t *testing.T, f func(t *testing.T, p *peerPair)) {
	for _, arch := range arches {
		for name, cfg := range map[string]Config{
			"asynchronous": {}, "synchronous": {Synchronous: true}, "delayed": {Delay: 30}, "synchronous delayed": {Synchronous: true, Delay: 30},
			"checked": {Delay: 30, RefuseRaces: true, RefuseCounters: true}, "awake": {Awake: true},
		} {
			cfg.Arch, cfg.Seed = arch, 3
			t.Run(fmt.Sprintf("%v %s, apart", arch, name), func(t *testing.T) { f(t, peersOf(t, [2]*rig{newRig(t, cfg), newRig(t, cfg)})) })
			t.Run(fmt.Sprintf("%v %s, one machine", arch, name), func(t *testing.T) {
				_, rigs := pair(t, cfg)
				f(t, peersOf(t, rigs))
			})
		}
	}
}

// request makes worker v of card i read n bytes of the other card's L1, or write them there.
func (p *peerPair) request(i int, v chip.XY, ctrl uint32, own, there uint64, n int) {
	r := p.rigs[i]
	q := nocRequest{targ: p.at[i] + there, targXY: r.topo.PCIe(0), ret: own, retXY: v, ctrl: ctrl, len: uint32(n)}
	if ctrl != ctrlRead {
		q.targ, q.targXY, q.ret, q.retXY = q.ret, q.retXY, q.targ, q.targXY
	}
	r.issue(v, q)
}

func soon(t *testing.T, what string, f func()) {
	t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		f()
	}()
	select {
	case <-done:
	case <-time.After(60 * time.Second):
		panic(what + " never ends") // with all stacks; cleaning up would wait too
	}
}

// On a Synchronous machine all is done when the access that started it returns.
func TestPeersReachEachOther(t *testing.T) {
	peerMachines(t, func(t *testing.T, p *peerPair) {
		soon(t, "an access", func() {
			for i, r := range p.rigs {
				v, there := r.worker(0, 0), p.rigs[1-i]
				data := pattern(1000, uint64(i))
				r.write(v, 0x40000, data)
				p.request(i, v, ctrlWriteNP, 0x40000, 0x50000, 1000)
				got := func() []byte { return there.read(p.target(1-i), 0x50000, 1000) }
				if r.c.cfg.Synchronous {
					if !bytes.Equal(got(), data) {
						t.Errorf("card %d: the write isn't there when its start returns", i)
					}
				}
				there.eventually("a write of a peer", func() bool { return bytes.Equal(got(), data) })

				data = pattern(1000, 7)
				there.write(p.target(1-i), 0x60000, data)
				before := r.counter(v, chip.NOC0, cntReadResp)
				p.request(i, v, ctrlRead, 0x70000, 0x60000, 1000)
				answered := func() bool { return r.counter(v, chip.NOC0, cntReadResp) == before+1 }
				if r.c.cfg.Synchronous && !answered() {
					t.Errorf("card %d: the answer isn't there when the start of the read returns", i)
				}
				r.eventually("an answer of a peer", answered)
				if !bytes.Equal(r.read(v, 0x70000, 1000), data) {
					t.Errorf("card %d: what it read isn't what its peer has", i)
				}
				equal(t, r.counter(v, chip.NOC0, cntOutstanding), 0, "card %d: unanswered requests", i)
				r.healthy()
				there.healthy()
			}
		})
	})
}

// Kernels that access each other in a loop hold neither card up, nor its end.
func TestPeersBothWays(t *testing.T) {
	for _, ctrl := range []uint32{ctrlWriteNP, ctrlRead} {
		for _, arch := range arches {
			p := peersOf(t, [2]*rig{newRig(t, Config{Arch: arch, Seed: 1}), newRig(t, Config{Arch: arch, Seed: 2})})
			for i, r := range p.rigs {
				v := r.worker(0, 0)
				q := nocRequest{targ: 0x40000, targXY: v, ret: p.at[i] + 0x50000, retXY: r.topo.PCIe(0), ctrl: ctrl, len: 64}
				if ctrl == ctrlRead {
					q.targ, q.targXY, q.ret, q.retXY = q.ret, q.retXY, q.targ, q.targXY
				}
				a := onB()
				for _, w := range q.stores(arch) {
					a.stw(w[0], w[1])
				}
				// A reader waits for the answer, in a2 the number of the last one.
				a.li(a0, 0x20000).li(a1, 0).li(a2, 1).li(t0, niu0Base+layoutOf(arch).cmd).li(t1, 1).li(a3,
					niu0Base+0x200+4*cntReadResp).label("loop")
				if ctrl == ctrlRead {
					a.label("wait").lw(a4, a3, 0).bltu(a4, a2, "wait").addi(a2, a2, 1)
				}
				r.run(v, a.sw(t1, t0, 0).addi(a1, a1, 1).sw(a1, a0, 0).j("loop"))
			}
			soon(t, "the loop", func() {
				var wg sync.WaitGroup
				for _, r := range p.rigs {
					wg.Go(func() {
						for range 200 {
							r.ld(r.worker(0, 0), 0x20000)
						}
						r.eventually("requests", func() bool { return r.ld(r.worker(0, 0), 0x20000) > 100 })
					})
				}
				wg.Wait()
			})
			soon(t, "the end", func() {
				for _, r := range p.rigs {
					r.healthy()
					r.c.Close()
				}
			})
		}
	}
}

func TestPeersWriteInOrder(t *testing.T) {
	p := peersOf(t, [2]*rig{newRig(t, Config{Arch: chip.Blackhole, Seed: 1}), newRig(t, Config{Arch: chip.Blackhole, Seed: 2})})
	r, v := p.rigs[0], p.rigs[0].worker(0, 0)
	there := p.rigs[1]
	for i := range uint32(300) {
		r.st(v, 0x40000, i)
		r.st(v, 0x40040, ^i)
		p.request(0, v, ctrlWriteNP, 0x40000, 0x50000, 64)
		p.request(0, v, ctrlWriteNP, 0x40040, 0x58000, 64)
		there.eventually("the second write", func() bool { return there.ld(p.target(1), 0x58000) == ^i })
		if got := there.ld(p.target(1), 0x50000); got != i {
			t.Fatalf("the first write has %d when the second one is there, want %d", got, i)
		}
	}
}

func TestPeersAndHostInOrder(t *testing.T) {
	r := newRig(t, Config{Arch: chip.Blackhole})
	v := r.worker(3, 3)
	at := r.point(v, 0x50000)
	word := func(w uint32) []byte { return binary.LittleEndian.AppendUint32(nil, w) }
	r.c.acquire() // so that stores wait
	taken := 0
	for i := range uint64(4) {
		r.c.BARStore(0, at+4*i, 4, 1)
		r.c.PeerWrite(0, at+4*i, word(2), func() { taken++ })
		if i&1 != 0 {
			r.c.BARStore(0, at+4*i, 4, 3)
		}
	}
	var read []byte
	r.c.PeerRead(0, at, 16, func(p []byte) { read = p })
	r.c.BARStore(0, at, 4, 4)
	r.c.takePosted()
	r.c.release()
	want := append(append(append(word(2), word(3)...), word(2)...), word(3)...)
	if taken != 4 || !bytes.Equal(read, want) {
		t.Errorf("%d writes taken, and %x between two stores; want 4 and %x", taken, read, want)
	}
	equal(t, r.ld(v, 0x50000), 4, "the word after the last store")
}

// A card whose peer takes nothing stops before it fills memory, and goes on when the peer does.
func TestPeerThatTakesNothing(t *testing.T) {
	p := peersOf(t, [2]*rig{newRig(t, Config{Arch: chip.Blackhole}), newRig(t, Config{Arch: chip.Blackhole})})
	r, v, there := p.rigs[0], p.rigs[0].worker(0, 0), p.rigs[1]
	q := nocRequest{targ: 0x40000, targXY: v, ret: p.at[0] + 0x50000, retXY: r.topo.PCIe(0), ctrl: ctrlWriteNP, len: 4096}
	a := onB()
	for _, w := range q.stores(r.arch) {
		a.stw(w[0], w[1])
	}
	there.c.acquire()
	r.run(v, a.li(t0, niu0Base+layoutOf(r.arch).cmd).li(t1, 1).label("loop").sw(t1, t0, 0).j("loop"))
	r.eventually("a card that stops", func() bool {
		before := r.c.Retired(r.raw(v), chip.BRISC)
		time.Sleep(5 * time.Millisecond)
		return before > 100 && r.c.Retired(r.raw(v), chip.BRISC) == before
	})
	before, posted := r.c.Retired(r.raw(v), chip.BRISC), r.c.pcie.peers.Posted()
	if most := int64(maxPosted + maxSlice/2*4096); posted <= maxPosted || posted > most {
		t.Errorf("%d bytes are under way, want more than %d and at most %d", posted, maxPosted, most)
	}
	done := make(chan []byte, 1)
	r.c.PeerRead(0, 2<<20+0x60000, 16, func(p []byte) { done <- p })
	soon(t, "an answer of the card that stopped", func() { <-done })
	there.c.release()
	r.eventually("a card that goes on", func() bool { return r.c.Retired(r.raw(v), chip.BRISC) > before+1000 })
	r.healthy()
	there.healthy()
}

func TestPeerThatStopped(t *testing.T) {
	for _, closed := range []bool{true, false} {
		for _, synchronous := range []bool{true, false} {
			cfg := Config{Arch: chip.Blackhole, Synchronous: synchronous}
			p := peersOf(t, [2]*rig{newRig(t, cfg), newRig(t, cfg)})
			r, v := p.rigs[0], p.rigs[0].worker(0, 0)
			if closed {
				p.rigs[1].c.Close()
			} else {
				p.rigs[1].c.BARLoad(2, 0x7FFFF0, 4)
				p.rigs[1].refused(undefined)
			}
			p.request(0, v, ctrlWriteNP, 0x40000, 0x50000, 64)
			p.request(0, v, ctrlRead, 0x70000, 0x50000, 64)
			r.eventually("an answer", func() bool { return r.counter(v, chip.NOC0, cntReadResp) == 1 })
			if got := r.read(v, 0x70000, 64); !bytes.Equal(got, bytes.Repeat([]byte{0xFF}, 64)) {
				t.Errorf("closed %t: the card read %x", closed, got)
			}
			r.healthy()
			equal(t, r.c.pcie.peers.Posted(), 0, "closed %t: bytes under way forever", closed)
		}
	}
}

func TestPeerAnswersBehindReset(t *testing.T) {
	p := peersOf(t, [2]*rig{newRig(t, Config{Arch: chip.Blackhole}), newRig(t, Config{Arch: chip.Blackhole})})
	r, v := p.rigs[0], p.rigs[0].worker(0, 0)
	p.rigs[1].write(p.target(1), 0x50000, pattern(64, 1))
	p.rigs[1].c.acquire()
	p.request(0, v, ctrlRead, 0x70000, 0x50000, 64)
	if n := r.counter(v, chip.NOC0, cntReadStarted); n != 1 {
		t.Fatalf("%d reads started", n)
	}
	r.reset()
	p.rigs[1].c.release()
	p.rigs[1].ld(p.target(1), 0x50000)
	p.request(0, v, ctrlRead, 0x71000, 0x50000, 64)
	r.eventually("the new answer", func() bool { return r.counter(v, chip.NOC0, cntReadResp) == 1 })
	if !bytes.Equal(r.read(v, 0x70000, 64), make([]byte, 64)) || !bytes.Equal(r.read(v, 0x71000, 64), pattern(64, 1)) {
		t.Error("the answer from before the reset is there, or the one after it isn't")
	}
	r.healthy()
}

func TestHostReadsNoPeer(t *testing.T) {
	p := peersOf(t, [2]*rig{syncRig(t, chip.Blackhole), syncRig(t, chip.Blackhole)})
	r := p.rigs[0]
	r.st(r.topo.PCIe(chip.NOC0), p.at[0]+0x50000, 77)
	equal(t, p.rigs[1].ld(p.target(1), 0x50000), 77, "the host's write to the peer")
	r.ld(r.topo.PCIe(chip.NOC0), p.at[0]+0x50000)
	if f := r.refused(undefined); !strings.Contains(f.Detail, "let the peer write") {
		t.Errorf("refused with %q", f.Detail)
	}
	var de *driver.DMAError
	if err := r.c.pcie.host.ReadHost(p.at[0], make([]byte, 4)); !errors.As(err, &de) {
		t.Errorf("the driver's error is %v", err)
	}
}

// A read from a peer stops the library, which would have to give the answer itself.
func TestPeersOfTTSim(t *testing.T) {
	s, err := ttsim.Start(ttsimtest.Path(t, ttsimtest.BlackholeX2), ttsimtest.Server())
	must(t, err)
	t.Cleanup(func() { s.Close() })
	topo, err := chip.New(chip.Blackhole, chip.Harvesting{})
	must(t, err)
	var rigs [2]*rig
	for i, f := range s.Functions() {
		rigs[i] = &rig{t, nil, f, func() {}, chip.Blackhole, topo, chip.Blackhole.Params()}
	}
	p := peersOf(t, rigs)
	soon(t, "a write", func() {
		// Only one of them runs: the library doesn't say which of its chips accesses host memory.
		r, v, to := rigs[0], rigs[0].worker(0, 0), p.target(1)
		q := nocRequest{targ: 0x40000, targXY: v, ret: p.at[0] + 0x50000, retXY: r.topo.PCIe(0), ctrl: ctrlWriteNP, len: 4096}
		a := onB()
		for _, w := range q.stores(r.arch) {
			a.stw(w[0], w[1])
		}
		a.li(t0, niu0Base+layoutOf(r.arch).cmd).li(t1, 1).li(a0, niu0Base+0x200+4*cntWriteAck).li(a1, 0x40000).li(a2, 0).label("loop")
		a.addi(a2, a2, 1).sw(a2, a1, 0).lw(a3, a1, 0).sw(t1, t0, 0).label("wait").lw(a3, a0, 0).bltu(a3, a2, "wait")
		r.run(v, a.j("loop"))
		var wg sync.WaitGroup
		for _, r := range rigs {
			at := r.point(r.worker(0, 0), 0)
			wg.Go(func() {
				for range 100 {
					r.dev.BARWrite(0, at+0x60000, make([]byte, 512<<10))
				}
			})
			wg.Go(func() {
				for range 1000 {
					r.dev.BARLoad(0, at+0x60000, 4)
				}
			})
		}
		wg.Wait()
		n := rigs[1].ld(to, 0x50000)
		r.eventually("more writes of a peer", func() bool { return rigs[1].ld(to, 0x50000) > n+10 })
		r.st(v, 0xFFB121B0, 0x47800)
	})
	soon(t, "a read", func() {
		v := rigs[0].worker(0, 0)
		rigs[1].write(p.target(1), 0x50000, pattern(64, 1))
		p.request(0, v, ctrlRead, 0x40000, 0x50000, 64)
		for s.Fault() == nil {
			if bytes.Equal(rigs[0].read(v, 0x40000, 64), pattern(64, 1)) {
				t.Error("the read was answered")
				return
			}
		}
		var de *driver.DMAError
		if err := s.Fault(); !errors.As(err, &de) || de.Write || de.Size != 64 {
			t.Errorf("the device stopped with %v", err)
		}
	})
	soon(t, "the end", func() { s.Close() })
}
