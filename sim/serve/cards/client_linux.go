package cards

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"slices"
	"sync"
	"syscall"

	"github.com/reprise-tt/reprise/internal/kabi"
	"github.com/reprise-tt/reprise/internal/seam"
	"github.com/reprise-tt/reprise/sim/driver"
	"github.com/reprise-tt/reprise/sim/serve"
)

type process struct {
	mu    sync.Mutex
	refs  int // open files and mappings
	first *serve.Conn
	token uint64
	idle  []*serve.Conn
	host  hostMemory
}

var errNoServer = errors.New("cards: nothing serves the card")

func (c *Target) dial() (*serve.Conn, error) {
	u, err := net.DialUnix("unix", nil, &net.UnixAddr{Name: c.path, Net: "unix"})
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errNoServer, err)
	}
	conn := serve.NewConn(u)
	if err := conn.Greet(serve.ServiceCard, -1); err != nil {
		_ = conn.Close() // nothing was said on it
		return nil, errors.Join(syscall.ENODEV, err)
	}
	return conn, nil
}

func (c *Target) readFile(name string) (fs.FileMode, []byte, error) {
	conn, err := c.dial()
	if errors.Is(err, errNoServer) {
		return 0, nil, fs.ErrNotExist
	} else if err != nil {
		return 0, nil, err
	}
	defer conn.Close()
	r, data, err := conn.Call(&serve.Head{Op: opFile}, []byte(name))
	switch {
	case err != nil:
		return 0, nil, err
	case r.Status == serve.StatusText && string(data) == fs.ErrNotExist.Error():
		return 0, nil, fs.ErrNotExist
	}
	return fs.FileMode(r.Val), data, r.Err(data)
}

func (c *Target) take() (*serve.Conn, error) {
	p := &c.proc
	p.mu.Lock()
	if n := len(p.idle); n > 0 {
		conn := p.idle[n-1]
		p.idle = p.idle[:n-1]
		p.mu.Unlock()
		return conn, nil
	}
	token := p.token
	p.mu.Unlock()
	conn, err := c.dial()
	if err != nil {
		return nil, err
	}
	if r, _, err := conn.Call(&serve.Head{Op: opJoin, Val: token}, nil); err != nil || r.Status != serve.StatusOK {
		_ = conn.Close() // nothing was said on it
		return nil, errors.Join(syscall.ENODEV, err)
	}
	return conn, nil
}

func (c *Target) put(conn *serve.Conn, err error) {
	p := &c.proc
	p.mu.Lock()
	defer p.mu.Unlock()
	if err != nil || p.refs == 0 {
		_ = conn.Close()
		return
	}
	p.idle = append(p.idle, conn)
}

func (c *Target) hold() error {
	p := &c.proc
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.refs == 0 {
		conn, err := c.dial()
		if err != nil {
			return err
		}
		r, _, err := conn.Call(&serve.Head{Op: opProcess}, nil)
		if err != nil {
			_ = conn.Close() // the server is gone
			return errors.Join(syscall.ENODEV, err)
		}
		p.first, p.token = conn, r.Val
	}
	p.refs++
	return nil
}

func (c *Target) drop() {
	p := &c.proc
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.refs--; p.refs > 0 {
		return
	}
	for _, conn := range append(p.idle, p.first) {
		_ = conn.Close() // all was answered
	}
	p.idle, p.first = nil, nil
}

// A lost server counts as a lost device.
func (c *Target) call(q serve.Head, payload []byte) (reply serve.Head, out []byte, err error) {
	conn, err := c.take()
	if err != nil {
		return reply, nil, gone(err)
	}
	reply, out, err = conn.Call(&q, payload)
	c.put(conn, err)
	if err != nil {
		err = gone(err)
	}
	return reply, out, err
}

func (c *Target) ask(q serve.Head) (reply serve.Head, err error) {
	reply, out, err := c.call(q, nil)
	if err == nil {
		err = reply.Err(out)
	}
	return reply, err
}

func gone(err error) error { return fmt.Errorf("%w: the card's server: %w", syscall.ENODEV, err) }

func (n node) Open(flags int) (seam.File, error) {
	c := n.c
	if err := c.hold(); err != nil {
		return nil, err
	}
	r, err := c.ask(serve.Head{Op: opOpen, Val: uint64(flags)})
	if err != nil {
		c.drop()
		return nil, err
	}
	return &file{c: c, id: r.Object}, nil
}

