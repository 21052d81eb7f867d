package schedules

import (
	"slices"

	"github.com/reprise-tt/reprise/chip"
)

// Kind is what an access does to a word.
type Kind uint8

// The kinds of accesses. Additions commute.
const (
	Load Kind = iota
	Store
	Addition
)

var kindNames = [...]string{Load: "load", Store: "store", Addition: "addition"}

// What a Run follows at most, of a round and of the whole run.
const (
	maxWords     = 1 << 19
	maxConflicts = 1 << 12
)

// Run follows the accesses of one run of a chip, and applies a schedule to it.
type Run struct {
	holds []*hold
	round int
	hash  uint64
	res   Result
	found []conflict         // of the round
	pairs map[[2]uint64]bool // of all conflicts

	words  map[place]*word
	paths  map[any]*Thread
	counts map[Agent]*int // of requests
	told   map[place]clock
	clocks int // threads with a component

	// Keep, if not nil, reports whether accesses at a program counter may be held.
	Keep func(core chip.Processor, pc uint32, read func(addr uint32, b []byte) bool) bool
	// Read is the chip's: it reads memory as a processor sees it.
	Read func(tile chip.XY, core chip.Processor, addr uint32, b []byte) bool
}

type place struct {
	tile chip.XY
	addr uint32
}

type conflict struct {
	Hold
	earlier *access
}

type hold struct {
	Hold
	hit, met bool
	held     Held
}

// NewRun returns a run under a schedule.
func NewRun(holds []Hold) *Run {
	r := &Run{pairs: map[[2]uint64]bool{}}
	for _, h := range holds {
		r.holds = append(r.holds, &hold{Hold: h})
	}
	r.clear()
	return r
}

func (r *Run) clear() {
	r.words, r.paths, r.counts, r.told, r.clocks = map[place]*word{}, map[any]*Thread{}, map[Agent]*int{}, map[place]clock{}, 0
}

// Begin begins a round.
func (r *Run) Begin() {
	r.end()
	r.round++
	for _, h := range r.holds {
		if h.At.Round == r.round && h.Before != r.hash {
			r.res.Differs = true
		}
	}
}

func (r *Run) end() {
	sum := uint64(0)
	for _, w := range r.words {
		sum += w.hash
	}
	r.hash = mix(r.hash, sum)
	for _, c := range r.found {
		if !c.earlier.waited {
			r.res.Conflicts = append(r.res.Conflicts, c.Hold)
		}
	}
	r.found = nil
	r.clear()
}

// Result ends the run.
func (r *Run) Result() Result {
	r.end()
	out := r.res
	out.Hash = r.hash
	for _, h := range r.holds {
		out.Infeasible = out.Infeasible || !h.hit || !h.met
	}
	out.Conflicts = slices.Clone(r.res.Conflicts)
	return out
}

// Stuck lets all go that is held: nothing else can run. It reports whether there was any.
func (r *Run) Stuck() (any bool) {
	for _, h := range r.holds {
		if h.held != nil {
			r.res.Infeasible, any = true, true
			h.release()
		}
	}
	return any
}

// Held is what waits: LetGo makes the access possible again.
type Held interface{ LetGo() }

func (h *hold) release() {
	held := h.held
	h.held = nil
	held.LetGo()
}

// clock is a vector clock by threads' components, immutable once shared.
type clock []uint32

func (c clock) at(i int) uint32 {
	if i < len(c) {
		return c[i]
	}
	return 0
}

func (c clock) join(d clock) clock {
	for i, v := range d {
		if v <= c.at(i) {
			continue
		}
		out := make(clock, max(len(c), len(d)))
		copy(out, c)
		for ; i < len(d); i++ {
			out[i] = max(out[i], d[i])
		}
		return out
	}
	return c
}

// Thread is an agent in a run.
type Thread struct {
	Agent
	core      chip.Processor
	run       *Run
	id        uint64
	round     int // for which the following are
	component int
	time      uint32
	known     clock
	count     *int       // of a path's requests
	queue     []*Request // of a path: the first is held, and so all

	visits [4]visit
	next   int
}

// Thread returns a processor's thread.
func (r *Run) Thread(tile chip.XY, core chip.Processor) *Thread {
	return r.thread(Agent{Tile: tile, Core: core.String()}, core)
}

func (r *Run) thread(a Agent, core chip.Processor) *Thread {
	return &Thread{Agent: a, core: core, run: r, id: (&Point{Agent: a}).hash()}
}

// begin forgets what the thread knew in an earlier round.
func (t *Thread) begin() {
	if t.round != t.run.round {
		t.round, t.time, t.known, t.component = t.run.round, 0, nil, t.run.clocks
		t.run.clocks++
		t.visits = [len(t.visits)]visit{}
	}
}

