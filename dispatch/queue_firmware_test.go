package dispatch

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/dispatch/abi"
	"github.com/reprise-tt/reprise/dispatch/cq"
	"github.com/reprise-tt/reprise/dispatch/memmap"
	"github.com/reprise-tt/reprise/dispatch/postmortem"
	"github.com/reprise-tt/reprise/internal/expect"
	"github.com/reprise-tt/reprise/kmd"
	"github.com/reprise-tt/reprise/sim"
	"pgregory.net/rapid"
)

func planned(t *testing.T, arch chip.Arch, queues int) *Device {
	t.Helper()
	ch := whole(t, arch)
	d := &Device{machine: &machine{ch: ch, pr: ch.Params(), worker: abi.Own(arch), queue: abi.Own(arch),
		grid: programGrid(ch), printing: newPrinting()}}
	d.opts = Options{Queues: queues, QueueMemory: defaultQueueMemory}
	var err error
	d.sets, err = d.workerSets()
	must(t, err)
	return d
}

func filesFor(d *Device, queues int) *QueueFirmware {
	fw := &QueueFirmware{Name: "files", Base: &Firmware{Layout: d.queue}}
	rect := d.ch.Rects(d.grid)[0]
	for id := range queues {
		cores := ownCores(d.ch, id)
		pre, _ := d.ch.Virtual(cores[0])
		core, _ := d.ch.Virtual(cores[1])
		c := memmap.Own(d.queue).Queue
		size := uint32(1<<30) / uint32(queues)
		c.PrefetchCore, c.DispatchCore = d.ch.Arch().NOCXY(pre), d.ch.Arch().NOCXY(core)
		c.HostTile = d.ch.PCIe(chip.NOC0).Packed()
		c.Base, c.CompletionWriteWords = uint32(id)*size, 128
		c.Issue, c.CompletionSize = c.Base+256, size/4
		c.IssueSize = size - 256 - c.CompletionSize
		c.Completion = c.Issue + c.IssueSize
		c.Go, c.FirstStream = d.worker.L1.Go, uint32(d.pr.Stream.FirstDispatch)
		c.Workers, c.NumWorkers = d.ch.Arch().NOCMulticast(rect.Start, rect.End), uint32(d.grid.Size())
		c.WaitStream, c.ClearStream = uint32(cq.WaitStream), uint32(cq.ClearStream)
		fw.Queues = append(fw.Queues, QueueKernels{Constants: c, DRAMBanks: len(d.ch.DRAMBanks())})
	}
	return fw
}

func TestAdoptQueueConstants(t *testing.T) {
	for _, arch := range arches {
		d := planned(t, arch, 2)
		fw := filesFor(d, 2)
		for i := range fw.Queues {
			c := &fw.Queues[i].Constants
			c.Sync, c.SubordinateCredits = c.SubordinateCredits, c.Sync
			c.FetchQueue, c.FetchQueueSize = c.FetchQueue+64, c.FetchQueueSize-64
			c.PrefetchCore, c.DispatchCore = c.DispatchCore, c.PrefetchCore
		}
		if err := d.planFrom(fw); err != nil {
			t.Fatal(arch, err)
		}
		want := fw.Queues[0].Constants
		expect.Equal(t, d.ctl.Queue, want, "%v: planned", arch)
		pre, core := d.queueCores(1)
		expect.Equal(t, pre, ownCores(d.ch, 1)[1], "%v", arch)
		expect.Equal(t, core, ownCores(d.ch, 1)[0], "%v", arch)
		if d.memory != 1<<30 || d.host[1].Base != 1<<29 || d.host[1].Issue != 256 || d.host[1].Size != 1<<29 {
			t.Errorf("%v: %d B of host memory, queue 1 has %+v", arch, d.memory, d.host[1])
		}
		if end := want.SubordinateRing + want.SubordinatePages*want.SubordinatePageSize; d.EdgeWords() < end {
			t.Errorf("%v: words of traces at %#x, inside of the ring that ends at %#x", arch, d.EdgeWords(), end)
		}
	}
}

func (d *Device) EdgeWords() uint32 { return d.ctl.EdgeWord[0] }

