package core

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/reprise-tt/reprise/chip"
)

// Status register, DebugInterface.md "Status bitmask".
const (
	statusPaused = 1 << 0
	statusBreak  = 1 << 1
	statusWatch  = 1 << 2
	statusEBREAK = 1 << 3
	statusFirst  = 8
)

// Command register, DebugInterface.md "Command and control bitmask".
const (
	cmdPause         = 1 << 0
	cmdStep          = 1 << 1
	cmdResume        = 1 << 2
	cmdReadRegister  = 1 << 3
	cmdWriteRegister = 1 << 4
	cmdReadMemory    = 1 << 5
	cmdWriteMemory   = 1 << 6
	cmdWritePC       = 1 << 8
	cmdSlow          = 1 << 31 // slow execution mode, which resuming needs
)

// Status says whether a processor is paused, and why.
type Status struct {
	Paused bool
	Break  bool
	Watch  bool  // by a watchpoint
	EBREAK bool  // after an ebreak or ecall
	Hits   uint8 // bit mask of watchpoints
}

// PC is the index of pc among the registers.
const PC = 32

// A Core is one processor of a tile.
type Core struct {
	tile  *Tile
	proc  chip.Processor
	which uint32 // number at the debug port
	debug bool

	predicts bool // Wormhole: the branch predictor may be on
}

// Core returns a processor of the tile. The error wraps ErrUnsupported outside of a Tensix tile.
func (t *Tile) Core(p chip.Processor) (*Core, error) {
	c := &Core{tile: t, proc: p, predicts: t.dev.Arch() == chip.Wormhole}
	switch p {
	case chip.BRISC:
		c.debug = true
	case chip.TRISC0, chip.TRISC1, chip.TRISC2:
		c.which, c.debug = uint32(p-chip.TRISC0)+1, true
	case chip.NCRISC:
		c.which = 4
	default:
		return nil, c.fail("find", ErrUnsupported)
	}
	return c, nil
}

// Processor returns the processor's name.
func (c *Core) Processor() chip.Processor { return c.proc }

// Tile returns the processor's tile.
func (c *Core) Tile() *Tile { return c.tile }

// NCRISC has none.
func (c *Core) HasInterface() bool { return c.debug }

// fail names the processor and the operation of an error; nil stays nil.
func (c *Core) fail(op string, err error) error {
	if err == nil {
		return nil
	}
	return &Error{Tile: c.tile.xy, Processor: c.proc, Op: op, Err: err}
}

// Reset reports whether the processor is held in reset.
func (c *Core) Reset() (bool, error) {
	v, err := c.tile.dev.Read32(c.tile.xy, uint64(c.tile.dev.Arch().Params().SoftReset))
	if err != nil {
		return false, c.fail("read the reset of", err)
	}
	return v&c.proc.ResetBit() != 0, nil
}

func (c *Core) present(op string) error {
	if !c.debug {
		return c.fail(op, fmt.Errorf("%w: NCRISC has none", ErrUnsupported))
	}
	err := c.released()
	if err == ErrInReset {
		err = c.fail(op, err)
	}
	return err
}

func (c *Core) statusLocked() (Status, error) {
	v, err := c.tile.readLocked(c.which, drStatus)
	return Status{
		Paused: v&statusPaused != 0, Break: v&statusBreak != 0, Watch: v&statusWatch != 0, EBREAK: v&statusEBREAK != 0,
		Hits: uint8(v >> statusFirst),
	}, err
}

// Status reads whether the processor is paused. The error wraps ErrInReset or ErrUnsupported.
func (c *Core) Status() (s Status, err error) {
	err = c.locked("read the status of", func() (err error) {
		s, err = c.statusLocked()
		return err
	})
	return s, err
}

// locked locks the tile for f. The error wraps ErrInReset or ErrUnsupported.
func (c *Core) locked(op string, f func() error) error {
	if err := c.present(op); err != nil {
		return err
	}
	c.tile.mu.Lock()
	defer c.tile.mu.Unlock()
	return c.fail(op, f())
}

const patience = 2 * time.Second // to pause: some cycles of hardware, a turn of an emulator on a busy machine

// Pause pauses the processor before an instruction. The error wraps ErrInReset, or ErrStuck if it
// pauses only when the current instruction ends.
func (c *Core) Pause(ctx context.Context) error { return PauseAll(ctx, patience, c)[0] }

