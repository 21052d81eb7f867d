package session

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"time"
)

// follower plays a recording of a device that runs by itself: every change must come as recorded,
// polls as often as the speeds make them. The host keeps the recorded order, except around the
// device's writes to host memory.
type follower struct {
	events   []Event
	keys     map[string]*stream
	required []int // indices of the changes
	played   []bool
	front    int   // of required: all before were played
	arrive   []int // indices of events that the device causes
	arrived  int
	pending  []*pendingWrite

	overtook int           // the last event that overtook an earlier one, or -1
	polls    uint64        // since the front moved
	waited   time.Duration // polling time since the host's last change
	seen     time.Time     // the host's last poll or change
}

// stream is the events of one key. polls[0] is the current answer.
type stream struct {
	changes, polls []int
	answered       bool
}

const (
	maxPolls     = 4                      // until the host sees the device's writes
	maxOvertaken = 256                    // events that an event may overtake
	idleAfter    = 500 * time.Millisecond // a host that waits this long may check the whole device
	stuckAfter   = 5 * time.Second        // longer than recorded
	maxPollGap   = idleAfter / 4          // a process that a debugger stopped hasn't waited
)

func newFollower(events []Event) *follower {
	f := &follower{events: events, keys: map[string]*stream{}, played: make([]bool, len(events)), overtook: -1, seen: time.Now()}
	p := newPlaces()
	for i := range events {
		e := &events[i]
		if e.Kind == KindDevice || e.Kind == KindFault {
			f.arrive = append(f.arrive, i)
			continue
		}
		p.note(e)
		k := p.key(e)
		s := f.keys[k]
		if s == nil {
			s = &stream{}
			f.keys[k] = s
		}
		if !e.isChange() {
			s.polls = append(s.polls, i)
			continue
		}
		s.changes = append(s.changes, i)
		f.required = append(f.required, i)
		if len(e.Device) > 0 {
			f.arrive = append(f.arrive, i)
		}
	}
	return f
}

func (f *follower) next() int {
	if f.front == len(f.required) {
		return len(f.events)
	}
	return f.required[f.front]
}

func (f *follower) before() *Event {
	if i := f.next(); i < len(f.events) {
		return &f.events[i]
	}
	return nil
}

func (f *follower) last() int {
	if f.front == 0 {
		return -1
	}
	return f.required[f.front-1]
}

func (f *follower) mayOvertake(i int) bool {
	rank, _ := slices.BinarySearch(f.required, i)
	if rank-f.front > maxOvertaken {
		return false
	}
	if !slices.ContainsFunc(f.required[f.front:rank+1], func(k int) bool { return !f.played[k] && !f.events[k].isRelease() }) {
		return true
	}
	// The host may have seen a device's write in between earlier or later.
	at, _ := slices.BinarySearch(f.arrive, f.last()+1)
	for ; at < len(f.arrive) && f.arrive[at] < i; at++ {
		if f.events[f.arrive[at]].Kind == KindDevice {
			return true
		}
	}
	return false
}

func (f *follower) pop(key string) int {
	s := f.keys[key]
	if s == nil {
		return -1
	}
	for len(s.changes) > 0 && f.played[s.changes[0]] {
		s.changes = s.changes[1:]
	}
	if len(s.changes) == 0 {
		return -1
	}
	return s.changes[0]
}

func (p *Player) playChangeLocked(got *Event, same func(want *Event) bool) *Event {
	f := p.follow
	next, i := f.next(), f.pop(p.places.key(got))
	if got.carriesWrites() {
		got.Host = p.mem.fromHost()
	}
	switch {
	case i < 0, i != next && !f.mayOvertake(i), got.Kind == KindClose && !f.allOf(got.File, i):
		return p.stopAt(got, f.before(), next)
	case !same(&f.events[i]):
		return p.stopAt(got, &f.events[i], i)
	}
	want := &f.events[i]
	if !p.checkWrites(got, want, i, i == next) {
		return nil
	}
	f.played[i], f.waited, f.seen = true, 0, time.Now()
	if i == next {
		for f.front < len(f.required) && f.played[f.required[f.front]] {
			f.front++
		}
		f.polls = 0
	}
	if !p.checkPending(got) || !p.arrivesLocked(false, false) {
		return nil
	}
	p.places.note(want)
	return want
}

