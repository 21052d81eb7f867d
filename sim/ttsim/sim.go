package ttsim

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// A Sim is one running simulator: a server process with the chips of one library, of which each one that has a PCI
// interface of its own is a Function. Its methods may be called from any goroutine.
type Sim struct {
	path      string
	functions []*Function

	shm *shared
	mem []byte
	cmd *exec.Cmd
	in  *os.File // the server ends when this is closed
	out tail

	dead    atomic.Bool // no more answers will come; fault is final
	closing atomic.Bool
	ready   atomic.Bool  // Start is done
	queue   sync.Mutex   // producers of requests
	asking  sync.Mutex   // whoever waits for a reply; taken before queue
	use     sync.RWMutex // held while the mapping is used, so that Close can unmap
	gone    bool         // unmapped; guarded by use
	open    atomic.Int32 // functions that aren't closed
	dmaErr  atomic.Pointer[Error]
	fault   atomic.Pointer[Error]

	reaped chan struct{} // the server is gone and fault is set
	served chan struct{} // the DMA goroutine has ended
	once   sync.Once
}

// Waiting times for the server process. They bound a broken server, not a slow simulation.
const (
	startTimeout = 60 * time.Second
	exitTimeout  = 5 * time.Second
	drainTimeout = 2 * time.Second
)

// Start runs the simulator of the library at path in a server process and returns when its devices can be used.
// Errors are a *LibraryError where the library is the reason; ErrNoServer, ErrUnsupported and ErrProtocol say what
// else can be wrong.
func Start(path string, opts ...Option) (*Sim, error) {
	var c config
	for _, o := range opts {
		o(&c)
	}
	f, err := newSharedFile()
	if err != nil {
		if errors.Is(err, ErrUnsupported) {
			return nil, err
		}
		return nil, fmt.Errorf("ttsim: start: shared memory: %w", err)
	}
	defer f.Close()
	abs, err := checkLibrary(path)
	if err != nil {
		return nil, err
	}
	if len(c.server) == 0 {
		return nil, fmt.Errorf("ttsim: start: %w; the library ends its process when it refuses something, so it needs one of "+
			"its own: give ttsim.Server(program, args...) of a program that calls ttsim.Serve", ErrNoServer)
	}
	mem, err := mapShared(f)
	if err != nil {
		return nil, fmt.Errorf("ttsim: start: shared memory: %w", err)
	}
	s := &Sim{path: path, mem: mem, shm: newShared(mem), reaped: make(chan struct{}), served: make(chan struct{})}
	s.out.also = c.output
	atomic.StoreUint64(s.shm.revision, protocol)
	if c.manual {
		atomic.StoreUint32(s.shm.manual, 1)
	}
	if err := s.spawn(&c, f); err != nil {
		unmapShared(mem)
		return nil, fmt.Errorf("ttsim: start: server %q: %w; check the Server option", c.server, err)
	}
	go s.reap()
	go s.serveDMA()
	t := time.AfterFunc(startTimeout, func() { s.cmd.Process.Kill() })
	if err := s.connect(path, abs); err != nil {
		t.Stop()
		s.Close()
		return nil, err
	}
	t.Stop()
	s.open.Store(int32(len(s.functions)))
	s.ready.Store(true)
	return s, nil
}

// spawn starts the server process.
func (s *Sim) spawn(c *config, shm *os.File) error {
	stdin, in, err := os.Pipe()
	if err != nil {
		return err
	}
	defer stdin.Close()
	cmd := exec.Command(c.server[0], c.server[1:]...)
	cmd.Env = append(os.Environ(), c.env...)
	cmd.Stdin = stdin
	cmd.Stdout, cmd.Stderr = &s.out, &s.out
	cmd.ExtraFiles = []*os.File{shm}
	cmd.SysProcAttr = serverAttributes()
	cmd.WaitDelay = drainTimeout
	if err := cmd.Start(); err != nil {
		in.Close()
		return err
	}
	s.cmd, s.in = cmd, in
	return nil
}