// PauseAll requests pauses of all processors and waits for them, for at most patience in all. It
// returns an error for each.
func PauseAll(ctx context.Context, patience time.Duration, cores ...*Core) []error {
	errs := make([]error, len(cores))
	waiting := make([]int, 0, len(cores))
	for i, c := range cores {
		if paused, err := c.askPause(); err != nil || paused {
			errs[i] = err
		} else {
			waiting = append(waiting, i)
		}
	}
	for deadline := time.Now().Add(patience); len(waiting) > 0; {
		late := time.Now().After(deadline)
		waiting = slices.DeleteFunc(waiting, func(i int) bool {
			var paused bool
			paused, errs[i] = cores[i].hasPaused(ctx, "pause", late)
			return paused || errs[i] != nil
		})
	}
	return errs
}

func (c *Core) askPause() (paused bool, err error) {
	s, err := c.Status()
	if err != nil || s.Paused {
		return s.Paused, err
	}
	// In slow execution mode instructions in flight end after 200 cycles, which the host's register
	// read takes.
	for _, command := range [...]uint32{cmdSlow, cmdSlow | cmdPause} {
		if err := c.command("pause", command); err != nil {
			return false, err
		}
		if _, err := c.Status(); err != nil {
			return false, err
		}
	}
	return false, nil
}

// hasPaused returns an error that wraps ErrStuck if late is set and the processor runs.
func (c *Core) hasPaused(ctx context.Context, op string, late bool) (bool, error) {
	s, err := c.Status()
	switch {
	case err != nil || s.Paused:
		return s.Paused, err
	case ctx.Err() != nil:
		return false, c.fail(op, context.Cause(ctx))
	case late:
		return false, c.fail(op, ErrStuck)
	}
	return false, nil
}

func (c *Core) command(op string, v uint32) error {
	c.tile.mu.Lock()
	defer c.tile.mu.Unlock()
	return c.fail(op, c.tile.writeLocked(c.which, drCommand, v))
}

func (c *Core) paused(op string, f func() error) error {
	return c.locked(op, func() error {
		switch s, err := c.statusLocked(); {
		case err != nil:
			return err
		case !s.Paused:
			return ErrRunning
		}
		return f()
	})
}

func (c *Core) writeLocked(pairs ...uint32) error {
	for i := 0; i < len(pairs); i += 2 {
		if err := c.tile.writeLocked(c.which, pairs[i], pairs[i+1]); err != nil {
			return err
		}
	}
	return nil
}

// Register returns x0 to x31 or PC of the paused processor. The error wraps ErrRunning.
func (c *Core) Register(i int) (v uint32, err error) {
	const op = "read a register of"
	if i < 0 || i > PC {
		return 0, c.fail(op, fmt.Errorf("%w: register %d", ErrUnsupported, i))
	}
	sample := i == PC && c.blackhole() // as tt-exalens does
	err = c.paused(op, func() (err error) {
		if !sample {
			v, err = c.registerLocked(uint32(i))
		}
		return err
	})
	if err == nil && sample {
		return c.Sample()
	}
	return v, err
}

func (c *Core) registerLocked(i uint32) (uint32, error) {
	if err := c.writeLocked(drArg0, i, drCommand, cmdSlow|cmdReadRegister); err != nil {
		return 0, err
	}
	return c.tile.readLocked(c.which, drResult)
}

// Registers returns x0 to x31 and pc of the paused processor.
func (c *Core) Registers() (regs [PC + 1]uint32, err error) {
	err = c.paused("read the registers of", func() (err error) {
		for i := 1; i < PC && err == nil; i++ {
			regs[i], err = c.registerLocked(uint32(i))
		}
		return err
	})
	if err == nil {
		regs[PC], err = c.Register(PC)
	}
	return regs, err
}

// SetRegister writes a register of the paused processor. Writing PC drops instructions in flight
// and continues there.
func (c *Core) SetRegister(i int, v uint32) error {
	switch {
	case i == 0:
		return nil
	case i < 0 || i > PC:
		return c.fail("write a register of", fmt.Errorf("%w: register %d", ErrUnsupported, i))
	}
	return c.paused("write a register of", func() error {
		if i == PC {
			// The step works around a hardware bug: one instruction isn't executed.
			return c.writeLocked(drArg1, v, drCommand, cmdSlow|cmdWritePC|cmdStep)
		}
		return c.writeLocked(drArg0, uint32(i), drArg1, v, drCommand, cmdSlow|cmdWriteRegister)
	})
}

// CFG0 is the number of Blackhole's CSR with switches of the processor (tt-isa-documentation
// BlackholeA0/TensixTile/BabyRISCV/CSRs.md).
const CFG0 = 0x7C0

