package server

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/reprise-tt/reprise/sim/ttsim/internal/link"
)

// library is libttsim.so, loaded and ready. Calls must not overlap. Any of them may end the process.
type library interface {
	ConfigRead(bdf, off uint32) uint32
	ConfigWrite(bdf, off, v uint32)
	Read(paddr uint64, p []byte)
	Write(paddr uint64, p []byte)
	Clock(n uint32)
	Exit()
}

// callbacks is what the library calls for host memory while one of its functions runs.
type callbacks struct {
	read  func(bus uint64, p []byte)
	write func(bus uint64, p []byte)
}

var (
	// ErrNotServer means that Serve was called in a process that ttsim.Start did not create.
	ErrNotServer = errors.New("this process was not started as a simulator server")
	// ErrProtocol means that the parent speaks another revision of the protocol between the two processes, as when it
	// is another build of the program.
	ErrProtocol = errors.New("the parent process speaks another protocol revision")

	errLoad   = errors.New("the dynamic loader refuses it")
	errSymbol = errors.New("symbol not found")
)

// Serve is what the server process runs: it loads the library that the parent names and answers the parent until
// that closes the simulator or ends. It returns nil then. The library may end the process before. Serve reads file
// descriptors 0 and 3 as Start set them up, and returns ErrNotServer in a process that Start didn't create.
func Serve() error {
	f := os.NewFile(link.FD, "shared memory")
	if f == nil {
		return fmt.Errorf("ttsim/server: serve: %w: file descriptor %d is not open; let ttsim.Start run this program", ErrNotServer, link.FD)
	}
	mem, err := link.Map(f)
	switch {
	case errors.Is(err, link.ErrUnsupported):
		return err
	case err != nil:
		return fmt.Errorf("ttsim/server: serve: %w: %w; let ttsim.Start run this program", ErrNotServer, err)
	}
	f.Close()
	// The memory stays mapped: the process ends after this, and the goroutine below uses it until then.
	s := newServer(link.New(mem))
	if r := atomic.LoadUint64(s.shm.Revision); r != link.Protocol {
		return fmt.Errorf("ttsim/server: serve: %w: parent %#x, server %#x; run the same build as server", ErrProtocol, r, uint64(link.Protocol))
	}
	// The parent holds the other end of the standard input and never writes: its end, however it comes, is ours.
	go func() {
		io.Copy(io.Discard, os.Stdin)
		s.quit.Store(true)
		s.shm.Requests.Items.Ring()
		s.shm.DMA.Space.Ring()
	}()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	s.run()
	return nil
}

// server is the state of the process that runs the library.
type server struct {
	shm    *link.Shared
	lib    library
	quit   atomic.Bool // the parent is gone
	ended  bool        // the parent asked for the end
	clocks uint64
	device uint8  // whose BAR access runs, or link.AnyDevice
	dmas   uint64 // DMA records sent
	pace   pace
	sleep  func(limit time.Duration) // waits for a request
}

func newServer(shm *link.Shared) *server {
	s := &server{shm: shm, device: link.AnyDevice}
	s.sleep = s.awaitRequest
	return s
}

// batch limits how many requests are served before time advances again, so that a host that stores without a pause
// doesn't stop the device.
const batch = 512

