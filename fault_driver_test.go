//go:build linux

package reprise_test

import (
	"bytes"
	"errors"
	"io/fs"
	"runtime/debug"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/allocator"
	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/dispatch"
	"github.com/reprise-tt/reprise/internal/devtest"
	"github.com/reprise-tt/reprise/internal/expect"
	"github.com/reprise-tt/reprise/internal/kabi"
	"github.com/reprise-tt/reprise/internal/seam"
	"github.com/reprise-tt/reprise/kernels"
	"github.com/reprise-tt/reprise/kmd"
	"github.com/reprise-tt/reprise/sim/driver"
	"github.com/reprise-tt/reprise/sim/emu"
	"github.com/reprise-tt/reprise/stream"
)

// machine is a computer with one card, whose chip lives as long as the machine does.
type machine struct {
	*testing.T
	drv  *driver.Driver
	arch chip.Arch
	proc *driver.Process // that opens the card, if not this one
	tap  func(seam.File) seam.File
}

func newMachine(t *testing.T, a chip.Arch) *machine {
	t.Helper()
	m := &machine{T: t, arch: a}
	m.start(m.chip())
	return m
}

func (m *machine) start(f driver.Function) {
	m.Helper()
	t := m.T
	var err error
	if m.drv, err = driver.New(driver.Config{Arch: m.arch, Functions: []driver.Function{f}}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		expect.Fails(t, m.drv.Close(), nil, "m.drv.Close()")
	})
}

func (m *machine) chip() *emu.Chip {
	m.Helper()
	return value(emu.New(emu.Config{Arch: m.arch}))(m)
}

func (m *machine) String() string { return m.arch.String() + " in a machine" }
func (m *machine) FS() fs.FS      { return m.drv.FS() }
func (m *machine) Node() seam.Node {
	var n seam.Node = m.drv.Node(0)
	if m.proc != nil {
		n = m.proc.Node(0)
	}
	if m.tap != nil {
		n = tapped{n, m.tap}
	}
	return n
}

type tapped struct {
	seam.Node
	tap func(seam.File) seam.File
}

func (n tapped) Open(flags int) (seam.File, error) {
	f, err := n.Node.Open(flags)
	if err != nil {
		return nil, err
	}
	return n.tap(f), nil
}

func onMachines(t *testing.T, run func(*testing.T, *machine)) {
	for _, a := range []chip.Arch{chip.Wormhole, chip.Blackhole} {
		t.Run(a.String(), func(t *testing.T) { run(t, newMachine(t, a)) })
	}
}

func (b *bench) wild() *reprise.Executable {
	b.Helper()
	return b.Load(&reprise.Program{Name: "wild", Kernels: []reprise.Kernel{{
		Name: "store", Image: b.Image(kernels.Store), Processor: chip.NCRISC, Cores: []chip.Range{chip.Single(0, 0)},
		Args: func(chip.Core) []uint32 { return []uint32{0x7FFF0000, 1, 1} },
	}}})
}

func (m *machine) idle() {
	m.Helper()
	equal(m, m.drv.Node(0).OpenFiles(), 0, "open files")
}

func TestRecoverResetsAStoppedChip(t *testing.T) {
	t.Parallel()
	onMachines(t, func(t *testing.T, m *machine) {
		b := open(t, m, short)
		r := newRig(b)
		wild := b.wild()
		r.before = b.Allocated()
		for range 2 {
			b.Execute(wild)
			err := b.Queue.Wait(b.Ctx)
			if h := b.hang(err); h.Dump.Unreachable == "" {
				t.Errorf("the dump of %v doesn't say that the chip is unreachable", err)
			}
			b.Says(err, "0x7fff0000")
			r.recovers()
		}
		b.Must(b.Dev.Close(t.Context()))
		m.idle()
	})
}

func TestRecoverDoesNotTakeTheCardFromOthers(t *testing.T) {
	m := newMachine(t, chip.Blackhole)
	b := open(t, m, short)
	r := newRig(b)
	other := m.drv.NewProcess(4711, "neighbour")
	f, err := other.Node(0).Open(syscall.O_RDWR)
	b.Must(err)
	wild := b.wild()
	r.before = b.Allocated()
	b.Execute(wild)
	b.hang(b.Queue.Wait(b.Ctx))
	err = b.Dev.Recover(b.Ctx)
	var re *reprise.RecoverError
	var held *kmd.HeldError
	if !errors.As(err, &re) || !errors.As(err, &held) || len(held.Holders) != 1 || held.Holders[0].PID != 4711 {
		t.Fatalf("%v, want a *RecoverError that names process 4711", err)
	}
	b.Must(f.Close())
	r.recovers()
}