// access is one that happened.
type access struct {
	by     *Thread
	time   uint32
	known  clock
	nth    int
	pc     uint32
	kind   Kind
	hash   uint64 // of a load
	waited bool   // its result made a loop wait
}

func (t *Thread) covers(a *access) bool { return t == a.by || t.known.at(a.by.component) >= a.time }

func (t *Thread) learn(a *access) {
	if !t.covers(a) {
		t.known = t.known.join(a.clock())
	}
}

// clock is what others learn from the access.
func (a *access) clock() clock {
	out := make(clock, max(len(a.known), a.by.component+1))
	copy(out, a.known)
	out[a.by.component] = a.time
	return out
}

// word is what happened to a word in a round.
type word struct {
	changes int // so many
	history uint64
	hash    uint64
	write   *access
	adds    []*access // since write
	reads   []*access // since the last change
	counts  []count
}

type count struct {
	by *Thread
	n  int
}

func (w *word) count(t *Thread) *int {
	for i := range w.counts {
		if w.counts[i].by == t {
			return &w.counts[i].n
		}
	}
	w.counts = append(w.counts, count{by: t})
	return &w.counts[len(w.counts)-1].n
}

func (r *Run) word(at place) *word {
	w := r.words[at]
	if w == nil {
		if len(r.words) == maxWords {
			r.res.Capped = true
			return nil
		}
		w = new(word)
		r.words[at] = w
	}
	return w
}

// Waits reports whether the processor's next access, to a word, is held.
func (t *Thread) Waits(where chip.XY, addr uint32, held Held) bool {
	r := t.run
	for _, h := range r.holds {
		if !h.hit && h.At.Round == r.round && h.At.Agent == t.Agent && h.At.Where == where && h.At.Addr == addr {
			n := 0
			if w := r.words[place{where, addr}]; w != nil {
				n = *w.count(t)
			}
			if h.At.Nth == n+1 && h.hold(held) {
				return true
			}
		}
	}
	return false
}

func (h *hold) hold(held Held) bool {
	h.hit = true
	if !h.met {
		h.held = held
	}
	return !h.met
}

// Access records a processor's access to a word, before it. value is the word's.
func (t *Thread) Access(where chip.XY, addr uint32, kind Kind, pc, value uint32, regs *[256]uint32) {
	t.begin()
	w := t.run.word(place{where, addr})
	if w == nil {
		return
	}
	t.time++
	n := w.count(t)
	var last *visit
	if kind == Load {
		if last = t.waited(pc, addr, value, regs); last != nil {
			*n--
			w.hash -= last.load.hash
			last.load.waited, last.load.hash = true, 0
		}
	}
	*n++
	a := &access{by: t, time: t.time, known: t.known, nth: *n, pc: pc, kind: kind}
	a.waited = kind == Load && last != nil && value == last.value
	t.access(where, addr, w, a, last)
	if kind == Load {
		t.visit(a, w, addr, value, regs)
	}
	t.run.happened(t.run.point(where, addr, a))
}

func (r *Run) point(where chip.XY, addr uint32, a *access) Point {
	return Point{Agent: a.by.Agent, Round: r.round, Where: where, Addr: addr, Nth: a.nth, PC: a.pc, Kind: kindNames[a.kind]}
}

func (r *Run) happened(p Point) {
	for _, h := range r.holds {
		if !h.met && h.Until.is(&p) {
			h.met = true
			if h.held != nil {
				h.release()
			}
		}
	}
}

// access finds the conflicts of an access, orders it and adds it to its word.
func (t *Thread) access(where chip.XY, addr uint32, w *word, a *access, last *visit) {
	r := t.run
	earlier := func(list []*access, skip bool) {
		for _, e := range list {
			if !skip && !t.covers(e) && !e.waited {
				r.conflict(where, addr, e, a)
			}
		}
	}
	changes := w.adds
	if len(changes) == 0 && w.write != nil {
		changes = []*access{w.write}
	}
	id := mix(t.id, uint64(a.nth))
	if a.kind == Load {
		// Had it come before the only change, it would have waited for that.
		waits := last != nil && w.changes == last.changes+1
		earlier(changes, waits)
		for _, e := range changes {
			t.learn(e)
		}
		a.known = t.known
		if !a.waited {
			a.hash = mix(id, w.history)
			w.hash += a.hash
		}
		w.reads = append(w.reads, a)
		return
	}
	earlier(w.reads, false)
	looked := slices.ContainsFunc(w.reads, func(e *access) bool { return !e.waited })
	if a.kind == Store {
		earlier(changes, looked)
	} else if w.write != nil {
		earlier([]*access{w.write}, looked)
	}
	for _, e := range w.reads {
		if !e.waited {
			t.learn(e)
		}
	}
	if w.write != nil {
		t.learn(w.write)
	}
	w.reads = w.reads[:0:0]
	w.changes++
	if a.kind == Addition {
		a.known = t.known
		w.adds = append(w.adds, a)
		w.history += mix(id, 1)
		w.hash += mix(id, 1)
		return
	}
	for _, e := range w.adds {
		t.learn(e)
	}
	a.known = t.known
	w.write, w.adds = a, nil
	w.history = mix(id, w.history)
	w.hash += w.history
}

