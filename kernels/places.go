package kernels

import (
	"debug/elf"
	"encoding/binary"
	"slices"
	"strings"

	"github.com/reprise-tt/reprise/internal/debug/stack"
)

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
