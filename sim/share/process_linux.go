package share

import (
	"fmt"
	"io"
	"net"
	"runtime/debug"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/reprise-tt/reprise/internal/kabi"
	"github.com/reprise-tt/reprise/internal/seam"
	"github.com/reprise-tt/reprise/sim/driver"
)

// client is a process as its server sees it.
type client struct {
	pid  int
	proc *driver.Process
	node seam.Node
	busy sync.RWMutex // held for reading while a request is under way

	mu    sync.Mutex
	dead  bool
	conns map[*net.UnixConn]struct{}
	files map[uint32]seam.File
	maps  map[uint32]*shared
	next  uint32
	pins  pins
}

// shared is a mapping that a client has. Requests hold its lock for reading, its end for writing.
type shared struct {
	sync.RWMutex
	seam.Mapping
}

// add lists a connection, unless the process is dead.
func (p *client) add(c *net.UnixConn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.dead {
		return false
	}
	p.conns[c] = struct{}{}
	return true
}

// kill is the end of the process. Its files are released when its last request has ended, as the kernel does it: a process
// doesn't end in the middle of a system call, but what waits there is interrupted.
func (p *client) kill() error {
	p.mu.Lock()
	p.dead = true
	for c := range p.conns {
		_ = c.Close() // its goroutine sees it
	}
	p.mu.Unlock()
	for !p.busy.TryLock() { // a request that was on its way to a wait needs the next signal
		p.proc.Signal()
		time.Sleep(100 * time.Microsecond)
	}
	defer p.busy.Unlock()
	err := p.proc.Kill()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.pins.dropAll()
	return err
}

// serve answers the requests of one connection.
func (p *client) serve(l *link) {
	debug.SetPanicOnFault(true) // the mappings of a card that goes fault
	var buf []byte
	for {
		head, fd, err := l.receiveWith(requestBytes)
		if err != nil {
			return
		}
		var q request
		q.take(head)
		if q.n > maxPayload || q.op == opRead && q.val > maxPayload {
			closeAll(fd)
			return
		}
		if want := max(int(q.n), readLength(&q)); cap(buf) < want {
			buf = make([]byte, want)
		}
		payload := buf[:q.n]
		if readAll(l.conn, payload) != nil {
			closeAll(fd)
			return
		}
		r, out, give, ok := p.do(&q, payload, buf, fd)
		closeAll(fd)
		if !ok {
			return
		}
		err = respond(l, r, out, give)
		if q.op == opIoctl {
			closeAll(give) // a dma-buf, which is the client's now
		}
		if err != nil {
			return
		}
	}
}

// do handles a request, unless the process is dead.
func (p *client) do(q *request, payload, buf []byte, fd int) (r reply, out []byte, give int, ok bool) {
	p.busy.RLock()
	defer p.busy.RUnlock()
	p.mu.Lock()
	dead := p.dead
	p.mu.Unlock()
	if dead {
		return reply{}, nil, -1, false
	}
	r, out, give = p.handle(q, payload, buf, fd)
	return r, out, give, true
}

func readLength(q *request) int {
	if q.op == opRead {
		return int(q.val)
	}
	return 0
}

func closeAll(fds ...int) {
	for _, fd := range fds {
		if fd >= 0 {
			_ = unix.Close(fd) // of a descriptor that was passed on, or wasn't wanted
		}
	}
}

func readAll(c *net.UnixConn, p []byte) error {
	if len(p) == 0 {
		return nil
	}
	_, err := io.ReadFull(c, p)
	return err
}

// respond sends a reply.
func respond(l *link, r reply, payload []byte, fd int) error {
	var head [replyBytes]byte
	r.n = uint32(len(payload))
	r.put(head[:])
	return l.send(head[:], payload, fd)
}

