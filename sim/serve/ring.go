package serve

import (
	"encoding/binary"
	"fmt"
	"sync/atomic"
	"time"
)

// Ring is a queue in shared memory with one producer and one consumer. A message is contiguous, and
// padded to 8 bytes.
type Ring struct {
	data         []byte  // length is a power of two
	head, tail   *uint64 // total bytes consumed and produced
	items, space Gate    // where the consumer and the producer wait
}

// Record is a message in a Ring.
type Record struct {
	Head
	// Payload, and Value, the bytes of Val, are in the ring until Advance.
	Payload []byte
	Value   []byte

	length uint64 // in the ring
}

func recordLength(payload int) uint64 { return HeadSize + uint64(payload+7)&^7 }

// Free reports whether n bytes of payload fit now.
func (r *Ring) Free(n int) bool {
	need := recordLength(n)
	tail := atomic.LoadUint64(r.tail)
	if at := tail & uint64(len(r.data)-1); at+need > uint64(len(r.data)) {
		need += uint64(len(r.data)) - at
	}
	return tail+need-atomic.LoadUint64(r.head) <= uint64(len(r.data))
}

// Reserve waits for space for n bytes of payload; false: gone holds.
func (r *Ring) Reserve(n int, gone func() bool) bool {
	if !r.Free(n) {
		r.space.Wait(Spins, Forever, func() bool { return r.Free(n) || gone() })
	}
	return !gone()
}

// Slot begins a message, for which there is space, and returns its payload's memory.
func (r *Ring) Slot(h *Head) []byte {
	n := int(h.Size)
	tail := atomic.LoadUint64(r.tail)
	mask := uint64(len(r.data) - 1)
	if at := tail & mask; at+recordLength(n) > uint64(len(r.data)) {
		// The rest may be too short for a head, so padding is one word, which contains Op.
		binary.LittleEndian.PutUint64(r.data[at:], uint64(opPad))
		tail += uint64(len(r.data)) - at
		atomic.StoreUint64(r.tail, tail)
	}
	b := r.data[tail&mask:]
	h.Put(b)
	return b[HeadSize : HeadSize+n]
}

// Publish makes Slot's message, with n bytes of payload, visible.
func (r *Ring) Publish(n int) {
	atomic.AddUint64(r.tail, recordLength(n))
	r.items.Signal()
}

// Empty reports whether all messages have been consumed.
func (r *Ring) Empty() bool { return atomic.LoadUint64(r.head) == atomic.LoadUint64(r.tail) }

// Next reads the oldest message; false: the ring is empty. The error wraps ErrProtocol for contents
// that Slot can't make, and the ring is useless.
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

// AwaitItem waits for a message, gone, or the limit, polling spins times first.
func (r *Ring) AwaitItem(spins int, limit time.Duration, gone func() bool) {
	r.items.Wait(spins, limit, func() bool { return !r.Empty() || gone() })
}

// AwaitEmpty waits until all messages have been consumed, or gone holds.
func (r *Ring) AwaitEmpty(gone func() bool) {
	if !r.Empty() {
		r.space.Wait(Spins, Forever, func() bool { return r.Empty() || gone() })
	}
}
