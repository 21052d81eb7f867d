//go:build linux

package driver

import (
	"encoding/binary"
	"errors"
	"fmt"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/internal/effort"
	"github.com/reprise-tt/reprise/internal/kabi"
	"github.com/reprise-tt/reprise/internal/seam"
)

func TestAssertion33_Locks(t *testing.T) {
	r := newRig(t, chip.Wormhole)
	a, b := r.open(0), r.open(0)
	do := func(what string, f seam.File, op uint32, i, w uint8) {
		t.Helper()
		equal(t, value(lock(f, op, i))(t), w, "%s", what)
	}
	for i := range uint8(64) {
		do("free", a, kabi.LockTest, i, 0)
		do("try", a, kabi.LockAcquire, i, 1)
		do("not re-entrant", a, kabi.LockAcquire, i, 0)
		do("held by another", b, kabi.LockAcquire, i, 0)
		do("own", a, kabi.LockTest, i, 3)
		do("foreign", b, kabi.LockTest, i, 2)
		do("foreign release", b, kabi.LockRelease, i, 0)
		if i%2 == 0 {
			do("release", a, kabi.LockRelease, i, 1)
			do("release again", a, kabi.LockRelease, i, 0)
		}
	}
	do("independence", b, kabi.LockAcquire, 2, 1)
	_, err := lock(a, kabi.LockAcquire, 64)
	want(t, "index 64", err, syscall.EINVAL)
	_, err = lock(a, 4, 0)
	want(t, "fifth operation", err, syscall.EINVAL)
	old := newRig(t, chip.Wormhole, version(2, 6)).open(0)
	_, err = lock(old, kabi.LockAcquireBlocking, 0)
	want(t, "blocking before 2.7", err, syscall.EINVAL)
}

func wait(r *rig, f seam.File, i uint8) <-chan error {
	done := make(chan error, 1)
	started := make(chan struct{})
	go func() {
		close(started)
		v, err := lock(f, kabi.LockAcquireBlocking, i)
		if err == nil && v != 1 {
			err = syscall.EPROTO
		}
		done <- err
	}()
	<-started
	// The waiter releases the reset lock when it begins to wait; until then a writer can't take it.
	for d := r.drv.devices[0]; !d.reset.TryLock(); time.Sleep(time.Millisecond) {
		continue
	}
	r.drv.devices[0].reset.Unlock()
	return done
}

func TestAssertion35_ResetWakesWaiters(t *testing.T) {
	r := newRig(t, chip.Wormhole)
	a, b, by := r.open(0), r.open(0), r.open(0)
	equal(t, value(lock(a, kabi.LockAcquire, 1))(t), 1, "the lock")
	done := wait(r, b, 1)
	if res, err := reset(by, kabi.ResetASIC); res != 0 || err != nil {
		t.Fatalf("reset: %d, %v", res, err)
	}
	want(t, "waiter", soon(t, "waking", done), syscall.ENODEV)
	if res, err := reset(by, kabi.ResetPost); res != 0 || err != nil {
		t.Fatalf("post reset: %d, %v", res, err)
	}
	equal(t, value(lock(by, kabi.LockTest, 1))(t), 2, "the stale holder's lock is gone")
	_, err := lock(a, kabi.LockRelease, 1)
	want(t, "release by a stale holder", err, syscall.ENODEV)
	want(t, "close", a.Close(), nil)
	equal(t, value(lock(by, kabi.LockAcquire, 1))(t), 1, "the lock stayed after the close")
}

func TestAssertion36_ExclusiveOpen(t *testing.T) {
	r := newRig(t, chip.Blackhole)
	n := r.drv.Node(0)
	plain := r.open(0)
	_, err := n.Open(syscall.O_EXCL | syscall.O_NONBLOCK)
	want(t, "exclusive while open", err, syscall.EAGAIN)
	opened := make(chan seam.File, 1)
	go func() {
		f, _ := n.Open(syscall.O_EXCL)
		opened <- f
	}()
	want(t, "close", plain.Close(), nil)
	excl := soon(t, "the exclusive open", opened)
	_, err = n.Open(syscall.O_NONBLOCK)
	want(t, "plain while exclusive", err, syscall.EAGAIN)
	go func() {
		f, _ := n.Open(0)
		opened <- f
	}()
	want(t, "close", excl.Close(), nil)
	want(t, "close", soon(t, "the plain open", opened).Close(), nil)

	old := newRig(t, chip.Blackhole, version(2, 9))
	old.open(0)
	old.open(syscall.O_EXCL) // not known before 2.10
}

