//go:build linux && (amd64 || arm64 || riscv64)

package probe

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"github.com/cilium/ebpf/ringbuf"
	"golang.org/x/sys/unix"
)

// Probe watches a process until it is closed. Its methods may be called concurrently, except during
// Close.
type Probe struct {
	config  Config
	pid     int
	began   time.Time
	proc    Proc   // when it began
	started uint64 // start time of the process, of /proc
	used    []string
	leftOut []LeftOut

	spec      *ebpf.CollectionSpec
	coll      *ebpf.Collection // the tables; nil without eBPF
	programs  []*ebpf.Program
	links     []io.Closer
	control   *ebpf.Memory
	functions []string // by number

	ring   *ringbuf.Reader
	drains sync.WaitGroup
	mu     sync.Mutex
	slow   []bpfEvent // a ring buffer of config.Events
	next   int
	old    uint64
	files  map[uint32]string // device files seen, by descriptor
	most   Proc              // largest figures of /proc
	ended  time.Time         // zero while the process runs
}

// Start begins to watch. Probes that the machine can't run are left out and named in every
// [Snapshot]. An error is about the process, the Config or a kernel that breaks its promises.
func Start(c Config) (_ *Probe, err error) {
	c = c.withDefaults()
	p := &Probe{config: c, pid: c.PID, files: map[uint32]string{}}
	if p.pid == 0 {
		p.pid = os.Getpid()
	}
	if c.Slow < 0 || c.Events < 0 || c.RingBytes < os.Getpagesize() || c.RingBytes&(c.RingBytes-1) != 0 {
		return nil, fmt.Errorf(
			"probe: start: slow %v, %d events, a ring of %d bytes: the first two can't be negative, and a ring is a power of 2 of at least a page (%d)",
			c.Slow,
			c.Events,
			c.RingBytes,
			os.Getpagesize(),
		)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, p.Close())
		}
	}()
	if p.proc, p.started, err = readProc(p.pid); err != nil {
		return nil, fmt.Errorf("probe: start: process %d: %w", p.pid, err)
	}
	choices := Choose(c.Machine, c.Kinds...)
	if slices.ContainsFunc(choices, func(c Choice) bool { return len(c.Ways) > 0 }) {
		if err := p.load(); err != nil {
			return nil, fmt.Errorf("probe: start: %w", err)
		}
	}
	for _, c := range choices {
		p.use(c)
	}
	p.began = time.Now()
	return p, nil
}

// Running reports whether the process still runs. /proc loses a process at its end: Running and
// Snapshot keep the latest figures, so call them now and then.
func (p *Probe) Running() bool {
	_, running := p.poll()
	return running
}

// poll returns the figures of /proc since the start, and whether the process still runs.
func (p *Probe) poll() (Proc, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.ended.IsZero() {
		return p.most, false
	}
	now, started, err := readProc(p.pid)
	if errors.Is(err, errEnded) || min(started, p.started) > 0 && started != p.started {
		p.ended = time.Now()
		return p.most, false
	}
	if err != nil {
		return p.most, true
	}
	now = now.since(p.proc)
	p.most = p.most.most(now)
	return now, true
}

func (p *Probe) leave(probe string, err error) {
	if err == nil {
		err = ErrMissing
	}
	p.leftOut = append(p.leftOut, LeftOut{Probe: probe, Why: strings.ReplaceAll(err.Error(), "\n", "; ")})
}

// attachment is a program with its attachment point.
type attachment struct {
	program string
	attach  func(*ebpf.Program) (link.Link, error)
}

func rawTracepoint(program, tracepoint string) attachment {
	return attachment{program, func(prog *ebpf.Program) (link.Link, error) {
		return link.AttachRawTracepoint(link.RawTracepointOptions{Name: tracepoint, Program: prog})
	}}
}

func tracepoint(program, name string) attachment {
	return attachment{program, func(prog *ebpf.Program) (link.Link, error) { return link.Tracepoint("sched", name, prog, nil) }}
}

func tracing(program string) attachment {
	return attachment{program, func(prog *ebpf.Program) (link.Link, error) {
		return link.AttachTracing(link.TracingOptions{Program: prog})
	}}
}

