package ttsim

import (
	"bytes"
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/reprise-tt/reprise/sim/serve"
	"github.com/reprise-tt/reprise/sim/serve/function"
)

// A process is one life of a simulator's server.
type process struct {
	sim    *Sim
	cmd    *exec.Cmd
	client *function.Client // nil if the server didn't greet
	out    tail

	closing atomic.Bool
	dmaErr  atomic.Pointer[Error]
	fault   atomic.Pointer[Error] // final once the client is dead

	reaped chan struct{} // closed when the server is gone and fault is set
	once   sync.Once
}

// Time limits bound a broken server, not a slow simulation.
const (
	startTimeout = 60 * time.Second
	exitTimeout  = 5 * time.Second
	drainTimeout = 2 * time.Second
)

func newProcess(sim *Sim) (*process, []*Function, error) {
	if !supported() {
		return nil, nil, fmt.Errorf("ttsim: start: %w; this is %s/%s", ErrUnsupported, runtime.GOOS, runtime.GOARCH)
	}
	abs, err := checkLibrary(sim.path)
	if err != nil {
		return nil, nil, err
	}
	c := &sim.config
	if len(c.server) == 0 {
		return nil, nil, fmt.Errorf("ttsim: start: %w; the library ends its process when it refuses something, so it needs one of "+
			"its own: give ttsim.Server(program, args...) of a program that calls libttsim.Serve (package sim/ttsim/libttsim)", ErrNoServer)
	}
	p := &process{sim: sim, reaped: make(chan struct{})}
	p.out.also = c.output
	conn, err := p.spawn(c)
	if err != nil {
		return nil, nil, fmt.Errorf("ttsim: start: server %q: %w; check the Server option", c.server, err)
	}
	t := time.AfterFunc(startTimeout, func() { p.cmd.Process.Kill() })
	defer t.Stop()
	var greeting error
	p.client, greeting = function.NewClient(conn, func() { <-p.reaped })
	go p.reap()
	var functions []*Function
	switch {
	case greeting == nil:
		functions, err = p.connect(sim.path, abs)
	case errors.Is(greeting, serve.ErrProtocol):
		err = fmt.Errorf("ttsim: start: server %q: %w", c.server, greeting)
	default: // the server has ended
		err = p.startError()
	}
	if err != nil {
		p.close(false)
		return nil, nil, err
	}
	p.client.ServeCalls(p.transfer) // no device could make DMA before
	return p, functions, nil
}

func (p *process) spawn(c *config) (*net.UnixConn, error) {
	conn, theirs, err := serve.Pair()
	if err != nil {
		return nil, err
	}
	defer theirs.Close()
	cmd := exec.Command(c.server[0], c.server[1:]...)
	cmd.Stdout, cmd.Stderr = &p.out, &p.out
	cmd.ExtraFiles = []*os.File{theirs} // function.FD
	cmd.SysProcAttr = serve.ProcessGroup()
	cmd.WaitDelay = drainTimeout
	if err := cmd.Start(); err != nil {
		conn.Close()
		return nil, err
	}
	p.cmd = cmd
	return conn, nil
}

func (p *process) connect(path, abs string) ([]*Function, error) {
	if len(abs) > serve.RequestBytes {
		return nil, &LibraryError{Path: path, Err: syscall.ENAMETOOLONG, Hint: "give a shorter path"}
	}
	switch err := p.client.Open(abs, p.sim.config.manual); {
	case err == nil:
	case errors.Is(err, function.ErrGone):
		return nil, p.startError()
	case errors.Is(err, function.ErrSymbol):
		return nil, &LibraryError{Path: path, Err: fmt.Errorf("%w: %w", ErrMissingSymbol, err),
			Hint: "use ttsim 1.10.0 or a later one that keeps its API"}
	case errors.Is(err, ErrUnsupported):
		return nil, fmt.Errorf("ttsim: start: server %q: %w", p.cmd.Args, ErrUnsupported)
	default:
		return nil, &LibraryError{Path: path, Err: fmt.Errorf("%w: %w", ErrNotLibrary, err),
			Hint: "it may need a newer C library or another processor"}
	}
	var functions []*Function
	// Devices follow each other from number 0; the first absent one reads all ones (ttsim
	// docs/libttsim_api.md, Config space).
	for device := uint32(0); device < 32; device++ {
		id, ok := p.client.ConfigRead(device, 0)
		if !ok {
			return nil, p.startError()
		}
		if id == ^uint32(0) {
			break
		}
		fn := &Function{sim: p.sim, device: device, id: id}
		for i, off := range [...]uint32{0x10, 0x18, 0x20} {
			lo, _ := p.client.ConfigRead(device, off)
			hi, _ := p.client.ConfigRead(device, off+4)
			fn.bars[i] = uint64(hi)<<32 | uint64(lo&^0xF)
		}
		functions = append(functions, fn)
	}
	if p.client.Dead() {
		return nil, p.startError()
	}
	found := "no PCI function"
	if len(functions) > 0 {
		id := functions[0].id
		if id == idWormhole || id == idBlackhole {
			return functions, nil
		}
		found = fmt.Sprintf("PCI id %04x:%04x", id&0xFFFF, id>>16)
	}
	return nil, &LibraryError{Path: path, Err: fmt.Errorf("%w: %s", ErrUnknownChip, found), Hint: "use the wh or bh build of ttsim"}
}