// handle does what a request asks for and returns the reply, what follows it, and a descriptor to go with it or -1.
func (p *client) handle(q *request, payload, buf []byte, fd int) (r reply, out []byte, give int) {
	give = -1
	defer func() {
		switch e := recover().(type) {
		case nil:
		case interface{ Addr() uintptr }:
			r, out, give = reply{status: busError}, nil, -1
		default:
			panic(e)
		}
	}()
	switch q.op {
	case opOpen:
		f, err := p.node.Open(int(q.val))
		if err == nil {
			r, err = p.opened(f)
		}
		if err != nil {
			r, out = answer(err)
		}
		return r, out, -1
	case opIoctl, opMmap, opClose, opFault, opLast:
		p.mu.Lock()
		f := p.files[q.object]
		p.mu.Unlock()
		if f == nil {
			r, out = answer(syscall.EBADF)
			return r, out, -1
		}
		return p.onFile(q, f, payload, fd)
	}
	p.mu.Lock()
	m := p.maps[q.object]
	p.mu.Unlock()
	if m == nil {
		return reply{status: busError}, nil, -1
	}
	if q.op == opUnmap {
		m.Lock()
		defer m.Unlock()
		p.mu.Lock()
		delete(p.maps, q.object)
		p.mu.Unlock()
		r, out = answer(m.Unmap())
		return r, out, -1
	}
	m.RLock()
	defer m.RUnlock()
	io := m.IO
	switch {
	case io == nil:
		r.status = busError
	case q.op == opLoad && validWidth(q.width):
		r.val = io.Load(q.off, int(q.width))
	case q.op == opStore && validWidth(q.width):
		io.Store(q.off, int(q.width), q.val)
	case q.op == opRead:
		out = buf[:q.val]
		io.Read(q.off, out)
	case q.op == opWrite:
		io.Write(q.off, payload)
	default:
		r, out = answer(fmt.Errorf("%w: request %d", ErrProtocol, q.op))
	}
	return r, out, -1
}

func validWidth(w uint8) bool { return w == 1 || w == 2 || w == 4 || w == 8 }

// opened lists an open file.
func (p *client) opened(f seam.File) (reply, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.dead {
		return reply{}, syscall.ESRCH // its files are closed by now
	}
	p.next++
	p.files[p.next] = f
	return reply{object: p.next}, nil
}

// backed is a file of the driver's model, which knows what memory its buffers are.
type backed interface {
	Backing(mem []byte) (fd int, off int64, ok bool)
}

func (p *client) onFile(q *request, f seam.File, payload []byte, fd int) (r reply, out []byte, give int) {
	switch q.op {
	case opClose:
		p.mu.Lock()
		delete(p.files, q.object)
		p.mu.Unlock()
		err := f.Close()
		p.mu.Lock()
		p.pins.drop(f)
		p.mu.Unlock()
		r, out = answer(err)
	case opFault:
		if err := f.Fault(); err != nil {
			out = []byte(err.Error())
			r.status = said
		}
	case opLast:
		err := error(syscall.EOPNOTSUPP)
		if l, ok := f.(interface{ ReleaseLast() error }); ok {
			err = l.ReleaseLast()
		}
		r, out = answer(err)
	case opIoctl:
		return p.ioctl(f, q, payload, fd)
	case opMmap:
		m, err := f.Mmap(q.off, int(q.val))
		if err != nil {
			r, out = answer(err)
			break
		}
		give = -1
		if m.Mem != nil {
			b, ok := f.(backed)
			off := int64(0)
			if ok {
				give, off, ok = b.Backing(m.Mem)
			}
			if !ok {
				r, out = answer(fmt.Errorf("this buffer can't be given to another process: %w", syscall.EOPNOTSUPP))
				_ = m.Unmap() // it was just made
				return r, out, -1
			}
			r.kind, r.val = memory, uint64(off)
		}
		p.mu.Lock()
		p.next++
		r.object = p.next
		p.maps[r.object] = &shared{Mapping: m}
		p.mu.Unlock()
		return r, nil, give
	}
	return r, out, -1
}

// ioctl performs a request of the driver. Addresses of memory become those of the server's view of it, and back.
func (p *client) ioctl(f seam.File, q *request, arg []byte, fd int) (r reply, out []byte, give int) {
	req := uint32(q.val)
	var err error
	give = -1
	switch req {
	case kabi.IoctlPinPages, kabi.IoctlUnpinPages:
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.dead {
			err = syscall.ESRCH
		} else if req == kabi.IoctlPinPages {
			err = p.pins.pin(f, arg, fd, q.off)
		} else {
			err = p.pins.unpin(f, arg)
		}
	case kabi.IoctlMapPeerBar:
		err = syscall.EOPNOTSUPP
	case kabi.IoctlExportTLBDMABuf:
		if err = f.Ioctl(req, arg); err == nil {
			var a kabi.ExportTLBDMABuf
			copy(kabi.PartBytes(&a), arg)
			give = int(a.FD)
		}
	default:
		err = f.Ioctl(req, arg)
	}
	if err != nil {
		r, out = answer(err)
		if r.status == failed {
			out = arg // a driver may write its answer and fail all the same
		}
		return r, out, -1
	}
	return r, arg, give
}