func TestRefuseQueueConstants(t *testing.T) {
	for name, change := range map[string]func(k *QueueKernels){
		"prefetcher's core":                      func(k *QueueKernels) { k.Constants.PrefetchCore = k.Constants.Workers & 0xFFF },
		"dispatcher's core":                      func(k *QueueKernels) { k.Constants.DispatchCore = 0 },
		"cores":                                  func(k *QueueKernels) { k.Constants.DispatchCore = k.Constants.PrefetchCore },
		"grid of workers":                        func(k *QueueKernels) { k.Constants.Workers-- },
		"number of workers":                      func(k *QueueKernels) { k.Constants.NumWorkers = 110 },
		"PCIe tile":                              func(k *QueueKernels) { k.Constants.HostTile = 0 },
		"number of DRAM banks":                   func(k *QueueKernels) { k.DRAMBanks = 7 },
		"address of the go messages":             func(k *QueueKernels) { k.Constants.Go += 0x80 },
		"first completion stream":                func(k *QueueKernels) { k.Constants.FirstStream = 16 },
		"bytes of a prefetch queue entry":        func(k *QueueKernels) { k.Constants.FetchEntry = 8 },
		"WAIT's flag for a stream":               func(k *QueueKernels) { k.Constants.WaitStream = 0x20 },
		"WAIT's flag to clear a stream":          func(k *QueueKernels) { k.Constants.ClearStream = 0x20 },
		"pages of the dispatch ring":             func(k *QueueKernels) { k.Constants.DispatchPages = 64 },
		"bytes of the buffer of fetched":         func(k *QueueKernels) { k.Constants.CommandsSize /= 2 },
		"entries of the prefetch queue":          func(k *QueueKernels) { k.Constants.FetchQueueSize = 8192 },
		"prefetch queue: it has":                 func(k *QueueKernels) { k.Constants.FetchQueue = 0 },
		"scratch buffer":                         func(k *QueueKernels) { k.Constants.Scratch = 0xFFFFFF00 },
		"word of the host's pointer":             func(k *QueueKernels) { k.Constants.CompletionRead = 0x10 },
		"dispatch ring":                          func(k *QueueKernels) { k.Constants.DispatchRing = 0xFFFFF000 },
		"host memory: it has issue queue at":     func(k *QueueKernels) { k.Constants.IssueSize-- },
		"bytes of a page of the subordinate's":   func(k *QueueKernels) { k.Constants.SubordinatePageSize = 512 },
		"bytes of the completion queue: it has ": func(k *QueueKernels) { k.Constants.CompletionSize = 0 },
	} {
		d := planned(t, chip.Blackhole, 1)
		fw := filesFor(d, 1)
		change(&fw.Queues[0])
		err := d.planFrom(fw)
		var typed *QueueFirmwareError
		if !errors.As(err, &typed) || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
			continue
		}
		for _, m := range typed.Mismatches {
			if m.Name == "" || m.File == "" || m.Device == "" || m.Do == "" {
				t.Errorf("%s: incomplete: %+v", name, m)
			}
		}
	}
}

func TestRefuseQueueFirmware(t *testing.T) {
	var typed *QueueFirmwareError
	d := planned(t, chip.Blackhole, 2)
	expect.Says(t, d.planFrom(filesFor(d, 1)), nil, "kernels of 1 queues, and 2")
	fw := filesFor(d, 2)
	fw.Queues[1].Constants.FetchRead += 4
	if err := d.planFrom(fw); !errors.As(err, &typed) || typed.Mismatches[0].Queue != 1 || typed.Mismatches[0].Name != "layout" {
		t.Errorf("two layouts: %v", err)
	}
	d = planned(t, chip.Blackhole, 1)
	d.asked = 1 << 20
	if err := d.planFrom(filesFor(d, 1)); !errors.As(err, &typed) || typed.Mismatches[0].Name != "host memory of a queue" {
		t.Errorf("memory of another size asked for: %v", err)
	}
	expect.Equal(t, fmt.Sprint((&QueueFirmwareError{Name: "x",
		Mismatches: []Mismatch{{Queue: 1, Name: "a", File: "b", Device: "c",
			Do: "d"}}})), "dispatch: start: command-queue firmware x isn't for this device; queue 1: a: it has b, the device c: d", "text")
}

