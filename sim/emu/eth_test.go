package emu

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/sim/emu/internal/word"
	"github.com/reprise-tt/reprise/sim/ttsim"
	"github.com/reprise-tt/reprise/sim/ttsim/ttsimtest"
)

// machineOf is a machine of chips with links; rigs are of the chips.
func machineOf(t testing.TB, cfgs []Config, links ...Link) (m *Machine, rigs []*rig) {
	t.Helper()
	m = value(NewMachine(cfgs, links))(t)
	t.Cleanup(func() { m.Close() })
	for i := range cfgs {
		rigs = append(rigs, rigOf(t, m.Chip(i)))
	}
	return m, rigs
}

// pair is two chips with two links: channels 8 and 9 of chip 0 to 0 and 1 of chip 1.
func pair(t testing.TB, cfg Config) (*Machine, [2]*rig) {
	t.Helper()
	cfgs := []Config{cfg, cfg}
	for i := range cfgs {
		cfgs[i].Seed += uint64(i)
		cfgs[i].Identity = Identity{Board: 0x140<<32 | 7, ASIC: uint64(i + 1), Location: uint8(i), X: uint8(i), Routing: true}
	}
	m, rs := machineOf(t, cfgs, Link{0, 8, 1, 0}, Link{0, 9, 1, 1})
	return m, [2]*rig(rs)
}

// row is n Wormholes in a row, channel 8 of each linked to channel 0 of the next.
func row(t testing.TB, n int, cfg Config) (*Machine, []*rig) {
	t.Helper()
	var cfgs []Config
	var links []Link
	for i := range n {
		cfg.Arch, cfg.Identity = chip.Wormhole, Identity{Board: 0x140<<32 | 7, ASIC: uint64(i + 1), X: uint8(i), Routing: true}
		if cfgs = append(cfgs, cfg); i > 0 {
			links = append(links, Link{i - 1, 8, i, 0})
		}
	}
	return machineOf(t, cfgs, links...)
}

// gateway is the first chip of a row, through which the host reaches the others.
type gateway struct {
	*rig
	at   chip.XY
	asks uint32
}

func newGateway(r *rig) *gateway { return &gateway{r, r.eth(8), 0} }

// put leaves a command of up to eight words, ask also lets the firmware carry it out.
func (g *gateway) put(words ...uint32) {
	for i, w := range words {
		g.st(g.at, remoteRequests+remoteCommands+uint64(g.asks%4)*32+4*uint64(i), w)
	}
	g.asks++
}

func (g *gateway) ask(words ...uint32) {
	g.put(words...)
	g.st(g.at, remoteRequests+remoteWrite, g.asks&7)
}

func (g *gateway) written() uint32 { return g.ld(g.at, remoteRequests+remoteWritten) }
func (g *gateway) answers() uint32 { return g.ld(g.at, remoteResponses+remoteWrite) }
func (g *gateway) answer(i uint32) uint32 {
	return g.ld(g.at, remoteResponses+remoteCommands+uint64(i%4)*32+8)
}

// remoteAt is an address of a tile of chip x of a row, in two words of a command.
func remoteAt(x int, v chip.XY, addr uint64) (lo, hi uint32) {
	return uint32(addr), uint32(addr>>32) | uint32(v.X)<<4 | uint32(v.Y)<<10 | uint32(x)<<16
}

func (r *rig) eth(channel int) chip.XY {
	return r.c.eths[channel].xy
}

// release lets the processor of an Ethernet tile run code.
func (r *rig) release(v chip.XY, a *asm) {
	r.write(v, uint64(a.base), a.bytes())
	if r.arch == chip.Wormhole {
		r.st(v, 0xFFB121B0, 0x800)
		r.write(v, 0, newAsm(0).emit(jtype(x0, int32(a.base))).bytes())
		r.st(v, 0xFFB121B0, 0)
		return
	}
	r.st(v, 0xFFB121B0, 0x1800)
	r.st(v, 0xFFB14000, a.base)
	r.st(v, 0xFFB121B0, 0x1000)
}

const ethCode = 0x20000

// send makes code that sends n bytes through queue q and waits until the queue is free.
func (a *asm) send(arch chip.Arch, q int, from, to, n uint32) *asm {
	base := uint32(0xFFB90000 + q<<12)
	return a.stw(base+0x14, from).stw(base+0x18, n).stw(base+0x1C, to).stw(base+4, 2).free(arch, q)
}

func (a *asm) free(arch chip.Arch, q int) *asm {
	wait := fmt.Sprintf("free%d", len(a.w))
	return a.li(t0, uint32(txBusy(arch))+uint32(q)<<12).label(wait).lw(t1, t0, 0).bne(t1, x0, wait)
}

