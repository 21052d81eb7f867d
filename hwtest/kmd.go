package hwtest

import (
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/kmd"
)

func kmdCases() []testCase {
	cs := []testCase{
		{name: "identity", protects: "the driver, the firmware and the chip facts agree about what the device is", fn: identity},
		{name: "telemetry", protects: "the management firmware's table can be read and has a plausible clock", fn: telemetry},
		{name: "every worker's L1", protects: "each logical core is a tile of its own, from its first byte to its last", fn: everyL1},
		{name: "node ids", protects: "coordinate translation leads where the chip facts say, for every worker", fn: nodeIDs},
		{name: "reset register", protects: "after opening, all processors of every worker are held in reset", fn: resetRegisters},
		{name: "DRAM bank ends", protects: "every DRAM bank can be reached from its first byte to its last, and no two are the same memory", fn: bankEnds},
		{name: "DRAM ports", protects: "a bank's ports lead to the same memory", fn: bankPorts},
		{name: "read32 all ones", protects: "a word of all ones on a live device is data, not a lost device", fn: allOnes},
		{name: "window moves", protects: "stores before a window is moved go to the old target, stores after it to the new one", fn: windowMoves},
		{name: "window misuse", protects: "an access outside of its window is an error and doesn't reach the device", fn: windowMisuse},
		{name: "window exhaustion", protects: "closed windows can be opened again, and one more than there are is ErrBusy", fn: windowExhaustion},
		{name: "host memory out", protects: "a tile writes pinned host memory at every offset class", fn: hostMemoryOut},
		{name: "host memory in", protects: "a tile reads pinned host memory", fn: hostMemoryIn},
		{name: "host memory through a window", protects: "the host sees its own pinned memory through the PCIe tile", fn: hostMemoryLoop},
		{name: "two pins", protects: "two pieces of pinned memory have addresses of their own", fn: twoPins},
	}
	for _, width := range []int{1, 2, 4, 8} {
		for _, at := range []string{"start", "middle", "end"} {
			cs = append(cs, testCase{
				name:     fmt.Sprintf("access of %d bytes at the %s of L1", width, at),
				protects: "an access of exactly one width changes exactly its bytes",
				fn:       func(t *fixture) { exactWidth(t, width, at) },
			})
		}
	}
	for _, n := range []int{1, 2, 3, 4, 5, 7, 8, 15, 16, 31, 33, 64, 4095, 4096, 65537, 1 << 20} {
		cs = append(cs, testCase{
			name:     fmt.Sprintf("copy of %d bytes", n),
			protects: "copies of any length at any alignment change exactly their bytes",
			fn:       func(t *fixture) { copies(t, n) },
		})
	}
	for _, r := range []string{"single", "row", "column", "corner", "inner", "all", "last row", "last column"} {
		cs = append(cs, testCase{
			name:     "multicast to " + r,
			protects: "a multicast reaches every tile of its rectangle and none outside",
			fn:       func(t *fixture) { multicastRect(t, r) },
		})
	}
	for _, class := range []int{0, 1, 2} {
		for _, caching := range []kmd.Caching{kmd.Uncached, kmd.WriteCombined} {
			cs = append(cs, testCase{
				name:     fmt.Sprintf("window class %d %v", class, caching),
				protects: "windows of every size and memory type work from their first byte to their last",
				fn:       func(t *fixture) { windowEnds(t, class, caching) },
			})
		}
	}
	for _, o := range []kmd.Ordering{kmd.Strict, kmd.Relaxed, kmd.Posted} {
		cs = append(cs, testCase{
			name:     fmt.Sprintf("ordering %d", o),
			protects: "a load after a store through the same window sees it, whatever the ordering",
			fn:       func(t *fixture) { ordering(t, o) },
		})
	}
	for _, stream := range []int{0, 8, 31, 48, 55} {
		cs = append(cs, testCase{
			name:     fmt.Sprintf("stream %d counts", stream),
			protects: "a stream's counter adds and wraps at 17 bits",
			fn:       func(t *fixture) { streamCounts(t, stream) },
		})
	}
	return cs
}

func identity(t *fixture) {
	if t.device.Arch != 0 && t.kd.Arch() != t.device.Arch {
		t.Errorf("opened a %v, want a %v", t.kd.Arch(), t.device.Arch)
	}
	i := t.kd.Info()
	if i.Vendor != t.p.PCI.Vendor || i.Device != t.p.PCI.Device {
		t.Errorf("PCI id %04x:%04x, want %04x:%04x", i.Vendor, i.Device, t.p.PCI.Vendor, t.p.PCI.Device)
	}
	t.ok(t.kd.Alive())
	t.ok(t.kd.Fault())
}

