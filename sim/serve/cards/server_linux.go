package cards

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net"
	"os"
	"slices"
	"strings"
	"sync"

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
	next    uint64
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
		pid, err := c.PeerPID()
		if p == nil || err != nil || pid != p.pid || !p.add(c) {
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
	p := &client{pid: pid, proc: s.drv.NewProcess(pid, strings.TrimSpace(string(name))), conns: map[*serve.Conn]struct{}{},
		files: map[uint32]seam.File{}, maps: map[uint32]*shared{}}
	p.node = p.proc.Node(s.index)
	s.mu.Lock()
	s.next++
	token := s.next
	s.clients[token] = p
	ending := s.conns == nil
	s.mu.Unlock()
	if !ending && c.Send(&serve.Head{Op: opProcess, Val: token}, nil, -1) == nil {
		c.AwaitEnd()
	}
	s.mu.Lock()
	delete(s.clients, token)
	s.mu.Unlock()
	if err := p.kill(); err != nil {
		s.mu.Lock()
		s.problem = errors.Join(s.problem, fmt.Errorf("cards: end process %d: %w", pid, err))
		s.mu.Unlock()
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
