package watch_test

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/dispatch"
	"github.com/reprise-tt/reprise/internal/devtest"
	"github.com/reprise-tt/reprise/internal/effort"
	"github.com/reprise-tt/reprise/internal/expect"
	"github.com/reprise-tt/reprise/kernels"
	"github.com/reprise-tt/reprise/kernels/print"
	"github.com/reprise-tt/reprise/kernels/watch"
	"github.com/reprise-tt/reprise/mesh"
	"github.com/reprise-tt/reprise/sim"
	"github.com/reprise-tt/reprise/sim/emu"
	"github.com/reprise-tt/reprise/sim/ttsim/ttsimtest"
)

func TestMain(m *testing.M) { ttsimtest.Main(m) }

func build(t testing.TB, src kernels.Source) *kernels.Image {
	t.Helper()
	var warnings strings.Builder
	src.Warnings = &warnings
	im, err := kernels.Compile(t.Context(), src)
	if errors.Is(err, kernels.ErrNoCompiler) {
		t.Skip(err)
	}
	devtest.Must(t, err)
	if warnings.Len() > 0 {
		t.Error(warnings.String())
	}
	return im
}

func compile(b *devtest.Bench, path, text string) *kernels.Image {
	b.Helper()
	return build(b, kernels.Source{Path: path, Text: text, Arch: b.Dev.Arch(), Watch: true})
}

func run(b *devtest.Bench, p *reprise.Program) {
	b.Helper()
	b.Must(b.Queue.Run(b.Ctx, b.Load(p)))
	b.Must(b.Queue.Wait(b.Ctx))
}

func on(im *kernels.Image, p chip.Processor, args ...uint32) *reprise.Program {
	return &reprise.Program{Name: "checked", Kernels: []reprise.Kernel{{
		Name: "kernel", Image: im, Processor: p, Cores: []chip.Range{chip.Single(2, 1)}, Args: func(chip.Core) []uint32 { return args },
	}}}
}

func fails(b *devtest.Bench, p *reprise.Program) *watch.Failure {
	b.Helper()
	b.Must(b.Queue.Run(b.Ctx, b.Load(p)))
	err := b.Queue.Wait(b.Ctx)
	var f *watch.Failure
	if !errors.As(err, &f) {
		b.Fatalf("the wait ended with %v", err)
	}
	if errors.Is(err, dispatch.ErrTimeout) {
		b.Errorf("the wait timed out: %v", err)
	}
	var h *dispatch.HangError
	if !errors.As(err, &h) {
		b.Fatal(err)
	}
	if d := h.Detail(); !strings.Contains(d, "\nchecks that failed:\n  "+f.Error()+"\n") {
		b.Error(d)
	}
	b.Must(b.Dev.Recover(b.Ctx))
	expect.Equal(b, len(expect.Value(b.Dev.Debug().Failures())(b)), 0, "after recovery")
	return f
}

// A wait that doesn't notice a failure takes as long as the hang timeout.
func onAll(t *testing.T, run func(*devtest.Bench)) {
	timeout := reprise.WithHangTimeout(time.Minute)
	devtest.OnEmulators(t, run, timeout)
	for _, library := range []string{ttsimtest.Wormhole, ttsimtest.Blackhole} {
		t.Run(library, func(t *testing.T) { run(devtest.Open(t, ttsimtest.Card(t, library), timeout)) })
	}
}

const asserts = `
#include "reprise/assert.h"

void kernel_main(void) {
    uint32_t n = rp_arg(0);
    reprise_assert(n != 0);
    reprise_assert(n < 4 && n % 2 == 1);
}
`

func TestAssertion(t *testing.T) {
	onAll(t, func(b *devtest.Bench) {
		im := compile(b, "dir/kernel.c", asserts)
		for p := range chip.Processor(chip.NumProcessors) {
			run(b, on(im, p, 3))
			f := fails(b, on(im, p, 2))
			if f.Core != (chip.Core{X: 2, Y: 1}) || f.Processor != p || f.Check != watch.Assertion || f.Program != "checked" ||
				f.Kernel != "kernel" || f.Line != 7 || f.Offset == 0 || f.Offset >= uint32(len(im.Text)) {
				b.Errorf("%+v", f)
			}
			expect.Says(b, f, nil, "assertion `n < 4 && n % 2 == 1` failed at ", "kernel.c:7 in kernel \"kernel\" of program \"checked\" on "+
				p.String()+" of core (2,1), pc 0x")
		}
	})
}