func TestSlotsOfWorkers(t *testing.T) {
	left, right := chip.Range{End: chip.Core{X: 3, Y: 9}}, chip.Range{Start: chip.Core{X: 4}, End: chip.Core{X: 5, Y: 3}}
	for _, c := range []struct {
		name    string
		workers map[int]chip.Range
		want    [2]uint8
	}{
		{"the whole grid", nil, [2]uint8{0, 0}},
		{"a part for both", map[int]chip.Range{0: right, 1: right}, [2]uint8{0, 0}},
		{"parts", map[int]chip.Range{0: right, 1: left}, [2]uint8{0, 1}},
	} {
		d := planned(t, chip.Blackhole, 2)
		d.opts.Workers = c.workers
		for _, fw := range []*QueueFirmware{nil, filesFor(d, 2)} {
			d.opts.QueueFirmware = fw
			var err error
			d.sets, err = d.workerSets()
			must(t, err)
			want := c.want
			if fw == nil { // its go signals go to the queue's workers alone
				want = [2]uint8{}
			} else if err := d.planFrom(fw); err != nil {
				t.Errorf("%s: %v", c.name, err)
			}
			expect.Equal(t, [2]uint8{d.sets[0].slot, d.sets[1].slot}, want, "%s, firmware %v: go messages", c.name, fw != nil)
		}
	}
}

func TestGoMessageOfQueue(t *testing.T) {
	for _, arch := range arches {
		stream := func(slot uint8) []byte {
			b := cq.NewBuilder(cq.Layout(arch), nil)
			b.NotifySubordinate(cq.NotifySubordinate{Mask: 1})
			b.SendGoSignal(cq.Subordinate, cq.SendGoSignal{Go: cq.NewGoWord(0, 1, 2, cq.SignalGo), Multicast: slot, WaitCount: 7,
				WaitStream: 48})
			b.Wait(cq.Master, cq.Wait{Flags: cq.WaitStream, Stream: 48, Count: 9})
			b.SendGoSignal(cq.Subordinate, cq.SendGoSignal{Go: cq.NewGoWord(0, 1, 2, cq.SignalGo), Multicast: cq.NoMulticast, NumUnicast: 1,
				WaitStream: 48})
			out, err := b.Finish()
			must(t, err)
			return out
		}
		got := stream(0)
		dialect{slot: 1}.translate(cq.Layout(arch), got)
		if !bytes.Equal(got, stream(1)) {
			t.Errorf("%v: % x", arch, got)
		}
	}
}

// strippedFor returns kernels whose code makes the constants of the table for a device. The queues'
// cores are in tt-metal's order, or swapped.
func strippedFor(d *Device, form abi.QueueForm, queues int, size uint32, swapped bool) *QueueFirmware {
	fw := &QueueFirmware{Name: "stripped", Base: &Firmware{Layout: d.queue}}
	rect := d.ch.Rects(d.grid)[0]
	for id := queues - 1; id >= 0; id-- { // in another order than the queues
		at := abi.QueuePlace{
			HostTile: d.ch.PCIe(chip.NOC0).Packed(), Workers: d.ch.Arch().NOCMulticast(rect.Start, rect.End), NumWorkers: uint32(d.grid.Size()),
			Base: uint32(id) * size, Size: size,
		}
		cores := ownCores(d.ch, id)
		if swapped {
			cores[0], cores[1] = cores[1], cores[0]
		}
		pre, _ := d.ch.Virtual(cores[0])
		core, _ := d.ch.Virtual(cores[1])
		at.PrefetchCore, at.DispatchCore = d.ch.Arch().NOCXY(pre), d.ch.Arch().NOCXY(core)
		q := d.queue.MetalQueue(form, at)
		add := func(to *[]StrippedKernel, kind string, all []immediate) {
			has := map[uint32]bool{}
			for _, m := range all {
				has[m.value] = true
			}
			*to = append(*to, StrippedKernel{Image: fmt.Append(nil, kind, id), Has: func(v uint32) bool { return has[v] },
				DRAMBanks: len(d.ch.DRAMBanks())})
		}
		add(&fw.Stripped.Prefetch, "prefetch", prefetchMakes(&q))
		add(&fw.Stripped.Dispatch, "dispatch", dispatchMakes(&q))
		add(&fw.Stripped.Subordinate, "subordinate", subordinateMakes(&q, d.ch.Arch().NOCMulticast(rect.End, rect.Start)))
	}
	return fw
}