type file struct {
	c    *Target
	id   uint32
	once sync.Once
}

func (f *file) Fault() error {
	r, out, err := f.c.call(serve.Head{Op: opFault, Object: f.id}, nil)
	if err != nil || r.Status != serve.StatusText {
		return nil // a lost server gives no reason
	}
	return errors.New(string(out))
}

func (f *file) Close() error {
	err := error(syscall.EBADF)
	f.once.Do(func() {
		_, err = f.c.ask(serve.Head{Op: opClose, Object: f.id})
		f.c.proc.host.closed(f)
		f.c.drop()
	})
	return err
}

func (f *file) ReleaseLast() error {
	_, err := f.c.ask(serve.Head{Op: opLast, Object: f.id})
	return err
}

func (f *file) Ioctl(req uint32, arg []byte) error {
	conn, err := f.c.take()
	if err != nil {
		return gone(err)
	}
	var lost error
	do := func(fd int, off uint64) (answer error) {
		answer, lost = ioctl(conn, &serve.Head{Op: opIoctl, Object: f.id, Off: off, Val: uint64(req)}, arg, fd)
		if lost != nil {
			return lost
		}
		return answer
	}
	if req == kabi.IoctlPinPages {
		err = f.c.proc.host.pin(f, arg, do)
	} else if err = do(-1, 0); err == nil && req == kabi.IoctlUnpinPages {
		f.c.proc.host.unpinned(f, arg)
	}
	f.c.put(conn, lost)
	var no syscall.Errno
	switch {
	case lost != nil:
		return gone(lost)
	case errors.As(err, &no):
		return no
	}
	return err
}

// ioctl returns the driver's answer, and the error of a lost server.
func ioctl(conn *serve.Conn, q *serve.Head, arg []byte, fd int) (answer, lost error) {
	r, out, err := conn.CallFD(q, arg, fd)
	if err != nil {
		return nil, err
	}
	if r.Status == serve.StatusText {
		return r.Err(out), nil
	}
	copy(arg, out)
	return r.Err(nil), nil
}

func (f *file) Mmap(offset uint64, length int) (seam.Mapping, error) {
	c := f.c
	if err := c.hold(); err != nil {
		return seam.Mapping{}, err
	}
	r, err := c.ask(serve.Head{Op: opMmap, Object: f.id, Off: offset, Val: uint64(length)})
	if err != nil {
		c.drop()
		return seam.Mapping{}, err
	}
	return seam.Mapping{IO: &mapping{c: c, id: r.Object}, Unmap: seam.UnmapOnce(func() error {
		_, err := c.ask(serve.Head{Op: opUnmap, Object: r.Object})
		c.drop()
		return err
	})}, nil
}

type mapping struct {
	c  *Target
	id uint32
}

var _ seam.MMIO = (*mapping)(nil)

func (m *mapping) access(q serve.Head, payload, in []byte) uint64 {
	conn, err := m.c.take()
	if err != nil {
		driver.BusError()
	}
	q.Object = m.id
	var r serve.Head
	if err = conn.Send(&q, payload, -1); err == nil {
		err = conn.Receive(&r)
	}
	switch {
	case err != nil:
	case r.Size != 0 && int(r.Size) != len(in):
		err = serve.ErrProtocol
	default:
		err = conn.Payload(in[:r.Size])
	}
	m.c.put(conn, err)
	if err != nil || r.Status != serve.StatusOK {
		driver.BusError()
	}
	return r.Val
}

func (m *mapping) Load(off uint64, width int) uint64 {
	return m.access(serve.Head{Op: serve.OpLoad, Width: uint8(width), Off: off}, nil, nil)
}

func (m *mapping) Store(off uint64, width int, v uint64) {
	m.access(serve.Head{Op: serve.OpStore, Width: uint8(width), Off: off, Val: v}, nil, nil)
}

func (m *mapping) Read(off uint64, p []byte) {
	for b := range slices.Chunk(p, serve.MaxPayload) {
		m.access(serve.Head{Op: serve.OpRead, Off: off, Val: uint64(len(b))}, nil, b)
		off += uint64(len(b))
	}
}

func (m *mapping) Write(off uint64, p []byte) {
	for b := range slices.Chunk(p, serve.MaxPayload) {
		m.access(serve.Head{Op: serve.OpWrite, Off: off}, b, nil)
		off += uint64(len(b))
	}
}
