package tracebuf

import (
	"bytes"
	"slices"
)

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