func metalPlanned(t *testing.T, revision string, arch chip.Arch, queues int) *Device {
	t.Helper()
	d := planned(t, arch, queues)
	d.worker, d.queue = abi.Of(revision, arch), abi.Of(revision, arch)
	return d
}

func TestQueueConstantsByTable(t *testing.T) {
	for _, revision := range []string{"0.65.1", "0.67.0", "0.70.1"} {
		for _, arch := range arches {
			for _, form := range abi.Of(revision, arch).QueueForms() {
				for _, size := range []uint32{1 << 30, 1 << 29, 16 << 20, 48 << 20} {
					for _, swapped := range []bool{false, true} {
						d := metalPlanned(t, revision, arch, 2)
						d.asked = size
						if err := d.planFrom(strippedFor(d, form, 2, size, swapped)); err != nil {
							t.Errorf("%s, %v, %d B, swapped %v: %v", revision, arch, size, swapped, err)
							continue
						}
						fw := d.opts.QueueFirmware
						if len(fw.Queues) != 2 {
							t.Fatalf("%s, %v: %d queues", revision, arch, len(fw.Queues))
						}
						for id, q := range fw.Queues {
							expect.Equal(t, string(q.Prefetch)+string(q.Dispatch)+
								string(q.Subordinate), fmt.Sprintf("prefetch%[1]ddispatch%[1]dsubordinate%[1]d", id), "queue %d", id)
							if q.Constants.Base != uint32(id)*size || q.Constants.End() != uint32(id+1)*size&^(memmap.PageSize-1) ||
								q.Constants.FetchEntry != form.FetchEntry {
								t.Errorf("queue %d: %+v", id, q.Constants)
							}
						}
					}
				}
			}
		}
	}
}

func TestRefuseByTable(t *testing.T) {
	form := abi.Of("0.67.0", chip.Blackhole).QueueForms()[0]
	d := metalPlanned(t, "0.67.0", chip.Blackhole, 1)
	fw := strippedFor(d, form, 1, 1<<30, false)
	q := d.queue.MetalQueue(form, abi.QueuePlace{Size: 1 << 30})
	for _, c := range []struct {
		kernels *[]StrippedKernel
		lost    uint32
		name    string
	}{
		{&fw.Stripped.Prefetch, q.Commands, "prefetcher: buffer of fetched commands"},
		{&fw.Stripped.Prefetch, q.FetchQueue + q.FetchQueueSize, "prefetcher: end of the prefetch queue"},
		{&fw.Stripped.Dispatch, uint32(d.grid.Size()), "dispatcher: number of workers"},
		{&fw.Stripped.Subordinate, q.Go, "subordinate: address of the go messages"},
	} {
		was := *c.kernels
		*c.kernels = []StrippedKernel{{Image: was[0].Image, Has: func(v uint32) bool { return v != c.lost && was[0].Has(v) }}}
		var typed *QueueFirmwareError
		if err := d.planFrom(fw); !errors.As(err, &typed) || len(typed.Mismatches) != 1 || typed.Mismatches[0].Name != c.name {
			t.Errorf("without %s: %v", c.name, err)
		}
		*c.kernels = was
	}
	d = metalPlanned(t, "0.67.0", chip.Blackhole, 2)
	expect.Says(t, d.planFrom(fw), nil, "kernels of 1 queues, and 2")
	d = planned(t, chip.Blackhole, 1)
	fw.Base = &Firmware{Layout: d.queue}
	expect.Says(t, d.planFrom(fw), nil, "no constants are known")
}

