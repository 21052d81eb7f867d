package debug

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/dispatch"
	"github.com/reprise-tt/reprise/hwtest/rig"
	"github.com/reprise-tt/reprise/internal/debug/core"
	"github.com/reprise-tt/reprise/internal/debug/live"
	"github.com/reprise-tt/reprise/kernels/watch"
)

func tile(t *rig.T) *core.Tile {
	tile, err := core.Open(t.KMD, t.Virtual(t.Grid().Start))
	if errors.Is(err, core.ErrUnsupported) {
		t.Skip(err)
	}
	t.OK(err)
	return tile
}

const counted = 0x20000

// counting lets a processor count in a0 and in L1. It is held in reset again with the case.
func counting(t *rig.T, tile *core.Tile, p chip.Processor) (at uint32) {
	at = t.Params.ResetPC[p]
	if uint64(at) >= uint64(t.Params.L1Size) {
		t.Skip(p.String() + " doesn't start in L1")
	}
	code := rig.WordsOf(
		0x00000513, // li a0, 0
		0x000205B7, // lui a1, 0x20
		0x00150513, // addi a0, a0, 1
		0x00A5A023, // sw a0, 0(a1)
		0xFF9FF06F, // j .-8
	)
	startsAt(t, tile, p, at)
	t.Ends(func() error { return t.KMD.Write32(tile.XY(), uint64(t.Params.SoftReset), t.Params.ResetAll) })
	release(t, tile, p, code)
	return at
}

// release lets a processor run a program, and waits until it has stored to L1.
func release(t *rig.T, tile *core.Tile, p chip.Processor, code []byte) {
	xy := tile.XY()
	t.OK(t.KMD.Write(xy, uint64(t.Params.ResetPC[p]), code))
	t.Store32(xy, counted, 0)
	t.Store32(xy, uint64(t.Params.SoftReset), t.Params.ResetAll&^p.ResetBit())
	counts(t, tile, 0)
}

// startsAt has BRISC set where another processor starts: on Wormhole the host can't.
func startsAt(t *rig.T, tile *core.Tile, p chip.Processor, at uint32) {
	if p == chip.BRISC {
		return
	}
	override, bit := t.Params.NCRISCResetPCOverride, uint32(1)
	if p >= chip.TRISC0 {
		override, bit = t.Params.TRISCResetPCOverride, 1<<(p-chip.TRISC0)
	}
	const a0, a1 = 10, 11
	lui := func(rd, v uint32) uint32 { return v&^0xFFF | rd<<7 | 0x37 }
	sw := func(rs2, off, rs1 uint32) uint32 {
		return off>>5&0x7F<<25 | rs2<<20 | rs1<<15 | 2<<12 | off&0x1F<<7 | 0x23
	}
	store := func(addr uint32) []uint32 {
		return []uint32{lui(a1, addr+0x800), sw(a0, addr&0xFFF, a1)}
	}
	const loop = 0x0000006F // j .
	code := slices.Concat([]uint32{lui(a0, at)}, store(t.Params.ResetPCRegister[p]),
		[]uint32{bit<<20 | a0<<7 | 0x13}, // li a0, bit
		store(override), store(counted), []uint32{loop})
	release(t, tile, chip.BRISC, rig.WordsOf(code...))
	t.Store32(tile.XY(), uint64(t.Params.SoftReset), t.Params.ResetAll)
}

func counts(t *rig.T, tile *core.Tile, from uint32) {
	for t.Load32(tile.XY(), counted) == from {
		t.OK(t.Ctx.Err())
	}
}

