// Package bringup has the cases of the driver and of opening and closing a device.
package bringup

import (
	"context"
	"encoding/binary"
	"errors"
	"time"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/allocator"
	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/dispatch"
	"github.com/reprise-tt/reprise/dispatch/abi"
	"github.com/reprise-tt/reprise/hwtest/rig"
	"github.com/reprise-tt/reprise/kmd"
)

// Cases are the cases of layer bringup.
func Cases() (cs rig.Table) {
	cs.Add("all cores report", "after opening every worker waits in its idle loop", allCoresReport)
	cs.Add("core information", "every worker has its own coordinate in its core information", func(t *rig.T) {
		t = t.Queues(dispatch.Options{})
		for c := range t.Chip.Workers() {
			b := t.Peek(c, t.L1.CoreInfo, 8)
			if rig.Word(b) != abi.CoreInfoMagic || int(b[4]) != c.X || int(b[5]) != c.Y {
				t.Errorf("core %v has % x", c, b)
			}
		}
	})
	cs.Add("open close open", "a closed device can be opened again and works", func(t *rig.T) {
		for i := range 3 {
			t.Sub("round", func(t *rig.T) {
				t = t.Full()
				b := t.DRAMBuffer(64*t.Dev.DRAMBanks(), 64)
				want := t.Fill(b, i)
				t.Holds(b, want, "read back")
			})
		}
	})
	cs.Add("closing quiets the chip", "after closing all processors are held in reset", closingQuiets)
	cs.Add("cancelled open", "an open whose context is over fails and leaves the device free", cancelledOpen)
	cs.Add("use after close", "everything of a closed device says that it is closed", useAfterClose)
	return cs
}

func allCoresReport(t *rig.T) {
	t = t.Queues(dispatch.Options{})
	for c := range t.Dispatch.Grid().Cores() {
		if v := t.Peek(c, t.L1.Go, 4); v[3] != 0 {
			t.Errorf("core %v: go message % x, want the signal DONE", c, v)
		}
		t.Waypoint(c, chip.BRISC, "IDLE")
		for p := range uint32(chip.NumProcessors) {
			if rig.Word(t.Peek(c, t.L1.CoreState+p*t.L1.CoreStateSize, 4)) == 0 {
				t.Errorf("core %v: %v hasn't started", c, chip.Processor(p))
			}
		}
	}
}

func closingQuiets(t *rig.T) {
	target := t.Device.Open()
	kd, err := kmd.Open(t.Ctx, target)
	t.OK(err)
	defer func() { t.OK(kd.Close()) }()
	d, err := t.Open(t.Ctx, target)
	t.OK(err)
	t.UseDriver(kd)
	rig.Equal(t, t.Load32(t.Virtual(chip.Core{}), uint64(t.Params.SoftReset))&t.Params.ResetAll, 0, "reset bits of an open device")
	t.OK(d.Close(t.Context()))
	resetRegisters(t)
}

func cancelledOpen(t *rig.T) {
	ctx, cancel := context.WithCancel(t.Ctx)
	cancel()
	d, err := t.Open(ctx, t.Device.Open())
	if err == nil {
		t.OK(d.Close(ctx))
		t.Skip("the device opens without waiting for anything")
	}
	t.Fails("the call", err, context.Canceled)
	t.Full()
}