func TestSilentQueueFirmware(t *testing.T) {
	loop := []byte{0x6F, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0} // JAL to itself
	for _, target := range []kmd.Target{sim.Wormhole(), sim.Blackhole()} {
		kd := opened(t, target)
		fw := filesFor(planned(t, kd.Arch(), 1), 1)
		own, err := ownFirmware(kd.Arch())
		must(t, err)
		fw.Base = own
		k := &fw.Queues[0]
		k.Prefetch, k.Dispatch, k.Subordinate = loop, loop, loop
		c := &k.Constants
		c.HostMemory = uint64(c.HostTile)<<36 | map[chip.Arch]uint64{chip.Wormhole: 0x8_0000_0000, chip.Blackhole: 1 << 60}[kd.Arch()]
		begin := time.Now()
		_, err = Start(t.Context(), kd, Options{QueueFirmware: fw, HangTimeout: 200 * time.Millisecond})
		var typed *QueueFirmwareError
		if !errors.As(err, &typed) || !errors.Is(err, ErrTimeout) || len(typed.Cores) != 2 || typed.Cores[0].Kind != postmortem.Prefetch ||
			!typed.Cores[1].Busy() {
			t.Errorf("%v: %v", kd.Arch(), err)
		}
		if d := time.Since(begin); d > 5*time.Second {
			t.Errorf("%v: it took %v", kd.Arch(), d)
		}
	}
}

func otherFirmware(t *testing.T, arch chip.Arch) *Firmware {
	t.Helper()
	f, err := ownFirmware(arch)
	must(t, err)
	f.Layout = abi.Of("0.65.1", arch)
	return f
}

func TestFirmwareIsRefused(t *testing.T) {
	for _, tc := range []struct {
		name   string
		change func(*Firmware)
		want   string
	}{
		{"architecture", func(f *Firmware) { f.Layout = abi.Of("0.65.1", chip.Wormhole) }, "it is for wormhole, the chip is a blackhole"},
		{"DRAM banks", func(f *Firmware) { f.DRAMBanks = 7 }, "compiled for 7 DRAM banks, the chip has 8"},
		{"L1 banks", func(f *Firmware) { f.L1Banks = 110 }, "compiled for 110 L1 banks, one for each worker, the chip has 130"},
		{"a processor is missing", func(f *Firmware) { f.Segments[chip.TRISC1] = nil }, "it has none for TRISC1"},
		{"too large", func(f *Firmware) { f.Segments[chip.BRISC][0].Data = make([]byte, 0x1C01) }, "BRISC has 7169 B at 0x3840, its place is 0x3840..0x5440"},
		{"elsewhere", func(f *Firmware) { f.Segments[chip.NCRISC][0].Addr = 0x5A40 }, "NCRISC has"},
		{"beyond local RAM", func(f *Firmware) {
			f.Segments[chip.TRISC0] = append(f.Segments[chip.TRISC0], Segment{Addr: 0xFFB00FFF, Data: []byte{1, 2}})
		}, "TRISC0 has 2 B at 0xffb00fff"},
	} {
		f := otherFirmware(t, chip.Blackhole)
		tc.change(f)
		_, err := Start(t.Context(), opened(t, sim.Blackhole()), Options{Firmware: f})
		var refused *FirmwareError
		if !errors.As(err, &refused) || refused.Revision != f.Layout.Revision || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v, want %q", tc.name, err, tc.want)
		}
	}
}

func TestFirmwareSegmentsHavePlaces(t *testing.T) {
	f := otherFirmware(t, chip.Wormhole)
	for p, want := range map[chip.Processor]uint32{chip.BRISC: 0x7CF4, chip.NCRISC: 0x8CF4, chip.TRISC2: 0xACF4} {
		expect.Equal(t, expect.Value(f.place(p, &Segment{Addr: 0xFFB00004, Data: make([]byte, 8)}))(t), want, "place of %v's data", p)
		l := f.Layout.L1.Firmware[p]
		expect.Equal(t, expect.Value(f.place(p, &Segment{Addr: l + 16, Data: make([]byte, 8)}))(t), l+16, "text of %v lies at", p)
	}
}

var arches = []chip.Arch{chip.Wormhole, chip.Blackhole}

