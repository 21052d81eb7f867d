package emu

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/sim/emu/internal/arc"
)

type hostMemory struct {
	mu   sync.Mutex
	base uint64
	p    []byte
	log  []string
}

var errUnmapped = errors.New("not mapped")

func (h *hostMemory) at(op string, bus uint64, n int) ([]byte, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.log = append(h.log, fmt.Sprintf("%s %#x %d", op, bus, n))
	if bus < h.base || bus+uint64(n) > h.base+uint64(len(h.p)) {
		return nil, errUnmapped
	}
	return h.p[bus-h.base:][:n], nil
}

func (h *hostMemory) ReadHost(bus uint64, p []byte) error {
	q, err := h.at("read", bus, len(p))
	copy(p, q)
	return err
}

func (h *hostMemory) WriteHost(bus uint64, p []byte) error {
	q, err := h.at("write", bus, len(p))
	copy(q, p)
	return err
}

func (r *rig) region(i int, base, limit, target uint64) {
	at := uint64(r.params.PCI.IATUBase) + 0x200*uint64(i)
	for _, w := range [][2]uint64{{0x08, base}, {0x0C, base >> 32}, {0x10, limit}, {0x14, target}, {0x18, target >> 32}} {
		r.dev.BARStore(2, at+w[0], 4, w[1]&0xFFFFFFFF)
	}
	if r.arch == chip.Blackhole {
		r.dev.BARStore(2, at+0x20, 4, limit>>32)
	}
	r.dev.BARStore(2, at+4, 4, 1<<31)
}

// Words move as accesses of exactly their size.
func TestHostMemory(t *testing.T) {
	for _, arch := range arches {
		for _, noc := range []chip.NOC{chip.NOC0, chip.NOC1} {
			r := syncRig(t, arch)
			h := &hostMemory{base: 0x12_3456_0000, p: pattern(1<<16, 4)}
			r.c.AttachDMA(h)
			r.region(2, 0x40000, 0x4FFFF, h.base)
			window := r.params.PCI.NOCBase + 0x40000
			v := r.worker(3, 2)
			r.issue(v, nocRequest{noc: noc, targ: window + 0x100, targXY: r.topo.PCIe(noc), ret: 0x30000, retXY: v, ctrl: ctrlRead,
				len: 999})
			r.healthy()
			if !bytes.Equal(r.read(v, 0x30000, 999), h.p[0x100:0x100+999]) {
				t.Fatalf("%v %v: what the tile read is not what the host has", arch, noc)
			}
			p := pattern(64, 5)
			r.write(v, 0x50000, p)
			h.log = nil
			for _, n := range []int{4, 8, 64, 3} {
				r.issue(v, nocRequest{noc: noc, targ: 0x50000, targXY: v, ret: window + 0x200, retXY: r.topo.PCIe(noc), ctrl: ctrlWriteNP,
					len: uint32(n)})
				if !bytes.Equal(h.p[0x200:0x200+n], p[:n]) {
					t.Fatalf("%v %v: write of %d bytes", arch, noc, n)
				}
			}
			want := fmt.Sprintf("[write %#x 4 write %#x 8 write %#x 64 write %#x 3]", h.base+0x200, h.base+0x200, h.base+0x200, h.base+0x200)
			equal(t, fmt.Sprint(h.log), want, "%v %v: host accesses", arch, noc)
			// Outside any region the translation is the identity, here unmapped.
			r.issue(v, nocRequest{noc: noc, targ: 0x50000, targXY: v, ret: window - 0x1000, retXY: r.topo.PCIe(noc),
				ctrl: ctrlWriteNP, len: 4})
			if f := r.refused(undefined); f.Tile != r.raw(v) && !f.Host {
				t.Errorf("%v: refusal names %v", arch, f.Tile)
			}
		}
	}
}

// The driver saves device control over a reset (tt-kmd wormhole.c open_dbi).
func TestControllerInsteadOfHost(t *testing.T) {
	r := syncRig(t, chip.Wormhole)
	h := &hostMemory{base: 0, p: pattern(1<<12, 4)}
	r.c.AttachDMA(h)
	const scratch6 = 0x1FF30078
	at := r.params.PCI.NOCBase + dbiControl
	enable := func(v uint64) {
		r.dev.BARStore(0, scratch6, 4, v)
		r.dev.BARStore(0, scratch6+4, 4, v)
	}
	enable(dbiEnable)
	r.st(r.topo.PCIe(chip.NOC0), at, 0x2830)
	equal(t, r.ld(r.topo.PCIe(chip.NOC0), at), 0x2830, "device control")
	enable(0)
	if v, want := r.ld(r.topo.PCIe(chip.NOC0), at), binary.LittleEndian.Uint32(h.p[dbiControl:]); v != want {
		t.Errorf("host memory is %#x afterwards, want %#x", v, want)
	}
	r.healthy()
	enable(dbiEnable)
	r.st(r.topo.PCIe(chip.NOC0), at+8, 0)
	r.refused(unimplemented)
}

