//go:build linux && (amd64 || arm64 || riscv64)

package probe

import (
	"cmp"
	_ "embed" // of names
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/cilium/ebpf/ringbuf"
	"golang.org/x/sys/unix"
)

// bpfEvent is struct event of bpf/probe.bpf.c.
type bpfEvent struct {
	At, Ns                 uint64
	Kind, Tid, Stage, What uint32
}

// Function numbers of markers (SUBMITTED and COMPLETED of bpf/probe.bpf.c).
const (
	submittedFunction = 0xFFFF0000
	completedFunction = 0xFFFF0001
)

// drain reads events from the ring until it is closed.
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
		switch {
		case p.config.Events == 0:
			p.old++
		case len(p.slow) < p.config.Events:
			p.slow = append(p.slow, e)
		default:
			p.slow[p.next] = e
			p.next = (p.next + 1) % len(p.slow)
			p.old++
		}
		p.mu.Unlock()
	}
}

// Snapshot returns what the probes have seen so far.
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
	if err := errors.Join(p.readThreads(s), p.readFunctions(s), p.readLost(s)); err != nil {
		return nil, fmt.Errorf("probe: snapshot: %w", err)
	}
	p.readSlow(s)
	return s, nil
}

func (p *Probe) readThreads(s *Snapshot) error {
	type key struct{ tid, stage uint32 }
	all := map[key]*Thread{}
	thread := func(tid, stage uint32) *Thread {
		t := all[key{tid, stage}]
		if t == nil {
			t = &Thread{TID: int(tid), Stage: int(stage), Name: threadName(p.pid, int(tid))}
			all[key{tid, stage}] = t
		}
		return t
	}
	var ck bpfCallKey
	var c bpfCall
	it := p.coll.Maps["calls"].Iterate()
	for it.Next(&ck, &c) {
		call := Call{
			Name: callName(ck.Nr), Errors: c.Errors, Off: time.Duration(c.OffNs),
			Durations: durations(c.Count, c.TotalNs, c.MaxNs, c.Slots),
		}
		if ck.Nr == unix.SYS_IOCTL {
			call.Device, call.Command = p.file(ck.Fd), command(ck.Cmd)
		}
		t := thread(ck.Tid, ck.Stage)
		t.Calls = append(t.Calls, call)
	}
	if err := it.Err(); err != nil {
		return fmt.Errorf("system calls: %w", err)
	}
	var ak bpfActivityKey
	var a bpfActivity
	it = p.coll.Maps["activities"].Iterate()
	for it.Next(&ak, &a) {
		t := thread(ak.Tid, ak.Stage)
		t.On, t.Voluntary, t.Preempted, t.Major = time.Duration(a.OnNs), a.Voluntary, a.Preempted, a.Major
		t.Off = durations(sum(a.Off), a.OffNs, a.MaxOffNs, a.Off)
		t.Ready = durations(sum(a.Ready), a.ReadyNs, a.MaxReadyNs, a.Ready)
		t.Faults = durations(a.Faults, a.FaultNs, a.MaxFaultNs, a.Fault)
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

func (p *Probe) readFunctions(s *Snapshot) error {
	if p.Has(Marks) {
		s.Markers = &Markers{}
	}
	var k bpfFunctionKey
	var f bpfFunctionStat
	it := p.coll.Maps["functions"].Iterate()
	for it.Next(&k, &f) {
		d := durations(f.Count, f.TotalNs, f.MaxNs, f.Slots)
		switch {
		case k.Function == submittedFunction && s.Markers != nil:
			s.Markers.Submitted += f.Count
		case k.Function == completedFunction && s.Markers != nil:
			s.Markers.Completed.add(d)
		case int(k.Function) < len(p.functions):
			s.Functions = append(s.Functions, Function{Name: p.functions[k.Function], Stage: int(k.Stage), Durations: d})
		}
	}
	slices.SortFunc(s.Functions, func(a, b Function) int { return cmp.Or(cmp.Compare(b.Total, a.Total), cmp.Compare(a.Name, b.Name)) })
	if err := it.Err(); err != nil {
		return fmt.Errorf("functions: %w", err)
	}
	return nil
}

func (p *Probe) readLost(s *Snapshot) error {
	for i, n := range []*uint64{&s.Lost.Ring, &s.Lost.Threads, &s.Lost.Calls, &s.Lost.Activities, &s.Lost.Functions, &s.Lost.Marks} {
		var each []uint64
		if err := p.coll.Maps["lost"].Lookup(uint32(i), &each); err != nil {
			return fmt.Errorf("what was lost: %w", err)
		}
		*n = 0
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

var slowKinds = [...]string{"call", "blocked", "ready", "fault", "function"}

func (p *Probe) readSlow(s *Snapshot) {
	p.mu.Lock()
	defer p.mu.Unlock()
	s.Lost.Old = p.old
	for i := range p.slow {
		e := p.slow[(p.next+i)%len(p.slow)]
		if int(e.Kind) >= len(slowKinds) {
			continue
		}
		out := Slow{At: time.Duration(e.At), For: time.Duration(e.Ns), TID: int(e.Tid), Stage: int(e.Stage), What: slowKinds[e.Kind]}
		switch {
		case out.What == "call", out.What == "blocked" && e.What != ^uint32(0):
			out.Name = callName(e.What)
		case out.What == "function" && int(e.What) < len(p.functions):
			out.Name = p.functions[e.What]
		case out.What == "ready" && e.What != 0:
			out.Name = "preempted"
		}
		s.Slow = append(s.Slow, out)
	}
}

// file names the file of a descriptor of the process, or the one that was there when it was last
// seen.
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

func durations(count, total, longest uint64, slots [32]uint64) Durations {
	return Durations{Count: count, Total: time.Duration(total), Max: time.Duration(longest), Slots: slots}
}

func sum(v [32]uint64) uint64 {
	var n uint64
	for _, x := range v {
		n += x
	}
	return n
}