// txBusy isn't 0 while transmit queue 0 takes no command.
func txBusy(arch chip.Arch) uint64 {
	if arch == chip.Blackhole {
		return ethTxBase + ethTxStatus
	}
	return ethTxBase + ethTxCmd
}

func (a *asm) waitFor(addr, v uint32) *asm {
	l := fmt.Sprintf("wait%d", len(a.w))
	return a.li(t0, addr).li(t2, v).label(l).lw(t1, t0, 0).bne(t1, t2, l)
}

var ethConfigs = map[string]Config{
	"synchronous": {Synchronous: true, Seed: 3},
	"running":     {Seed: 3},
	"delayed":     {Synchronous: true, Seed: 5, Delay: 200},
	"strict": {Synchronous: true, Seed: 9, Delay: 50, RefuseUnwritten: true, RefuseStaleCode: true, RefuseRaces: true,
		RefuseCounters: true},
}

// Data and register writes of a queue arrive in order.
func TestEthernetDataThenFlag(t *testing.T) {
	for name, cfg := range ethConfigs {
		for _, arch := range arches {
			t.Run(name+"/"+arch.String(), func(t *testing.T) {
				cfg.Arch = arch
				_, rs := pair(t, cfg)
				tx, rx := rs[0].eth(8), rs[1].eth(0)
				data := bytes.Repeat([]byte("0123456789abcdef"), 256)
				rs[0].write(tx, 0x30000, data)
				rs[0].write(tx, 0x31000, append([]byte{1}, make([]byte, 15)...))
				rs[1].write(rx, 0x32000, make([]byte, 4096+64))
				rs[1].release(rx, newAsm(ethCode).waitFor(0x33000, 1).li(a0, 0x32ff0).lw(a1, a0, 0).li(a0, 0x33020).sw(a1, a0, 0).halt())
				rs[0].release(tx, newAsm(ethCode).send(arch, 0, 0x30000, 0x32000, 4096).send(arch, 0, 0x31000, 0x33000, 16).halt())
				rs[1].eventually("the receiver's answer", func() bool { return rs[1].ld(rx, 0x33020) != 0 })
				if got := rs[1].read(rx, 0x32000, 4096); !bytes.Equal(got, data) {
					t.Error("other bytes arrived than were sent")
				}
				rs[0].healthy()
				rs[1].healthy()
			})
		}
	}
}

// A strict chip refuses a command to a queue that wasn't seen ready, ready or not.
func TestEthernetCommandUnseen(t *testing.T) {
	for _, arch := range arches {
		for _, asks := range []bool{true, false} {
			_, rs := pair(t, Config{Arch: arch, Synchronous: true, RefuseRaces: true})
			tx, rx := rs[0].eth(8), rs[1].eth(0)
			rs[0].write(tx, 0x30000, bytes.Repeat([]byte{7}, 16))
			a := newAsm(ethCode)
			for range 2 {
				if asks {
					a.send(arch, 0, 0x30000, 0x32000, 16)
				} else {
					a.stw(0xFFB90014, 0x30000).stw(0xFFB90018, 16).stw(0xFFB9001C, 0x32000).stw(0xFFB90004, 2)
				}
			}
			rs[0].release(tx, a.halt())
			if asks {
				rs[1].eventually("the packet", func() bool { return rs[1].ld(rx, 0x32000) != 0 })
				rs[0].healthy()
			} else {
				if r := rs[0].refused(undefined); !strings.Contains(r.Error(), "may still be busy") {
					t.Error(r)
				}
			}
		}
	}
}

func TestEthernetRemoteRegister(t *testing.T) {
	for _, arch := range arches {
		_, rs := pair(t, Config{Arch: arch, Synchronous: true, Delay: 30})
		tx := rs[0].eth(9)
		rs[0].release(tx, newAsm(ethCode).stw(0xFFB90000+0x1C, 0x34000).stw(0xFFB90000+0x44, 77).stw(0xFFB90004, 4).halt())
		equal(t, rs[1].ld(rs[1].eth(1), 0x34000), 77, "%v: what arrived", arch)
		rs[0].healthy()
	}
}

