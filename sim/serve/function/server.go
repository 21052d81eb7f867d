package function

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"runtime"
	"slices"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/reprise-tt/reprise/sim/serve"
)

// Library is a loaded simulator. Calls don't overlap, and may end the process. The garbage
// collector doesn't move the slices.
type Library interface {
	ConfigRead(bdf, off uint32) uint32
	ConfigWrite(bdf, off, v uint32)
	Read(paddr uint64, p []byte)
	Write(paddr uint64, p []byte)
	Clock(n uint32)
	Exit()
}

// Callbacks are the library's accesses to host memory during a call.
type Callbacks struct {
	Read  func(bus uint64, p []byte)
	Write func(bus uint64, p []byte)
}

// Loader loads the library at a path. Its error wraps ErrSymbol, ErrUnsupported or ErrLoad.
type Loader func(path string, cb Callbacks) (Library, error)

// Serve is the server process: it loads the library that the client names, and answers until the
// client closes the simulator or ends. The error wraps ErrNotServer if descriptor FD is no client's
// socket, and serve.ErrProtocol for another version.
func Serve(load Loader) error {
	f := os.NewFile(FD, "client")
	conn, err := serve.ConnOf(f)
	if errors.Is(err, serve.ErrUnsupported) {
		return err
	}
	_ = f.Close() // the connection has a duplicate
	if err != nil {
		return fmt.Errorf("function: serve: %w: descriptor %d: %w; let ttsim.Start run this program", ErrNotServer, FD, err)
	}
	return serveConn(conn, load)
}

func serveConn(conn *net.UnixConn, load Loader) error {
	c := serve.NewConn(conn)
	defer c.Close()
	fd, err := c.Welcome(serve.ServiceFunction)
	switch {
	case errors.Is(err, io.EOF), errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
		return nil // the client ended
	case err != nil:
		return fmt.Errorf("function: serve: %w; run the same build as server", err)
	case fd < 0:
		return fmt.Errorf("function: serve: %w: the client has sent no memory", serve.ErrProtocol)
	}
	f := os.NewFile(uintptr(fd), "shared memory")
	shm, err := serve.MapMemory(f)
	_ = f.Close() // it stays mapped
	if err != nil {
		return fmt.Errorf("function: serve: %w", err)
	}
	s := newServer(shm, load)
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		c.AwaitEnd()
		s.quit.Store(true)
		shm.Wake()
	}()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	err = s.run()
	_ = c.Close() // ends the watcher
	<-watched
	return errors.Join(err, shm.Unmap())
}

type server struct {
	shm    *serve.Memory
	load   Loader
	lib    Library
	manual bool        // only opClock advances time
	quit   atomic.Bool // the client is gone
	ended  bool        // the client asked for the end
	clocks uint64
	device uint8  // device of the current BAR access, or AnyDevice
	calls  uint64 // calls made
	pace   pace
	sleep  func(limit time.Duration) // waits for a request
}

func newServer(shm *serve.Memory, load Loader) *server {
	s := &server{shm: shm, load: load, device: AnyDevice}
	s.sleep = func(limit time.Duration) { shm.Requests.AwaitItem(0, limit, s.quit.Load) }
	return s
}

// batch bounds the requests between advances of time, for a host that stores without a pause.
const batch = 512

func (s *server) run() error {
	var rec serve.Record
	for !s.quit.Load() {
		n := 0
		for ; n < batch && !s.ended; n++ {
			ok, err := s.shm.Requests.Next(&rec)
			if err != nil {
				return fmt.Errorf("function: serve: %w", err)
			}
			if !ok {
				break
			}
			s.serve(&rec)
			s.shm.Requests.Advance(&rec)
		}
		if s.ended {
			break // the client waits for the end
		}
		if s.lib == nil || s.manual {
			s.sleep(time.Second)
			continue
		}
		chunk, rest := s.pace.next(n, s.calls)
		start := time.Now()
		s.clock(uint64(chunk))
		s.pace.took(time.Since(start))
		if rest > 0 {
			s.sleep(rest)
		}
	}
	if s.lib != nil && !s.quit.Load() {
		s.lib.Exit()
	}
	return nil
}

