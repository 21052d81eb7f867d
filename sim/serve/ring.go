package serve

import (
	"encoding/binary"
	"fmt"
	"sync/atomic"
	"time"
)

// Ring is a queue of messages in shared memory with one producer and one consumer. A message lies
// in one piece: its Head and its payload, padded to 8 bytes.
type Ring struct {
	data       []byte  // length is a power of two
	head, tail *uint64 // bytes ever consumed and produced: they never wrap in practice, and differ by what is queued
	items      Gate    // the consumer waits here for messages
	space      Gate    // the producer waits here for space
}

// Record is a message in a Ring.
type Record struct {
	Head
	// Payload and Value, the eight bytes of Val, lie in the ring. They are gone after Advance.
	Payload []byte
	Value   []byte

	length uint64 // in the ring
}

func recordLength(payload int) uint64 { return HeadSize + uint64(payload+7)&^7 }

// Free reports whether a message with a payload of n bytes fits now, with the padding that may come
// before it.
func (r *Ring) Free(n int) bool {
	need := recordLength(n)
	tail := atomic.LoadUint64(r.tail)
	if at := tail & uint64(len(r.data)-1); at+need > uint64(len(r.data)) {
		need += uint64(len(r.data)) - at
	}
	return tail+need-atomic.LoadUint64(r.head) <= uint64(len(r.data))
}

// Reserve waits for space for a message with a payload of n bytes, or until gone holds, which it
// reports as false.
func (r *Ring) Reserve(n int, gone func() bool) bool {
	if !r.Free(n) {
		r.space.Wait(Spins, Forever, func() bool { return r.Free(n) || gone() })
	}
	return !gone()
}

// Slot begins a message whose payload has h.Size bytes, for which there must be space, and returns
// where the payload goes. The consumer sees nothing of it before Publish.
func (r *Ring) Slot(h *Head) []byte {
	n := int(h.Size)
	tail := atomic.LoadUint64(r.tail)
	mask := uint64(len(r.data) - 1)
	if at := tail & mask; at+recordLength(n) > uint64(len(r.data)) {
		// The rest of the ring is too short even if it holds no whole head, so padding is one word,
		// of which Op is a part.
		binary.LittleEndian.PutUint64(r.data[at:], uint64(opPad))
		tail += uint64(len(r.data)) - at
		atomic.StoreUint64(r.tail, tail)
	}
	b := r.data[tail&mask:]
	h.Put(b)
	return b[HeadSize : HeadSize+n]
}

// Publish makes the message that Slot began, with a payload of n bytes, visible and wakes the
// consumer if it sleeps.
func (r *Ring) Publish(n int) {
	atomic.AddUint64(r.tail, recordLength(n))
	r.items.Signal()
}

// Empty reports whether all messages have been consumed.
func (r *Ring) Empty() bool { return atomic.LoadUint64(r.head) == atomic.LoadUint64(r.tail) }

// Next reads the oldest message into rec, and reports false if the ring is empty. The error wraps
// ErrProtocol: what is in the ring can't have been put there by Slot, and nothing of it can be read
// any more.
func (r *Ring) Next(rec *Record) (ok bool, err error) {
	mask := uint64(len(r.data) - 1)
	for {
		head, tail := atomic.LoadUint64(r.head), atomic.LoadUint64(r.tail)
		if head == tail {
			return false, nil
		}
		at, queued := head&mask, tail-head
		rest := uint64(len(r.data)) - at
		if head%8 != 0 || queued < 8 || queued > uint64(len(r.data)) {
			return false, fmt.Errorf("serve: ring: %w: %d bytes are queued from %d on", ErrProtocol, queued, head)
		}
		if Op(r.data[at]) == opPad {
			if rest > queued {
				return false, fmt.Errorf("serve: ring: %w: padding of %d bytes, %d are queued", ErrProtocol, rest, queued)
			}
			atomic.StoreUint64(r.head, head+rest)
			r.space.Signal()
			continue
		}
		if queued = min(queued, rest); queued < HeadSize {
			return false, fmt.Errorf("serve: ring: %w: %d bytes are no message", ErrProtocol, queued)
		}
		b := r.data[at : at+queued]
		rec.Take(b)
		if rec.length = recordLength(int(rec.Size)); rec.length > queued {
			return false, fmt.Errorf("serve: ring: %w: a payload of %d bytes, %d are queued", ErrProtocol, rec.Size, queued)
		}
		rec.Payload = b[HeadSize : HeadSize+int(rec.Size)]
		rec.Value = b[valueAt:HeadSize]
		return true, nil
	}
}

// Advance releases the space of the message that Next returned.
func (r *Ring) Advance(rec *Record) {
	atomic.AddUint64(r.head, rec.length)
	r.space.Signal()
}

// AwaitItem waits until there is a message, until gone holds, or for the limit. It polls spins
// times before it sleeps.
func (r *Ring) AwaitItem(spins int, limit time.Duration, gone func() bool) {
	r.items.Wait(spins, limit, func() bool { return !r.Empty() || gone() })
}

// AwaitEmpty waits until all messages have been consumed, or until gone holds.
func (r *Ring) AwaitEmpty(gone func() bool) {
	if !r.Empty() {
		r.space.Wait(Spins, Forever, func() bool { return r.Empty() || gone() })
	}
}
