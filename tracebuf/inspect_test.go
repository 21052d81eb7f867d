package tracebuf_test

import (
	"bytes"
	"embed"
	"encoding/binary"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/dispatch/cq"
	"github.com/reprise-tt/reprise/internal/expect"
	"github.com/reprise-tt/reprise/tracebuf"
	"github.com/reprise-tt/reprise/tracebuf/flow"
	"pgregory.net/rapid"
)

func inspect(t testing.TB, f *tracebuf.File) *tracebuf.Contents {
	t.Helper()
	c := expect.Value(tracebuf.Inspect(&f.Image))(t)
	return c
}

func TestInspectRawEqualsImage(t *testing.T) {
	for _, arch := range arches {
		f := testFile(t, arch)
		c := inspect(t, f)
		raw := expect.Value(tracebuf.InspectRaw(cq.Layout(arch), append(bytes.Clone(f.Image.Bytes), make([]byte, 5000)...), ""))(t)
		if raw.Revision != cq.Pinned || !bytes.Equal(raw.Bytes, c.Bytes) || len(raw.Steps) != testSteps || len(c.Steps) != testSteps {
			t.Fatalf("%s: %d B, %d programs; the image has %d B, %d", raw.Revision, len(raw.Bytes), len(raw.Steps), len(c.Bytes), len(c.Steps))
		}
		noDiff(t, raw.Commands, c.Commands, "result")
		for i := range c.Steps {
			a, b := c.Steps[i], raw.Steps[i]
			if a.Offset != b.Offset || a.Size != b.Size || a.First != b.First || a.Count != b.Count || b.Program != -1 {
				t.Errorf("program %d: %+v and %+v", i, a, b)
			}
		}
		if raw.Steps[3].Name != "host id 3" || c.Steps[3].Name != "odd" || len(c.Steps[3].Binary) != binaryPages*2048 {
			t.Errorf("names: %q, %q", raw.Steps[3].Name, c.Steps[3].Name)
		}
	}
}

func TestInspectRawRevisions(t *testing.T) {
	b := expect.Value(os.ReadFile(filepath.Join("..", "dispatch", "cq", "testdata", "golden", "exec_trace.bin")))(t)
	c := expect.Value(tracebuf.InspectRaw(cq.Blackhole, b, ""))(t)
	var names []string
	for i := range c.Commands {
		names = append(names, c.Commands[i].Name)
	}
	noDiff(t, names, []string{"NOTIFY_SUBORDINATE_GO_SIGNAL", "SEND_GO_SIGNAL", "WAIT", "EXEC_BUF"}, "result")
	if len(c.Steps) != 2 || c.Steps[1].Count != 2 {
		t.Errorf("programs: %+v", c.Steps)
	}
	for _, name := range []string{"0.60.1", "0.74.0", "1999"} {
		if _, err := tracebuf.InspectRaw(cq.Blackhole, b, name); err == nil {
			t.Errorf("%s reads it", name)
		}
	}
}

func TestStatsAddUp(t *testing.T) {
	f := testFile(t, chip.Blackhole)
	s := tracebuf.StatsOf(inspect(t, f))
	programs, kinds, commands := 64, 0, 1
	for _, p := range s.Programs {
		programs, commands = programs+p.Bytes, commands+p.Commands
	}
	count := 0
	for _, k := range s.Kinds {
		kinds, count = kinds+k.Bytes, count+k.Count
	}
	if programs != f.Image.Size || kinds != f.Image.Size || s.Bytes != f.Image.Size || count != s.Commands || commands != s.Commands {
		t.Errorf("programs have %d B, kinds %d B of %d B; %d and %d of %d commands", programs, kinds, f.Image.Size, commands, count, s.Commands)
	}
	if len(s.Programs) != 2 || s.Programs[0].Runs != 6 || s.Programs[1].Runs != 5 || s.Programs[1].Kernels != binaryPages*2048 {
		t.Errorf("programs: %+v", s.Programs)
	}
}

