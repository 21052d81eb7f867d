package emu

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/internal/expect"
	"github.com/reprise-tt/reprise/sim/driver"
	"github.com/reprise-tt/reprise/sim/ttsim/ttsimtest"
)

var arches = []chip.Arch{chip.Wormhole, chip.Blackhole}

// rig is a chip with what tests do to it, through one TLB window, as a host.
type rig struct {
	t      testing.TB
	c      *Chip // nil on ttsim
	dev    driver.Function
	settle func() // lets processors run until they should be waiting
	arch   chip.Arch
	topo   *chip.Chip
	params *chip.Params
}

func newRig(t testing.TB, cfg Config) *rig {
	t.Helper()
	c := value(New(cfg))(t)
	t.Cleanup(func() { c.Close() })
	return rigOf(t, c)
}

func rigOf(t testing.TB, c *Chip) *rig {
	return &rig{t, c, c, func() {}, c.arch, c.Topology(), c.params}
}

// planned is a rig without a chip, to make programs.
func planned(t testing.TB, arch chip.Arch) *rig {
	t.Helper()
	topo := value(chip.New(arch, chip.Harvesting{}))(t)
	return &rig{t: t, arch: arch, topo: topo, params: arch.Params()}
}

func (r *rig) reset() {
	r.t.Helper()
	must(r.t, r.c.Reset())
}

// dump says why the chip stopped, requests in flight, and in a line what each processor out of
// reset does.
func (r *rig) dump() string {
	r.t.Helper()
	c := r.c
	var b strings.Builder
	c.acquire()
	fmt.Fprintf(&b, "%v at clock %d, %d steps of NoC requests in flight\n", c.arch, c.clock, len(c.events))
	if c.fault != nil {
		fmt.Fprintf(&b, "stopped: %v\n", c.fault)
	}
	for _, t := range c.tiles {
		for n := range t.niu {
			if t.niu[n].unfinished { // it holds up silicon's NoC
				fmt.Fprintf(&b, "tile %v NIU %d: a transaction begun with VC_LINKED was not ended\n", t.xy, n)
			}
		}
	}
	c.release()
	for _, s := range c.Cores() {
		fmt.Fprintf(&b, "tile %v (virtual %v) %-6v pc=%#08x %s, %d instructions", s.Tile, s.Virtual, s.Core, s.PC, s.State, s.Retired)
		if len(s.Waits) > 0 {
			fmt.Fprintf(&b, ", waits on L1 %#x", s.Waits)
		}
		if s.Executed > 0 {
			fmt.Fprintf(&b, ", engines executed %d", s.Executed)
		}
		if s.Engine != "" {
			fmt.Fprintf(&b, ", engines: %s", s.Engine)
		}
		if len(s.Registers) > 0 {
			fmt.Fprintf(&b, ", waits on %q", s.Registers)
		}
		b.WriteByte('\n')
	}
	return b.String()
}

func syncRig(t testing.TB, a chip.Arch) *rig {
	return newRig(t, Config{Arch: a, Synchronous: true, Seed: 1})
}

func (r *rig) worker(x, y int) chip.XY {
	r.t.Helper()
	return value(r.topo.Virtual(chip.Core{X: x, Y: y}))(r.t)
}

func (r *rig) raw(v chip.XY) chip.XY {
	r.t.Helper()
	return value(r.topo.Translate(chip.NOC0, v))(r.t)
}

// point aims a window at an address of a tile and returns the BAR 0 offset.
func (r *rig) point(v chip.XY, addr uint64) uint64 {
	if r.arch == chip.Wormhole {
		cfg := addr>>24 | uint64(v.X)<<12 | uint64(v.Y)<<18
		r.dev.BARStore(0, 0x1FC00000+8*166, 8, cfg)
		return 0x0B000000 + addr&0xFFFFFF
	}
	cfg := [3]uint32{uint32(addr >> 21), uint32(addr>>53) | uint32(v.X)<<11 | uint32(v.Y)<<17, 0}
	for i, w := range cfg {
		r.dev.BARStore(0, 0x1FC00000+uint64(4*i), 4, uint64(w))
	}
	return addr & 0x1FFFFF
}

