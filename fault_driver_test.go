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
		if err := m.drv.Close(); err != nil {
			t.Error(err)
		}
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
	return b.load(&reprise.Program{Name: "wild", Kernels: []reprise.Kernel{{
		Name: "store", Image: b.image(kernels.Store), Processor: chip.NCRISC, Cores: []chip.Range{chip.Single(0, 0)},
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
		r.before = b.allocated()
		for range 2 {
			b.run(wild)
			err := b.queue.Wait(b.ctx)
			if h := b.hang(err); h.Dump.Unreachable == "" {
				t.Errorf("the dump of %v doesn't say that the chip is unreachable", err)
			}
			b.says(err, "0x7fff0000")
			r.recovers()
		}
		b.must(b.dev.Close(t.Context()))
		m.idle()
	})
}

func TestRecoverDoesNotTakeTheCardFromOthers(t *testing.T) {
	m := newMachine(t, chip.Blackhole)
	b := open(t, m, short)
	r := newRig(b)
	other := m.drv.NewProcess(4711, "neighbour")
	f, err := other.Node(0).Open(syscall.O_RDWR)
	b.must(err)
	wild := b.wild()
	r.before = b.allocated()
	b.run(wild)
	b.hang(b.queue.Wait(b.ctx))
	err = b.dev.Recover(b.ctx)
	var re *reprise.RecoverError
	var held *kmd.HeldError
	if !errors.As(err, &re) || !errors.As(err, &held) || len(held.Holders) != 1 || held.Holders[0].PID != 4711 {
		t.Fatalf("%v, want a *RecoverError that names process 4711", err)
	}
	b.must(f.Close())
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
			if err = r.trace.Replay(b.ctx); err == nil {
				err = b.queue.Wait(b.ctx)
			}
		}
		b.must(<-pulled)
		b.fails("", err, reprise.ErrDeviceLost)
		for what, err := range map[string]error{
			"write":  b.queue.Write(b.ctx, r.in, 0, make([]byte, 64)),
			"replay": r.trace.Replay(b.ctx),
			"finish": b.queue.Wait(b.ctx),
		} {
			b.fails(what+" afterwards", err, reprise.ErrDeviceLost)
		}
		err = b.dev.Recover(b.ctx)
		var re *reprise.RecoverError
		if !errors.As(err, &re) || re.Step != "reopen" {
			t.Errorf("recover without a card: %v, want a *RecoverError of the reopening", err)
		}
		b.must(second(m.drv.Plug(0, m.chip())))
		r.recovers()
		b.must(b.dev.Close(t.Context()))
		m.idle()
	})
}

func TestRecoverRefusesAnotherChip(t *testing.T) {
	m := newMachine(t, chip.Wormhole)
	b := open(t, m, short)
	r := newRig(b)
	b.must(m.drv.Unplug(0))
	other, err := emu.New(emu.Config{Arch: m.arch, Harvesting: chip.Harvesting{Tensix: 1<<2 | 1<<5}})
	b.must(err)
	b.must(second(m.drv.Plug(0, other)))
	err = b.dev.Recover(b.ctx)
	b.fails("", err, dispatch.ErrOtherChip)
	b.says(err, "reprise: recover", "start", "open it anew")
	b.must(m.drv.Unplug(0))
	b.must(second(m.drv.Plug(0, m.chip())))
	r.recovers()
}

func TestCloseAfterAHang(t *testing.T) {
	t.Parallel()
	onMachines(t, func(t *testing.T, m *machine) {
		b := open(t, m, reprise.WithHangTimeout(300*time.Millisecond))
		b.must(b.queue.Run(b.ctx, b.spin("forever", b.word(), chip.BRISC, b.dev.Grid())))
		b.hang(b.queue.Wait(b.ctx))
		p := b.dev.Arch().Params()
		cores := []chip.XY{dispatchCore(b)}
		c := value(chip.New(m.arch, chip.Harvesting{}))(b)
		for core := range b.dev.Grid().Cores() {
			xy := value(c.Virtual(core))(b)
			cores = append(cores, xy)
		}
		b.must(b.dev.Close(t.Context()))
		m.idle()
		kd := value(kmd.Open(b.ctx, m))(b)
		for _, xy := range cores {
			v := value(kd.Read32(xy, uint64(p.SoftReset)))(b)
			equal(t, v, p.ResetAll, "the soft reset register of %v", xy)
		}
		b.must(kd.Close())
	})
}