func (f *follower) allOf(file uint64, i int) bool {
	for _, k := range f.required[f.front:] {
		if k >= i {
			break
		}
		if !f.played[k] && f.events[k].File == file {
			return false
		}
	}
	return true
}

// Events that overtake each other may have each other's writes.
func (p *Player) checkWrites(got, want *Event, i int, inOrder bool) bool {
	f := p.follow
	if !inOrder {
		f.overtook = max(f.overtook, i)
	}
	if i > f.overtook && len(f.pending) == 0 {
		if !sameDeltas(want.Host, got.Host) {
			p.stopAt(got, want, i)
			return false
		}
		return true
	}
	for k := range want.Host {
		f.pending = append(f.pending, &pendingWrite{event: i, piece: &want.Host[k]})
	}
	return true
}

func (p *Player) checkPending(got *Event) bool {
	f := p.follow
	f.pending = slices.DeleteFunc(f.pending, func(d *pendingWrite) bool {
		r, host, _ := p.mem.piece(d.piece)
		return r != nil && bytes.Equal(host, d.piece.Data)
	})
	for _, d := range f.pending {
		if d.event <= f.last() {
			p.stopAtWrite(got, d)
			return false
		}
	}
	return true
}

func (p *Player) stopAtWrite(got *Event, d *pendingWrite) {
	want, is := p.s.Events[d.event], *got
	want.Host, is.Host = []Delta{*d.piece}, nil
	if _, host, _ := p.mem.piece(d.piece); host != nil {
		is.Host = []Delta{{Pin: d.piece.Pin, Off: d.piece.Off, Data: bytes.Clone(host)}}
	}
	p.stopAt(&is, &want, d.event)
}

// arrivesLocked plays the device's own due events, after a poll or for an idle host.
func (p *Player) arrivesLocked(polled, quiet bool) bool {
	f := p.follow
	for ; f.arrived < len(f.arrive); f.arrived++ {
		a, last := f.arrive[f.arrived], f.last()
		e := &f.events[a]
		own := e.Kind == KindDevice || e.Kind == KindFault
		if a > last {
			after := e.Value
			if after == 0 || after > maxPolls {
				after = maxPolls
			}
			if !own || a > f.next() || !quiet && (!polled || f.polls < after) {
				break
			}
			polled, quiet = false, false // one at a time
		}
		if e.Kind == KindFault {
			p.fault = errors.New(e.Text)
			continue
		}
		if !p.mem.show(e.Device, true) {
			p.stopAt(&Event{Kind: KindFault, Text: "no such host memory is pinned"}, e, a)
			return false
		}
	}
	if f.arrived < len(f.arrive) && f.arrive[f.arrived] < f.next() {
		p.quiet.Reset(p.quietAfter)
	} else {
		p.quiet.Stop()
	}
	return true
}

// playedQuiet is how long an idle host waits for the device's own writes.
const playedQuiet = 20 * time.Millisecond

func (f *follower) countWait() {
	now := time.Now()
	f.waited += min(now.Sub(f.seen), maxPollGap)
	f.seen = now
}

func (p *Player) playQueryLocked(got *Event) *Event {
	f := p.follow
	if !got.isLoad() {
		f.countWait()
	} else if !p.pollLocked() {
		return nil
	}
	p.places.note(got)
	s := f.keys[p.places.key(got)]
	if s == nil || len(s.polls) == 0 {
		if f.waited > idleAfter {
			return got
		}
		return p.stopAt(got, f.before(), f.next())
	}
	// A newer answer replaces polls[0], unless it follows the next required event.
	last, next := f.last(), f.next()
	at := 0
	for at+1 < len(s.polls) && s.polls[at+1] < last {
		at++
	}
	if at+1 < len(s.polls) && s.polls[at+1] < next && (s.answered || s.polls[at] < last) {
		at++
	}
	s.polls, s.answered = s.polls[at:], s.polls[at] < next
	return &f.events[s.polls[0]]
}

// pollLocked counts a poll and stops the playback if the host waits forever.
func (p *Player) pollLocked() bool {
	f := p.follow
	f.polls++
	f.countWait()
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
	if f.polls < 4*maxPolls || f.waited < patience {
		return true
	}
	p.stopAt(&Event{Kind: KindFault, Text: fmt.Sprintf("the host waits: it has polled %d times without doing anything else", f.polls)},
		f.before(), next)
	return false
}

type pendingWrite struct {
	event int
	piece *Delta
}
