package share

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/reprise-tt/reprise/internal/kabi"
	"github.com/reprise-tt/reprise/internal/seam"
	"github.com/reprise-tt/reprise/sim/driver"
)

// process is this process as a client of a card.
type process struct {
	mu    sync.Mutex
	refs  int // open files and mappings
	first *link
	token uint64
	idle  []*link
	host  hostMemory
}

// connect connects to the card's server.
func (c *Card) connect() (*link, error) {
	conn, err := net.DialUnix("unix", nil, &net.UnixAddr{Name: c.path, Net: "unix"})
	if err != nil {
		return nil, err
	}
	return newLink(conn), nil
}

// ask sends a request on a link and reads the reply.
func ask(l *link, q request, payload []byte) (r reply, out []byte, err error) {
	q.n = uint32(len(payload))
	var head [requestBytes]byte
	q.put(head[:])
	if err := l.send(head[:], payload, -1); err != nil {
		return r, nil, err
	}
	b, err := l.receive(replyBytes)
	if err != nil {
		return r, nil, err
	}
	r.take(b)
	if r.n > maxPayload {
		return r, nil, ErrProtocol
	}
	out = make([]byte, r.n)
	return r, out, readAll(l.conn, out)
}

// readFile reads a file or directory of the card's machine.
func (c *Card) readFile(name string) (fs.FileMode, []byte, error) {
	l, err := c.connect()
	if err != nil {
		return 0, nil, fs.ErrNotExist
	}
	defer l.conn.Close()
	r, data, err := ask(l, request{op: opFS}, []byte(name))
	switch {
	case err != nil:
		return 0, nil, err
	case r.status == said && string(data) == fs.ErrNotExist.Error():
		return 0, nil, fs.ErrNotExist
	}
	return fs.FileMode(r.val), data, r.problem(data)
}

// link returns a connection for a request, which goes back to done.
func (c *Card) link() (*link, error) {
	p := &c.proc
	p.mu.Lock()
	if n := len(p.idle); n > 0 {
		l := p.idle[n-1]
		p.idle = p.idle[:n-1]
		p.mu.Unlock()
		return l, nil
	}
	token := p.token
	p.mu.Unlock()
	l, err := c.connect()
	if err != nil {
		return nil, err
	}
	if r, _, err := ask(l, request{op: opJoin, val: token}, nil); err != nil || r.status != done {
		_ = l.conn.Close() // nothing was said on it
		return nil, errors.Join(syscall.ENODEV, err)
	}
	return l, nil
}

// done takes a connection back, unless a request failed on it.
func (c *Card) done(l *link, err error) {
	p := &c.proc
	p.mu.Lock()
	defer p.mu.Unlock()
	if err != nil || p.refs == 0 {
		_ = l.conn.Close()
		return
	}
	p.idle = append(p.idle, l)
}

// hold begins a file or a mapping.
func (c *Card) hold() error {
	p := &c.proc
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.refs == 0 {
		l, err := c.connect()
		if err != nil {
			return err
		}
		r, _, err := ask(l, request{op: opHello}, nil)
		if err != nil {
			_ = l.conn.Close() // there is nobody at the other end
			return errors.Join(syscall.ENODEV, err)
		}
		p.first, p.token = l, r.val
	}
	p.refs++
	return nil
}

// drop ends one, and the connections with the last.
func (c *Card) drop() {
	p := &c.proc
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.refs--; p.refs > 0 {
		return
	}
	for _, l := range append(p.idle, p.first) {
		_ = l.conn.Close() // all was answered
	}
	p.idle, p.first = nil, nil
}

// call makes a request with few bytes. A server that is gone is a device that is gone.
func (c *Card) call(q request, payload []byte) (reply, []byte, error) {
	l, err := c.link()
	if err != nil {
		return reply{}, nil, gone(err)
	}
	r, out, err := ask(l, q, payload)
	c.done(l, err)
	if err != nil {
		return r, nil, gone(err)
	}
	return r, out, nil
}

func gone(err error) error { return fmt.Errorf("%w: the card's server: %w", syscall.ENODEV, err) }

// Open implements seam.Node.
func (n node) Open(flags int) (seam.File, error) {
	c := n.c
	if err := c.hold(); err != nil {
		return nil, err
	}
	r, out, err := c.call(request{op: opOpen, val: uint64(flags)}, nil)
	if err == nil {
		err = r.problem(out)
	}
	if err != nil {
		c.drop()
		return nil, err
	}
	return &file{c: c, id: r.object}, nil
}

// file is an open file of a served card.
type file struct {
	c    *Card
	id   uint32
	once sync.Once
}

// Fault implements seam.File.
func (f *file) Fault() error {
	r, out, err := f.c.call(request{op: opFault, object: f.id}, nil)
	if err != nil || r.status != said {
		return nil // a server that is gone doesn't know why
	}
	return errors.New(string(out))
}

// Close implements seam.File.
func (f *file) Close() error {
	err := error(syscall.EBADF)
	f.once.Do(func() {
		var r reply
		var out []byte
		if r, out, err = f.c.call(request{op: opClose, object: f.id}, nil); err == nil {
			err = r.problem(out)
		}
		f.c.proc.host.closed(f)
		f.c.drop()
	})
	return err
}

// ReleaseLast makes the end of the process release the file behind all others of the process.
func (f *file) ReleaseLast() error {
	r, out, err := f.c.call(request{op: opLast, object: f.id}, nil)
	if err != nil {
		return err
	}
	return r.problem(out)
}

