//go:build linux && (amd64 || arm64 || riscv64)

package probe

import (
	"bytes"
	"cmp"
	_ "embed"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"github.com/cilium/ebpf/ringbuf"
	"golang.org/x/sys/unix"

	"github.com/reprise-tt/reprise/internal/kabi"
)

// Probe watches a process until it is closed. Its methods but Close may be called concurrently.
type Probe struct {
	config  Config
	pid     int
	began   time.Time
	proc    Proc
	started uint64 // start time of the process, of /proc
	used    []string
	leftOut []LeftOut

	spec     *ebpf.CollectionSpec
	coll     *ebpf.Collection // the tables; nil without eBPF
	programs []*ebpf.Program
	links    []io.Closer
	control  *ebpf.Memory

	ring   *ringbuf.Reader
	drains sync.WaitGroup
	mu     sync.Mutex
	slow   []bpfEvent // the latest ones
	old    uint64
	files  map[uint32]string
	most   Proc // largest figures of /proc
	ended  time.Time
}

// Start begins to watch. What the machine can't run is left out and named in every [Snapshot].
func Start(c Config) (_ *Probe, err error) {
	c = c.withDefaults()
	p := &Probe{config: c, pid: cmp.Or(c.PID, os.Getpid()), files: map[uint32]string{}}
	defer func() {
		if err != nil {
			err = errors.Join(err, p.Close())
		}
	}()
	if p.proc, p.started, err = readProc(p.pid); err != nil {
		return nil, fmt.Errorf("probe: start: process %d: %w", p.pid, err)
	}
	for _, k := range c.Kinds {
		all, why := choose(c.Machine, k)
		if len(all) > 0 && p.coll == nil {
			if err := p.load(); err != nil {
				return nil, fmt.Errorf("probe: start: %w", err)
			}
		}
		p.use(k, all, why)
	}
	p.began = time.Now()
	return p, nil
}

// Running reports whether the process runs. /proc loses it at its end.
func (p *Probe) Running() bool {
	_, running := p.poll()
	return running
}

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
	// The figures of ended threads disappear, which can make one smaller.
	now = now.with(p.proc, func(now, before uint64) uint64 { return now - min(now, before) })
	p.most = p.most.with(now, func(a, b uint64) uint64 { return max(a, b) })
	return now, true
}

func (p *Probe) leave(probe string, err error) {
	why := cmp.Or(err, ErrMissing).Error()
	p.leftOut = append(p.leftOut, LeftOut{Probe: probe, Why: strings.ReplaceAll(why, "\n", "; ")})
}

type attachment struct {
	program string
	attach  func(*ebpf.Program) (link.Link, error)
}

// attachments attaches a way's programs to their events.
func (w way) attachments() (out []attachment) {
	for _, program := range w.programs {
		out = append(out, attachment{program[0], func(prog *ebpf.Program) (link.Link, error) {
			switch w.way {
			case ByRawTracepoint:
				return link.AttachRawTracepoint(link.RawTracepointOptions{Name: program[1], Program: prog})
			case ByTracepoint:
				return link.Tracepoint("sched", program[1], prog, nil)
			}
			return link.AttachTracing(link.TracingOptions{Program: prog})
		}})
	}
	return out
}

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

func (p *Probe) use(k Kind, all []way, why error) {
	errs := []error{why}
	for _, w := range all {
		if err := p.attach(w.attachments()...); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", w.way, err))
			continue
		}
		p.used = append(p.used, fmt.Sprintf("%s: %s", k, w.way))
		if w.lacks != "" {
			p.leave(string(k), fmt.Errorf("%s tell %s: %w", w.way, w.lacks, errors.Join(errs...)))
		}
		return
	}
	p.leave(string(k), errors.Join(errs...))
}

