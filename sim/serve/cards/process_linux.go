package cards

import (
	"fmt"
	"runtime/debug"
	"slices"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/reprise-tt/reprise/internal/kabi"
	"github.com/reprise-tt/reprise/internal/seam"
	"github.com/reprise-tt/reprise/sim/driver"
	"github.com/reprise-tt/reprise/sim/serve"
)

type client struct {
	pid  int
	proc *driver.Process
	node seam.Node
	busy sync.RWMutex // held for reading during a request

	mu    sync.Mutex
	dead  bool
	conns map[*serve.Conn]struct{}
	files map[uint32]seam.File
	maps  map[uint32]*shared
	next  uint32
	pins  pins
}

// shared is a client's mapping. Requests lock it for reading, its end for writing.
type shared struct {
	sync.RWMutex
	seam.Mapping
}

func (p *client) add(c *serve.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.dead {
		return false
	}
	p.conns[c] = struct{}{}
	return true
}

// kill ends the process. As in the kernel, its files are released after its last request, whose
// waits are interrupted.
func (p *client) kill() error {
	p.mu.Lock()
	p.dead = true
	for c := range p.conns {
		_ = c.Close() // ends its goroutine
	}
	p.mu.Unlock()
	for !p.busy.TryLock() { // a request may begin to wait after a signal
		p.proc.Signal()
		time.Sleep(100 * time.Microsecond)
	}
	defer p.busy.Unlock()
	err := p.proc.Kill()
	p.mu.Lock()
	defer p.mu.Unlock()
	for len(p.pins.list) > 0 {
		p.pins.drop(p.pins.list[0].file)
	}
	return err
}

func (p *client) serve(c *serve.Conn) {
	debug.SetPanicOnFault(true) // mappings of a lost card fault
	var buf []byte
	for {
		var q serve.Head
		fd, err := c.ReceiveFD(&q)
		if err != nil {
			return
		}
		if q.Op == serve.OpRead && q.Val > serve.MaxPayload {
			serve.CloseFD(fd)
			return
		}
		want := uint64(q.Size)
		if q.Op == serve.OpRead {
			want = max(want, q.Val)
		}
		if uint64(cap(buf)) < want {
			buf = make([]byte, want)
		}
		payload := buf[:q.Size]
		if c.Payload(payload) != nil {
			serve.CloseFD(fd)
			return
		}
		r, ok := p.do(&q, payload, buf, fd)
		serve.CloseFD(fd)
		if !ok {
			return
		}
		r.Op = q.Op
		err = c.Send(&r.Head, r.out, r.give)
		if q.Op == opIoctl {
			serve.CloseFD(r.give) // a dma-buf; the client has a duplicate
		}
		if err != nil {
			return
		}
	}
}

// reply is a head with its payload and descriptor.
type reply struct {
	serve.Head
	out  []byte
	give int // descriptor, or -1
}

func (p *client) do(q *serve.Head, payload, buf []byte, fd int) (r reply, ok bool) {
	p.busy.RLock()
	defer p.busy.RUnlock()
	p.mu.Lock()
	dead := p.dead
	p.mu.Unlock()
	if dead {
		return r, false
	}
	r.give = -1
	if err := p.handle(q, &r, payload, buf, fd); err != nil {
		var text []byte
		if r.Head, text = serve.Fail(err); text != nil {
			r.out = text
		}
		r.give = -1
	}
	return r, true
}

func (p *client) handle(q *serve.Head, r *reply, payload, buf []byte, fd int) (err error) {
	defer func() {
		switch e := recover().(type) {
		case nil:
		case interface{ Addr() uintptr }:
			*r, err = reply{Head: serve.Head{Status: serve.StatusFault}, give: -1}, nil
		default:
			panic(e)
		}
	}()
	switch q.Op {
	case opOpen:
		f, err := p.node.Open(int(q.Val))
		if err != nil {
			return err
		}
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.dead {
			return syscall.ESRCH // kill has closed its files
		}
		p.next++
		p.files[p.next] = f
		r.Object = p.next
		return nil
	case opIoctl, opMmap, opClose, opFault, opLast:
		p.mu.Lock()
		f := p.files[q.Object]
		p.mu.Unlock()
		if f == nil {
			return syscall.EBADF
		}
		return p.onFile(q, r, f, payload, fd)
	}
	p.mu.Lock()
	m := p.maps[q.Object]
	p.mu.Unlock()
	if m == nil {
		r.Status = serve.StatusFault
		return nil
	}
	if q.Op == opUnmap {
		m.Lock()
		defer m.Unlock()
		p.mu.Lock()
		delete(p.maps, q.Object)
		p.mu.Unlock()
		return m.Unmap()
	}
	m.RLock()
	defer m.RUnlock()
	io := m.IO
	switch {
	case io == nil:
		r.Status = serve.StatusFault
	case q.Op == serve.OpLoad && serve.ValidWidth(q.Width):
		r.Val = io.Load(q.Off, int(q.Width))
	case q.Op == serve.OpStore && serve.ValidWidth(q.Width):
		io.Store(q.Off, int(q.Width), q.Val)
	case q.Op == serve.OpRead:
		r.out = buf[:q.Val]
		io.Read(q.Off, r.out)
	case q.Op == serve.OpWrite:
		io.Write(q.Off, payload)
	default:
		err = fmt.Errorf("%w: request %d", serve.ErrProtocol, q.Op)
	}
	return err
}

type backed interface {
	Backing(mem []byte) (fd int, off int64, ok bool)
}