const metalAsserts = `
void kernel_main() {
    uint32_t n = get_arg_val<uint32_t>(0);
    ASSERT(n != 4);
    ASSERT(n != 5, "five is \"too\" much, 100%");
    reprise_assert(n != 6 && "a condition that is so long that the text of it ends before its end, because the section of the kernel's file in which its text is has room for about two hundred characters of each text and this one has more");
}
`

func TestMetalAssert(t *testing.T) {
	devtest.OnEmulators(t, func(b *devtest.Bench) {
		im := compile(b, "kernel.cpp", metalAsserts)
		expect.Says(b, fails(b, on(im, chip.BRISC, 4)), nil, "assertion `n != 4` failed at ", "kernel.cpp:4 in")
		expect.Says(b, fails(b, on(im, chip.NCRISC, 5)), nil, "assertion `n != 5`: five is \"too\" much, 100% failed at ", "kernel.cpp:5 in")
		expect.Says(b, fails(b, on(im, chip.TRISC1, 6)), nil, "assertion `n != 6 && \"a condition", "of each", " failed at ",
			"kernel.cpp:6 in")
	})
}

func split(s string) []string { return strings.Split(s, "|") }

func TestFileName(t *testing.T) {
	b := devtest.Open(t, sim.Blackhole())
	const text = "#include \"reprise/assert.h\"\nvoid kernel_main(void) { reprise_print(\"%u\", 1); reprise_assert(0); }\n"
	path := filepath.Join(t.TempDir(), "100% \"odd\" \\n{a|b}.c")
	b.Must(os.WriteFile(path, []byte(text), 0o600))
	for _, src := range []kernels.Source{{Path: path}, {Path: filepath.Base(path), Text: text}} {
		src.Arch, src.Prints, src.Watch = b.Dev.Arch(), true, true
		if f := fails(b, on(build(b, src), chip.BRISC)); f.File != "100_ _odd_ _n_a_b_.c" || f.Line != 2 {
			t.Errorf("%+v", f)
		}
	}
}

//go:embed testdata/unwatched.cc
var unwatched string

func TestWithoutRecompiling(t *testing.T) {
	effort.Long(t)
	for _, c := range []struct {
		name     string
		args     []uint32
		says     []string // nil: nothing is wrong
		function string   // that isn't inlined
	}{
		{"deep", []uint32{0, 5}, nil, ""},
		{"deeper", []uint32{0, 200}, []string{"deep at kernel.c:", "stack overflow: the stack pointer goes down from "}, "deep"},
		{"pops", []uint32{1, 2}, nil, ""},
		{"pops more", []uint32{1, 3}, []string{"in pop at kernel.c:13", ": 3 pages are taken, and 2 are there"}, "pop"},
	} {
		for name, card := range map[string]func(...sim.Option) *sim.Card{"blackhole": sim.Blackhole, "wormhole": sim.Wormhole} {
			for _, p := range []chip.Processor{chip.BRISC, chip.NCRISC, chip.TRISC0} {
				t.Run(c.name+" "+name+" "+p.String(), func(t *testing.T) {
					b := devtest.Open(t, card(sim.Strict(2)), reprise.WithHangTimeout(time.Minute))
					im := build(b, kernels.Source{Path: "kernel.c", Text: unwatched, Arch: b.Dev.Arch(), Debug: true})
					b.Must(b.Queue.Run(b.Ctx, b.Load(withBuffer(on(im, p, c.args...)))))
					err := b.Queue.Wait(b.Ctx)
					if c.says == nil {
						b.Must(err)
						return
					}
					var k *dispatch.KernelError
					var r *emu.Refusal
					if !errors.As(err, &k) || !errors.As(err, &r) {
						b.Fatalf("the wait ended with %v", err)
					}
					expect.Says(t, err, nil, c.says...)
					if k.Core != (chip.Core{X: 2, Y: 1}) || k.Processor != p || r.Core != p || len(k.Frames) == 0 ||
						!strings.HasPrefix(k.Frames[len(k.Frames)-1].Function, c.function) {
						b.Errorf("%v: frames %v", k, k.Frames)
					}
				})
			}
		}
	}
}

