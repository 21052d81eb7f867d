package vfiouser

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/sim/driver"
	"github.com/reprise-tt/reprise/sim/serve"
)

func TestEnumerate(t *testing.T) {
	for _, a := range []chip.Arch{chip.Wormhole, chip.Blackhole} {
		t.Run(a.String(), func(t *testing.T) {
			p := a.Params()
			c := dial(t, listen(t, present(t, newFake(a), Config{Arch: a, Board: chip.BoardN300})))
			if id, want := c.ConfigRead(0), uint32(p.PCI.Device)<<16|0x1E52; id != want {
				t.Errorf("ids %#x, want %#x", id, want)
			}
			equal(t, c.ConfigRead(regSubsystem), chip.BoardN300<<16|0x1E52, "subsystem ids")
			equal(t, c.ConfigRead(regClass), p.PCI.Class<<8|uint32(p.PCI.Revision), "class and revision")
			for _, bar := range []uint32{0, 2, 4} {
				at := regBAR + 4*bar
				kind := c.ConfigRead(at)
				c.ConfigWrite(at, ^uint32(0))
				c.ConfigWrite(at+4, ^uint32(0))
				mask := uint64(c.ConfigRead(at)&^0xF) | uint64(c.ConfigRead(at+4))<<32
				equal(t, ^mask+1, p.PCI.BARSize[bar], "bytes of BAR %d", bar)
				equal(t, value(c.RegionSize(int(bar)))(t), p.PCI.BARSize[bar], "bytes of region %d", bar)
				if kind&0xF != 4 && kind&0xF != 0xC {
					t.Errorf("BAR %d is of kind %#x, want 64-bit memory", bar, kind)
				}
			}
			var caps []byte
			for at := c.ConfigRead(regCaps) & 0xFF; at != 0; {
				v := c.ConfigRead(at)
				caps, at = append(caps, byte(v)), v>>8&0xFF
			}
			noDiff(t, caps, []byte{1, 5, 0x10}, "capabilities")
			must(t, c.Fault())
		})
	}
}

func TestResetMarker(t *testing.T) {
	f := newFake(chip.Wormhole)
	c := dial(t, listen(t, present(t, f, Config{Arch: chip.Wormhole})))
	for name, reset := range map[string]func() error{
		"message": c.Reset,
		"timer": func() error {
			c.ConfigWrite(timerTarget, 1)
			c.ConfigWrite(timerControl, 0x11)
			return nil
		},
	} {
		c.ConfigWrite(regCommand, 1<<6)
		if v := c.ConfigRead(regCommand); v&(1<<6) == 0 {
			t.Fatalf("%s: command %#x: the mark isn't there", name, v)
		}
		must(t, reset())
		equal(t, c.ConfigRead(regCommand)&(1<<6), 0, "%s: command", name)
		noDiff(t, f.done(), []string{"reset"}, "%s", name)
	}
}

func TestResetAsked(t *testing.T) {
	f := newFake(chip.Wormhole)
	card := present(t, f, Config{Arch: chip.Wormhole})
	path := listen(t, card)
	marked := func(c *Client) bool { return c.ConfigRead(regCommand)&(1<<6) != 0 }
	count := func() int { return len(f.done()) }

	c := dial(t, path)
	c.ConfigWrite(regCommand, 1<<6)
	card.board.doing.Lock() // until it was asked twice, the reset doesn't begin
	f.ask()
	f.ask() // a second time for the same reset
	card.board.doing.Unlock()
	for end := time.Now().Add(10 * time.Second); marked(c) && time.Now().Before(end); {
		time.Sleep(time.Millisecond)
	}
	if n := count(); marked(c) || n != 1 {
		t.Errorf("marked %t after %d resets, want 1", marked(c), n)
	}

	c.ConfigWrite(regCommand, 1<<6)
	f.ask()
	c.Close()
	c = dial(t, path) // which waits for the end of the one before
	if n := count(); marked(c) || n != 1 {
		t.Errorf("marked %t after %d resets, want 1 when the client went", marked(c), n)
	}

	c.ConfigWrite(regCommand, 1<<6)
	c.Close()
	dial(t, path).Close()
	f.ask()
	c = dial(t, path)
	if n := count(); marked(c) || n != 1 {
		t.Errorf("marked %t after %d resets, want 1 when the next client came", marked(c), n)
	}
}

