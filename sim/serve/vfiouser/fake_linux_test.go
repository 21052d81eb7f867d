package vfiouser

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/sim/driver"
)

type fake struct {
	mu    sync.Mutex
	arch  chip.Arch
	log   []string
	mem   map[string]uint64
	dma   driver.DMA
	fault error
	ask   func()
}

func newFake(a chip.Arch) *fake { return &fake{arch: a, mem: map[string]uint64{}} }

func (f *fake) did(format string, a ...any) { f.log = append(f.log, fmt.Sprintf(format, a...)) }

func (f *fake) done() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	l := f.log
	f.log = nil
	return l
}

func (f *fake) ConfigRead(uint32) uint32 {
	p := f.arch.Params()
	return uint32(p.PCI.Vendor) | uint32(p.PCI.Device)<<16
}
func (f *fake) ConfigWrite(uint32, uint32) {}

func (f *fake) BARLoad(bar int, off uint64, width int) uint64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.did("load%d %d:%#x", width, bar, off)
	return f.mem[fmt.Sprintf("%d:%#x", bar, off)]
}

func (f *fake) BARStore(bar int, off uint64, width int, v uint64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.did("store%d %d:%#x %#x", width, bar, off, v)
	f.mem[fmt.Sprintf("%d:%#x", bar, off)] = v
}

func (f *fake) BARRead(bar int, off uint64, p []byte) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.did("read %d:%#x %d", bar, off, len(p))
	for i := range p {
		p[i] = byte(i)
	}
}

func (f *fake) BARWrite(bar int, off uint64, p []byte) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.did("write %d:%#x %d", bar, off, len(p))
}

func (f *fake) AttachDMA(d driver.DMA) { f.dma = d }
func (f *fake) Fault() error           { return f.fault }
func (f *fake) Close() error           { return nil }

func (f *fake) OnResetAsked(ask func()) { f.ask = ask }

func (f *fake) Reset() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.did("reset")
	return nil
}

func present(t testing.TB, fn driver.Function, cfg Config) *Card {
	t.Helper()
	return value(New(fn, cfg))(t)
}

func listen(t testing.TB, c *Card) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "card")
	l := value(net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"}))(t)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() { ended <- c.Serve(ctx, l) }()
	t.Cleanup(func() {
		cancel()
		must(t, <-ended)
	})
	return path
}

func raw(t testing.TB, path string) *net.UnixConn {
	t.Helper()
	c := value(net.DialUnix("unix", nil, &net.UnixAddr{Name: path, Net: "unix"}))(t)
	t.Cleanup(func() { c.Close() })
	return c
}

func dial(t testing.TB, path string) *Client {
	t.Helper()
	c := value(Dial(context.Background(), path))(t)
	t.Cleanup(func() { c.Close() })
	return c
}

func memory(t testing.TB, size int) (fd int, mem []byte) {
	t.Helper()
	fd = value(unix.MemfdCreate("guest", unix.MFD_CLOEXEC))(t)
	t.Cleanup(func() { unix.Close(fd) })
	must(t, unix.Ftruncate(fd, int64(size)))
	mem = value(unix.Mmap(fd, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED))(t)
	t.Cleanup(func() { unix.Munmap(mem) })
	return fd, mem
}

func descriptors(t testing.TB) int {
	t.Helper()
	return len(value(os.ReadDir("/proc/self/fd"))(t))
}

// Unlike the count of all descriptors it doesn't change when another test's connection is closed
// late.
func opened(t testing.TB, fd int) int {
	t.Helper()
	var want unix.Stat_t
	must(t, unix.Fstat(fd, &want))
	l := value(os.ReadDir("/proc/self/fd"))(t)
	n := 0
	for _, e := range l {
		var got unix.Stat_t
		if unix.Stat(filepath.Join("/proc/self/fd", e.Name()), &got) == nil && got.Dev == want.Dev && got.Ino == want.Ino {
			n++
		}
	}
	return n
}
