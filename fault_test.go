package reprise_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/allocator"
	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/dispatch"
	"github.com/reprise-tt/reprise/dispatch/cq"
	"github.com/reprise-tt/reprise/dispatch/postmortem"
	"github.com/reprise-tt/reprise/internal/devtest"
	"github.com/reprise-tt/reprise/internal/effort"
	"github.com/reprise-tt/reprise/kernels"
	"github.com/reprise-tt/reprise/kmd"
	"github.com/reprise-tt/reprise/sim"
	"github.com/reprise-tt/reprise/sim/emu"
)

func (b *bench) spin(name string, word *reprise.Buffer, proc chip.Processor, cores ...chip.Range) *reprise.Executable {
	b.Helper()
	return b.Load(&reprise.Program{Name: name, Buffers: []*reprise.Buffer{word}, Kernels: []reprise.Kernel{{
		Name: "wait", Image: b.Image(kernels.Spin), Processor: proc, Cores: cores,
		Args: func(chip.Core) []uint32 { return []uint32{word.Addr(), 1} },
	}}})
}

func (b *bench) word() *reprise.Buffer {
	b.Helper()
	word := b.perWorker("word")
	b.zero(word)
	return word
}

func (b *bench) hang(err error) *dispatch.HangError {
	b.Helper()
	var h *dispatch.HangError
	if !errors.As(err, &h) {
		b.Fatalf("%v, want a *HangError", err)
	}
	return h
}

func TestHangLeavesADump(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	onEmulators(t, func(b *bench) {
		word := b.word()
		in, out := b.Pages("in", 4), b.Pages("out", 4)
		trace := b.Capture("trace", b.Load(b.Adder("add", chip.Core{}, in, out, 1)))
		b.Replay(trace)
		b.Execute(b.spin("forever", word, chip.TRISC1, chip.Single(2, 1)))
		b.Replay(trace)
		err := b.Queue.Wait(b.Ctx)
		h := b.hang(err)
		b.Says(err, "queue 0 hangs", "last submitted trace", "no progress for", "; see "+dir)
		f := value(os.Open(h.File))(b)
		defer f.Close()
		d := value(postmortem.ReadDump(f))(b)
		var text strings.Builder
		b.Must(d.Print(&text))
		if !strings.HasSuffix(h.Detail(), text.String()) {
			b.Errorf("the file says\n%s\nthe error\n%s", &text, h.Detail())
		}
		b.Says(errors.New(strings.ReplaceAll(text.String(), "\n", " ")),
			"waits for workers: completion stream 48", "entry", "SEND_GO_SIGNAL", "EXEC_BUF",
			"dispatch ring, newest commands last", "<- waits here", "the trace that was replayed last has",
			"core (2,1) (worker)", "TRISC1  SEMW", fmt.Sprintf("the word is at L1 address %#x", word.Addr()))
		st := value(f.Stat())(b)
		if st.Size() > 256<<10 {
			b.Errorf("the file has %d B", st.Size())
		}
	}, short, reprise.WithDumpDir(dir))
}

func TestFaultNamesTheKernel(t *testing.T) {
	onEmulators(t, func(b *bench) {
		n := b.Pages("n", 2)
		p := b.Adder("faulty", chip.Core{X: 3, Y: 2}, n, n, 1)
		bad := &p.Kernels[0]
		for i := range p.Kernels {
			if p.Kernels[i].Processor == chip.NCRISC {
				bad = &p.Kernels[i]
			}
		}
		bad.Args = func(chip.Core) []uint32 { return []uint32{0xFFFFFFF1, 0xFFFFFFFF, 3, 64, 16, 1, 1, 1} }
		for i := range 3 {
			b.Execute(b.Load(b.blank(fmt.Sprint("before ", i), chip.Grid(4, 4))))
		}
		b.Execute(b.Load(p))
		err := b.Queue.Wait(b.Ctx)
		var k *dispatch.KernelError
		if !errors.As(err, &k) || k.Core != (chip.Core{X: 3, Y: 2}) || k.Processor != chip.NCRISC || k.Kernel != bad.Name ||
			k.Program != "faulty" || k.Offset >= uint32(len(bad.Image.Text)) || !errors.Is(err, emu.ErrRefused) {
			b.Fatalf("%v: %+v", err, k)
		}
		if len(k.Frames) == 0 || k.Frames[0].Function != "kernel_main" || k.Frames[0].File != "" { // its file has symbols alone
			b.Errorf("frames %+v", k.Frames)
		}
		b.Says(err, fmt.Sprintf("kernel %q of program \"faulty\" on NCRISC of core (3,2), at +0x", bad.Name), " of its text, kernel_main: ",
			"(core (3,2)) NCRISC pc=0x")
	})
}

