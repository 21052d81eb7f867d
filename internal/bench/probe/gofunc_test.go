package probe

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"os"
	"testing"
)

// As in programs that a C linker made. Nothing is guessed at when nothing says where Go's code
// begins.
func TestGoFunctionBehindOtherCode(t *testing.T) {
	exe, err := os.Executable()
	must(t, err)
	program, err := os.ReadFile(exe)
	must(t, err)
	f, err := elf.NewFile(bytes.NewReader(program))
	if err != nil {
		t.Skip("programs here have another form: ", err)
	}
	if f.Class != elf.ELFCLASS64 || f.ByteOrder != binary.LittleEndian || f.Section(".go.module") == nil {
		t.Skip("the test knows programs of 64 bits of Go 1.26 and later")
	}
	want, err := goFunction(bytes.NewReader(program), symbolSubmitted)
	if err != nil || want == 0 {
		t.Fatalf("%#x, error %v", want, err)
	}
	changed := bytes.Clone(program)
	// .text begins before Go's code, by its header.
	headers, size := binary.LittleEndian.Uint64(program[40:]), binary.LittleEndian.Uint16(program[58:]) // e_shoff, e_shentsize
	for i, s := range f.Sections {
		if s.Name == ".text" {
			h := changed[headers+uint64(i)*uint64(size):]
			binary.LittleEndian.PutUint64(h[16:], s.Addr-0x100)
			binary.LittleEndian.PutUint64(h[24:], s.Offset-0x100)
			binary.LittleEndian.PutUint64(h[32:], s.Size+0x100)
		}
	}
	if got, err := goFunction(bytes.NewReader(changed), symbolSubmitted); err != nil || got != want {
		t.Errorf("after other code: %#x, error %v, want %#x", got, err, want)
	}
	rename := func(from, to string) {
		changed = bytes.Replace(changed, []byte("\x00"+from+"\x00"), append([]byte("\x00"+to), make([]byte, len(from)-len(to)+1)...), 1)
	}
	rename(".go.module", ".module")
	rename(".noptrbss", ".init")
	if f.Section(".symtab") != nil {
		rename(".symtab", ".symbol")
		for i, s := range f.Sections {
			if s.Name == ".symtab" {
				binary.LittleEndian.PutUint32(changed[headers+uint64(i)*uint64(size)+4:], uint32(elf.SHT_PROGBITS))
			}
		}
	}
	if got, err := goFunction(bytes.NewReader(changed), symbolSubmitted); !errors.Is(err, ErrMissing) {
		t.Errorf("stripped, after other code: %#x, error %v", got, err)
	}
}