func TestWindows(t *testing.T) {
	r := syncRig(t, chip.Wormhole)
	v := r.worker(1, 1)
	for _, w := range []struct {
		id   int
		bar0 uint64
		bits uint
	}{{0, 0, 20}, {155, 155 << 20, 20}, {156, 0x9C00000, 21}, {165, 0x9C00000 + 9<<21, 21}, {166, 0xB000000, 24},
		{184, 0xB000000 + 18<<24, 24}} {
		r.c.BARStore(0, 0x1FC00000+8*uint64(w.id), 8, uint64(v.X)<<(36-w.bits)|uint64(v.Y)<<(42-w.bits))
		for _, width := range []int{1, 2, 4, 8} {
			at := w.bar0 + 0x20000 + uint64(8*width)
			want := 0x1122334455667788 * uint64(w.id+1) & (1<<(8*width) - 1)
			if width == 8 {
				want = 0x1122334455667788 * uint64(w.id+1)
			}
			r.c.BARStore(0, at, width, want)
			equal(t, r.c.BARLoad(0, at, width), want, "window %d width %d", w.id, width)
			if got := r.read(v, 0x20000+uint64(8*width), width); binary.LittleEndian.Uint64(append(got, make([]byte, 8)...)) != want {
				t.Errorf("window %d width %d: the tile has %x", w.id, width, got)
			}
		}
	}
	// BAR 4 shows the last 32 MiB of BAR 0, window registers included.
	r.c.BARStore(4, 0x01C00000+8*185, 8, uint64(v.X)<<12|uint64(v.Y)<<18)
	r.c.BARStore(4, 0x20100, 4, 0xFEED)
	equal(t, r.ld(v, 0x20100), 0xFEED, "through BAR 4")
	r.healthy()

	b := syncRig(t, chip.Blackhole)
	v = b.worker(2, 2)
	bank := b.topo.DRAMBanks()[3]
	for i, w := range []uint32{0, uint32(bank.HostEndpoint.X) | uint32(bank.HostEndpoint.Y)<<6, 0} {
		b.c.BARStore(0, 0x1FC00000+12*204+uint64(4*i), 4, uint64(w))
	}
	at := uint64(2)<<32 + 0xFE123450
	b.c.BARStore(4, at, 8, 0xA5A5A5A512345678)
	equal(t, b.ld(bank.HostEndpoint, 0xFE123454), 0xA5A5A5A5, "4 GiB window: the bank")
	end := b.worker(13, 9)
	multicast := func(start, end chip.XY, v uint32) {
		cfg := [3]uint32{0, uint32(end.X)<<11 | uint32(end.Y)<<17 | uint32(start.X)<<23 | uint32(start.Y)<<29, uint32(start.Y)>>3 | 1<<5}
		for i, w := range cfg {
			b.c.BARStore(0, 0x1FC00000+12*7+uint64(4*i), 4, uint64(w))
		}
		b.c.BARStore(0, 7<<21+0x30000, 4, uint64(v))
		b.healthy()
		for w := range b.topo.Workers() {
			equal(t, b.ld(b.worker(w.X, w.Y), 0x30000), v, "multicast window: core %v", w)
		}
	}
	multicast(b.worker(1, 1), b.worker(0, 0), 4710) // around the grid
	multicast(b.worker(0, 0), end, 4711)
	b.st(end, 0x30000, 4712)
	if got := b.c.BARLoad(0, 7<<21+0x30000, 4); got != 4712 { // TestUnmappedAddresses has its refusal by option
		t.Errorf("multicast window: loaded %d, want what the end of the rectangle has", got)
	}
	b.healthy()
}

