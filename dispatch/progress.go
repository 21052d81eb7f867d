package dispatch

import (
	"hash/maphash"
	"time"

	"github.com/reprise-tt/reprise/chip"
)

// movement is the last fingerprint that a wait has seen of everything that changes on a device that makes progress.
type movement struct {
	queue  [2]uint64
	looked time.Time // when queue was read
	device uint64
	polled bool // device is valid
	watch  watchDue
}

// queueDue returns true each time when the queue's fingerprint is to be read, which takes an access to the device: less often than
// what is waited for is looked at.
func (m *movement) queueDue(w *waiter) bool {
	if w.looked.Sub(m.looked) < min(time.Millisecond, w.limit/checks) {
		return false
	}
	m.looked = w.looked
	return true
}

// progressLocked returns a fingerprint of what changes while queues take commands and report: this one, and those that it
// may wait for. life.mu is held.
func (q *Queue) progressLocked() [2]uint64 {
	p := [2]uint64{q.comp.seen(), uint64(q.tiles.prefetchL1.Load32(uint64(q.rings.fetch.rdAddr)))}
	for _, o := range q.d.queues {
		if o != q {
			o.mix(&p)
		}
	}
	return p
}

// mix adds to a fingerprint what changes while the queue takes commands and reports, unless the queue is being closed. It
// unlocks life.mu even if the memory faults.
func (q *Queue) mix(p *[2]uint64) {
	if !q.life.mu.TryRLock() {
		return
	}
	defer q.life.mu.RUnlock()
	if !q.life.closed {
		p[0] = p[0]<<32 | p[0]>>32 ^ q.comp.seen()
		p[1] = p[1]<<32 | uint64(q.tiles.prefetchL1.Load32(uint64(q.rings.fetch.rdAddr)))
	}
}

// fingerprint is a hash of words.
type fingerprint struct{ maphash.Hash }

func (f *fingerprint) word(v uint32) {
	_, _ = f.Write([]byte{byte(v), byte(v >> 8), byte(v >> 16), byte(v >> 24)}) // never fails
}

// pollDeviceLocked checks that the device answers, and counts any change on it as progress: a completion was counted, or a
// processor is at another waypoint or has begun another kernel. So a program that takes longer than the hang timeout is no
// hang as long as its kernels move. It reads every core, which is too slow for every poll. life.mu is held.
func (q *Queue) pollDeviceLocked(w *waiter, seen *movement, what string, locked bool) error {
	if err := q.d.kd.Alive(); err != nil {
		return q.fail(q.hangErrorLocked(what, err, locked))
	}
	now := q.deviceFingerprint()
	if seen.polled && now != seen.device {
		w.progress()
	}
	seen.device, seen.polled = now, true
	return nil
}

// deviceFingerprint returns a hash of all that changes on a device that works: completion counts, waypoints, kernels.
func (q *Queue) deviceFingerprint() uint64 {
	var f fingerprint
	f.SetSeed(q.d.seed)
	for i := range maxSubDevices {
		f.word(q.d.register(q.tiles.dispatch, q.d.pr.Stream.Reg(q.d.pr.Stream.FirstDispatch+i, chip.SpaceAvailable)))
	}
	for c := range q.d.ch.Workers() {
		s, _ := q.d.readCore(c)
		f.word(s.Go)
		f.word(s.LaunchRead)
		for _, p := range s.Processors {
			_, _ = f.WriteString(p.Waypoint)
			f.word(p.Detail)
			f.word(p.Kernels)
		}
	}
	return f.Sum64()
}