func TestTrace(t *testing.T) {
	b := devtest.Open(t, sim.Wormhole())
	x := b.Load(withBuffer(on(compile(b, "kernel.c", buffers), chip.NCRISC, 2)))
	tr, err := b.Queue.Capture(b.Ctx, "checked", func(_ context.Context, r *reprise.Recorder) error { return r.Run(x) })
	b.Must(err)
	var file bytes.Buffer
	b.Must(tr.Save(b.Ctx, &file))
	o := devtest.Open(t, sim.Wormhole())
	loaded, err := o.Dev.LoadTrace(o.Ctx, &file)
	o.Must(err)
	o.Must(loaded.Replay(o.Ctx))
	err = o.Queue.Wait(o.Ctx)
	var f *watch.Failure
	if !errors.As(err, &f) {
		t.Fatal(err)
	}
	expect.Says(t, f, nil, "pushes 2 pages, but has reserved 1 at kernel.c:17 in kernel \"kernel\" of program \"checked\" on NCRISC")
	o.Must(o.Dev.Recover(o.Ctx))
}

func TestMesh(t *testing.T) {
	machine := sim.N300()
	t.Cleanup(func() { _ = machine.Close() })
	m, err := mesh.Open(t.Context(), mesh.Cards(machine.Cards()...), mesh.Shape{1, 2})
	devtest.Must(t, err)
	t.Cleanup(func() { _ = m.Close(context.Background()) })
	b := &devtest.Bench{T: t, Ctx: t.Context(), Dev: m.Chip(0, 0).Device}
	im := compile(b, "kernel.c", asserts)
	x, err := m.Load(b.Ctx, "checked", mesh.Part{Program: func(c *mesh.Chip) (*reprise.Program, error) {
		n := uint32(3)
		if c.Remote {
			n = 2 // is even
		}
		return on(im, chip.BRISC, n), nil
	}})
	b.Must(err)
	tr, err := m.Queue(0).Capture(b.Ctx, "checks", func(_ context.Context, r *mesh.Recorder) error { return r.Run(x) })
	b.Must(err)
	b.Must(tr.Replay(b.Ctx))
	err = m.Queue(0).Wait(b.Ctx)
	var f *watch.Failure
	if !errors.As(err, &f) {
		t.Fatal(err)
	}
	if f.Program != "checked" || f.Processor != chip.BRISC || f.Line != 7 {
		t.Errorf("%+v", f)
	}
	var of *mesh.Error
	if !errors.As(err, &of) {
		t.Fatal(err)
	}
	if failed := of.Failed(); len(failed) != 1 || failed[0].Coord.String() != m.Chip(0, 1).Coord.String() {
		t.Errorf("chips that failed: %v", failed)
	}
}

func TestTwoCores(t *testing.T) {
	b := devtest.Open(t, sim.Blackhole())
	p := on(compile(b, "kernel.c", asserts), chip.TRISC1, 2)
	p.Kernels[0].Cores = []chip.Range{chip.Single(1, 0), chip.Single(3, 2)}
	b.Must(b.Queue.Run(b.Ctx, b.Load(p)))
	if err := b.Queue.Wait(b.Ctx); err == nil {
		t.Fatal("no error")
	}
	fs, err := b.Dev.Debug().Failures()
	for err == nil && len(fs) < 2 { // one may be later than the end of the wait
		fs, err = b.Dev.Debug().Failures()
	}
	b.Must(err)
	if len(fs) != 2 || fs[0].Core != (chip.Core{X: 1}) || fs[1].Core != (chip.Core{X: 3, Y: 2}) || fs[0].Line != 7 || fs[1].Line != 7 {
		t.Errorf("%+v", fs)
	}
	b.Must(b.Dev.Recover(b.Ctx))
}

