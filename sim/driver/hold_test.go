//go:build linux

package driver

import (
	"errors"
	"fmt"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/internal/effort"
	"github.com/reprise-tt/reprise/internal/kabi"
	"github.com/reprise-tt/reprise/internal/seam"
)

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
	if v, _ := lock(a, kabi.LockAcquire, 5); v != 1 {
		t.Fatal("no lock")
	}
	done := blocked(t, b, waits)
	want(t, "close", b.Close(), nil)
	want(t, "a request on the closed descriptor", info(b), syscall.EBADF)
	if n := r.drv.Node(0).OpenFiles(); n != 3 {
		t.Errorf("%d files are open, want 3: one is in a request", n)
	}
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
	if v, _ := lock(a, kabi.LockAcquire, 5); v != 1 {
		t.Fatal("no lock")
	}
	done := blocked(t, b, waits)
	want(t, "kill", p.Kill(), nil)
	want(t, "the request under way", soon(t, "its end", done), syscall.EINTR)
	if v, _ := lock(a, kabi.LockRelease, 5); v != 1 {
		t.Error("no release")
	}
	if v, _ := lock(a, kabi.LockTest, 5); v != 0 {
		t.Errorf("test of lock 5 says %d: a dead process holds it", v)
	}
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