// attachments returns the programs of a way of measuring, but for functions and markers. Programs
// for an end come first, so that no beginning is seen without its end.
func attachments(k Kind, w Way) []attachment {
	switch {
	case k == Calls:
		return []attachment{rawTracepoint("exit_call", "sys_exit"), rawTracepoint("enter_call", "sys_enter")}
	case k == Scheduler && w == ByRawTracepoint:
		return []attachment{rawTracepoint("wake_task", "sched_wakeup"), rawTracepoint("switch_task", "sched_switch")}
	case k == Scheduler:
		return []attachment{tracepoint("wake_traced", "sched_wakeup"), tracepoint("switch_traced", "sched_switch")}
	case k == Faults && w == ByFentry:
		return []attachment{tracing("exit_fault"), tracing("enter_fault")}
	case k == Faults:
		return []attachment{rawTracepoint("count_fault", "page_fault_user")}
	}
	return nil
}

// load creates the tables and starts to read the ring.
func (p *Probe) load() (err error) {
	if p.spec, err = p.prepare(); err != nil {
		return err
	}
	tables := p.spec.Copy()
	clear(tables.Programs)
	if p.coll, err = ebpf.NewCollection(tables); err != nil {
		return fmt.Errorf("the kernel refuses the probes' tables: %w", err)
	}
	if p.control, err = p.coll.Maps["control"].Memory(); err != nil {
		return fmt.Errorf("the stage's memory: %w", err)
	}
	if p.ring, err = ringbuf.NewReader(p.coll.Maps["events"]); err != nil {
		return fmt.Errorf("the ring of events: %w", err)
	}
	p.drains.Go(p.drain)
	return nil
}

// use measures a kind in the first way that works.
func (p *Probe) use(c Choice) {
	errs := []error{c.Err}
	for _, w := range c.Ways {
		var err error
		switch c.Kind {
		case Functions:
			err = p.attachFunctions(w)
		case Marks:
			err = p.attachMarkers()
		default:
			err = p.attach(p.spec, attachments(c.Kind, w)...)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", w, err))
			continue
		}
		p.used = append(p.used, fmt.Sprintf("%s: %s", c.Kind, w))
		if l := lacks(c.Kind, w); l != "" {
			p.leave(string(c.Kind), fmt.Errorf("%s tell %s: %w", w, l, errors.Join(errs...)))
		}
		return
	}
	p.leave(string(c.Kind), errors.Join(errs...))
}

// attach loads and attaches programs that share the tables, all or none.
func (p *Probe) attach(spec *ebpf.CollectionSpec, all ...attachment) (err error) {
	own := spec.Copy()
	for n := range own.Programs {
		if !slices.ContainsFunc(all, func(a attachment) bool { return a.program == n }) {
			delete(own.Programs, n)
		}
	}
	shared := map[string]*ebpf.Map{}
	for n, m := range p.coll.Maps {
		if !strings.HasPrefix(n, ".") { // constants belong to one collection
			shared[n] = m
		}
	}
	coll, err := ebpf.NewCollectionWithOptions(own, ebpf.CollectionOptions{MapReplacements: shared})
	if err != nil {
		return err
	}
	defer coll.Close()
	var links []io.Closer
	for _, a := range all {
		l, err := a.attach(coll.Programs[a.program])
		if err != nil {
			for _, l := range links {
				err = errors.Join(err, l.Close())
			}
			return err
		}
		links = append(links, l)
	}
	p.links = append(p.links, links...)
	for _, a := range all {
		p.programs = append(p.programs, coll.DetachProgram(a.program))
	}
	return nil
}

// prepare returns the programs with their constants set.
func (p *Probe) prepare() (*ebpf.CollectionSpec, error) {
	spec, err := loadBpf()
	if err != nil {
		return nil, err
	}
	spec.Maps["events"].MaxEntries = uint32(p.config.RingBytes)
	n, err := number(p.pid)
	if err != nil {
		return nil, err
	}
	for name, v := range map[string]any{
		"target": n.global, "ns_target": n.own, "ns_dev": n.dev, "ns_ino": n.ino,
		"arg0_offset": uint32(arg0Offset), "arg1_offset": uint32(arg1Offset), "mark_offset": uint32(markOffset),
		"ioctl_number": uint32(unix.SYS_IOCTL), "exit_number": uint32(unix.SYS_EXIT), "slow_ns": uint64(p.config.Slow),
	} {
		if err := spec.Variables[name].Set(v); err != nil {
			return nil, err
		}
	}
	return spec, nil
}