// A Synchronous machine repeats its run.
func TestEthernetPingPong(t *testing.T) {
	for _, arch := range arches {
		for _, cfg := range []Config{{Arch: arch, Seed: 1}, {Arch: arch, Seed: 2, Synchronous: true, Delay: 40}} {
			var retired [2][2]uint64
			for run := range retired {
				_, rs := pair(t, cfg)
				const rounds = 200
				ends := [2]chip.XY{rs[0].eth(8), rs[1].eth(0)}
				for i, r := range rs {
					r.write(ends[i], 0x30000, make([]byte, 64))
				}
				for i, r := range rs {
					a := newAsm(ethCode).li(s0, 0).li(s1, rounds).li(a0, 0x30000).li(a1, 0x30020).label("round").addi(s0, s0, 1)
					take := func() { a.label("take").lw(t1, a0, 0).bne(t1, s0, "take") }
					if i == 1 {
						take()
					}
					a.sw(s0, a1, 0).lw(t1, a1, 0).send(arch, 0, 0x30020, 0x30000, 16)
					if i == 0 {
						take()
					}
					r.release(ends[i], a.bne(s0, s1, "round").li(a0, 0x30030).sw(s0, a0, 0).halt())
				}
				rs[0].eventually("the last round", func() bool { return rs[0].ld(ends[0], 0x30030) == rounds })
				for i, r := range rs {
					retired[run][i] = r.c.Retired(ends[i], chip.ERISC0)
				}
			}
			if cfg.Synchronous && retired[0] != retired[1] {
				t.Errorf("%v: two runs of one seed executed %v and %v instructions", arch, retired[0], retired[1])
			}
		}
	}
}

// A link that goes down loses what is under way and keeps the queue busy until it is up again.
func TestEthernetLinkGoesDown(t *testing.T) {
	for _, arch := range arches {
		m, rs := pair(t, Config{Arch: arch, Synchronous: true})
		tx, rx := rs[0].eth(8), rs[1].eth(0)
		state := uint64(0x1104)
		want := [2]uint32{1, 2} // up, down
		if arch == chip.Blackhole {
			state = 0x7CC04
		}
		equal(t, rs[1].ld(rx, state), want[0], "%v: link state", arch)
		must(t, m.SetLink(0, 8, false))
		for i, v := range []uint32{rs[0].ld(tx, state), rs[1].ld(rx, state)} {
			equal(t, v, want[1], "%v: chip %d says link state", arch, i)
		}
		rs[0].write(tx, 0x30000, []byte("sixteen bytes..."))
		rs[0].release(tx, newAsm(ethCode).send(arch, 0, 0x30000, 0x32000, 16).stw(0x30020, 1).halt())
		if rs[0].ld(tx, txBusy(arch)) == 0 || rs[0].ld(tx, 0x30020) != 0 || rs[1].ld(rx, 0x32000) != 0 {
			t.Errorf("%v: something was sent over a link that is down", arch)
		}
		must(t, m.SetLink(1, 0, true))
		if got := rs[1].read(rx, 0x32000, 16); string(got) != "sixteen bytes..." || rs[0].ld(tx, 0x30020) != 1 {
			t.Errorf("%v: %q arrived after the link came up", arch, got)
		}
		fails(t, m.SetLink(0, 3, false), ErrConfig, "a link that isn't there")
	}
}

// Dropped packets are sent again, unless all are dropped, and then the queue stands still.
func TestEthernetFaults(t *testing.T) {
	for _, tt := range []struct {
		name   string
		faults LinkFaults
		min    uint32
		max    uint32
	}{
		{"dropped", LinkFaults{Drop: 2, By: 500}, 100, 100},
		{"lost", LinkFaults{Drop: 1}, 0, 0},
		{"doubled", LinkFaults{Duplicate: 2}, 120, 180},
		{"late", LinkFaults{Delay: 2, By: 500}, 100, 100},
	} {
		m, rs := pair(t, Config{Arch: chip.Blackhole, Synchronous: true, Seed: 4})
		must(t, m.SetLinkFaults(0, 8, tt.faults))
		tx, rx := rs[0].eth(8), rs[1].eth(0)
		// Each packet adds 1 to a stream's counter of the other tile.
		space := uint32(streamBase + 0x438)
		rs[0].release(tx, newAsm(ethCode).li(s0, 100).label("again").
			stw(0xFFB90000+0x1C, space).stw(0xFFB90000+0x44, 1<<6).stw(0xFFB90004, 4).
			li(t0, uint32(txBusy(chip.Blackhole))).label("busy").lw(t1, t0, 0).bne(t1, x0, "busy").
			addi(s0, s0, -1).bne(s0, x0, "again").stw(0x30000, 1).halt())
		if tt.faults.Drop == 1 {
			rs[0].eventually("the queue stands still", func() bool { return rs[0].ld(tx, uint64(txBusy(chip.Blackhole)))&(1<<16) != 0 })
			equal(t, rs[0].ld(tx, 0x30000), 0, "%s: whether all are sent", tt.name)
		} else {
			rs[0].eventually("all are sent", func() bool { return rs[0].ld(tx, 0x30000) == 1 })
			rs[1].eventually("all have arrived", func() bool { return rs[1].ld(rx, uint64(streamBase+0x4A4))&streamMask >= tt.min })
		}
		if got := rs[1].ld(rx, uint64(streamBase+0x4A4)) & streamMask; got < tt.min || got > tt.max {
			t.Errorf("%s: %d packets of 100 arrived, want %d to %d", tt.name, got, tt.min, tt.max)
		}
		rs[1].healthy()
	}
}