func TestMoveWaits(t *testing.T) {
	like := []byte{byte(cq.DispatchWait), byte(cq.WaitStream), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}
	for _, arch := range arches {
		stream := func(flags ...cq.WaitFlags) []byte {
			b := cq.NewBuilder(cq.Layout(arch), nil)
			for _, f := range flags {
				b.Wait(cq.Master, cq.Wait{Flags: f, Stream: 48, Addr: 0x1000, Count: 0x18181818})
				b.WriteLinear(cq.WriteLinear{NOC: 0x92, Addr: 0x20000, Data: like})
			}
			b.WaitStall(cq.Wait{Flags: flags[0], Stream: 49, Count: 8})
			b.ExecBufEnd()
			out, err := b.Finish()
			must(t, err)
			return out
		}
		got := stream(cq.WaitStream, cq.WaitBarrier|cq.WaitStream, cq.WaitStream|cq.ClearStream, cq.WaitMemory, cq.NotifyFetch)
		pinned := bytes.Clone(got)
		dialect{movedWaits: true}.translate(cq.Layout(arch), got)
		var changed []byte
		for i := range got {
			if got[i] != pinned[i] {
				changed = append(changed, pinned[i], got[i])
			}
		}
		stall := byte(cq.WaitStream | cq.NotifyFetch | cq.WaitBarrier)
		if want := []byte{8, 0x10, 9, 0x11, 0x18, 0x30, stall, stall&^8 | 0x10}; !bytes.Equal(changed, want) {
			t.Errorf("%v: bytes changed are % x, want % x", arch, changed, want)
		}
		q := &Queue{d: &machine{ch: whole(t, arch)}}
		if b := q.TraceBytes(pinned); &b[0] != &pinned[0] {
			t.Error("commands for the usual flags are copied")
		}
		q.dialect, q.translates = dialect{movedWaits: true}, true
		if b := q.TraceBytes(pinned); !bytes.Equal(b, got) || &b[0] == &pinned[0] {
			t.Errorf("%v: a trace's commands aren't those of the queue", arch)
		}
	}
}

func whole(t testing.TB, arch chip.Arch) *chip.Chip {
	ch, err := chip.New(arch, chip.Harvesting{})
	must(t, err)
	return ch
}

func TestWideFetchEntries(t *testing.T) {
	kd := opened(t, sim.Blackhole())
	w, err := kd.OpenWindow(2<<20, kmd.Uncached)
	must(t, err)
	t.Cleanup(func() { _ = w.Close() })
	xy, err := whole(t, chip.Blackhole).Virtual(chip.Core{})
	must(t, err)
	must(t, w.Configure(kmd.WindowConfig{Target: xy, Ordering: kmd.Strict}))
	f := fetchRing{win: w, entries: 3, log: 2, base: 0x20000, rdAddr: 0x21000}
	f.lastR = f.initialRead()
	expect.Equal(t, f.initialRead(), 0x2000C, "the pointer begins at")
	for i, e := range []cq.FetchEntry{5, 7 | cq.FetchStall, 0x7FFF | cq.FetchStall, 9} {
		f.push(e)
		at := 0x20000 + 4*uint64(i%3)
		if got, want := w.Load32(at), uint32(e&0x7FFF)|uint32(e>>15)<<31; got != want {
			t.Errorf("entry %d is %#x, want %#x", i, got, want)
		}
		w.Store32(0x21000, uint32(at))
		if err := f.poll(); err != nil || f.taken != uint64(i+1) {
			t.Errorf("entry %d: %d taken, %v", i, f.taken, err)
		}
	}
	w.Store32(0x21000, 0x20002)
	expect.Error(t, f.poll()) // a pointer into the middle of an entry
}

func TestQueueStates(t *testing.T) {
	for _, c := range []struct {
		firmware, waypoint, unreadable string
		want                           QueueState
	}{
		{"", "IDLE", "", QueueIdle}, {"", "RUN", "", QueueWorks}, {"", "WRKR", "", QueueBlocked}, {"", "", "no answer", QueueUnknown},
		{"0.65.1", "HQW", "", QueueIdle}, {"0.65.1", "R", "", QueueWorks}, {"0.65.1", "RUN", "", QueueUnknown}, // by the go message
	} {
		s := CoreState{Firmware: c.firmware, Unreadable: c.unreadable}
		s.Processors[chip.BRISC].Waypoint = c.waypoint
		expect.Equal(t, queueState(s), c.want, "%+v", c)
	}
}

