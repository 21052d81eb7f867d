package schedules

import (
	"fmt"
	"slices"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/internal/debug/stack"
)

// Kind is what an access does to a word.
type Kind uint8

// The kinds of accesses. Additions commute.
const (
	Load Kind = iota
	Store
	Addition
)

// What a Run follows at most, of a round and of the whole run.
const (
	maxWords     = 1 << 19
	maxConflicts = 1 << 12
)

// Result is what a Run found out.
type Result struct {
	Hash      uint64
	Held      uint64 // Hash at the end of the last round in which an access was held
	Conflicts []Hold // that its last hold has made possible, or all
	Differs   bool   // even before a hold
	Capped    bool   // there were more words or conflicts than are followed
}

// Run follows the accesses of one run of a chip, and applies a schedule to it.
type Run struct {
	Seed uint64 // of what the schedule leaves open
	// MayHold, if not nil, reports whether accesses at a program counter may be held.
	MayHold func(p chip.Processor, pc uint32, read stack.Memory) bool
	// Read is the chip's ReadCore.
	Read func(tile chip.XY, p chip.Processor, addr uint32, b []byte) bool
	// Stop, if not nil, is called when the first access is held. Stopped is set then, and the chip
	// stands still until a debugger clears it.
	Stop    func(Hold)
	Stopped bool

	holds []*hold
	round int
	res   Result
	pairs map[[2]Point]bool // of all conflicts

	// Of the round.
	hash   uint64 // the same if each word has the same order of accesses
	found  []conflict
	words  map[Word]*word
	paths  map[string]*Thread
	counts map[Point]int // by points without Nth
	clocks int           // threads with a component
}

type conflict struct {
	Hold
	earlier *access
}

type hold struct {
	Hold
	hit, met bool
	letGo    func() // while it holds
}

// NewRun returns a run under the first schedule of a file.
func NewRun(f *File) *Run {
	r := &Run{Seed: f.Seed, pairs: map[[2]Point]bool{}}
	r.end()
	for _, h := range slices.Concat(f.Pending[:min(1, len(f.Pending))]...) {
		r.holds = append(r.holds, &hold{Hold: h})
	}
	return r
}

func (r *Run) room(n, most int) bool {
	r.res.Capped = r.res.Capped || n >= most
	return n < most
}

// Begin begins a round.
func (r *Run) Begin() {
	r.end()
	r.round++
	for _, h := range r.holds {
		r.res.Differs = r.res.Differs || h.At.Round == r.round && h.Before != r.res.Hash
	}
}

func (r *Run) end() {
	r.res.Hash = mix(r.res.Hash, r.hash)
	if slices.ContainsFunc(r.holds, func(h *hold) bool { return h.hit && h.At.Round == r.round }) {
		r.res.Held = r.res.Hash
	}
	for _, c := range r.found {
		if !c.earlier.waited {
			r.res.Conflicts = append(r.res.Conflicts, c.Hold)
		}
	}
	r.found, r.words, r.paths, r.counts = nil, map[Word]*word{}, map[string]*Thread{}, map[Point]int{}
	r.hash, r.clocks = 0, 0
}

// Result ends a round.
func (r *Run) Result() Result {
	r.end()
	return r.res
}

// Stuck lets all go that is held: nothing else can run. It reports whether there was any.
func (r *Run) Stuck() (any bool) {
	if r == nil {
		return false
	}
	for _, h := range r.holds {
		any = h.release() || any
	}
	return any
}

func (h *hold) release() bool {
	letGo := h.letGo
	h.letGo = nil
	if letGo != nil {
		letGo()
	}
	return letGo != nil
}

// waits reports whether an access is held, until letGo is called.
func (r *Run) waits(p Point, letGo func()) bool {
	for _, h := range r.holds {
		if !h.hit && h.At == p {
			h.hit = true
			if !h.met {
				if r.Stop != nil {
					r.Stop(h.Hold)
					r.Stop, r.Stopped = nil, true
				}
				h.letGo = letGo
				return true
			}
		}
	}
	return false
}

func (r *Run) happened(p Point) {
	for _, h := range r.holds {
		if h.Until == p {
			h.met = true
			h.release()
		}
	}
}

// clock is a vector clock by threads' components, immutable once shared.
type clock []uint32

func (c clock) join(d clock) clock {
	out := make(clock, max(len(c), len(d)))
	copy(out, c)
	for i, v := range d {
		out[i] = max(out[i], v)
	}
	return out
}

// moment is when a thread is at something, and what it knows of others.
type moment struct {
	component int
	time      uint32
	known     clock
}

