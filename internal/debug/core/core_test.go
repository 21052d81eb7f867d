package core_test

import (
	"encoding/binary"
	"errors"
	"testing"
	"time"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/internal/debug/core"
	"github.com/reprise-tt/reprise/internal/devtest"
	"github.com/reprise-tt/reprise/internal/expect"
	"github.com/reprise-tt/reprise/kmd"
	"github.com/reprise-tt/reprise/sim"
)

var fails = expect.Fails

func second[V any](_ V, err error) error { return err }

func tile(t *testing.T, arch chip.Arch, program ...uint32) (*kmd.Device, *core.Tile) {
	t.Helper()
	card := sim.Blackhole()
	if arch == chip.Wormhole {
		card = sim.Wormhole()
	}
	dev, err := kmd.Open(t.Context(), card)
	devtest.Must(t, err)
	t.Cleanup(func() { dev.Close() })
	topo, err := chip.New(arch, chip.Harvesting{})
	devtest.Must(t, err)
	xy, err := topo.Virtual(chip.Core{X: 1, Y: 2})
	devtest.Must(t, err)
	var code []byte
	for _, w := range program {
		code = binary.LittleEndian.AppendUint32(code, w)
	}
	must(t, dev.Write(xy, 0, code))
	must(t, dev.Write32(xy, uint64(arch.Params().SoftReset), arch.Params().ResetAll&^chip.BRISC.ResetBit()))
	tl, err := core.Open(dev, xy)
	must(t, err)
	return dev, tl
}

func must(t *testing.T, err error) {
	t.Helper()
	devtest.Must(t, err)
}

var counting = []uint32{
	0x000205B7, // lui a1, 0x20
	0x00150513, // addi a0, a0, 1
	0x00A5A023, // sw a0, 0(a1)
	0xFF9FF06F, // j .-8
}

func TestCore(t *testing.T) {
	for _, arch := range []chip.Arch{chip.Blackhole, chip.Wormhole} {
		dev, tl := tile(t, arch, counting...)
		c, err := tl.Core(chip.BRISC)
		must(t, err)
		ctx := t.Context()
		fails(t, second(c.Register(core.PC)), core.ErrRunning, "%v: register of a running processor", arch)
		for v := uint32(0); v == 0; {
			v, err = dev.Read32(tl.XY(), 0x20000)
			must(t, err)
		}
		must(t, c.Pause(ctx))
		must(t, c.SetRegister(core.PC, 4))
		must(t, c.SetRegister(10, 41))
		must(t, c.Step(ctx))
		must(t, c.Step(ctx))
		regs, err := c.Registers()
		must(t, err)
		if v, err := dev.Read32(tl.XY(), 0x20000); regs[10] != 42 || regs[11] != 0x20000 || regs[core.PC] != 12 || v != 42 || err != nil {
			t.Errorf("%v: a0 %d, a1 %#x, pc %#x, L1 %d, %v", arch, regs[10], regs[11], regs[core.PC], v, err)
		}
		var p [6]byte
		must(t, c.Write(0xFFB00009, []byte{1, 2, 3, 4, 5}))
		must(t, c.Read(0xFFB00008, p[:]))
		expect.Equal(t, p, [6]byte{0, 1, 2, 3, 4, 5}, "%v: local RAM", arch)
		fails(t, c.Read(0xFFB00000+arch.Params().LocalRAMSize[chip.BRISC]-2, p[:]), core.ErrAddress, "%v: beyond local RAM", arch)
		slot, err := c.Watch(core.StoreTo, 0x20000)
		must(t, err)
		must(t, c.Resume())
		s := core.Status{}
		for !s.Paused {
			s, err = c.Status()
			must(t, err)
		}
		if !s.Watch || s.Break || s.Hits != 1<<slot {
			t.Errorf("%v: %+v", arch, s)
		}
		must(t, c.Unwatch(slot))
		// ebreak pauses after it.
		must(t, c.Write(4, []byte{0x73, 0, 0x10, 0}))
		must(t, c.ForgetCode())
		must(t, c.Resume())
		for s = (core.Status{}); !s.Paused; {
			s, err = c.Status()
			must(t, err)
		}
		if pc, err := c.Register(core.PC); !s.EBREAK || pc != 8 || err != nil {
			t.Errorf("%v: %+v at %#x, %v", arch, s, pc, err)
		}
		must(t, c.Write(4, []byte{0x13, 0x05, 0x15, 0}))
		must(t, c.ForgetCode())
		must(t, c.Detach())
		before, err := dev.Read32(tl.XY(), 0x20000)
		must(t, err)
		for v := before; v == before; {
			v, err = dev.Read32(tl.XY(), 0x20000)
			must(t, err)
		}
		must(t, dev.Fault())
	}
}