func TestAssertion37_LegacyOpenAsksForPower(t *testing.T) {
	r := newRig(t, chip.Wormhole)
	n := r.drv.Node(0)
	aware := r.open(syscall.O_APPEND)
	if _, _, sent := n.Power(); sent != 0 {
		t.Errorf("a power-aware open sent %d messages", sent)
	}
	legacy := r.open(0)
	if flags, _, _ := n.Power(); flags != kabi.PowerAll&^kabi.PowerMaxAIClock {
		t.Errorf("a legacy open asks for %#x", flags)
	}
	want(t, "close", legacy.Close(), nil)
	if flags, _, _ := n.Power(); flags != 0 {
		t.Errorf("after its close %#x", flags)
	}
	_, _, before := n.Power()
	want(t, "close", aware.Close(), nil)
	if _, _, sent := n.Power(); sent != before {
		t.Error("closing a file that asked for nothing sent a message")
	}
}

func TestAssertion38_ResetModes(t *testing.T) {
	for _, tt := range []struct {
		mode              uint32
		stale, zap, after bool // others go stale, mappings go, the reset window opens
	}{
		{kabi.ResetRestoreState, false, false, false},
		{kabi.ResetPCIeLink, false, true, false},
		{kabi.ResetConfigWrite, true, true, false},
		{kabi.ResetUser, true, true, true},
		{kabi.ResetASIC, true, true, true},
		{kabi.ResetASICDMC, true, true, true},
		{kabi.ResetPost, false, false, false},
	} {
		r := newRig(t, chip.Blackhole)
		by, other := r.open(0), r.open(0)
		w, _ := allocate(by, 2<<20)
		m := mmap(t, "map", by, w.MmapOffsetUC, 2<<20, nil)
		equal(t, value(reset(by, tt.mode))(t), 0, "mode %d", tt.mode)
		equal(t, info(other) == syscall.ENODEV, tt.stale, "mode %d: other file stale", tt.mode)
		equal(t, raisesFault(func() { m.IO.Load(0, 4) }), tt.zap, "mode %d: mapping gone", tt.mode)
		_, err := lock(by, kabi.LockTest, 0)
		equal(t, err == syscall.ENODEV, tt.after, "mode %d: reset window open", tt.mode)
	}
	f := newRig(t, chip.Blackhole).open(0)
	_, err := reset(f, 7)
	want(t, "eighth mode", err, syscall.EINVAL)
	old := newRig(t, chip.Blackhole, version(2, 3)).open(0)
	_, err = reset(old, kabi.ResetUser)
	want(t, "mode 3 before 2.4", err, syscall.EINVAL)
}

func TestAssertion39_WhoSurvivesAReset(t *testing.T) {
	for _, tt := range []struct {
		minor uint8
		want  error
	}{{10, nil}, {9, syscall.ENODEV}, {6, syscall.ENODEV}} {
		r := newRig(t, chip.Blackhole, version(2, tt.minor))
		by := r.open(0)
		_, err := reset(by, kabi.ResetUser)
		want(t, "reset", err, nil)
		want(t, "resetting file", info(by), tt.want)
		again := r.open(0)
		want(t, "a new file", info(again), nil)
	}
}

func TestAssertion40_ResetReclaims(t *testing.T) {
	r := newRig(t, chip.Wormhole)
	stale, by := r.open(0), r.open(0)
	for range 156 {
		_, err := allocate(stale, 1<<20)
		want(t, "allocate", err, nil)
	}
	b := pages(t, 1, unix.MAP_PRIVATE)
	_, err := pinned(stale, b, kabi.PinPagesNOCDMA)
	want(t, "pin", err, nil)
	_, err = reset(by, kabi.ResetASIC)
	want(t, "reset", err, nil)
	_, err = reset(by, kabi.ResetPost)
	want(t, "post reset", err, nil)
	w, err := allocate(by, 1<<20)
	want(t, "a stale file's window", err, nil)
	o, err := pinned(by, b, kabi.PinPagesNOCDMA)
	want(t, "a stale file's aperture", err, nil)
	equal(t, o.NOCAddress, 0x8_0000_0000, "NoC address")
	r.fn.stores = nil
	want(t, "close the stale file", stale.Close(), nil)
	equal(t, len(r.fn.stores), 0, "closing the stale file stores %v", r.fn.stores)
	want(t, "the new owner's window", configure(by, w.ID, kabi.NOCTLBConfig{}), nil)
	if x, _ := allocate(by, 1<<20); x.ID == w.ID {
		t.Error("closing the stale file freed the new owner's window")
	}
}