func useAfterClose(t *rig.T) {
	u := t.Unclosed(t.Device.Open())
	d := u.Dev
	b := u.DRAMBuffer(64, 64)
	x := u.Load(u.StoreProgram("store", u.Grid(), b, 1))
	tr := u.Capture("t", x)
	t.OK(d.Close(t.Context()))
	q := d.Queue(0)
	data := make([]byte, 64)
	t.AllFail(reprise.ErrClosed, map[string]error{
		"write":              q.Write(t.Ctx, b, 0, data),
		"read":               q.Read(t.Ctx, b, 0, data),
		"wait for queue":     q.Wait(t.Ctx),
		"run":                q.Run(t.Ctx, x),
		"load":               rig.Error(d.Load(t.Ctx, &reprise.Program{})),
		"new buffer":         rig.Error(d.NewBuffer(reprise.BufferConfig{Kind: allocator.DRAM, Size: 64})),
		"replay trace":       tr.Replay(t.Ctx),
		"release trace":      tr.Release(t.Ctx),
		"release executable": x.Release(t.Ctx),
		"capture": rig.Error(q.Capture(t.Ctx, "t", func(context.Context, *reprise.Recorder) error {
			t.Error("capture on a closed device calls its function")
			return nil
		})),
	}, "the device is closed")
	if b.Name() != "test" || x.Name() != "store" || tr.Name() != "t" || len(tr.Parts()[0].Extents) == 0 {
		t.Error("what is known of closed things is lost")
	}
}

// KMD are the cases of layer kmd.
func KMD() (cs rig.Table) {
	cs.Add("identity", "the driver, the firmware and the chip facts agree about what the device is", identity)
	cs.Add("telemetry", "the management firmware's table can be read and has a plausible clock", telemetry)
	cs.Add("every worker's L1", "each logical core is a tile of its own, from its first byte to its last", everyL1)
	cs.Add("node ids", "coordinate translation leads where the chip facts say, for every worker", nodeIDs)
	cs.Add("reset register", "after opening, all processors of every worker are held in reset", resetRegisters)
	cs.Add("DRAM bank ends", "every DRAM bank is memory of its own, to its last byte", bankEnds)
	cs.Add("DRAM ports", "a bank's ports lead to the same memory", bankPorts)
	cs.Add("read32 all ones", "a word of all ones on a live device is data, not a lost device", func(t *rig.T) {
		c := chip.Core{}
		t.Poke(c, rig.Scratch, []byte{0xFF, 0xFF, 0xFF, 0xFF})
		rig.Equal(t, t.Load32(t.Virtual(c), rig.Scratch), 0xFFFFFFFF, "word of all ones")
	})
	cs.Add("window moves", "stores go where the window was when they were made", windowMoves)
	cs.Add("window misuse", "an access outside of its window is an error", windowMisuse)
	cs.Add("window exhaustion", "closed windows can be opened again, and one more than there are is ErrBusy", windowExhaustion)
	cs.Add("host memory out", "a tile writes pinned host memory at every offset class", func(t *rig.T) {
		h := t.Pin(1 << 20)
		c := chip.Core{X: 2, Y: 2}
		for i, at := range []int{0, 64, 4096 - 64, 4096, 65536, 1<<20 - 256} {
			writeOut(t, c, h, at, rig.Pattern(i, 256))
		}
	})
	cs.Add("host memory in", "a tile reads pinned host memory", func(t *rig.T) {
		h := t.Pin(1 << 20)
		c := chip.Core{X: 2, Y: 2}
		for i, at := range []int{0, 64, 4096, 65536, 1<<20 - 1024} {
			want := rig.Pattern(i+50, 1024)
			copy(h.Bytes()[at:], want)
			request(t, c, chip.CtrlRead, t.Chip.PCIe(chip.NOC0), h.NOCAddr()+uint64(at), t.Virtual(c), rig.Scratch, 1024)
			t.InL1(c, rig.Scratch, want, "L1 from host memory at %#x", at)
		}
	})
	cs.Add("host memory through a window", "the host sees its own pinned memory through the PCIe tile", func(t *rig.T) {
		h := t.Pin(1 << 16)
		for i, at := range []uint64{0, 0x40, 0xFFFC} {
			want := 0xC0FFEE00 + uint32(i)
			h.Store32(at, want)
			rig.Equal(t, t.Load32(t.Chip.PCIe(chip.NOC0), h.NOCAddr()+at), want, "offset %#x", at)
		}
	})
	cs.Add("two pins", "two pieces of pinned memory have addresses of their own", func(t *rig.T) {
		a, b := t.Pin(1<<16), t.Pin(1<<18)
		if a.NOCAddr() == b.NOCAddr() {
			t.Fatal("two pins with one address")
		}
		for i, h := range []*kmd.HostMemory{a, b, a} {
			writeOut(t, chip.Core{X: 1, Y: 2}, h, 0x100, rig.Pattern(i+9, 64))
		}
	})
	rig.Pairs(&cs, "access of %d bytes at the %s of L1", "an access of exactly one width changes exactly its bytes", exactWidth,
		[]int{1, 2, 4, 8}, []string{"start", "middle", "end"})
	rig.Each(&cs, "copy of %d bytes", "copies of any length at any alignment change exactly their bytes", copies,
		1, 2, 3, 4, 5, 7, 8, 15, 16, 31, 33, 64, 4095, 4096, 65537, 1<<20)
	rig.Each(&cs, "multicast to %s", "a multicast reaches every tile of its rectangle and none outside", multicastRect,
		"single", "row", "column", "corner", "inner", "all", "last row", "last column")
	rig.Pairs(&cs, "window class %d %v", "windows of every kind work to their last byte", windowEnds,
		[]int{0, 1, 2}, []kmd.Caching{kmd.Uncached, kmd.WriteCombined})
	rig.Each(&cs, "ordering %d", "a load after a store through the same window sees it, whatever the ordering", ordering,
		kmd.Strict, kmd.Relaxed, kmd.Posted)
	rig.Each(&cs, "stream %d counts", "a stream's counter adds and wraps at 17 bits", streamCounts, 0, 8, 31, 48, 55)
	return cs
}