func (s *server) clock(n uint64) {
	for n > 0 && !s.quit.Load() {
		k := min(n, 1<<16)
		s.lib.Clock(uint32(k))
		s.clocks += k
		atomic.StoreUint64(s.shm.Progress, s.clocks)
		n -= k
	}
}

// serve ignores unknown requests and requests before opOpen.
func (s *server) serve(rec *serve.Record) {
	if s.lib == nil && rec.Op != opOpen && rec.Op != opExit {
		return
	}
	reply := serve.Head{Op: rec.Op}
	switch rec.Op {
	case serve.OpStore:
		if serve.ValidWidth(rec.Width) {
			s.access(s.lib.Write, rec.Off, rec.Value[:rec.Width])
		}
		return
	case serve.OpWrite:
		s.access(s.lib.Write, rec.Off, rec.Payload)
		return
	case serve.OpLoad:
		if v := s.shm.Requests.ReplyPayload()[:8]; serve.ValidWidth(rec.Width) {
			clear(v)
			s.access(s.lib.Read, rec.Off, v[:rec.Width])
			reply.Val = binary.LittleEndian.Uint64(v)
		}
	case serve.OpRead:
		reply.Size = uint32(min(rec.Val, serve.ReplyBytes))
		s.access(s.lib.Read, rec.Off, s.shm.Requests.ReplyPayload()[:reply.Size])
	case opOpen:
		s.open(rec, &reply)
	case opConfigRead:
		reply.Val = uint64(s.lib.ConfigRead(rec.Object<<3, uint32(rec.Off)))
	case opConfigWrite:
		s.lib.ConfigWrite(rec.Object<<3, uint32(rec.Off), uint32(rec.Val))
	case opClock:
		s.clock(rec.Val)
	case opSync:
	case opExit:
		s.ended = true
		return
	default:
		return
	}
	s.shm.Calls.AwaitEmpty(s.quit.Load) // the device's earlier writes arrive first
	s.shm.Requests.Reply(&reply)
}

func (s *server) access(do func(paddr uint64, p []byte), addr uint64, p []byte) {
	s.device = uint8(addr >> DeviceShift)
	do(addr, p)
	s.device = AnyDevice
}

// A failure's text is the reply's payload.
func (s *server) open(rec *serve.Record, reply *serve.Head) {
	s.manual = rec.Val != 0
	lib, err := s.load(string(rec.Payload), Callbacks{Read: s.hostRead, Write: s.hostWrite})
	switch {
	case err == nil:
		s.lib = lib
		return
	case errors.Is(err, ErrSymbol):
		reply.Kind = openSymbol
	case errors.Is(err, ErrUnsupported):
		reply.Kind = openUnsupported
	default:
		reply.Kind = openLoad
	}
	reply.Status = serve.StatusText
	reply.Size = uint32(copy(s.shm.Requests.ReplyPayload(), err.Error()))
}

// p is a write's payload; false: the client is gone.
func (s *server) call(h *serve.Head, p []byte) bool {
	r := &s.shm.Calls
	h.Object, h.Size = uint32(s.device), uint32(len(p))
	if !r.Reserve(len(p), s.quit.Load) {
		return false
	}
	copy(r.Slot(h), p)
	r.Publish(len(p))
	s.calls++
	return true
}

func (s *server) hostWrite(bus uint64, p []byte) {
	for b := range slices.Chunk(p, serve.CallBytes) {
		if !s.call(&serve.Head{Op: serve.OpWrite, Off: bus}, b) {
			return
		}
		bus += uint64(len(b))
	}
}

// hostRead waits for the client, and so for all earlier writes.
func (s *server) hostRead(bus uint64, p []byte) {
	for len(p) > 0 {
		n := min(len(p), serve.CallBytes)
		before := s.shm.Calls.Replies()
		if !s.call(&serve.Head{Op: serve.OpRead, Off: bus, Val: uint64(n)}, nil) {
			clear(p)
			return
		}
		var h serve.Head
		data, _ := s.shm.Calls.Await(before, s.quit.Load, &h)
		if len(data) != n {
			clear(p) // the client is gone
			return
		}
		copy(p[:n], data)
		bus, p = bus+uint64(n), p[n:]
	}
}
