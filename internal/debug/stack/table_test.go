package stack_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/reprise-tt/reprise/internal/debug/stack"
)

func TestTable(t *testing.T) {
	for _, name := range []string{"blackhole", "wormhole"} {
		file := read(t, "../live/testdata/nested."+name+".elf")
		const at = 0x20000
		full, err := stack.Load("nested", file, at)
		if err != nil {
			t.Fatal(err)
		}
		data := full.AppendTable(nil)
		lean, err := stack.LoadTable("nested", data, full.Text(), at)
		if err != nil {
			t.Fatal(err)
		}
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
	m, err := stack.Load("nested", read(f, "../live/testdata/nested.blackhole.elf"), 0)
	if err != nil {
		f.Fatal(err)
	}
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
