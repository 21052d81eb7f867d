package kernels

import (
	"debug/elf"
	"encoding/binary"
	"maps"
	"slices"
	"strings"

	"github.com/reprise-tt/reprise/internal/debug/stack"
)

const (
	opLoad   = 0x03
	opImm    = 0x13
	opAUIPC  = 0x17
	opStore  = 0x23
	opAtomic = 0x2F
	opOp     = 0x33
	opLUI    = 0x37
	opBranch = 0x63
	opJALR   = 0x67
	opJAL    = 0x6F
	opSystem = 0x73
)

// Without the low two bits it is a Tensix instruction.
type instruction uint32

func (i instruction) opcode() uint32 { return uint32(i) & 0x7F }
func (i instruction) rd() uint32     { return uint32(i) >> 7 & 0x1F }
func (i instruction) rs1() uint32    { return uint32(i) >> 15 & 0x1F }
func (i instruction) rs2() uint32    { return uint32(i) >> 20 & 0x1F }

func (i instruction) writes(register uint32) bool {
	switch i.opcode() {
	case opLoad, opImm, opAUIPC, opAtomic, opOp, opLUI, opJALR, opJAL, opSystem:
		return i.rd() == register
	}
	return false
}

// Storing a register doesn't count: functions save registers.
func (i instruction) uses(register uint32) bool {
	switch i.opcode() {
	case opLoad, opImm, opStore, opJALR:
		return i.rs1() == register
	case opSystem:
		return uint32(i)>>12&7 != 0 && uint32(i)>>14&1 == 0 && i.rs1() == register
	case opBranch, opOp, opAtomic:
		return i.rs1() == register || i.rs2() == register
	}
	return false
}

// low returns the signed 12 bits that the instruction adds to rs1.
func (i instruction) low() (int32, bool) {
	switch {
	case i.opcode() == opLoad, i.opcode() == opImm && uint32(i)>>12&7 == 0, i.opcode() == opJALR:
		return int32(i) >> 20, true
	case i.opcode() == opStore:
		return int32(i)>>25<<5 | int32(uint32(i)>>7&0x1F), true
	}
	return 0, false
}

func (i instruction) withLow(v uint32) instruction {
	if i.opcode() == opStore {
		return i&^(0x7F<<25|0x1F<<7) | instruction(v>>5&0x7F<<25|v&0x1F<<7)
	}
	return i&0xFFFFF | instruction(v<<20)
}

func (i instruction) branch() uint32 {
	w := uint32(i)
	return uint32(int32(w)>>31)<<12 | w<<4&0x800 | w>>20&0x7E0 | w>>7&0x1E
}

func (i instruction) jump() uint32 {
	w := uint32(i)
	return uint32(int32(w)>>31)<<20 | w&0xFF000 | w>>9&0x800 | w>>20&0x7FE
}

// relativeToFixed reports additions to zero or gp, which don't depend on the text.
func relativeToFixed(i instruction) bool {
	_, ok := i.low()
	return ok && (i.rs1() == 0 || i.rs1() == 3)
}

func callerSaved(register uint32) bool {
	return !(2 <= register && register <= 4 || register == 8 || register == 9 || 18 <= register && register <= 27)
}

func (m *mover) word(addr uint32) instruction {
	return instruction(binary.LittleEndian.Uint32(m.image[addr-uint32(m.text.start):]))
}

func (m *mover) setWord(addr uint32, i instruction) {
	binary.LittleEndian.PutUint32(m.image[addr-uint32(m.text.start):], uint32(i))
}

func (m *mover) bad(place uint32, t elf.R_RISCV, symbol uint32, why string) error {
	var name string
	if symbol != 0 {
		name = nameOf(m.file, m.symbols[symbol-1])
	}
	return &RelocationError{Offset: place, Type: uint32(t), Symbol: name, Why: why}
}