func TestIssueRingNeverOverwrites(t *testing.T) {
	type batch struct{ off, n uint32 }
	rapid.Check(t, func(t *rapid.T) {
		size := rapid.SampledFrom([]uint32{768 << 10, 768<<10 - 256, 1 << 20}).Draw(t, "size")
		r := issueRing{mem: make([]byte, size)}
		var outstanding []batch
		var put, oldest uint64
		read := uint32(0) // the prefetcher's own pointer
		for range rapid.IntRange(1, 300).Draw(t, "batches") {
			n := 64 * rapid.Uint32Range(1, memmap.MaxCommandSize/64).Draw(t, "size")
			off := r.place(n)
			if r.roomy(n) && off != r.wr {
				t.Fatalf("%d B are free at %#x, and go to %#x", n, r.wr, off)
			}
			for !r.roomy(n) && !r.free(off, n, oldest, put) {
				if len(outstanding) <= 1 {
					t.Fatalf("no room for %d B although only %v is outstanding", n, outstanding)
				}
				outstanding = outstanding[1:]
				oldest++
			}
			for _, o := range outstanding {
				if off < o.off+o.n && o.off < off+n {
					t.Fatalf("a batch at %#x+%#x overwrites one at %#x+%#x", off, n, o.off, o.n)
				}
			}
			// The device finds the batch by its own rule.
			if read+n > size {
				read = 0
			}
			if read != off {
				t.Fatalf("the host writes at %#x, the prefetcher reads at %#x", off, read)
			}
			read += n
			r.put(off, n, put)
			put++
			outstanding = append(outstanding, batch{off, n})
			for k := rapid.IntRange(0, len(outstanding)-1).Draw(t, "taken"); k > 0; k-- {
				outstanding = outstanding[1:]
				oldest++
			}
		}
	})
}

func TestFetchRingCountsEntries(t *testing.T) {
	q, _ := hostOnly(t)
	f := &q.rings.fetch
	taken := uint64(0)
	rapid.Check(t, func(t *rapid.T) {
		for range 50 {
			for k := rapid.IntRange(0, 700).Draw(t, "put"); k > 0 && !f.full(); k-- {
				f.push(4)
			}
			if n := f.put - taken; n > 0 {
				taken += uint64(rapid.IntRange(0, int(n)).Draw(t, "take"))
				if taken > 0 {
					q.tiles.prefetchL1.Store32(uint64(q.d.ctl.FetchRead), f.addr(uint32((taken-1)%memmap.FetchEntries)))
				}
			}
			f.advance(uint64(rapid.IntRange(0, int(taken)).Draw(t, "known")))
			must(t, f.poll())
			if f.taken != taken {
				t.Fatalf("the host counts %d entries, the prefetcher took %d", f.taken, taken)
			}
		}
	})
}

func TestFetchRingRefusesWildPointer(t *testing.T) {
	q, _ := hostOnly(t)
	for _, v := range []uint32{0, 0xFFFFFFFF, q.rings.fetch.base - 2, q.rings.fetch.base + 1, q.rings.fetch.addr(memmap.FetchEntries) + 2} {
		q.tiles.prefetchL1.Store32(uint64(q.d.ctl.FetchRead), v)
		if err := q.rings.fetch.poll(); err == nil {
			t.Errorf("the pointer %#x was believed", v)
		}
	}
}

var must = expect.Must

type dealt []struct{ core, slot int }

func (d dealt) Page(i int) (core, slot int) { return d[i].core, d[i].slot }

