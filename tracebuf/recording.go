// Package tracebuf turns recorded command streams into traces: the image for DRAM, its place in
// each bank, and the commands that replay it. It also defines the file format of traces ([Encode],
// [Decode]) and reads traces ([Inspect], [Diff], [StatsOf]).
//
// A trace is what the prefetcher would otherwise have read from the issue queue, followed by an
// EXEC_BUF_END, in an interleaved buffer at the top of the DRAM banks. A replay is one small batch
// of commands with an EXEC_BUF of that buffer. The package works on bytes: it knows neither devices
// nor queues.
package tracebuf

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/reprise-tt/reprise/dispatch/cq"
	"github.com/reprise-tt/reprise/tracebuf/flow"
)

// ErrEmpty is returned for a recording without commands.
var ErrEmpty = errors.New("nothing was recorded")

// ErrHostMemory is returned when a trace is saved whose programs use pinned host memory.
var ErrHostMemory = errors.New("it is memory of this process, which a file can't have")

// Step is one recorded program, an edge between parts, or a step of control flow.
type Step struct {
	Name   string
	Offset int // of its commands in the trace
	Size   int // bytes of its commands

	Program int // in Image.Programs, or NoProgram
	Edge    Edge
	Control flow.Control
	Variant uint8 // not in the file
}

// Recording collects commands in host memory, so that a trace's size is known before it takes DRAM.
type Recording struct {
	layout cq.Layout
	cmds   []byte
	steps  []Step

	borrowed []byte // the memory given to Borrow, in which cmds began

	follow follow
	image  *Image // of Finish
	banks  int    // of Finish
}

// NewRecording returns an empty recording.
func NewRecording(l cq.Layout) *Recording { return &Recording{layout: l} }

// Borrow makes an empty recording use the caller's memory, so that repeated recordings stay in the
// processor's caches. The result of Finish doesn't refer to it.
func (r *Recording) Borrow(mem []byte) { r.cmds, r.borrowed = mem[:0], mem }

// Return ends the recording and returns the memory of Borrow, or nil.
func (r *Recording) Return() []byte {
	mem := r.borrowed
	r.cmds, r.borrowed = nil, nil
	return mem
}

// RoomFor makes an empty recording put its steps into the caller's memory while they fit. The image
// refers to it.
func (r *Recording) RoomFor(steps []Step) { r.steps = steps[:0] }

// Reserve makes room for n more bytes of commands and the end of the trace.
func (r *Recording) Reserve(n int) {
	if r.follow.leader != nil {
		return
	}
	all := len(r.cmds) + n + r.layout.Stride(2*cq.HeaderSize)
	r.cmds = slices.Grow(r.cmds, all-len(r.cmds)+min(max(all/4, minPageSize), maxPageSize))
}

// Encoder appends the commands of a run to dst. It returns the result and the encoding, for the
// Step.
type Encoder func(dst []byte) (cmds []byte, variant uint8)

// Add records a run of a program, given by its index in Image.Programs.
func (r *Recording) Add(name string, program int, encode Encoder) {
	if r.follow.leader != nil {
		r.addFollowing(name, program, encode)
		return
	}
	step := Step{Name: name, Offset: len(r.cmds), Program: program}
	r.cmds, step.Variant = encode(r.cmds)
	step.Size = len(r.cmds) - step.Offset
	r.steps = append(r.steps, step)
}

// AddEdge records an edge to other parts, with the commands of [AppendEdge].
func (r *Recording) AddEdge(name string, e Edge, commands []byte) {
	r.steps = append(r.steps, Step{Name: name, Offset: len(r.cmds), Size: len(commands), Program: NoProgram, Edge: e})
	r.cmds = append(r.cmds, commands...)
}

// Replace replaces the commands of the last run by others of the same effect. A recording with a
// leader or followers calls Own before.
func (r *Recording) Replace(encode Encoder) *Step {
	last := &r.steps[len(r.steps)-1]
	r.cmds, last.Variant = encode(r.cmds[:last.Offset])
	last.Size = len(r.cmds) - last.Offset
	return last
}

func (r *Recording) Len() int { return r.follow.steps + len(r.steps) }

// Steps returns the steps so far, without those that are shared with a leader: none after Own.
func (r *Recording) Steps() []Step { return r.steps }

// Bytes returns the commands of Steps.
func (r *Recording) Bytes() []byte { return r.cmds }

// Image is a finished trace: the commands for DRAM, and what relocating and patching them needs.
type Image struct {
	Layout   cq.Layout
	PageSize int    // 1024, 2048 or 4096
	Bytes    []byte // with zeros up to a whole page
	Size     int    // without the zeros
	Steps    []Step

	Programs []Program // of the steps
	Relocs   []Reloc   // by offset
	Buffers  []Buffer  // of the programs, in order of first use
	Params   []Param   // patch points
	Conds    []Cond    // of branches, by offset
	Callees  []Callee  // traces that it calls, each after those that it calls itself; of files only
	L1End    uint64    // end of the part of every worker's L1 that the programs' circular buffers need
	Changes  []Change  // by package optimize
	After    []byte    // state of a queue after the trace, in the form of package dispatch
}

// Finish ends the recording and lays it out for a number of DRAM banks. A recording that equals its
// leader's, finished for as many banks, has the leader's image. The error wraps [ErrEmpty] for a
// recording without steps.
func (r *Recording) Finish(banks int) (*Image, error) { return r.FinishInto(new(Image), banks, nil) }