func TestMemory(t *testing.T) {
	const page = 4096
	f := newFake(chip.Blackhole)
	card := present(t, f, Config{Arch: chip.Blackhole})
	path := listen(t, card)
	c := dial(t, path)
	fd, mem := memory(t, 4*page)
	refused := func(why string, err error) {
		t.Helper()
		var e *driver.DMAError
		if !errors.As(err, &e) || !strings.Contains(e.Why, why) {
			t.Errorf("access gave %v, want one refused because of %q", err, why)
		}
	}
	must(t, c.Map(fd, page, 0x10_0000, page, true))
	must(t, c.Map(fd, 3*page, 0x10_1000, page, true))
	must(t, c.Map(fd, 0, 0x20_0000, page, false))
	refused("bus mastering", f.dma.WriteHost(0x10_0000, make([]byte, 4)))
	c.masters()
	if v := c.ConfigRead(regCommand); v&commandMaster == 0 {
		t.Fatalf("command %#x", v)
	}

	must(t, f.dma.WriteHost(0x10_0FFC, []byte{1, 2, 3, 4, 5, 6, 7, 8}))
	noDiff(t, mem[2*page-4:2*page], []byte{1, 2, 3, 4}, "end of the first part")
	noDiff(t, mem[3*page:3*page+4], []byte{5, 6, 7, 8}, "start of the second part")
	binary.LittleEndian.PutUint64(mem[page+8:], 0x1122334455667788)
	for n, want := range map[int][]byte{4: {0x88, 0x77, 0x66, 0x55}, 8: {0x88, 0x77, 0x66, 0x55, 0x44, 0x33, 0x22, 0x11}} {
		got := make([]byte, n)
		must(t, f.dma.ReadHost(0x10_0008, got))
		noDiff(t, got, want, "%d bytes", n)
	}
	refused("not mapped the memory for that", f.dma.WriteHost(0x20_0000, []byte{1}))
	refused("no memory there", f.dma.ReadHost(0x10_1FFF, make([]byte, 2)))

	must(t, unix.Ftruncate(fd, 3*page))
	refused("truncated the file", f.dma.ReadHost(0x10_1000, make([]byte, 4)))

	must(t, c.Unmap(0x10_0000, page))
	refused("no memory there", f.dma.ReadHost(0x10_0008, make([]byte, 4)))
	must(t, c.Close())
	next := dial(t, path)
	next.masters()
	next.ConfigRead(0)
	refused("no memory there", f.dma.ReadHost(0x20_0000, make([]byte, 4)))
}

func TestMapRefused(t *testing.T) {
	c := dial(t, listen(t, present(t, newFake(chip.Blackhole), Config{Arch: chip.Blackhole})))
	fd, _ := memory(t, 4096)
	null := value(os.OpenFile("/dev/zero", os.O_RDWR, 0))(t)
	defer null.Close()
	one := encode(dmaMap{dmaMapSize, dmaReadable, 0, 0, 4096})
	for name, m := range map[string]func() error{
		"longer than the file":    func() error { return c.Map(fd, 0, 0, 8192, true) },
		"beyond the file":         func() error { return c.Map(fd, 4096, 0, 4096, true) },
		"not at a page":           func() error { return c.Map(fd, 8, 0, 8, true) },
		"an offset that wraps":    func() error { return c.Map(fd, ^uint64(4095), 0, 8192, true) },
		"a device":                func() error { return c.Map(int(null.Fd()), 0, 0, 4096, true) },
		"two descriptors":         func() error { return c.ask(cmdDMAMap, one, nil, fd, fd) },
		"nothing":                 func() error { return c.Map(fd, 0, 0, 0, true) },
		"more descriptors than 8": func() error { return c.ask(cmdDMAMap, one, nil, fd, fd, fd, fd, fd, fd, fd, fd, fd) },
	} {
		fails(t, m(), syscall.EINVAL, "%s", name)
	}
	for _, fd := range []int{fd, int(null.Fd())} {
		equal(t, opened(t, fd), 1, "open descriptors of the file")
	}
}

