package stack

import (
	"cmp"
	"debug/dwarf"
	"encoding/binary"
	"fmt"
	"math"
	"slices"
)

type context struct {
	regs  Registers
	cfa   uint32
	known bool
	mem   Memory

	base []byte
	at   uint32 // in the file
	unit uint32 // base address of the compilation unit
}

// frames returns the function at an address of the file, preceded by those inlined there.
func (m *Module) frames(at uint32, c *context) []Frame {
	if m.table != nil {
		if out := m.table.frames(m.Name, at); out != nil {
			return out
		}
	}
	file, number := m.lineAt(at)
	f := Frame{Module: m.Name, File: file, Line: number}
	if s, ok := m.symbolAt(at); ok {
		f.Function = s.name
	} else {
		f.Function = fmt.Sprintf("%s+%#x", m.Name, at+m.bias-m.Start)
	}
	for _, fn := range m.funcs {
		if at >= fn.low && at < fn.high {
			low, _ := fn.unit.Val(dwarf.AttrLowpc).(uint64)
			c.at, c.unit = at, uint32(low)
			if out := m.inlined(fn, f, c); len(out) > 0 {
				return out
			}
		}
	}
	return []Frame{f}
}

const maxDepth = 200

// inlined walks from a function to those inlined at the address. The innermost is at the frame's
// line, the others at their call of the next.
func (m *Module) inlined(fn function, f Frame, c *context) []Frame {
	r, e := m.entryAt(fn.entry)
	if e == nil {
		return nil
	}
	c.base, _ = e.Val(dwarf.AttrFrameBase).([]byte)
	var files []*dwarf.LineFile
	if lines, err := m.dwarf.LineReader(fn.unit); err == nil && lines != nil {
		files = lines.Files()
	}
	chain := []Frame{{Module: f.Module, Function: cmp.Or(m.nameOf(e, 0), f.Function)}}
	depth := []int{0}
	if !e.Children {
		depth = nil
	}
	last := e.Offset
	for len(depth) > 0 && len(depth) < maxDepth {
		e, err := r.Next()
		if err != nil || e == nil {
			return nil
		}
		if e.Tag != 0 { // what ends a list of children has no offset
			if e.Offset <= last {
				return nil
			}
			last = e.Offset
		}
		here := depth[len(depth)-1]
		switch e.Tag {
		case 0:
			depth = depth[:len(depth)-1]
			continue
		case dwarf.TagFormalParameter:
			if name := m.nameOf(e, 0); name != "" {
				chain[here].Args = append(chain[here].Args, Argument{name, m.value(e, c)})
			}
			if e.Children {
				r.SkipChildren()
			}
			continue
		case dwarf.TagInlinedSubroutine, dwarf.TagLexDwarfBlock:
			if !m.covers(e, c.at) {
				r.SkipChildren()
				continue
			}
			if e.Tag == dwarf.TagInlinedSubroutine {
				call, _ := e.Val(dwarf.AttrCallFile).(int64)
				line, _ := e.Val(dwarf.AttrCallLine).(int64)
				caller := &chain[len(chain)-1]
				caller.Line = int(min(max(line, 0), math.MaxInt32))
				if call >= 0 && int(call) < len(files) && files[call] != nil {
					caller.File = files[call].Name
				}
				chain = append(chain, Frame{Module: f.Module, Function: m.nameOf(e, 0), Inlined: true})
			}
			if e.Children {
				depth = append(depth, len(chain)-1)
			}
			continue
		}
		if e.Children {
			r.SkipChildren()
		}
	}
	chain[len(chain)-1].File, chain[len(chain)-1].Line = f.File, f.Line
	slices.Reverse(chain)
	return chain
}

