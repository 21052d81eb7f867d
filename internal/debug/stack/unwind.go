package stack

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
)

const maxFrames = 256 // local RAM holds no more of 16 bytes

// Registers of a processor or, as far as known, of a frame.
type Registers struct {
	X     [32]uint32
	Known uint32
	PC    uint32
}

// All returns fully known registers.
func All(x [32]uint32, pc uint32) Registers { return Registers{X: x, Known: ^uint32(0), PC: pc} }

// Memory reads memory at the processor's addresses.
type Memory func(addr uint32, p []byte) error

var errNoMemory = errors.New("stack: memory is unknown")

func noMemory(uint32, []byte) error { return errNoMemory }

// Of returns the memory of a processor p of a tile, which read reads, false if there is none.
func Of[T, P any](read func(tile T, p P, addr uint32, b []byte) bool, tile T, p P) Memory {
	return func(addr uint32, b []byte) error {
		if !read(tile, p, addr, b) {
			return errNoMemory
		}
		return nil
	}
}

// Saved returns memory of which some bytes from an address on are known.
func Saved(at uint32, b []byte) Memory {
	return func(addr uint32, p []byte) error {
		if off := uint64(addr - at); addr >= at && off+uint64(len(p)) <= uint64(len(b)) {
			copy(p, b[off:])
			return nil
		}
		return errNoMemory
	}
}

// A Frame is one function of a call stack.
type Frame struct {
	PC       uint32     `json:"pc"` // of a caller, of the instruction after its call
	Module   string     `json:"module,omitempty"`
	Function string     `json:"function,omitempty"`
	File     string     `json:"file,omitempty"`
	Line     int        `json:"line,omitempty"`
	Inlined  bool       `json:"inlined,omitempty"`
	Args     []Argument `json:"args,omitempty"`
	// Guessed marks a frame found without call frame information.
	Guessed bool `json:"guessed,omitempty"`
}

// Argument of a function. Value is empty if the compiler dropped it.
type Argument struct {
	Name  string `json:"name"`
	Value string `json:"value,omitempty"`
}

func (f Frame) String() string {
	var b strings.Builder
	b.WriteString(cmp.Or(f.Function, "?"))
	if f.File != "" || len(f.Args) > 0 {
		b.WriteByte('(')
		for i, a := range f.Args {
			if i > 0 {
				b.WriteString(", ")
			}
			fmt.Fprintf(&b, "%s=%s", a.Name, cmp.Or(a.Value, "?"))
		}
		b.WriteByte(')')
	}
	if f.File != "" {
		fmt.Fprintf(&b, " at %s:%d", f.File, f.Line)
	}
	if f.Inlined {
		b.WriteString(", inlined")
	} else {
		fmt.Fprintf(&b, ", pc %#x", f.PC)
	}
	if f.Module != "" {
		fmt.Fprintf(&b, " in %s", f.Module)
	}
	return b.String()
}

// Space is a processor's executable modules.
type Space []*Module

// Find returns the module at an address, nil if there is none.
func (s Space) Find(addr uint32) *Module {
	for _, m := range s {
		if addr >= m.Start && addr < m.End {
			return m
		}
	}
	return nil
}

// Unwind returns the frames of a processor, innermost first, up to unknown code or memory. With
// only pc known there is one frame, with functions inlined there. Nil memory is unknown.
func (s Space) Unwind(r Registers, mem Memory) (out []Frame) {
	if mem == nil {
		mem = noMemory
	}
	s.walk(r, mem, func(p *point) {
		if len(out) >= maxFrames {
			return
		}
		if p.module == nil {
			out = append(out, Frame{PC: p.regs.PC})
			return
		}
		frames := p.module.frames(p.at, &context{regs: p.regs, cfa: p.cfa, known: p.known, mem: mem})
		for i := range frames {
			frames[i].PC = p.regs.PC
			frames[i].Guessed = !p.exact
		}
		out = append(out, frames...)
	})
	return out
}

type point struct {
	regs   Registers
	module *Module
	at     uint32 // in the file; of a caller, that of its call
	cfa    uint32
	known  bool
	exact  bool
}

func (s Space) walk(r Registers, mem Memory, f func(p *point)) {
	for n := range maxFrames {
		first := n == 0
		m := s.Find(r.PC)
		if m == nil {
			f(&point{regs: r})
			return
		}
		at := r.PC - m.bias
		if !first {
			at -= 4
		}
		rules, exact, ok := m.rules(r.PC - m.bias)
		if _, same := m.symbolAt(at + 4); !first && !same { // the call was the function's last instruction
			rules, exact, ok = m.rules(at)
		}
		cfa, known := uint32(0), false
		if ok && r.Known>>rules.base&1 != 0 {
			cfa, known = r.X[rules.base]+uint32(rules.offset), true
		}
		f(&point{r, m, at, cfa, known, exact})
		if !ok || !known {
			return
		}
		if !first && rules.rules[1].kind == same {
			return // a caller must have saved its return address
		}
		next, ok := r.caller(&rules, cfa, mem)
		if !ok || next.PC == 0 || next.PC&3 != 0 || !first && next.X[2] <= r.X[2] {
			return
		}
		r = next
	}
}

func (m *Module) rules(addr uint32) (r row, exact, ok bool) {
	for i := range m.rows {
		if f := &m.rows[i]; addr >= f.low && addr < f.high {
			if r, ok := f.rowAt(addr); ok {
				return r, true, true
			}
		}
	}
	s, ok := m.symbolAt(addr)
	if !ok || m.text == nil {
		return r, false, false
	}
	r, ok = m.guess(s.start, addr)
	return r, false, ok
}

func (r *Registers) caller(rules *row, cfa uint32, mem Memory) (next Registers, ok bool) {
	next = *r
	for i := 1; i < 32; i++ {
		temporary := i >= 5 && i <= 7 || i >= 10 && i <= 17 || i >= 28
		switch x := rules.rules[i]; {
		case x.kind == saved:
			var b [4]byte
			if err := mem(cfa+uint32(x.v), b[:]); err != nil {
				next.Known &^= 1 << i
				continue
			}
			next.X[i], next.Known = binary.LittleEndian.Uint32(b[:]), next.Known|1<<i
		case x.kind == computed:
			next.X[i], next.Known = cfa+uint32(x.v), next.Known|1<<i
		case x.kind == inOther:
			next.X[i] = r.X[x.v]
		case x.kind == lost, temporary:
			next.Known &^= 1 << i
		}
	}
	if next.Known>>1&1 == 0 {
		return next, false
	}
	next.PC, next.X[2] = next.X[1], cfa
	next.Known |= 1 << 2
	return next, true
}