// PCI ids (tt-kmd enumerate.h; ttsim src/libttsim.cpp pci_config_rd32).
const (
	idWormhole  = 0x401E_1E52
	idBlackhole = 0xB140_1E52
)

// Without an error of the library it is probably another program.
func (p *process) startError() error {
	<-p.reaped
	f := p.fault.Load()
	if f == nil {
		return fmt.Errorf("ttsim: start: server %q ended; check that it calls libttsim.Serve (package sim/ttsim/libttsim)", p.cmd.Args)
	}
	if f.Category != CategoryExit && f.Category != CategorySignal {
		return f
	}
	return fmt.Errorf("ttsim: start: server %q: %w; it printed %q; "+
		"check that the program calls libttsim.Serve (package sim/ttsim/libttsim) and is of the same build",
		p.cmd.Args, f, p.out.String())
}

func (p *process) close(politely bool) {
	p.once.Do(func() {
		p.closing.Store(true)
		if politely && !p.client.Dead() {
			// The timer first: a server that stands still may not take the request.
			t := time.AfterFunc(exitTimeout, func() { p.cmd.Process.Kill() })
			p.client.Exit()
			<-p.reaped
			t.Stop()
		}
		p.cmd.Process.Kill()
		<-p.reaped
		if p.client != nil {
			p.client.Close()
		}
	})
}

func (p *process) reap() {
	defer close(p.reaped)
	err := p.cmd.Wait()
	if f := p.reason(err); f != nil {
		p.fault.Store(f)
	}
}

// reason is nil if the server was asked to end.
func (p *process) reason(err error) *Error {
	out := p.out.String()
	f := p.dmaErr.Load()
	if f == nil {
		f, _ = parseError(out)
	}
	if f != nil {
		f.Output = out
		return f
	}
	if p.closing.Load() {
		return nil
	}
	f = &Error{Category: CategoryExit, Output: out, Status: p.cmd.ProcessState.ExitCode()}
	if p.client != nil {
		f.Clock = p.client.Clocks()
	}
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

type tail struct {
	mu   sync.Mutex
	buf  bytes.Buffer
	also io.Writer
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

// entryPoints are the library functions that the server calls (ttsim docs/libttsim_api.md).
var entryPoints = [...]string{"init", "exit", "set_pci_dma_mem_callbacks", "pci_config_rd32", "pci_config_wr32",
	"pci_mem_rd_bytes", "pci_mem_wr_bytes", "clock"}

// checkLibrary's errors are better than the dynamic loader's, which would search for a bare name.
func checkLibrary(path string) (string, error) {
	fail := func(err error, hint string) (string, error) {
		return "", &LibraryError{Path: path, Err: err, Hint: hint}
	}
	abs, err := filepath.Abs(path)
	if err != nil {
		return fail(err, "give an absolute path")
	}
	st, err := os.Stat(abs)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		// Without the errno, which package kmd would take for a missing device.
		return fail(fs.ErrNotExist, "give the path of a libttsim.so; ttsim releases have one for each chip")
	case err != nil:
		return fail(err, "give the path of a libttsim.so that can be read")
	case !st.Mode().IsRegular():
		return fail(fmt.Errorf("%w: it is %v", ErrNotLibrary, st.Mode().Type()), "give the path of the file libttsim.so itself")
	case st.Size() == 0:
		return fail(fmt.Errorf("%w: it is empty", ErrNotLibrary), "build or download it again")
	}
	f, err := elf.Open(abs)
	if err != nil {
		var pe *fs.PathError
		if !errors.As(err, &pe) {
			err = fmt.Errorf("%w: %w", ErrNotLibrary, err)
		}
		return fail(err, "give the path of a libttsim.so")
	}
	defer f.Close()
	if f.Type != elf.ET_DYN {
		return fail(fmt.Errorf("%w: it is an ELF file of type %v", ErrNotLibrary, f.Type), "give the path of a libttsim.so")
	}
	if want, ok := machines[runtime.GOARCH]; ok && f.Machine != want {
		return fail(fmt.Errorf("%w: it is built for %v, this program for %v", ErrNotLibrary, f.Machine, want),
			"use the build of ttsim for this processor")
	}
	symbols, err := f.DynamicSymbols()
	if err != nil && !errors.Is(err, elf.ErrNoSymbols) {
		return fail(fmt.Errorf("%w: %w", ErrNotLibrary, err), "build or download it again")
	}
	var missing []string
	for _, name := range entryPoints {
		name = "libttsim_" + name
		if !slices.ContainsFunc(symbols, func(s elf.Symbol) bool { return s.Name == name && s.Section != elf.SHN_UNDEF }) {
			missing = append(missing, name)
		}
	}
	if missing != nil {
		hint := "use ttsim 1.10.0 or a later one that keeps its API"
		if len(missing) == len(entryPoints) {
			hint = "it is not a ttsim at all; give the path of a libttsim.so"
		}
		return fail(fmt.Errorf("%w: %s", ErrMissingSymbol, strings.Join(missing, ", ")), hint)
	}
	return abs, nil
}

func supported() bool {
	_, ok := machines[runtime.GOARCH]
	return ok && runtime.GOOS == "linux"
}

var machines = map[string]elf.Machine{"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64, "riscv64": elf.EM_RISCV}