func TestUnplugDuringReplays(t *testing.T) {
	onMachines(t, func(t *testing.T, m *machine) {
		b := open(t, m, short)
		r := newRig(b)
		pulled := make(chan error)
		go func() {
			time.Sleep(10 * time.Millisecond)
			pulled <- m.drv.Unplug(0)
		}()
		var err error
		for err == nil {
			if err = r.trace.Replay(b.Ctx); err == nil {
				err = b.Queue.Wait(b.Ctx)
			}
		}
		b.Must(<-pulled)
		b.fails("", err, reprise.ErrDeviceLost)
		for what, err := range map[string]error{
			"write":  b.Queue.Write(b.Ctx, r.in, 0, make([]byte, 64)),
			"replay": r.trace.Replay(b.Ctx),
			"finish": b.Queue.Wait(b.Ctx),
		} {
			b.fails(what+" afterwards", err, reprise.ErrDeviceLost)
		}
		err = b.Dev.Recover(b.Ctx)
		var re *reprise.RecoverError
		if !errors.As(err, &re) || re.Step != "reopen" {
			t.Errorf("recover without a card: %v, want a *RecoverError of the reopening", err)
		}
		b.Must(second(m.drv.Plug(0, m.chip())))
		r.recovers()
		b.Must(b.Dev.Close(t.Context()))
		m.idle()
	})
}

func TestRecoverRefusesAnotherChip(t *testing.T) {
	m := newMachine(t, chip.Wormhole)
	b := open(t, m, short)
	r := newRig(b)
	b.Must(m.drv.Unplug(0))
	other, err := emu.New(emu.Config{Arch: m.arch, Harvesting: chip.Harvesting{Tensix: 1<<2 | 1<<5}})
	b.Must(err)
	b.Must(second(m.drv.Plug(0, other)))
	err = b.Dev.Recover(b.Ctx)
	b.fails("", err, dispatch.ErrOtherChip)
	b.Says(err, "reprise: recover", "start", "open it anew")
	b.Must(m.drv.Unplug(0))
	b.Must(second(m.drv.Plug(0, m.chip())))
	r.recovers()
}

func TestCloseAfterAHang(t *testing.T) {
	t.Parallel()
	onMachines(t, func(t *testing.T, m *machine) {
		b := open(t, m, reprise.WithHangTimeout(300*time.Millisecond))
		b.Execute(b.spin("forever", b.word(), chip.BRISC, b.Dev.Grid()))
		b.hang(b.Queue.Wait(b.Ctx))
		p := b.Dev.Arch().Params()
		cores := []chip.XY{dispatchCore(b)}
		c := value(chip.New(m.arch, chip.Harvesting{}))(b)
		for core := range b.Dev.Grid().Cores() {
			xy := value(c.Virtual(core))(b)
			cores = append(cores, xy)
		}
		b.Must(b.Dev.Close(t.Context()))
		m.idle()
		kd := value(kmd.Open(b.Ctx, m))(b)
		for _, xy := range cores {
			v := value(kd.Read32(xy, uint64(p.SoftReset)))(b)
			equal(t, v, p.ResetAll, "the soft reset register of %v", xy)
		}
		b.Must(kd.Close())
	})
}

func TestCloseALostDevice(t *testing.T) {
	onMachines(t, func(t *testing.T, m *machine) {
		b := open(t, m, short)
		newRig(b)
		b.Must(m.drv.Unplug(0))
		b.Must(b.Dev.Close(t.Context()))
		b.Must(second(m.drv.Plug(0, m.chip())))
	})
}