func (s *server) run() {
	for !s.quit.Load() {
		n := 0
		for ; n < batch && !s.ended; n++ {
			rec, ok := s.shm.Requests.Next()
			if !ok {
				break
			}
			s.serve(rec)
			s.shm.Requests.Advance(rec)
		}
		if s.ended {
			break // the parent waits for that
		}
		if s.lib == nil || atomic.LoadUint32(s.shm.Manual) != 0 {
			s.sleep(time.Second)
			continue
		}
		chunk, rest := s.pace.next(n, s.dmas)
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
}

func (s *server) awaitRequest(limit time.Duration) {
	s.shm.Requests.Items.Wait(0, limit, func() bool { return !s.shm.Requests.Empty() || s.quit.Load() })
}

func (s *server) clock(n uint64) {
	for n > 0 && !s.quit.Load() {
		k := min(n, 1<<16)
		s.lib.Clock(uint32(k))
		s.clocks += k
		atomic.StoreUint64(s.shm.Clock, s.clocks)
		n -= k
	}
}

func (s *server) serve(rec link.Record) {
	if s.lib == nil && rec.Op != link.OpOpen && rec.Op != link.OpExit {
		return
	}
	switch rec.Op {
	case link.OpOpen:
		s.open(string(rec.Payload))
	case link.OpWrite:
		s.device = link.DeviceOf(rec.Addr)
		s.lib.Write(rec.Addr, rec.Payload)
		s.device = link.AnyDevice
	case link.OpRead:
		s.device = link.DeviceOf(rec.Addr)
		s.lib.Read(rec.Addr, s.shm.Reply[:rec.Size])
		s.device = link.AnyDevice
		s.respond()
	case link.OpConfigRead:
		v := s.lib.ConfigRead(uint32(rec.Addr>>32), uint32(rec.Addr))
		binary.LittleEndian.PutUint32(s.shm.Reply, v)
		s.respond()
	case link.OpConfigWrite:
		s.lib.ConfigWrite(uint32(rec.Addr>>32), uint32(rec.Addr), binary.LittleEndian.Uint32(rec.Payload))
		s.respond()
	case link.OpClock:
		s.clock(rec.Addr)
		s.respond()
	case link.OpSync:
		s.respond()
	case link.OpExit:
		s.ended = true
	}
}

// open loads the library and answers with the status and, if that isn't good, the reason.
func (s *server) open(path string) {
	lib, err := loadLibrary(path, callbacks{read: s.dmaRead, write: s.dmaWrite})
	status := uint32(link.OpenOK)
	switch {
	case err == nil:
		s.lib = lib
	case errors.Is(err, errSymbol):
		status = link.OpenSymbol
	case errors.Is(err, link.ErrUnsupported):
		status = link.OpenUnsupported
	default:
		status = link.OpenLoad
	}
	n := 0
	if err != nil {
		n = copy(s.shm.Reply, err.Error())
	}
	atomic.StoreUint32(s.shm.StatusLen, uint32(n))
	atomic.StoreUint32(s.shm.Status, status)
	s.respond()
}

// respond gives the reply to the parent. What the device wrote to host memory before arrives first, as on a PCIe
// link, where a completion pushes posted writes.
func (s *server) respond() {
	s.drain()
	atomic.AddUint32(s.shm.Replies, 1)
	s.shm.Replied.Signal()
}

// drain waits until the parent has done all DMA.
func (s *server) drain() {
	if s.shm.DMA.Empty() {
		return
	}
	s.shm.DMA.Space.Wait(link.Spins, link.Forever, func() bool { return s.shm.DMA.Empty() || s.quit.Load() })
}

// request puts a DMA record into the ring; the payload is p for a write. It returns false when the parent is gone.
func (s *server) request(op uint8, bus uint64, p []byte) bool {
	n := 0
	if op == link.OpDMAWrite {
		n = len(p)
	}
	r := &s.shm.DMA
	if !r.Free(n) {
		r.Space.Wait(link.Spins, link.Forever, func() bool { return r.Free(n) || s.quit.Load() })
	}
	if s.quit.Load() {
		return false
	}
	copy(r.Slot(op, s.device, bus, uint32(len(p)), n), p[:n])
	r.Publish(n)
	s.dmas++
	return true
}

// dmaWrite is called by the library. Writes are posted.
func (s *server) dmaWrite(bus uint64, p []byte) {
	for len(p) > 0 {
		n := min(len(p), link.DMAChunk)
		if !s.request(link.OpDMAWrite, bus, p[:n]) {
			return
		}
		bus, p = bus+uint64(n), p[n:]
	}
}

// dmaRead is called by the library. It waits for the parent, and so for all writes before it.
func (s *server) dmaRead(bus uint64, p []byte) {
	for len(p) > 0 {
		n := min(len(p), link.DMAChunk)
		if !s.request(link.OpDMARead, bus, p[:n]) {
			clear(p)
			return
		}
		s.drain()
		copy(p[:n], s.shm.DMAReply)
		bus, p = bus+uint64(n), p[n:]
	}
}