func telemetry(t *fixture) {
	tel, err := t.kd.Telemetry(t.ctx)
	t.ok(err)
	if v, ok := tel.Value(chip.TagAICLK); !ok || v < 100 || v > 2000 {
		t.Errorf("clock %d MHz (%t), want 100 to 2000", v, ok)
	}
}

func everyL1(t *fixture) {
	// First all writes, then all reads: two cores that were one tile would show the later one's bytes twice.
	places := []uint32{0, 0x1000, t.p.L1Size / 2, t.p.L1Size - 16}
	seed := uint32(0)
	for c := range t.ch.Workers() {
		for _, at := range places {
			t.poke(c, at, pattern(seed, 16))
			seed++
		}
	}
	seed = 0
	for c := range t.ch.Workers() {
		for _, at := range places {
			t.same(fmt.Sprintf("core %v at %#x", c, at), pattern(seed, 16), t.peek(c, at, 16))
			seed++
		}
	}
}

func nodeIDs(t *fixture) {
	for c := range t.ch.Workers() {
		raw, err := t.ch.Physical(c)
		t.ok(err)
		for _, n := range []chip.NOC{chip.NOC0, chip.NOC1} {
			id, err := t.kd.Read32(t.virtual(c), uint64(t.p.NIU.Reg(n, t.p.NIU.NodeID)))
			t.ok(err)
			if want := t.ch.NodeID(n, raw); id&0xFFF != want&0xFFF {
				t.Errorf("core %v says on %v that it is %#x, want %#x", c, n, id, want)
			}
		}
		logical, err := t.kd.Read32(t.virtual(c), uint64(t.p.NIU.Reg(chip.NOC0, t.p.NIU.IDLogical)))
		t.ok(err)
		if xy := t.virtual(c); logical != xy.Packed() {
			t.Errorf("core %v has the virtual coordinate %#x, want %#x", c, logical, xy.Packed())
		}
	}
}

func resetRegisters(t *fixture) {
	for c := range t.ch.Workers() {
		v, err := t.kd.Read32(t.virtual(c), uint64(t.p.SoftReset))
		t.ok(err)
		if v&t.p.ResetAll != t.p.ResetAll {
			t.Errorf("core %v: soft reset is %#x, want the bits %#x", c, v, t.p.ResetAll)
		}
	}
}

func bankEnds(t *fixture) {
	banks := t.ch.DRAMBanks()
	for i, b := range banks {
		t.pokeDRAM(i, 0, pattern(uint32(i), 64))
		t.pokeDRAM(i, b.Size-64, pattern(uint32(i)+100, 64))
	}
	for i, b := range banks {
		t.same(fmt.Sprintf("first bytes of bank %d", i), pattern(uint32(i), 64), t.peekDRAM(i, 0, 64))
		t.same(fmt.Sprintf("last bytes of bank %d", i), pattern(uint32(i)+100, 64), t.peekDRAM(i, b.Size-64, 64))
	}
}

func bankPorts(t *fixture) {
	for i, b := range t.ch.DRAMBanks() {
		at := b.Offset + 1<<20
		for k, port := range b.Ports {
			want := pattern(uint32(i*10+k), 64)
			t.ok(t.kd.Write(port, at, want))
			for _, other := range b.Ports {
				got := make([]byte, 64)
				t.ok(t.kd.Read(other, at, got))
				t.same(fmt.Sprintf("bank %d written through %v, read through %v", i, port, other), want, got)
			}
		}
	}
}

func allOnes(t *fixture) {
	c := chip.Core{}
	t.poke(c, scratch, []byte{0xFF, 0xFF, 0xFF, 0xFF})
	if v, err := t.kd.Read32(t.virtual(c), scratch); err != nil || v != 0xFFFFFFFF {
		t.Errorf("read %#x, %v", v, err)
	}
}

// window opens a window and closes it with the case.
func (t *fixture) window(size uint64, caching kmd.Caching) *kmd.Window {
	t.Helper()
	w, err := t.kd.OpenWindow(size, caching)
	t.ok(err)
	t.Cleanup(func() {
		if err := errors.Join(w.Err(), w.Close()); err != nil {
			t.Error(err)
		}
	})
	return w
}