// With sim.Findings the program goes on, and its kernels are known afterwards.
func TestFindingNamesTheKernel(t *testing.T) {
	for _, card := range []func(...sim.Option) *sim.Card{sim.Wormhole, sim.Blackhole} {
		var found []error
		b := open(t, card(sim.Strict(1), sim.RunToIdle(), sim.Findings(func(f *emu.Finding) { found = append(found, &f.Refusal) })))
		word, p := b.word(), &reprise.Program{Name: "racy"}
		for i, processor := range []chip.Processor{chip.BRISC, chip.NCRISC} {
			p.Kernels = append(p.Kernels, reprise.Kernel{Name: fmt.Sprint("store ", i), Processor: processor,
				Cores: []chip.Range{chip.Single(1, 2)},
				Image: value(kernels.Prebuilt(b.Dev.Arch(), kernels.Store))(b),
				Args:  func(chip.Core) []uint32 { return []uint32{word.Addr(), 1, uint32(i) + 1} }, Common: []uint32{0}})
		}
		b.Execute(b.Load(p))
		b.Must(b.Queue.Wait(b.Ctx))
		if len(found) != 1 {
			t.Fatalf("findings %v", found)
		}
		var k *dispatch.KernelError
		if err := b.Queue.Blame(found[0]); !errors.As(err, &k) || k.Core != (chip.Core{X: 1, Y: 2}) || k.Program != "racy" ||
			!strings.HasPrefix(k.Kernel, "store ") || len(k.Frames) == 0 {
			t.Errorf("%v: %+v", err, k)
		}
	}
}

func TestHangIsToldOnce(t *testing.T) {
	b := open(t, sim.Blackhole(), reprise.WithHangTimeout(500*time.Millisecond), reprise.WithDumpDir(t.TempDir()))
	word := b.word()
	x := b.spin("forever", word, chip.BRISC, chip.Grid(3, 2))
	b.Execute(x)
	err := b.Queue.Wait(b.Ctx)
	h := b.hang(err)
	b.Says(err, "queue 0 hangs: waiting for", "last submitted forever", "8 of 140 cores busy (workers (0,0)-(2,1), prefetch (",
		"), dispatch (", "no progress for 500ms", "; see "+h.File)
	for _, err := range []error{b.Queue.Wait(b.Ctx), b.Queue.Run(b.Ctx, x), b.Queue.Read(b.Ctx, word, 0, make([]byte, word.Size()))} {
		if b.hang(err) != h || strings.Contains(err.Error(), "cores busy") {
			t.Errorf("the next error is %v", err)
		}
		b.Says(err, "queue 0 hangs since it waited for the commands so far to finish: no progress for 500ms; see "+h.File)
	}
}

func TestDumpThatCannotBeWritten(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "dumps")
	devtest.Must(t, os.Mkdir(dir, 0o777))
	b := open(t, sim.Blackhole(), reprise.WithHangTimeout(500*time.Millisecond), reprise.WithDumpDir(dir))
	b.Must(os.Remove(dir))
	b.Execute(b.spin("forever", b.word(), chip.BRISC, chip.Single(0, 0)))
	h := b.hang(b.Queue.Wait(b.Ctx))
	if h.File != "" || !errors.Is(h.FileErr, fs.ErrNotExist) || !strings.Contains(h.Detail(), "could not be written") {
		t.Errorf("file %q, %v", h.File, h.FileErr)
	}
}

