package cards

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"net"
	"os"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/reprise-tt/reprise/internal/kabi"
	"github.com/reprise-tt/reprise/internal/seam"
	"github.com/reprise-tt/reprise/sim/driver"
	"github.com/reprise-tt/reprise/sim/serve"
)

// Serve offers device i of a machine to the processes that connect to a listener, until ctx ends.
// Then it closes the listener and kills those processes for the driver's model. The error is the
// listener's, or that of releasing resources; nil when ctx ended it.
func Serve(ctx context.Context, l *net.UnixListener, d *driver.Driver, i int) error {
	s := &server{drv: d, index: i, conns: map[*net.UnixConn]struct{}{}, clients: map[uint64]*client{}}
	stop := context.AfterFunc(ctx, func() {
		_ = l.Close() // ends the loop below
		s.hangUp()
	})
	defer stop()
	var err error
	for {
		var c *net.UnixConn
		if c, err = l.AcceptUnix(); err != nil {
			break
		}
		if !s.add(c) {
			break
		}
		s.running.Go(func() { s.serve(c) })
	}
	s.hangUp()
	s.running.Wait()
	if ctx.Err() != nil {
		err = nil
	}
	return errors.Join(err, s.problem)
}

type server struct {
	drv     *driver.Driver
	index   int
	running sync.WaitGroup

	mu      sync.Mutex
	conns   map[*net.UnixConn]struct{} // nil at the end
	clients map[uint64]*client
	problem error
}

func (s *server) add(c *net.UnixConn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.conns == nil {
		_ = c.Close() // nothing was said on it
		return false
	}
	s.conns[c] = struct{}{}
	return true
}

func (s *server) hangUp() {
	s.mu.Lock()
	conns, clients := s.conns, slices.Collect(maps.Values(s.clients))
	s.conns = nil
	s.mu.Unlock()
	for c := range conns {
		_ = c.Close() // ends its goroutine
	}
	for _, c := range clients {
		c.proc.Signal() // ends waits in the driver
	}
}

func (s *server) serve(u *net.UnixConn) {
	c := serve.NewConn(u)
	defer func() {
		_ = c.Close() // may be closed already
		s.mu.Lock()
		delete(s.conns, u)
		s.mu.Unlock()
	}()
	fd, err := c.Welcome(serve.ServiceCard)
	serve.CloseFD(fd) // none is expected
	var q serve.Head
	if err != nil || c.Receive(&q) != nil {
		return
	}
	switch q.Op {
	case opProcess:
		s.process(c)
	case opJoin:
		s.mu.Lock()
		p := s.clients[q.Val]
		s.mu.Unlock()
		if p == nil || !p.add(c) {
			return
		}
		if c.Send(&serve.Head{Op: q.Op}, nil, -1) == nil {
			p.serve(c)
		}
	case opFile:
		name := make([]byte, min(q.Size, maxName))
		if c.Payload(name) == nil {
			r, payload := s.file(string(name))
			r.Op = q.Op
			_ = c.Send(&r, payload, -1) // the client sees a missing reply
		}
	}
}

func (s *server) process(c *serve.Conn) {
	pid, err := c.PeerPID()
	if err != nil {
		return
	}
	name, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid))
	if err != nil {
		name = nil // ended, or in another container
	}
	p := &client{server: s, first: c, dying: make(chan struct{}), ended: make(chan struct{}), pid: pid,
		proc:  s.drv.NewProcess(pid, strings.TrimSpace(string(name))),
		conns: map[*serve.Conn]struct{}{}, files: map[uint32]seam.File{}, maps: map[uint32]*shared{}}
	p.node = p.proc.Node(s.index)
	s.mu.Lock()
	token := rand.Uint64() // a secret of the process and its children
	s.clients[token] = p
	ending := s.conns == nil
	s.mu.Unlock()
	if !ending && c.Send(&serve.Head{Op: opProcess, Val: token}, nil, -1) == nil {
		c.AwaitEnd()
	}
	err = p.kill()
	s.mu.Lock()
	delete(s.clients, token)
	s.mu.Unlock()
	close(p.ended)
	if err != nil {
		s.mu.Lock()
		s.problem = errors.Join(s.problem, fmt.Errorf("cards: end process %d: %w", pid, err))
		s.mu.Unlock()
	}
}

// settle waits until what processes held is released that have ended, or closed their files: the
// kernel releases files before others see the end. A request of a process must not wait for it.
func (s *server) settle(asking *client) {
	s.mu.Lock()
	var over []*client
	for _, c := range s.clients {
		if c != asking && c.first.HungUp() {
			over = append(over, c)
		}
	}
	s.mu.Unlock()
	for _, c := range over {
		select {
		case <-c.ended:
		case <-asking.dying:
		}
	}
}

func (s *server) file(name string) (serve.Head, []byte) {
	f, err := s.drv.FS().Open(name)
	if err != nil {
		return serve.Fail(errors.Unwrap(err))
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return serve.Fail(err)
	}
	var data []byte
	if d, ok := f.(fs.ReadDirFile); ok && info.IsDir() {
		var entries []fs.DirEntry
		if entries, err = d.ReadDir(-1); err == nil {
			for _, e := range entries {
				data = fmt.Appendf(data, "%d %s\n", e.Type(), e.Name())
			}
		}
	} else {
		data, err = fs.ReadFile(s.drv.FS(), name)
	}
	if err != nil {
		return serve.Fail(err)
	}
	return serve.Head{Val: uint64(info.Mode())}, data
}

type client struct {
	server       *server
	first        *serve.Conn
	dying, ended chan struct{} // closed when kill begins, and after it
	pid          int
	proc         *driver.Process
	node         seam.Node
	busy         sync.RWMutex // held for reading during a request

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
	close(p.dying)
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
		if c.Send(&r.Head, r.out, r.give) != nil {
			return
		}
	}
}

// reply is a head with its payload and the driver's descriptor, or -1.
type reply struct {
	serve.Head
	out  []byte
	give int
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
		p.server.settle(p)
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
		p.server.settle(p)
		r.out = payload // a driver may write its answer and fail
		return p.ioctl(f, q, r, fd)
	case opMmap:
		m, err := f.Mmap(q.Off, int(q.Val))
		if err != nil {
			return err
		}
		if m.Mem != nil {
			b, ok := f.(interface {
				Backing(mem []byte) (fd int, off int64, ok bool)
			})
			off := int64(0)
			if ok {
				r.give, off, ok = b.Backing(m.Mem)
			}
			if !ok {
				_ = m.Unmap() // unused
				return fmt.Errorf("this buffer can't be given to another process: %w", syscall.EOPNOTSUPP)
			}
			r.Val = uint64(off)
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
	case kabi.IoctlMapPeerBar, kabi.IoctlExportTLBDMABuf: // their descriptors are of one process
		return syscall.EOPNOTSUPP
	}
	return f.Ioctl(req, arg)
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