func exactWidth(t *fixture, width int, at string) {
	c := t.corners()[3]
	base := map[string]uint32{"start": 0, "middle": scratch, "end": t.p.L1Size - 64}[at]
	class := t.p.Windows[0]
	w := t.window(class.Size, kmd.Uncached)
	t.ok(w.Configure(kmd.WindowConfig{Target: t.virtual(c), Addr: uint64(base) / class.Size * class.Size}))
	for i := 0; i+width <= 64; i += width {
		want := pattern(uint32(i), 64)
		t.poke(c, base, want)
		off := (uint64(base) + uint64(i)) % class.Size
		v := 0x8182838485868788 + uint64(i)*0x0101010101010101
		var b [8]byte
		binary.LittleEndian.PutUint64(b[:], v)
		copy(want[i:i+width], b[:])
		switch width {
		case 1:
			w.Store8(off, uint8(v))
		case 2:
			w.Store16(off, uint16(v))
		case 4:
			w.Store32(off, uint32(v))
		case 8:
			w.Store64(off, v)
		}
		t.same(fmt.Sprintf("store of %d at %d", width, i), want, t.peek(c, base, 64))
		var got uint64
		switch width {
		case 1:
			got = uint64(w.Load8(off))
		case 2:
			got = uint64(w.Load16(off))
		case 4:
			got = uint64(w.Load32(off))
		case 8:
			got = w.Load64(off)
		}
		if mask := ^uint64(0) >> (64 - 8*width); got != v&mask {
			t.Errorf("load of %d at %d: %#x, want %#x", width, i, got, v&mask)
		}
	}
}

func copies(t *fixture, n int) {
	c := chip.Core{X: 1, Y: 1}
	for _, shift := range []uint32{0, 1, 2, 3, 4, 7, 8} {
		at := uint32(0x20000) + shift
		all := pattern(1000, n+32)
		t.poke(c, at-16+0, all)
		want := pattern(shift, n)
		t.poke(c, at, want)
		copy(all[16:], want)
		t.same(fmt.Sprintf("%d bytes at shift %d", n, shift), all, t.peek(c, at-16, n+32))
	}
}

// rectangle names parts of a grid.
func rectangle(g chip.Range, name string) chip.Range {
	x, y := g.End.X, g.End.Y
	at := func(x0, y0, x1, y1 int) chip.Range {
		return chip.Range{Start: chip.Core{X: x0, Y: y0}, End: chip.Core{X: x1, Y: y1}}
	}
	switch name {
	case "single":
		return at(1, 1, 1, 1)
	case "row":
		return at(0, 0, x, 0)
	case "column":
		return at(0, 0, 0, y)
	case "corner":
		return at(x-1, y-1, x, y)
	case "inner":
		return at(1, 1, x-1, y-1)
	case "last row":
		return at(0, y, x, y)
	case "last column":
		return at(x, 0, x, y)
	}
	return g
}

func multicastRect(t *fixture, name string) {
	r := rectangle(t.ch.All(), name)
	before, after := pattern(1, 64), pattern(2, 64)
	for c := range t.ch.Workers() {
		t.poke(c, scratch, before)
	}
	for _, v := range t.ch.Rects(r) {
		start, end := v.Corners(chip.NOC0)
		t.ok(t.kd.Multicast(start, end, scratch+16, after[16:48]))
	}
	copy(after[:16], before)
	copy(after[48:], before[48:])
	for c := range t.ch.Workers() {
		want := before
		if r.Contains(c) {
			want = after
		}
		t.same(fmt.Sprintf("core %v", c), want, t.peek(c, scratch, 64))
	}
}

func windowMoves(t *fixture) {
	class := t.p.Windows[0]
	for _, caching := range []kmd.Caching{kmd.Uncached, kmd.WriteCombined} {
		w := t.window(class.Size, caching)
		for i, c := range t.corners() {
			t.ok(w.Configure(kmd.WindowConfig{Target: t.virtual(c)}))
			w.Store32(scratch, uint32(i)+0xA0)
		}
		w.Drain()
		for i, c := range t.corners() {
			if got := t.peek(c, scratch, 4); got[0] != byte(i)+0xA0 {
				t.Errorf("%v window: core %v has %#x, want %#x", caching, c, got[0], i+0xA0)
			}
		}
	}
}