// What ttsim refuses of a transmit queue is refused.
func TestEthernetRefuses(t *testing.T) {
	for _, arch := range arches {
		last := len(rsQueues(arch)) - 1
		for _, tt := range []struct {
			name    string
			channel int
			code    *asm
			want    Category
		}{
			{"no link", 3, newAsm(ethCode).stw(0xFFB90004, 2), unimplemented},
			{"command", 8, newAsm(ethCode).stw(0xFFB90004, 1), unimplemented},
			{"alignment", 8, newAsm(ethCode).stw(0xFFB90014, 4).stw(0xFFB90018, 16).stw(0xFFB90004, 2), unimplemented},
			{"size", 8, newAsm(ethCode).stw(0xFFB90018, 8).stw(0xFFB90004, 2), unimplemented},
			{"beyond L1", 8, newAsm(ethCode).stw(0xFFB90018, 0x100000).stw(0xFFB90004, 2), undefined},
			{"register", 8, newAsm(ethCode).stw(0xFFB9001C, 2).stw(0xFFB90004, 4), unimplemented},
			{"register, data queue", 8, newAsm(ethCode).stw(uint32(0xFFB90004+last<<12), 4), unimplemented},
			{"unmapped", 8, newAsm(ethCode).stw(0xFFBB0000, 4), unimplemented},
			{"Tensix instruction", 8, newAsm(ethCode).emit(0x02000000), undefined},
		} {
			_, rs := pair(t, Config{Arch: arch, Synchronous: true})
			v := rs[0].eth(tt.channel)
			rs[0].release(v, tt.code.halt())
			var r *Refusal
			if !errors.As(rs[0].c.Fault(), &r) || r.Category != tt.want || !r.HasCore || r.Core != chip.ERISC0 {
				t.Errorf("%v: %s: %v, want %v", arch, tt.name, rs[0].c.Fault(), tt.want)
			}
		}
	}
}

func rsQueues(a chip.Arch) []int {
	if a == chip.Wormhole {
		return make([]int, 2)
	}
	return make([]int, 3)
}

func TestEthernetProcessorUsesNOC(t *testing.T) {
	for _, arch := range arches {
		_, rs := pair(t, Config{Arch: arch, Synchronous: true, RefuseRaces: true, Delay: 20})
		r := rs[0]
		v, w := r.eth(8), r.raw(r.worker(3, 3))
		r.write(v, 0x30000, []byte("0123456789abcdef"))
		l := r.c.layout
		buf := uint32(niu0Base)
		a := newAsm(ethCode)
		coord := func(xy chip.XY) uint32 { return uint32(xy.X) | uint32(xy.Y)<<6 }
		if arch == chip.Wormhole {
			a.stw(buf+4, coord(v)<<4).stw(buf+0x10, coord(w)<<4)
		} else {
			a.stw(buf+8, coord(v)).stw(buf+0x14, coord(w))
		}
		a.stw(buf, 0x30000).stw(buf+0xC, 0x1000).stw(buf+0x1C, ctrlWrite|ctrlMarked).stw(buf+0x20, 16).stw(buf+l.cmd, 1).halt()
		r.release(v, a)
		if got := r.read(r.worker(3, 3), 0x1000, 16); string(got) != "0123456789abcdef" {
			t.Errorf("%v: %q arrived; %v", arch, got, r.c.Fault())
		}
	}
}

// As tt-metal launches applications.
func TestEthernetLaunch(t *testing.T) {
	_, rs := pair(t, Config{Arch: chip.Wormhole, Synchronous: true})
	v := rs[0].eth(8)
	rs[0].write(v, 0x9040, newAsm(0x9040).stw(0x30000, 5).halt().bytes())
	rs[0].st(v, 0x9004, 1)
	if got := rs[0].ld(v, 0x30000); got != 5 {
		t.Errorf("Wormhole: %d, want 5; %v", got, rs[0].c.Fault())
	}
	_, rs = pair(t, Config{Arch: chip.Blackhole, Synchronous: true})
	v = rs[0].eth(8)
	rs[0].write(v, ethCode, newAsm(ethCode).stw(0x30000, 6).halt().bytes())
	rs[0].st(v, 0x7D004, ethCode)
	rs[0].st(v, 0x7D000, 0xCA110002)
	if got, done := rs[0].ld(v, 0x30000), rs[0].ld(v, 0x7D000); got != 6 || done != 0xD0E50002 {
		t.Errorf("Blackhole: %d and answer %#x; %v", got, done, rs[0].c.Fault())
	}
}