func (r *Run) conflict(where chip.XY, addr uint32, e, a *access) {
	if n := len(r.holds); n > 0 && !r.holds[n-1].hit {
		return // the schedule without the last hold has it, too
	}
	h := Hold{At: r.point(where, addr, e), Until: r.point(where, addr, a), Before: r.hash}
	key := [2]uint64{h.At.hash(), h.Until.hash()}
	back := func(have *hold) bool { return have.At.is(&h.Until) && have.Until.is(&h.At) }
	switch {
	case r.pairs[key] || slices.ContainsFunc(r.holds, back):
	case len(r.pairs) == maxConflicts:
		r.res.Capped = true
	default:
		r.pairs[key] = true
		if !r.keeps(e) || !r.keeps(a) {
			return
		}
		r.found = append(r.found, conflict{h, e})
	}
}

func (r *Run) keeps(a *access) bool {
	return r.Keep == nil || r.Keep(a.by.core, a.pc, func(addr uint32, b []byte) bool { return r.Read(a.by.Tile, a.by.core, addr, b) })
}

// Tell is a store to what orders accesses and has no conflicts itself.
func (t *Thread) Tell(where chip.XY, addr uint32) {
	t.begin()
	t.time++
	at := place{where, addr}
	t.run.told[at] = t.run.told[at].join((&access{by: t, time: t.time, known: t.known}).clock())
}

// Hear is a load of the same.
func (t *Thread) Hear(where chip.XY, addr uint32) {
	t.begin()
	t.known = t.known.join(t.run.told[place{where, addr}])
}

// Request is a processor's request to a NoC.
type Request struct {
	held Held
	path *Thread
	pc   uint32
	nth  int
}

// Request records the start of a request. Those with the same path, if it is not nil, don't
// overtake each other.
func (t *Thread) Request(path any, name func() string, pc uint32) *Request {
	t.begin()
	r := t.run
	t.time++
	var p *Thread
	if path != nil {
		p = r.paths[path]
	}
	if p == nil {
		p = r.thread(Agent{t.Tile, t.Core, name()}, t.core)
		if p.count = r.counts[p.Agent]; p.count == nil {
			p.count = new(int)
			r.counts[p.Agent] = p.count
		}
		if path != nil {
			r.paths[path] = p
		}
	}
	p.begin()
	*p.count++
	p.known = p.known.join((&access{by: t, time: t.time, known: t.known}).clock())
	return &Request{path: p, pc: pc, nth: *p.count}
}

// Waits reports whether the request's effect is held, or that of an earlier one on its path.
func (q *Request) Waits(held Held) bool {
	q.held = held
	if p := q.path; len(p.queue) > 0 || q.waits() {
		p.queue = append(p.queue, q)
		return true
	}
	return false
}

func (q *Request) waits() bool {
	r := q.path.run
	for _, h := range r.holds {
		if !h.hit && h.At.Round == r.round && h.At.Nth == q.nth && h.At.Agent == q.path.Agent && h.hold(q) {
			return true
		}
	}
	return false
}

// LetGo lets the path's requests go until one that is held itself.
func (q *Request) LetGo() {
	p := q.path
	for first := true; len(p.queue) > 0 && (first || !p.queue[0].waits()); first = false {
		next := p.queue[0]
		p.queue = p.queue[1:]
		next.held.LetGo()
	}
}

// Access records that the request takes effect on a word, before that.
func (q *Request) Access(where chip.XY, addr uint32, kind Kind) {
	t := q.path
	t.begin()
	if w := t.run.word(place{where, addr}); w != nil {
		t.time++
		a := &access{by: t, time: t.time, known: t.known, nth: q.nth, pc: q.pc, kind: kind}
		t.access(where, addr, w, a, nil)
	}
}

// Done records the end of the request, told by its NIU.
func (q *Request) Done(where chip.XY, niu uint32) {
	q.path.Tell(where, niu)
	q.path.run.happened(Point{Agent: q.path.Agent, Round: q.path.run.round, Nth: q.nth})
}