func TestCloseALostDevice(t *testing.T) {
	onMachines(t, func(t *testing.T, m *machine) {
		b := open(t, m, short)
		newRig(b)
		b.must(m.drv.Unplug(0))
		b.must(b.dev.Close(t.Context()))
		b.must(second(m.drv.Plug(0, m.chip())))
	})
}

func TestDeviceOffTheBus(t *testing.T) {
	t.Parallel()
	onMachines(t, func(t *testing.T, m *machine) {
		b := open(t, m, reprise.WithQueues(2), reprise.WithHangTimeout(time.Minute))
		word := b.word()
		r := newRig(b)
		forever := b.spin("forever", word, chip.BRISC, chip.Single(0, 0))
		r.before = b.allocated()
		b.run(forever)
		end, err := m.drv.Node(0).Inject(driver.AllOnes)
		b.must(err)
		begun := time.Now()
		err = b.queue.Wait(b.ctx)
		if took := time.Since(begun); took > 5*time.Second {
			t.Errorf("it was found after %v", took)
		}
		var hang *dispatch.HangError
		var lost *dispatch.LostError
		var first *kmd.LostError
		if !errors.As(err, &lost) || !errors.As(err, &first) || errors.As(err, &hang) {
			t.Fatalf("%v, want a *LostError and no *HangError", err)
		}
		b.says(err, "queue 0 lost its device: waiting for ", "last submitted forever: ", "device lost: it reads all ones")
		other := b.dev.Queue(1)
		p := make([]byte, word.Size())
		for what, err := range map[string]error{
			"wait": b.queue.Wait(b.ctx), "write": b.queue.Write(b.ctx, word, 0, p), "read": b.queue.Read(b.ctx, word, 0, p),
			"replay": r.trace.Replay(b.ctx), "load": second(b.dev.Load(b.ctx, b.blank("late", chip.Grid(1, 1)))),
			"wait on queue 1": other.Wait(b.ctx), "run on queue 1": other.Run(b.ctx, forever),
			"read on queue 1": other.Read(b.ctx, word, 0, p),
		} {
			b.fails(what, err, first)
			b.fails(what, err, reprise.ErrDeviceLost)
		}
		if err := b.dev.Recover(b.ctx); !errors.Is(err, kmd.ErrReset) && !errors.Is(err, reprise.ErrDeviceLost) {
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
		rep := value(kmd.Reset(b.ctx, m, kmd.ResetConfig{Mode: kmd.ResetASIC, Force: true}))(b)
		equal(t, len(rep.Losers), 1, "losers %v", rep.Losers)
		b.fails("", errors.Join(r.trace.Replay(b.ctx), b.queue.Wait(b.ctx)), reprise.ErrDeviceLost)
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
			b.must(p.Ioctl(kabi.IoctlUnpinPages, kabi.Bytes(&u)))
		}
		err := errors.Join(r.trace.Replay(b.ctx), b.queue.Wait(b.ctx))
		b.hang(err)
		b.says(err, "of host memory", "not mapped for this device")
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
			b.must(b.dev.Recover(b.ctx))
			recovered := unpinned
			late()
			b.must(b.dev.Close(t.Context()))
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
		mine, err := b.dev.NewHostBuffer(reprise.HostBufferConfig{Memory: mapped(t, 16<<10), Name: "mine"})
		b.must(err)
		x := b.buffer(reprise.BufferConfig{Kind: allocator.DRAM, Size: 16 << 10, PageSize: 1 << 10, Name: "x"})
		fill(h.Bytes(), 8)
		_, err = kmd.Reset(b.ctx, m, kmd.ResetConfig{Mode: kmd.ResetASIC, Force: true})
		b.must(err)
		b.fails("", b.queue.WriteFrom(b.ctx, x, 0, h, 0, x.Size()), reprise.ErrDeviceLost)
		if err := h.Release(b.ctx); err == nil {
			t.Error("memory of a device that may still use it was given up")
		}
		b.must(b.dev.Recover(b.ctx))
		b.must(b.queue.WriteFrom(b.ctx, x, 0, h, 0, x.Size()))
		b.must(b.queue.ReadTo(b.ctx, x, 0, mine, 0, x.Size()))
		if !bytes.Equal(mine.Bytes(), h.Bytes()[:x.Size()]) {
			t.Error("the data differ")
		}
		b.must(errors.Join(h.Release(b.ctx), mine.Release(b.ctx)))
	})
}

