package bench

import (
	"context"
	"errors"
	"flag"
	"testing"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/kernels"
	"github.com/reprise-tt/reprise/kernels/metal"
	"github.com/reprise-tt/reprise/sim/ttsim"
	"github.com/reprise-tt/reprise/sim/ttsim/ttsimtest"
)

var metalQueues = flag.String("metal-queues", "",
	"`folder` of tt-metal's command-queue firmware, whose instructions and clocks are counted beside our own's")

// p100a is what a card of that kind lacks: two columns of cores and a DRAM bank.
var p100a = chip.Harvesting{Tensix: 0x3, DRAM: 0x80}

// Tt-metal's command-queue firmware stands beside this runtime's with the same commands and with
// its own form of them.
func TestMetalInstructions(t *testing.T) {
	if *metalQueues == "" {
		t.Skip("no -metal-queues DIR: a folder with command-queue firmware that tt-metal built")
	}
	fw := value(metal.OpenQueueFirmware(t.Context(), *metalQueues))(t)
	arch, h := fw.Base.Layout.Arch, chip.Harvesting{}
	if fw.Base.L1Banks == 110 {
		h = p100a
	}
	t.Logf("%v, %v: prefetcher, dispatcher, subordinate for each program of a long trace; the same for a replay of a trace of one", arch,
		fw.Base.Layout.Revision)
	for _, p := range timed {
		for _, o := range []struct {
			name string
			opts []reprise.Option
		}{
			{"tt-metal's", []reprise.Option{reprise.WithQueueFirmware(*metalQueues)}},
			{"our own, its form", []reprise.Option{reprise.WithStockWireFormat()}},
			{"our own", nil},
		} {
			each, one := instructions(t, arch, h, p, o.opts...)
			t.Logf("%-16s %-18s %8.0f %8.0f %8.0f | %8.0f %8.0f %8.0f", p.name, o.name, each[0], each[1], each[2], one[0], one[1], one[2])
		}
	}
}

var metalWorkers = flag.String("metal", "",
	"`folder` with base firmware and kernels that tt-metal built, which workers run in TestMetalClocks instead of our own")

// Clocks of the vendor's simulator for the programs of TestInstructions. With -metal the workers
// run tt-metal's base firmware and its kernel "blank": command-queue firmware of March 2026 and
// later drives no other workers.
func TestMetalClocks(t *testing.T) {
	if *metalQueues == "" {
		t.Skip("no -metal-queues DIR: a folder with command-queue firmware that tt-metal built")
	}
	fw := value(metal.OpenQueueFirmware(t.Context(), *metalQueues))(t)
	arch := fw.Base.Layout.Arch
	workers := map[chip.Arch]int{chip.Wormhole: 72, chip.Blackhole: 130}[arch]
	if fw.Base.L1Banks != workers {
		t.Skipf("the command-queue firmware is for %d workers, and the vendor's simulator has %d", fw.Base.L1Banks, workers)
	}
	var image *kernels.Image
	var opts []reprise.Option
	if *metalWorkers != "" {
		var base *metal.Firmware
		base, image = metalBlank(t, fw.Base)
		opts = append(opts, reprise.WithFirmware(base.Dir))
	}
	stock := metalClocks(t, arch, image, append(opts, reprise.WithQueueFirmware(*metalQueues))...)
	ours := metalClocks(t, arch, image, opts...)
	t.Logf("%v, %v: clocks for each program of a long trace, tt-metal's, ours and their ratio; the same for a replay of a trace of one",
		arch, fw.Base.Layout.Revision)
	for i, p := range timed {
		a, b := stock[i], ours[i]
		t.Logf("%-16s %8.0f %8.0f %6.2f | %8.0f %8.0f %6.2f", p.name, a.program, b.program, a.program/b.program, a.replay, b.replay,
			a.replay/b.replay)
	}
}

