package vfiouser

import (
	"sync"
	"time"
)

// controller is a board's management controller as far as it resets the chip when the firmware asks
// for that. The chip goes on a little: the firmware still answers the message, which Blackhole's
// driver waits for (tt-kmd msgqueue.c arc_msg_pop).
type controller struct {
	reset func()

	doing sync.Mutex // held over a reset
	mu    sync.Mutex
	asked bool
	on    bool // there is a client, whose end ends the timer
	timer *time.Timer
}

// resetAfter is how long the chip goes on after its firmware was asked for a reset.
const resetAfter = 20 * time.Millisecond

// ask is what the function calls.
func (b *controller) ask() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.asked {
		return
	}
	b.asked = true
	if b.on {
		b.timer = time.AfterFunc(resetAfter, b.now)
	}
}

// now does the reset that was asked for, if any. After it, none is under way.
func (b *controller) now() {
	b.doing.Lock()
	defer b.doing.Unlock()
	b.mu.Lock()
	asked := b.asked
	b.asked = false
	b.mu.Unlock()
	if asked {
		b.reset()
	}
}

// begin is the start of a client: what was asked for while there was no client happens first.
func (b *controller) begin() {
	b.now()
	b.mu.Lock()
	b.on = true
	b.mu.Unlock()
}

// end is the end of a client. Nothing happens after it.
func (b *controller) end() {
	b.mu.Lock()
	b.on = false
	if b.timer != nil {
		b.timer.Stop()
	}
	b.mu.Unlock()
	b.now()
}