func TestEthernetSaysItsName(t *testing.T) {
	for _, cfg := range []Config{
		{Arch: chip.Wormhole}, {Arch: chip.Blackhole},
		{Arch: chip.Blackhole, Harvesting: chip.Harvesting{Ethernet: 1<<2 | 1<<7}},
	} {
		cfg.Synchronous = true
		r := newRig(t, cfg)
		for raw := range r.topo.Tiles(chip.Ethernet) {
			if r.topo.Tile(raw).Harvested {
				continue
			}
			v, _ := r.topo.VirtualOf(raw)
			for noc := range uint64(2) {
				if got := r.ld(v, niu0Base+0x10000*noc+uint64(r.c.layout.logical)); got != v.Packed() {
					t.Errorf("%v, tile %v, NoC %d: it says %v, and is called %v", cfg.Arch, raw, noc, chip.UnpackXY(got), v)
				}
			}
		}
		r.healthy()
	}
}

// A reset is a link that goes down and comes up: the full queue of a neighbour is ready again.
func TestEthernetQueueAfterPeersReset(t *testing.T) {
	for name, cfg := range ethConfigs {
		for _, arch := range arches {
			t.Run(name+"/"+arch.String(), func(t *testing.T) {
				cfg.Arch = arch
				_, rs := pair(t, cfg)
				tx, rx := rs[0].eth(8), rs[1].eth(0)
				rs[0].write(tx, 0x30000, []byte("sixteen bytes..."))
				busy := func() bool { return rs[0].ld(tx, txBusy(arch)) != 0 }
				send := func() {
					rs[0].st(tx, ethTxBase+ethTxSource, 0x30000)
					rs[0].st(tx, ethTxBase+ethTxBytes, 16)
					rs[0].st(tx, ethTxBase+ethTxDest, 0x32000)
					rs[0].st(tx, ethTxBase+ethTxCmd, ethCmdData)
				}
				for range 2 { // what was lost counts only once
					rs[1].ld(rs[1].worker(0, 0), 0xFFB14000)
					rs[1].refused(unimplemented)
					for range txWindow { // a command that hasn't begun keeps the queue busy for a moment, too
						rs[0].eventually("the queue takes a packet", func() bool { return !busy() })
						send()
					}
					if !busy() {
						t.Fatalf("the queue to a chip that stopped takes more than %d packets", txWindow)
					}
					rs[1].reset()
					rs[0].eventually("the queue is ready", func() bool { return !busy() })
					if cfg.RefuseUnwritten {
						rs[1].write(rx, 0x32000, make([]byte, 16))
					}
					send()
					rs[1].eventually("the packet", func() bool { return rs[1].ld(rx, 0x32000) != 0 })
					if got := rs[1].read(rx, 0x32000, 16); string(got) != "sixteen bytes..." {
						t.Errorf("arrived: %q", got)
					}
					rs[0].eventually("the queue is ready again", func() bool { return !busy() })
				}
				rs[0].healthy()
				rs[1].healthy()
			})
		}
	}
}

// A gateway's firmware goes on when the chip that left a command unanswered was reset; the lost one
// reads all ones.
func TestRemoteAfterReset(t *testing.T) {
	for _, synchronous := range []bool{true, false} {
		_, rigs := row(t, 3, Config{Synchronous: synchronous})
		g := newGateway(rigs[0])
		ask := func(x int, addr uint64) {
			lo, hi := remoteAt(x, g.worker(0, 0), addr)
			g.ask(lo, hi, 0, remoteReadRequest)
		}
		for i, far := range []int{2, 1} {
			n := uint32(3 * i)
			ask(far, 0xFFB121B0)
			g.eventually("an answer", func() bool { return g.answers() == n+1 })
			ask(far, 0xFFB14000) // refused there
			g.eventually("the remote chip stops", func() bool { return rigs[far].c.Fault() != nil })
			equal(t, g.answers(), n+1, "answers of chip %d, which stopped", far)
			ask(far, 0xFFB121B0)
			rigs[far].reset()
			g.eventually("the answer to what waited", func() bool { return g.answers() == n+3 })
			for k, want := range []uint32{0x47800, 0xFFFFFFFF, 0x47800} {
				equal(t, g.answer(n+uint32(k)), want, "chip %d, answer %d", far, k)
			}
			g.healthy()
		}
	}
}