func identity(t *rig.T) {
	if t.Device.Arch != 0 && t.KMD.Arch() != t.Device.Arch {
		t.Errorf("opened a %v, want a %v", t.KMD.Arch(), t.Device.Arch)
	}
	i := t.KMD.Info()
	if i.Vendor != t.Params.PCI.Vendor || i.Device != t.Params.PCI.Device {
		t.Errorf("PCI id %04x:%04x, want %04x:%04x", i.Vendor, i.Device, t.Params.PCI.Vendor, t.Params.PCI.Device)
	}
	t.OK(t.KMD.Alive())
	t.OK(t.KMD.Fault())
}

func telemetry(t *rig.T) {
	tel, err := t.KMD.Telemetry(t.Ctx)
	t.OK(err)
	if v, ok := tel.Value(chip.TagAICLK); !ok || v < 100 || v > 2000 {
		t.Errorf("clock %d MHz (%t), want 100 to 2000", v, ok)
	}
}

func everyL1(t *rig.T) {
	each := func(do func(c chip.Core, at uint32, data []byte)) {
		seed := uint32(0)
		for c := range t.Chip.Workers() {
			for _, at := range []uint32{0, 0x1000, t.Params.L1Size / 2, t.Params.L1Size - 16} {
				do(c, at, rig.Pattern(seed, 16))
				seed++
			}
		}
	}
	// All writes first: two cores that were one tile show the later bytes twice.
	each(t.Poke)
	each(func(c chip.Core, at uint32, data []byte) { t.InL1(c, at, data, "at %#x", at) })
}

func nodeIDs(t *rig.T) {
	for c := range t.Chip.Workers() {
		raw, err := t.Chip.Physical(c)
		t.OK(err)
		for _, n := range []chip.NOC{chip.NOC0, chip.NOC1} {
			id := t.Load32(t.Virtual(c), uint64(t.Params.NIU.Reg(n, t.Params.NIU.NodeID)))
			rig.Equal(t, id&0xFFF, t.Chip.NodeID(n, raw)&0xFFF, "core %v: node on %v", c, n)
		}
		logical := t.Load32(t.Virtual(c), uint64(t.Params.NIU.Reg(chip.NOC0, t.Params.NIU.IDLogical)))
		rig.Equal(t, logical, t.Virtual(c).Packed(), "core %v: virtual coordinate", c)
	}
}

