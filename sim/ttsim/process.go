package ttsim

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/reprise-tt/reprise/sim/ttsim/internal/link"
)

// A process is one life of a simulator: from the start of its server to the server's end. A reset begins another.
type process struct {
	sim *Sim
	shm *link.Shared
	mem []byte
	cmd *exec.Cmd
	in  *os.File // the server ends when this is closed
	out tail

	dead    atomic.Bool // no more answers will come; fault is final
	closing atomic.Bool
	queue   sync.Mutex   // producers of requests
	asking  sync.Mutex   // whoever waits for a reply; taken before queue
	use     sync.RWMutex // held while the mapping is used, so that close can unmap
	gone    bool         // unmapped; guarded by use

	// The order between the host's accesses and the devices' DMA comes from another process, where neither Go's memory
	// model nor its race detector can see it. These two say the same in this process: what was done before a request
	// was sent is seen by DMA, and DMA by whoever has a reply.
	sent, moved atomic.Uint32

	last   uint64 // clocks at the end; guarded by use
	dmaErr atomic.Pointer[Error]
	fault  atomic.Pointer[Error]

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

// newProcess starts a server, lets it load the library and returns the process with what it found on the PCI bus.
func newProcess(sim *Sim) (*process, []*Function, error) {
	f, err := link.NewFile()
	if err != nil {
		if errors.Is(err, ErrUnsupported) {
			return nil, nil, err
		}
		return nil, nil, fmt.Errorf("ttsim: start: shared memory: %w", err)
	}
	defer f.Close()
	abs, err := checkLibrary(sim.path)
	if err != nil {
		return nil, nil, err
	}
	c := &sim.config
	if len(c.server) == 0 {
		return nil, nil, fmt.Errorf("ttsim: start: %w; the library ends its process when it refuses something, so it needs one of "+
			"its own: give ttsim.Server(program, args...) of a program that calls server.Serve (package sim/ttsim/server)", ErrNoServer)
	}
	mem, err := link.Map(f)
	if err != nil {
		return nil, nil, fmt.Errorf("ttsim: start: shared memory: %w", err)
	}
	p := &process{sim: sim, mem: mem, shm: link.New(mem), reaped: make(chan struct{}), served: make(chan struct{})}
	p.out.also = c.output
	atomic.StoreUint64(p.shm.Revision, link.Protocol)
	if c.manual {
		atomic.StoreUint32(p.shm.Manual, 1)
	}
	if err := p.spawn(c, f); err != nil {
		link.Unmap(mem)
		return nil, nil, fmt.Errorf("ttsim: start: server %q: %w; check the Server option", c.server, err)
	}
	go p.reap()
	t := time.AfterFunc(startTimeout, func() { p.cmd.Process.Kill() })
	defer t.Stop()
	functions, err := p.connect(sim.path, abs)
	go p.serveDMA() // no device runs before its Function can be used, so there is no DMA before
	if err != nil {
		p.close(false)
		return nil, nil, err
	}
	return p, functions, nil
}

// spawn starts the server process.
func (p *process) spawn(c *config, shm *os.File) error {
	stdin, in, err := os.Pipe()
	if err != nil {
		return err
	}
	defer stdin.Close()
	cmd := exec.Command(c.server[0], c.server[1:]...)
	cmd.Env = append(cmd.Environ(), c.env...)
	cmd.Stdin = stdin
	cmd.Stdout, cmd.Stderr = &p.out, &p.out
	cmd.ExtraFiles = []*os.File{shm}
	cmd.SysProcAttr = link.ServerAttributes()
	cmd.WaitDelay = drainTimeout
	if err := cmd.Start(); err != nil {
		in.Close()
		return err
	}
	p.cmd, p.in = cmd, in
	return nil
}

// connect makes the server load the library and finds the devices.
func (p *process) connect(path, abs string) ([]*Function, error) {
	if len(abs) > link.WriteChunk {
		return nil, &LibraryError{Path: path, Err: syscall.ENAMETOOLONG, Hint: "give a shorter path"}
	}
	var status uint32
	var text string
	ok := p.ask(link.OpOpen, 0, uint32(len(abs)), []byte(abs), func([]byte) {
		status = atomic.LoadUint32(p.shm.Status)
		text = string(p.shm.Reply[:atomic.LoadUint32(p.shm.StatusLen)])
	})
	if !ok {
		return nil, p.startError()
	}
	switch status {
	case link.OpenOK:
	case link.OpenSymbol:
		return nil, &LibraryError{Path: path, Err: fmt.Errorf("%w: %s", ErrMissingSymbol, text), Hint: "use ttsim 1.10.0 or a later one that keeps its API"}
	case link.OpenUnsupported:
		return nil, fmt.Errorf("ttsim: start: server %q: %w", p.cmd.Args, ErrUnsupported)
	default:
		return nil, &LibraryError{Path: path, Err: fmt.Errorf("%w: %s", ErrNotLibrary, text), Hint: "it may need a newer C library or another processor"}
	}
	var functions []*Function
	// Devices follow each other on bus 0 from device number 0; the first absent one reads all-ones (ttsim
	// docs/libttsim_api.md, Config space).
	for device := uint32(0); device < 32; device++ {
		id, ok := p.config(device, 0)
		if !ok {
			return nil, p.startError()
		}
		if id == ^uint32(0) {
			break
		}
		fn := &Function{sim: p.sim, device: device, id: id}
		for i, off := range [...]uint32{0x10, 0x18, 0x20} {
			lo, _ := p.config(device, off)
			hi, _ := p.config(device, off+4)
			fn.bars[i] = uint64(hi)<<32 | uint64(lo&^0xF)
		}
		functions = append(functions, fn)
	}
	if p.dead.Load() {
		return nil, p.startError()
	}
	if len(functions) == 0 || !known(functions[0].id) {
		err := fmt.Errorf("%w: no PCI function", ErrUnknownChip)
		if len(functions) != 0 {
			id := functions[0].id
			err = fmt.Errorf("%w: PCI id %04x:%04x", ErrUnknownChip, id&0xFFFF, id>>16)
		}
		return nil, &LibraryError{Path: path, Err: err, Hint: "use the wh or bh build of ttsim"}
	}
	return functions, nil
}

// PCI ids (tt-kmd enumerate.h; ttsim src/libttsim.cpp pci_config_rd32).
const (
	idWormhole  = 0x401E_1E52
	idBlackhole = 0xB140_1E52
)

func known(id uint32) bool { return id == idWormhole || id == idBlackhole }

// startError says why the server ended while the library was being opened. A server that went without a word of the
// library's never understood what it was started for.
func (p *process) startError() error {
	<-p.reaped
	f := p.fault.Load()
	if f == nil {
		return fmt.Errorf("ttsim: start: server %q ended; check that it calls server.Serve (package sim/ttsim/server)", p.cmd.Args)
	}
	if f.Category != CategoryExit && f.Category != CategorySignal {
		return f
	}
	return fmt.Errorf("ttsim: start: server %q: %w; it printed %q; check that the program calls server.Serve (package sim/ttsim/server) and is of the same build",
		p.cmd.Args, f, p.out.String())
}

// close ends the server: politely, if it has been working so far, or at once.
func (p *process) close(politely bool) {
	p.once.Do(func() {
		p.closing.Store(true)
		if politely && !p.dead.Load() {
			// The timer first: there is no room for the request while a server that stands still leaves the ring full.
			t := time.AfterFunc(exitTimeout, func() { p.cmd.Process.Kill() })
			p.post(link.OpExit, 0, nil)
			<-p.reaped
			t.Stop()
		}
		p.in.Close()
		p.cmd.Process.Kill()
		<-p.reaped
		<-p.served
		p.use.Lock()
		p.gone, p.last = true, atomic.LoadUint64(p.shm.Clock)
		link.Unmap(p.mem)
		p.use.Unlock()
	})
}

// clocks is how many clocks the library has run.
func (p *process) clocks() uint64 {
	p.use.RLock()
	defer p.use.RUnlock()
	if p.gone {
		return p.last
	}
	return atomic.LoadUint64(p.shm.Clock)
}

// reap waits for the end of the server and finds out its reason.
func (p *process) reap() {
	defer close(p.reaped)
	err := p.cmd.Wait()
	if f := p.reason(err); f != nil {
		p.fault.Store(f)
	}
	p.dead.Store(true)
	p.shm.Replied.Ring()
	p.shm.Requests.Space.Ring()
	p.shm.DMA.Items.Ring()
}

// reason makes an error of how the server ended, or nil if it was asked to.
func (p *process) reason(err error) *Error {
	out := p.out.String()
	if f := p.dmaErr.Load(); f != nil {
		f.Output = out
		return f
	}
	if f, ok := parseError(out); ok {
		f.Output = out
		return f
	}
	if p.closing.Load() {
		return nil
	}
	f := &Error{Category: CategoryExit, Clock: atomic.LoadUint64(p.shm.Clock), Output: out, Status: p.cmd.ProcessState.ExitCode()}
	if ws, ok := p.cmd.ProcessState.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
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