func TestDiff(t *testing.T) {
	base := inspect(t, testFile(t, chip.Blackhole))
	if d := tracebuf.Diff(base, base); len(d) != 0 {
		t.Fatalf("%+v", d)
	}
	for _, c := range []struct {
		name   string
		change func(*tracebuf.File)
		want   tracebuf.Difference
	}{
		{"kernels elsewhere", func(f *tracebuf.File) {
			for _, r := range f.Image.Relocs {
				cq.Put32(f.Image.Bytes, r.At+cq.AtPagedSubBase, 0x777000)
			}
		}, tracebuf.Difference{}},
		{"argument", func(f *tracebuf.File) { f.Image.Bytes[field(t, &f.Image, "WRITE_PACKED", 8, 32)]++ },
			tracebuf.Difference{Step: 4, Name: "even", Command: 2, What: "data, from byte 48 of the command on: 0x01 and 0x02"}},
		{"field", func(f *tracebuf.File) { f.Image.Bytes[field(t, &f.Image, "WAIT", 7, cq.AtWaitCount)]++ },
			tracebuf.Difference{Step: 7, Name: "odd", Command: 1, What: "field count: 56 and 57"}},
		{"command", func(f *tracebuf.File) {
			at := field(t, &f.Image, "WAIT", 7, 0)
			copy(f.Image.Bytes[at:at+16], append([]byte{byte(cq.DispatchDelay)}, make([]byte, 15)...))
		}, tracebuf.Difference{Step: 7, Name: "odd", Command: 1, What: "commands: WAIT and DELAY"}},
		{"kernels", func(f *tracebuf.File) { f.Image.Programs[1].Binary[5]++ },
			tracebuf.Difference{Step: 1, Name: "odd", Command: -1, What: "kernels: 6144 and 6144 B, which differ from byte 5 on"}},
		{"name", func(f *tracebuf.File) { f.Image.Steps[2].Name = "other" },
			tracebuf.Difference{Step: 2, Name: "even", Command: -1, What: "names: even and other"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := testFile(t, chip.Blackhole)
			c.change(f)
			other := inspect(t, f)
			got := tracebuf.Diff(base, other)
			if c.want.What == "" {
				if len(got) != 0 {
					t.Errorf("%+v", got)
				}
				return
			}
			if len(got) == 0 {
				t.Fatal("no difference was found")
			}
			d := got[0]
			if d.Command >= 0 && (d.A == d.B && !strings.HasPrefix(d.What, "data") || d.OffsetA < 0 || d.OffsetA != d.OffsetB) {
				t.Errorf("at %d and %d: %s, %s", d.OffsetA, d.OffsetB, d.A, d.B)
			}
			d.A, d.B, d.OffsetA, d.OffsetB = "", "", 0, 0
			noDiff(t, d, c.want, "result")
		})
	}
}

func TestDiffOfLengths(t *testing.T) {
	a := inspect(t, testFile(t, chip.Blackhole))
	b := *a
	b.Steps = b.Steps[:testSteps-1]
	if d := tracebuf.Diff(a, &b); len(d) != 1 || d[0].Step != testSteps-1 || d[0].What != "missing in the second trace" {
		t.Errorf("%+v", d)
	}
	if d := tracebuf.Diff(&b, a); len(d) != 1 || d[0].What != "missing in the first trace" || d[0].OffsetA != -1 {
		t.Errorf("%+v", d)
	}
	b.Steps = append([]tracebuf.StepContents(nil), a.Steps...)
	b.Steps[2].Count--
	if d := tracebuf.Diff(a, &b); len(d) != 1 || d[0].Step != 2 || !strings.Contains(d[0].What, "in the second trace") || d[0].B != "" ||
		d[0].A == "" {
		t.Errorf("%+v", d)
	}
	if d := tracebuf.Diff(&b, a); len(d) != 1 || !strings.Contains(d[0].What, "in the first trace") {
		t.Errorf("%+v", d)
	}
}

func TestPrintContents(t *testing.T) {
	f := testFile(t, chip.Blackhole)
	f.Image.Steps[1].Name = "\x1b[31m"
	c := inspect(t, f)
	var out bytes.Buffer
	must(t, c.Print(&out))
	lines := strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
	if len(lines) != len(c.Commands)+testSteps || lines[0] != "program 0 even: 768 B" ||
		!strings.Contains(lines[1], "SET_WRITE_OFFSET count=3") {
		t.Errorf("%d lines for %d commands:\n%s", len(lines), len(c.Commands), strings.Join(lines[:3], "\n"))
	}
	if strings.ContainsRune(out.String(), 0x1b) || !strings.Contains(out.String(), `"\x1b[31m"`) {
		t.Error("a name in a file reaches the terminal as it is")
	}
}

func TestInspectRawTiles(t *testing.T) {
	f := testFile(t, chip.Blackhole)
	rapid.Check(t, func(t *rapid.T) {
		b := bytes.Clone(f.Image.Bytes)
		for range rapid.IntRange(0, 3).Draw(t, "changes") {
			b[rapid.IntRange(0, len(b)-1).Draw(t, "at")] = rapid.Byte().Draw(t, "value")
		}
		c, err := tracebuf.InspectRaw(cq.Blackhole, b, cq.Pinned)
		if err != nil {
			return
		}
		at := 0
		for _, s := range c.Steps {
			if s.Offset != at {
				t.Fatalf("%+v, want it at %d", s, at)
			}
			at += s.Size
		}
	})
}

