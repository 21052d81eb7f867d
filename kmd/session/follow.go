package session

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"
)

// follower plays a recording of a device that moves by itself. What changes the device has to come as it was recorded;
// how often the host looks meanwhile doesn't matter, since that depends on who was faster.
//
// A host that does everything in one goroutine keeps the order of the recording. It may differ only around what the
// device wrote to host memory, which the host may notice a little earlier or later. Goroutines that were at it at the same
// time keep the order at each register.
type follower struct {
	events  []Event
	keys    map[string]*stream
	must    []int // indices of the events that have to come
	played  []bool
	front   int   // of must: all before it were played
	arrive  []int // indices of what comes from the device
	arrived int
	tasks   map[uint64]*span
	pending []*pendingWrite

	together *pendingWrites // if goroutines were at work at the same time

	overtook int           // the last event that came before an earlier one; -1 if none did
	looks    uint64        // since the front moved
	waited   time.Duration // for which the host has looked since it last did anything
	seen     time.Time     // when it last looked or did anything
}

// stream is what is done with one key. The first look is the one that is given; given says that it was.
type stream struct {
	acts, looks []int
	given       bool
}

// span is the range of events in which a goroutine is at work.
type span struct{ first, last int }

const (
	// maxLooks is how often the host polls until it sees something that took it longer when it was recorded.
	maxLooks = 4
	// overtaken is how many events early a host's event may be.
	overtaken = 256
	// idle is after how long a host that waits may load what it hasn't loaded in the recording: when waiting takes it long,
	// it polls the whole device.
	idle = 500 * time.Millisecond
	// stuck is how long it may wait for what doesn't come, beyond what it took when it was recorded.
	stuck = 5 * time.Second
	// blink is the most of the time between two polls that counts as waiting. A process that stood still, because others had
	// the processors or in a debugger, hasn't waited.
	blink = idle / 4
)

func newFollower(events []Event) *follower {
	f := &follower{events: events, keys: map[string]*stream{}, played: make([]bool, len(events)), tasks: map[uint64]*span{},
		overtook: -1, seen: time.Now()}
	p := newPlaces()
	for i := range events {
		e := &events[i]
		if e.Kind == KindDevice || e.Kind == KindFault {
			f.arrive = append(f.arrive, i)
			continue
		}
		if f.tasks[e.Task] == nil {
			f.tasks[e.Task] = &span{first: i}
		}
		f.tasks[e.Task].last = i
		p.note(e)
		k := p.key(e)
		s := f.keys[k]
		if s == nil {
			s = &stream{}
			f.keys[k] = s
		}
		if !e.changes() {
			s.looks = append(s.looks, i)
			continue
		}
		s.acts = append(s.acts, i)
		f.must = append(f.must, i)
		if len(e.Device) > 0 {
			f.arrive = append(f.arrive, i)
		}
	}
	if overlap(f.tasks) {
		f.together = newPendingWrites(f)
	}
	return f
}

// next returns the index of the first event that has to come and didn't, or the number of events.
func (f *follower) next() int {
	if f.front == len(f.must) {
		return len(f.events)
	}
	return f.must[f.front]
}

// last returns the index of the last event that was played with all before it, or -1.
func (f *follower) last() int {
	if f.front == 0 {
		return -1
	}
	return f.must[f.front-1]
}

// overlap reports whether goroutines were at work at the same time. When one of them could have begun isn't known, only when
// it did something for the first time, so this is asked of the whole recording.
func overlap(tasks map[uint64]*span) bool {
	end := -1
	for _, t := range slices.SortedFunc(maps.Values(tasks), func(a, b *span) int { return a.first - b.first }) {
		if t.first < end {
			return true
		}
		end = max(end, t.last)
	}
	return false
}

