package reprise

import (
	"bytes"
	"slices"

	"github.com/reprise-tt/reprise/dispatch"
	"github.com/reprise-tt/reprise/tracebuf"
)

// Devices of a mesh mostly record the same commands. So in a capture on one queue of each of several devices the first
// Recorder is the others' leader: as long as they record what it has recorded, only the leader keeps the commands, and
// their parts of the trace share its image.

// leader is what a Recorder has in common with the one that leads it.
type leader struct {
	r     *Recorder
	steps int    // that the follower has recorded
	buf   []byte // for the run that is compared
}

// snapshot is what a leader had recorded when its commands were first changed by a parameter. Followers may share
// nothing after it.
type snapshot struct {
	commands []byte
	steps    []tracebuf.Step
}

// link gives the Recorders of a new capture their leader, or those of one device their edges.
func (c *capture) link() {
	if len(c.rs) == 1 {
		return
	}
	for i, r := range c.rs {
		for _, o := range c.rs[:i] {
			if o.d == r.d {
				if o.edges == nil {
					o.edges = newEdges(o)
				}
				r.edges = o.edges
				r.edges.rs = append(r.edges.rs, r)
				break
			}
		}
	}
	if slices.ContainsFunc(c.rs, func(r *Recorder) bool { return r.edges != nil }) {
		return // edges differ from queue to queue
	}
	for _, r := range c.rs[1:] {
		r.leader = &leader{r: c.rs[0]}
	}
	c.rs[0].followed = true
}

// recorded returns what followers of the Recorder may share: everything before its first parameter. final says that
// there is more, which they can't share.
func (r *Recorder) recorded() (s snapshot, final bool) {
	if r.snapshot != nil {
		return *r.snapshot, true
	}
	return snapshot{r.rec.Bytes(), r.rec.Steps()}, false
}

// matchLeader reports whether a program adds the same commands to this Recorder as to its leader, which has recorded
// the run already; then nothing has to be kept here.
func (r *Recorder) matchLeader(x *Executable) bool {
	l := r.leader
	if l == nil {
		return false
	}
	st := r.state
	var v dispatch.Variant
	l.buf, v = x.image.AppendRun(l.buf[:0], &st, r.q.q.Dispatcher(), uint16(l.steps))
	s, _ := l.r.recorded()
	if l.steps < len(s.steps) {
		step := s.steps[l.steps]
		if step.Name == x.Name() && step.Program == r.find(x) && step.Variant == uint8(v) && bytes.Equal(l.buf, s.commands[step.Offset:step.Offset+step.Size]) {
			r.prior, r.state = r.state, st
			l.steps++
			return true
		}
	}
	r.copyLeader()
	return false
}

// leaveLeader ends sharing before a parameter changes commands: a leader keeps what followers have matched so far, and
// a follower copies it.
func (r *Recorder) leaveLeader() {
	if r.followed && r.snapshot == nil {
		r.snapshot = &snapshot{slices.Clone(r.rec.Bytes()), slices.Clone(r.rec.Steps())}
	}
	r.copyLeader()
}

// copyLeader makes the commands that the Recorder shares with its leader its own.
func (r *Recorder) copyLeader() {
	l := r.leader
	if l == nil {
		return
	}
	r.leader = nil
	s, _ := l.r.recorded()
	for _, step := range s.steps[:l.steps] {
		r.rec.Add(step.Name, step.Program, func(dst []byte) []byte {
			return append(dst, s.commands[step.Offset:step.Offset+step.Size]...)
		}).Variant = step.Variant
	}
}

// image ends the recording. A part that is equal to its leader's has the leader's image.
func (r *Recorder) image() error {
	if l := r.leader; l != nil {
		if s, final := l.r.recorded(); !final && l.r.part.image != nil && l.steps == len(s.steps) && l.r.d.DRAMBanks() == r.d.DRAMBanks() {
			r.part.image = l.r.part.image
			return nil
		}
		r.copyLeader()
	}
	var err error
	r.part.image, err = r.rec.Finish(r.d.DRAMBanks())
	return err
}