func FuzzFailures(f *testing.F) {
	record := make([]byte, watch.AreaSize)
	copy(record[48:], []byte{3, 5, 0x54, 0x57, 1, 0, 0, 0, 16, 0, 0, 0, 8, 0, 0, 0, 0, 0, 0, 0})
	table := append([]byte{0, 0, 0, 0, 'a', 0, 0, 0}, 8, 0, 0, 0, 3, 0, 0, 0, 4, 0, 0, 0, 1, 0, 0, 0, 'I', 'T', 'E', 'S')
	f.Add(record, table)
	f.Add(bytes.Repeat([]byte{0x54, 0x57, 1, 2}, watch.AreaSize/4), bytes.Repeat([]byte("ITES"), 9))
	f.Fuzz(func(t *testing.T, record, formats []byte) {
		area := make([]byte, watch.AreaSize)
		copy(area, record)
		p := &print.Program{ID: 1, Name: "p", Kernels: []print.Kernel{{Name: "k", Processor: chip.NCRISC, Formats: formats}}}
		fs := watch.Failures(chip.Core{}, area, []*print.Program{p})
		expect.Equal(t, watch.Failed(area), len(fs) > 0, "%d failures", len(fs))
		for i := range fs {
			if fs[i].Error() == "" || fs[i].Text == "" {
				t.Errorf("%+v", fs[i])
			}
		}
	})
}

func TestNoCost(t *testing.T) {
	build := func(path, text string, on bool) *kernels.Image {
		t.Helper()
		return build(t, kernels.Source{Path: path, Text: text, Arch: chip.Wormhole, Watch: on})
	}
	text := func(header, code string) string {
		return "#include \"" + header + "\"\nvoid kernel_main() { " + code + " }\n"
	}
	const before, after = "uint32_t n = rp_arg(0);", "rp_store(0x20000, n);"
	plain := text("reprise/kernel.h", before+after)
	asserts := text("reprise/assert.h", before+"reprise_assert(rp_load(0x20004) == n * n);"+after)
	metal := text("debug/assert.h", before+`ASSERT(n < 4); ASSERT(rp_load(0x20004) == n, "a message");`+after)
	want := build("k.c", plain, false)
	for what, got := range map[string]*kernels.Image{"assertion": build("k.c", asserts, false), "ASSERT": build("k.cpp", metal, false)} {
		if !bytes.Equal(got.Text, want.Text) || got.DataSize != want.DataSize || got.BSSSize != want.BSSSize || got.Formats != nil {
			t.Errorf("%s out: %d B of text and %d B of formats, want %d and none", what, len(got.Text), len(got.Formats), len(want.Text))
		}
	}
	buffer := text("reprise/kernel.h", "rp_cb_reserve_back(3, 1); rp_cb_push_back(3, 1);")
	read := text("reprise/kernel.h", "rp_noc_read(0, rp_arg(0), rp_arg(1), 0x20000, 64);")
	for _, c := range []struct {
		what, text        string
		mostText, mostBSS int
	}{{"stack", plain, 352, 0}, {"assertion", asserts, 544, 0}, {"circular buffer", buffer, 960, 128}, {"NoC", read, 1664, 0}} {
		out, in := build("k.c", c.text, false), build("k.c", c.text, true)
		text, bss := len(in.Text)-len(out.Text), int(in.BSSSize)-int(out.BSSSize)
		if text > c.mostText || bss > c.mostBSS || in.DataSize != out.DataSize {
			t.Errorf("%s: %d B of text and %d B of .bss more, want at most %d and %d", c.what, text, bss, c.mostText, c.mostBSS)
		}
	}
}

//go:embed testdata/costs.cc
var costs string

func TestCost(t *testing.T) {
	b := devtest.Open(t, sim.Wormhole(sim.Seed(1)))
	b.Must(b.Dev.Debug().WriteL1(chip.Core{X: 2, Y: 1}, 0x40000, make([]byte, 4)))
	measure := func(checked bool) (least [3]int) { // a clock runs ahead now and then, for others that have run longer in the same round
		x := b.Load(withBuffer(on(build(b, kernels.Source{Path: "k.c", Text: costs, Arch: b.Dev.Arch(), Watch: checked}), chip.BRISC)))
		for run := range 10 {
			b.Must(b.Queue.Run(b.Ctx, x))
			b.Must(b.Queue.Wait(b.Ctx))
			p := make([]byte, 4*len(least))
			b.Must(b.Dev.Debug().ReadL1(chip.Core{X: 2, Y: 1}, 0x50000, p))
			for i := range least {
				if n := int(binary.LittleEndian.Uint32(p[4*i:])) / 16; run == 0 || n < least[i] {
					least[i] = n
				}
			}
		}
		return least
	}
	out, in := measure(false), measure(true)
	for i, c := range []struct {
		what string
		most int
	}{{"assertion", 8}, {"four calls for a circular buffer", 320}, {"request", 200}} {
		if more := in[i] - out[i]; more > c.most {
			t.Errorf("%s: %d cycles more, want at most %d", c.what, more, c.most)
		}
	}
}