func (r *rig) write(v chip.XY, addr uint64, p []byte) { r.dev.BARWrite(0, r.point(v, addr), p) }
func (r *rig) read(v chip.XY, addr uint64, n int) []byte {
	p := make([]byte, n)
	r.dev.BARRead(0, r.point(v, addr), p)
	return p
}
func (r *rig) st(v chip.XY, addr uint64, w uint32) { r.dev.BARStore(0, r.point(v, addr), 4, uint64(w)) }
func (r *rig) ld(v chip.XY, addr uint64) uint32    { return uint32(r.dev.BARLoad(0, r.point(v, addr), 4)) }

// run loads code for BRISC, with a jump to it at 0, and releases BRISC only.
func (r *rig) run(v chip.XY, a *asm) {
	r.load(v, a)
	r.st(v, 0xFFB121B0, 0x47000)
}

func (r *rig) load(v chip.XY, a *asm) {
	r.write(v, uint64(a.base), a.bytes())
	r.write(v, 0, binary.LittleEndian.AppendUint32(nil, jtype(x0, int32(a.base))))
}

func (r *rig) healthy() {
	r.t.Helper()
	if err := r.dev.Fault(); err != nil {
		r.t.Fatalf("the chip stopped: %v", err)
	}
}

func (r *rig) eventually(what string, ok func() bool) {
	r.t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !ok(); {
		if err := r.dev.Fault(); err != nil {
			r.t.Fatalf("%s: the chip stopped: %v", what, err)
		}
		if time.Now().After(deadline) {
			r.t.Fatalf("%s: it did not happen", what)
		}
		time.Sleep(50 * time.Microsecond)
	}
}

func TestHostRunsProgram(t *testing.T) {
	for _, arch := range arches {
		for _, synchronous := range []bool{true, false} {
			r := newRig(t, Config{Arch: arch, Synchronous: synchronous, Seed: 7})
			v := r.worker(2, 3)
			a := onB().li(a0, 0x20000).li(a1, 0).li(a2, 100).
				label("loop").add(a1, a1, a2).addi(a2, a2, -1).bne(a2, x0, "loop").
				sw(a1, a0, 0).halt()
			if got := r.ld(v, 0xFFB121B0); got != 0x47800 {
				t.Fatalf("%v: soft reset register reads %#x before release", arch, got)
			}
			r.run(v, a)
			r.eventually("sum", func() bool { return r.ld(v, 0x20000) == 5050 })
			r.healthy()
			if n := r.c.Retired(r.raw(v), chip.BRISC); n < 300 || n > 2000 {
				t.Errorf("%v: BRISC retired %d instructions: want some 300, and few while it waits", arch, n)
			}
		}
	}
}

var (
	fails  = expect.Fails
	must   = expect.Must
	noDiff = expect.NoDiff
)

func value[V any](v V, err error) func(expect.TB) V { return expect.Value(v, err) }

func second[V any](_ V, err error) error { return err }

func equal[V comparable](t expect.TB, got, want V, what string, args ...any) {
	t.Helper()
	expect.Equal(t, got, want, what, args...)
}
func TestMain(m *testing.M) {
	if ttsimtest.Serving() {
		return
	}
	goleak.VerifyTestMain(m)
}

