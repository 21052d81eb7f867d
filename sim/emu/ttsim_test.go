package emu

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/reprise-tt/reprise/chip"
)

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