//go:embed testdata/buffers.cc
var buffers string

func withBuffer(p *reprise.Program) *reprise.Program {
	p.CircularBuffers = append(p.CircularBuffers, reprise.CircularBuffer{Index: 3, Pages: 4, PageSize: 64, Cores: p.Kernels[0].Cores})
	return p
}

func TestCircularBuffers(t *testing.T) {
	onAll(t, func(b *devtest.Bench) {
		im := compile(b, "kernel.c", buffers)
		run(b, withBuffer(on(im, chip.NCRISC, 0)))
		for i, want := range []struct {
			says   string
			line   string
			buffer watch.Buffer
		}{
			{"pushes 1 page, but has reserved 0", "14", watch.Buffer{Number: 3, Pages: 1, Size: 4}},
			{"pushes 2 pages, but has reserved 1", "17", watch.Buffer{Number: 3, Pages: 2, Allowed: 1, Size: 4}},
			{"pops 1 page, but has waited for 0", "19", watch.Buffer{Number: 3, Pages: 1, Size: 4}},
			{"waits for 5 pages, but the buffer has 4", "20", watch.Buffer{Number: 3, Pages: 5, Size: 4}},
			{"reserves 1 page, but the program has no such buffer", "21", watch.Buffer{Number: 4, Pages: 1}},
			{"circular buffer 32: the kernel reserves 1 page, but circular buffers are numbered", "22", watch.Buffer{Number: 32, Pages: 1}},
			{"pushes 2 pages, which go around the end of its 4 pages", "29", watch.Buffer{Number: 3, Pages: 2, Allowed: 2, Size: 4}},
		} {
			p := chip.Processor(i % chip.NumProcessors)
			f := fails(b, withBuffer(on(im, p, uint32(i+1))))
			expect.Says(b, f, nil, want.says, " at kernel.c:"+want.line+" in kernel")
			if f.Check != watch.CircularBuffer || f.Buffer == nil || *f.Buffer != want.buffer || f.Processor != p {
				b.Errorf("%+v of %+v, want %+v", f.Buffer, f, want.buffer)
			}
		}
	})
}

//go:embed testdata/requests.cc
var requests string

func TestRequests(t *testing.T) {
	onAll(t, func(b *devtest.Bench) {
		im := compile(b, "kernel.c", requests)
		corner := func(c chip.Core) uint32 {
			xy, err := b.Dev.Virtual(c)
			b.Must(err)
			return uint32(xy.X) | uint32(xy.Y)<<6
		}
		args := func(n int) []uint32 {
			return []uint32{uint32(n), corner(chip.Core{}), corner(chip.Core{X: 1, Y: 1})}
		}
		for _, p := range []chip.Processor{chip.BRISC, chip.NCRISC} {
			run(b, on(im, p, args(0)...))
		}
		for i, want := range []string{
			"read of 64 bytes from 0x30004 of tile |to 0x40000 by |: the addresses must be equal modulo 16| at kernel.c:21 in kernel",
			"|: the addresses must be equal modulo | at kernel.c:22 in kernel",
			"write of 64 bytes from 0x40000 to 0x30000 of tile (15,15)|: the chip has no such tile at kernel.c:23",
			"write of 64 bytes|: it is beyond the tile's memory at kernel.c:24",
			"read of 64 bytes|: the address in the own L1 is beyond its end at kernel.c:25",
			"read of 64 bytes| to 0x0 by |: it would overwrite the firmware at kernel.c:26",
			"multicast of 64 bytes from 0x40000 to 0x30000 of tiles |: its corners aren't workers in the NoC's direction at kernel.c:27",
			"|: one request takes 1 byte to| at kernel.c:28",
			"atomic on the word at 0x30002 of tile |: the address is no multiple of 4 at kernel.c:29",
			"write of 4 bytes|: it would overwrite the firmware at kernel.c:30",
			"read of 64 bytes from 0xffb20000 of tile |: it is beyond the tile's memory at kernel.c:31",
			"write of 64 bytes|: it is beyond the tile's memory at kernel.c:32",
		} {
			p := chip.Processor(i % 2)
			f := fails(b, on(im, p, args(i+1)...))
			expect.Says(b, f, nil, split(want)...)
			if f.Check != watch.NoC || f.Request == nil || f.Processor != p {
				b.Errorf("%+v", f)
			}
		}
	})
}