func TestAssertion41_PostResetWithTheMarkerSet(t *testing.T) {
	r := newRig(t, chip.Blackhole)
	f := r.open(0)
	_, err := reset(f, kabi.ResetUser) // marks; the chip isn't reset
	want(t, "reset", err, nil)
	equal(t, value(reset(f, kabi.ResetPost))(t), 1, "post reset")
	_, err = lock(f, kabi.LockTest, 0)
	want(t, "the window is closed", err, nil)
}

func TestAssertion44_PowerIsAggregated(t *testing.T) {
	r := newRig(t, chip.Wormhole)
	n := r.drv.Node(0)
	set := func(f seam.File, validity uint8, flags uint16, settings ...uint16) {
		t.Helper()
		p := kabi.PowerState{Argsz: 40, Validity: validity, PowerFlags: flags}
		copy(p.PowerSettings[:], settings)
		want(t, "set", f.Ioctl(kabi.IoctlSetPowerState, kabi.Bytes(&p)), nil)
	}
	check := func(what string, flags uint16, settings ...uint16) {
		t.Helper()
		var w [14]uint16
		copy(w[:], settings)
		f, s, _ := n.Power()
		d := cmp.Diff(w, s)
		equal(t, f, flags, "%s", what)
		equal(t, d, "", "%s", what)
	}
	a, b := r.open(syscall.O_APPEND), r.open(syscall.O_APPEND)
	set(a, kabi.PowerValidity(15, 2), kabi.PowerMaxAIClock, 7, 1)
	check("one", 1, 7, 1)
	set(b, kabi.PowerValidity(15, 3), kabi.PowerTensix, 3, 9, 2)
	check("or and max", 5, 7, 9, 2)
	set(b, kabi.PowerValidity(4, 0), 0)
	check("undeclared flags are on", 0x7FF1, 7, 1)
	p := kabi.PowerState{Argsz: 40, Validity: 0xF0}
	want(t, "validity 0xF0", a.Ioctl(kabi.IoctlSetPowerState, kabi.Bytes(&p)), syscall.EINVAL)
	want(t, "close", b.Close(), nil)
	check("after a close", 1, 7, 1)
	old := newRig(t, chip.Wormhole, version(2, 5)).open(0)
	want(t, "before 2.6", old.Ioctl(kabi.IoctlSetPowerState, kabi.Bytes(&p)), syscall.EINVAL)
}

func TestAssertion45_NOCCleanup(t *testing.T) {
	each(t, func(t *testing.T, a chip.Arch) {
		p := a.Params()
		class, _ := p.WindowClassOf(p.BAR.KernelWindow)
		bar, off, _ := p.WindowOffset(p.BAR.KernelWindow)
		set := func(f seam.File, enabled uint8) {
			t.Helper()
			c := kabi.SetNOCCleanup{Argsz: 32, Enabled: enabled, X: 3, Y: 4, Addr: class.Size + 0x40, Data: 0xABCD_12345678}
			want(t, "set", f.Ioctl(kabi.IoctlSetNOCCleanup, kabi.Bytes(&c)), nil)
		}
		writes := func(r *rig) (n int) {
			for _, s := range r.fn.stores {
				if s == [4]uint64{uint64(bar), off + 0x40, 4, 0x12345678} {
					n++
				}
			}
			return n
		}
		r := newRig(t, a)
		f := r.open(0)
		w, _ := allocate(f, 2<<20)
		m, err := f.Mmap(w.MmapOffsetUC, 2<<20)
		want(t, "map", err, nil)
		set(f, 1)
		want(t, "close", f.Close(), nil)
		equal(t, writes(r), 0, "it fires while a mapping keeps the file")
		want(t, "unmap", m.Unmap(), nil)
		equal(t, writes(r), 1, "times it fires")

		r = newRig(t, a)
		f = r.open(0)
		set(f, 1)
		set(f, 0)
		want(t, "close", f.Close(), nil)
		equal(t, writes(r), 0, "it fires although it was cleared")

		r = newRig(t, a)
		f = r.open(0)
		set(f, 1)
		_, err = reset(r.open(0), kabi.ResetASIC)
		want(t, "reset", err, nil)
		want(t, "close", f.Close(), nil)
		equal(t, writes(r), 1, "times it fires for a stale file")

		r = newRig(t, a)
		f = r.open(0)
		set(f, 1)
		want(t, "remove", r.drv.Close(), nil)
		want(t, "close", f.Close(), nil)
		equal(t, writes(r), 0, "it fires on a detached device")
	})
}

