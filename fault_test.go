package reprise_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/reprise-tt/reprise"

	"github.com/reprise-tt/reprise/allocator"
	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/dispatch"
	"github.com/reprise-tt/reprise/dispatch/postmortem"
	"github.com/reprise-tt/reprise/kernels"
	"github.com/reprise-tt/reprise/sim"
	"github.com/reprise-tt/reprise/sim/emu"
)

// spin is a program that waits on the given cores until the first word of an L1 buffer is 1.
func (b *bench) spin(name string, word *reprise.Buffer, proc chip.Processor, cores ...chip.Range) *reprise.Executable {
	b.Helper()
	return b.load(&reprise.Program{Name: name, Buffers: []*reprise.Buffer{word}, Kernels: []reprise.Kernel{{
		Name: "wait", Image: b.image(kernels.Spin), Processor: proc, Cores: cores,
		Args: func(chip.Core) []uint32 { return []uint32{word.Addr(), 1} },
	}}})
}

func (b *bench) word() *reprise.Buffer {
	b.Helper()
	n := (b.dev.Grid().End.X + 1) * (b.dev.Grid().End.Y + 1)
	word := b.buffer(reprise.BufferConfig{Kind: allocator.L1, Size: 64 * n, PageSize: 64, Name: "word"})
	b.must(b.queue.Write(b.ctx, word, 0, make([]byte, 64*n)))
	return word
}

// hang returns the error of a wait that must end in a *HangError.
func (b *bench) hang(err error) *dispatch.HangError {
	b.Helper()
	var h *dispatch.HangError
	if !errors.As(err, &h) {
		b.Fatalf("%v, want a *HangError", err)
	}
	return h
}

// A hang leaves a file that says the same as the error, down to the command that the dispatcher
// waits at and the word that the kernel waits for.
func TestHangLeavesADump(t *testing.T) {
	t.Parallel() // it mostly waits
	dir := t.TempDir()
	onEmulators(t, func(b *bench) {
		word := b.word()
		in, out := b.pages("in", 4), b.pages("out", 4)
		trace := b.capture("trace", b.load(b.adder("add", chip.Core{}, in, out, 1)))
		b.must(trace.Replay(b.ctx))
		b.must(b.queue.Run(b.ctx, b.spin("forever", word, chip.TRISC1, chip.Single(2, 1))))
		b.must(trace.Replay(b.ctx))
		err := b.queue.Wait(b.ctx)
		h := b.hang(err)
		b.says(err, "queue 0 hangs", "last submitted trace", "no progress for", "; see "+dir)
		f, err := os.Open(h.File)
		b.must(err)
		defer f.Close()
		d, err := postmortem.ReadDump(f)
		b.must(err)
		var text strings.Builder
		b.must(d.Print(&text))
		if !strings.HasSuffix(h.Detail(), text.String()) {
			b.Errorf("the file says\n%s\nthe error\n%s", &text, h.Detail())
		}
		b.says(errors.New(strings.ReplaceAll(text.String(), "\n", " ")),
			"waits for workers: completion stream 48", "entry", "SEND_GO_SIGNAL", "EXEC_BUF",
			"dispatch ring, newest commands last", "<- waits here", "the trace that was replayed last has",
			"core (2,1) (worker)", "TRISC1  SEMW", fmt.Sprintf("the word is at L1 address %#x", word.Addr()))
		st, err := f.Stat()
		b.must(err)
		if st.Size() > 256<<10 {
			b.Errorf("the file has %d B", st.Size())
		}
	}, short, reprise.WithDumpDir(dir))
}