// metalBlank returns the base firmware of -metal that is of the same build as the command queues',
// and the kernel "blank" that was linked with it.
func metalBlank(t *testing.T, of *metal.Firmware) (*metal.Firmware, *kernels.Image) {
	t.Helper()
	cache, err := metal.OpenCache(t.Context(), *metalWorkers)
	must(t, err)
	for _, f := range cache.Firmware {
		if f.Layout.Revision.Name != of.Layout.Revision.Name || f.Layout.Arch != of.Layout.Arch || f.L1Banks != of.L1Banks ||
			f.DRAMBanks != of.DRAMBanks {
			continue
		}
		for i := range cache.Kernels {
			k := &cache.Kernels[i]
			if k.Name != "blank" || k.Processor != chip.BRISC {
				continue
			}
			if image, err := k.Load(); err == nil && f.CheckProcessor(image, chip.BRISC) == nil {
				return f, image
			}
		}
	}
	t.Skipf("%s has no base firmware of %v for a %v with %d workers, or no kernel blank that was linked with it", *metalWorkers,
		of.Layout.Revision, of.Layout.Arch, of.L1Banks)
	return nil, nil
}

// clocks are those of a program in a long trace, and of a replay of a trace of one.
type clocks struct{ program, replay float64 }

// metalClocks returns the clocks for each shape of timed. Kernels are the image, or our own if it
// is nil. The test clocks the simulator itself, so that the machine's load has no part in it. A
// replay lasts until an event after it is in the completion ring.
func metalClocks(t *testing.T, arch chip.Arch, image *kernels.Image, opts ...reprise.Option) (out []clocks) {
	t.Helper()
	ctx := t.Context()
	c := startClocked(t, map[chip.Arch]string{chip.Wormhole: ttsimtest.Wormhole, chip.Blackhole: ttsimtest.Blackhole}[arch])
	cards, err := c.sim.Cards()
	must(t, err)
	var dev *reprise.Device
	c.run(func() { dev, err = reprise.Open(ctx, cards[0], opts...) })
	must(t, err)
	defer c.run(func() { dev.Close(ctx) })
	s := &session{ctx: ctx, dev: dev}
	done := dev.NewEvent("replayed")
	for _, p := range timed {
		prog, err := p.program(dev)
		must(t, err)
		for i := range prog.Kernels {
			if image != nil {
				prog.Kernels[i].Image = image
			}
		}
		var x *reprise.Executable
		c.run(func() { x, err = dev.Load(ctx, prog) })
		must(t, err)
		replay := func(programs, step, times int) float64 {
			var tr *reprise.Trace
			c.run(func() { tr, err = s.record(x, programs) })
			must(t, err)
			var sum uint64
			for i := range times + 1 {
				// The prefetcher looks for an entry every few dozen clocks: replays begin at
				// different ones.
				c.advance(idle + uint64(7*i))
				from := c.sim.Clocks()
				must(t, errors.Join(tr.Replay(ctx), dev.Queue(0).Record(ctx, done)))
				for ended := false; !ended; {
					c.advance(uint64(step))
					ended, err = done.Query()
					must(t, err)
				}
				if i > 0 {
					sum += c.sim.Clocks() - from
				}
			}
			c.run(func() { err = tr.Release(ctx) })
			must(t, err)
			return float64(sum) / float64(times)
		}
		// Whole rounds of launch messages.
		const short, long = 64, 192
		out = append(out, clocks{
			program: (replay(long, 32, 2) - replay(short, 32, 2)) / (long - short),
			replay:  replay(1, 8, 16),
		})
		c.run(func() { err = x.Release(ctx) })
		must(t, err)
	}
	return out
}

// idle is how many clocks the cores of a queue have to finish whatever they did.
const idle = 20_000

// clocked is the vendor's simulator, whose time advances when the test says so.
type clocked struct {
	t   *testing.T
	sim *ttsim.Sim
}

func startClocked(t *testing.T, variable string) *clocked {
	t.Helper()
	return &clocked{t, ttsimtest.Start(t, variable, ttsim.ManualClock())}
}

func (c *clocked) advance(n uint64) {
	c.t.Helper()
	must(c.t, c.sim.Clock(n))
}

// run lets the simulator's time advance while f runs.
func (c *clocked) run(f func()) {
	c.t.Helper()
	ctx, cancel := context.WithCancel(c.t.Context())
	ended := make(chan error, 1)
	go func() {
		var err error
		for ctx.Err() == nil && err == nil {
			err = c.sim.Clock(1000)
		}
		ended <- err
	}()
	f()
	cancel()
	must(c.t, <-ended)
}