// connect makes the server load the library and finds the devices.
func (s *Sim) connect(path, abs string) error {
	if len(abs) > writeChunk {
		return &LibraryError{Path: path, Err: syscall.ENAMETOOLONG, Hint: "give a shorter path"}
	}
	var status uint32
	var text string
	ok := s.ask(opOpen, 0, uint32(len(abs)), []byte(abs), func([]byte) {
		status = atomic.LoadUint32(s.shm.status)
		text = string(s.shm.reply[:atomic.LoadUint32(s.shm.statusLen)])
	})
	if !ok {
		return s.startError()
	}
	switch status {
	case openOK:
	case openSymbol:
		return &LibraryError{Path: path, Err: fmt.Errorf("%w: %s", ErrMissingSymbol, text), Hint: "use ttsim 1.10.0 or a later one that keeps its API"}
	case openUnsupported:
		return fmt.Errorf("ttsim: start: server %q: %w", s.cmd.Args, ErrUnsupported)
	default:
		return &LibraryError{Path: path, Err: fmt.Errorf("%w: %s", ErrNotLibrary, text), Hint: "it may need a newer C library or another processor"}
	}
	// Devices follow each other on bus 0 from device number 0; the first absent one reads all-ones (ttsim
	// docs/libttsim_api.md, Config space).
	for device := uint32(0); device < 32; device++ {
		id, ok := s.config(device, 0)
		if !ok {
			return s.startError()
		}
		if id == ^uint32(0) {
			break
		}
		fn := &Function{sim: s, device: device, id: id}
		for i, off := range [...]uint32{0x10, 0x18, 0x20} {
			lo, _ := s.config(device, off)
			hi, _ := s.config(device, off+4)
			fn.bars[i] = uint64(hi)<<32 | uint64(lo&^0xF)
		}
		s.functions = append(s.functions, fn)
	}
	if s.dead.Load() {
		return s.startError()
	}
	if len(s.functions) == 0 || !known(s.functions[0].id) {
		err := fmt.Errorf("%w: no PCI function", ErrUnknownChip)
		if len(s.functions) != 0 {
			id := s.functions[0].id
			err = fmt.Errorf("%w: PCI id %04x:%04x", ErrUnknownChip, id&0xFFFF, id>>16)
		}
		return &LibraryError{Path: path, Err: err, Hint: "use the wh or bh build of ttsim"}
	}
	return nil
}

// PCI ids (tt-kmd enumerate.h; ttsim src/libttsim.cpp pci_config_rd32).
const (
	idWormhole  = 0x401E_1E52
	idBlackhole = 0xB140_1E52
)

func known(id uint32) bool { return id == idWormhole || id == idBlackhole }

// startError says why the server ended while the library was being opened. A server that went without a word of the
// library's never understood what it was started for.
func (s *Sim) startError() error {
	<-s.reaped
	f := s.fault.Load()
	if f == nil {
		return fmt.Errorf("ttsim: start: server %q ended; check that it calls ttsim.Serve", s.cmd.Args)
	}
	if f.Category != CategoryExit && f.Category != CategorySignal {
		return f
	}
	return fmt.Errorf("ttsim: start: server %q: %w; it printed %q; check that the program calls ttsim.Serve and is of the same build",
		s.cmd.Args, f, s.out.String())
}

// Functions returns the PCI functions in the order of their device numbers.
func (s *Sim) Functions() []*Function { return s.functions }

// Path returns the library's path as it was given to Start.
func (s *Sim) Path() string { return s.path }

// Clocks returns how many clocks the simulation has run. The count moves on while it is read.
func (s *Sim) Clocks() uint64 {
	s.use.RLock()
	defer s.use.RUnlock()
	if s.gone {
		return 0
	}
	return atomic.LoadUint64(s.shm.clock)
}

// Clock advances the simulation by n clocks and returns when they have been run, with Fault's error if the device
// stopped. It is needed with ManualClock only.
func (s *Sim) Clock(n uint64) error {
	if s.ask(opClock, n, 0, nil, nil) {
		return nil
	}
	return s.stopped()
}

// Sync returns when all stores made before have reached the device, with Fault's error if it stopped on the way.
func (s *Sim) Sync() error {
	if s.ask(opSync, 0, 0, nil, nil) {
		return nil
	}
	return s.stopped()
}

func (s *Sim) stopped() error {
	if err := s.Fault(); err != nil {
		return err
	}
	return fmt.Errorf("ttsim: %w", ErrClosed)
}

// Fault returns an *Error once the device has stopped, and nil while it works and after it was closed while working.
// A refused store is posted like any other: Fault knows of it after the next load or Sync.
func (s *Sim) Fault() error {
	if f := s.fault.Load(); f != nil {
		return f
	}
	return nil
}

// Close ends the simulation and its process, with all functions. Loads answer all-ones afterwards. It may be called
// again, and returns nil even if the device had stopped before: Fault says so.
func (s *Sim) Close() error {
	s.once.Do(func() {
		s.closing.Store(true)
		if !s.dead.Load() && s.ready.Load() {
			s.post(opExit, 0, nil)
			t := time.AfterFunc(exitTimeout, func() { s.cmd.Process.Kill() })
			<-s.reaped
			t.Stop()
		}
		s.in.Close()
		s.cmd.Process.Kill()
		<-s.reaped
		<-s.served
		s.use.Lock()
		s.gone = true
		unmapShared(s.mem)
		s.use.Unlock()
	})
	<-s.reaped
	return nil
}

