package emu

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

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

// A request performed in one piece has the effects of one performed step by step: on memory,
// counters, streams and waiting processors.
func TestDirect(t *testing.T) {
	for _, arch := range arches {
		t.Run(arch.String(), func(t *testing.T) {
			performed := map[string]int{}
			rapid.Check(t, func(t *rapid.T) {
				stepwise, direct := newRequester(t, arch, true), newRequester(t, arch, false)
				for range 20 {
					if direct.c.fault != nil {
						break
					}
					from := rapid.IntRange(0, len(direct.tiles)-1).Draw(t, "from")
					kind, q := direct.draw(t, from)
					all := []nocRequest{q}
					if kind == "multicast" { // whose rectangle has to be accepted first
						beyond := q
						beyond.ret |= 1<<36 - 1<<20
						if arch == chip.Blackhole {
							beyond.ret |= 1<<64 - 16
						}
						all = append(all, q, beyond)[:2+rapid.IntRange(0, 1).Draw(t, "beyond")]
					}
					for _, q := range all {
						if direct.issue(from, q) {
							performed[kind]++
						}
						if stepwise.issue(from, q) {
							t.Fatal("performed in one piece what should have been step by step")
						}
					}
					if want, got := stepwise.state(), direct.state(); !slices.Equal(want, got) {
						t.Fatalf("%s %+v (-step by step +in one piece):\n%s", kind, q, cmp.Diff(want, got))
					}
				}
			})
			for _, kind := range []string{"read of a worker", "read of DRAM", "write to a worker", "write to DRAM", "multicast", "inline"} {
				if performed[kind] == 0 {
					t.Errorf("no %s was performed in one piece: %v", kind, performed)
				}
			}
			equal(t, performed["atomic"], 0, "atomics performed in one piece")
		})
	}
}

type requester struct {
	c     *Chip
	topo  *chip.Chip
	tiles []*tile
	at    []chip.XY // virtual coordinates
}

// Where requests go, mostly: two lines of L1 and what is around them.
const (
	requestsFrom = 0x10000
	requestsSize = 0x200
)

func newRequester(t *rapid.T, arch chip.Arch, stepwise bool) *requester {
	c := value(newChip(Config{Arch: arch, Synchronous: true}))(t)
	c.inPlace = !stepwise
	c.sched.init(c)
	r := &requester{c: c, topo: c.Topology()}
	for i := range 4 {
		core := chip.Core{X: 1 + i%2, Y: 1 + i/2}
		v := value(r.topo.Virtual(core))(t)
		raw := value(r.topo.Physical(core))(t)
		w := c.tileAt(raw)
		r.tiles, r.at = append(r.tiles, w), append(r.at, v)
		l1 := w.memory(requestsFrom + 2*requestsSize)
		for a := uint32(requestsFrom); a < requestsFrom+2*requestsSize; a += 4 {
			l1[a/4] = a*0x9E3779B1 + uint32(i)
		}
		w.newest = uint64(10 + i)
		for n, k := range w.cores[1:] {
			k.state = parked
			switch n {
			case 0:
				k.classes = classNIU0 << (i & 1)
			case 1:
				k.classes = classServed0 << (i & 1)
			case 2:
				k.classes = classStream
			default:
				k.wait = wait{known: true, n: 1}
				word := uint32(requestsFrom/4 + 16*i + 3)
				k.wait.reads[0] = read{word, ^uint32(0), l1[word]}
				k.watch[0], k.watched = word/lineWords, 1
			}
			k.park(parked)
		}
		page := new(codePage) // a line of code, of which a processor has decoded nothing
		w.code[(requestsFrom+requestsSize)/pageBytes] = page
		w.flags[(requestsFrom+requestsSize)>>lineShift] |= flagCode
	}
	for noc := range chip.NOC(2) { // coordinates that are new are left to the steps
		for _, v := range r.at {
			c.resolve(origin{}, "", int(noc), v.Packed())
		}
		for _, b := range r.topo.DRAMBanks()[:3] {
			c.resolve(origin{}, "", int(noc), b.Endpoint[noc].Packed())
		}
	}
	for i, d := range c.drams[:2] {
		d.write(requestsFrom, 4*requestsSize, make([]uint32, requestsSize))
		d.newest = uint64(20 + i)
	}
	return r
}

