package schedules

// visit is a load that may begin a round of a waiting loop. The round waits if the processor comes
// back without having changed anything, and the registers that the round reads are as before.
type visit struct {
	load    *access
	addr    uint32
	pc      uint32
	value   uint32
	changes int // of the word until then
	regs    [32]uint32
	read    uint32 // registers read in the round before it writes them
	wrote   uint32
}

func hashOf(regs []uint32, mask uint32) (h uint64) {
	for i, v := range regs[:32] {
		if mask>>i&1 != 0 {
			h = mix(h, uint64(v))
		}
	}
	return h
}

// waited returns the visit that a load comes back to after a round that waited, or nil.
func (t *Thread) waited(pc, addr, value uint32, regs *[256]uint32) *visit {
	for i := range t.visits {
		v := &t.visits[i]
		if v.load == nil || v.pc != pc || v.addr != addr {
			continue
		}
		same := v.read & v.wrote
		if hashOf(v.regs[:], same) != hashOf(regs[:], same) {
			return nil
		}
		return v
	}
	return nil
}

// visit notes a load.
func (t *Thread) visit(a *access, w *word, addr, value uint32, regs *[256]uint32) {
	at := -1
	for i := range t.visits {
		v := &t.visits[i]
		if v.load != nil && v.pc == a.pc {
			at = i
		}
	}
	if at < 0 {
		at = t.next % len(t.visits)
		t.next++
	}
	t.visits[at] = visit{load: a, addr: addr, pc: a.pc, value: value, changes: w.changes, regs: [32]uint32(regs[:32])}
}

// Executes notes an instruction: the registers that it reads and the one that it writes, as bits,
// and whether it changes anything else.
func (t *Thread) Executes(reads, writes uint32, changes bool) {
	for i := range t.visits {
		v := &t.visits[i]
		if v.load == nil {
			continue
		}
		if changes {
			v.load = nil
			continue
		}
		v.read |= reads &^ v.wrote
		v.wrote |= writes
	}
}