func windowMisuse(t *fixture) {
	for name, access := range map[string]func(*kmd.Window){
		"misaligned":    func(w *kmd.Window) { w.Store32(scratch+2, 1) },
		"outside":       func(w *kmd.Window) { w.Store32(w.Size(), 1) },
		"over the end":  func(w *kmd.Window) { w.Load64(w.Size() - 4) },
		"bulk over end": func(w *kmd.Window) { w.Write(w.Size()-8, make([]byte, 16)) },
	} {
		w, err := t.kd.OpenWindow(t.p.Windows[0].Size, kmd.Uncached)
		t.ok(err)
		t.ok(w.Configure(kmd.WindowConfig{Target: t.virtual(chip.Core{})}))
		access(w)
		if err := w.Err(); !errors.Is(err, kmd.ErrMisaligned) && !errors.Is(err, kmd.ErrOutOfRange) {
			t.Errorf("%s: error %v", name, err)
		}
		t.ok(w.Close())
	}
	w := t.window(t.p.Windows[0].Size, kmd.Uncached)
	if err := w.Configure(kmd.WindowConfig{Target: t.virtual(chip.Core{}), Addr: 4096}); !errors.Is(err, kmd.ErrMisaligned) {
		t.Errorf("window at an address that isn't a multiple of its size: %v", err)
	}
	t.ok(t.kd.Alive())
}

func windowExhaustion(t *fixture) {
	class := t.p.Windows[len(t.p.Windows)-1]
	for range 2 {
		var all []*kmd.Window
		var last error
		for range class.Count + 1 {
			w, err := t.kd.OpenWindow(class.Size, kmd.Uncached)
			if err != nil {
				last = err
				break
			}
			all = append(all, w)
		}
		if !errors.Is(last, kmd.ErrBusy) {
			t.Errorf("after %d windows of %d B: %v, want ErrBusy", len(all), class.Size, last)
		}
		for _, w := range all {
			t.ok(w.Close())
		}
	}
}

func windowEnds(t *fixture, n int, caching kmd.Caching) {
	if n >= len(t.p.Windows) {
		t.Skip("the chip has no such windows")
	}
	class := t.p.Windows[n]
	// DRAM is larger than any window but the largest one, whose end lies beyond it.
	b := t.ch.DRAMBanks()[0]
	end := min(class.Size, b.Size)
	w := t.window(class.Size, caching)
	t.ok(w.Configure(kmd.WindowConfig{Target: b.HostEndpoint, Addr: b.Offset / class.Size * class.Size}))
	for _, off := range []uint64{0, 64, end/2 - 32, end - 64} {
		want := pattern(uint32(off>>4)+7, 64)
		w.Write(off, want)
		w.Drain()
		got := make([]byte, 64)
		w.Read(off, got)
		t.same(fmt.Sprintf("offset %#x", off), want, got)
		t.same(fmt.Sprintf("offset %#x past the window", off), want, t.peekDRAM(0, off, 64))
	}
}

func ordering(t *fixture, o kmd.Ordering) {
	w := t.window(t.p.Windows[0].Size, kmd.Uncached)
	for i, c := range t.corners() {
		t.ok(w.Configure(kmd.WindowConfig{Target: t.virtual(c), Ordering: o}))
		for k := range uint64(64) {
			w.Store64(scratch+8*k, k<<32|uint64(i))
		}
		for k := range uint64(64) {
			if v := w.Load64(scratch + 8*k); v != k<<32|uint64(i) {
				t.Fatalf("word %d of core %v is %#x", k, c, v)
			}
		}
	}
}

func streamCounts(t *fixture, stream int) {
	if stream >= t.p.Stream.Count {
		t.Skip("no such stream")
	}
	available := uint64(t.p.Stream.Reg(stream, chip.SpaceAvailable))
	update := uint64(t.p.Stream.Reg(stream, chip.SpaceAvailableUpdate))
	const mask = 1<<chip.StreamCounterBits - 1
	for _, c := range t.corners() {
		xy := t.virtual(c)
		load := func() uint32 {
			v, err := t.kd.Read32(xy, available)
			t.ok(err)
			return v & mask
		}
		count := load()
		for _, n := range []int32{1, 7, -3, 1 << 15, 1 << 15, 1<<16 - 1, 1, -(1 << 15), 100} {
			t.ok(t.kd.Write32(xy, update, chip.StreamUpdate(n)))
			count = (count + uint32(n)) & mask
			if got := load(); got != count {
				t.Fatalf("core %v: after %+d the counter is %#x, want %#x", c, n, got, count)
			}
		}
		t.ok(t.kd.Write32(xy, update, chip.StreamUpdate(-int32(load()))))
		if got := load(); got != 0 {
			t.Errorf("core %v: %#x after subtracting everything", c, got)
		}
	}
}