func resetRegisters(t *rig.T) {
	for c := range t.Chip.Workers() {
		v := t.Load32(t.Virtual(c), uint64(t.Params.SoftReset))
		rig.Equal(t, v&t.Params.ResetAll, t.Params.ResetAll, "core %v: reset bits", c)
	}
}

func bankEnds(t *rig.T) {
	banks := t.Chip.DRAMBanks()
	for i, b := range banks {
		t.PokeDRAM(i, 0, rig.Pattern(i, 64))
		t.PokeDRAM(i, b.Size-64, rig.Pattern(i+100, 64))
	}
	for i, b := range banks {
		t.InDRAM(i, 0, rig.Pattern(i, 64), "first bytes of bank %d", i)
		t.InDRAM(i, b.Size-64, rig.Pattern(i+100, 64), "last bytes of bank %d", i)
	}
}

func bankPorts(t *rig.T) {
	for i, b := range t.Chip.DRAMBanks() {
		at := b.Offset + 1<<20
		for k, port := range b.Ports {
			want := rig.Pattern(i*10+k, 64)
			t.OK(t.KMD.Write(port, at, want))
			for _, other := range b.Ports {
				got := make([]byte, 64)
				t.OK(t.KMD.Read(other, at, got))
				t.Same(want, got, "bank %d written through %v, read through %v", i, port, other)
			}
		}
	}
}

func window(t *rig.T, size uint64, caching kmd.Caching) *kmd.Window {
	w, err := t.KMD.OpenWindow(size, caching)
	t.OK(err)
	t.Ends(func() error { return errors.Join(w.Err(), w.Close()) })
	return w
}

func exactWidth(t *rig.T, width int, at string) {
	c := t.Corners()[3]
	base := map[string]uint32{"start": 0, "middle": rig.Scratch, "end": t.Params.L1Size - 64}[at]
	class := t.Params.Windows[0]
	w := window(t, class.Size, kmd.Uncached)
	t.OK(w.Configure(kmd.WindowConfig{Target: t.Virtual(c), Addr: uint64(base) / class.Size * class.Size}))
	for i := 0; i+width <= 64; i += width {
		want := rig.Pattern(i, 64)
		t.Poke(c, base, want)
		off := (uint64(base) + uint64(i)) % class.Size
		v := 0x8182838485868788 + uint64(i)*0x0101010101010101
		var b [8]byte
		binary.LittleEndian.PutUint64(b[:], v)
		copy(want[i:i+width], b[:])
		var got uint64
		switch width {
		case 1:
			w.Store8(off, uint8(v))
			got = uint64(w.Load8(off))
		case 2:
			w.Store16(off, uint16(v))
			got = uint64(w.Load16(off))
		case 4:
			w.Store32(off, uint32(v))
			got = uint64(w.Load32(off))
		case 8:
			w.Store64(off, v)
			got = w.Load64(off)
		}
		t.InL1(c, base, want, "store of %d at %d", width, i)
		rig.Equal(t, got, v&(^uint64(0)>>(64-8*width)), "load of %d at %d", width, i)
	}
}

func copies(t *rig.T, n int) {
	c := chip.Core{X: 1, Y: 1}
	for _, shift := range []uint32{0, 1, 2, 3, 4, 7, 8} {
		at := uint32(0x20000) + shift
		all := rig.Pattern(1000, n+32)
		t.Poke(c, at-16+0, all)
		want := rig.Pattern(shift, n)
		t.Poke(c, at, want)
		copy(all[16:], want)
		t.InL1(c, at-16, all, "%d bytes at shift %d", n, shift)
	}
}

func multicastRect(t *rig.T, name string) {
	r := rig.Rectangle(t.Chip.All(), name)
	before, after := rig.Pattern(1, 64), rig.Pattern(2, 64)
	for c := range t.Chip.Workers() {
		t.Poke(c, rig.Scratch, before)
	}
	for _, v := range t.Chip.Rects(r) {
		start, end := v.Corners(chip.NOC0)
		t.OK(t.KMD.Multicast(start, end, rig.Scratch+16, after[16:48]))
	}
	copy(after[:16], before)
	copy(after[48:], before[48:])
	for c := range t.Chip.Workers() {
		want := before
		if r.Contains(c) {
			want = after
		}
		t.InL1(c, rig.Scratch, want, "written")
	}
}

