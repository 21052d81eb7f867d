package bench

import (
	"flag"
	"testing"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/kernels/metal"
)

var metalQueues = flag.String("metal-queues", "",
	"`folder` of tt-metal's command-queue firmware, whose instructions and clocks are counted beside our own's")

// p100a is what a card of that kind lacks: two columns of cores and a DRAM bank.
var p100a = chip.Harvesting{Tensix: 0x3, DRAM: 0x80}

// What tt-metal's command-queue firmware executes for the programs of TestInstructions, beside this
// runtime's own with the same commands and with its own form of them.
func TestMetalInstructions(t *testing.T) {
	if *metalQueues == "" {
		t.Skip("no -metal-queues DIR: a folder with command-queue firmware that tt-metal built")
	}
	fw, err := metal.OpenQueueFirmware(t.Context(), *metalQueues)
	must(t, err)
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