func FuzzIoctl(f *testing.F) {
	for n := range uint32(21) {
		f.Add(n, []byte{16, 0, 0, 0})
		f.Add(n, make([]byte, 64))
		arg := make([]byte, 64)
		binary.LittleEndian.PutUint32(arg, []uint32{32, 40, 48}[n%3])
		f.Add(n, arg)
	}
	f.Add(uint32(7), []byte{16, 0, 0, 0, 2, 0, 0, 0, 0, 0x10, 0, 0, 0, 0, 0, 0, 0, 0x10, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
		0, 0, 0, 0})
	f.Fuzz(func(t *testing.T, n uint32, arg []byte) {
		req := 0xFA00 | n&0xFF
		if req == kabi.IoctlLockCtl && len(arg) >= 8 && binary.LittleEndian.Uint32(arg[4:]) == kabi.LockAcquireBlocking {
			t.Skip("waits for itself, as the driver does")
		}
		if req == kabi.IoctlPinPages && len(arg) >= 24 && binary.LittleEndian.Uint64(arg[8:]) > 1<<16 {
			t.Skip("could be memory of this process that isn't the test's")
		}
		drv, err := New(Config{Arch: chip.Blackhole, Functions: []Function{newRegFile(chip.Blackhole)}, Version: Version{2, 11, 0}})
		must(t, err)
		defer drv.Close()
		file, err := drv.Node(0).Open(0)
		must(t, err)
		value(allocate(file, 2<<20))(t)
		var no syscall.Errno
		if err := file.Ioctl(req, arg); err != nil && !errors.As(err, &no) {
			t.Errorf("request %d: %v isn't an errno", n&0xFF, err)
		} else if err == nil && req == kabi.IoctlExportTLBDMABuf {
			if err := unix.Close(int(int32(binary.LittleEndian.Uint32(arg[12:])))); err != nil {
				t.Error(err)
			}
		}
		fails(t, file.Close(), nil, "close")
		equal(t, drv.Node(0).OpenFiles(), 0, "open files")
	})
}

type seenWait struct {
	sync.Locker
	waits chan struct{}
}

func (s seenWait) Unlock() {
	s.Locker.Unlock()
	s.waits <- struct{}{}
}

func (r *rig) waits() <-chan struct{} {
	d := r.drv.devices[0]
	s := seenWait{&d.mu, make(chan struct{}, 100)}
	d.wake.L = s
	return s.waits
}

func blocked(t *testing.T, f seam.File, waits <-chan struct{}) <-chan error {
	t.Helper()
	done := make(chan error, 1)
	go func() {
		_, err := lock(f, kabi.LockAcquireBlocking, 5)
		done <- err
	}()
	soon(t, "waiting", waits)
	return done
}

func TestCloseDuringLock(t *testing.T) {
	r := newRig(t, chip.Blackhole)
	waits := r.waits()
	a, b, c := r.open(0), r.open(0), r.open(0)
	equal(t, value(lock(a, kabi.LockAcquire, 5))(t), 1, "the lock")
	done := blocked(t, b, waits)
	want(t, "close", b.Close(), nil)
	want(t, "a request on the closed descriptor", info(b), syscall.EBADF)
	equal(t, r.drv.Node(0).OpenFiles(), 3, "files that are open, one of them in a request")
	want(t, "close", a.Close(), nil)
	want(t, "the request under way", soon(t, "its end", done), nil)
	if v, err := lock(c, kabi.LockAcquire, 5); v != 1 {
		t.Errorf("nobody else has a file, and lock 5 is taken: %v", err)
	}
	equal(t, r.drv.Node(0).OpenFiles(), 1, "open files")
}