func TestInterrupts(t *testing.T) {
	card := present(t, newFake(chip.Blackhole), Config{Arch: chip.Blackhole})
	c := dial(t, listen(t, card))
	event := func() (int, func() uint64) {
		fd := value(unix.Eventfd(0, unix.EFD_NONBLOCK|unix.EFD_CLOEXEC))(t)
		t.Cleanup(func() { unix.Close(fd) })
		return fd, func() uint64 {
			var b [8]byte
			if _, err := unix.Read(fd, b[:]); err != nil {
				return 0
			}
			return binary.LittleEndian.Uint64(b[:])
		}
	}
	intx, gotINTx := event()
	msi, gotMSI := event()
	for i, fd := range []int{intx, msi} {
		must(t, c.Events(i, fd))
	}
	card.Interrupt()
	card.Interrupt()
	equal(t, gotINTx(), 1, "times that INTA came while it was masked")
	must(t, c.Unmask())
	equal(t, gotINTx(), 1, "times that INTA came when it was unmasked")
	c.ConfigWrite(capMSI, 1<<16)
	if v := c.ConfigRead(capMSI); v>>16&msiEnable == 0 {
		t.Fatalf("messages aren't on: %#x", v)
	}
	card.Interrupt()
	equal(t, gotMSI(), 1, "times that the message came")
	must(t, c.irqs(irqDataNone|irqActionTrigger, irqMSI, 0))
	card.Interrupt()
	equal(t, gotMSI(), 0, "times that the message came after it was turned off")
	fd, _ := memory(t, 4096)
	fails(t, c.Events(irqMSI, fd), syscall.EINVAL, "an event descriptor that is none")
	fails(t, c.irqs(irqDataEventFD|irqActionUnmask, irqINTx, 1, intx), syscall.EOPNOTSUPP, "unmasking by an event")
}

func TestPosted(t *testing.T) {
	f := &slow{fake: newFake(chip.Wormhole), busy: make(chan struct{})}
	c := dial(t, listen(t, present(t, f, Config{Arch: chip.Wormhole})))
	const n = 100
	for i := range n {
		c.BARStore(0, uint64(8*i), 8, uint64(i+1))
	}
	close(f.busy)
	equal(t, c.BARLoad(0, 8*(n-1), 8), n, "the last store is read back as")
	equal(t, len(f.done()), n+1, "accesses")
}

type slow struct {
	*fake
	busy chan struct{}
}

func (s *slow) BARStore(bar int, off uint64, width int, v uint64) {
	<-s.busy
	s.fake.BARStore(bar, off, width, v)
}

func TestReconnect(t *testing.T) {
	f := newFake(chip.Wormhole)
	path := listen(t, present(t, f, Config{Arch: chip.Wormhole}))
	before := descriptors(t)
	for i := range 5 {
		c := value(Dial(t.Context(), path))(t)
		equal(t, c.BARLoad(0, 0x100, 8), uint64(i), "client %d finds", i)
		fd := value(unix.MemfdCreate("guest", unix.MFD_CLOEXEC))(t)
		must(t, errors.Join(unix.Ftruncate(fd, 4096), c.Map(fd, 0, 0, 4096, true), unix.Close(fd)))
		c.BARStore(0, 0x100, 8, uint64(i+1))
		must(t, c.Close())
	}
	last := dial(t, path)
	last.ConfigRead(0)
	last.Close()
	for end := time.Now().Add(10 * time.Second); descriptors(t) > before && time.Now().Before(end); {
		time.Sleep(time.Millisecond)
	}
	if n := descriptors(t); n > before {
		t.Errorf("%d descriptors are open, %d were before the clients", n, before)
	}
}

func TestDialEndsWithItsContext(t *testing.T) {
	path := listen(t, present(t, newFake(chip.Wormhole), Config{Arch: chip.Wormhole}))
	dial(t, path).ConfigRead(0) // is served
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Millisecond)
	defer cancel()
	fails(t, second(Dial(ctx, path)), context.DeadlineExceeded, "dialed")
}

func joined(t *testing.T) (conn, peer *net.UnixConn) {
	t.Helper()
	conn, f, err := serve.Pair()
	must(t, err)
	defer f.Close()
	if peer, err = serve.ConnOf(f); err != nil {
		t.Fatal(err)
	}
	return conn, peer
}