// The linker doesn't keep the pairs. A lower half belongs to the upper half whose register reaches
// it along the code. Where none does, as beyond a jump table, it belongs to the nearest one before
// it of the same symbol and register, the only rule of tt-metal's loader.
func (m *mover) pair() error {
	reached := map[uint32][]*upper{} // by the place of the lower half
	places := slices.Sorted(maps.Keys(m.upper))
	for _, place := range places {
		u := m.upper[place]
		if i := m.word(place); i.opcode() != opLUI || uint32(i)&^0xFFF != (u.target+0x800)&^0xFFF || i.rd() == 0 {
			return m.bad(place, elf.R_RISCV_HI20, u.symbol, "not an instruction that makes the upper half of this address")
		}
		lows, err := m.follow(u)
		if err != nil {
			return err
		}
		for _, l := range lows {
			reached[l] = append(reached[l], u)
		}
	}
	for _, place := range slices.Sorted(maps.Keys(m.lower)) {
		l := m.lower[place]
		us := reached[place]
		if len(us) == 0 {
			n, _ := slices.BinarySearch(places, place)
			for n--; n >= 0; n-- {
				if u := m.upper[places[n]]; u.symbol == l.symbol && m.belongs(u, l) {
					us = append(us, u)
					break
				}
			}
		}
		switch len(us) {
		case 0:
			return m.bad(place, elf.R_RISCV_LO12_I, l.symbol, "lower half of an address of text without its upper half")
		case 1:
			us[0].lows = append(us[0].lows, l)
		default:
			return m.bad(place, elf.R_RISCV_LO12_I, l.symbol,
				"lower half of an address of text that is used with several upper halves; compile with -fno-crossjumping")
		}
	}
	return nil
}

func (m *mover) belongs(u *upper, l lower) bool {
	hi, i := m.word(u.place), m.word(l.place)
	low, ok := i.low()
	return ok && i.rs1() == hi.rd() && uint32(hi)&^0xFFF+uint32(low) == l.target
}

// follow returns the lower halves that an upper half's register reaches, along branches and jumps
// and past calls, until the register is set again, returns, or jumps through registers.
func (m *mover) follow(u *upper) ([]uint32, error) {
	register := m.word(u.place).rd()
	type state struct {
		addr uint32
		sure bool // that the register still has the upper half
	}
	var lows []uint32
	been := map[state]bool{}
	pending := []state{{u.place + 4, true}}
	for len(pending) > 0 {
		s := pending[len(pending)-1]
		pending = pending[:len(pending)-1]
		if !m.text.contains(uint64(s.addr)) || s.addr%4 != 0 || been[s] {
			continue
		}
		if m.steps--; m.steps < 0 {
			return nil, m.bad(u.place, elf.R_RISCV_HI20, u.symbol, "too much code between the halves of addresses of text")
		}
		been[s] = true
		i := m.word(s.addr)
		if l, ok := m.lower[s.addr]; ok && m.belongs(u, l) {
			if !slices.Contains(lows, s.addr) {
				lows = append(lows, s.addr)
			}
		} else if s.sure && i.uses(register) {
			return nil, m.bad(u.place, elf.R_RISCV_HI20, u.symbol, "upper half of an address of text that is used alone")
		}
		if i.writes(register) {
			continue
		}
		next := state{s.addr + 4, s.sure}
		switch i.opcode() {
		case opBranch:
			pending = append(pending, state{s.addr + i.branch(), s.sure})
		case opJAL:
			if i.rd() == 0 {
				next.addr = s.addr + i.jump()
				break
			}
			next.sure = s.sure && !callerSaved(register)
		case opJALR:
			if i.rd() == 0 {
				continue
			}
			next.sure = s.sure && !callerSaved(register)
		}
		pending = append(pending, next)
	}
	return lows, nil
}