func TestDeviceOffTheBus(t *testing.T) {
	t.Parallel()
	onMachines(t, func(t *testing.T, m *machine) {
		b := open(t, m, reprise.WithQueues(2), reprise.WithHangTimeout(time.Minute))
		word := b.word()
		r := newRig(b)
		forever := b.spin("forever", word, chip.BRISC, chip.Single(0, 0))
		r.before = b.Allocated()
		b.Execute(forever)
		end, err := m.drv.Node(0).Inject(driver.AllOnes)
		b.Must(err)
		begun := time.Now()
		err = b.Queue.Wait(b.Ctx)
		if took := time.Since(begun); took > 5*time.Second {
			t.Errorf("it was found after %v", took)
		}
		var hang *dispatch.HangError
		var lost *dispatch.LostError
		var first *kmd.LostError
		if !errors.As(err, &lost) || !errors.As(err, &first) || errors.As(err, &hang) {
			t.Fatalf("%v, want a *LostError and no *HangError", err)
		}
		b.Says(err, "queue 0 lost its device: waiting for ", "last submitted forever: ", "device lost: it reads all ones")
		other := b.Dev.Queue(1)
		p := make([]byte, word.Size())
		for what, err := range map[string]error{
			"wait": b.Queue.Wait(b.Ctx), "write": b.Queue.Write(b.Ctx, word, 0, p), "read": b.Queue.Read(b.Ctx, word, 0, p),
			"replay": r.trace.Replay(b.Ctx), "load": second(b.Dev.Load(b.Ctx, b.blank("late", chip.Grid(1, 1)))),
			"wait on queue 1": other.Wait(b.Ctx), "run on queue 1": other.Run(b.Ctx, forever),
			"read on queue 1": other.Read(b.Ctx, word, 0, p),
		} {
			b.fails(what, err, first)
			b.fails(what, err, reprise.ErrDeviceLost)
		}
		if err := b.Dev.Recover(b.Ctx); !errors.Is(err, kmd.ErrReset) && !errors.Is(err, reprise.ErrDeviceLost) {
			t.Errorf("recover while it is off the bus: %v", err)
		}
		end()
		r.recovers()
	})
}

func TestResetBySomebodyElse(t *testing.T) {
	onMachines(t, func(t *testing.T, m *machine) {
		b := open(t, m, short)
		r := newRig(b)
		rep := value(kmd.Reset(b.Ctx, m, kmd.ResetConfig{Mode: kmd.ResetASIC, Force: true}))(b)
		equal(t, len(rep.Losers), 1, "losers %v", rep.Losers)
		b.fails("", errors.Join(r.trace.Replay(b.Ctx), b.Queue.Wait(b.Ctx)), reprise.ErrDeviceLost)
		r.recovers()
	})
}

type pins struct {
	seam.File
	va, size []uint64
}

func (p *pins) ReleaseLast() error { return p.File.(interface{ ReleaseLast() error }).ReleaseLast() }

func (p *pins) Ioctl(req uint32, arg []byte) error {
	err := p.File.Ioctl(req, arg)
	if req == kabi.IoctlPinPages && err == nil {
		var in kabi.PinPagesIn
		copy(kabi.PartBytes(&in), arg)
		p.va, p.size = append(p.va, in.VirtualAddress), append(p.size, in.Size)
	}
	return err
}

func TestHostMemoryGone(t *testing.T) {
	t.Parallel()
	onMachines(t, func(t *testing.T, m *machine) {
		var p *pins
		m.tap = func(f seam.File) seam.File {
			if p != nil {
				return f // one of those that are open for their clean-up stores
			}
			p = &pins{File: f}
			return p
		}
		b := open(t, m, short)
		r := newRig(b)
		for i := range p.va {
			u := kabi.UnpinPages{In: kabi.UnpinPagesIn{VirtualAddress: p.va[i], Size: p.size[i]}}
			b.Must(p.Ioctl(kabi.IoctlUnpinPages, kabi.Bytes(&u)))
		}
		err := errors.Join(r.trace.Replay(b.Ctx), b.Queue.Wait(b.Ctx))
		b.hang(err)
		b.Says(err, "of host memory", "not mapped for this device")
		r.recovers()
	})
}

type ioctls struct {
	pins
	look func(req uint32) error
}

func (f *ioctls) Ioctl(req uint32, arg []byte) error {
	if err := f.look(req); err != nil {
		return err
	}
	return f.File.Ioctl(req, arg)
}