func TestServeConnEndsWithItsContext(t *testing.T) {
	card := present(t, newFake(chip.Wormhole), Config{Arch: chip.Wormhole})
	conn, peer := joined(t)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- card.ServeConn(ctx, conn) }()
	c := value(newClient(peer))(t)
	defer c.Close()
	cancel()
	must(t, <-ended)
}

func TestCloseUnderAnAccess(t *testing.T) {
	f := &slow{fake: newFake(chip.Wormhole), busy: make(chan struct{})}
	c := dial(t, listen(t, present(t, f, Config{Arch: chip.Wormhole})))
	defer close(f.busy)
	c.BARStore(0, 0, 4, 1) // for which the chip takes its time
	loaded := make(chan uint64)
	go func() { loaded <- c.BARLoad(0, 0, 4) }()
	for c.mu.TryLock() { // until the load waits
		c.mu.Unlock()
		time.Sleep(time.Millisecond)
	}
	fails(t, c.Fault(), nil, "fault")
	must(t, c.Close())
	equal(t, <-loaded, 0xFFFFFFFF, "a load without an answer")
	fails(t, c.Fault(), net.ErrClosed, "fault")
}

func TestStranger(t *testing.T) {
	why := make(chan error, 10)
	card := present(t, newFake(chip.Wormhole), Config{Arch: chip.Wormhole, Report: func(err error) { why <- err }})
	path := listen(t, card)
	conn := raw(t, path)
	value(conn.Write([]byte("GET / HTTP/1.1\r\nHost: card\r\n\r\n")))(t)
	if _, err := io.Copy(io.Discard, conn); err != nil && !errors.Is(err, syscall.ECONNRESET) {
		t.Error(err)
	}
	fails(t, <-why, ErrProtocol, "the server says")
	equal(t, dial(t, path).ConfigRead(0), 0x401E1E52, "ids")
}

func TestStopped(t *testing.T) {
	var told []error
	f := newFake(chip.Wormhole)
	f.fault = errors.New("the chip's reason")
	f.mem["0:0x0"] = 0xFFFFFFFF
	s := &session{card: present(t, f, Config{Arch: chip.Wormhole, Report: func(err error) { told = append(told, err) }})}
	a := access{accessHead: accessHead{Count: 4}}
	for range 3 {
		must(t, s.card.load(&a, make([]byte, 4)))
	}
	if len(told) != 1 || !errors.Is(told[0], f.fault) {
		t.Errorf("told %v", told)
	}
}

func TestNotPresented(t *testing.T) {
	for name, c := range map[string]Config{
		"no architecture":      {},
		"another architecture": {Arch: chip.Blackhole},
	} {
		fails(t, second(New(newFake(chip.Wormhole), c)), ErrConfig, "%s", name)
	}
}

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

// Client is the host's side of a connection: the function behind a server. After a lost connection
// loads return all ones and Fault has the reason.
type Client struct {
	mu sync.Mutex // held until a message is answered
	peer
	most int // bytes of data per message

	errMu sync.Mutex // taken inside of mu
	err   error      // why the connection was lost

	twin    *net.UnixConn // for the server's memory requests, or nil
	dma     driver.DMA    // under dmaMu
	dmaMu   sync.RWMutex
	serving sync.WaitGroup
}

var (
	_ driver.Function = (*Client)(nil)
	_ driver.Resetter = (*Client)(nil)
)

// Dial connects to a server, once an earlier client has left or until ctx ends. The error wraps
// ErrProtocol for a peer that is no vfio-user server.
func Dial(ctx context.Context, path string) (*Client, error) {
	var d net.Dialer
	conn, err := d.DialContext(ctx, "unix", path)
	if err != nil {
		return nil, fmt.Errorf("vfiouser: dial: %w", err)
	}
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() }) // ends a waiting call
	c, err := newClient(conn.(*net.UnixConn))
	if stop() {
		return c, err
	}
	if err == nil {
		_ = c.Close() // its connection may be closed already
	}
	return nil, fmt.Errorf("vfiouser: dial: %w", ctx.Err())
}

