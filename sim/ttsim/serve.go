package ttsim

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"sync/atomic"
	"time"
)

// sharedFD is the descriptor of the shared memory in the server: the first after the standard three.
const sharedFD = 3

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
	errLoad   = errors.New("the dynamic loader refuses it")
	errSymbol = errors.New("symbol not found")
)

// Serve is what the server process runs: it loads the library that the parent names and answers the parent until
// that closes the simulator or ends. It returns nil then. The library may end the process before. Serve reads file
// descriptors 0 and 3 as Start set them up, and returns ErrNotServer in a process that Start didn't create.
func Serve() error {
	f := os.NewFile(sharedFD, "shared memory")
	if f == nil {
		return fmt.Errorf("ttsim: serve: %w: file descriptor %d is not open; let ttsim.Start run this program", ErrNotServer, sharedFD)
	}
	mem, err := mapShared(f)
	f.Close()
	if errors.Is(err, ErrUnsupported) {
		return err
	} else if err != nil {
		return fmt.Errorf("ttsim: serve: %w: %w; let ttsim.Start run this program", ErrNotServer, err)
	}
	defer unmapShared(mem)
	s := newServer(newShared(mem))
	if r := atomic.LoadUint64(s.shm.revision); r != protocol {
		return fmt.Errorf("ttsim: serve: %w: parent %#x, server %#x; run the same build as server", ErrProtocol, r, uint64(protocol))
	}
	// The parent holds the other end of the standard input and never writes: its end, however it comes, is ours.
	go func() {
		io.Copy(io.Discard, os.Stdin)
		s.quit.Store(true)
		s.shm.requests.items.ring()
		s.shm.dma.space.ring()
	}()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	s.run()
	return nil
}

// server is the state of the process that runs the library.
type server struct {
	shm    *shared
	lib    library
	quit   atomic.Bool // the parent is gone
	ended  bool        // the parent asked for the end
	clocks uint64
	device uint8  // whose BAR access runs, or anyDevice
	dmas   uint64 // DMA records sent
	pace   pace
}

// anyDevice is the device of a DMA record that was sent while all devices were clocked: the library doesn't say
// which of them it comes from.
const anyDevice = 0xFF

func newServer(shm *shared) *server { return &server{shm: shm, device: anyDevice} }

// batch limits how many requests are served before time advances again, so that a host that stores without a pause
// doesn't stop the device.
const batch = 512

func (s *server) run() {
	for !s.quit.Load() && !s.ended {
		n := 0
		for ; n < batch && !s.ended; n++ {
			rec, ok := s.shm.requests.next()
			if !ok {
				break
			}
			s.serve(rec)
			s.shm.requests.advance(rec)
		}
		if s.lib == nil || atomic.LoadUint32(s.shm.manual) != 0 {
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

// sleep waits for a request.
func (s *server) sleep(limit time.Duration) {
	s.shm.requests.items.wait(0, limit, func() bool { return !s.shm.requests.empty() || s.quit.Load() })
}

func (s *server) clock(n uint64) {
	for n > 0 && !s.quit.Load() {
		k := min(n, 1<<16)
		s.lib.Clock(uint32(k))
		s.clocks += k
		atomic.StoreUint64(s.shm.clock, s.clocks)
		n -= k
	}
}

func (s *server) serve(rec record) {
	if s.lib == nil && rec.op != opOpen && rec.op != opExit {
		return
	}
	switch rec.op {
	case opOpen:
		s.open(string(rec.payload))
	case opWrite:
		s.device = deviceOf(rec.addr)
		s.lib.Write(rec.addr, rec.payload)
		s.device = anyDevice
	case opRead:
		s.device = deviceOf(rec.addr)
		s.lib.Read(rec.addr, s.shm.reply[:rec.size])
		s.device = anyDevice
		s.respond()
	case opConfigRead:
		v := s.lib.ConfigRead(uint32(rec.addr>>32), uint32(rec.addr))
		binary.LittleEndian.PutUint32(s.shm.reply, v)
		s.respond()
	case opConfigWrite:
		s.lib.ConfigWrite(uint32(rec.addr>>32), uint32(rec.addr), binary.LittleEndian.Uint32(rec.payload))
		s.respond()
	case opClock:
		s.clock(rec.addr)
		s.respond()
	case opSync:
		s.respond()
	case opExit:
		s.ended = true
	}
}

// open loads the library and answers with the status and, if that isn't good, the reason.
func (s *server) open(path string) {
	lib, err := loadLibrary(path, callbacks{read: s.dmaRead, write: s.dmaWrite})
	status := uint32(openOK)
	switch {
	case err == nil:
		s.lib = lib
	case errors.Is(err, errSymbol):
		status = openSymbol
	case errors.Is(err, ErrUnsupported):
		status = openUnsupported
	default:
		status = openLoad
	}
	n := 0
	if err != nil {
		n = copy(s.shm.reply, err.Error())
	}
	atomic.StoreUint32(s.shm.statusLen, uint32(n))
	atomic.StoreUint32(s.shm.status, status)
	s.respond()
}

// respond gives the reply to the parent. What the device wrote to host memory before arrives first, as on a PCIe
// link, where a completion pushes posted writes.
func (s *server) respond() {
	s.drain()
	atomic.AddUint32(s.shm.replies, 1)
	s.shm.replied.signal()
}

// drain waits until the parent has done all DMA.
func (s *server) drain() {
	if s.shm.dma.empty() {
		return
	}
	s.shm.dma.space.wait(spins, forever, func() bool { return s.shm.dma.empty() || s.quit.Load() })
}

// spins is how often a party looks before it sleeps: some microseconds.
const spins = 2000

// request puts a DMA record into the ring; the payload is p for a write. It returns false when the parent is gone.
func (s *server) request(op uint8, bus uint64, p []byte) bool {
	n := 0
	if op == opDMAWrite {
		n = len(p)
	}
	r := &s.shm.dma
	if !r.free(n) {
		r.space.wait(spins, forever, func() bool { return r.free(n) || s.quit.Load() })
	}
	if s.quit.Load() {
		return false
	}
	copy(r.slot(op, s.device, bus, uint32(len(p)), n), p[:n])
	r.publish(n)
	s.dmas++
	return true
}

// dmaWrite is called by the library. Writes are posted.
func (s *server) dmaWrite(bus uint64, p []byte) {
	for len(p) > 0 {
		n := min(len(p), dmaChunk)
		if !s.request(opDMAWrite, bus, p[:n]) {
			return
		}
		bus, p = bus+uint64(n), p[n:]
	}
}

// dmaRead is called by the library. It waits for the parent, and so for all writes before it.
func (s *server) dmaRead(bus uint64, p []byte) {
	for len(p) > 0 {
		n := min(len(p), dmaChunk)
		if !s.request(opDMARead, bus, p[:n]) {
			clear(p)
			return
		}
		s.drain()
		copy(p[:n], s.shm.dmaReply)
		bus, p = bus+uint64(n), p[n:]
	}
}