func (r *requester) draw(t *rapid.T, from int) (kind string, q nocRequest) {
	pick := func(name string, n int) int { return rapid.IntRange(0, n-1).Draw(t, name) }
	addr := func(name string) uint64 {
		a := uint64(requestsFrom + 16*pick(name, requestsSize/16))
		if pick("aligned", 40) == 0 {
			a += uint64(pick("offset", 16))
		}
		if pick("inside", 100) == 0 {
			a = rapid.SampledFrom([]uint64{uint64(r.c.params.L1Size) - 32, 1<<36 - 16, ^uint64(15)}).Draw(t, "end")
			if r.c.arch == chip.Wormhole {
				a &= 1<<36 - 1 // coordinates follow
			}
		}
		return a
	}
	q = nocRequest{noc: chip.NOC(pick("noc", 2)), buf: pick("buffer", 4), targ: addr("targ"), ret: addr("ret"), targXY: r.at[from],
		retXY: r.at[from],
		len:   uint32(1 + pick("length", 320)), tag: uint32(pick("id", 16)) << 10, dat: rapid.Uint32().Draw(t, "data")}
	if pick("short", 2) == 0 {
		q.len = 4 + q.len&^15
	}
	if pick("code", 4) == 0 { // equal to what is there, or different
		q.targ, q.ret, q.len = requestsFrom+requestsSize, requestsFrom+requestsSize, 64
	}
	flags := uint32(pick("marked", 2))*ctrlMarked | uint32(pick("static", 2))*ctrlStaticVC | uint32(pick("channel", 8))<<13
	if pick("linked", 50) == 0 {
		flags |= ctrlLinked
	}
	other := r.at[pick("other", len(r.at))]
	bank := r.topo.DRAMBanks()[pick("bank", 3)].Endpoint[q.noc]
	switch pick("kind", 7) {
	case 0:
		q.ctrl, q.targXY = ctrlRead|flags, other
		return "read of a worker", q
	case 1:
		q.ctrl, q.targXY, q.ret = ctrlRead|flags, bank, q.targ
		return "read of DRAM", q
	case 2:
		q.ctrl, q.retXY = ctrlWrite|flags, other
		return "write to a worker", q
	case 3:
		q.ctrl, q.retXY = ctrlWrite|flags, bank
		return "write to DRAM", q
	case 4:
		ends := [2]chip.XY{r.at[0], r.at[3-2*pick("rectangle", 4)/3]}
		if q.noc == 1 && pick("swapped", 20) != 0 {
			ends[0], ends[1] = ends[1], ends[0]
		}
		q.ctrl, q.start, q.retXY, q.ret = ctrlMulticast&^ctrlMarked|flags, &ends[0], ends[1], q.ret&^15|q.targ&15
		return "multicast", q
	case 5:
		q.targ = streamBase + 3*streamBytes + map[chip.Arch]uint64{chip.Wormhole: 0x88, chip.Blackhole: 0x438}[r.c.arch]
		q.ctrl, q.targXY, q.dat, q.len = ctrlWrite|ctrlInline|flags, other, q.dat&^0x3F, 15
		return "inline", q
	}
	q.ctrl, q.targXY, q.len = ctrlAtomic|ctrlMarked, other, 0x107C|uint32(q.targ>>2&3)
	return "atomic", q
}

// issue makes a request and reports whether it was performed in one piece.
func (r *requester) issue(from int, q nocRequest) bool {
	t := r.tiles[from]
	o := origin{tile: t, core: t.cores[0]}
	t.cores[0].state = runnable
	stores := q.stores(r.c.arch)
	for _, s := range stores[:len(stores)-1] {
		t.niuStore(o, int(q.noc), s[0]-niu0Base-0x10000*uint32(q.noc), s[1])
	}
	if r.c.fault != nil {
		return false
	}
	if _, ok := t.direct(o, int(q.noc), &t.niu[q.noc].buf[q.buf]); ok {
		return true
	}
	t.start(o, int(q.noc), q.buf)
	return false
}

func (r *requester) state() (s []string) {
	s = append(s, fmt.Sprint("fault: ", r.c.fault), fmt.Sprint("moved: ", r.c.moved))
	if r.c.fault != nil {
		return s // what came before it
	}
	for _, k := range r.c.queue {
		s = append(s, fmt.Sprint("runs: ", k.tile.number, k.proc))
	}
	for i, t := range r.tiles {
		s = append(s, fmt.Sprintf("worker %d: newest %d, classes %b", i, t.newest, t.classes))
		for n := range t.niu {
			u := &t.niu[n]
			s = append(s, fmt.Sprint("counters: ", i, n, u.count, u.open, u.unread, u.unsent, u.unfinished))
		}
		s = append(s, fmt.Sprint("streams: ", i, t.streams[:5]), fmt.Sprint("L1: ", i, t.l1[requestsFrom/4:][:2*requestsSize/4]),
			fmt.Sprint("flags: ", i, t.flags[requestsFrom>>lineShift:][:2*requestsSize>>lineShift]))
	}
	for i, d := range r.c.drams[:3] {
		s = append(s, fmt.Sprint("DRAM: ", i, d.newest))
		if p := d.pages[requestsFrom/dramPage]; p != nil {
			s = append(s, fmt.Sprint(p[requestsFrom/4:][:2*requestsSize/4]))
		}
	}
	return s
}

func TestOwnCoordinates(t *testing.T) {
	for _, arch := range arches {
		for _, h := range []chip.Harvesting{{}, {Tensix: 5}} {
			r := newRig(t, Config{Arch: arch, Synchronous: true, Harvesting: h})
			for _, tl := range r.c.tiles {
				for noc := range 2 {
					if ep := r.c.resolve(origin{}, "", noc, tl.id[noc]); tl.kind == chip.Tensix && !r.c.grid[tl.xy.Y][tl.xy.X].harvested &&
						(ep == nil || ep.tile != tl) {
						t.Errorf("%v, NoC %d: %#x isn't tile %v", arch, noc, tl.id[noc], tl.xy)
					}
				}
			}
		}
	}
}