// A block without ranges covers its function.
func (m *Module) covers(e *dwarf.Entry, at uint32) bool {
	ranges, err := m.dwarf.Ranges(e)
	if err != nil {
		return false
	}
	for _, x := range ranges {
		if uint64(at) >= x[0] && uint64(at) < x[1] {
			return true
		}
	}
	return len(ranges) == 0 && e.Tag == dwarf.TagLexDwarfBlock
}

// entryAt returns an entry, or nil, and a reader of what follows.
func (m *Module) entryAt(at dwarf.Offset) (*dwarf.Reader, *dwarf.Entry) {
	r := m.dwarf.Reader()
	r.Seek(at)
	e, err := r.Next()
	if err != nil {
		return r, nil
	}
	return r, e
}

func (m *Module) nameOf(e *dwarf.Entry, depth int) string {
	if name, ok := e.Val(dwarf.AttrName).(string); ok {
		return name
	}
	for _, a := range [...]dwarf.Attr{dwarf.AttrAbstractOrigin, dwarf.AttrSpecification} {
		if at, ok := e.Val(a).(dwarf.Offset); ok && depth < 8 {
			if _, o := m.entryAt(at); o != nil {
				return m.nameOf(o, depth+1)
			}
		}
	}
	return ""
}

func (m *Module) typeOf(e *dwarf.Entry, depth int) dwarf.Type {
	if at, ok := e.Val(dwarf.AttrType).(dwarf.Offset); ok {
		t, err := m.dwarf.Type(at)
		if err != nil {
			return nil
		}
		return t
	}
	if at, ok := e.Val(dwarf.AttrAbstractOrigin).(dwarf.Offset); ok && depth < 8 {
		if _, o := m.entryAt(at); o != nil {
			return m.typeOf(o, depth+1)
		}
	}
	return nil
}

func (m *Module) value(e *dwarf.Entry, c *context) string {
	t := m.typeOf(e, 0)
	size := int64(4)
	if t != nil && t.Size() > 0 {
		size = t.Size()
	}
	if size > 4 {
		return ""
	}
	if v, ok := e.Val(dwarf.AttrConstValue).(int64); ok {
		return format(uint32(v), t, size)
	}
	var expr []byte
	switch v := e.Val(dwarf.AttrLocation).(type) {
	case []byte:
		expr = v
	case int64:
		expr = c.list(m.lists, v)
	}
	if len(expr) == 0 {
		return ""
	}
	v, where := c.eval(expr, 0)
	switch where {
	case isValue:
		return format(v, t, size)
	case isAddress:
		var b [4]byte
		if c.mem(v, b[:size]) == nil {
			return format(binary.LittleEndian.Uint32(b[:]), t, size)
		}
	}
	return ""
}

func format(v uint32, t dwarf.Type, size int64) string {
	v &= uint32(uint64(1)<<(8*size) - 1)
	for depth := 0; depth < 16; depth++ {
		switch x := t.(type) {
		case *dwarf.TypedefType:
			t = x.Type
			continue
		case *dwarf.QualType:
			t = x.Type
			continue
		case *dwarf.PtrType:
			return fmt.Sprintf("%#x", v)
		case *dwarf.BoolType:
			return fmt.Sprint(v != 0)
		case *dwarf.IntType, *dwarf.CharType:
			shift := 32 - 8*size
			return fmt.Sprint(int32(v<<shift) >> shift)
		case *dwarf.FloatType:
			if size == 4 {
				return fmt.Sprint(math.Float32frombits(v))
			}
		}
		break
	}
	if v >= 1<<16 {
		return fmt.Sprintf("%#x", v)
	}
	return fmt.Sprint(v)
}