func TestConfigSpace(t *testing.T) {
	for arch, id := range map[chip.Arch]uint32{chip.Wormhole: 0x401E1E52, chip.Blackhole: 0xB1401E52} {
		r := syncRig(t, arch)
		equal(t, r.c.ConfigRead(0), id, "%v: id", arch)
		// The subsystem tells the kind of board, as the serial number does (tt-kmd telemetry.c).
		if got, want := r.c.ConfigRead(0x2C), map[chip.Arch]uint32{chip.Wormhole: 0x00181E52,
			chip.Blackhole: 0x00401E52}[arch]; got != want {
			t.Errorf("%v: subsystem %#x, want %#x", arch, got, want)
		}
		for _, bar := range []uint32{0, 2, 4} {
			lo, hi := 0x10+4*bar, 0x14+4*bar
			r.c.ConfigWrite(lo, 0xFFFFFFFF)
			r.c.ConfigWrite(hi, 0xFFFFFFFF)
			size := -(uint64(r.c.ConfigRead(hi))<<32 | uint64(r.c.ConfigRead(lo)&^15))
			equal(t, size, r.params.PCI.BARSize[bar], "%v BAR %d: size", arch, bar)
		}
	}
}

func TestARC(t *testing.T) {
	w := newRig(t, Config{Arch: chip.Wormhole, Synchronous: true, Harvesting: chip.Harvesting{Tensix: 1<<0 | 1<<9}})
	const apb = 0x1FF30000
	equal(t, w.c.BARLoad(0, apb+0x60, 4), 0xC0DE0001, "post code")
	message := func(code uint64) (result uint64) {
		w.c.BARStore(0, apb+0x60+12, 4, 0xFFFFFFFF)
		w.c.BARStore(0, apb+0x60+20, 4, 0xAA00+code)
		w.c.BARStore(0, apb+0x100, 4, 1<<16)
		equal(t, w.c.BARLoad(0, apb+0x60+20, 4), code, "message %#x: status", code)
		return w.c.BARLoad(0, apb+0x60+12, 4)
	}
	// Rows y=1 and y=11 are the second and the first in the order of fuses.
	equal(t, message(0x57), 0b11, "harvesting message")
	equal(t, message(0x34), 1000, "AICLK")
	// A message in a queue, whose address counts from the start of ARC memory.
	csm := uint64(w.params.BAR.ARCCSM)
	control := csm + w.c.BARLoad(0, apb+0x1D8, 4) - arc.CSM
	queue := csm + w.c.BARLoad(0, control, 4)
	w.c.BARStore(0, queue+32, 4, uint64(chip.ARCQueuePower))
	w.c.BARStore(0, queue, 4, 1)
	w.c.BARStore(0, apb+0x100, 4, 1<<16)
	equal(t, w.c.BARLoad(0, queue+0x14, 4), 1, "response pointer after a message")
	w.healthy()

	b := newRig(t, Config{Arch: chip.Blackhole, Synchronous: true, Harvesting: chip.Harvesting{Tensix: 1 << 13, DRAM: 1 << 2, Ethernet: 3}})
	arc := b.topo.ARC()
	if got := b.ld(arc, 0x80030408); got&7 != 5 {
		t.Errorf("boot status %#x", got)
	}
	table, values := uint64(b.ld(arc, 0x80030400+13*4)), uint64(b.ld(arc, 0x80030400+12*4))
	got := map[uint32]uint32{}
	for i := range uint64(b.ld(arc, table+4)) {
		e := b.ld(arc, table+8+4*i)
		got[e&0xFFFF] = b.ld(arc, values+4*uint64(e>>16))
	}
	// Column x=16 is the second in the order of fuses.
	for tag, want := range map[uint32]uint32{34: 0x3FFD, 35: 0x3FFC, 36: 0xFB, 40: 1, 22: 0x5555} {
		equal(t, got[tag], want, "telemetry tag %d", tag)
	}
	qcb := uint64(b.ld(arc, 0x80030400+11*4))
	q, n := uint64(b.ld(arc, qcb)), uint64(b.ld(arc, qcb+4)&0xFF)
	for i := range uint32(20) { // pointers wrap at twice the number of entries
		wr := i % uint32(2*n)
		b.st(arc, q+32+32*uint64(wr%uint32(n)), 0x90)
		b.st(arc, q, (wr+1)%uint32(2*n))
		b.st(arc, 0x80030100, 1<<16)
		if got := b.ld(arc, q+0x14); got != (wr+1)%uint32(2*n) {
			t.Fatalf("message %d: response pointer %d", i, got)
		}
	}
	if got := b.c.BARLoad(0, 0x1FD04044, 4); got == 0xFFFFFFFF {
		t.Error("hang check reads all-ones")
	}
	if got := b.c.BARLoad(0, 0x1FD04100, 4); got>>14&1 != 1 {
		t.Errorf("translation flag: %#x", got)
	}
	b.healthy()
}