func (m *moment) clock() clock {
	out := m.known.join(make(clock, m.component+1))
	out[m.component] = m.time
	return out
}

func (m *moment) covers(a *access) bool {
	return m.component == a.component || a.component < len(m.known) && m.known[a.component] >= a.time
}

// Thread is an agent in a run.
type Thread struct {
	moment
	run   *Run
	name  string // of a processor, or what a path is to its tile
	id    uint64
	round int // for which the moment is
	tile  chip.XY
	core  chip.Processor
	letGo func()

	visits []*visit   // of a processor
	queue  []*Request // of a path: the first is held, and so all
}

// Thread returns a processor's thread. letGo makes an access that was held possible again.
func (r *Run) Thread(tile chip.XY, core chip.Processor, letGo func()) *Thread {
	name := fmt.Sprintf("%v of tile %v", core, tile)
	return &Thread{run: r, name: name, id: hashOf(name), tile: tile, core: core, letGo: letGo}
}

// begin begins an access, and forgets what the thread knew in an earlier round.
func (t *Thread) begin() {
	if t.round != t.run.round {
		t.round, t.moment, t.visits = t.run.round, moment{component: t.run.clocks}, nil
		t.run.clocks++
	}
	t.time++
}

type access struct {
	Point
	moment
	by     *Thread // a processor
	path   string  // of a request
	pc     uint32
	kind   Kind
	hash   uint64 // of a load
	waited bool   // its result made a loop wait
}

func (a *access) String() string {
	return fmt.Sprintf("%s of %s at pc=%#x%s", [...]string{"load", "store", "addition"}[a.kind], a.by.name, a.pc, a.path)
}

// word is what happened to a word in a round.
type word struct {
	changed int // so many times
	history uint64
	store   []*access // the last one
	adds    []*access // since then
	reads   []*access // since the last change
	told    clock
}

func (r *Run) word(at Word) *word {
	w := r.words[at]
	if w == nil {
		w = &word{}
		if r.room(len(r.words), maxWords) {
			r.words[at] = w
		}
	}
	return w
}

// Access is called before a processor's access to a word of its tile that has a value. It reports
// whether the access must wait.
func (t *Thread) Access(addr uint32, kind Kind, pc, value uint32, regs *[256]uint32) bool {
	t.begin()
	r, at, once := t.run, Word{t.tile, addr}, false
	w, a := r.word(at), &access{Point: Point{Agent: t.id, Round: r.round, Word: at}, by: t, pc: pc, kind: kind}
	key, last := a.Point, (*visit)(nil)
	for _, v := range t.visits {
		if kind == Load && v.load.pc == pc {
			last = v
		}
	}
	again := last != nil && last.waits(addr, regs)
	if a.Nth = r.counts[key]; !again {
		a.Nth++
	}
	if r.waits(a.Point, t.letGo) {
		return true
	}
	r.counts[key] = a.Nth
	if again {
		r.hash -= last.load.hash
		last.load.waited, last.load.hash = true, 0
		a.waited = value == last.value
		// Had it come before the only change, it would have waited for that.
		once = w.changed == last.changed+1
	}
	t.access(at, w, a, once)
	if kind == Load {
		const others = 3
		v := &visit{load: a, value: value, changed: w.changed, regs: [32]uint32(regs[:32])}
		t.visits = append(t.visits[max(0, len(t.visits)-others):], v)
	}
	r.happened(a.Point)
	return false
}

// access finds the conflicts of an access, orders it and adds it to its word. Its order with the
// last changes is not to be reversed if the thread has looked at them.
func (t *Thread) access(at Word, w *word, a *access, looked bool) {
	var reads []*access
	if a.kind != Load {
		reads = slices.DeleteFunc(w.reads, func(e *access) bool { return e.waited })
		looked = len(reads) > 0
	}
	changes := w.adds
	if len(changes) == 0 || a.kind == Addition {
		changes = w.store
	}
	a.moment = t.moment
	earlier := slices.Concat(reads, changes)
	for i, e := range earlier {
		if !a.covers(e) && (i < len(reads) || !looked) {
			t.run.conflict(at, e, a)
		}
	}
	for _, e := range earlier {
		if !t.covers(e) {
			t.known = t.known.join(e.clock())
		}
	}
	a.moment = t.moment
	id := mix(a.Agent, uint64(a.Nth))
	switch a.kind {
	case Load:
		if !a.waited {
			a.hash = mix(id, w.history)
			t.run.hash += a.hash
		}
		w.reads = append(w.reads, a)
		return
	case Addition:
		w.adds = append(w.adds, a)
		w.history += id
		t.run.hash += id
	case Store:
		w.store, w.adds = []*access{a}, nil
		w.history = mix(id, w.history)
		t.run.hash += w.history
	}
	w.reads = nil
	w.changed++
}