func TestCoreRefuses(t *testing.T) {
	for _, arch := range []chip.Arch{chip.Blackhole, chip.Wormhole} {
		dev, tl := tile(t, arch, counting...)
		nc, err := tl.Core(chip.NCRISC)
		must(t, err)
		if err := nc.Pause(t.Context()); !errors.Is(err, core.ErrUnsupported) || nc.HasInterface() {
			t.Errorf("%v: pause of NCRISC: %v", arch, err)
		}
		math, err := tl.Core(chip.TRISC1)
		must(t, err)
		fails(t, math.Pause(t.Context()), core.ErrInReset, "%v: pause in reset", arch)
		b, err := tl.Core(chip.BRISC)
		must(t, err)
		for _, number := range []int{core.CFG0, 0x300} {
			if number == core.CFG0 && arch == chip.Blackhole {
				continue
			}
			fails(t, second(b.CSR(t.Context(), number)), core.ErrUnsupported, "%v: CSR %#x", arch, number)
		}
		if pc, err := b.Sample(); pc > 12 || err != nil {
			t.Errorf("%v: sampled pc %#x, %v", arch, pc, err)
		}
		for range core.Watchpoints {
			_, err := b.Watch(core.Load, 0x30000)
			must(t, err)
		}
		fails(t, second(b.Watch(core.Load, 0x30000)), core.ErrNoWatchpoint, "%v: ninth watchpoint", arch)
		fails(t, second(tl.Core(chip.ERISC0)), core.ErrUnsupported, "%v: ERISC0", arch)
		must(t, dev.Fault())
	}
}

func TestCSR(t *testing.T) {
	const bits = 1<<18 | 1<<3 // of the branch predictor and of an L0 cache
	dev, tl := tile(t, chip.Blackhole, append([]uint32{
		0x00040537, // lui a0, 0x40
		0x00850513, // addi a0, a0, 8
		0x7C052073, // csrs 0x7c0, a0
		0x00000513, // li a0, 0
	}, counting...)...)
	c, err := tl.Core(chip.BRISC)
	must(t, err)
	fails(t, second(c.CSR(t.Context(), core.CFG0)), core.ErrRunning, "CSR of a running processor")
	for v := uint32(0); v == 0; {
		v, err = dev.Read32(tl.XY(), 0x20000)
		must(t, err)
	}
	must(t, c.Pause(t.Context()))
	before, err := c.Registers()
	must(t, err)
	v, err := c.CSR(t.Context(), core.CFG0)
	must(t, err)
	after, err := c.Registers()
	must(t, err)
	expect.Equal(t, v&bits, bits, "cfg0")
	expect.Equal(t, before, after, "registers before and after")
	var code [32]byte
	must(t, c.Read(0, code[:]))
	expect.Equal(t, binary.LittleEndian.Uint32(code[16:]), counting[0], "the first instruction of the loop")
	last, err := dev.Read32(tl.XY(), 0x20000)
	must(t, err)
	must(t, c.Detach())
	for v := last; v < last+10; {
		v, err = dev.Read32(tl.XY(), 0x20000)
		must(t, err)
	}
	must(t, dev.Fault())
}

type noDebug struct{ core.Device }

func (noDebug) CoreDebug() bool { return false }

func TestOpenUnsupported(t *testing.T) {
	if _, err := core.Open(noDebug{}, chip.XY{}); !errors.Is(err, core.ErrUnsupported) {
		t.Error(err)
	}
}

func TestStuck(t *testing.T) {
	for _, arch := range []chip.Arch{chip.Blackhole, chip.Wormhole} {
		waiting := append([]uint32{
			0xFFEC1537, // lui a0, 0xffec1: the mailbox from TRISC0
			0x00052583, // lw a1, 0(a0)
			0x00000513, // li a0, 0
		}, counting...)
		dev, tl := tile(t, arch, waiting...)
		var code []byte
		for _, w := range []uint32{
			0xFFEC0537, // lui a0, 0xffec0: the mailbox to BRISC
			0x00500593, // li a1, 5
			0x00B52023, // sw a1, 0(a0)
			0x0000006F, // j .
		} {
			code = binary.LittleEndian.AppendUint32(code, w)
		}
		p := arch.Params()
		must(t, dev.Write(tl.XY(), uint64(p.ResetPC[chip.TRISC0]), code))
		must(t, dev.Write(tl.XY(), uint64(p.ResetPC[chip.TRISC1]), code[12:]))
		c, err := tl.Core(chip.BRISC)
		must(t, err)
		other, err := tl.Core(chip.TRISC1)
		must(t, err)
		must(t, dev.Write32(tl.XY(), uint64(p.SoftReset), p.ResetAll&^chip.BRISC.ResetBit()&^chip.TRISC1.ResetBit()))
		errs := make([]error, 2)
		for errs[0] == nil { // until it has come to its second instruction
			errs = core.PauseAll(t.Context(), 50*time.Millisecond, c, other)
			must(t, errs[1])
			must(t, other.Detach())
			if errs[0] == nil {
				must(t, c.Detach())
			}
		}
		expect.Fails(t, errs[0], core.ErrStuck, "%v", arch)
		must(t, dev.Write32(tl.XY(), uint64(p.SoftReset), p.ResetAll&^chip.BRISC.ResetBit()&^chip.TRISC0.ResetBit()))
		for s := (core.Status{}); !s.Paused; {
			s, err = c.Status()
			must(t, err)
		}
		must(t, c.Detach())
		for v := uint32(0); v == 0; {
			v, err = dev.Read32(tl.XY(), 0x20000)
			must(t, err)
		}
		must(t, dev.Fault())
	}
}
