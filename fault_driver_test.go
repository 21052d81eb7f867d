//go:build linux

package reprise_test

import (
	"errors"
	"github.com/reprise-tt/reprise/dispatch"
	"io/fs"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/internal/kabi"
	"github.com/reprise-tt/reprise/internal/seam"
	"github.com/reprise-tt/reprise/kernels"
	"github.com/reprise-tt/reprise/kmd"
	"github.com/reprise-tt/reprise/sim/driver"
	"github.com/reprise-tt/reprise/sim/emu"
)

// machine is a computer with one emulated card, whose chip lives as long as the machine does, as
// silicon would.
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
	var err error
	if m.drv, err = driver.New(driver.Config{Arch: a, Functions: []driver.Function{m.chip()}}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := m.drv.Close(); err != nil {
			t.Error(err)
		}
	})
	return m
}

// chip makes a new chip.
func (m *machine) chip() *emu.Chip {
	m.Helper()
	c, err := emu.New(emu.Config{Arch: m.arch})
	if err != nil {
		m.Fatal(err)
	}
	return c
}

// String, Node and FS make a machine the target that is its card.
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

// idle checks that nothing of the driver's is held any more.
func (m *machine) idle() {
	m.Helper()
	if n := m.drv.Node(0).OpenFiles(); n != 0 {
		m.Errorf("%d files are still open", n)
	}
}

// A chip that stopped and stays stopped is reset by the driver, and everything works again.
func TestRecoverResetsAStoppedChip(t *testing.T) {
	t.Parallel() // it mostly waits
	onMachines(t, func(t *testing.T, m *machine) {
		b := open(t, m, short)
		r := newRig(b)
		wild := b.load(&reprise.Program{Name: "wild", Kernels: []reprise.Kernel{{
			Name: "store", Image: b.image(kernels.Store), Processor: chip.NCRISC, Cores: []chip.Range{chip.Single(0, 0)},
			Args: func(chip.Core) []uint32 { return []uint32{0x7FFF0000, 1, 1} },
		}}})
		r.before = b.allocated()
		for range 2 {
			b.must(b.queue.Run(b.ctx, wild))
			err := b.queue.Wait(b.ctx)
			b.hang(err)
			b.says(err, "0x7fff0000")
			r.recovers()
		}
		b.must(b.dev.Close(t.Context()))
		m.idle()
	})
}