// remotePair is two linked Wormholes, the second one reached through the first, and host memory.
func remotePair(t *testing.T) (rigs []*rig, h *hostMemory) {
	t.Helper()
	_, rigs = row(t, 2, Config{Synchronous: true, Seed: 1})
	h = &hostMemory{base: 0x12_3456_0000, p: pattern(1<<17, 4)}
	rigs[0].c.AttachDMA(h)
	rigs[0].region(2, 0x40000, 0x5FFFF, h.base)
	return rigs, h
}

// As tt-umd transfers more than 1 KiB.
func TestRemoteBlocksInHostMemory(t *testing.T) {
	const (
		write, read = remoteWriteRequest | remoteData | remoteDataDRAM, remoteReadRequest | remoteData | remoteDataDRAM
		from, to    = 0x100, 0x10000
		unmapped    = 0x3800_0000
	)
	rigs, h := remotePair(t)
	g := newGateway(rigs[0])
	ask := func(flags, n, at uint32) {
		lo, hi := remoteAt(1, g.worker(0, 0), 0x40000)
		g.ask(lo, hi, n, flags, 0, 0, 0, at)
	}
	for i, n := range []uint32{4096, 32 << 10, 1028} {
		before := g.written()
		ask(write, n, 0x40000+from)
		g.eventually("the block is written", func() bool { return g.written() == before+1 })
		ask(read, n, 0x40000+to)
		g.eventually("an answer", func() bool { return g.answers() == uint32(i+1) })
		equal(t, g.ld(g.at, remoteResponses+remoteCommands+uint64(i)*32+12), remoteData|remoteReadData|remoteDataDRAM,
			"%d bytes: the answer has flags", n)
		if !bytes.Equal(h.p[to:to+n], h.p[from:from+n]) {
			t.Errorf("%d bytes are others after the way to the remote chip and back", n)
		}
	}
	// Unmapped memory is all ones, and takes nothing.
	before, here := g.written(), g.answers()
	ask(write, 2048, unmapped)
	g.eventually("all ones are written", func() bool { return g.written() == before+1 })
	ask(read, 2048, 0x40000)
	g.eventually("an answer", func() bool { return g.answers() == here+1 })
	if want := bytes.Repeat([]byte{0xFF}, 2048); !bytes.Equal(h.p[:2048], want) {
		t.Errorf("a block from memory that isn't mapped: %x and more, want all ones", h.p[:16])
	}
	ask(read, 2048, unmapped)
	g.eventually("an answer", func() bool { return g.answers() == here+2 })
	g.healthy()
	g.c.cfg.RefuseUnmapped = true
	ask(read, 2048, unmapped)
	g.refused(undefined)
	g.reset()
	g.asks = 0
	ask(read, 32<<10+4, 0x40000)
	g.refused(unimplemented)
}

// As tt-umd finds out: the processor isn't in reset, the heartbeat counts, version and place are
// known.
func TestEthernetFirmwareWithoutLink(t *testing.T) {
	for _, arch := range arches {
		r := newRig(t, Config{Arch: arch, Synchronous: true, Seed: 1, Identity: Identity{X: 1, Y: 2}})
		v := r.c.eths[0].xy
		heartbeat, version, want := uint64(whHeartbeat), uint64(whVersion), uint32(whEthVersion)
		if arch == chip.Blackhole {
			heartbeat, version, want = bhHeartbeat, bhVersion, bhEthVersion
		}
		if got := r.ld(v, 0xFFB121B0); got&0x800 != 0 {
			t.Errorf("%v: the reset register is %#x", arch, got)
		}
		if a, b := r.ld(v, heartbeat), r.ld(v, heartbeat); a == 0 || a == b {
			t.Errorf("%v: the heartbeat is %#x and %#x", arch, a, b)
		}
		equal(t, r.ld(v, version), want, "%v: firmware version", arch)
		if got := r.ld(v, whNodeInfo+8); arch == chip.Wormhole && got != 1<<16|2<<24 {
			t.Errorf("its place is %#x", got)
		}
		r.st(v, 0xFFB121B0, r.ld(v, 0xFFB121B0))
		r.healthy()
	}
}

