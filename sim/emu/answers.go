package emu

import (
	"runtime"
	"sync/atomic"
	"time"
)

// maxAsked is for how many loads of hosts there are answers at the same time; others wait for the
// token.
const maxAsked = 8

// patience is how long a host polls for an answer before it asks for the token. All but one in some
// thousand slices take less.
const patience = 50 * time.Microsecond

// answer is where the value of a load goes. It takes a cache line of its own.
type answer struct {
	state atomic.Uint32
	value uint64
	_     [48]byte
}

// States of an answer.
const (
	answerFree uint32 = iota
	answerAwaited
	answerGiven
)

// ask leaves a load to whoever has the token and polls for its answer, and reports whether it got
// one. A host that took the token from the goroutine that runs the chip would make it wait, and it
// would often continue on another processor, whose caches have nothing of the chip: that costs more
// than the load.
func (c *Chip) ask(bar int, off uint64, width int) (value uint64, ok bool) {
	if !c.polls || c.cfg.Paced {
		return 0, false
	}
	i := c.freeAnswer()
	if i < 0 {
		return 0, false
	}
	a := &c.answers[i]
	if ok = c.posted.push(hostAccess{off: off, v: uint64(i), bar: uint8(bar), width: -int8(width)}); ok {
		c.awaitAnswer(a)
		value = a.value
	}
	a.state.Store(answerFree)
	return value, ok
}

// freeAnswer takes an answer and returns its number; negative if there is none.
func (c *Chip) freeAnswer() int {
	for i := range c.answers {
		if s := &c.answers[i].state; s.Load() == answerFree && s.CompareAndSwap(answerFree, answerAwaited) {
			return i
		}
	}
	return -1
}

func (c *Chip) awaitAnswer(a *answer) {
	begun := time.Now()
	for n := 1; a.state.Load() != answerGiven; n++ {
		if n%spins != 0 {
			continue
		}
		select {
		case <-c.tok: // so nobody is about to answer
			c.takePosted()
			c.release()
		default:
			if time.Since(begun) > patience {
				c.acquire()
				c.release()
			} else {
				runtime.Gosched() // the chip's goroutine may wait for a processor
			}
		}
	}
}