// mayOvertake reports whether an event may come although earlier ones didn't.
func (f *follower) mayOvertake(i int) bool {
	if f.together != nil {
		return true
	}
	rank, _ := slices.BinarySearch(f.must, i)
	if rank-f.front > overtaken {
		return false
	}
	if !slices.ContainsFunc(f.must[f.front:rank+1], func(k int) bool { return !f.played[k] && !f.events[k].ends() }) {
		return true
	}
	// What the device wrote by itself stands between: the host saw it earlier or later.
	at, _ := slices.BinarySearch(f.arrive, f.last()+1)
	for ; at < len(f.arrive) && f.arrive[at] < i; at++ {
		if f.events[f.arrive[at]].Kind == KindDevice {
			return true
		}
	}
	return false
}

// pop returns the next event of a stream that has to come, or -1.
func (f *follower) pop(key string) int {
	s := f.keys[key]
	if s == nil {
		return -1
	}
	for len(s.acts) > 0 && f.played[s.acts[0]] {
		s.acts = s.acts[1:]
	}
	if len(s.acts) == 0 {
		return -1
	}
	return s.acts[0]
}

// actLocked plays an event that has to come.
func (p *Player) actLocked(got *Event, same func(want *Event) bool) *Event {
	f := p.follow
	next := f.next()
	i := f.pop(p.places.key(got))
	var before *Event // that has to come first
	if next < len(f.events) {
		before = &f.events[next]
	}
	if got.publishes() {
		got.Host = p.mem.fromHost()
	}
	switch {
	case i < 0, i != next && !f.mayOvertake(i), got.Kind == KindClose && !f.allOf(got.File, i):
		p.differs(got, before, next)
		return nil
	case !same(&f.events[i]):
		p.differs(got, &f.events[i], i)
		return nil
	}
	want := &f.events[i]
	if !p.wrote(got, want, i, i == next) {
		return nil
	}
	f.played[i], f.waited, f.seen = true, 0, time.Now()
	if i == next {
		for f.front < len(f.must) && f.played[f.must[f.front]] {
			f.front++
		}
		f.looks = 0
	}
	if !p.settle(got) || !p.arrivesLocked(false, false) {
		return nil
	}
	p.places.note(want)
	return want
}

// allOf reports whether all events of a file before one were played.
func (f *follower) allOf(file uint64, i int) bool {
	for _, k := range f.must[f.front:] {
		if k >= i {
			break
		}
		if !f.played[k] && f.events[k].File == file {
			return false
		}
	}
	return true
}

// wrote compares what the host has written to pinned memory. An event that comes before an earlier one, and those that it
// overtakes, may have each other's.
func (p *Player) wrote(got, want *Event, i int, inOrder bool) bool {
	f := p.follow
	if f.together != nil {
		if d := f.together.played(&p.mem, i); d != nil {
			p.differsIn(got, d)
			return false
		}
		return true
	}
	if !inOrder {
		f.overtook = max(f.overtook, i)
	}
	if i > f.overtook && len(f.pending) == 0 {
		if !sameDeltas(want.Host, got.Host) {
			p.differs(got, want, i)
			return false
		}
		return true
	}
	for k := range want.Host {
		f.pending = append(f.pending, &pendingWrite{event: i, piece: &want.Host[k]})
	}
	return true
}

// settle checks for what the host was to write. What has to be there by now and isn't is a difference.
func (p *Player) settle(got *Event) bool {
	f := p.follow
	f.pending = slices.DeleteFunc(f.pending, func(d *pendingWrite) bool { return p.mem.holds(d.piece) })
	for _, d := range f.pending {
		if d.event <= f.last() {
			p.differsIn(got, d)
			return false
		}
	}
	return true
}

// differsIn stops the playback for what the host hasn't written to pinned memory.
func (p *Player) differsIn(got *Event, d *pendingWrite) {
	want, is := p.s.Events[d.event], *got
	want.Host, is.Host = []Delta{*d.piece}, nil
	if _, host, _ := p.mem.piece(d.piece); host != nil {
		is.Host = []Delta{{Pin: d.piece.Pin, Off: d.piece.Off, Data: bytes.Clone(host)}}
	}
	p.differs(&is, &want, d.event)
}

