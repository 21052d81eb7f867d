package gdb

import (
	"context"
	"encoding/binary"
	"errors"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/internal/debug/core"
)

type thread struct {
	id   int
	name string
	core *core.Core

	live    bool // resumed, not single-stepped
	stuck   bool // in an instruction that hasn't ended
	log     history
	watches map[watch][]int // slots
}

type watch struct {
	kind byte // '2' write, '3' read, '4' access
	addr uint32
	n    uint32
}

// word is the address of hardware watchpoint i: of the first byte, then of each following word.
// Hardware compares exact access addresses.
func (w watch) word(i int) uint32 {
	if i == 0 {
		return w.addr
	}
	return w.addr&^3 + 4*uint32(i)
}

func (t *thread) watch(w watch) error {
	mode := map[byte]core.Mode{'2': core.StoreTo, '3': core.Load, '4': core.Access}[w.kind]
	t.watches[w] = nil
	for i := 0; w.word(i) < w.addr+w.n; i++ {
		slot, err := t.core.Watch(mode, w.word(i))
		if err != nil {
			return err
		}
		t.watches[w] = append(t.watches[w], slot)
	}
	return nil
}

func (t *thread) tile() chip.XY { return t.core.Tile().XY() }

func (t *thread) place(addr uint32) place { return place{t.tile(), addr} }

func (t *thread) unwatch(w watch) error {
	slots := t.watches[w]
	delete(t.watches, w)
	var errs []error
	for _, slot := range slots {
		errs = append(errs, t.core.Unwatch(slot))
	}
	return errors.Join(errs...)
}

const maxHistory = 1 << 20

type change struct {
	reg           uint8 // 0: none
	stored        bool
	addr          uint32
	before, after state
}

type state struct{ pc, reg, word uint32 }

// history is the recording: changes[:at] are in effect, the others undone.
type history struct {
	changes []change
	at      int
}

func (h *history) past() bool { return h.at < len(h.changes) }

func (h *history) diverge() { h.changes = h.changes[:h.at] }

// look checks whether a stuck thread's instruction has ended, which pauses the processor.
func (t *thread) look() error {
	if !t.stuck {
		return nil
	}
	status, err := t.core.Status()
	t.stuck = err != nil || !status.Paused
	return err
}

func (t *thread) word(addr uint32) (uint32, bool) {
	var b [4]byte
	if t.core.Read(addr&^3, b[:]) != nil {
		return 0, false
	}
	return binary.LittleEndian.Uint32(b[:]), true
}

func (t *thread) setWord(addr, v uint32) error {
	return t.core.Write(addr, binary.LittleEndian.AppendUint32(nil, v))
}

// destination returns the register that an instruction writes, 0 if none (RISC-V manual, opcode
// table; words whose low bits aren't 3 are Tensix instructions).
func destination(w uint32) uint8 {
	if w&3 != 3 {
		return 0
	}
	switch w & 0x7F {
	case 0x37, 0x17, 0x6F, 0x67, 0x03, 0x13, 0x33, 0x2F, 0x73:
		return uint8(w >> 7 & 31)
	}
	return 0
}

// forward executes the instruction at pc, whatever breakpoint is there: again if it was undone, or
// recorded if for the first time.
func (t *thread) forward(ctx context.Context, record bool, fetch func(pc uint32) (uint32, bool)) error {
	h := &t.log
	if h.past() {
		h.at++
		c := &h.changes[h.at-1]
		return t.apply(c, c.after)
	}
	if !record {
		return t.core.Step(ctx)
	}
	var c change
	var err error
	if c.before.pc, err = t.core.Register(core.PC); err != nil {
		return err
	}
	w, ok := fetch(c.before.pc)
	if !ok {
		return t.core.Step(ctx)
	}
	c.reg = destination(w)
	if op := w & 0x7F; op == 0x23 || op == 0x2F {
		base, err := t.core.Register(int(w >> 15 & 31))
		if err != nil {
			return err
		}
		c.addr, c.stored = base, true
		if op == 0x23 {
			c.addr += uint32(int32(w)>>25<<5) | w>>7&31
		}
		c.addr &^= 3
	}
	save := func(s *state) (err error) {
		if c.reg != 0 {
			s.reg, err = t.core.Register(int(c.reg))
		}
		if c.stored {
			s.word, c.stored = t.word(c.addr)
		}
		return err
	}
	if err = save(&c.before); err == nil {
		err = t.core.Step(ctx)
	}
	if err == nil {
		c.after.pc, err = t.core.Register(core.PC)
	}
	if err == nil {
		err = save(&c.after)
	}
	if err != nil {
		return err
	}
	if len(h.changes) == maxHistory {
		h.changes = append(h.changes[:0], h.changes[maxHistory/2:]...)
	}
	h.changes = append(h.changes, c)
	h.at = len(h.changes)
	return nil
}

var errBegin = errors.New("gdb: the recording begins here")

func (t *thread) back() (change, error) {
	h := &t.log
	if h.at == 0 {
		return change{}, errBegin
	}
	h.at--
	c := h.changes[h.at]
	return c, t.apply(&c, c.before)
}

func (t *thread) apply(c *change, s state) error {
	if c.reg != 0 {
		if err := t.core.SetRegister(int(c.reg), s.reg); err != nil {
			return err
		}
	}
	if c.stored {
		if err := t.setWord(c.addr, s.word); err != nil {
			return err
		}
	}
	return t.core.SetRegister(core.PC, s.pc)
}

// present redoes all undone instructions.
func (t *thread) present() (err error) {
	for err == nil && t.log.past() {
		err = t.forward(context.Background(), false, nil)
	}
	return err
}