// A card that others have open isn't reset under their hands.
func TestRecoverDoesNotTakeTheCardFromOthers(t *testing.T) {
	m := newMachine(t, chip.Blackhole)
	b := open(t, m, short)
	r := newRig(b)
	other := m.drv.NewProcess(4711, "neighbour")
	f, err := other.Node(0).Open(syscall.O_RDWR)
	b.must(err)
	wild := b.load(&reprise.Program{Name: "wild", Kernels: []reprise.Kernel{{
		Name: "store", Image: b.image(kernels.Store), Processor: chip.BRISC, Cores: []chip.Range{chip.Single(0, 0)},
		Args: func(chip.Core) []uint32 { return []uint32{0x7FFF0000, 1, 1} },
	}}})
	r.before = b.allocated()
	b.must(b.queue.Run(b.ctx, wild))
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

// A card that is taken out in the middle of replays is an error that says so, in every call, and a
// crash nowhere. When one is put back, Recover finds it and brings everything back.
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
		if !errors.Is(err, reprise.ErrDeviceLost) {
			t.Errorf("%v, want %v", err, reprise.ErrDeviceLost)
		}
		for what, err := range map[string]error{
			"write":  b.queue.Write(b.ctx, r.in, 0, make([]byte, 64)),
			"replay": r.trace.Replay(b.ctx),
			"finish": b.queue.Wait(b.ctx),
		} {
			if !errors.Is(err, reprise.ErrDeviceLost) {
				t.Errorf("%s afterwards: %v, want %v", what, err, reprise.ErrDeviceLost)
			}
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

// Another chip in the card's place isn't taken for the one before.
func TestRecoverRefusesAnotherChip(t *testing.T) {
	m := newMachine(t, chip.Wormhole)
	b := open(t, m, short)
	r := newRig(b)
	b.must(m.drv.Unplug(0))
	other, err := emu.New(emu.Config{Arch: m.arch, Harvesting: chip.Harvesting{Tensix: 1<<2 | 1<<5}})
	b.must(err)
	b.must(second(m.drv.Plug(0, other)))
	err = b.dev.Recover(b.ctx)
	if !errors.Is(err, dispatch.ErrOtherChip) {
		t.Errorf("%v, want %v", err, dispatch.ErrOtherChip)
	}
	b.says(err, "reprise: recover", "start", "open it anew")
	b.must(m.drv.Unplug(0))
	b.must(second(m.drv.Plug(0, m.chip())))
	r.recovers()
}

// Closing a device that hangs is no error, and leaves a chip whose cores are all held in reset.
func TestCloseAfterAHang(t *testing.T) {
	t.Parallel() // it mostly waits
	onMachines(t, func(t *testing.T, m *machine) {
		b := open(t, m, short)
		b.must(b.queue.Run(b.ctx, b.spin("forever", b.word(), chip.BRISC, b.dev.Grid())))
		b.hang(b.queue.Wait(b.ctx))
		p := b.dev.Arch().Params()
		cores := []chip.XY{dispatchCore(b)}
		c, err := chip.New(m.arch, chip.Harvesting{})
		b.must(err)
		for core := range b.dev.Grid().Cores() {
			xy, err := c.Virtual(core)
			b.must(err)
			cores = append(cores, xy)
		}
		b.must(b.dev.Close(t.Context()))
		m.idle()
		kd, err := kmd.Open(b.ctx, m)
		b.must(err)
		for _, xy := range cores {
			v, err := kd.Read32(xy, uint64(p.SoftReset))
			b.must(err)
			if v != p.ResetAll {
				t.Errorf("the soft reset register of %v is %#x, want %#x", xy, v, p.ResetAll)
			}
		}
		b.must(kd.Close())
	})
}

// A card that is gone can be closed, quickly and without an error: there is nothing to be done
// about it.
func TestCloseALostDevice(t *testing.T) {
	onMachines(t, func(t *testing.T, m *machine) {
		b := open(t, m, short)
		newRig(b)
		b.must(m.drv.Unplug(0))
		b.must(b.dev.Close(t.Context()))
		b.must(second(m.drv.Plug(0, m.chip())))
	})
}

// A card that falls off the bus reads all ones, which no wait takes for progress or for a hang of
// its own.
func TestDeviceOffTheBus(t *testing.T) {
	t.Parallel() // it mostly waits
	onMachines(t, func(t *testing.T, m *machine) {
		b := open(t, m, short)
		word := b.word()
		r := newRig(b)
		forever := b.spin("forever", word, chip.BRISC, chip.Single(0, 0))
		r.before = b.allocated()
		b.must(b.queue.Run(b.ctx, forever))
		end, err := m.drv.Node(0).Inject(driver.AllOnes)
		b.must(err)
		if err := b.queue.Wait(b.ctx); !errors.Is(err, reprise.ErrDeviceLost) {
			t.Errorf("%v, want %v", err, reprise.ErrDeviceLost)
		}
		if err := b.dev.Recover(b.ctx); !errors.Is(err, kmd.ErrReset) && !errors.Is(err, reprise.ErrDeviceLost) {
			t.Errorf("recover while it is off the bus: %v", err)
		}
		end()
		r.recovers()
	})
}

// A reset by somebody else takes the card away; Recover opens it again.
func TestResetBySomebodyElse(t *testing.T) {
	onMachines(t, func(t *testing.T, m *machine) {
		b := open(t, m, short)
		r := newRig(b)
		rep, err := kmd.Reset(b.ctx, m, kmd.ResetConfig{Mode: kmd.ResetASIC, Force: true})
		b.must(err)
		if len(rep.Losers) != 1 {
			t.Errorf("losers %v, want this process", rep.Losers)
		}
		if err := errors.Join(r.trace.Replay(b.ctx), b.queue.Wait(b.ctx)); !errors.Is(err, reprise.ErrDeviceLost) {
			t.Errorf("%v, want %v", err, reprise.ErrDeviceLost)
		}
		r.recovers()
	})
}

// pins remembers what a process pins.
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

// Host memory that is taken from the device is an error with the address that it wanted, and a
// recovery pins it anew.
func TestHostMemoryGone(t *testing.T) {
	t.Parallel() // it mostly waits
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

// ioctls lets a test look at requests before the driver gets them, and refuse them.
type ioctls struct {
	seam.File
	look func(req uint32) error
}

func (f *ioctls) Ioctl(req uint32, arg []byte) error {
	if err := f.look(req); err != nil {
		return err
	}
	return f.File.Ioctl(req, arg)
}

// ReleaseLast is what a file with others beside it is asked for.
func (f *ioctls) ReleaseLast() error { return f.File.(interface{ ReleaseLast() error }).ReleaseLast() }

// A device that works but doesn't start again is reset, though this process has it open more than
// once.
func TestRecoverResetsWhatDoesNotStart(t *testing.T) {
	onMachines(t, func(t *testing.T, m *machine) {
		refuse := false
		m.tap = func(f seam.File) seam.File {
			return &ioctls{f, func(req uint32) error {
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

// lateStores is a chip behind a bus that keeps what is stored until the next load, as PCIe may.
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

// landLocked lets everything arrive.
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

// Host memory is given up only when the stores that hold the cores in reset have arrived: until
// then cores use it.
func TestCoresAreHeldBeforeTheirMemoryGoes(t *testing.T) {
	for _, a := range []chip.Arch{chip.Wormhole, chip.Blackhole} {
		t.Run(a.String(), func(t *testing.T) {
			m := &machine{T: t, arch: a}
			l := &lateStores{Chip: m.chip()}
			var err error
			if m.drv, err = driver.New(driver.Config{Arch: a, Functions: []driver.Function{l}}); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				if err := m.drv.Close(); err != nil {
					t.Error(err)
				}
			})
			unpinned := 0
			m.tap = func(f seam.File) seam.File {
				return &ioctls{f, func(req uint32) error {
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