// arrivesLocked plays what the device does by itself, as far as it is time. looked says that the host has polled once more,
// quiet that it did nothing for long.
func (p *Player) arrivesLocked(looked, quiet bool) bool {
	f := p.follow
	for ; f.arrived < len(f.arrive); f.arrived++ {
		a, last := f.arrive[f.arrived], f.last()
		e := &f.events[a]
		own := e.Kind == KindDevice || e.Kind == KindFault
		if a > last {
			after := e.Value
			if after == 0 || after > maxLooks {
				after = maxLooks
			}
			if !own || a > f.next() || !quiet && (!looked || f.looks < after) {
				break
			}
			looked, quiet = false, false // one at a time
		}
		if e.Kind == KindFault {
			p.fault = errors.New(e.Text)
			continue
		}
		if !p.mem.apply(e.Device) {
			p.differs(&Event{Kind: KindFault, Text: "no such host memory is pinned"}, e, a)
			return false
		}
	}
	if f.arrived < len(f.arrive) && f.arrive[f.arrived] < f.next() {
		p.quiet.Reset(p.still)
	} else {
		p.quiet.Stop()
	}
	return true
}

// playedQuiet is how long a host that does nothing waits for what the device writes by itself.
const playedQuiet = 20 * time.Millisecond

// waits counts the time since the host last polled or did anything.
func (f *follower) waits() {
	now := time.Now()
	f.waited += min(now.Sub(f.seen), blink)
	f.seen = now
}

// lookLocked plays an event that may come any number of times: with the answer that was recorded last between the same
// events that have to come.
func (p *Player) lookLocked(got *Event) *Event {
	f := p.follow
	if !got.loads() {
		f.waits()
	} else if !p.lookedLocked() {
		return nil
	}
	p.places.note(got)
	s := f.keys[p.places.key(got)]
	if s == nil || len(s.looks) == 0 {
		if f.waited > idle {
			return got
		}
		var before *Event
		if f.next() < len(f.events) {
			before = &f.events[f.next()]
		}
		p.differs(got, before, f.next())
		return nil
	}
	// The first one is the one whose answer was returned last, or the first of all. It is dropped for a better one: all
	// before the last event that was played are old, and those after the next one didn't happen yet.
	last, next := f.last(), f.next()
	at := 0
	for at+1 < len(s.looks) && s.looks[at+1] < last {
		at++
	}
	if at+1 < len(s.looks) && s.looks[at+1] < next && (s.given || s.looks[at] < last) {
		at++
	}
	s.looks, s.given = s.looks[at:], s.looks[at] < next
	return &f.events[s.looks[0]]
}

// lookedLocked counts a poll of the host, and stops a host that waits forever.
func (p *Player) lookedLocked() bool {
	f := p.follow
	f.looks++
	f.waits()
	if !p.arrivesLocked(true, false) {
		return false
	}
	patience, next := p.patience, f.next()
	if last := f.last(); len(f.events) > 0 {
		at := f.events[min(next, len(f.events)-1)].At
		if last >= 0 {
			at -= min(at, f.events[last].At)
		}
		patience += 2 * time.Duration(min(at, uint64(time.Hour)))
	}
	if f.looks < 4*maxLooks || f.waited < patience {
		return true
	}
	var before *Event
	if next < len(f.events) {
		before = &f.events[next]
	}
	if f.together != nil {
		if d := f.together.oldest(&p.mem, f.played); d != nil {
			p.differsIn(&f.events[d.event], d)
			return false
		}
	}
	p.differs(&Event{Kind: KindFault, Text: fmt.Sprintf("the host waits: it has looked %d times without doing anything", f.looks)}, before, next)
	return false
}
