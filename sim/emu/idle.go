package emu

import "time"

// Some programs never wait: tt-metal's firmware of idle Ethernet tiles counts in a word of L1, its telemetry stores the time. Such a
// processor is quiet: it stores to no register, so it asks for nothing of the NoCs and the engines.
const (
	quietAfter = 64 // slices, after which a processor is quiet
	quietShare = 16 // one in so many rounds is a quiet processor's, while others aren't quiet

	restAfter = 20 * time.Millisecond // for which all processors are quiet before the chip rests
	restTime  = 2 * time.Millisecond
	restShare = 20 // the chip works for one part in so many of the time
)

// idle gives quiet processors little of the host's time. Only the goroutine that runs the chip uses it.
type idle struct {
	on     bool
	lively bool // a processor of this round wasn't quiet
	spared bool // one of the last round wasn't
	round  uint
	since  time.Time // when all became quiet
	worked time.Time // since when it works, after a rest
	due    bool
}

// skips reports whether a processor has no turn in this round.
func (i *idle) skips(k *core) bool {
	if !i.on {
		return false
	}
	if k.quiet < quietAfter {
		k.quiet++
		i.lively = true
		return false
	}
	return i.spared && i.round%quietShare != 0
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

// rests reports whether the chip is to rest.
func (i *idle) rests() bool { return i.due }

// rest waits until a host has brought something, for restTime at most.
func (i *idle) rest(kick <-chan struct{}) {
	t := time.NewTimer(restTime)
	select {
	case <-kick:
		i.since = time.Time{}
	case <-t.C:
	}
	t.Stop()
	i.worked, i.due = time.Now(), false
}