func TestLongProgramsAreNoHang(t *testing.T) {
	card := sim.Wormhole()
	b := open(t, card, reprise.WithHangTimeout(500*time.Millisecond))
	word := b.word()
	c := value(kmd.Open(b.Ctx, card))(b)
	b.Execute(b.spin("steps", word, chip.BRISC, b.Dev.Grid()))
	done := make(chan error, 1)
	go func() { done <- b.Queue.Wait(b.Ctx) }()
	// Each step takes less than the hang timeout, all together take more.
	for core := range b.Dev.Grid().Cores() {
		xy := value(b.Dev.Virtual(core))(b)
		b.Must(c.Write32(xy, uint64(word.Addr()), 1))
		time.Sleep(10 * time.Millisecond)
	}
	b.Must(errors.Join(<-done, c.Close()))
}

func TestHangOfTheEngines(t *testing.T) {
	onEmulators(t, func(b *bench) {
		p, err := devtest.SemaphoreWait(b.Ctx, b.Dev, chip.Core{X: 2, Y: 1}, 0)
		if errors.Is(err, kernels.ErrNoCompiler) {
			b.Skip(err)
		}
		b.Must(err)
		x := b.Load(p)
		b.Execute(x)
		h := b.hang(b.Queue.Wait(b.Ctx))
		if want := "its engines: SEMWAIT 0xa6ff8005 waits while semaphore 0 is 0"; !strings.Contains(h.Detail(), want) {
			b.Errorf("the report doesn't say %q:\n%s", want, h.Detail())
		}
	}, reprise.WithHangTimeout(300*time.Millisecond))
}

type rig struct {
	*bench
	in, mid, out *reprise.Buffer
	first        *reprise.Executable
	trace        *reprise.Trace
	before       map[allocator.Kind]uint64
}

// newRig records two programs and closes the second: only the trace has its kernels.
func newRig(b *bench) *rig {
	b.Helper()
	r := &rig{bench: b, in: b.Pages("in", 8), mid: b.Pages("mid", 8), out: b.Pages("out", 8)}
	r.first = b.Load(b.Adder("first", chip.Core{X: 1}, r.in, r.mid, 10))
	second := b.Load(b.Adder("second", chip.Core{X: 2, Y: 1}, r.mid, r.out, 100))
	r.trace = b.Capture("both", r.first, second)
	b.Must(second.Release(b.Ctx))
	r.works("before")
	r.before = b.Allocated()
	return r
}

func (r *rig) works(when string) {
	r.Helper()
	r.Write(r.in, 7)
	r.Write(r.mid, 0)
	r.Write(r.out, 0)
	for range 3 {
		r.Replay(r.trace)
	}
	r.Holds(r.mid, 17)
	r.Holds(r.out, 117)
	r.Write(r.in, 1000)
	r.Execute(r.first)
	r.Holds(r.mid, 1010)
	if r.Failed() {
		r.Fatalf("%s: wrong results", when)
	}
}

func (r *rig) recovers() {
	r.Helper()
	r.Must(r.Dev.Recover(r.Ctx))
	r.sameMemory(r.before)
	r.works("after Recover")
	x := r.Load(r.Adder("new", chip.Core{X: 1, Y: 2}, r.in, r.out, 5))
	t := r.Capture("new", x)
	r.Replay(t)
	r.Holds(r.out, 1005)
	r.Must(t.Release(r.Ctx))
	r.Must(x.Release(r.Ctx))
	r.sameMemory(r.before)
}

// short is enough for progress on a loaded machine.
var short = reprise.WithHangTimeout(1500 * time.Millisecond)

func TestRecoverEndsWaits(t *testing.T) {
	onEmulators(t, func(b *bench) {
		word := b.word()
		r := newRig(b)
		forever := b.spin("forever", word, chip.TRISC2, chip.Single(1, 1))
		h := b.host(r.in.Size(), reprise.HostBufferConfig{Name: "h", Strict: true})
		r.before = b.Allocated()
		b.Execute(forever)
		write, err := b.Queue.StartWriteFrom(b.Ctx, r.in, 0, h, 0, r.in.Size())
		b.Must(err)
		errs := make(chan error)
		const waiters = 3
		for range waiters {
			go func() { errs <- b.Queue.Wait(b.Ctx) }()
		}
		time.Sleep(5 * time.Millisecond) // so that some workers wait already
		done := make(chan error, 1)
		go func() { done <- b.Dev.Recover(b.Ctx) }()
		for range waiters {
			if err := <-errs; err != nil && !errors.Is(err, reprise.ErrRecovering) {
				b.Errorf("a wait ended with %v, want %v", err, reprise.ErrRecovering)
			}
		}
		b.Must(<-done)
		err = write.Wait(b.Ctx)
		b.fails("a write of before", err, reprise.ErrRecovering)
		b.Says(err, "write buffer")
		b.Must(b.Queue.WriteFrom(b.Ctx, r.in, 0, h, 0, r.in.Size()))
		r.recovers()
	})
}

