package watch_test

import (
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
	"github.com/reprise-tt/reprise/kernels"
	"github.com/reprise-tt/reprise/kernels/watch"
	"github.com/reprise-tt/reprise/sim"
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
	if fs, err := b.Dev.Debug().Failures(); err != nil || len(fs) != 0 {
		b.Errorf("after recovery: %v, %v", fs, err)
	}
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
			devtest.Says(b, f, "assertion `n < 4 && n % 2 == 1` failed at ", "kernel.c:7 in kernel \"kernel\" of program \"checked\" on "+
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
		devtest.Says(b, fails(b, on(im, chip.BRISC, 4)), "assertion `n != 4` failed at ", "kernel.cpp:4 in")
		devtest.Says(b, fails(b, on(im, chip.NCRISC, 5)), "assertion `n != 5`: five is \"too\" much, 100% failed at ", "kernel.cpp:5 in")
		devtest.Says(b, fails(b, on(im, chip.TRISC1, 6)), "assertion `n != 6 && \"a condition", "of each", " failed at ", "kernel.cpp:6 in")
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