func TestMachines(t *testing.T) {
	wh := Config{Arch: chip.Wormhole, Synchronous: true}
	for name, tt := range map[string]struct {
		cfgs  []Config
		links []Link
	}{
		"no chips":        {},
		"architectures":   {cfgs: []Config{wh, {Arch: chip.Blackhole, Synchronous: true}}},
		"synchronous":     {cfgs: []Config{wh, {Arch: chip.Wormhole}}},
		"harvesting":      {cfgs: []Config{{Arch: chip.Wormhole, Harvesting: chip.Harvesting{Ethernet: 1}}}},
		"no such chip":    {cfgs: []Config{wh}, links: []Link{{0, 0, 1, 0}}},
		"no such channel": {cfgs: []Config{wh, wh}, links: []Link{{0, 16, 1, 0}}},
		"channel twice":   {cfgs: []Config{wh, wh}, links: []Link{{0, 0, 1, 0}, {0, 0, 1, 1}}},
		"to itself":       {cfgs: []Config{wh}, links: []Link{{0, 0, 0, 0}}},
	} {
		fails(t, second(NewMachine(tt.cfgs, tt.links)), ErrConfig, "%s", name)
	}
	for _, arch := range arches {
		m, rs := pair(t, Config{Arch: arch})
		v := rs[0].eth(8)
		rs[0].st(v, 0x30000, 5)
		rs[1].st(rs[1].eth(0), 0x30000, 6)
		must(t, m.Chip(0).Reset())
		if a, b := rs[0].ld(v, 0x30000), rs[1].ld(rs[1].eth(0), 0x30000); a != 0 || b != 6 {
			t.Errorf("%v: after a reset of chip 0: %d and %d, want 0 and 6", arch, a, b)
		}
		rs[0].write(v, 0x30000, []byte("sixteen bytes..."))
		rs[0].release(v, newAsm(ethCode).send(arch, 0, 0x30000, 0x32000, 16).halt())
		rs[1].eventually("a packet of a chip that was reset", func() bool {
			return string(rs[1].read(rs[1].eth(0), 0x32000, 16)) == "sixteen bytes..."
		})
	}
}

func TestEthernetBroadcast(t *testing.T) {
	rigs, h := remotePair(t)
	r := rigs[0]
	g := newGateway(r)
	const addr, n, broadcast = 0x20000, 4096, remoteWriteRequest | remoteData | remoteDataDRAM | remoteBroadcast
	cast := func(racks, chips, not uint32) {
		t.Helper()
		for i, w := range []uint32{^racks, ^uint32(0), ^uint32(0), ^chips, not, 0, 0, 0} {
			binary.LittleEndian.PutUint32(h.p[0x100+4*i:], w)
		}
		before := g.written()
		g.ask(addr, 0, broadcastHeader+n, broadcast, 0, 0, 0, 0x40100)
		g.eventually("the broadcast is done", func() bool { return g.written() == before+1 })
	}
	const workersOnly = 1<<(16+0) | 1<<(16+5) | 1<<0 | 1<<6 // columns of DRAM tiles, rows of Ethernet tiles
	const tensixColumns = 0b11_1101_1110 << 16
	for name, q := range map[string]struct {
		racks, chips, not uint32
		has               func(chip int, ep *endpoint, v chip.XY) bool
	}{
		"workers of both":      {1, 1<<0 | 1<<8, workersOnly, func(_ int, ep *endpoint, _ chip.XY) bool { return ep.kind == chip.Tensix }},
		"workers of the other": {1, 1 << 8, workersOnly, func(c int, ep *endpoint, _ chip.XY) bool { return c == 1 && ep.kind == chip.Tensix }},
		"DRAM in column 5": {1, 1<<0 | 1<<8, tensixColumns | 1<<16,
			func(_ int, ep *endpoint, _ chip.XY) bool { return ep.kind == chip.DRAM && ep.bank >= 2 }},
		"a row of Ethernet": {1, 1 << 0, 1<<16 | 1<<21 | 0x7FFE, func(c int, ep *endpoint, _ chip.XY) bool {
			return c == 0 &&
				ep.kind == chip.Ethernet && ep.xy.Y == 0
		}},
		"another rack":           {2, 1 << 0, workersOnly, func(int, *endpoint, chip.XY) bool { return false }},
		"a chip that isn't here": {1, 1 << 9, workersOnly, func(int, *endpoint, chip.XY) bool { return false }},
		// Columns 18 to 21 are 1 to 4 of a header, and rows 18 to 22 are 1 to 5.
		"translated": {1, 1<<0 | 1<<8, broadcastTranslated | workersOnly | 1<<(16+4) | 1<<5, func(_ int, ep *endpoint, v chip.XY) bool {
			return ep.kind == chip.Tensix && v.X != 21 && v.Y != 22
		}},
	} {
		for i, r := range rigs {
			for y := range r.c.grid {
				for x := range r.c.grid[y] {
					if ep := &r.c.grid[y][x]; castTo(ep) {
						r.c.writeTile(origin{}, "test", 0, ep, addr, 4, []uint32{uint32(i)})
					}
				}
			}
		}
		cast(q.racks, q.chips, q.not)
		for i, r := range rigs {
			for y := range r.c.grid {
				for x := range r.c.grid[y] {
					ep := &r.c.grid[y][x]
					if !castTo(ep) {
						continue
					}
					v, _ := r.topo.VirtualOf(ep.xy)
					buf, got := make([]uint32, n/4), make([]byte, n)
					r.c.readTile(origin{}, "test", 0, ep, addr, n, buf)
					word.Unpack(got, 0, buf)
					if has := bytes.Equal(got, h.p[0x120:0x120+n]); has != q.has(i, ep, v) {
						t.Errorf("%s: chip %d, %v tile %v has the data: %v", name, i, ep.kind, ep.xy, has)
					}
				}
			}
			r.healthy()
		}
	}
	g.ask(addr, 0, broadcastHeader, broadcast, 0, 0, 0, 0x40100)
	g.refused(unimplemented)
}