func TestRecoverResetsWhatDoesNotStart(t *testing.T) {
	onMachines(t, func(t *testing.T, m *machine) {
		refuse := false
		m.tap = func(f seam.File) seam.File {
			return &ioctls{pins{File: f}, func(req uint32) error {
				if refuse && req == kabi.IoctlPinPages {
					refuse = false
					return syscall.EINVAL
				}
				return nil
			}}
		}
		b := open(t, m, short)
		r := newRig(b)
		refuse = true
		r.recovers()
		if refuse {
			t.Error("nothing was refused")
		}
	})
}

// lateStores delays stores until the next load, as PCIe may.
type lateStores struct {
	*emu.Chip
	mu   sync.Mutex
	late bool
	kept []func()
}

func (l *lateStores) store(f func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.kept = append(l.kept, f); !l.late {
		l.landLocked()
	}
}

func (l *lateStores) landLocked() {
	for _, f := range l.kept {
		f()
	}
	l.kept = nil
}

func (l *lateStores) load() *emu.Chip {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.landLocked()
	return l.Chip
}

func (l *lateStores) BARStore(bar int, off uint64, width int, v uint64) {
	l.store(func() { l.Chip.BARStore(bar, off, width, v) })
}

func (l *lateStores) BARWrite(bar int, off uint64, p []byte) {
	p = slices.Clone(p)
	l.store(func() { l.Chip.BARWrite(bar, off, p) })
}

func (l *lateStores) BARLoad(bar int, off uint64, width int) uint64 {
	return l.load().BARLoad(bar, off, width)
}
func (l *lateStores) BARRead(bar int, off uint64, p []byte) { l.load().BARRead(bar, off, p) }

// Until the stores have arrived, cores use the memory.
func TestCoresAreHeldBeforeTheirMemoryGoes(t *testing.T) {
	for _, a := range []chip.Arch{chip.Wormhole, chip.Blackhole} {
		t.Run(a.String(), func(t *testing.T) {
			m := &machine{T: t, arch: a}
			l := &lateStores{Chip: m.chip()}
			m.start(l)
			unpinned := 0
			m.tap = func(f seam.File) seam.File {
				return &ioctls{pins{File: f}, func(req uint32) error {
					l.mu.Lock()
					defer l.mu.Unlock()
					if req == kabi.IoctlUnpinPages {
						unpinned++
						if n := len(l.kept); n > 0 {
							t.Errorf("host memory goes while %d stores are on their way", n)
						}
						l.late = false
					}
					return nil
				}}
			}
			late := func() {
				l.mu.Lock()
				defer l.mu.Unlock()
				l.late = true
			}
			b := open(t, m, short)
			b.host(64<<10, reprise.HostBufferConfig{Name: "h", Strict: true})
			late()
			b.Must(b.Dev.Recover(b.Ctx))
			recovered := unpinned
			late()
			b.Must(b.Dev.Close(t.Context()))
			if recovered == 0 || unpinned == recovered {
				t.Errorf("memory was given up %d times in a recovery and %d times in Close", recovered, unpinned-recovered)
			}
		})
	}
}

func TestPinnedMemoryOfALostDevice(t *testing.T) {
	onMachines(t, func(t *testing.T, m *machine) {
		b := open(t, m, short)
		h := b.host(64<<10, reprise.HostBufferConfig{Name: "h", Strict: true})
		mine := value(b.Dev.NewHostBuffer(reprise.HostBufferConfig{Memory: mapped(t, 16<<10), Name: "mine"}))(b)
		x := b.Buffer(reprise.BufferConfig{Kind: allocator.DRAM, Size: 16 << 10, PageSize: 1 << 10, Name: "x"})
		fill(h.Bytes(), 8)
		_ = value(kmd.Reset(b.Ctx, m, kmd.ResetConfig{Mode: kmd.ResetASIC, Force: true}))(b)
		b.fails("", b.Queue.WriteFrom(b.Ctx, x, 0, h, 0, x.Size()), reprise.ErrDeviceLost)
		expect.Error(t, h.Release(b.Ctx)) // the device may still use it
		b.Must(b.Dev.Recover(b.Ctx))
		b.Must(b.Queue.WriteFrom(b.Ctx, x, 0, h, 0, x.Size()))
		b.Must(b.Queue.ReadTo(b.Ctx, x, 0, mine, 0, x.Size()))
		if !bytes.Equal(mine.Bytes(), h.Bytes()[:x.Size()]) {
			t.Error("the data differ")
		}
		b.Must(errors.Join(h.Release(b.Ctx), mine.Release(b.Ctx)))
	})
}

