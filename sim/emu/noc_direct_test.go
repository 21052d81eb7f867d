package emu

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/reprise-tt/reprise/chip"
)

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
	c, err := newChip(Config{Arch: arch, Synchronous: true})
	if err != nil {
		t.Fatal(err)
	}
	c.inPlace = !stepwise
	c.sched.init(c)
	r := &requester{c: c, topo: c.Topology()}
	for i := range 4 {
		core := chip.Core{X: 1 + i%2, Y: 1 + i/2}
		v, err := r.topo.Virtual(core)
		if err != nil {
			t.Fatal(err)
		}
		raw, err := r.topo.Physical(core)
		if err != nil {
			t.Fatal(err)
		}
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
