package dispatch

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/dispatch/abi"
	"github.com/reprise-tt/reprise/dispatch/cq"
	"github.com/reprise-tt/reprise/dispatch/memmap"
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
		if d.ctl.Queue != want {
			t.Errorf("%v: planned %+v, the files have %+v", arch, d.ctl.Queue, want)
		}
		if pre, core := d.queueCores(1); pre != ownCores(d.ch, 1)[1] || core != ownCores(d.ch, 1)[0] {
			t.Errorf("%v: cores %v and %v", arch, pre, core)
		}
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
	if err := d.planFrom(filesFor(d, 1)); err == nil || !strings.Contains(err.Error(), "kernels of 1 queues, and 2") {
		t.Errorf("too few queues: %v", err)
	}
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
	if s := fmt.Sprint((&QueueFirmwareError{Name: "x",
		Mismatches: []Mismatch{{Queue: 1, Name: "a", File: "b", Device: "c",
			Do: "d"}}})); s != "dispatch: start: command-queue firmware x isn't for this device; queue 1: a: it has b, the device c: d" {
		t.Errorf("%s", s)
	}
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
			if got := [2]uint8{d.sets[0].slot, d.sets[1].slot}; got != want {
				t.Errorf("%s, firmware %v: go messages %v, want %v", c.name, fw != nil, got, want)
			}
		}
	}
}

func TestGoMessageOfQueue(t *testing.T) {
	for _, arch := range arches {
		stream := func(slot uint8) []byte {
			b := cq.NewBuilder(cq.Layout(arch), nil)
			b.NotifySubordinate(cq.NotifySubordinate{Mask: 1})
			b.SendGoSignal(cq.Subordinate, cq.SendGoSignal{Go: cq.NewGoWord(0, 1, 2, cq.SignalGo), Multicast: slot, WaitCount: 7, WaitStream: 48})
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