// The firmware passes a request for a reset on; without anybody it accepts the message.
func TestResetAsked(t *testing.T) {
	w := newRig(t, Config{Arch: chip.Wormhole, Synchronous: true})
	b := newRig(t, Config{Arch: chip.Blackhole, Synchronous: true})
	send := map[chip.Arch]func(){
		chip.Wormhole: func() {
			const apb = 0x1FF30000
			w.c.BARStore(0, apb+0x60+20, 4, 0xAA56)
			w.c.BARStore(0, apb+0x100, 4, 1<<16)
			equal(t, w.c.BARLoad(0, apb+0x60+20, 4), 0x56, "Wormhole: status")
		},
		chip.Blackhole: func() {
			arc := b.topo.ARC()
			q := uint64(b.ld(arc, uint64(b.ld(arc, 0x80030400+11*4))))
			wr := b.ld(arc, q)
			b.st(arc, q+32+32*uint64(wr), 0x56)
			b.st(arc, q, wr+1)
			b.st(arc, 0x80030100, 1<<16)
			equal(t, b.ld(arc, q+0x14), wr+1, "Blackhole: response pointer")
		},
	}
	for _, r := range []*rig{w, b} {
		asked := 0
		send[r.arch]()
		r.c.OnResetAsked(func() { asked++ })
		send[r.arch]()
		send[r.arch]()
		equal(t, asked, 2, "%v: times it asked", r.arch)
		r.healthy()
	}
}

func TestDMAEngines(t *testing.T) {
	r := syncRig(t, chip.Wormhole)
	h := &hostMemory{base: 0x5000_0000, p: pattern(1<<16, 8)}
	r.c.AttachDMA(h)
	v := r.worker(2, 2)
	dev := r.point(v, 0x20000)
	set := func(off, v uint64) { r.c.BARStore(2, off, 4, v) }
	for _, w := range [][2]uint64{{0x308, 0x3000}, {0x30C, 0x5000_0100}, {0x310, 0}, {0x314, dev}, {0x318, 0}, {0xCC, 0x5000_8000}, {0xD0, 0},
		{0xDC, 0xD0E}, {0x30, 0}} {
		set(w[0], w[1])
	}
	if !bytes.Equal(r.read(v, 0x20000, 0x3000), h.p[0x100:0x3100]) || binary.LittleEndian.Uint32(h.p[0x8000:]) != 0xD0E {
		t.Error("host to device")
	}
	for _, w := range [][2]uint64{{0x208, 0x1000}, {0x20C, dev + 0x1000}, {0x210, 0}, {0x214, 0x5000_9000}, {0x218, 0}, {0x60, 0x5000_8004},
		{0x64, 0}, {0x70, 0xF00}, {0x10, 0}} {
		set(w[0], w[1])
	}
	if !bytes.Equal(h.p[0x9000:0xA000], h.p[0x1100:0x2100]) || binary.LittleEndian.Uint32(h.p[0x8004:]) != 0xF00 {
		t.Error("device to host")
	}
	r.healthy()
	b := syncRig(t, chip.Blackhole)
	b.c.AttachDMA(h)
	v = b.worker(2, 2)
	dev = b.point(v, 0x20000)
	for _, w := range [][2]uint64{{0x11C, 0x3000}, {0x120, 0x5000_0100}, {0x124, 0}, {0x128, dev}, {0x12C, 0}, {0x104, 1}} {
		b.c.BARStore(2, w[0], 4, w[1])
	}
	if !bytes.Equal(b.read(v, 0x20000, 0x3000), h.p[0x100:0x3100]) || b.c.BARLoad(2, 0x11C, 4) != 0 {
		t.Error("Blackhole host to device")
	}
	b.healthy()
}

func TestDMABeyondWindows(t *testing.T) {
	for _, arch := range arches {
		for _, dev := range []uint64{0x1F000000, 0x20000000, 0xF0000000, 0xFFFFFFFC} {
			r := syncRig(t, arch)
			r.c.AttachDMA(&hostMemory{p: make([]byte, 4096)})
			registers := [][2]uint64{{0x308, 16}, {0x30C, 0}, {0x310, 0}, {0x314, dev}, {0x318, 0}, {0x30, 0}}
			if arch == chip.Blackhole {
				registers = [][2]uint64{{0x11C, 16}, {0x120, 0}, {0x124, 0}, {0x128, dev}, {0x12C, 0}, {0x104, 1}}
			}
			for _, w := range registers {
				r.c.BARStore(2, w[0], 4, w[1])
			}
			if f := r.refused(unimplemented); f.Addr != dev {
				t.Errorf("%v: %v, want one about %#x", arch, f, dev)
			}
		}
	}
}