// The error of a chip that a kernel has stopped names the kernel and the core as the program does,
// in whatever program and wherever its text lies.
func TestFaultNamesTheKernel(t *testing.T) {
	onEmulators(t, func(b *bench) {
		n := b.pages("n", 2)
		p := b.adder("faulty", chip.Core{X: 3, Y: 2}, n, n, 1)
		bad := &p.Kernels[0]
		for i := range p.Kernels {
			if p.Kernels[i].Processor == chip.NCRISC {
				bad = &p.Kernels[i]
			}
		}
		bad.Args = func(chip.Core) []uint32 { return []uint32{0xFFFFFFF1, 0xFFFFFFFF, 3, 64, 16, 1, 1, 1} }
		for i := range 3 {
			b.must(b.queue.Run(b.ctx, b.load(b.blank(fmt.Sprint("before ", i), chip.Grid(4, 4)))))
		}
		b.must(b.queue.Run(b.ctx, b.load(p)))
		err := b.queue.Wait(b.ctx)
		var k *dispatch.KernelError
		if !errors.As(err, &k) || k.Core != (chip.Core{X: 3, Y: 2}) || k.Processor != chip.NCRISC || k.Kernel != bad.Name ||
			k.Program != "faulty" || k.Offset >= uint32(len(bad.Image.Text)) || !errors.Is(err, emu.ErrRefused) {
			b.Fatalf("%v: %+v", err, k)
		}
		if len(k.Frames) == 0 || k.Frames[0].Function != "kernel_main" || k.Frames[0].File != "" { // its file has symbols alone
			b.Errorf("frames %+v", k.Frames)
		}
		b.says(err, fmt.Sprintf("kernel %q of program \"faulty\" on NCRISC of core (3,2), at +0x", bad.Name), " of its text, kernel_main: ",
			"(core (3,2)) NCRISC pc=0x")
	})
}

// The first error of a hang says which cores are busy, and everything else; those after it say only
// that the queue hangs, and are the same *HangError all the same.
func TestHangIsToldOnce(t *testing.T) {
	b := open(t, sim.Blackhole(), reprise.WithHangTimeout(500*time.Millisecond), reprise.WithDumpDir(t.TempDir()))
	x := b.spin("forever", b.word(), chip.BRISC, chip.Grid(3, 2))
	b.must(b.queue.Run(b.ctx, x))
	err := b.queue.Wait(b.ctx)
	h := b.hang(err)
	b.says(err, "queue 0 hangs: waiting for", "last submitted forever", "8 of 140 cores busy (workers (0,0)-(2,1), prefetch (",
		"), dispatch (", "no progress for 500ms", "; see "+h.File)
	for _, err := range []error{b.queue.Wait(b.ctx), b.queue.Run(b.ctx, x)} {
		if b.hang(err) != h || strings.Contains(err.Error(), "cores busy") {
			t.Errorf("the next error is %v", err)
		}
		b.says(err, "queue 0 hangs since it waited for the commands so far to finish: no progress for 500ms; see "+h.File)
	}
}

// A dump that can't be written is no reason to hide the hang.
func TestDumpThatCannotBeWritten(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "dumps")
	if err := os.Mkdir(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	b := open(t, sim.Blackhole(), reprise.WithHangTimeout(500*time.Millisecond), reprise.WithDumpDir(dir))
	b.must(os.Remove(dir))
	b.must(b.queue.Run(b.ctx, b.spin("forever", b.word(), chip.BRISC, chip.Single(0, 0))))
	h := b.hang(b.queue.Wait(b.ctx))
	if h.File != "" || !errors.Is(h.FileErr, fs.ErrNotExist) || !strings.Contains(h.Detail(), "could not be written") {
		t.Errorf("file %q, %v", h.File, h.FileErr)
	}
}

// A program that takes much longer than the hang timeout is no hang as long as its kernels move.
func TestLongProgramsAreNoHang(t *testing.T) {
	card := sim.Wormhole()
	b := open(t, card, reprise.WithHangTimeout(300*time.Millisecond))
	word := b.word()
	b.must(b.queue.Run(b.ctx, b.spin("steps", word, chip.BRISC, b.dev.Grid())))
	done := make(chan error, 1)
	go func() { done <- b.queue.Wait(b.ctx) }()
	// The cores are let go one after the other, each well within the timeout, all of them well
	// behind it.
	for core := range b.dev.Grid().Cores() {
		poke(b, card, core, word.Addr(), 1)
		time.Sleep(10 * time.Millisecond)
	}
	b.must(<-done)
}