func argsFile(t testing.TB) []byte {
	t.Helper()
	return unzipped(t, controlFiles, "testdata/control-args-blackhole.trace.gz")
}

func eachControlFile(t *testing.T, f func(t *testing.T, b []byte)) {
	for name, b := range map[string][]byte{"wormhole": controlFile(t, chip.Wormhole), "blackhole": controlFile(t, chip.Blackhole),
		"arguments": argsFile(t)} {
		t.Run(name, func(t *testing.T) { f(t, b) })
	}
}

func TestPrintControl(t *testing.T) {
	var out bytes.Buffer
	must(t, inspect(t, decode(t, argsFile(t))).Print(&out))
	want := expect.Value(os.ReadFile(filepath.Join("testdata", "args-blackhole.txt")))(t)
	noDiff(t, strings.Split(out.String(), "\n"), strings.Split(string(want), "\n"), "result")
}

func TestStatsOfControlAddUp(t *testing.T) {
	eachControlFile(t, func(t *testing.T, b []byte) {
		f := decode(t, b)
		bytes, steps, runs := f.Image.Size, len(f.Image.Steps), f.Image.Runs()
		for i := range f.Image.Callees {
			im := &f.Image.Callees[i].Image
			bytes, steps, runs = bytes+im.Size, steps+len(im.Steps), runs+im.Runs()
		}
		s := tracebuf.StatsOf(inspect(t, f))
		all, kinds, commands, ran := s.ControlBytes+(1+s.Callees)*int(f.Image.Layout.PCIeAlign()), 0, 0, 0
		for _, p := range s.Programs {
			all, ran = all+p.Bytes, ran+p.Runs
		}
		for _, k := range s.Kinds {
			kinds, commands = kinds+k.Bytes, commands+k.Count
		}
		expect.Equal(t, s.Bytes, bytes, "s.Bytes")
		expect.Equal(t, all, bytes, "all")
		expect.Equal(t, kinds, bytes, "kinds")
		expect.Equal(t, commands, s.Commands, "commands")
		if ran != runs || s.Control != steps-runs || s.Callees != len(f.Image.Callees) || s.Callees == 0 {
			t.Errorf("%d runs, %d steps of control flow, %d callees: the trace has %d runs of %d steps and %d callees", ran, s.Control, s.Callees,
				runs, steps, len(f.Image.Callees))
		}
	})
}

func TestDiffOfControl(t *testing.T) {
	eachControlFile(t, func(t *testing.T, b []byte) {
		f := decode(t, b)
		base := inspect(t, f)
		move := func(im *tracebuf.Image) {
			for i := range im.Programs {
				im.Programs[i].Addr += 1 << 20
			}
			for i, c := range im.Conds {
				im.SetCond(i, cq.Get32(im.Bytes, c.At+cq.AtBranchNOC)^1, cq.Get32(im.Bytes, c.At+cq.AtBranchAddr)+64)
			}
		}
		moved := decode(t, b)
		move(&moved.Image)
		for i := range moved.Image.Callees {
			moved.Image.Callees[i].Addr += 1 << 20
			move(&moved.Image.Callees[i].Image)
		}
		must(t, moved.Relocate([]tracebuf.Target{moved.Target}))
		if d := tracebuf.Diff(base, inspect(t, moved)); len(d) != 0 || bytes.Equal(moved.Image.Bytes, f.Image.Bytes) {
			t.Errorf("a trace and a copy elsewhere: %+v", d)
		}
		kinds := map[flow.Kind]int{} // the first step of each
		for i := len(f.Image.Steps) - 1; i >= 0; i-- {
			kinds[f.Image.Steps[i].Control.Kind] = i
		}
		for _, c := range []struct {
			kind flow.Kind
			off  int // of the byte that is changed, in the command
			what string
		}{
			{flow.Branch, 16, "field value: "},
			{flow.Branch, 2, "field compare: "},
			{flow.Loop, cq.AtLoopCount, "field count: "},
		} {
			other, step := decode(t, b), kinds[c.kind]
			at := other.Image.Steps[step].Offset + c.off
			other.Image.Bytes[at] = 1 + other.Image.Bytes[at]%8 // as comparisons must be
			if d := tracebuf.Diff(base, inspect(t, other)); len(d) != 1 || d[0].Step != step || d[0].Callee != "" ||
				!strings.HasPrefix(d[0].What, c.what) {
				t.Errorf("want one difference, %s in step %d: %+v", c.what, step, d)
			}
		}
		other := decode(t, b)
		callee := &other.Image.Callees[0].Image
		callee.Steps[0].Name = "other"
		if d := tracebuf.Diff(base, inspect(t, other)); len(d) != 1 || d[0].Callee != other.Image.Callees[0].Name || d[0].Step != 0 {
			t.Errorf("want one difference, in the callee: %+v", d)
		}
	})
}