func TestQueuedStores(t *testing.T) {
	r := newRig(t, Config{Arch: chip.Wormhole, Seed: 5})
	v := r.worker(0, 0)
	// BRISC never waits: the chip is always busy.
	r.run(v, onB().label("l").addi(a0, a0, 1).j("l"))
	at := r.point(v, 0x40000)
	for i := range uint64(5000) {
		r.c.BARStore(0, at, 4, i)
		r.c.BARStore(0, at+4, 4, ^i)
		if i%701 == 0 {
			if a, b := r.c.BARLoad(0, at, 4), r.c.BARLoad(0, at+4, 4); a != i || b != ^i&0xFFFFFFFF {
				t.Fatalf("after store %d the chip has %d and %#x", i, a, b)
			}
		}
	}
	r.healthy()
	equal(t, testing.AllocsPerRun(100, func() { r.c.BARStore(0, at, 4, 1); r.c.BARLoad(0, at, 4) }), 0,
		"allocations of a store and a load")
}

func TestReset(t *testing.T) {
	for _, synchronous := range []bool{true, false} {
		r := newRig(t, Config{Arch: chip.Blackhole, Synchronous: synchronous})
		v := r.worker(0, 0)
		r.run(v, onB().emit(0))
		r.eventually2(func() bool { return r.c.Fault() != nil })
		r.reset()
		r.healthy()
		equal(t, r.ld(v, 0xFFB121B0), 0x47800, "soft reset")
		equal(t, r.ld(v, 0), 0, "memory after a reset")
		r.run(v, onB().stw(0x40000, 9).halt())
		r.eventually("runs again", func() bool { return r.ld(v, 0x40000) == 9 })
	}
}

func TestClockGatesKeepTheirValue(t *testing.T) {
	for _, arch := range arches {
		r := syncRig(t, arch)
		v := r.worker(0, 0)
		for i, off := range []uint64{0x70, 0x74, 0x7C} {
			r.st(v, debugBase+off, 0x2020202+uint32(i))
		}
		for i, off := range []uint64{0x70, 0x74, 0x7C} {
			equal(t, r.ld(v, debugBase+off), 0x2020202+uint32(i), "%v: register %#x", arch, off)
		}
		r.healthy()
	}
}

func (r *rig) eventually2(ok func() bool) {
	for range 100000 {
		if ok() {
			return
		}
		time.Sleep(100 * time.Microsecond)
	}
	r.t.Fatal("it did not happen")
}

func observing(r *rig) *rig {
	o := *r
	o.c, o.dev = nil, r.c.Observe()
	return &o
}

func TestObserverHasItsOwnWindows(t *testing.T) {
	for _, arch := range arches {
		r := syncRig(t, arch)
		o := observing(r)
		a, b := r.worker(1, 1), r.worker(2, 2)
		r.st(a, 0x20000, 1)
		r.st(b, 0x20000, 2)
		mine := r.point(a, 0x20000)
		if got := o.ld(b, 0x20000); got != 2 { // aims the observer's window
			t.Errorf("%v: the observer loaded %d, want 2", arch, got)
		}
		equal(t, r.dev.BARLoad(0, mine, 4), 1, "%v: then the host's window loaded", arch)
		o.st(b, 0x20000, 3)
		equal(t, r.ld(b, 0x20000), 3, "%v: the host's load after the observer's store", arch)
		r.healthy()
	}
}

func TestObserverCanBeRefused(t *testing.T) {
	for _, arch := range arches {
		r := newRig(t, Config{Arch: arch, Synchronous: true, RefuseUnwritten: true})
		o := observing(r)
		v := r.worker(1, 1)
		equal(t, o.ld(v, 0x30000), 0, "%v: memory never written", arch)
		observer := r.c.Observe()
		err := observer.ReadTile(r.raw(v), 1<<40, make([]byte, 4))
		if !errors.Is(err, ErrRefused) {
			t.Errorf("%v: ReadTile of a wild address: %v", arch, err)
		}
		r.st(v, 0x30000, 5)
		equal(t, o.ld(v, 0x30000), 5, "%v: the observer's load after a refusal", arch)
		equal(t, o.ld(v, 0x30004), 0, "%v: more of it", arch)
		r.healthy()
		equal(t, r.ld(v, 0x30004), 0xFFFF_FFFF, "%v: to the host", arch)
		equal(t, o.ld(v, 0x30004), 0, "%v: on a stopped chip", arch)
	}
}