func someBuffer(r *rand.Rand) *Buffer {
	page, all := []int{16, 48, 100}[r.IntN(3)], 1+r.IntN(40)
	b := &Buffer{Whole: Interleaved{
		Addr: 0x1000, HostPage: uint32(page), PageSize: uint32(page+15) &^ 15, Pages: all, Banks: 1 + r.IntN(7),
	}}
	if r.IntN(2) == 0 {
		b.Banks = []int{4, 0, 9}
		slots := make([]int, len(b.Banks))
		var d dealt
		for core := 0; len(d) < all; {
			if r.IntN(4) == 0 {
				core = r.IntN(len(slots))
				slots[core] += r.IntN(2)
			}
			d = append(d, struct{ core, slot int }{core, slots[core]})
			slots[core]++
		}
		if r.IntN(4) == 0 {
			r.Shuffle(len(d), func(i, k int) { d[i], d[k] = d[k], d[i] })
		}
		b.Sharding = d
	}
	b.First = r.IntN(all)
	b.Pages = 1 + r.IntN(all-b.First)
	return b
}

func someRange(r *rand.Rand, b *Buffer) (off, n int) {
	if r.IntN(2) == 0 {
		first := r.IntN(b.Pages + 1)
		return first * b.page(), r.IntN(b.Pages-first+1) * b.page()
	}
	off = r.IntN(b.Size() + 1)
	return off, r.IntN(b.Size() - off + 1)
}

func TestChunksCoverTheRange(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 5000 {
		b := someBuffer(r)
		page, stride, most := b.page(), int(b.Whole.PageSize), 1+r.IntN(5)
		off, n := someRange(r, b)
		next, prev := off, chunk{}
		cover := func(c chunk) error {
			if c.off != next || c.n <= 0 || c.off+c.n > off+n {
				t.Fatalf("a chunk of %d B at %d, want it at %d of %d", c.n, c.off, next, off+n)
			}
			if c.inPage && c.off/page != (c.off+c.n-1)/page || !c.inPage && (c.off%page != 0 || c.n%page != 0) {
				t.Fatalf("a chunk of %d B at %d, in a page: %v", c.n, c.off, c.inPage)
			}
			if c.run && c.n > most*page {
				t.Fatalf("a run of %d B, at most %d pages of %d B are wanted", c.n, most, page)
			}
			for k := range c.n {
				wantBank, wantAddr := b.Page((c.off + k) / page)
				wantAddr += uint32((c.off + k) % page)
				at := c.at + k
				if c.run {
					at = c.at + k/page*stride + k%page
				}
				bank, addr := c.iv.at(at / int(c.iv.HostPage))
				if addr += uint32(at % int(c.iv.HostPage)); bank != wantBank || addr != wantAddr {
					t.Fatalf("byte %d: bank %d, %#x, want bank %d, %#x", c.off+k, bank, addr, wantBank, wantAddr)
				}
			}
			if prev.run && c.run && prev.n < most*page {
				bank, addr := b.Page(c.off / page)
				if prevBank, prevAddr := b.Page(c.off/page - 1); bank == prevBank && addr == prevAddr+uint32(stride) {
					t.Fatalf("pages %d and %d, one after the other, are in two runs", c.off/page-1, c.off/page)
				}
			}
			prev, next = c, c.off+c.n
			return nil
		}
		if err := b.eachChunk(off, n, most, cover); err != nil || next != off+n {
			t.Fatalf("chunks end at %d, want %d (%v)", next, off+n, err)
		}
		next, prev = off, chunk{}
		if err := b.eachPage(off, n, cover); err != nil || next != off+n {
			t.Fatalf("chunks of pages end at %d, want %d (%v)", next, off+n, err)
		}
	}
}

func TestBufferRanges(t *testing.T) {
	const most = int(^uint(0) >> 1)
	b := Buffer{Whole: Interleaved{HostPage: 100, PageSize: 112, Pages: 9, Banks: 2}, First: 2, Pages: 3}
	for _, tt := range []struct {
		off, n int
		ok     bool
	}{
		{0, 300, true}, {300, 0, true}, {299, 1, true},
		{0, 301, false}, {301, 0, false}, {-1, 1, false}, {1, -1, false}, {most, most, false}, {1, most, false},
	} {
		expect.Equal(t, b.check("read", tt.off, tt.n) == nil, tt.ok, "%d B at %d", tt.n, tt.off)
	}
}