//go:embed testdata/control-*.trace.gz
var controlFiles embed.FS

func controlFile(t testing.TB, arch chip.Arch) []byte {
	t.Helper()
	return unzipped(t, controlFiles, "testdata/control-"+arch.String()+".trace.gz")
}

func decode(t testing.TB, b []byte) *tracebuf.File {
	t.Helper()
	f := expect.Value(tracebuf.Decode(bytes.NewReader(b)))(t)
	return f
}

func TestFileOfControl(t *testing.T) {
	if b := argsFile(t); !bytes.Equal(encode(t, decode(t, b)), b) {
		t.Error("a file with computed arguments is written otherwise")
	}
	for _, arch := range arches {
		b := controlFile(t, arch)
		f := decode(t, b)
		if !bytes.Equal(encode(t, f), b) {
			t.Errorf("%v: it is written otherwise", arch)
		}
		im := &f.Image
		var kinds []flow.Kind
		for _, s := range im.Steps {
			if k := s.Control.Kind; !slices.Contains(kinds, k) {
				kinds = append(kinds, k)
			}
		}
		if len(kinds) != int(flow.Call)+1 || len(im.Callees) != 2 || len(im.Conds) != 5 ||
			im.Callees[1].Image.Steps[2].Control.Callee != 0 {
			t.Errorf("%v: kinds %v, %d callees, conditions %v", arch, kinds, len(im.Callees), im.Conds)
		}
		if loop := im.Steps[3].Control; loop != (flow.Control{Kind: flow.Loop, Count: 4, Target: 8}) {
			t.Errorf("%v: the first loop is %+v", arch, loop)
		}
	}
}

func TestFileOfSeveralDevicesWithControl(t *testing.T) {
	f, g := decode(t, controlFile(t, chip.Wormhole)), testFile(t, chip.Blackhole)
	g.Name = f.Name
	for _, files := range [][]*tracebuf.File{{f, nil}, {nil, g, f}, {g, f, g}} {
		b := encodeAll(t, files)
		got := expect.Value(tracebuf.DecodeAll(bytes.NewReader(b)))(t)
		if diff := cmp.Diff(files, got, cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("-encoded +decoded:\n%s", diff)
		}
	}
}