// randomProgram is n random instructions and stores of all registers.
func randomProgram(rng *rand.Rand, arch chip.Arch, n int) *asm {
	const data, results = 0x40000, 0x48000
	a := onB()
	reg := func() int { return 5 + rng.IntN(25) } // 3 and 4 hold bases, 30 and 31 are left alone
	a.li(gp, data).li(tp, localBase+0x100)
	for i := range 25 {
		v := rng.Uint32()
		if rng.IntN(3) == 0 {
			v = []uint32{0, 1, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, 31}[rng.IntN(6)]
		}
		a.li(5+i, v)
	}
	refs := references()
	for i := range n {
		switch k := rng.IntN(10); {
		case k < 5:
			ref := refs[rng.IntN(len(refs))]
			if !ref.bhOnly || arch == chip.Blackhole {
				rd := reg()
				if rng.IntN(20) == 0 {
					rd = 0
				}
				a.emit(ref.encode(rd, reg(), reg(), int32(rng.IntN(4096)-2048)))
			}
		case k < 7:
			w := rng.IntN(3)
			f3 := uint32(w)
			if w < 2 && rng.IntN(2) == 0 {
				f3 |= 4
			}
			a.emit(itype(0x03, f3, reg(), gp+rng.IntN(2), int32(rng.IntN(256)>>w<<w)))
		case k < 9:
			w := rng.IntN(3)
			a.emit(stype(uint32(w), gp+rng.IntN(2), reg(), int32(rng.IntN(256)>>w<<w)))
		default:
			f3 := []uint32{0, 1, 4, 5, 6, 7}[rng.IntN(6)]
			l := fmt.Sprintf("l%d", i)
			a.branch(f3, reg(), reg(), l).addi(reg(), reg(), 7).add(reg(), reg(), reg()).label(l)
		}
		if arch == chip.Blackhole && rng.IntN(20) == 0 {
			f5 := []uint32{0, 1, 4, 8, 12, 16, 20, 24, 28}[rng.IntN(9)]
			a.emit(rtype(0x2F, 2, f5<<2, reg(), gp, reg()))
		}
	}
	a.li(31, results)
	for i := range 25 {
		a.sw(5+i, 31, int32(4*i))
	}
	return a.li(30, 0x600D).sw(30, 31, 120).halt()
}

func TestProgramsLikeTTSim(t *testing.T) {
	withTTSim(t, func(t *testing.T, arch chip.Arch, path string) {
		ours, theirs := syncRig(t, arch), ttsimRig(t, arch, path)
		i := 0
		for w := range ours.topo.Workers() {
			if i++; i > 60 {
				break
			}
			var got [2][]byte
			for k, r := range []*rig{ours, theirs} {
				v := r.worker(w.X, w.Y)
				rng := rand.New(rand.NewPCG(uint64(i), 77))
				r.write(v, 0x40000, pattern(512, uint64(i)))
				r.run(v, randomProgram(rng, arch, 600))
				r.settle()
				r.healthy()
				got[k] = append(r.read(v, 0x40000, 512), r.read(v, 0x48000, 124)...)
				r.healthy()
			}
			if binary.LittleEndian.Uint32(got[0][512+120:]) != 0x600D {
				t.Fatalf("program %d did not end", i)
			}
			if diff := cmp.Diff(got[1], got[0]); diff != "" {
				t.Fatalf("program %d differs from ttsim: %s", i, diff)
			}
		}
	})
}

func TestRequestsLikeTTSim(t *testing.T) {
	withTTSim(t, func(t *testing.T, arch chip.Arch, path string) {
		var dump [2][]string
		for k, r := range []*rig{syncRig(t, arch), ttsimRig(t, arch, path)} {
			dump[k] = randomRequests(r)
			r.healthy()
		}
		noDiff(t, dump[0], dump[1], "against ttsim")
	})
}