// CSR returns Blackhole's CFG0 of the paused processor, which executes a load of it in place of the
// instruction at pc, which must be in L1 and which no other processor runs. For other numbers and
// on Wormhole the error wraps ErrUnsupported.
func (c *Core) CSR(ctx context.Context, number int) (v uint32, err error) {
	const op = "read a CSR of"
	if number != CFG0 || !c.blackhole() {
		return 0, c.fail(op, fmt.Errorf("%w: CSR %#x", ErrUnsupported, number))
	}
	pc, err := c.Register(PC)
	var a0 uint32
	if err == nil {
		a0, err = c.Register(10)
	}
	var there [4]byte
	if err == nil {
		err = c.Read(pc, there[:])
	}
	if err != nil {
		return 0, err
	}
	const csrrs = 2<<12 | 10<<7 | 0x73 // csrrs a0, number, zero
	err = c.put(pc, binary.LittleEndian.AppendUint32(nil, uint32(number)<<20|csrrs))
	if err == nil {
		if err = c.Step(ctx); err == nil {
			v, err = c.Register(10)
		}
	}
	return v, errors.Join(err, c.put(pc, there[:]), c.SetRegister(10, a0), c.SetRegister(PC, pc))
}

func (c *Core) put(at uint32, instruction []byte) error {
	if err := c.Write(at, instruction); err != nil {
		return err
	}
	return c.ForgetCode()
}

// Resume resumes the paused processor in slow execution mode, so that it can be paused again: see
// Detach.
func (c *Core) Resume() error {
	if err := c.ready("resume"); err != nil {
		return err
	}
	return c.paused("resume", func() error { return c.writeLocked(drCommand, cmdSlow|cmdResume) })
}

// Step executes one instruction of the paused processor. The error wraps ErrStuck if the
// instruction waits; the processor pauses after it.
func (c *Core) Step(ctx context.Context) error {
	if err := c.ready("step"); err != nil {
		return err
	}
	step := []uint32{drCommand, cmdSlow | cmdStep}
	if c.blackhole() {
		step = append(step, step...) // a step takes two (tt-exalens)
	}
	if err := c.paused("step", func() error { return c.writeLocked(step...) }); err != nil {
		return err
	}
	for deadline := time.Now().Add(patience); ; {
		if paused, err := c.hasPaused(ctx, "step", time.Now().After(deadline)); err != nil || paused {
			return err
		}
	}
}

func (c *Core) ready(op string) error {
	s, err := c.Status()
	if err != nil {
		return err
	}
	if s.EBREAK && c.blackhole() {
		// Otherwise the same ebreak pauses the processor again (tt-exalens).
		pc, err := c.Register(PC)
		if err == nil {
			err = c.SetRegister(PC, pc)
		}
		if err != nil {
			return err
		}
	}
	return c.stopPredicting(op)
}

// predictorBit is the first of the bits that disable branch predictors, DISABLE_RISC_BP in word 2
// of the Tensix configuration, in the order B, T0, T1, T2, NC (tt-metal cfg_defines.h). Wormhole's
// slow execution mode needs that.
const (
	configBase    = 0xFFEF0000
	predictorWord = configBase + 4*2
	predictorBit  = 22
)

func (c *Core) stopPredicting(op string) error {
	if !c.predicts {
		return nil
	}
	err := c.paused(op, func() error {
		v, err := c.loadLocked(predictorWord)
		if err == nil {
			err = c.storeLocked(predictorWord, v|1<<(predictorBit+c.which))
		}
		return err
	})
	c.predicts = err != nil
	return err
}

// Detach also removes watchpoints and ends slow execution mode.
func (c *Core) Detach() error {
	if err := c.present("detach from"); err != nil {
		return err
	}
	s, err := c.Status()
	if err != nil {
		return err
	}
	c.tile.mu.Lock()
	err = c.writeLocked(drModes, 0)
	c.tile.mu.Unlock()
	if err == nil && s.Paused {
		err = c.Resume()
	}
	if err != nil {
		return c.fail("detach from", err)
	}
	return c.command("detach from", 0)
}

// Sample returns pc without a pause, for NCRISC too: of the decoded instruction or, on Wormhole, of
// the one that ends next.
func (c *Core) Sample() (uint32, error) {
	signal := 10 + 2*c.which // group A of DebugDaisychain.md "RISCV execution state"
	if c.proc == chip.NCRISC {
		signal = 24
	}
	word, mask := uint32(0), uint32(0x7FFFFFFF)
	if c.blackhole() {
		signal, word, mask = signal+1, 1, 0x3FFFFFFF
	}
	v, err := c.tile.bus(7, signal, word)
	if err != nil {
		return 0, c.fail("sample pc of", err)
	}
	v &= mask
	if c.proc == chip.NCRISC && v>>28 == 7 {
		v |= 1 << 31 // instruction RAM: the bus drops the highest bit
	}
	return v, nil
}