func TestStreamOfALostDevice(t *testing.T) {
	t.Parallel()
	onMachines(t, func(t *testing.T, m *machine) {
		b := open(t, m, short)
		s := value(stream.New(b.Dev, stream.Config{Name: "tokens", Size: 256}))(b)
		room := b.perWorker("room")
		load := func() *reprise.Executable {
			args := append(s.Args(), room.Addr(), 4, 1<<32-1, 7, 0)
			p := &reprise.Program{Name: "source", Buffers: []*reprise.Buffer{room}, Kernels: []reprise.Kernel{{
				Name: "source", Image: b.Image(kernels.StreamSource), Cores: []chip.Range{chip.Single(1, 1)},
				Args: func(chip.Core) []uint32 { return args },
			}}}
			s.AddTo(p)
			return b.Load(p)
		}
		x := load()
		b.Execute(x)
		p := make([]byte, 4)
		_ = value(s.Read(b.Ctx, p))(b)
		ended := make(chan error, 1)
		go func() {
			var err error
			for err == nil {
				_, err = s.Read(b.Ctx, p)
			}
			ended <- err
		}()
		time.Sleep(5 * time.Millisecond)
		_ = value(kmd.Reset(b.Ctx, m, kmd.ResetConfig{Mode: kmd.ResetASIC, Force: true}))(b)
		b.fails("a read of a lost device", <-ended, reprise.ErrDeviceLost)
		b.Must(b.Dev.Recover(b.Ctx))
		if _, _, err := s.TryRead(p); !errors.Is(err, stream.ErrStale) {
			t.Errorf("after the recovery: %v", err)
		}
		var moved *stream.MovedError
		if err := s.Reset(b.Ctx); errors.As(err, &moved) {
			b.Must(x.Release(b.Ctx))
			x = load()
		} else {
			b.Must(err)
		}
		b.Execute(x)
		if _, err := s.Read(b.Ctx, p); err != nil || p[0] != 7 {
			t.Errorf("first message: % x, %v", p, err)
		}
		b.Must(s.Close(b.Ctx))
		b.Wait()
		b.Must(x.Release(b.Ctx))
		b.Must(s.Release(b.Ctx))
	})
}

func cpuTime(t *testing.T) time.Duration {
	t.Helper()
	var u unix.Rusage
	devtest.Must(t, unix.Getrusage(unix.RUSAGE_SELF, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func TestIdleDeviceBurnsNothing(t *testing.T) {
	onEmulators(t, func(b *bench) {
		x := b.Load(b.blank("nothing", b.Dev.Grid()))
		b.Execute(x)
		for id := range b.Dev.Queues() {
			b.Must(b.Dev.Queue(id).Wait(b.Ctx))
		}
		const idle = 300 * time.Millisecond
		// Collect garbage here and not in small portions later. What earlier tests left is gone
		// after a few tries.
		var used time.Duration
		for range 5 {
			debug.FreeOSMemory()
			time.Sleep(20 * time.Millisecond)
			before := cpuTime(b.T)
			time.Sleep(idle)
			if used = cpuTime(b.T) - before; used < 5*time.Millisecond {
				return
			}
		}
		b.Errorf("%v of processor time in %v of doing nothing", used, idle)
	}, reprise.WithQueues(2))
}

func TestPaces(t *testing.T) {
	for _, pace := range []struct{ spin, longest time.Duration }{
		{0, 0}, {time.Hour, time.Hour}, {50 * time.Microsecond, 5 * time.Millisecond},
	} {
		b := open(t, emulators[0](), reprise.WithPace(pace.spin, pace.longest), reprise.WithHangTimeout(400*time.Millisecond))
		in, out := b.Pages("in", 4), b.Pages("out", 4)
		x := b.Load(b.Adder("add", chip.Core{}, in, out, 3))
		for i := range uint32(20) {
			b.Write(in, i)
			b.Execute(x)
			b.Holds(out, i+3)
		}
		b.Execute(b.spin("forever", b.word(), chip.BRISC, chip.Single(0, 0)))
		var hang *dispatch.HangError
		if err := b.Queue.Wait(b.Ctx); !errors.As(err, &hang) {
			t.Errorf("spin %v, longest %v: %v", pace.spin, pace.longest, err)
		}
	}
}