func (p *client) onFile(q *serve.Head, r *reply, f seam.File, payload []byte, fd int) error {
	switch q.Op {
	case opClose:
		p.mu.Lock()
		delete(p.files, q.Object)
		p.mu.Unlock()
		err := f.Close()
		p.mu.Lock()
		p.pins.drop(f)
		p.mu.Unlock()
		return err
	case opFault:
		if err := f.Fault(); err != nil {
			r.out = []byte(err.Error())
			r.Status = serve.StatusText
		}
	case opLast:
		if l, ok := f.(interface{ ReleaseLast() error }); ok {
			return l.ReleaseLast()
		}
		return syscall.EOPNOTSUPP
	case opIoctl:
		r.out = payload // a driver may write its answer and fail
		return p.ioctl(f, q, r, fd)
	case opMmap:
		m, err := f.Mmap(q.Off, int(q.Val))
		if err != nil {
			return err
		}
		if m.Mem != nil {
			b, ok := f.(backed)
			off := int64(0)
			if ok {
				r.give, off, ok = b.Backing(m.Mem)
			}
			if !ok {
				_ = m.Unmap() // unused
				return fmt.Errorf("this buffer can't be given to another process: %w", syscall.EOPNOTSUPP)
			}
			r.Kind, r.Val = memory, uint64(off)
		}
		p.mu.Lock()
		p.next++
		r.Object = p.next
		p.maps[r.Object] = &shared{Mapping: m}
		p.mu.Unlock()
	}
	return nil
}

// ioctl translates the addresses of pinned memory to the server's view and back.
func (p *client) ioctl(f seam.File, q *serve.Head, r *reply, fd int) error {
	req, arg := uint32(q.Val), r.out
	switch req {
	case kabi.IoctlPinPages, kabi.IoctlUnpinPages:
		p.mu.Lock()
		defer p.mu.Unlock()
		switch {
		case p.dead:
			return syscall.ESRCH
		case req == kabi.IoctlPinPages:
			return p.pins.pin(f, arg, fd, q.Off)
		}
		return p.pins.unpin(f, arg)
	case kabi.IoctlMapPeerBar:
		return syscall.EOPNOTSUPP
	}
	err := f.Ioctl(req, arg)
	if err == nil && req == kabi.IoctlExportTLBDMABuf {
		a, _, _ := kabi.Decode[kabi.ExportTLBDMABuf](arg)
		r.give = int(a.FD)
	}
	return err
}

type view struct {
	inode uint64
	mem   []byte
	pins  int
}

type pinned struct {
	file   seam.File
	va, at uint64 // addresses in the client and in the server
	view   *view
}

// pins are a client's pinned ranges and the server's views of them.
type pins struct {
	list  []pinned
	views []*view
}

func (s *pins) viewOf(fd int) (*view, error) {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return nil, err
	}
	if i := slices.IndexFunc(s.views, func(v *view) bool { return v.inode == st.Ino }); i >= 0 {
		return s.views[i], nil
	}
	mem, err := unix.Mmap(fd, 0, int(st.Size), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil, err
	}
	v := &view{inode: st.Ino, mem: mem}
	s.views = append(s.views, v)
	return v, nil
}

func (s *pins) forget(v *view) {
	if v.pins > 0 {
		return
	}
	_ = unix.Munmap(v.mem) // can't fail
	s.views = slices.DeleteFunc(s.views, func(o *view) bool { return o == v })
}

// A negative fd is unmapped memory.
func (s *pins) pin(f seam.File, arg []byte, fd int, off uint64) error {
	in, _, ok := kabi.Decode[kabi.PinPagesIn](arg)
	if !ok {
		return f.Ioctl(kabi.IoctlPinPages, arg)
	}
	va := in.VirtualAddress
	in.VirtualAddress &= uint64(unix.Getpagesize()) - 1
	var v *view
	if fd >= 0 {
		var err error
		if v, err = s.viewOf(fd); err != nil {
			return err
		}
		if size := uint64(len(v.mem)); off > size || in.Size > size-off {
			s.forget(v)
			return unix.EFAULT
		}
		in.VirtualAddress = addressOf(v.mem) + off
	}
	at := in.VirtualAddress
	err := moved(f, kabi.IoctlPinPages, arg, &in, &in.VirtualAddress, va)
	switch {
	case v == nil:
	case err != nil:
		s.forget(v)
	default:
		v.pins++
		s.list = append(s.list, pinned{file: f, va: va, at: at, view: v})
	}
	return err
}

// moved asks the driver with another input, whose address is then the client's again.
func moved[T kabi.Part](f seam.File, req uint32, arg []byte, in *T, address *uint64, va uint64) error {
	kabi.Put(arg, in)
	err := f.Ioctl(req, arg)
	*address = va
	kabi.Put(arg, in)
	return err
}

// unpin takes the newest pin at an address, as the driver does.
func (s *pins) unpin(f seam.File, arg []byte) error {
	in, _, ok := kabi.Decode[kabi.UnpinPagesIn](arg)
	if !ok {
		return f.Ioctl(kabi.IoctlUnpinPages, arg)
	}
	va := in.VirtualAddress
	i := len(s.list) - 1
	for ; i >= 0 && (s.list[i].file != f || s.list[i].va != va); i-- {
	}
	in.VirtualAddress = 0 // never pinned
	if i >= 0 {
		in.VirtualAddress = s.list[i].at
	}
	err := moved(f, kabi.IoctlUnpinPages, arg, &in, &in.VirtualAddress, va)
	if err == nil && i >= 0 {
		v := s.list[i].view
		s.list = slices.Delete(s.list, i, i+1)
		v.pins--
		s.forget(v)
	}
	return err
}

// The driver holds the pages as long as the file lives.
func (s *pins) drop(f seam.File) {
	s.list = slices.DeleteFunc(s.list, func(p pinned) bool {
		if p.file != f {
			return false
		}
		p.view.pins--
		s.forget(p.view)
		return true
	})
}
