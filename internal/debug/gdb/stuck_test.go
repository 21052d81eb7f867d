package gdb_test

import (
	"encoding/binary"
	"encoding/hex"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/internal/debug/core"
	"github.com/reprise-tt/reprise/internal/debug/gdb"
	"github.com/reprise-tt/reprise/kmd"
	"github.com/reprise-tt/reprise/sim"
)

func write(t *testing.T, dev *kmd.Device, xy chip.XY, at uint32, program ...uint32) {
	t.Helper()
	var code []byte
	for _, w := range program {
		code = binary.LittleEndian.AppendUint32(code, w)
	}
	must(t, dev.Write(xy, uint64(at), code))
}

func TestStuckThread(t *testing.T) {
	for _, arch := range []chip.Arch{chip.Blackhole, chip.Wormhole} {
		card := sim.Blackhole()
		if arch == chip.Wormhole {
			card = sim.Wormhole()
		}
		defer card.Close()
		dev, err := kmd.Open(t.Context(), card)
		must(t, err)
		defer dev.Close()
		topo, err := chip.New(arch, chip.Harvesting{})
		must(t, err)
		xy, err := topo.Virtual(chip.Core{X: 1, Y: 2})
		must(t, err)
		params := arch.Params()
		write(t, dev, xy, 0,
			0x00020637, // lui a2, 0x20
			0x00C62023, // sw a2, 0(a2)
			0xFFEC1537, // lui a0, 0xffec1: the mailbox from TRISC0
			0x00052583, // lw a1, 0(a0)
			0x00B62223, // sw a1, 4(a2)
			0x0000006F, // j .
		)
		write(t, dev, xy, params.ResetPC[chip.TRISC0],
			0xFFEC0537, // lui a0, 0xffec0: the mailbox to BRISC
			0x00500593, // li a1, 5
			0x00B52023, // sw a1, 0(a0)
			0x0000006F, // j .
		)
		write(t, dev, xy, params.ResetPC[chip.TRISC1],
			0x8C400022, // ttinsn SEMINIT: semaphore 1 is 0 of at most 1
			0x9BFE0026, // ttinsn SEMWAIT: while it is 0
			0x0000006F, // j .
		)
		release := func(processors ...chip.Processor) {
			v := params.ResetAll
			for _, p := range processors {
				v &^= p.ResetBit()
			}
			must(t, dev.Write32(xy, uint64(params.SoftReset), v))
		}
		release(chip.BRISC, chip.TRISC1)
		tile, err := core.Open(dev, xy)
		must(t, err)
		var threads []gdb.Thread
		for _, p := range []chip.Processor{chip.BRISC, chip.TRISC1} {
			c, err := tile.Core(p)
			must(t, err)
			threads = append(threads, gdb.Thread{Name: p.String(), Core: c})
		}
		waits := uint32(0)
		for last := uint32(1); waits < 8 || waits != last; { // in its load
			last = waits
			waits, err = threads[0].Core.Sample()
			must(t, err)
		}
		for at := uint32(0); at < params.ResetPC[chip.TRISC1]+8; { // has given the engines its instructions
			at, err = threads[1].Core.Sample()
			must(t, err)
		}
		server, err := gdb.New(threads, gdb.Options{Patience: 200 * time.Millisecond})
		must(t, err)
		conn, end := net.Pipe()
		defer conn.Close()
		done := make(chan error, 1)
		go func() { done <- server.Serve(t.Context(), end) }()
		c := client{t, conn}
		pc := hex.EncodeToString(binary.LittleEndian.AppendUint32(nil, waits))
		for _, x := range [][2]string{
			{"?", "T05thread:2;"}, {"p2", "00000000"}, {"Hg1", "OK"}, {"g", strings.Repeat("xxxxxxxx", 32) + pc}, {"pb", "xxxxxxxx"}, {"p20", pc},
			{"Pb=01000000", "E02"}, {"m20000,4", "00000200"},
		} {
			if got := c.ask(x[0]); got != x[1] {
				t.Errorf("%v: %s: %q, want %q", arch, x[0], got, x[1])
			}
		}
		if got := c.monitor("threads"); got != "1 BRISC: 0 instructions back, waits inside of an instruction\n2 TRISC1: 0 instructions back" {
			t.Errorf("%v: threads: %q", arch, got)
		}
		engines := c.monitor("wait")
		for range 1000 {
			if strings.Contains(engines, "SEMWAIT") { // they have come to it
				break
			}
			engines = c.monitor("wait")
		}
		if engines != "thread 0: nothing\nthread 1: SEMWAIT 0xa6ff8009 waits while semaphore 1 is 0\nthread 2: nothing" {
			t.Errorf("%v: engines: %q", arch, engines)
		}
		release(chip.BRISC, chip.TRISC1, chip.TRISC0)
		for got := "xxxxxxxx"; got != "05000000"; {
			if got = c.ask("pb"); got != "xxxxxxxx" && got != "05000000" {
				t.Fatalf("%v: a1 is %q", arch, got)
			}
		}
		if got := c.ask("m20004,4"); got != "00000000" { // it has paused after the load
			t.Errorf("%v: the processor has gone on: %q", arch, got)
		}
		if got := c.ask("D"); got != "OK" {
			t.Errorf("%v: detach: %q", arch, got)
		}
		must(t, <-done)
		for v := uint32(0); v != 5; {
			v, err = dev.Read32(xy, 0x20004)
			must(t, err)
		}
		must(t, dev.Fault())
	}
}
