package emu

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/reprise-tt/reprise/chip"
)

type nocRequest struct {
	noc            chip.NOC
	buf            int
	targ, ret      uint64
	targXY, retXY  chip.XY
	start          *chip.XY // multicast: start corner, retXY is the end
	ctrl, len, dat uint32
	tag            uint32
}

// issue programs command buffer buf of tile v through a window and starts it.
func (r *rig) issue(v chip.XY, q nocRequest) {
	for _, w := range q.stores(r.arch) {
		r.st(v, uint64(w[0]), w[1])
	}
}

func (q nocRequest) stores(arch chip.Arch) [][2]uint32 {
	l := layoutOf(arch)
	base := uint32(niu0Base) + 0x10000*uint32(q.noc) + uint32(q.buf)*l.stride
	targXY, retXY := arch.NOCXY(q.targXY), arch.NOCXY(q.retXY)
	if q.start != nil {
		retXY = arch.NOCMulticast(*q.start, q.retXY)
	}
	var s [][2]uint32
	put := func(off, v uint32) { s = append(s, [2]uint32{base + off, v}) }
	put(0x00, uint32(q.targ))
	put(0x0C, uint32(q.ret))
	if arch == chip.Wormhole {
		put(0x04, uint32(q.targ>>32)|targXY)
		put(0x10, uint32(q.ret>>32)|retXY)
	} else {
		put(0x04, uint32(q.targ>>32))
		put(0x10, uint32(q.ret>>32))
		put(0x08, targXY)
		put(0x14, retXY)
	}
	put(0x18, q.tag)
	put(0x1C, q.ctrl)
	put(0x20, q.len)
	put(l.atData, q.dat)
	put(l.cmd, 1)
	return s
}

func (r *rig) counter(v chip.XY, noc chip.NOC, i uint32) uint32 {
	return r.ld(v, uint64(niu0Base+0x10000*uint32(noc)+0x200+4*i))
}

func pattern(n int, seed uint64) []byte {
	rng := rand.New(rand.NewPCG(seed, 1))
	p := make([]byte, n)
	for i := range p {
		p[i] = byte(rng.Uint32())
	}
	return p
}

const (
	ctrlRead      = ctrlMarked
	ctrlWriteNP   = ctrlWrite | ctrlMarked
	ctrlMulticast = ctrlWrite | ctrlMarked | ctrlBroadcast | ctrlPathReserve
)

// Exactly the bytes asked for move, and count in both NIUs.
func TestNOCTransfers(t *testing.T) {
	for _, arch := range arches {
		for _, noc := range []chip.NOC{chip.NOC0, chip.NOC1} {
			r := syncRig(t, arch)
			v, far := r.worker(0, 0), r.worker(6, 7)
			max := int(r.params.MaxBurst)
			for i, n := range []int{1, 2, 3, 4, 5, 15, 16, 17, 63, 64, 65, 1000, max} {
				off := uint64(i % 16)
				src, dst := 0x40000+off, 0x60000+off
				p := pattern(n, uint64(i))
				r.write(v, src, p)
				r.write(far, dst-4, bytes.Repeat([]byte{0xEE}, n+8))
				r.issue(v, nocRequest{noc: noc, buf: 0, targ: src, targXY: v, ret: dst, retXY: far, ctrl: ctrlWriteNP,
					len: uint32(n), tag: 3 << 10})
				want := append(append([]byte{0xEE, 0xEE, 0xEE, 0xEE}, p...), 0xEE, 0xEE, 0xEE, 0xEE)
				if diff := cmp.Diff(want, r.read(far, dst-4, n+8)); diff != "" {
					t.Fatalf("%v %v write of %d bytes: %s", arch, noc, n, diff)
				}
				r.issue(v, nocRequest{noc: noc, buf: 1, targ: dst, targXY: far, ret: 0x80000 + off, retXY: v, ctrl: ctrlRead, len: uint32(n),
					tag: 5 << 10})
				if !bytes.Equal(p, r.read(v, 0x80000+off, n)) {
					t.Fatalf("%v %v read of %d bytes differs", arch, noc, n)
				}
				r.healthy()
			}
			for _, b := range r.topo.DRAMBanks() {
				at := b.Offset + 0x123440
				p := pattern(128, uint64(b.Index))
				r.write(v, 0x40040, p)
				r.issue(v, nocRequest{noc: noc, targ: 0x40040, targXY: v, ret: at, retXY: b.Endpoint[noc], ctrl: ctrlWriteNP, len: 128})
				if got := r.read(b.HostEndpoint, at, 128); !bytes.Equal(p, got) {
					t.Fatalf("%v %v bank %d: what a tile wrote is not what the host reads", arch, noc, b.Index)
				}
				r.issue(v, nocRequest{noc: noc, targ: at, targXY: b.Endpoint[noc], ret: 0x50040, retXY: v, ctrl: ctrlRead, len: 128})
				if !bytes.Equal(p, r.read(v, 0x50040, 128)) {
					t.Fatalf("%v %v bank %d: read back differs", arch, noc, b.Index)
				}
			}
			r.healthy()
			banks := uint32(len(r.topo.DRAMBanks()))
			want := map[uint32]uint32{
				cntWriteAck: 13 + banks, cntWriteSent: 13 + banks, cntReadResp: 13 + banks, cntReadSent: 13 + banks,
				cntAccepted: 2 * (13 + banks), cntWriteSent + 1: 0, cntOutstanding + 3: 0, cntOutgoing + 3: 0,
			}
			for i, n := range want {
				equal(t, r.counter(v, noc, i), n, "%v %v counter %#x", arch, noc, i)
			}
			equal(t, r.counter(far, noc, cntSlaveRead), 13, "%v %v: reads that the target counts", arch, noc)
		}
	}
}