func (r *Run) conflict(at Word, e, a *access) {
	if n := len(r.holds); n > 0 && !r.holds[n-1].hit {
		return // the schedule without the last hold has it, too
	}
	pair := [2]Point{e.Point, a.Point}
	back := func(h *hold) bool { return h.At == a.Point && h.Until == e.Point }
	if r.pairs[pair] || slices.ContainsFunc(r.holds, back) || !r.room(len(r.pairs), maxConflicts) {
		return
	}
	r.pairs[pair] = true
	if r.mayHold(e) && r.mayHold(a) {
		text := fmt.Sprintf("%v waits for the %v, at %#x of tile %v", e, a, at.Addr, at.Tile)
		r.found = append(r.found, conflict{Hold{text, e.Point, a.Point, r.res.Hash}, e})
	}
}

func (r *Run) mayHold(a *access) bool {
	return r.MayHold == nil || r.MayHold(a.by.core, a.pc, stack.Of(r.Read, a.by.tile, a.by.core))
}

// Order is an access to a register of the tile that orders accesses and has no conflicts itself.
func (t *Thread) Order(addr uint32, store bool) {
	t.begin()
	if w := t.run.word(Word{t.tile, addr}); store {
		w.told = w.told.join(t.clock())
	} else {
		t.known = t.known.join(w.told)
	}
}

// Request is a processor's request to a NoC.
type Request struct {
	access
	on    *Thread
	letGo func()
}

// Request records the start of a request. Ordered ones of a tile don't overtake each other on a
// path. letGo makes a request that was held take effect.
func (t *Thread) Request(ordered bool, path string, pc uint32, letGo func()) *Request {
	t.begin()
	r, name := t.run, t.name+path
	if ordered {
		name = t.tile.String() + path
	}
	p := r.paths[name]
	if p == nil || !ordered {
		p = &Thread{run: r, id: hashOf(name), tile: t.tile}
		p.letGo = p.advance
		r.paths[name] = p
	}
	p.begin()
	p.known = p.known.join(t.clock())
	at := Point{Agent: p.id, Round: r.round}
	r.counts[at]++
	at.Nth = r.counts[at]
	return &Request{access{Point: at, by: t, path: ", sent over " + path, pc: pc}, p, letGo}
}

// Waits reports whether the request's effect is held, or that of an earlier one on its path.
func (q *Request) Waits() bool {
	p := q.on
	if len(p.queue) == 0 && !p.run.waits(q.Point, p.letGo) {
		return false
	}
	p.queue = append(p.queue, q)
	return true
}

// advance lets the path's requests go until one that is held itself.
func (t *Thread) advance() {
	queue := t.queue
	t.queue = nil
	for i, q := range queue {
		if i == 0 || !q.Waits() {
			q.letGo()
		}
	}
}

// Access is called before the request takes effect on a word.
func (q *Request) Access(tile chip.XY, addr uint32, kind Kind) {
	at, a := Word{tile, addr}, q.access
	a.kind = kind
	q.on.begin()
	q.on.access(at, q.on.run.word(at), &a, false)
}

// Tell notes that a register of the processor's tile tells of the response.
func (q *Request) Tell(addr uint32) { q.on.Order(addr, true) }

// Done ends the request.
func (q *Request) Done() { q.on.run.happened(q.Point) }

// visit is a load that may begin a round of a waiting loop. The round waits if the processor comes
// back without having changed anything, and the registers that the round reads are as before.
type visit struct {
	load        *access
	value       uint32
	changed     int // of the word
	regs        [32]uint32
	read, wrote uint32 // registers, by bits: read before the round writes them
}

func (v *visit) waits(addr uint32, regs *[256]uint32) bool {
	for i, was := range v.regs {
		if v.read&v.wrote>>i&1 != 0 && was != regs[i] {
			return false
		}
	}
	return v.load.Addr == addr
}

// Executes notes an instruction: the registers that it reads and the one that it writes, as bits,
// and whether it changes anything else.
func (t *Thread) Executes(reads, writes uint32, changes bool) {
	if changes {
		t.visits = nil
	}
	for _, v := range t.visits {
		v.read |= reads &^ v.wrote
		v.wrote |= writes
	}
}