func windowMoves(t *rig.T) {
	class := t.Params.Windows[0]
	for _, caching := range []kmd.Caching{kmd.Uncached, kmd.WriteCombined} {
		w := window(t, class.Size, caching)
		for i, c := range t.Corners() {
			t.OK(w.Configure(kmd.WindowConfig{Target: t.Virtual(c)}))
			w.Store32(rig.Scratch, uint32(i)+0xA0)
		}
		w.Drain()
		for i, c := range t.Corners() {
			rig.Equal(t, t.Peek(c, rig.Scratch, 4)[0], byte(i)+0xA0, "%v window: core %v", caching, c)
		}
	}
}

func windowMisuse(t *rig.T) {
	for name, access := range map[string]func(*kmd.Window){
		"misaligned":    func(w *kmd.Window) { w.Store32(rig.Scratch+2, 1) },
		"outside":       func(w *kmd.Window) { w.Store32(w.Size(), 1) },
		"over the end":  func(w *kmd.Window) { w.Load64(w.Size() - 4) },
		"bulk over end": func(w *kmd.Window) { w.Write(w.Size()-8, make([]byte, 16)) },
	} {
		w, err := t.KMD.OpenWindow(t.Params.Windows[0].Size, kmd.Uncached)
		t.OK(err)
		t.OK(w.Configure(kmd.WindowConfig{Target: t.Virtual(chip.Core{})}))
		access(w)
		if err := w.Err(); !errors.Is(err, kmd.ErrMisaligned) && !errors.Is(err, kmd.ErrOutOfRange) {
			t.Errorf("%s: error %v", name, err)
		}
		t.OK(w.Close())
	}
	w := window(t, t.Params.Windows[0].Size, kmd.Uncached)
	t.Fails("window at an address that isn't a multiple of its size",
		w.Configure(kmd.WindowConfig{Target: t.Virtual(chip.Core{}), Addr: 4096}), kmd.ErrMisaligned)
	t.OK(t.KMD.Alive())
}

func windowExhaustion(t *rig.T) {
	class := t.Params.Windows[len(t.Params.Windows)-1]
	for range 2 {
		var all []*kmd.Window
		var last error
		for range class.Count + 1 {
			w, err := t.KMD.OpenWindow(class.Size, kmd.Uncached)
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
			t.OK(w.Close())
		}
	}
}

func windowEnds(t *rig.T, n int, caching kmd.Caching) {
	if n >= len(t.Params.Windows) {
		t.Skip("the chip has no such windows")
	}
	class := t.Params.Windows[n]
	// The window's end lies beyond DRAM.
	b := t.Chip.DRAMBanks()[0]
	end := min(class.Size, b.Size)
	w := window(t, class.Size, caching)
	t.OK(w.Configure(kmd.WindowConfig{Target: b.HostEndpoint, Addr: b.Offset / class.Size * class.Size}))
	for _, off := range []uint64{0, 64, end/2 - 32, end - 64} {
		want := rig.Pattern(off>>4+7, 64)
		w.Write(off, want)
		w.Drain()
		got := make([]byte, 64)
		w.Read(off, got)
		t.Same(want, got, "offset %#x", off)
		t.InDRAM(0, off, want, "offset %#x past the window", off)
	}
}

