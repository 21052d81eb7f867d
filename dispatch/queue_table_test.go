package dispatch

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/dispatch/abi"
	"github.com/reprise-tt/reprise/dispatch/memmap"
	"github.com/reprise-tt/reprise/dispatch/postmortem"
	"github.com/reprise-tt/reprise/kmd"
	"github.com/reprise-tt/reprise/sim"
)

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
	for _, revision := range []string{"2026-01-09", "2026-03-12", "2026-05"} {
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
							if got := string(q.Prefetch) + string(q.Dispatch) +
								string(q.Subordinate); got != fmt.Sprintf("prefetch%[1]ddispatch%[1]dsubordinate%[1]d", id) {
								t.Errorf("queue %d has %s", id, got)
							}
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
	form := abi.Of("2026-03-12", chip.Blackhole).QueueForms()[0]
	d := metalPlanned(t, "2026-03-12", chip.Blackhole, 1)
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
	d = metalPlanned(t, "2026-03-12", chip.Blackhole, 2)
	if err := d.planFrom(fw); err == nil || !strings.Contains(err.Error(), "kernels of 1 queues, and 2") {
		t.Errorf("too few queues: %v", err)
	}
	d = planned(t, chip.Blackhole, 1)
	fw.Base = &Firmware{Layout: d.queue}
	if err := d.planFrom(fw); err == nil || !strings.Contains(err.Error(), "no constants are known") {
		t.Errorf("a revision without a table: %v", err)
	}
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
