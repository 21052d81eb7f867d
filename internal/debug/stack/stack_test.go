package stack_test

import (
	"encoding/binary"
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/reprise-tt/reprise/internal/debug/stack"
	"github.com/reprise-tt/reprise/internal/expect"
)

func read(t testing.TB, name string) []byte {
	t.Helper()
	return expect.Value(os.ReadFile(name))(t)
}

func TestSymbolsOnly(t *testing.T) {
	with := read(t, "../live/testdata/nested.blackhole.elf")
	without := append([]byte(nil), with...)
	for _, section := range []string{".debug_info", ".debug_frame", ".debug_line"} {
		for i := range without { // in the table of names
			if strings.HasPrefix(string(without[i:]), section+"\x00") {
				without[i+1] = 'x'
			}
		}
	}
	const at = 0x20000
	memory := func(addr uint32, p []byte) error {
		for i := range p {
			p[i] = 0
		}
		switch addr { // return addresses: outer called by kernel_main, which the firmware has called
		case 0xFFB01F0C:
			binary.LittleEndian.PutUint32(p, at+0x154)
		case 0xFFB01F1C:
			binary.LittleEndian.PutUint32(p, 0x3E64)
		}
		return nil
	}
	var x [32]uint32
	x[1], x[2], x[10], x[11], x[14] = at+0x124, 0xFFB01F00, 0x1234, 9, 0x100000
	for _, file := range [][]byte{with, without} {
		m := expect.Value(stack.Load("nested.elf", file, at))(t)
		space := stack.Space{stack.Region("firmware", 0x3800, 0x5000), m}
		var functions []string
		for _, f := range space.Unwind(stack.All(x, at+0xFC), memory) {
			if f.Inlined {
				continue
			}
			name, _, _ := strings.Cut(f.Function, ".") // the compiler's copies have a suffix in symbols
			functions = append(functions, name)
		}
		expect.Equal(t, strings.Join(functions, " "), "wait_for outer kernel_main firmware+0x660", "debug information %v", m.Debug())
	}
	m, err := stack.Load("nested.elf", without, at)
	if err != nil || !errors.Is(m.Debug(), stack.ErrNoDWARF) {
		t.Errorf("%v, %v", err, m.Debug())
	}
}

func TestBadInput(t *testing.T) {
	good := read(t, "../live/testdata/nested.wormhole.elf")
	for _, file := range [][]byte{nil, []byte("\x7fELF"), good[:60], make([]byte, 4096)} {
		expect.Fails(t, expect.ErrOf(stack.Load("bad", file, 0)), stack.ErrFile, "%d bytes", len(file))
	}
	if got := (stack.Space{}).Unwind(stack.Registers{PC: 8}, nil); len(got) != 1 || got[0].PC != 8 {
		t.Errorf("%v", got)
	}
}

func FuzzUnwind(f *testing.F) {
	for _, arch := range []string{"blackhole", "wormhole"} {
		f.Add(read(f, "../live/testdata/nested."+arch+".elf"), uint32(0xFC))
	}
	f.Fuzz(func(t *testing.T, file []byte, pc uint32) {
		m, err := stack.Load("fuzz", file, 0)
		if err != nil {
			return
		}
		mem := func(addr uint32, p []byte) error {
			for i := range p {
				p[i] = byte(addr >> 4)
			}
			return nil
		}
		var x [32]uint32
		x[1], x[2] = pc+4, 0xFFB01000
		stack.Space{m}.Unwind(stack.All(x, pc), mem)
	})
}

