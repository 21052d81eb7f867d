package tracebuf_test

import (
	"bytes"
	"embed"
	"encoding/binary"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/dispatch/cq"
	"github.com/reprise-tt/reprise/tracebuf"
	"github.com/reprise-tt/reprise/tracebuf/flow"
)

//go:embed testdata/v4-*.trace.gz
var controlFiles embed.FS

func controlFile(t testing.TB, arch chip.Arch) []byte {
	t.Helper()
	return unzipped(t, controlFiles, "testdata/v4-"+arch.String()+".trace.gz")
}

func decode(t testing.TB, b []byte) *tracebuf.File {
	t.Helper()
	f, err := tracebuf.Decode(bytes.NewReader(b))
	must(t, err)
	return f
}

func TestFileOfVersion4(t *testing.T) {
	if b := argsFile(t); !bytes.Equal(encode(t, decode(t, b)), b) {
		t.Error("a file with computed arguments is written otherwise")
	}
	for _, arch := range arches {
		b := controlFile(t, arch)
		f := decode(t, b)
		if v := binary.LittleEndian.Uint32(b[8:]); v != 4 || !bytes.Equal(encode(t, f), b) {
			t.Errorf("%v: version %d is written otherwise", arch, v)
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
		b = encode(t, testFile(t, arch))
		binary.LittleEndian.PutUint32(b[8:], 4)
		fails(t, second(tracebuf.Decode(bytes.NewReader(seal(b)))), tracebuf.ErrInvalid, "%v: version 4 without control flow", arch)
	}
}

func TestFileOfSeveralDevicesWithControl(t *testing.T) {
	f, g := decode(t, controlFile(t, chip.Wormhole)), testFile(t, chip.Blackhole)
	g.Name = f.Name
	for _, files := range [][]*tracebuf.File{{f, nil}, {nil, g, f}, {g, f, g}} {
		b := encodeAll(t, files)
		got, err := tracebuf.DecodeAll(bytes.NewReader(b))
		must(t, err)
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
	for _, c := range []struct {
		name   string
		change func(*file)
		want   string
	}{
		{"kind", func(f *file) { at(f, reset, 0).Control.Kind = flow.Args + 1 }, "control(8)"},
		{"a program that goes elsewhere", func(f *file) { f.Image.Steps[0].Control.Target = 3 }, "goes to step 3"},
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
		{"condition of another buffer", func(f *file) { f.Image.Conds[0].Buffer = 1 }, "reads"},
		{"condition of no buffer", func(f *file) { f.Image.Conds[0].Buffer = 7 }, "buffer 7 of 2"},
		{"condition of another word", func(f *file) { f.Image.Conds[0].Offset += 4 }, "doesn't have its word"},
		{"condition of half a word", func(f *file) { f.Image.Conds[1].Offset += 2 }, "reads a word at"},
		{"condition beyond its buffer", func(f *file) { f.Image.Conds[1].Offset = 192 }, "reads a word at 192"},
		{"condition elsewhere", func(f *file) { f.Image.Conds[1].At += 64 }, "no condition names"},
		{"condition missing", func(f *file) { f.Image.Conds = f.Image.Conds[:4] }, "no condition names"},
		{"condition of nothing", func(f *file) { f.Image.Conds = append(f.Image.Conds, f.Image.Conds[4]) }, "6 conditions"},
		{"condition that reads a register", poke(branch, 0, cq.AtBranchAddr, 0x10), "doesn't have its word"},
		{"condition of a core's register", poke(branch, 1, cq.AtBranchAddr, 0xFFB20000), "doesn't have its word"},
		{"condition on no core", poke(branch, 1, cq.AtBranchNOC, 0xFFFF), "doesn't have its word"},
		{"callee elsewhere", func(f *file) { f.Image.Callees[1].Addr += 64 }, "it calls"},
		{"callee unaligned", func(f *file) { f.Image.Callees[0].Addr++ }, "an address"},
		{"callee of another size", poke(call, 0, cq.AtCallPages, 1), "it calls 1 pages"},
		{"callee that there isn't", func(f *file) { at(f, call, 0).Control.Callee = 2 }, "calls trace 2"},
		{"callee that calls itself", func(f *file) { f.Image.Callees[1].Image.Steps[1].Control.Callee = 1 }, "calls trace 1"},
		{"callee that nobody calls", func(f *file) { f.Image.Callees = append(f.Image.Callees, f.Image.Callees[0]) }, "no step calls trace 2"},
		{"callee's commands", func(f *file) { f.Image.Callees[0].Image.Bytes[0] = 0x77 }, "callee 0 flow"},
		{"callee with buffers", func(f *file) { f.Image.Callees[0].Image.Buffers = f.Image.Buffers }, "buffers and callees"},
		{"callee in a callee", func(f *file) { f.Image.Callees[1].Image.Callees = f.Image.Callees[:1] }, "buffers and callees"},
		{"patch point on a loop's exit", func(f *file) {
			p := &f.Image.Params[0]
			p.At[0] -= 4
			p.Value = cq.Get32(f.Image.Bytes, p.At[0])
		}, "no runtime argument"},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := decode(t, controlFile(t, chip.Blackhole))
			c.change(f)
			encodeRefuses(t, f, c.want)
		})
	}
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
