package emu

import "time"

// Some programs never wait: tt-metal's firmware of idle Ethernet tiles counts in a word of L1, its
// telemetry stores the time. Such a processor is quiet: it stores to no register, so it asks for
// nothing of the NoCs and the engines.
const (
	quietAfter = 64 // slices, after which a processor is quiet
	quietShare = 16 // one in so many rounds is a quiet processor's, while others aren't quiet

	restAfter = 20 * time.Millisecond // for which all processors are quiet before the chip rests
	restTime  = 2 * time.Millisecond
	restShare = 20 // the chip works for one part in so many of the time
)

// idle gives quiet processors little of the host's time. Whoever holds the chip's token uses it.
type idle struct {
	on     bool
	all    bool // quiet processors have their turns, too
	lively bool // a processor of this round wasn't quiet
	spared bool // one of the last round wasn't
	round  uint
	since  time.Time // when all became quiet
	worked time.Time // since when the chip works, after a rest
	due    bool      // the chip is to rest
}

// skips reports whether a processor, which has been quiet for so many slices, has no turn in this
// round.
func (i *idle) skips(quiet *int) bool {
	if !i.on {
		return false
	}
	if *quiet < quietAfter {
		*quiet++
		i.lively = true
		return false
	}
	return i.spared && !i.all && i.round%quietShare != 0
}

// endRound is called when all processors had their turn.
func (i *idle) endRound() {
	if !i.on {
		return
	}
	i.round++
	i.spared, i.lively = i.lively, false
	if i.spared {
		i.since, i.due = time.Time{}, false
		return
	}
	if i.round%quietShare != 0 {
		return // reading the time takes as long as a slice of a small loop
	}
	now := time.Now()
	if i.since.IsZero() {
		i.since, i.worked = now, now
	}
	// A Synchronous chip never asks.
	i.due = now.Sub(i.since) >= restAfter && now.Sub(i.worked) >= restTime/restShare
}

// rest waits, without the token, until a host has brought something, for restTime at most. It
// reports whether a host has.
func rest(kick <-chan struct{}) bool {
	t := time.NewTimer(restTime)
	defer t.Stop()
	select {
	case <-kick:
		return true
	case <-t.C:
		return false
	}
}

// rested is called after a rest. A host's access makes the chip work for restAfter again.
func (i *idle) rested(accessed bool) {
	if accessed {
		i.since = time.Time{}
	}
	i.worked, i.due = time.Now(), false
}