func debugInterface(t *rig.T, p chip.Processor) {
	tile := tile(t)
	at := counting(t, tile, p)
	c, err := tile.Core(p)
	t.OK(err)
	t.Fails("registers of a running processor", rig.Error(c.Registers()), core.ErrRunning)
	t.OK(c.Pause(t.Ctx))
	before := t.Load32(tile.XY(), counted)
	t.OK(c.SetRegister(10, 1000))
	t.OK(c.SetRegister(core.PC, at+8))
	t.OK(c.Step(t.Ctx))
	t.OK(c.Step(t.Ctx))
	regs, err := c.Registers()
	t.OK(err)
	v := t.Load32(tile.XY(), counted)
	if before == 0 || regs[10] != 1001 || regs[11] != counted || regs[core.PC] != at+16 || v != 1001 {
		t.Errorf("after two steps: a0 %d, a1 %#x, pc %#x, L1 has %d; it was %d", regs[10], regs[11], regs[core.PC], v, before)
	}
	start, _ := c.LocalRAM()
	var got [4]byte
	t.OK(c.Write(start+16, []byte{1, 2, 3, 4}))
	t.OK(c.Read(start+16, got[:]))
	rig.Equal(t, got, [4]byte{1, 2, 3, 4}, "local RAM")
	slot, err := c.Watch(core.StoreTo, counted)
	t.OK(err)
	t.OK(c.Resume())
	s := core.Status{}
	for !s.Paused {
		s, err = c.Status()
		t.OK(err)
		t.OK(t.Ctx.Err())
	}
	if !s.Watch || s.Hits != 1<<slot {
		t.Errorf("after a store that is watched: %+v", s)
	}
	v = t.Load32(tile.XY(), counted)
	t.OK(c.Detach())
	counts(t, tile, v)
}

func debugInReset(t *rig.T) {
	tile := tile(t)
	c, err := tile.Core(chip.TRISC1)
	t.OK(err)
	t.Fails("pause", c.Pause(t.Ctx), core.ErrInReset)
	all, err := live.Take(t.Ctx, t.KMD, []live.Place{{XY: tile.XY(), Processor: chip.TRISC1}, {XY: tile.XY(), Processor: chip.NCRISC}},
		t.Patience())
	t.OK(err)
	for _, s := range all {
		if s.Note != "in reset" || s.Registers != nil || s.Err != nil {
			t.Errorf("%v: %+v", s.Processor, s)
		}
	}
}

func debugNCRISC(t *rig.T) {
	tile := tile(t)
	c, err := tile.Core(chip.NCRISC)
	t.OK(err)
	t.Fails("pause", c.Pause(t.Ctx), core.ErrUnsupported)
	at := counting(t, tile, chip.NCRISC)
	if pc, err := c.Sample(); pc < at || pc > at+32 || err != nil {
		t.Errorf("pc is %#x, %v: want one from %#x on", pc, err, at)
	}
}

// hung runs a program that doesn't end. A report waits 250 ms for processors to pause; on a busy
// machine the program runs again, after a recovery.
func hung(t *rig.T, program func() *reprise.Program) *dispatch.HangError {
	const tries = 10
	for try := 1; ; try++ {
		h := t.Hangs(program())
		late := slices.ContainsFunc(h.Dump.Stacks, func(s live.Snapshot) bool { return strings.Contains(s.Note, core.ErrStuck.Error()) })
		if !late || try == tries {
			return h
		}
		t.OK(t.Dev.Recover(t.Ctx))
	}
}

// stuckStack runs kernels that have symbols alone.
func stuckStack(t *rig.T, p chip.Processor) {
	u := t.Short()
	at := chip.Core{X: 2, Y: 3}
	word := u.PerWorker(16)
	h := hung(u, func() *reprise.Program { return u.Spin(word, p, at.Range()) })
	if strings.Contains(h.Dump.StacksNote, "no debug interface") {
		if len(h.Dump.Stacks) != 0 || !strings.Contains(h.Detail(), h.Dump.StacksNote) {
			t.Errorf("%d stacks, and the report:\n%s", len(h.Dump.Stacks), h.Detail())
		}
		_ = u.Dev.Close(t.Context())
		t.Skip("call stacks: " + h.Dump.StacksNote)
	}
	i := slices.IndexFunc(h.Dump.Stacks, func(s live.Snapshot) bool { return s.Core == at && s.Processor == p })
	if i < 0 {
		t.Fatalf("no stack of %v: %+v", p, h.Dump.Stacks)
	}
	s := h.Dump.Stacks[i]
	if s.Err != nil || len(s.Frames) == 0 || s.Frames[0].Function != "kernel_main" || s.Frames[0].File != "" ||
		s.Frames[0].Module != "spin/spin" {
		t.Errorf("stack of %v: %+v", p, s)
	}
	firmware := func() bool {
		last := s.Frames[len(s.Frames)-1]
		return len(s.Frames) > 1 && strings.Contains(last.Module, "firmware") &&
			(!t.Config.Firmware.Own() || last.Function == "firmware_main" && last.Line > 0)
	}
	if known := s.Registers != nil; known != (p != chip.NCRISC) || known && !firmware() {
		t.Errorf("stack of %v: %d registers, %v", p, len(s.Registers), s.Frames)
	}
	u.OK(u.Dev.Recover(u.Ctx))
}

