package function

import (
	"bytes"
	"encoding/binary"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/reprise-tt/reprise/internal/expect"
	"github.com/reprise-tt/reprise/sim/serve"
)

type memory struct {
	mem    []byte
	config [64]uint32
	cb     Callbacks
	clocks atomic.Uint64
	exits  atomic.Int32
}

const hostBase = 1 << 20

func (m *memory) ConfigRead(bdf, off uint32) uint32 { return m.config[(bdf+off/4)%64] }
func (m *memory) ConfigWrite(bdf, off, v uint32)    { m.config[(bdf+off/4)%64] = v }
func (m *memory) Clock(n uint32)                    { m.clocks.Add(uint64(n)) }
func (m *memory) Exit()                             { m.exits.Add(1) }

func (m *memory) Read(paddr uint64, p []byte) {
	if paddr >= hostBase {
		m.cb.Read(paddr-hostBase, p)
		return
	}
	copy(p, m.mem[paddr:])
}

func (m *memory) Write(paddr uint64, p []byte) {
	if paddr >= hostBase {
		m.cb.Write(paddr-hostBase, p)
		return
	}
	copy(m.mem[paddr:], p)
}

func start(t testing.TB, load Loader) (c *Client, server *net.UnixConn, end func() error) {
	t.Helper()
	conn, f, err := serve.Pair()
	expect.Must(t, err)
	defer f.Close()
	if server, err = serve.ConnOf(f); err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- serveConn(server, load) }()
	if c, err = NewClient(conn, func() {}); err != nil {
		t.Fatal(err)
	}
	return c, server, sync.OnceValue(func() error {
		c.Close()
		return <-served
	})
}

func TestRequests(t *testing.T) {
	lib := &memory{mem: make([]byte, hostBase)}
	c, _, end := start(t, func(path string, cb Callbacks) (Library, error) {
		expect.Equal(t, path, "a library", "path")
		lib.cb = cb
		return lib, nil
	})
	defer end()
	host := make([]byte, hostBase)
	c.ServeCalls(func(tr *Transfer) {
		expect.Equal(t, tr.Device, 0, "device")
		if tr.Write {
			copy(host[tr.Addr:], tr.Data)
		} else {
			copy(tr.Data, host[tr.Addr:])
		}
	})
	must(t, c.Open("a library", true))
	for _, width := range []int{1, 2, 4, 8} {
		want := 0x1122334455667788 >> (64 - 8*width)
		c.Store(64, 8, ^uint64(0))
		c.Store(64, width, uint64(want))
		v, ok := c.Load(64, width)
		whole, _ := c.Load(64, 8)
		if !ok || v != uint64(want) || width < 8 && whole>>(8*width) != ^uint64(0)>>(8*width) {
			t.Errorf("width %d: %#x, %t; with what is beside it %#x", width, v, ok, whole)
		}
	}
	big := make([]byte, 3*serve.ReplyBytes)
	for i := range len(big) / 4 {
		binary.LittleEndian.PutUint32(big[4*i:], uint32(i))
	}
	for _, base := range []uint64{0, hostBase} {
		got := make([]byte, len(big))
		c.Write(base+8, big, func() bool { return false })
		if ok := c.Read(base+8, got); !ok || !bytes.Equal(got, big) {
			t.Errorf("at %#x other bytes are read than were written", base)
		}
	}
	if !bytes.Equal(host[8:8+len(big)], big) {
		t.Error("host memory isn't what the library wrote to it")
	}
	c.ConfigWrite(0, 8, 77)
	if v, ok := c.ConfigRead(0, 8); !ok || v != 77 {
		t.Errorf("config space has %d, %t", v, ok)
	}
	if !c.Clock(1<<17) || c.Clocks() != 1<<17 || lib.clocks.Load() != 1<<17 || !c.Sync() {
		t.Errorf("%d clocks, the library had %d", c.Clocks(), lib.clocks.Load())
	}
	c.Exit()
	for c.Sync() { // until the server has ended
	}
	if err := end(); err != nil || lib.exits.Load() != 1 || c.Clocks() != 1<<17 {
		t.Errorf("%v after %d exits and %d clocks", err, lib.exits.Load(), c.Clocks())
	}
}

func TestOpenErrors(t *testing.T) {
	for _, want := range []error{ErrLoad, ErrSymbol, ErrUnsupported} {
		c, _, end := start(t, func(string, Callbacks) (Library, error) { return nil, errors.Join(want, errors.New("details")) })
		if err := c.Open("x", false); !errors.Is(err, want) || !bytes.Contains([]byte(err.Error()), []byte("details")) {
			t.Errorf("%v, want %v", err, want)
		}
		must(t, end())
	}
}

func TestServerGone(t *testing.T) {
	lib := &memory{mem: make([]byte, 64)}
	c, server, end := start(t, func(string, Callbacks) (Library, error) { return lib, nil })
	c.ServeCalls(func(*Transfer) {})
	must(t, c.Open("x", false))
	must(t, server.Close())
	for c.Sync() { // until the server sees it
	}
	if _, ok := c.Load(0, 4); ok || !c.Dead() {
		t.Error("a load is answered")
	}
	if err := c.Open("x", false); !errors.Is(err, ErrGone) {
		t.Error(err)
	}
	must(t, end())
	c.Store(0, 4, 1) // of a closed client: does nothing
	if _, ok := c.Load(0, 4); ok {
		t.Error("a closed client answers")
	}
}

func TestBrokenClient(t *testing.T) {
	conn, f, err := serve.Pair()
	expect.Must(t, err)
	server, err := serve.ConnOf(f)
	must(t, errors.Join(err, f.Close()))
	served := make(chan error, 1)
	go func() { served <- serveConn(server, nil) }()
	c := serve.NewConn(conn)
	defer c.Close()
	must(t, c.Greet(serve.ServiceFunction, -1))
	expect.Fails(t, <-served, serve.ErrProtocol, "without memory")
}

func BenchmarkAccess(b *testing.B) {
	c, _, end := start(b, func(string, Callbacks) (Library, error) { return &memory{mem: make([]byte, 64)}, nil })
	must(b, c.Open("x", true))
	for name, access := range map[string]func(){"load": func() { c.Load(0, 4) }, "store": func() { c.Store(0, 4, 1) }} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				access()
			}
		})
	}
	must(b, end())
}
