package vfiouser

import (
	"sync"
	"time"
)

// controller is a board's management controller: it resets the chip a moment after the firmware
// asks, which must still answer (tt-kmd msgqueue.c arc_msg_pop).
type controller struct {
	reset func()

	doing sync.Mutex // held over a reset
	mu    sync.Mutex
	asked bool
	on    bool // a client is connected
	timer *time.Timer
}

const resetAfter = 20 * time.Millisecond // the request

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

// begin starts a client, after a requested reset.
func (b *controller) begin() {
	b.now()
	b.mu.Lock()
	b.on = true
	b.mu.Unlock()
}

// Afterwards no reset happens.
func (b *controller) end() {
	b.mu.Lock()
	b.on = false
	if b.timer != nil {
		b.timer.Stop()
	}
	b.mu.Unlock()
	b.now()
}