func TestRecoverErrors(t *testing.T) {
	b := open(t, sim.Blackhole())
	r := newRig(b)
	cancelled, cancel := context.WithCancelCause(b.Ctx)
	cancel(errors.New("no time"))
	err := b.Dev.Recover(cancelled)
	var re *reprise.RecoverError
	if !errors.As(err, &re) || re.Step != "start" {
		t.Errorf("%v, want a *RecoverError of the start", err)
	}
	b.Says(err, "reprise: recover emulated blackhole 0: start:")
	b.fails("after a recovery that failed", b.Queue.Wait(b.Ctx), reprise.ErrRecovering)
	r.recovers()
	b.Must(b.Dev.Close(t.Context()))
	b.fails("recover a closed device", b.Dev.Recover(b.Ctx), reprise.ErrClosed)
}

// dispatchCore is the second of the last row on Wormhole, of the last column on Blackhole.
func dispatchCore(b *bench) chip.XY {
	b.Helper()
	c := value(chip.New(b.Dev.Arch(), chip.Harvesting{}))(b)
	w, h := c.Grid()
	core := chip.Core{X: w - 1, Y: 1}
	if b.Dev.Arch() == chip.Wormhole {
		core = chip.Core{X: 1, Y: h - 1}
	}
	return value(c.Virtual(core))(b)
}

func TestHangNamesTheProgram(t *testing.T) {
	effort.Long(t)
	onEmulators(t, func(b *bench) {
		n := b.Pages("n", 2)
		one := b.Load(b.Adder("one", chip.Core{X: 1, Y: 2}, n, n, 0))
		two := b.Load(b.Adder("two", chip.Core{X: 1, Y: 3}, n, n, 0))
		spin := b.spin("spin", b.word(), chip.BRISC, chip.Single(2, 2))
		straight := b.Capture("straight", one, two, spin, one)
		looped := b.Record("looped", func(r *reprise.Recorder) error {
			return errors.Join(r.Run(two), r.Loop(2, runs(r, one, two)))
		})
		always := reprise.Cond{Buffer: n, Is: cq.Less, Value: 20}
		never := reprise.Cond{Buffer: n, Is: cq.Greater, Value: 20}
		for _, tt := range []struct {
			name   string
			record func(r *reprise.Recorder) error
			want   string // the loop and the programs, each with its trace and loops
			ahead  bool   // others may be named as well
			ended  bool
		}{
			{"while", func(r *reprise.Recorder) error { return r.While(always, 5, runs(r, one, spin, two)) }, "spin/t[0]", false, false},
			{"nested", func(r *reprise.Recorder) error {
				return r.Loop(3, func() error {
					return errors.Join(r.Run(one),
						r.While(always, 5, func() error { return errors.Join(r.Run(two), r.Loop(2, runs(r, one, spin))) }))
				})
			}, "spin/t[0 1 2]", false, false},
			{"branch", func(r *reprise.Recorder) error {
				return r.While(always, 5, func() error {
					return errors.Join(r.Run(two), r.If(never, runs(r, one, one), runs(r, one, spin)), r.Run(two))
				})
			}, "spin/t[0]", true, false},
			{"call", func(r *reprise.Recorder) error {
				return r.While(always, 5, func() error { return errors.Join(r.Run(two), r.Call(straight), r.Run(two)) })
			}, "spin/straight[]", false, false},
			{"loops in a row", func(r *reprise.Recorder) error {
				return errors.Join(r.Loop(3, runs(r, one, two)), r.Loop(2, runs(r, two, spin)), r.Loop(3, runs(r, one, one)))
			}, "spin/t[1]", true, false},
			{"limit", func(r *reprise.Recorder) error { return r.While(always, 3, runs(r, one, two)) }, "two/t[0]", false, true},
			{"limit after a branch", func(r *reprise.Recorder) error {
				return r.While(always, 3, func() error { return r.If(never, runs(r, one), runs(r, two)) })
			}, "two/t[0]", true, true},
			{"limit after a call", func(r *reprise.Recorder) error {
				return r.While(always, 3, func() error { return errors.Join(r.Run(one), r.Call(looped)) })
			}, "two/looped[0]", false, true},
		} {
			trace := b.Record("t", tt.record)
			b.Write(n, 0)
			b.Replay(trace)
			h := b.hang(b.Queue.Wait(b.Ctx))
			var got []string
			for _, p := range h.Dump.Queues[0].Programs {
				got = append(got, described(p))
				equal(b, p.Ended, tt.ended, "%s: %v: ended", tt.name, p)
			}
			if !slices.Contains(got, tt.want) || !tt.ahead && len(got) != 1 {
				b.Errorf("%s: %q, want %s\n%s", tt.name, got, tt.want, h.Detail())
			}
			if name, _, _ := strings.Cut(tt.want, "/"); !strings.Contains(h.Error(), "program \""+name+"\"") ||
				!strings.Contains(h.Detail(), "in its trace ") {
				b.Errorf("%s: the report doesn't name %q: %v", tt.name, name, h)
			}
			b.Must(b.Dev.Recover(b.Ctx))
			b.Must(trace.Release(b.Ctx))
		}
		b.Must(errors.Join(straight.Release(b.Ctx), looped.Release(b.Ctx)))
	}, reprise.WithHangTimeout(300*time.Millisecond))
}