//go:embed testdata/overflows.cc
var overflows string

func TestStack(t *testing.T) {
	onAll(t, func(b *devtest.Bench) {
		im := compile(b, "kernel.c", overflows)
		for p := range chip.Processor(chip.NumProcessors) {
			run(b, on(im, p, 0))
			f := fails(b, on(im, p, 1))
			expect.Says(b, f, nil, "stack overflow: the stack has reached the kernel's data, which end at 0xffb0",
				"in kernel \"kernel\" of program \"checked\" on "+p.String())
			expect.Equal(b, f.Check, watch.Stack, "%+v", f)
			if f = fails(b, on(im, p, 2)); f.Check != watch.Stack || f.File != "kernel.c" || f.Line != 15 {
				b.Errorf("at a check: %v", f)
			}
		}
	})
}

//go:embed testdata/metalRequests.cc
var metalRequests string

func TestMetalCalls(t *testing.T) {
	devtest.OnEmulators(t, func(b *devtest.Bench) {
		im := compile(b, "kernel.cpp", metalRequests)
		run(b, withBuffer(on(im, chip.BRISC, 0)))
		for i, want := range []string{
			"modulo 16 at kernel.cpp:9 in", "write of 8192 bytes|no such tile at kernel.cpp:13 in|", "no multiple of 4 at kernel.cpp:16 in",
			"the kernel pushes 3 pages, but has reserved 2 at kernel.cpp:21 in", "the own L1 is beyond its end at kernel.cpp:25 in",
		} {
			if b.Dev.Arch() == chip.Blackhole {
				want = strings.Replace(want, "8192", "16384", 1)
			}
			expect.Says(b, fails(b, withBuffer(on(im, chip.BRISC, uint32(i+1)))), nil, split(want)...)
		}
	})
}

const compute = `
#include "api/compute/cb_api.h"
#include "api/debug/assert.h"

void kernel_main() {
    cb_reserve_back(3, 2);
    ASSERT(get_arg_val<uint32_t>(0) != 2);
    if (get_arg_val<uint32_t>(0) == 1) {
        cb_push_back(3, 3);
    }
}
`

func TestCompute(t *testing.T) {
	devtest.OnEmulators(t, func(b *devtest.Bench) {
		c, err := kernels.CompileCompute(b.Ctx, kernels.ComputeSource{Source: kernels.Source{Path: "kernel.cpp", Text: compute,
			Arch: b.Dev.Arch(), Watch: true}})
		if errors.Is(err, kernels.ErrNoCompiler) {
			b.Skip(err)
		}
		b.Must(err)
		program := func(n uint32) *reprise.Program {
			p := on(c.Unpack, chip.TRISC0, n)
			for i, im := range c.Images() {
				k := p.Kernels[0]
				k.Image, k.Processor = im, chip.TRISC0+chip.Processor(i)
				p.Kernels = append(p.Kernels, k)
			}
			p.Kernels = p.Kernels[1:]
			return withBuffer(p)
		}
		run(b, program(0))
		expect.Says(b, fails(b, program(1)), nil, "the kernel pushes 3 pages, but has reserved 2 at kernel.cpp:9 in ", " on TRISC2 of")
		expect.Says(b, fails(b, program(2)), nil, "assertion `get_arg_val<uint32_t>(0) != 2` failed at kernel.cpp:7 in ", " on TRISC")
	})
}