func TestKillDuringLock(t *testing.T) {
	r := newRig(t, chip.Blackhole)
	waits := r.waits()
	p := r.drv.NewProcess(77, "tool")
	a, b := r.open(0), mustOpen(t, p.Node(0))
	equal(t, value(lock(a, kabi.LockAcquire, 5))(t), 1, "the lock")
	done := blocked(t, b, waits)
	want(t, "kill", p.Kill(), nil)
	want(t, "the request under way", soon(t, "its end", done), syscall.EINTR)
	equal(t, value(lock(a, kabi.LockRelease, 5))(t), 1, "the release")
	equal(t, value(lock(a, kabi.LockTest, 5))(t), 0, "lock 5, which a dead process held")
	equal(t, r.drv.Node(0).OpenFiles(), 1, "open files")
	want(t, "close after the end", b.Close(), nil)
}

func (r *rig) inside() {
	for d := r.drv.devices[0]; d.reset.TryLock(); time.Sleep(10 * time.Microsecond) {
		d.reset.Unlock()
	}
}

func TestCloseDuringMapping(t *testing.T) {
	second := newRegFile(chip.Blackhole)
	r := newRig(t, chip.Blackhole, func(c *Config) { c.Functions = append(c.Functions, second) })
	fd, err := mustOpen(t, r.drv.Node(1)).(interface{ Descriptor() (int, error) }).Descriptor()
	want(t, "descriptor", err, nil)
	slow, err := r.drv.Node(0).Inject(SlowPins + "=30ms")
	want(t, "inject", err, nil)
	defer slow()
	mem := pages(t, 1, unix.MAP_PRIVATE)
	m := &r.drv.devices[0].dma
	for name, request := range map[string]func(f seam.File) error{
		"pin": func(f seam.File) error { _, err := pinned(f, mem, 0); return err },
		"peer": func(f seam.File) error {
			a := kabi.MapPeerBar{In: kabi.MapPeerBarIn{PeerFD: uint32(fd), PeerBarLength: 4096}}
			return f.Ioctl(kabi.IoctlMapPeerBar, kabi.Bytes(&a))
		},
	} {
		for _, kill := range []bool{false, true} {
			p := r.drv.NewProcess(77, "tool")
			f := mustOpen(t, p.Node(0))
			if name == "peer" {
				m.mu.Lock() // it waits for this, as pins do for their time
			}
			done := make(chan error, 1)
			go func() { done <- request(f) }()
			r.inside()
			if kill {
				want(t, "kill", p.Kill(), nil)
			} else {
				want(t, "close", f.Close(), nil)
			}
			if name == "peer" {
				m.mu.Unlock()
			}
			want(t, name, soon(t, "its end", done), nil)
			m.mu.Lock()
			left := len(m.ranges)
			m.ranges = nil
			m.mu.Unlock()
			equal(t, left, 0, "%s, killed %t: ranges mapped while no file is open", name, kill)
		}
	}
}

func TestCloseDuringAllocate(t *testing.T) {
	r := newRig(t, chip.Blackhole)
	d := r.drv.devices[0]
	taken := func() (n int) {
		d.mu.Lock()
		defer d.mu.Unlock()
		for _, is := range d.tlbs {
			if is {
				n++
			}
		}
		return n
	}
	before := taken()
	for i := range effort.Of(30, 300, 300) {
		f := r.open(0)
		var wg sync.WaitGroup
		for range 2 {
			wg.Go(func() {
				for {
					if _, err := allocate(f, 2<<20); err != nil && err != syscall.ENOMEM {
						return
					}
				}
			})
		}
		time.Sleep(time.Duration(i%50) * time.Microsecond)
		want(t, "close", f.Close(), nil)
		wg.Wait()
	}
	equal(t, taken()-before, 0, "windows taken while no file is open")
}

func TestRequestsBehindClose(t *testing.T) {
	r := newRig(t, chip.Blackhole)
	f := r.open(0)
	w, _ := allocate(f, 2<<20)
	m := mmap(t, "map", f, w.MmapOffsetUC, 2<<20, nil)
	want(t, "close", f.Close(), nil)
	want(t, "request", info(f), syscall.EBADF)
	mmap(t, "another mapping", f, w.MmapOffsetUC, 2<<20, syscall.EBADF)
	want(t, "unmap", m.Unmap(), nil)
	equal(t, r.drv.Node(0).OpenFiles(), 0, "open files")
}