// Exactly the workers of the rectangle, without the sender unless SRC_INCLUDE is set;
// REQS_OUTSTANDING of the id is then 1-n.
func TestMulticast(t *testing.T) {
	for _, arch := range arches {
		for _, harvest := range []uint32{0, 1<<2 | 1<<5} {
			for _, noc := range []chip.NOC{chip.NOC0, chip.NOC1} {
				for _, include := range []bool{false, true} {
					r := newRig(t, Config{Arch: arch, Synchronous: true, Harvesting: chip.Harvesting{Tensix: harvest}})
					w, h := r.topo.Grid()
					rect := chip.Range{Start: chip.Core{X: 1, Y: 1}, End: chip.Core{X: w - 2, Y: h - 2}}
					src := r.worker(1, 1)
					vr := r.topo.Rects(rect)[0]
					a, b := r.worker(1, 1), r.worker(w-2, h-2)
					if a2, b2 := vr.Corners(chip.NOC0); a != a2 || b != b2 {
						t.Fatalf("%v: corners %v %v, want %v %v", arch, a2, b2, a, b)
					}
					start, end := vr.Corners(noc)
					p := pattern(64, 9)
					r.write(src, 0x40000, p)
					ctrl := uint32(ctrlMulticast)
					if include {
						ctrl |= ctrlSrcInclude
					}
					r.issue(src, nocRequest{noc: noc, targ: 0x40000, targXY: src, ret: 0x70000, start: &start, retXY: end, ctrl: ctrl, len: 64,
						tag: 2 << 10})
					r.healthy()
					n := uint32(0)
					for core := range r.topo.Workers() {
						got := bytes.Equal(p, r.read(r.worker(core.X, core.Y), 0x70000, 64))
						want := rect.Contains(core) && (include || core != rect.Start)
						equal(t, got, want, "%v %v harvest %#x include %v: core %v got it", arch, noc, harvest, include, core)
						if want {
							n++
						}
					}
					equal(t, r.counter(src, noc, cntWriteAck), n, "%v %v: acks", arch, noc)
					equal(t, r.counter(src, noc, cntOutstanding+2), (1-n)&0xFF, "%v %v: outstanding", arch, noc)
				}
			}
		}
	}
}

