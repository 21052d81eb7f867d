package emu

import "time"

// tt-metal's firmware of idle Ethernet tiles counts in L1, its telemetry stores the time: quiet
// processors, which store to no register and so ask nothing of NoCs and engines.
const (
	quietAfter = 64 // slices before a processor is quiet
	quietShare = 16 // rounds per turn of a quiet processor, while others aren't quiet

	restAfter = 20 * time.Millisecond // quiet time before the chip rests
	restTime  = 2 * time.Millisecond
	restShare = 20 // the chip works for one part in so many
)

// idle gives quiet processors little of the host's time. The token guards it.
type idle struct {
	on     bool
	all    bool // quiet processors have turns, too
	lively bool // a processor of this round wasn't quiet
	spared bool // one of the last round wasn't
	round  uint
	since  time.Time // when all became quiet
	worked time.Time // start of work after a rest
	due    bool      // the chip is to rest
}

// skips reports whether a processor, quiet for so many slices, has no turn in this round.
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
		return // reading the time takes as long as a small slice
	}
	now := time.Now()
	if i.since.IsZero() {
		i.since, i.worked = now, now
	}
	// A Synchronous chip never asks.
	i.due = now.Sub(i.since) >= restAfter && now.Sub(i.worked) >= restTime/restShare
}

// rest waits, without the token, for a host, for restTime at most.
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

// rested ends a rest. A host's access makes the chip work for restAfter.
func (i *idle) rested(accessed bool) {
	if accessed {
		i.since = time.Time{}
	}
	i.worked, i.due = time.Now(), false
}