// (DWARF 5, 7.7.3)
func (c *context) list(section []byte, at int64) []byte {
	if at < 0 || at >= int64(len(section)) {
		return nil
	}
	b := buffer{p: section[at:]}
	base := c.unit
	for !b.bad {
		var low, high uint32
		switch b.u8() {
		case 0:
			return nil
		case 4:
			low, high = base+uint32(b.uleb()), 0
			high = base + uint32(b.uleb())
		case 5:
			low, high = 0, ^uint32(0)
		case 6:
			base = b.u32()
			continue
		case 7:
			low = b.u32()
			high = b.u32()
		case 8:
			low = b.u32()
			high = low + uint32(b.uleb())
		case 9: // a pair of views, of GCC
			b.uleb()
			b.uleb()
			continue
		default:
			return nil
		}
		expr := b.block()
		if !b.bad && c.at >= low && c.at < high {
			return expr
		}
	}
	return nil
}

type place uint8

const (
	isNothing place = iota
	isAddress
	isValue
)

func (c *context) eval(expr []byte, depth int) (uint32, place) {
	if depth > 4 {
		return 0, isNothing
	}
	b := buffer{p: expr}
	var stack []uint32
	push := func(v uint32) bool {
		stack = append(stack, v)
		return len(stack) < 64
	}
	pop := func() uint32 {
		if len(stack) == 0 {
			b.bad = true
			return 0
		}
		v := stack[len(stack)-1]
		stack = stack[:len(stack)-1]
		return v
	}
	reg := func(i uint64) (uint32, bool) {
		if i > 31 || c.regs.Known>>i&1 == 0 {
			return 0, false
		}
		return c.regs.X[i], true
	}
	for steps := 0; len(b.p) > 0 && !b.bad && steps < 256; steps++ {
		op := b.u8()
		ok := true
		switch {
		case op == 0x03, op == 0x0C, op == 0x0D:
			ok = push(b.u32())
		case op == 0x06:
			var p [4]byte
			if c.mem(pop(), p[:]) != nil {
				return 0, isNothing
			}
			ok = push(binary.LittleEndian.Uint32(p[:]))
		case op == 0x08:
			ok = push(uint32(b.u8()))
		case op == 0x09:
			ok = push(uint32(int8(b.u8())))
		case op == 0x0A:
			ok = push(uint32(b.u16()))
		case op == 0x0B:
			ok = push(uint32(int16(b.u16())))
		case op == 0x10:
			ok = push(uint32(b.uleb()))
		case op == 0x11:
			ok = push(uint32(b.sleb()))
		case op == 0x12:
			v := pop()
			push(v)
			ok = push(v)
		case op == 0x1F:
			ok = push(-pop())
		case op == 0x20:
			ok = push(^pop())
		case op == 0x23:
			ok = push(pop() + uint32(b.uleb()))
		case op >= 0x30 && op <= 0x4F:
			ok = push(uint32(op - 0x30))
		case op >= 0x50 && op <= 0x6F:
			v, known := reg(uint64(op - 0x50))
			if !known || len(b.p) > 0 {
				return 0, isNothing
			}
			return v, isValue
		case op >= 0x70 && op <= 0x8F:
			v, known := reg(uint64(op - 0x70))
			ok = known && push(v+uint32(b.sleb()))
		case op == 0x91:
			v, where := c.eval(c.base, depth+1)
			ok = where == isAddress && push(v+uint32(b.sleb()))
		case op == 0x9C:
			ok = c.known && push(c.cfa)
		case op == 0x9F:
			return pop(), isValue
		default:
			y, x := pop(), pop()
			v, known := combine(op, x, y)
			ok = known && push(v)
		}
		if !ok {
			return 0, isNothing
		}
	}
	if b.bad || len(stack) == 0 {
		return 0, isNothing
	}
	return stack[len(stack)-1], isAddress
}

func combine(op byte, x, y uint32) (v uint32, ok bool) {
	switch op {
	case 0x1A:
		return x & y, true
	case 0x1C:
		return x - y, true
	case 0x1E:
		return x * y, true
	case 0x21:
		return x | y, true
	case 0x22:
		return x + y, true
	case 0x24:
		return x << y, true
	case 0x25:
		return x >> y, true
	case 0x26:
		return uint32(int32(x) >> y), true
	}
	return 0, false
}