func TestValidateRefusesControl(t *testing.T) {
	at := func(f *tracebuf.File, k flow.Kind, nth int) *tracebuf.Step {
		for i := range f.Image.Steps {
			if s := &f.Image.Steps[i]; s.Control.Kind == k {
				if nth--; nth < 0 {
					return s
				}
			}
		}
		t.Fatalf("there is no such %v", k)
		return nil
	}
	poke := func(k flow.Kind, nth, off int, v uint32) func(*file) {
		return func(f *file) { cq.Put32(f.Image.Bytes, at(f, k, nth).Offset+off, v) }
	}
	retarget := func(k flow.Kind, nth int, to func(*file) int) func(*file) {
		return func(f *file) {
			s := at(f, k, nth)
			s.Control.Target = to(f)
			cq.Put32(f.Image.Bytes, s.Offset+cq.AtBranchElse, uint32(f.Image.Steps[s.Control.Target].Offset))
		}
	}
	step := func(i int) func(*file) int { return func(*file) int { return i } }
	const reset, kernels, loop, end, branch, call = flow.Reset, flow.Kernels, flow.Loop, flow.End,
		flow.Branch, flow.Call
	valid := func(t testing.TB, arch chip.Arch) *file { return decode(t, controlFile(t, arch)) }
	refuse(t, valid, "refused_control.txt", []refusal{
		{"kind", func(f *file) { at(f, reset, 0).Control.Kind = flow.Divide + 1 }, "control(9)"},
		{"reset of another count", poke(reset, 0, 16, 1), ""},
		{"reset that is none", func(f *file) { at(f, call, 0).Control = flow.Control{Kind: reset} }, "isn't what a reset"},
		{"kernels of another program", func(f *file) { at(f, kernels, 0).Control.Program = 0 }, "step 2 runs program 0"},
		{"kernels of no program", func(f *file) { at(f, kernels, 0).Control.Program = 9 }, "program 9 of 3"},
		{"a run for kernels", func(f *file) {
			f.Image.Steps[0].Program, f.Image.Steps[0].Control = tracebuf.NoProgram, flow.Control{Kind: kernels}
		}, "only brings kernels"},
		{"count that isn't in the command", func(f *file) { at(f, loop, 0).Control.Count++ }, "its command is LOOP_BEGIN"},
		{"number of a loop", func(f *file) { at(f, end, 0).Control.Loop++ }, "its command is LOOP_END"},
		{"loop without an end", func(f *file) { at(f, end, 0).Control.Kind = reset }, "has no end"},
		{"exit elsewhere", retarget(loop, 0, step(9)), "is left to"},
		{"exit nowhere", poke(loop, 0, cq.AtLoopExit, 1<<20), "is left to 0x100000"},
		{"body elsewhere", retarget(end, 0, step(5)), "the body of loop 0 begins at"},
		{"body back before the loop", retarget(end, 0, step(0)), "the body of loop 0 begins at"},
		{"body after the loop", retarget(end, 0, step(9)), "the body of loop 0 begins at"},
		{"condition that goes back", retarget(branch, 1, step(0)), "as only the end of a loop does"},
		{"condition into a loop", func(f *file) { retarget(branch, 1, step(11))(f) }, "as only the end of a loop does"},
		{"condition that leaves to elsewhere", retarget(branch, 0, step(15)), "is left to"},
		{"branch past a reset", retarget(branch, 1, step(18)), "by the way there"},
		{"loop that is left by none", func(f *file) { f.Image.Bytes[at(f, end, 1).Offset+1] = 0 }, "if and only if"},
		{"loop that must be left", func(f *file) { f.Image.Bytes[at(f, end, 0).Offset+1] = 1 }, "never ends"},
		{"condition missing", func(f *file) { f.Image.Conds = f.Image.Conds[:4] }, "no condition names"},
		{"condition that reads a register", poke(branch, 0, cq.AtBranchAddr, 0x10), "doesn't have its word"},
		{"condition of a core's register", poke(branch, 1, cq.AtBranchAddr, 0xFFB20000), "doesn't have its word"},
		{"condition on no core", poke(branch, 1, cq.AtBranchNOC, 0xFFFF), "doesn't have its word"},
		{"callee of another size", poke(call, 0, cq.AtCallPages, 1), "it calls 1 pages"},
		{"callee that there isn't", func(f *file) { at(f, call, 0).Control.Callee = 2 }, "calls trace 2"},
		{"callee in a callee", func(f *file) { f.Image.Callees[1].Image.Callees = f.Image.Callees[:1] }, "buffers and callees"},
		{"patch point on a loop's exit", func(f *file) {
			p := &f.Image.Params[0]
			p.At[0] -= 4
			p.Value = cq.Get32(f.Image.Bytes, p.At[0])
		}, "no runtime argument"},
	})
}

func TestDecodeControlNeverPanics(t *testing.T) {
	b := controlFile(t, chip.Blackhole)
	f := decode(t, b)
	start := bytes.Index(b, f.Image.Bytes[:f.Image.Size])
	rapid.Check(t, func(t *rapid.T) {
		c := bytes.Clone(b)
		for range rapid.IntRange(1, 3).Draw(t, "words") {
			s := rapid.SampledFrom(f.Image.Steps).Draw(t, "step")
			at := start + s.Offset + 4*rapid.IntRange(0, 5).Draw(t, "word")
			if tag := rapid.SampledFrom([]string{"", "STEP", "COND", "CALL", "PARM"}).Draw(t, "section"); tag != "" {
				at = bytes.Index(c, []byte(tag)) + 4*rapid.IntRange(2, 60).Draw(t, "word")
			}
			v := rapid.OneOf(rapid.Uint32(), rapid.Uint32Range(0, 20),
				rapid.Map(rapid.IntRange(0, 200), func(n int) uint32 { return uint32(64 * n) })).Draw(t, "value")
			binary.LittleEndian.PutUint32(c[at:], v)
		}
		got, err := tracebuf.DecodeAll(bytes.NewReader(seal(c)))
		if err != nil {
			return
		}
		var again bytes.Buffer
		if err := tracebuf.EncodeAll(&again, got); err != nil || !bytes.Equal(again.Bytes(), seal(c)) {
			t.Fatalf("an accepted file is written otherwise: %v", err)
		}
	})
}