func ordering(t *rig.T, o kmd.Ordering) {
	for _, class := range t.Params.Windows {
		for _, caching := range []kmd.Caching{kmd.Uncached, kmd.WriteCombined} {
			w := window(t, class.Size, caching)
			for i, c := range t.Corners() {
				t.OK(w.Configure(kmd.WindowConfig{Target: t.Virtual(c), Ordering: o}))
				for k := range uint64(64) {
					w.Store64(rig.Scratch+8*k, k<<32|uint64(i))
				}
				if caching == kmd.WriteCombined {
					w.Drain()
				}
				for k := range uint64(64) {
					if v := w.Load64(rig.Scratch + 8*k); v != k<<32|uint64(i) {
						t.Fatalf("%v: word %d of core %v is %#x", w, k, c, v)
					}
				}
			}
		}
	}
}

func streamCounts(t *rig.T, stream int) {
	if stream >= t.Params.Stream.Count {
		t.Skip("no such stream")
	}
	available := uint64(t.Params.Stream.Reg(stream, chip.SpaceAvailable))
	update := uint64(t.Params.Stream.Reg(stream, chip.SpaceAvailableUpdate))
	const mask = 1<<chip.StreamCounterBits - 1
	for _, c := range t.Corners() {
		xy := t.Virtual(c)
		load := func() uint32 { return t.Load32(xy, available) & mask }
		count := load()
		for _, n := range []int32{1, 7, -3, 1 << 15, 1 << 15, 1<<16 - 1, 1, -(1 << 15), 100} {
			t.Store32(xy, update, chip.StreamUpdate(n))
			count = (count + uint32(n)) & mask
			if got := load(); got != count {
				t.Fatalf("core %v: after %+d the counter is %#x, want %#x", c, n, got, count)
			}
		}
		t.Store32(xy, update, chip.StreamUpdate(-int32(load())))
		rig.Equal(t, load(), 0, "core %v: counter after subtracting everything", c)
	}
}

// request has a tile's network interface perform one request.
func request(t *rig.T, c chip.Core, ctrl uint32, targ chip.XY, targAddr uint64, ret chip.XY, retAddr uint64, n int) {
	niu, a := &t.Params.NIU, t.Params.Arch
	regs := [][2]uint32{
		{niu.Ctrl, ctrl | chip.CtrlResponse | chip.CtrlStaticVC | 1<<chip.CtrlVCShift},
		{niu.TargAddrLo, uint32(targAddr)}, {niu.RetAddrLo, uint32(retAddr)}, {niu.AtLenBe, uint32(n)},
	}
	if a == chip.Wormhole { // bits 35:32 of an address stand below the coordinate
		regs = append(regs, [2]uint32{niu.TargCoord, a.NOCXY(targ) | uint32(targAddr>>32)},
			[2]uint32{niu.RetCoord, a.NOCXY(ret) | uint32(retAddr>>32)})
	} else {
		regs = append(regs, [2]uint32{niu.TargCoord, a.NOCXY(targ)}, [2]uint32{niu.TargAddrMid, uint32(targAddr >> 32)},
			[2]uint32{niu.RetCoord, a.NOCXY(ret)}, [2]uint32{niu.RetAddrMid, uint32(retAddr >> 32)})
	}
	xy := t.Virtual(c)
	count := func() uint32 {
		return t.Load32(xy, uint64(niu.Counter(chip.NOC0, chip.WrAckReceived))) +
			t.Load32(xy, uint64(niu.Counter(chip.NOC0, chip.RdRespReceived)))
	}
	before := count()
	for _, r := range append(regs, [2]uint32{niu.CmdCtrl, 1}) {
		t.Store32(xy, uint64(niu.Command(chip.NOC0, 0, r[0])), r[1])
	}
	for end := time.Now().Add(t.Patience()); count() == before; {
		if time.Now().After(end) {
			t.Fatal("the request gets no answer")
		}
	}
}

func writeOut(t *rig.T, c chip.Core, h *kmd.HostMemory, at int, data []byte) {
	t.Poke(c, rig.Scratch, data)
	request(t, c, chip.CtrlWrite, t.Virtual(c), rig.Scratch, t.Chip.PCIe(chip.NOC0), h.NOCAddr()+uint64(at), len(data))
	t.Same(data, h.Bytes()[at:at+len(data)], "host memory at %#x", at)
}