func newClient(conn *net.UnixConn) (*Client, error) {
	c := &Client{peer: peer{stream: stream{conn: conn}}, most: maxData}
	if err := c.agree(); err != nil {
		_ = conn.Close() // the error is the reason
		return nil, err
	}
	return c, nil
}

func (c *Client) agree() error {
	n, data, yes := uint64(maxDescriptors), uint64(maxData), true
	v := version{Major: versionMajor, Minor: versionMinor, Caps: capabilities{
		MaxDescriptors: &n, MaxData: &data, WriteMultiple: &yes, Twin: &twinSocket{Supported: true}}}
	body, err := v.body()
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	m, err := c.exchangeLocked(cmdVersion, body)
	if err != nil {
		return err
	}
	defer m.close()
	a, err := parseVersion(m.body)
	if err != nil {
		return err
	}
	if a.Major != versionMajor || a.Minor > versionMinor {
		return fmt.Errorf("vfiouser: version: %w: the server answered %d.%d to %d.%d", ErrProtocol, a.Major, a.Minor,
			versionMajor, versionMinor)
	}
	c.most = max(8, min(limit(a.Caps.MaxData, maxData), maxData))
	if t := a.Caps.Twin; t != nil && t.Supported {
		if t.Index == nil || *t.Index < 0 || *t.Index >= len(m.fds) {
			return fmt.Errorf("vfiouser: version: %w: a twin socket without its descriptor", ErrProtocol)
		}
		fd := m.fds[*t.Index]
		m.fds[*t.Index] = -1
		if c.twin, err = connOf(fd); err != nil {
			return err
		}
		c.serving.Go(c.serve)
	}
	return nil
}

// exchangeLocked returns the reply, whose descriptors are the caller's. An error reply's error is
// its errno; any other ends the connection.
func (c *Client) exchangeLocked(cmd command, body []byte, fds ...int) (*message, error) {
	if err := c.sendLocked(cmd, 0, body, nil, fds...); err != nil {
		return nil, err
	}
	m, err := c.reply(cmd)
	if err != nil {
		return nil, c.lost(err)
	}
	if m.Flags&flagError != 0 {
		m.close()
		return nil, syscall.Errno(m.Errno)
	}
	return m, nil
}

func (c *Client) sendLocked(cmd command, flags uint32, body, data []byte, fds ...int) error {
	if err := c.Fault(); err != nil {
		return err
	}
	if err := c.send(cmd, flags, body, data, fds...); err != nil {
		return c.lost(err)
	}
	return nil
}

func (c *Client) lost(err error) error {
	c.errMu.Lock()
	defer c.errMu.Unlock()
	if c.err == nil {
		if errors.Is(err, io.EOF) || errors.Is(err, syscall.EPIPE) || errors.Is(err, syscall.ECONNRESET) {
			err = fmt.Errorf("the server has closed it: %w", io.EOF) // whichever way it was noticed
		}
		c.err = fmt.Errorf("vfiouser: connection lost: %w", err)
		_ = c.conn.Close() // the error is the reason
	}
	return c.err
}

// take gets the reply's body.
func (c *Client) ask(cmd command, body []byte, take func([]byte) error, fds ...int) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	m, err := c.exchangeLocked(cmd, body, fds...)
	if err != nil {
		return err
	}
	defer m.close()
	if take == nil {
		return nil
	}
	if err := take(m.body); err != nil {
		return c.lost(err)
	}
	return nil
}

// info returns the words after argsz.
func (c *Client) info(cmd command, size int, index uint32) (words []uint32, err error) {
	body := make([]byte, size)
	order.PutUint32(body, uint32(size))
	if size > 8 {
		order.PutUint32(body[8:], index)
	}
	err = c.ask(cmd, body, func(b []byte) error {
		if len(b) < size {
			return fmt.Errorf("%w: a reply of %d bytes to command %d, want %d", ErrProtocol, len(b), cmd, size)
		}
		for at := 4; at < size; at += 4 {
			words = append(words, order.Uint32(b[at:]))
		}
		return nil
	})
	return words, err
}