// reap waits for the end of the server and finds out its reason.
func (s *Sim) reap() {
	defer close(s.reaped)
	err := s.cmd.Wait()
	if f := s.reason(err); f != nil {
		s.fault.Store(f)
	}
	s.dead.Store(true)
	s.shm.replied.ring()
	s.shm.requests.space.ring()
	s.shm.dma.items.ring()
}

// reason makes an error of how the server ended, or nil if it was asked to.
func (s *Sim) reason(err error) *Error {
	out := s.out.String()
	if f := s.dmaErr.Load(); f != nil {
		f.Output = out
		return f
	}
	if f, ok := parseError(out); ok {
		f.Output = out
		return f
	}
	if s.closing.Load() {
		return nil
	}
	f := &Error{Category: CategoryExit, Clock: atomic.LoadUint64(s.shm.clock), Output: out, Status: s.cmd.ProcessState.ExitCode()}
	if ws, ok := s.cmd.ProcessState.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		f.Category, f.Signal = CategorySignal, ws.Signal()
		f.Message = fmt.Sprintf("the server process was ended by signal %d (%v)", int(ws.Signal()), ws.Signal())
		if ws.Signal() == syscall.SIGILL {
			f.Message += "; release builds of ttsim need an x86-64-v3 processor"
		}
		return f
	}
	f.Message = fmt.Sprintf("the server process ended with status %d", f.Status)
	var ee *exec.ExitError
	if err != nil && !errors.As(err, &ee) {
		f.Err = err
	}
	return f
}

// post queues a request that has no reply. The payload is copied.
func (s *Sim) post(op uint8, addr uint64, payload []byte) {
	s.use.RLock()
	if !s.gone {
		s.push(op, addr, uint32(len(payload)), payload)
	}
	s.use.RUnlock()
}

// push queues a request and returns false when the server is gone.
func (s *Sim) push(op uint8, addr uint64, size uint32, payload []byte) bool {
	s.queue.Lock()
	defer s.queue.Unlock()
	r := &s.shm.requests
	n := len(payload)
	if !s.room(n) {
		return false
	}
	copy(r.slot(op, 0, addr, size, n), payload)
	r.publish(n)
	return true
}

// room waits for space for a payload of n bytes in the request ring; queue is held.
func (s *Sim) room(n int) bool {
	r := &s.shm.requests
	if !r.free(n) {
		r.space.wait(spins, forever, func() bool { return r.free(n) || s.dead.Load() })
	}
	return !s.dead.Load()
}

// ask queues a request, waits for its reply and shows it to take. It returns false when the server is gone.
func (s *Sim) ask(op uint8, addr uint64, size uint32, payload []byte, take func(reply []byte)) bool {
	s.use.RLock()
	defer s.use.RUnlock()
	if s.gone {
		return false
	}
	s.asking.Lock()
	defer s.asking.Unlock()
	if !s.await(op, addr, size, payload) {
		return false
	}
	if take != nil {
		take(s.shm.reply[:size])
	}
	return true
}

// await queues a request and waits until its reply is there; asking is held. It returns false when the server is gone.
func (s *Sim) await(op uint8, addr uint64, size uint32, payload []byte) bool {
	before := atomic.LoadUint32(s.shm.replies)
	if !s.push(op, addr, size, payload) {
		return false
	}
	s.shm.replied.wait(spins, forever, func() bool {
		return atomic.LoadUint32(s.shm.replies) != before || s.dead.Load()
	})
	return atomic.LoadUint32(s.shm.replies) != before
}

// config reads a word of a device's config space.
func (s *Sim) config(device, off uint32) (v uint32, ok bool) {
	v = ^uint32(0)
	ok = s.ask(opConfigRead, uint64(device<<3)<<32|uint64(off), 4, nil, func(p []byte) { v = binary.LittleEndian.Uint32(p) })
	return v, ok
}

// tail keeps the last of what was written to it.
type tail struct {
	mu   sync.Mutex
	buf  bytes.Buffer
	also interface{ Write([]byte) (int, error) }
}

const tailBytes = 64 << 10

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.buf.Write(p)
	if n := t.buf.Len() - tailBytes; n > 0 {
		t.buf.Next(n)
	}
	if t.also != nil {
		t.also.Write(p)
	}
	return len(p), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.buf.String()
}