func TestStreamOfALostDevice(t *testing.T) {
	t.Parallel()
	onMachines(t, func(t *testing.T, m *machine) {
		b := open(t, m, short)
		s, err := stream.New(b.dev, stream.Config{Name: "tokens", Size: 256})
		b.must(err)
		room := b.perWorker("room")
		load := func() *reprise.Executable {
			args := append(s.Args(), room.Addr(), 4, 1<<32-1, 7, 0)
			p := &reprise.Program{Name: "source", Buffers: []*reprise.Buffer{room}, Kernels: []reprise.Kernel{{
				Name: "source", Image: b.image(kernels.StreamSource), Cores: []chip.Range{chip.Single(1, 1)},
				Args: func(chip.Core) []uint32 { return args },
			}}}
			s.AddTo(p)
			return b.load(p)
		}
		x := load()
		b.run(x)
		p := make([]byte, 4)
		_, err = s.Read(b.ctx, p)
		b.must(err)
		ended := make(chan error, 1)
		go func() {
			var err error
			for err == nil {
				_, err = s.Read(b.ctx, p)
			}
			ended <- err
		}()
		time.Sleep(5 * time.Millisecond)
		_, err = kmd.Reset(b.ctx, m, kmd.ResetConfig{Mode: kmd.ResetASIC, Force: true})
		b.must(err)
		b.fails("a read of a lost device", <-ended, reprise.ErrDeviceLost)
		b.must(b.dev.Recover(b.ctx))
		if _, _, err := s.TryRead(p); !errors.Is(err, stream.ErrStale) {
			t.Errorf("after the recovery: %v", err)
		}
		var moved *stream.MovedError
		if err := s.Reset(b.ctx); errors.As(err, &moved) {
			b.must(x.Release(b.ctx))
			x = load()
		} else {
			b.must(err)
		}
		b.run(x)
		if _, err := s.Read(b.ctx, p); err != nil || p[0] != 7 {
			t.Errorf("first message: % x, %v", p, err)
		}
		b.must(s.Close(b.ctx))
		b.wait()
		b.must(x.Release(b.ctx))
		b.must(s.Release(b.ctx))
	})
}

func cpuTime(t *testing.T) time.Duration {
	t.Helper()
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func TestIdleDeviceBurnsNothing(t *testing.T) {
	onEmulators(t, func(b *bench) {
		x := b.load(b.blank("nothing", b.dev.Grid()))
		b.run(x)
		for id := range b.dev.Queues() {
			b.must(b.dev.Queue(id).Wait(b.ctx))
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
		in, out := b.pages("in", 4), b.pages("out", 4)
		x := b.load(b.adder("add", chip.Core{}, in, out, 3))
		for i := range uint32(20) {
			b.write(in, i)
			b.run(x)
			b.holds(out, i+3)
		}
		b.must(b.queue.Run(b.ctx, b.spin("forever", b.word(), chip.BRISC, chip.Single(0, 0))))
		var hang *dispatch.HangError
		if err := b.queue.Wait(b.ctx); !errors.As(err, &hang) {
			t.Errorf("spin %v, longest %v: %v", pace.spin, pace.longest, err)
		}
	}
}