// request makes the network interface of a tile perform one request, programmed from outside.
func (t *fixture) request(c chip.Core, ctrl uint32, targ chip.XY, targAddr uint64, ret chip.XY, retAddr uint64, n int) {
	t.Helper()
	niu, a := &t.p.NIU, t.p.Arch
	regs := [][2]uint32{
		{niu.Ctrl, ctrl},
		{niu.TargAddrLo, uint32(targAddr)}, {niu.RetAddrLo, uint32(retAddr)}, {niu.AtLenBe, uint32(n)},
	}
	if a == chip.Wormhole { // bits 35:32 of an address stand below the coordinate
		regs = append(regs, [2]uint32{niu.TargCoord, a.NOCXY(targ) | uint32(targAddr>>32)},
			[2]uint32{niu.RetCoord, a.NOCXY(ret) | uint32(retAddr>>32)})
	} else {
		regs = append(regs, [2]uint32{niu.TargCoord, a.NOCXY(targ)}, [2]uint32{niu.TargAddrMid, uint32(targAddr >> 32)},
			[2]uint32{niu.RetCoord, a.NOCXY(ret)}, [2]uint32{niu.RetAddrMid, uint32(retAddr >> 32)})
	}
	xy := t.virtual(c)
	count := func() uint32 {
		v, err := t.kd.Read32(xy, uint64(niu.Counter(chip.NOC0, chip.WrAckReceived)))
		t.ok(err)
		r, err := t.kd.Read32(xy, uint64(niu.Counter(chip.NOC0, chip.RdRespReceived)))
		t.ok(err)
		return v + r
	}
	before := count()
	for _, r := range append(regs, [2]uint32{niu.CmdCtrl, 1}) {
		t.ok(t.kd.Write32(xy, uint64(niu.Command(chip.NOC0, 0, r[0])), r[1]))
	}
	for end := time.Now().Add(t.patience()); count() == before; {
		if time.Now().After(end) {
			t.Fatal("the request gets no answer")
		}
	}
}

const writeRequest = chip.CtrlWrite | chip.CtrlResponse | chip.CtrlStaticVC | 1<<chip.CtrlVCShift
const readRequest = chip.CtrlRead | chip.CtrlResponse | chip.CtrlStaticVC | 1<<chip.CtrlVCShift

func (t *fixture) pin(n int) *kmd.HostMemory {
	t.Helper()
	if t.kd.Uplink() != nil {
		t.Skip("the chip reaches no memory of the host")
	}
	h, err := t.kd.PinHostMemory(n)
	t.ok(err)
	t.Cleanup(func() {
		if err := h.Close(); err != nil {
			t.Error(err)
		}
	})
	return h
}

func hostMemoryOut(t *fixture) {
	h := t.pin(1 << 20)
	c := chip.Core{X: 2, Y: 2}
	for i, at := range []int{0, 64, 4096 - 64, 4096, 65536, 1<<20 - 256} {
		want := pattern(uint32(i), 256)
		t.poke(c, scratch, want)
		t.request(c, writeRequest, t.virtual(c), scratch, t.ch.PCIe(chip.NOC0), h.NOCAddr()+uint64(at), 256)
		t.same(fmt.Sprintf("host memory at %#x", at), want, h.Bytes()[at:at+256])
	}
}

func hostMemoryIn(t *fixture) {
	h := t.pin(1 << 20)
	c := chip.Core{X: 2, Y: 2}
	for i, at := range []int{0, 64, 4096, 65536, 1<<20 - 1024} {
		want := pattern(uint32(i)+50, 1024)
		copy(h.Bytes()[at:], want)
		t.request(c, readRequest, t.ch.PCIe(chip.NOC0), h.NOCAddr()+uint64(at), t.virtual(c), scratch, 1024)
		t.same(fmt.Sprintf("L1 from host memory at %#x", at), want, t.peek(c, scratch, 1024))
	}
}

func hostMemoryLoop(t *fixture) {
	h := t.pin(1 << 16)
	for i, at := range []uint64{0, 0x40, 0xFFFC} {
		want := 0xC0FFEE00 + uint32(i)
		h.Store32(at, want)
		if v, err := t.kd.Read32(t.ch.PCIe(chip.NOC0), h.NOCAddr()+at); err != nil || v != want {
			t.Errorf("offset %#x: %#x, %v, want %#x", at, v, err, want)
		}
	}
}

func twoPins(t *fixture) {
	a, b := t.pin(1<<16), t.pin(1<<18)
	if a.NOCAddr() == b.NOCAddr() {
		t.Fatal("two pins with one address")
	}
	c := chip.Core{X: 1, Y: 2}
	for i, h := range []*kmd.HostMemory{a, b, a} {
		want := pattern(uint32(i)+9, 64)
		t.poke(c, scratch, want)
		t.request(c, writeRequest, t.virtual(c), scratch, t.ch.PCIe(chip.NOC0), h.NOCAddr()+0x100, 64)
		t.same(fmt.Sprintf("write %d", i), want, h.Bytes()[0x100:0x140])
	}
}