// RegionSize returns the bytes of a region: 0 to 5 are BARs, 7 is configuration space.
func (c *Client) RegionSize(index int) (uint64, error) {
	w, err := c.info(cmdRegionInfo, regionInfoSize, uint32(index))
	if err != nil {
		return 0, fmt.Errorf("vfiouser: size of region %d: %w", index, err)
	}
	return uint64(w[3]) | uint64(w[4])<<32, nil
}

// Map makes a part of a file reachable for the device at a bus address, in whole pages.
func (c *Client) Map(fd int, offset, bus, size uint64, writable bool) error {
	var fds []int
	if fd >= 0 {
		fds = []int{fd}
	}
	flags := uint32(dmaReadable)
	if writable {
		flags |= dmaWritable
	}
	m := dmaMap{dmaMapSize, flags, offset, bus, size}
	if err := c.ask(cmdDMAMap, encode(m), nil, fds...); err != nil {
		return fmt.Errorf("vfiouser: map %d bytes at bus address %#x: %w", size, bus, err)
	}
	return nil
}

// Unmap ends exactly this mapping. Afterwards the device doesn't access the memory.
func (c *Client) Unmap(bus, size uint64) error {
	if err := c.ask(cmdDMAUnmap, encode(dmaUnmap{dmaUnmapSize, 0, bus, size}), nil); err != nil {
		return fmt.Errorf("vfiouser: unmap %d bytes at bus address %#x: %w", size, bus, err)
	}
	return nil
}

// Events makes interrupts (0: INTA, 1: message) signal an event descriptor of the caller's.
func (c *Client) Events(index, eventfd int) error {
	return c.irqs(irqDataEventFD|irqActionTrigger, index, 1, eventfd)
}

// Unmask unmasks INTA, which masks itself at each interrupt.
func (c *Client) Unmask() error { return c.irqs(irqDataNone|irqActionUnmask, irqINTx, 1) }

func (c *Client) irqs(flags uint32, index, count int, fds ...int) error {
	s := setIRQs{setIRQsSize, flags, uint32(index), 0, uint32(count)}
	if err := c.ask(cmdSetIRQs, encode(s), nil, fds...); err != nil {
		return fmt.Errorf("vfiouser: set interrupts of type %d: %w", index, err)
	}
	return nil
}

func (c *Client) read(region int, off uint64, p []byte) error {
	for len(p) > 0 {
		n := min(len(p), c.most)
		err := c.ask(cmdRegionRead, encode(accessHead{off, uint32(region), uint32(n)}), func(r []byte) error {
			if len(r) != accessSize+n {
				return fmt.Errorf("%w: a read of %d bytes has a reply of %d, want %d", ErrProtocol, n, len(r), accessSize+n)
			}
			copy(p, r[accessSize:])
			return nil
		})
		if err != nil {
			return err
		}
		off, p = off+uint64(n), p[n:]
	}
	return nil
}

// write is posted.
func (c *Client) write(region int, off uint64, p []byte) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	for len(p) > 0 {
		n := min(len(p), c.most)
		head := encode(accessHead{off, uint32(region), uint32(n)})
		if err := c.sendLocked(cmdRegionWrite, flagNoReply, head, p[:n]); err != nil {
			return err
		}
		off, p = off+uint64(n), p[n:]
	}
	return nil
}

// All ones if the server refuses.
func (c *Client) ConfigRead(off uint32) uint32 { return uint32(c.word(regionConfig, uint64(off), 4)) }

// ConfigWrite writes a word of configuration space.
func (c *Client) ConfigWrite(off uint32, v uint32) {
	c.BARStore(regionConfig, uint64(off), 4, uint64(v))
}

// BARLoad performs one load of width bytes; all ones if the server refuses.
func (c *Client) BARLoad(bar int, off uint64, width int) uint64 { return c.word(bar, off, width) }

func (c *Client) word(region int, off uint64, width int) uint64 {
	var b [8]byte
	if err := c.read(region, off, b[:width]); err != nil {
		return 1<<(8*width) - 1
	}
	return order.Uint64(b[:])
}

// BARStore performs one store of width bytes.
func (c *Client) BARStore(bar int, off uint64, width int, v uint64) {
	var b [8]byte
	order.PutUint64(b[:], v)
	_ = c.write(bar, off, b[:width]) // see Fault
}