// rewrite makes addresses relative to the program counter (AUIPC) or absolute (LUI), or follows
// moved initial data.
func (m *mover) rewrite(u *upper, from, to uint32) error {
	t, base := elf.R_RISCV_HI20, u.place
	if from == opAUIPC {
		t = elf.R_RISCV_PCREL_HI20
	}
	if to == opLUI {
		base = 0
	}
	hi := m.word(u.place)
	if hi.opcode() != from || len(u.lows) == 0 {
		return m.bad(u.place, t, u.symbol, "upper half of an address of text without a lower half, or another instruction")
	}
	for _, l := range u.lows {
		if i := m.word(l.place); i.rs1() != hi.rd() {
			return m.bad(l.place, t, l.symbol, "lower half of an address in another register than its upper half")
		} else if _, ok := i.low(); !ok {
			return m.bad(l.place, t, l.symbol, "not an instruction that adds the lower half of an address")
		}
	}
	for _, first := range u.lows {
		page := (m.placed(first.symbol, first.target) - base + 0x800) &^ 0xFFF
		if slices.ContainsFunc(u.lows, func(l lower) bool {
			d := int32(m.placed(l.symbol, l.target) - base - page)
			return d < -0x800 || d > 0x7FF
		}) {
			continue
		}
		m.setWord(u.place, instruction(page|hi.rd()<<7|to))
		for _, l := range u.lows {
			m.setWord(l.place, m.word(l.place).withLow(m.placed(l.symbol, l.target)-base-page))
		}
		return nil
	}
	return m.bad(u.place, t, u.symbol, "addresses too far apart for one upper half")
}

// placesMagic ends the table of placesOf.
const placesMagic = 0x53455449 // "ITES"

// placesOf returns a table, after a kernel's formats, of the source lines that call the checks of
// reprise/watch.h; nil without such calls. It has the files' names, then entries, their number and
// placesMagic. An entry is three words: the offset of the return address in the text, the line, and
// the offset of the file's name in the formats.
func placesOf(f *elf.File, file []byte, formats int) []byte {
	symbols, err := f.Symbols()
	if formats == 0 || err != nil {
		return nil
	}
	checks := map[uint32]bool{} // C++ mangles their names, and the compiler may add to them
	for _, s := range symbols {
		if elf.ST_TYPE(s.Info) == elf.STT_FUNC && strings.Contains(s.Name, "rp_watch_") {
			checks[uint32(s.Value)] = true
		}
	}
	if len(checks) == 0 {
		return nil
	}
	m, err := stack.Load("", file, 0)
	if err != nil || m.Debug() != nil {
		return nil
	}
	le := binary.LittleEndian
	text := m.Text()
	var names, table []byte
	at := map[string]uint32{}
	count := uint32(0)
	for pc := uint32(0); pc+4 <= uint32(len(text)); pc += 4 {
		if to, ok := called(text, pc); !ok || !checks[to] {
			continue
		}
		frames := stack.Space{m}.Unwind(stack.Registers{PC: pc}, nil)
		i := slices.IndexFunc(frames, func(f stack.Frame) bool { return f.File != "" && !ownSource(f.File) })
		if i < 0 {
			continue
		}
		name := frames[i].File
		if _, ok := at[name]; !ok {
			at[name] = uint32(formats + len(names))
			names = append(append(names, name...), 0)
		}
		for _, v := range []uint32{pc + 4, uint32(frames[i].Line), at[name]} {
			table = le.AppendUint32(table, v)
		}
		count++
	}
	if count == 0 {
		return nil
	}
	return le.AppendUint32(le.AppendUint32(append(names, table...), count), placesMagic)
}

func called(text []byte, pc uint32) (to uint32, ok bool) {
	const ra = 1
	word := func(at uint32) uint32 { return binary.LittleEndian.Uint32(text[at:]) }
	w := word(pc)
	switch {
	case w&0xFFF == 0x6F|ra<<7: // jal ra
		imm := w>>31<<20 | w>>12&0xFF<<12 | w>>20&1<<11 | w>>21&0x3FF<<1
		return pc + uint32(int32(imm<<11)>>11), true
	case w&0xFFFFF == 0x67|ra<<7|ra<<15 && pc >= 4 && word(pc-4)&0xFFF == 0x17|ra<<7: // auipc ra; jalr ra
		return pc - 4 + word(pc-4)&^0xFFF + uint32(int32(w)>>20), true
	}
	return 0, false
}

func ownSource(name string) bool {
	name = strings.TrimPrefix(name, "./")
	return strings.HasPrefix(name, "lib/") || strings.HasPrefix(name, "include/") && isSource(name)
}

func isSource(name string) bool {
	f, err := sources.Open(name)
	if err != nil {
		return false
	}
	_ = f.Close() // of an embedded file
	return true
}