// described is as "spin/t[0 1]": program, trace and loops.
func described(p postmortem.TraceProgram) string {
	return p.Program + "/" + p.Trace + fmt.Sprint(p.Loops)
}

// After a hang every use of the queue fails with the same cause, until Recover brings everything
// back. That can be repeated.
func TestRecoverFromAHungKernel(t *testing.T) {
	b := open(t, sim.Blackhole(), short)
	word, r := b.word(), newRig(b)
	forever := b.spin("forever", word, chip.BRISC, chip.Single(0, 0), chip.Single(3, 3))
	r.before = b.Allocated()
	for range 2 {
		b.zero(word)
		b.Execute(forever)
		b.Replay(r.trace)
		h := b.hang(b.Queue.Wait(b.Ctx))
		for what, err := range map[string]error{
			"write":  b.Queue.Write(b.Ctx, r.in, 0, make([]byte, 64)),
			"read":   b.Queue.Read(b.Ctx, r.in, 0, make([]byte, 64)),
			"run":    b.Queue.Run(b.Ctx, r.first),
			"replay": r.trace.Replay(b.Ctx),
			"wait":   b.Queue.Wait(b.Ctx),
		} {
			var again *dispatch.HangError
			if !errors.As(err, &again) || again != h {
				b.Errorf("%s after a hang: %v, want the hang", what, err)
			}
		}
		r.recovers()
	}
}

// A dispatcher that somebody holds in reset is named in the report, and brought back.
func TestRecoverFromAHeldDispatcher(t *testing.T) {
	target := sim.Wormhole()
	b := open(t, target, short)
	r := newRig(b)
	other := value(kmd.Open(b.Ctx, target))(b)
	defer func() { b.Must(other.Close()) }()
	c := value(chip.New(b.Dev.Arch(), chip.Harvesting{}))(b)
	_, h := c.Grid()
	core, err := c.Virtual(chip.Core{X: 1, Y: h - 1}) // the second core of the last row, the first queue's dispatcher
	b.Must(err)
	reg := uint64(b.Dev.Arch().Params().SoftReset)
	held := value(other.Read32(core, reg))(b)
	b.Must(other.Write32(core, reg, held|1<<11)) // BRISC
	b.Replay(r.trace)
	hang := b.hang(b.Queue.Wait(b.Ctx))
	b.Says(errors.New(strings.ReplaceAll(hang.Detail(), "\n", " ")), "(dispatch): held in reset: BRISC")
	r.recovers()
}