// BARRead moves bulk data; all ones if the server refuses.
func (c *Client) BARRead(bar int, off uint64, p []byte) {
	if err := c.read(bar, off, p); err != nil {
		for i := range p {
			p[i] = 0xFF
		}
	}
}

// BARWrite moves bulk data.
func (c *Client) BARWrite(bar int, off uint64, p []byte) { _ = c.write(bar, off, p) } // see Fault

// Reset resets the device.
func (c *Client) Reset() error {
	if err := c.ask(cmdDeviceReset, nil, nil); err != nil {
		return fmt.Errorf("vfiouser: reset: %w", err)
	}
	c.masters()
	return nil
}

func (c *Client) masters() {
	c.ConfigWrite(regCommand, c.ConfigRead(regCommand)&0xFFFF|commandMaster|1<<1)
}

// AttachDMA makes all bus addresses reachable through d, message by message. Without the server's
// twin socket the connection is lost.
func (c *Client) AttachDMA(d driver.DMA) {
	c.dmaMu.Lock()
	c.dma = d
	c.dmaMu.Unlock()
	if c.twin == nil {
		_ = c.lost(fmt.Errorf("%w: the server has no twin socket and can't reach memory without a descriptor", ErrProtocol))
		return
	}
	if err := c.Map(-1, 0, 0, 1<<63, true); err != nil {
		_ = c.lost(err)
	}
	c.masters()
}

// Fault returns why the connection was lost, without waiting for accesses.
func (c *Client) Fault() error {
	c.errMu.Lock()
	defer c.errMu.Unlock()
	return c.err
}

// Close ends the connection.
func (c *Client) Close() error {
	c.errMu.Lock()
	if c.err == nil {
		c.err = fmt.Errorf("vfiouser: connection: %w", net.ErrClosed)
	}
	_ = c.conn.Close() // ends a waiting call; nothing else can be lost
	c.errMu.Unlock()
	if c.twin != nil {
		_ = c.twin.Close()
	}
	c.serving.Wait()
	return nil
}

func (c *Client) serve() {
	in := stream{conn: c.twin}
	var out []byte
	for {
		m, err := in.next()
		if err != nil {
			break
		}
		out = c.move(m, out[:0])
		m.close()
		if err := send(c.twin, out); err != nil {
			break
		}
	}
	_ = c.twin.Close()
}

func (c *Client) move(m *message, out []byte) []byte {
	out = append(out, make([]byte, headerSize)...)
	err := error(syscall.EINVAL)
	if len(m.body) >= dmaAccessSize {
		addr, n := order.Uint64(m.body), order.Uint64(m.body[8:])
		data := m.body[dmaAccessSize:]
		out = append(out, m.body[:dmaAccessSize]...)
		c.dmaMu.RLock()
		switch {
		case c.dma == nil || n > maxData:
		case m.Command == cmdDMARead && len(data) == 0:
			out = append(out, make([]byte, n)...)
			err = c.dma.ReadHost(addr, out[headerSize+dmaAccessSize:])
		case m.Command == cmdDMAWrite && uint64(len(data)) == n:
			err = c.dma.WriteHost(addr, data)
		}
		c.dmaMu.RUnlock()
	}
	if err != nil {
		err = syscall.EFAULT
	}
	return m.finish(out, err)
}

// Interrupt sends a message if the driver has enabled those, otherwise INTA.
func (c *Card) Interrupt() {
	if c.space.word(capMSI+2)&msiEnable != 0 {
		c.irqs.trigger(irqMSI)
	} else if c.space.word(regCommand)&commandNoIRQ == 0 {
		c.irqs.trigger(irqINTx)
	}
}

func (t *interrupts) trigger(index int) {
	t.mu.Lock()
	t.line[index].trigger(index == irqINTx)
	t.mu.Unlock()
}

func connOf(fd int) (*net.UnixConn, error) {
	f := os.NewFile(uintptr(fd), "vfio-user")
	defer f.Close() // the connection has a duplicate
	u, err := serve.ConnOf(f)
	if err != nil {
		return nil, fmt.Errorf("vfiouser: twin socket: %w: %w", ErrProtocol, err)
	}
	return u, nil
}

func encode(v any) []byte {
	b, _ := binary.Append(nil, order, v) // fails for no struct of numbers
	return b
}