// attachFunctions attaches a pair of programs to each kernel function. The programs hold the
// function's number as a constant.
func (p *Probe) attachFunctions(w Way) error {
	names := p.config.Functions
	if names == nil {
		var err error
		if names, err = loadedFunctions("/proc/kallsyms"); err != nil {
			return err
		}
		if len(names) == 0 {
			return fmt.Errorf("%w: the kernel driver isn't loaded, or its functions aren't in /proc/kallsyms", ErrMissing)
		}
	}
	var errs []error
	for _, name := range names {
		if err := p.attachFunction(name, w); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", name, err))
			continue
		}
		p.functions = append(p.functions, name)
	}
	if len(p.functions) == 0 {
		return errors.Join(errs...)
	}
	if len(errs) > 0 {
		p.leave("some "+string(Functions), errors.Join(errs...))
	}
	return nil
}

func (p *Probe) attachFunction(name string, w Way) error {
	own := p.spec.Copy()
	if err := own.Variables["function"].Set(uint32(len(p.functions))); err != nil {
		return err
	}
	if w == ByKprobe {
		return p.attach(own,
			attachment{"exit_kprobe", func(prog *ebpf.Program) (link.Link, error) { return link.Kretprobe(name, prog, nil) }},
			attachment{"enter_kprobe", func(prog *ebpf.Program) (link.Link, error) { return link.Kprobe(name, prog, nil) }})
	}
	own.Programs["exit_function"].AttachTo, own.Programs["enter_function"].AttachTo = name, name
	return p.attach(own, tracing("exit_function"), tracing("enter_function"))
}

func (p *Probe) attachMarkers() error {
	name := fmt.Sprintf("/proc/%d/exe", p.pid)
	program, err := os.Open(name)
	if err != nil {
		return err
	}
	defer program.Close()
	exe, err := link.OpenExecutable(name)
	if err != nil {
		return err
	}
	at := func(prog, symbol string) attachment {
		return attachment{prog, func(prog *ebpf.Program) (link.Link, error) {
			off, err := goFunction(program, symbol)
			if err != nil {
				return nil, err
			}
			return exe.Uprobe(symbol, prog, &link.UprobeOptions{PID: p.pid, Address: off})
		}}
	}
	return p.attach(p.spec, at("mark_completed", symbolCompleted), at("mark_submitted", symbolSubmitted))
}

// Stage sets the number under which events are counted from now on. For the own process this is no
// system call. Without eBPF it does nothing.
func (p *Probe) Stage(n uint32) {
	if p.control != nil {
		b := [4]byte{byte(n), byte(n >> 8), byte(n >> 16), byte(n >> 24)}
		_, _ = p.control.WriteAt(b[:], 0) // in bounds
	}
}

// Has reports whether a kind is measured.
func (p *Probe) Has(k Kind) bool {
	for _, u := range p.used {
		if strings.HasPrefix(u, string(k)+": ") {
			return true
		}
	}
	return false
}

// ThreadID returns the calling thread's number in this PID namespace, as in [Thread].
func ThreadID() int { return unix.Gettid() }

// Close detaches the probes. It is idempotent.
func (p *Probe) Close() error {
	var errs []error
	for _, l := range p.links {
		errs = append(errs, l.Close())
	}
	p.links = nil
	if p.ring != nil {
		errs = append(errs, p.ring.Close())
		p.drains.Wait()
		p.ring = nil
	}
	for _, prog := range p.programs {
		errs = append(errs, prog.Close())
	}
	p.programs = nil
	p.control = nil
	if p.coll != nil {
		p.coll.Close()
		p.coll = nil
	}
	return errors.Join(errs...)
}