func TestSearch(t *testing.T) {
	m := expect.Value(stack.Load("nested", read(t, "../live/testdata/nested.blackhole.elf"), 0x20000))(t)
	space := stack.Space{m}
	pc := end(t, m, "wait_for")
	const start = 0xFFB00000
	memory := make([]byte, 256)
	search := func() []stack.Frame {
		frames, ok := space.Search(pc, start, memory, "kernel_main", "")
		if ok != (frames != nil) {
			t.Fatal(frames, ok)
		}
		return frames
	}
	if f := search(); f != nil {
		t.Errorf("in memory without return addresses: %v", f)
	}
	back := uint32(0) // from outer to kernel_main
	for at := m.Start; at < m.End; at += 4 {
		if f := space.Unwind(stack.Registers{PC: at}, nil); f[len(f)-1].Function == "kernel_main" && f[len(f)-1].Line == 22 {
			if w := binary.LittleEndian.Uint32(m.Text()[at-m.Start:]); w&0x7FFF == 0xE7 || w&0xFFF == 0xEF {
				back = at + 4
			}
		}
	}
	put := func(off int, v uint32) { binary.LittleEndian.PutUint32(memory[off:], v) }
	put(64+12, m.Start) // no return address
	if f := search(); f != nil {
		t.Errorf("in memory with an address that no call returns to: %v", f)
	}
	put(128+12, back)
	var names []string
	for _, f := range search() {
		names = append(names, f.Function)
		if !f.Guessed {
			t.Errorf("%v isn't marked as guessed", f)
		}
	}
	expect.NoDiff(t, names, []string{"wait_for", "outer", "kernel_main"}, "functions")
}

func TestTable(t *testing.T) {
	for _, name := range []string{"blackhole", "wormhole"} {
		file := read(t, "../live/testdata/nested."+name+".elf")
		const at = 0x20000
		full, err := stack.Load("nested", file, at)
		expect.Must(t, err)
		data := full.AppendTable(nil)
		lean := expect.Value(stack.LoadTable("nested", data, full.Text(), at))(t)
		for pc := full.Start; pc < full.End; pc += 4 {
			var found [2][]stack.Frame
			for i, m := range []*stack.Module{full, lean} {
				found[i] = stack.Space{m}.Unwind(stack.Registers{PC: pc}, nil)
				for k := range found[i] {
					found[i][k].Args, found[i][k].Guessed = nil, false
				}
			}
			if d := cmp.Diff(found[0], found[1]); d != "" {
				t.Fatalf("%s, pc %#x, %d bytes: -debug information +table:\n%s", name, pc, len(data), d)
			}
			if found[1][len(found[1])-1].Function == "wait_for" { // it keeps its return address in ra
				regs := stack.All([32]uint32{1: end(t, lean, "outer")}, pc)
				callers := stack.Space{lean}.Unwind(regs, nil)[len(found[1]):]
				if len(callers) == 0 || callers[0].Function != "outer" || !callers[0].Guessed {
					t.Fatalf("%s, pc %#x: callers %v", name, pc, callers)
				}
			}
		}
	}
}

func end(t *testing.T, m *stack.Module, function string) (last uint32) {
	t.Helper()
	for pc := m.Start; pc < m.End; pc += 4 {
		if frames := (stack.Space{m}).Unwind(stack.Registers{PC: pc}, nil); frames[len(frames)-1].Function == function {
			last = pc
		}
	}
	if last == 0 {
		t.Fatalf("nothing is in %s", function)
	}
	return last
}

func FuzzTable(f *testing.F) {
	m := expect.Value(stack.Load("nested", read(f, "../live/testdata/nested.blackhole.elf"), 0))(f)
	text := m.Text()
	f.Add(m.AppendTable(nil))
	f.Add([]byte{0, 0, 0, 0})
	f.Fuzz(func(t *testing.T, data []byte) {
		m, err := stack.LoadTable("fuzz", data, text, 0x1000)
		if err != nil {
			return
		}
		for pc := m.Start; pc < m.End; pc += 4 {
			if frames := (stack.Space{m}).Unwind(stack.Registers{PC: pc}, nil); len(frames) == 0 || len(frames) > len(data)+1 {
				t.Fatalf("%d frames at %#x of %d bytes", len(frames), pc, len(data))
			}
		}
	})
}