func castTo(ep *endpoint) bool {
	return !ep.harvested && (ep.kind == chip.Tensix || ep.kind == chip.Ethernet || ep.kind == chip.DRAM)
}

func TestEthernetLikeTTSim(t *testing.T) {
	path := ttsimtest.Path(t, ttsimtest.BlackholeX2)
	s := value(ttsim.Start(path, ttsimtest.Server()))(t)
	t.Cleanup(func() { s.Close() })
	_, emulated := machineOf(t, []Config{{Arch: chip.Blackhole}, {Arch: chip.Blackhole}}, Link{0, 2, 1, 9}, Link{0, 3, 1, 8})
	var simulated []*rig
	for _, f := range s.Functions()[:2] {
		simulated = append(simulated, &rig{t, nil, f, func() {}, chip.Blackhole, emulated[0].topo, emulated[0].params})
	}
	tx, rx := emulated[0].eth(2), emulated[1].eth(9)
	for name, rs := range map[string][]*rig{"emulator": emulated, "simulator": simulated} {
		data := bytes.Repeat([]byte("fedcba9876543210"), 64)
		rs[0].write(tx, 0x30000, data)
		rs[0].write(tx, 0x31000, append([]byte{1}, make([]byte, 15)...))
		rs[1].write(rx, 0x32000, make([]byte, 4096+128))
		rs[1].release(rx, newAsm(ethCode).waitFor(0x33000, 1).li(a0, 0x32000+1020).lw(a1, a0, 0).li(a0, 0x33020).sw(a1, a0, 0).halt())
		a := newAsm(ethCode)
		for q := range uint32(3) {
			a.send(chip.Blackhole, int(q), 0x30000, 0x32000+0x400*q, 1024)
			if q < 2 {
				a.stw(0xFFB9001C+q<<12, 0x33040+4*q).stw(0xFFB90044+q<<12, 7+q).stw(0xFFB90004+q<<12, 4)
			}
		}
		rs[0].release(tx, a.send(chip.Blackhole, 0, 0x31000, 0x33000, 16).halt())
		rs[1].eventually(name+": the receiver's answer", func() bool { return rs[1].ld(rx, 0x33020) != 0 })
		rs[1].eventually(name+": all queues", func() bool {
			return bytes.Equal(rs[1].read(rx, 0x32000, 3072), bytes.Repeat(data, 3)) && rs[1].ld(rx, 0x33040) == 7 &&
				rs[1].ld(rx, 0x33044) == 8
		})
		for _, at := range []uint64{0x7CC00, 0x7CC04, 0x7CC08, 0x7CE04, 0x7CFBC} {
			if a, b := emulated[1].ld(rx, at), simulated[1].ld(rx, at); a != b {
				t.Errorf("%s: firmware's word at %#x is %#x here and %#x there", name, at, a, b)
			}
		}
		for _, r := range rs {
			r.healthy()
		}
	}
}

// As luwen finds chips, and reaches them through a port without a link.
func TestRemoteThroughAnyPort(t *testing.T) {
	_, rigs := row(t, 2, Config{Synchronous: true})
	g := &gateway{rigs[0], rigs[0].eth(15), 0}
	far := rigs[1].eth(0)
	equal(t, g.ld(g.at, whQueues)+0x80, remoteRequests, "queues")
	equal(t, g.ld(g.at, whPorts+4*15), 1, "no link")
	equal(t, g.ld(g.eth(8), whPorts+4*8), 3, "link")
	equal(t, g.ld(g.eth(8), whNodeInfo+4*9), 1<<16|uint32(far.X)<<4|uint32(far.Y)<<10, "the other end")
	equal(t, g.ld(g.eth(8), whResults+4*69), g.c.cfg.Identity.mangled(), "board")
	lo, hi := remoteAt(1, far, whPorts)
	g.ask(lo, hi, 0, remoteReadRequest)
	g.eventually("an answer", func() bool { return g.answers() == 1 })
	equal(t, g.answer(0), 3, "port")
}
