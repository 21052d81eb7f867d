package stack

import "slices"

// Search guesses the frames of a processor from pc and the bytes of its stack memory, which may be
// newer, without registers. It tries each end of the stack and, for a function that may keep its
// return address in a register, each of its calls. ok is true if exactly one choice gives a chain
// of calls up to the outermost function. entry is the function called from one module into another.
func (s Space) Search(pc, start uint32, memory []byte, outermost, entry string) (frames []Frame, ok bool) {
	const align = 16 // of stack pointers
	mem := Saved(start, memory)
	calls := s.calls(pc, entry)
	var found []uint32
	var best Registers
	for off := -start & (align - 1); off < uint32(len(memory)); off += align {
		for i := range len(calls) + 1 {
			r := Registers{PC: pc, Known: 1 << 2}
			r.X[2] = start + off
			if i > 0 {
				r.X[1], r.Known = calls[i-1], r.Known|1<<1
			}
			chain := s.chain(r, mem, outermost, entry)
			switch {
			case chain == nil:
			case found == nil:
				found, best = chain, r
			case !slices.Equal(found, chain):
				return nil, false
			}
		}
	}
	if found == nil {
		return nil, false
	}
	frames = s.Unwind(best, mem)
	for i := range frames {
		frames[i].Guessed = true
	}
	return frames, true
}

func (s Space) chain(r Registers, mem Memory, outermost, entry string) (pcs []uint32) {
	var callee symbol
	var from *Module
	good := true
	s.walk(r, mem, func(p *point) {
		var f symbol
		ok := p.module != nil
		if ok {
			f, ok = p.module.symbolAt(p.at)
		}
		if ok && from != nil {
			to, direct, call := p.module.call(p.at)
			switch {
			case !call, direct && to != callee.start+from.bias:
				ok = false
			case from != p.module:
				ok = callee.name == entry
			}
		}
		good = good && ok
		pcs, callee, from = append(pcs, p.regs.PC), f, p.module
	})
	if !good || len(pcs) < 2 || callee.name != outermost {
		return nil
	}
	return pcs
}

func (m *Module) call(at uint32) (to uint32, direct, ok bool) {
	w, ok := m.word(at)
	if !ok {
		return 0, false, false
	}
	before, _ := m.word(at - 4)
	switch {
	case w&0xFFF == 0xEF:
		return at + m.bias + (uint32(int32(w)>>31<<20) | w&0xFF000 | w>>20&1<<11 | w>>21&0x3FF<<1), true, true
	case w&0xFFFFF == 0x80E7 && before&0xFFF == 0x97: // jalr ra, n(ra) after auipc ra
		return at + m.bias - 4 + before&^0xFFF + uint32(int32(w)>>20), true, true
	}
	return 0, false, w&0x7FFF == 0xE7
}

// Of entry they are all calls in other modules without a visible target.
func (s Space) calls(pc uint32, entry string) (after []uint32) {
	m := s.Find(pc)
	if m == nil {
		return nil
	}
	f, ok := m.symbolAt(pc - m.bias)
	if !ok {
		return nil
	}
	for _, from := range s {
		for at := from.Start; at < from.End; at += 4 {
			to, direct, ok := from.call(at - from.bias)
			if direct && to == f.start+m.bias || ok && !direct && from != m && f.name == entry {
				after = append(after, at+4)
			}
		}
	}
	return after
}