func TestObserverOfStoppedChip(t *testing.T) {
	for _, arch := range arches {
		r := syncRig(t, arch)
		v := r.worker(1, 1)
		r.write(v, 0x20000, []byte("what was there"))
		select {
		case <-r.c.Stopped():
			t.Fatalf("%v: it has not stopped", arch)
		default:
		}
		r.dev.BARLoad(0, 1<<40, 4)
		select {
		case <-r.c.Stopped():
		default:
			t.Errorf("%v: Stopped received nothing", arch)
		}
		fails(t, r.c.Fault(), ErrRefused, "%v: fault", arch)
		equal(t, r.ld(v, 0x20000), 0xFFFF_FFFF, "%v: the host loaded", arch)
		p := make([]byte, 14)
		if err := r.c.Observe().ReadTile(r.raw(v), 0x20000, p); err != nil || !bytes.Equal(p, []byte("what was there")) {
			t.Errorf("%v: the observer read %q, %v", arch, p, err)
		}
		if !r.c.ReadCore(r.raw(v), chip.BRISC, 0x20000, p) || !bytes.Equal(p, []byte("what was there")) {
			t.Errorf("%v: ReadCore read %q", arch, p)
		}
	}
}

// Tools go on reading memory, registers and processors after a processor has executed zeros.
func TestObserverOfCrash(t *testing.T) {
	for _, cfg := range []Config{{}, {Synchronous: true, MaxRun: 1000, RefuseUnwritten: true, RefuseRaces: true, RefuseUnmapped: true}} {
		for _, cfg.Arch = range arches {
			r := newRig(t, cfg)
			o := observing(r)
			v := r.worker(1, 1)
			r.write(v, 0x20000, []byte("what was there!!"))
			r.run(v, onB().li(a0, 77).emit(0))
			r.eventually("stop", func() bool { return r.c.Fault() != nil })
			equal(t, r.ld(v, 0x20000), 0xFFFF_FFFF, "%v: the host loaded", cfg.Arch)
			equal(t, string(o.read(v, 0x20000, 16)), "what was there!!", "%v: L1", cfg.Arch)
			o.st(v, debugBase+regDebugBusControl, 1<<29|7<<16|10)
			p := debugProbe{o, v, 0}
			p.pause()
			for at, want := range map[uint64]uint32{0x20000: 0x74616877, 0x80000: 0, debugBase + regSoftReset: 0x47000,
				debugBase + regDebugBusData: 1<<31 | 0x1008, niu0Base + 0x200: 0} {
				equal(t, o.ld(v, at), want, "%v: %#x", cfg.Arch, at)
			}
			equal(t, p.reg(a0), 77, "%v: a0", cfg.Arch)
			equal(t, p.load(0x20000), 0x74616877, "%v: L1 through the processor", cfg.Arch)
		}
	}
}

func TestReadCore(t *testing.T) {
	for _, arch := range arches {
		r := syncRig(t, arch)
		v := r.worker(1, 1)
		r.run(v, onB().li(a0, localBase).li(a1, 0x04030201).sw(a1, a0, 8).label("l").j("l"))
		p := make([]byte, 3)
		if !r.c.ReadCore(r.raw(v), chip.BRISC, localBase+9, p) || !bytes.Equal(p, []byte{2, 3, 4}) {
			t.Errorf("%v: local RAM: % x", arch, p)
		}
		for _, addr := range []uint32{localBase + 1<<20, r.params.L1Size - 1, 0xFFFF_FFFF} {
			if r.c.ReadCore(r.raw(v), chip.BRISC, addr, p) {
				t.Errorf("%v: there is memory at %#x", arch, addr)
			}
		}
		if r.c.ReadCore(chip.XY{X: 60, Y: 60}, chip.BRISC, 0, p) || r.c.ReadCore(r.raw(v), chip.ERISC0, 0, p) {
			t.Errorf("%v: there is a processor that the chip doesn't have", arch)
		}
		r.healthy()
	}
}