// attach attaches programs that share the tables, all or none.
func (p *Probe) attach(all ...attachment) (err error) {
	own := p.spec.Copy()
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

func (p *Probe) prepare() (*ebpf.CollectionSpec, error) {
	spec, err := ebpf.LoadCollectionSpecFromReader(bytes.NewReader(compiled))
	if err != nil {
		return nil, fmt.Errorf("can't load bpf: %w", err)
	}
	spec.Maps["events"].MaxEntries = cmp.Or(p.config.ring, 1<<20)
	n, err := number(p.pid)
	if err != nil {
		return nil, err
	}
	at := offsets[runtime.GOARCH]
	for name, v := range map[string]any{
		"target": n.global, "ns_target": n.own, "ns_dev": n.dev, "ns_ino": n.ino,
		"arg0_offset": at[0], "arg1_offset": at[1],
		"ioctl_number": uint32(unix.SYS_IOCTL), "exit_number": uint32(unix.SYS_EXIT), "slow_ns": uint64(p.config.Slow),
	} {
		if err := spec.Variables[name].Set(v); err != nil {
			return nil, err
		}
	}
	return spec, nil
}

// offsets in struct pt_regs (asm/ptrace.h of the architecture) of a system call's first two
// arguments. By the tracepoint riscv64 has overwritten a0 and keeps it in orig_a0.
var offsets = map[string][2]uint32{"amd64": {112, 104}, "arm64": {0, 8}, "riscv64": {280, 88}}

// Stage sets the number under which events are counted. It is no system call.
func (p *Probe) Stage(n uint32) {
	if p.control != nil {
		b := [4]byte{byte(n), byte(n >> 8), byte(n >> 16), byte(n >> 24)}
		_, _ = p.control.WriteAt(b[:], 0)
	}
}

// Has reports whether a kind is measured.
func (p *Probe) Has(k Kind) bool {
	return slices.ContainsFunc(p.used, func(u string) bool { return strings.HasPrefix(u, string(k)+": ") })
}

// ThreadID returns the calling thread's number in this PID namespace, as in [Thread].
func ThreadID() int { return unix.Gettid() }

// Close detaches the probes.
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

// compiled is bpf/probe.bpf.c.
//
//go:embed bpf_bpfel.o
var compiled []byte

// Structs of bpf/probe.bpf.c.
type (
	bpfEvent struct {
		At, Ns                 uint64
		Kind, Tid, Stage, What uint32
	}
	bpfCallKey     struct{ Tid, Stage, Nr, Fd, Cmd uint32 }
	bpfActivityKey struct{ Tid, Stage uint32 }
)

func (p *Probe) drain() {
	var r ringbuf.Record
	for {
		if err := p.ring.ReadInto(&r); err != nil {
			if errors.Is(err, ringbuf.ErrClosed) {
				return
			}
			continue
		}
		var e bpfEvent
		if _, err := binary.Decode(r.RawSample, binary.NativeEndian, &e); err != nil {
			continue // shorter than what the programs write
		}
		p.mu.Lock()
		if p.slow = append(p.slow, e); len(p.slow) > mostSlow {
			p.slow = p.slow[1:]
			p.old++
		}
		p.mu.Unlock()
	}
}

// Snapshot fails.
func (p *Probe) Snapshot() (*Snapshot, error) {
	s := &Snapshot{PID: p.pid, Used: p.used, LeftOut: p.leftOut}
	var running bool
	if s.Proc, running = p.poll(); running {
		s.Elapsed = time.Since(p.began)
	} else {
		s.Ended, s.Elapsed = true, p.ended.Sub(p.began)
	}
	if p.coll == nil {
		return s, nil
	}
	if err := errors.Join(p.readThreads(s), p.readLost(s)); err != nil {
		return nil, fmt.Errorf("probe: snapshot: %w", err)
	}
	p.readSlow(s)
	return s, nil
}

func (p *Probe) readThreads(s *Snapshot) error {
	all := map[bpfActivityKey]*Thread{}
	thread := func(k bpfActivityKey) *Thread {
		if all[k] == nil {
			all[k] = &Thread{TID: int(k.Tid), Stage: int(k.Stage), Name: threadName(p.pid, int(k.Tid))}
		}
		return all[k]
	}
	var ck bpfCallKey
	var c CallTimes
	it := p.coll.Maps["calls"].Iterate()
	for it.Next(&ck, &c) {
		call := Call{Name: callName(ck.Nr), CallTimes: c}
		if ck.Nr == unix.SYS_IOCTL {
			call.Device, call.Command = p.file(ck.Fd), kabi.RequestName(ck.Cmd)
		}
		t := thread(bpfActivityKey{ck.Tid, ck.Stage})
		t.Calls = append(t.Calls, call)
	}
	if err := it.Err(); err != nil {
		return fmt.Errorf("system calls: %w", err)
	}
	var ak bpfActivityKey
	var a Activity
	it = p.coll.Maps["activities"].Iterate()
	for it.Next(&ak, &a) {
		thread(ak).Activity = a
	}
	if err := it.Err(); err != nil {
		return fmt.Errorf("threads: %w", err)
	}
	for _, t := range all {
		sortCalls(t.Calls)
		s.Threads = append(s.Threads, *t)
	}
	slices.SortFunc(s.Threads, func(a, b Thread) int { return cmp.Or(cmp.Compare(a.TID, b.TID), cmp.Compare(a.Stage, b.Stage)) })
	return nil
}

func (p *Probe) readLost(s *Snapshot) error {
	for i, n := range s.Lost.full() {
		var each []uint64
		if err := p.coll.Maps["lost"].Lookup(uint32(i), &each); err != nil {
			return fmt.Errorf("what was lost: %w", err)
		}
		for _, v := range each {
			*n += v
		}
	}
	for _, prog := range p.programs {
		if st, err := prog.Stats(); err == nil {
			s.Lost.Missed += st.RecursionMisses
		}
	}
	return nil
}

var slowKinds = [...]string{"call", "blocked", "ready", "fault"}

func (p *Probe) readSlow(s *Snapshot) {
	p.mu.Lock()
	defer p.mu.Unlock()
	s.Lost.Old = p.old
	for _, e := range p.slow {
		if int(e.Kind) >= len(slowKinds) {
			continue
		}
		out := Slow{At: time.Duration(e.At), For: time.Duration(e.Ns), TID: int(e.Tid), Stage: int(e.Stage), What: slowKinds[e.Kind]}
		switch {
		case out.What == "call", out.What == "blocked" && e.What != ^uint32(0):
			out.Name = callName(e.What)
		case out.What == "ready" && e.What != 0:
			out.Name = "preempted"
		}
		s.Slow = append(s.Slow, out)
	}
}

// file names a descriptor's file, or the last one known.
func (p *Probe) file(fd uint32) string {
	name, err := os.Readlink(fmt.Sprintf("/proc/%d/fd/%d", p.pid, fd))
	p.mu.Lock()
	defer p.mu.Unlock()
	if err != nil {
		return p.files[fd]
	}
	p.files[fd] = name
	return name
}

// callNames has a line for each system call: an architecture, a number and a name.
//
//go:embed names.txt
var callNames string

func callName(nr uint32) string {
	_, rest, ok := strings.Cut("\n"+callNames, fmt.Sprintf("\n%s %d ", runtime.GOARCH, nr))
	if !ok {
		return fmt.Sprintf("call %d", nr)
	}
	name, _, _ := strings.Cut(rest, "\n")
	return name
}