// An open that waits through a reset gives a file of before it: the generation is taken first
// (tt-kmd chardev.c, tt_cdev_open).
func TestOpenWaitsThroughReset(t *testing.T) {
	r := newRig(t, chip.Blackhole)
	waits := r.waits()
	excl := r.open(syscall.O_EXCL)
	opened := make(chan seam.File, 1)
	go func() {
		f, _ := r.drv.Node(0).Open(syscall.O_RDWR)
		opened <- f
	}()
	soon(t, "waiting", waits)
	for _, mode := range []uint32{kabi.ResetASIC, kabi.ResetPost} {
		_, err := reset(excl, mode)
		want(t, "reset", err, nil)
	}
	want(t, "close", excl.Close(), nil)
	f := soon(t, "the open", opened)
	want(t, "a request on a file whose open began before the reset", info(f), syscall.ENODEV)
	want(t, "close", f.Close(), nil)
	want(t, "a request on a new file", info(r.open(0)), nil)
}

type slowPeer struct {
	*regFile
	asked []string
	ends  []func()
	look  func() // in each call
}

func (s *slowPeer) PeerWrite(bar int, off uint64, p []byte, taken func()) {
	s.look()
	s.asked = append(s.asked, fmt.Sprintf("write %x at %#x of BAR %d", p, off, bar))
	s.ends = append(s.ends, taken)
}

func (s *slowPeer) PeerRead(bar int, off uint64, n int, done func(p []byte)) {
	s.look()
	s.asked = append(s.asked, fmt.Sprintf("read %d at %#x of BAR %d", n, off, bar))
	s.ends = append(s.ends, func() { done(make([]byte, n)) })
}

func TestPeersWaitForNobody(t *testing.T) {
	second := &slowPeer{regFile: newRegFile(chip.Blackhole)}
	r := newRig(t, chip.Blackhole, func(c *Config) { c.Functions = append(c.Functions, second) })
	f, peer := r.open(0), mustOpen(t, r.drv.Node(1))
	fd, err := peer.(interface{ Descriptor() (int, error) }).Descriptor()
	want(t, "descriptor", err, nil)
	a := kabi.MapPeerBar{In: kabi.MapPeerBarIn{PeerFD: uint32(fd), PeerBarOffset: 0x1000, PeerBarLength: 0x2000}}
	want(t, "map", f.Ioctl(kabi.IoctlMapPeerBar, kabi.Bytes(&a)), nil)
	bus, dma := a.Out.DMAAddress, r.fn.dma.(PeerDMA)

	m := dma.(*iommu)
	second.look = func() {
		if !m.mu.TryLock() {
			t.Error("the IOMMU is locked while the card is at its peer")
			return
		}
		m.mu.Unlock()
	}
	for _, d := range r.drv.devices {
		d.mu.Lock()
	}
	want(t, "write", dma.WriteHost(bus+0x10, []byte{1, 2}), nil)
	want(t, "another write", dma.WriteHost(bus+0x20, []byte{3, 4, 5}), nil)
	answered := 0
	if !dma.ReadPeer(bus+0x30, 8, func(p []byte) { answered += len(p) }) {
		t.Error("the bus address leads to no peer")
	}
	for _, d := range r.drv.devices {
		d.mu.Unlock()
	}
	noDiff(t, second.asked, []string{"write 0102 at 0x1010 of BAR 0", "write 030405 at 0x1020 of BAR 0", "read 8 at 0x1030 of BAR 0"},
		"the peer was asked")
	for i, left := range []int64{5, 3, 0, 0} {
		equal(t, dma.Posted(), left, "bytes under way after %d accesses", i)
		if i < len(second.ends) {
			second.ends[i]()
		}
	}
	equal(t, answered, 8, "bytes answered")
	var de *DMAError
	if err := dma.ReadHost(bus, make([]byte, 4)); !errors.As(err, &de) || de.Bus != bus || de.Write {
		t.Errorf("a read that waits for a peer: %v", err)
	}
	if dma.ReadPeer(bus-1, 1, nil) {
		t.Error("an address that isn't mapped leads to a peer")
	}
	want(t, "unplug", r.drv.Unplug(1), nil)
	if err := dma.WriteHost(bus, []byte{1}); !errors.As(err, &de) {
		t.Errorf("a write to a peer that is gone: %v", err)
	}
	if dma.ReadPeer(bus, 1, nil) {
		t.Error("a peer that is gone is asked")
	}
}