// randomRequests issues requests and reports what is then to be seen.
func randomRequests(r *rig) []string {
	rng := rand.New(rand.NewPCG(3, 9))
	tiles := []chip.XY{r.worker(0, 0), r.worker(3, 4), r.worker(7, 9)}
	banks := r.topo.DRAMBanks()
	for i, v := range tiles {
		r.write(v, 0x40000, pattern(0x10000, uint64(i)))
	}
	tile := func() chip.XY { return tiles[rng.IntN(len(tiles))] }
	for range 400 {
		v := tile()
		noc := chip.NOC(rng.IntN(2))
		q := nocRequest{noc: noc, buf: rng.IntN(4), tag: uint32(rng.IntN(16)) << 10}
		n := 1 + rng.IntN(300)
		low := uint64(rng.IntN(16))
		here, there := 0x40000+uint64(rng.IntN(0x800))*16+low, 0x48000+uint64(rng.IntN(0x600))*16+low
		ctrl := uint32(ctrlWrite)
		if rng.IntN(3) > 0 {
			ctrl |= ctrlMarked
		}
		switch rng.IntN(7) {
		case 0: // tile to tile
			q.targ, q.targXY, q.ret, q.retXY, q.ctrl, q.len = here, v, there, tile(), ctrl, uint32(n)
		case 1:
			q.targ, q.targXY, q.ret, q.retXY, q.ctrl, q.len = here, tile(), there, v, ctrlRead, uint32(n)
		case 2: // DRAM
			b := banks[rng.IntN(len(banks))]
			q.targ, q.targXY, q.ret, q.retXY, q.ctrl, q.len = here, v, b.Offset+there, b.Endpoint[noc], ctrl, uint32(n)
		case 3:
			b := banks[rng.IntN(len(banks))]
			at := b.Offset + 0x48000 + uint64(rng.IntN(0x100))*64
			q.targ, q.targXY, q.ret, q.retXY, q.ctrl, q.len = at, b.Endpoint[noc], here&^63, v, ctrlRead, uint32(n)
		case 4: // multicast
			a, b := r.worker(1+rng.IntN(2), 1+rng.IntN(3)), r.worker(3+rng.IntN(5), 4+rng.IntN(6))
			if noc == chip.NOC1 {
				a, b = b, a
			}
			q.targ, q.targXY, q.ret, q.start, q.retXY, q.len = here, v, there, &a, b, uint32(n)
			q.ctrl = ctrl | ctrlBroadcast | ctrlPathReserve | uint32(rng.IntN(2))*ctrlSrcInclude
		case 5: // atomic
			q.targ, q.targXY, q.ret, q.retXY, q.len, q.dat = here&^15, tile(), there&^3, v, 0x107C, rng.Uint32()
			q.ctrl = ctrlAtomic | ctrlMarked
		case 6: // stream register
			q.targ, q.targXY, q.retXY, q.len, q.dat = uint64(r.params.Stream.Reg(48+rng.IntN(4), chip.SpaceAvailableUpdate)),
				tile(), v, 0xF,
				rng.Uint32()<<6
			q.ctrl = ctrl | ctrlInline
		}
		r.issue(v, q)
	}
	var out []string
	for _, v := range tiles {
		out = append(out, fmt.Sprintf("%v L1 %x", v, r.read(v, 0x40000, 0x10000)))
		for noc := range uint32(2) {
			for _, i := range []uint32{cntAtomicResp, cntWriteAck, cntReadResp, cntAtomicSent + 1, cntWriteSent, cntWriteSent + 1,
				cntOutgoing} {
				out = append(out, fmt.Sprintf("%v NoC %d counter %#x = %d", v, noc, i, r.counter(v, chip.NOC(noc), i)))
			}
			for i := range uint32(16) {
				out = append(out, fmt.Sprintf("%v NoC %d outstanding %d = %d", v, noc, i, r.counter(v, chip.NOC(noc), cntOutstanding+i)))
			}
			l := layoutOf(r.arch)
			for _, off := range []uint32{l.nodeID, l.logical, 0x100, 0x108, 0x110} {
				out = append(out, fmt.Sprintf("%v NoC %d register %#x = %#x", v, noc, off, r.ld(v, uint64(niu0Base+0x10000*noc+off))))
			}
			if r.arch == chip.Wormhole {
				for off := l.translateX; off < l.end; off += 4 {
					out = append(out, fmt.Sprintf("%v NoC %d translation %#x = %#x", v, noc, off,
						r.ld(v, uint64(niu0Base+0x10000*noc+off))))
				}
			}
		}
		for s := 48; s < 52; s++ {
			out = append(out, fmt.Sprintf("%v stream %d = %#x", v, s, r.ld(v, uint64(r.params.Stream.Reg(s, chip.SpaceAvailable)))))
		}
	}
	for _, b := range banks {
		out = append(out, fmt.Sprintf("bank %d %x", b.Index, r.read(b.HostEndpoint, b.Offset+0x48000, 0x6000)))
	}
	return out
}

func busyLoop() *asm {
	return onB().li(a0, 0x20000).li(a1, localBase).li(a2, 0).
		label("loop").
		lw(t0, a0, 0).addi(t0, t0, 1).sw(t0, a0, 0).
		lw(t1, a1, 16).add(t1, t1, t0).sw(t1, a1, 16).
		addi(a2, a2, 3).andi(a3, a2, 0x7F).sub(a4, a2, a3).
		bne(a4, x0, "next").addi(a4, a4, 1).
		label("next").addi(a5, a5, 1).
		bne(a0, x0, "loop")
}