// FinishInto is Finish that makes the image in im, unless it returns the leader's. It copies
// borrowed memory into n bytes from mem.
func (r *Recording) FinishInto(im *Image, banks int, mem func(n int) []byte) (*Image, error) {
	if r.Len() == 0 {
		return nil, fmt.Errorf("tracebuf: finish: %w", ErrEmpty)
	}
	if im := r.sharedImage(banks); im != nil {
		return im, nil
	}
	r.leave()
	if banks <= 0 {
		return nil, fmt.Errorf("tracebuf: finish: %d DRAM banks, there must be at least one", banks)
	}
	b := cq.NewBuilder(r.layout, r.cmds)
	b.ExecBufEnd()
	cmds, err := b.Finish()
	if err != nil {
		return nil, fmt.Errorf("tracebuf: finish: %w", err)
	}
	*im = Image{Layout: r.layout, Size: len(cmds), Steps: r.steps, PageSize: pageSize(len(cmds), banks)}
	im.Bytes = append(cmds, make([]byte, roundUp(len(cmds), im.PageSize)-len(cmds))...)
	if len(r.borrowed) > 0 && &im.Bytes[0] == &r.borrowed[0] {
		if mem == nil {
			im.Bytes = bytes.Clone(im.Bytes)
		} else {
			own := mem(len(im.Bytes))
			copy(own, im.Bytes)
			im.Bytes = own
		}
	}
	r.image, r.banks = im, banks
	return im, nil
}

// Page sizes that a trace may have. Source: tt-metal trace/dispatch.cpp.
const (
	minPageSize = 1024
	maxPageSize = 4096
)

const badPageSize = "pages of %d bytes, want 1024, 2048 or 4096"

func isPageSize(n int) bool { return n >= minPageSize && n <= maxPageSize && n&(n-1) == 0 }

// pageSize picks the page with the least waste when a buffer takes the same from every bank, and
// then the largest whose pages reach every bank: the prefetcher reads banks in parallel.
func pageSize(n, banks int) int {
	best, waste := 0, 0
	for p := maxPageSize; p >= minPageSize; p /= 2 {
		if w := roundUp(n, banks*p) - n; best == 0 || w < waste || w == waste && n <= (banks-1)*best {
			best, waste = p, w
		}
	}
	return best
}

func roundUp(n, to int) int { return (n + to - 1) / to * to }

// Pages returns the number of pages.
func (im *Image) Pages() int { return len(im.Bytes) / im.PageSize }

// Print writes the trace's commands as text, one line each.
func (im *Image) Print(w io.Writer) error { return cq.Print(w, im.Layout, im.Bytes[:im.Size]) }

// Extent is what a trace occupies in one DRAM bank.
type Extent struct {
	Bank  int    `json:"bank"`
	Start uint64 `json:"start"` // address in the bank
	End   uint64 `json:"end"`
}

// Extents returns what the image occupies in each bank with a page if it is at addr.
func (im *Image) Extents(addr uint64, banks int) []Extent {
	var out []Extent
	for bank := range min(banks, im.Pages()) {
		pages := (im.Pages() - bank + banks - 1) / banks
		out = append(out, Extent{Bank: bank, Start: addr, End: addr + uint64(pages*im.PageSize)})
	}
	return out
}

// Devices of a mesh mostly record the same. So a recording may follow another one, its leader:
// while both are equal, only the leader keeps the commands, and in the end both share one image.

type follow struct {
	leader *Recording
	steps  int // of the leader that this recording has as well
	buf    []byte

	followed bool
	shared   *shared
}

type shared struct {
	cmds  []byte
	steps []Step
}

// Follow makes an empty recording share the commands of a leader of the same architecture while
// they are equal. The leader records each step first.
func (r *Recording) Follow(leader *Recording) {
	if r.layout == leader.layout {
		r.follow.leader, leader.follow.followed = leader, true
	}
}

// Own ends sharing, before commands are changed: a leader keeps its commands so far for its
// followers, and a follower copies what it shares.
func (r *Recording) Own() {
	if r.follow.followed && r.follow.shared == nil {
		r.follow.shared = &shared{slices.Clone(r.cmds), slices.Clone(r.steps)}
	}
	r.leave()
}

func (r *Recording) sharable() (s shared, all bool) {
	if r.follow.shared != nil {
		return *r.follow.shared, false
	}
	return shared{r.cmds, r.steps}, true
}

func (r *Recording) addFollowing(name string, program int, encode Encoder) {
	f := &r.follow
	var variant uint8
	f.buf, variant = encode(f.buf[:0])
	if s, _ := f.leader.sharable(); f.steps < len(s.steps) {
		step := &s.steps[f.steps]
		if step.Name == name && step.Program == program && step.Variant == variant &&
			bytes.Equal(f.buf, s.cmds[step.Offset:step.Offset+step.Size]) {
			f.steps++
			return
		}
	}
	r.leave()
	r.steps = append(r.steps, Step{Name: name, Offset: len(r.cmds), Size: len(f.buf), Program: program, Variant: variant})
	r.cmds = append(r.cmds, f.buf...)
}

func (r *Recording) leave() {
	f := &r.follow
	if f.leader == nil {
		return
	}
	if s, _ := f.leader.sharable(); f.steps > 0 {
		last := &s.steps[f.steps-1]
		r.steps, r.cmds = slices.Clone(s.steps[:f.steps]), slices.Clone(s.cmds[:last.Offset+last.Size])
	}
	f.leader, f.steps = nil, 0
}

func (r *Recording) sharedImage(banks int) *Image {
	l := r.follow.leader
	if l == nil || l.image == nil || l.banks != banks {
		return nil
	}
	if s, all := l.sharable(); !all || r.follow.steps != len(s.steps) {
		return nil
	}
	return l.image
}