// tt-isa-documentation WormholeB0/NoC/Atomics.md.
func TestAtomics(t *testing.T) {
	tests := []struct {
		name          string
		ofs           uint32
		op, data, old uint32
		want          uint32
	}{
		{"increment", 0, 0x107C, 5, 7, 12},
		{"increment wraps", 0, 0x107C, 2, 0xFFFFFFFF, 1},
		{"increment in word 3", 3, 0x107F, 5, 7, 12},
		{"increment of 8 bits keeps the others", 1, 1<<12 | 7<<2 | 1, 3, 0x1FE, 0x101},
		{"compare and swap hits", 0, 4<<12 | 9<<6 | 3<<2, 0, 3, 9},
		{"compare and swap misses", 2, 4<<12 | 9<<6 | 3<<2 | 2, 0, 4, 4},
		{"swap by index 6", 1, 6<<12 | 4 | 1, 0xABCD1234, 4, 0xABCD1234},
		{"swap by index 7", 1, 7<<12 | 1<<2, 0xABCD1234, 4, 0xABCD1234},
		{"swap by mask, low half of word 0", 0, 3<<12 | 1<<2, 0xABCD1234, 0x11112222, 0x11111234},
	}
	for _, arch := range arches {
		for _, tt := range tests {
			r := syncRig(t, arch)
			v, far := r.worker(0, 0), r.worker(3, 3)
			addr := uint64(0x30000 + 4*tt.ofs)
			r.st(far, addr, tt.old)
			r.issue(v, nocRequest{noc: chip.NOC1, buf: 3, targ: addr, targXY: far, ret: 4, retXY: v, ctrl: ctrlAtomic | ctrlMarked, len: tt.op,
				dat: tt.data})
			r.healthy()
			equal(t, r.ld(far, addr), tt.want, "%v %s", arch, tt.name)
			equal(t, r.ld(v, 4), tt.old, "%v %s: returned", arch, tt.name)
			equal(t, r.counter(v, chip.NOC1, cntAtomicResp), 1, "%v %s: responses", arch, tt.name)
		}
	}
}

func TestInlineWritesAndStreams(t *testing.T) {
	for _, arch := range arches {
		r := syncRig(t, arch)
		v, far := r.worker(0, 0), r.worker(3, 3)
		p := &r.params.Stream
		reg := func(q chip.StreamReg) uint64 { return uint64(p.Reg(48, q)) }
		r.st(far, reg(chip.RemoteDestBufSize), 8)
		steps := []struct {
			add  int32
			want uint32
		}{{3, 11}, {-5, 6}, {-8, 0x1FFFE}, {2, 0}, {1, 1}}
		for _, s := range steps {
			r.issue(v, nocRequest{targ: reg(chip.SpaceAvailableUpdate), targXY: far, retXY: v, ctrl: ctrlWrite | ctrlInline,
				dat: chip.StreamUpdate(s.add), len: 0xF})
			equal(t, r.ld(far, reg(chip.SpaceAvailable)), s.want, "%v: after %+d the counter", arch, s.add)
		}
		r.healthy()
		equal(t, r.counter(v, 0, cntWriteSent+1), 5, "%v: posted writes sent", arch)
		r.issue(v, nocRequest{targ: 0x30004, targXY: far, retXY: v, ctrl: ctrlWriteNP | ctrlInline, dat: 77, len: 0xF0})
		if arch == chip.Blackhole {
			r.refused(undefined)
			continue
		}
		r.healthy()
		equal(t, r.ld(far, 0x30004), 77, "%v: an inline write to L1", arch)
	}
}

// refused checks that the chip has stopped with a category and answers all-ones.
func (r *rig) refused(want Category) *Refusal {
	r.t.Helper()
	var f *Refusal
	if err := r.c.Fault(); !errors.As(err, &f) || f.Category != want || !errors.Is(err, ErrRefused) {
		r.t.Errorf("fault %v, want a refusal as %v", err, want)
		return &Refusal{}
	}
	equal(r.t, r.c.BARLoad(0, 0, 4), 0xFFFFFFFF, "a stopped chip answers")
	return f
}

// As tt-umd's ClusterBH.WriteCountMatchesPostedWrites expects; posted only by ordering mode
// (tt-isa-documentation WormholeB0/PCIExpressTile/TLBs.md).
func TestHostStoresAreCounted(t *testing.T) {
	for _, arch := range arches {
		r := syncRig(t, arch)
		v := r.worker(1, 2)
		counters := uint64(niu0Base + 0x200)
		count := func(i uint64) uint32 { return r.ld(v, counters+4*i) }
		words, posted, acks := count(cntSlaveWords), count(cntSlaveWords+1), count(cntSlaveWriteAck)
		for i := range uint32(5) {
			r.st(v, 0x40000, i)
		}
		r.write(v, 0x40000, make([]byte, 3*int(r.params.NOCWord)))
		equal(t, count(cntSlaveWords)-words, 5+3, "%v: words of non-posted writes received", arch)
		equal(t, count(cntSlaveWriteAck)-acks, 6, "%v: writes acknowledged", arch)
		if arch == chip.Blackhole {
			at := r.point(v, 0x40000)
			id := at >> 21
			r.dev.BARStore(0, 0x1FC00000+12*id+8, 4, 2<<6)
			r.dev.BARStore(0, at, 4, 1)
			equal(t, count(cntSlaveWords+1)-posted, 1, "words of posted writes received")
		}
		r.healthy()
	}
}