func stuckEverywhere(t *rig.T) {
	u := t.Short()
	word := u.PerWorker(16)
	h := hung(u, func() *reprise.Program { return u.Spin(word, chip.BRISC, u.Grid()) })
	if h.Dump.Stacks == nil {
		_ = u.Dev.Close(t.Context())
		t.Skip("call stacks: " + h.Dump.StacksNote)
	}
	workers := 0
	for _, s := range h.Dump.Stacks {
		if u.Grid().Contains(s.Core) {
			workers++
		}
	}
	if want := fmt.Sprintf("those of 32 of %d busy workers", u.Grid().Size()); h.Dump.StacksNote != want || workers != 32 {
		t.Errorf("%d stacks of workers, %q, want %q", workers, h.Dump.StacksNote, want)
	}
	if strings.Count(h.Detail(), "#0 kernel_main") != 1 {
		t.Errorf("32 stacks that are alike are shown more often than once:\n%s", h.Detail())
	}
	u.OK(u.Dev.Recover(u.Ctx))
	ran(u, lines(u, 1, u.Grid(), chip.BRISC))
}

func watched(t *rig.T, what uint32, on chip.Processor) *reprise.Program {
	cores := []chip.Range{t.Grid().End.Range()}
	return &reprise.Program{
		Name:            "watched",
		CircularBuffers: []reprise.CircularBuffer{{Index: 3, Cores: cores, PageSize: 64, Pages: 2}},
		Kernels: []reprise.Kernel{{
			Name: on.String(), Image: t.Own("watch"), Processor: on, Cores: cores, Args: rig.Args(what),
		}},
	}
}

func watchable(t *rig.T) {
	if _, ok := t.Dev.Debug().PrintArea(); !ok {
		t.Skip("the workers run tt-metal's base firmware, with which kernels report nothing")
	}
}

func checksFail(t *rig.T, on chip.Processor) {
	watchable(t)
	t = t.Short()
	for i, want := range []struct {
		check watch.Check
		says  string
	}{
		{watch.Assertion, "assertion `what < 1 && \"numbers, 100%\"` failed"},
		{watch.CircularBuffer, "circular buffer 3: the kernel pushes 1 page, but has reserved 0"},
		{watch.CircularBuffer, "circular buffer 3: the kernel waits for 3 pages, but the buffer has 2: it would wait for ever"},
		{watch.NoC, "the addresses must be equal modulo 16"},
		{watch.NoC, "tile (15,15) by NoC 0: the chip has no such tile"},
		{watch.NoC, "it is beyond the tile's memory"},
		{watch.Stack, "stack overflow: "},
	} {
		if want.check == watch.NoC && on >= chip.TRISC0 {
			continue
		}
		t.Start(t.Load(watched(t, uint32(i+1), on)))
		err := t.Queue.Wait(t.Ctx)
		var k *dispatch.KernelError
		if want.check == watch.Stack && errors.As(err, &k) { // a strict emulator stops before the kernel's check
			if k.Core != t.Grid().End || k.Processor != on || k.Kernel != on.String() || !strings.Contains(k.Error(), want.says) {
				t.Error(k)
			}
			_ = t.Dev.Close(context.WithoutCancel(t.Ctx))
			return
		}
		f := rig.As[*watch.Failure](t, err)
		if f.Check != want.check || !strings.Contains(f.Text, want.says) || f.Core != t.Grid().End || f.Processor != on ||
			f.Program != "watched" || f.Kernel != on.String() || f.Offset == 0 {
			t.Errorf("%+v, want %s", f, want.says)
		}
		if f.Check == watch.Assertion && (!strings.HasSuffix(f.File, "watch.c") || f.Line == 0) {
			t.Errorf("at %s:%d", f.File, f.Line)
		}
		t.OK(t.Dev.Recover(t.Ctx))
	}
	ran(t, watched(t, 0, on))
}