func benchmarkBusy(b *testing.B, cfg Config, others bool) {
	cfg.Synchronous, cfg.MaxRun = true, 1
	r := newRig(b, cfg)
	if others {
		spin := newAsm(0x2000).li(a0, 0x30000).label("w").lw(a1, a0, 0).beq(a1, x0, "w").halt()
		for w := range r.topo.Workers() {
			v := r.worker(w.X, w.Y)
			r.load(v, spin)
			for _, at := range []uint64{0x6000, 0xA000, 0xE000, 0x12000} {
				s := newAsm(uint32(at)).li(a0, 0x30000).label("w").lw(a1, a0, 0).beq(a1, x0, "w").halt()
				r.write(v, at, s.bytes())
			}
		}
		for w := range r.topo.Workers() {
			if w.X != 0 || w.Y != 0 {
				r.st(r.worker(w.X, w.Y), 0xFFB121B0, 0)
			}
		}
		for r.c.busy() {
			r.c.step()
		}
	}
	v := r.worker(0, 0)
	r.st(v, 0x20000, 0)
	r.run(v, busyLoop())
	k := r.c.tileAt(r.raw(v)).core(chip.BRISC)
	b.ResetTimer()
	start := k.retired
	for k.retired-start < uint64(b.N) {
		r.c.step()
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(k.retired-start), "ns/instr")
	must(b, r.c.Fault())
}

func BenchmarkBusyCore(b *testing.B) { benchmarkBusy(b, Config{Arch: chip.Wormhole}, false) }

func BenchmarkBusyCoreChecked(b *testing.B) {
	benchmarkBusy(b, Config{Arch: chip.Blackhole, Delay: 100, RefuseUnwritten: true, RefuseStaleCode: true, RefuseRaces: true,
		RefuseCounters: true, DataCache: true}, false)
}

func BenchmarkBusyCoreAmongWaiting(b *testing.B) {
	benchmarkBusy(b, Config{Arch: chip.Blackhole}, true)
}

func BenchmarkNew(b *testing.B) {
	for b.Loop() {
		c := value(New(Config{Arch: chip.Blackhole}))(b)
		c.Close()
	}
}

func BenchmarkTransfers(b *testing.B) {
	r := newRig(b, Config{Arch: chip.Blackhole, Synchronous: true})
	v, far, bank := r.worker(0, 0), r.worker(3, 3), r.topo.DRAMBanks()[0]
	last := r.worker(1, 1)
	r.write(v, 0x40000, pattern(8192, 1))
	r.write(far, 0x40000, pattern(8192, 2))
	r.write(bank.HostEndpoint, 0x40000, pattern(8192, 3))
	t := r.c.tileAt(r.raw(v))
	for _, k := range []struct {
		name string
		q    nocRequest
	}{
		{"read_worker", nocRequest{targXY: far, retXY: v, ctrl: ctrlRead, len: 64}},
		{"read_dram", nocRequest{targXY: bank.Endpoint[0], retXY: v, ctrl: ctrlRead, len: 64}},
		{"write_worker", nocRequest{targXY: v, retXY: far, ctrl: ctrlWriteNP, len: 64}},
		{"write_dram", nocRequest{targXY: v, retXY: bank.Endpoint[0], ctrl: ctrlWriteNP, len: 64}},
		{"multicast", nocRequest{targXY: v, start: &v, retXY: last, ctrl: ctrlMulticast, len: 64}},
		{"atomic", nocRequest{targXY: far, retXY: v, ctrl: ctrlAtomic | ctrlMarked, len: 0x107C}},
		{"inline", nocRequest{targXY: far, retXY: v, ctrl: ctrlWrite | ctrlInline | ctrlMarked, dat: 1}},
		{"write_8192", nocRequest{targXY: v, retXY: far, ctrl: ctrlWriteNP, len: 8192}},
	} {
		k.q.targ, k.q.ret = 0x40000, 0x40000
		if k.name == "inline" {
			k.q.targ, k.q.len = 0xFFB40010, 4
		}
		b.Run(k.name, func(b *testing.B) {
			r.issue(v, k.q)
			o, cmd := origin{tile: t, core: t.cores[0]}, r.c.layout.cmd
			for b.Loop() {
				if t.niuStore(o, 0, cmd, 1) != slowDone {
					b.Fatal(r.c.Fault())
				}
			}
		})
	}
}