// Ioctl implements seam.File.
func (f *file) Ioctl(req uint32, arg []byte) error {
	l, err := f.c.link()
	if err != nil {
		return gone(err)
	}
	q := request{op: opIoctl, object: f.id, val: uint64(req)}
	switch req {
	case kabi.IoctlPinPages:
		err = f.c.proc.host.pin(f, arg, func(fd int, off uint64) error {
			q.off = off
			return f.ioctl(l, q, arg, fd)
		})
	case kabi.IoctlUnpinPages:
		err = f.ioctl(l, q, arg, -1)
		if err == nil {
			f.c.proc.host.unpinned(f, arg)
		}
	default:
		err = f.ioctl(l, q, arg, -1)
	}
	var no syscall.Errno
	var lost *brokenError
	if errors.As(err, &lost) {
		f.c.done(l, err)
		return gone(lost.err)
	}
	f.c.done(l, nil)
	if errors.As(err, &no) {
		return no
	}
	return err
}

// brokenError is the error of a connection.
type brokenError struct{ err error }

func (e *brokenError) Error() string { return e.err.Error() }

func (f *file) ioctl(l *link, q request, arg []byte, fd int) error {
	q.n = uint32(len(arg))
	var head [requestBytes]byte
	q.put(head[:])
	if err := l.send(head[:], arg, fd); err != nil {
		return &brokenError{err}
	}
	b, given, err := l.receiveWith(replyBytes)
	if err != nil {
		return &brokenError{err}
	}
	var r reply
	r.take(b)
	out := make([]byte, min(r.n, maxPayload))
	if err := readAll(l.conn, out); err != nil {
		closeAll(given)
		return &brokenError{err}
	}
	if r.status == said {
		return r.problem(out)
	}
	copy(arg, out)
	if given >= 0 {
		var a kabi.ExportTLBDMABuf
		if copy(kabi.PartBytes(&a), arg); uint32(q.val) == kabi.IoctlExportTLBDMABuf {
			a.FD = int32(given)
			copy(arg, kabi.PartBytes(&a))
		} else {
			closeAll(given)
		}
	}
	return r.problem(nil)
}

// Mmap implements seam.File.
func (f *file) Mmap(offset uint64, length int) (seam.Mapping, error) {
	c := f.c
	if err := c.hold(); err != nil {
		return seam.Mapping{}, err
	}
	m, err := f.mmap(offset, length)
	if err != nil {
		c.drop()
	}
	return m, err
}

func (f *file) mmap(offset uint64, length int) (seam.Mapping, error) {
	c := f.c
	l, err := c.link()
	if err != nil {
		return seam.Mapping{}, gone(err)
	}
	var head [requestBytes]byte
	(&request{op: opMmap, object: f.id, off: offset, val: uint64(length)}).put(head[:])
	fd := -1
	var r reply
	var out []byte
	if err = l.send(head[:], nil, -1); err == nil {
		var b []byte
		if b, fd, err = l.receiveWith(replyBytes); err == nil {
			r.take(b)
			out = make([]byte, min(r.n, maxPayload))
			err = readAll(l.conn, out)
		}
	}
	defer closeAll(fd)
	c.done(l, err)
	if err != nil {
		return seam.Mapping{}, gone(err)
	}
	if err := r.problem(out); err != nil {
		return seam.Mapping{}, err
	}
	unmap := func() error {
		ur, uout, err := c.call(request{op: opUnmap, object: r.object}, nil)
		if err == nil {
			err = ur.problem(uout)
		}
		c.drop()
		return err
	}
	if r.kind != memory {
		var once sync.Once
		return seam.Mapping{IO: &mapping{c: c, id: r.object}, Unmap: func() error {
			err := error(syscall.EINVAL)
			once.Do(func() { err = unmap() })
			return err
		}}, nil
	}
	mem, err := unix.Mmap(fd, int64(r.val), length, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return seam.Mapping{}, err
	}
	var once sync.Once
	return seam.Mapping{Mem: mem, Unmap: func() error {
		err := error(syscall.EINVAL)
		once.Do(func() { err = errors.Join(unix.Munmap(mem), unmap()) })
		return err
	}}, nil
}

// mapping is memory of a served card.
type mapping struct {
	c  *Card
	id uint32
}

var _ seam.MMIO = (*mapping)(nil)

// access makes one request. The bytes that a Read asks for go to in.
func (m *mapping) access(q request, payload, in []byte) uint64 {
	l, err := m.c.link()
	if err != nil {
		driver.BusError()
	}
	q.object, q.n = m.id, uint32(len(payload))
	q.put(l.head[:])
	var r reply
	if err = l.send(l.head[:], payload, -1); err == nil {
		if _, err = l.receive(replyBytes); err == nil {
			r.take(l.head[:])
			if r.n != 0 && int(r.n) != len(in) {
				err = ErrProtocol
			} else {
				err = readAll(l.conn, in[:r.n])
			}
		}
	}
	m.c.done(l, err)
	if err != nil || r.status != done {
		driver.BusError()
	}
	return r.val
}

// Load implements seam.MMIO.
func (m *mapping) Load(off uint64, width int) uint64 {
	return m.access(request{op: opLoad, width: uint8(width), off: off}, nil, nil)
}

// Store implements seam.MMIO.
func (m *mapping) Store(off uint64, width int, v uint64) {
	m.access(request{op: opStore, width: uint8(width), off: off, val: v}, nil, nil)
}

// Read implements seam.MMIO.
func (m *mapping) Read(off uint64, p []byte) {
	for len(p) > 0 {
		n := min(len(p), maxPayload)
		m.access(request{op: opRead, off: off, val: uint64(n)}, nil, p[:n])
		off, p = off+uint64(n), p[n:]
	}
}

// Write implements seam.MMIO.
func (m *mapping) Write(off uint64, p []byte) {
	for len(p) > 0 {
		n := min(len(p), maxPayload)
		m.access(request{op: opWrite, off: off}, p[:n], nil)
		off, p = off+uint64(n), p[n:]
	}
}
