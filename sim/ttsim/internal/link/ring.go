package link

import (
	"encoding/binary"
	"sync/atomic"
)

// Operations of the records in the rings. Requests go from the parent to the server, DMA from the server to the parent.
const (
	opPad         = iota // nothing: fills the end of a ring, because a record is contiguous
	OpOpen               // size = length of the library's path, the payload; replied
	OpWrite              // payload to addr; not replied
	OpRead               // size bytes from addr into the reply area; replied
	OpConfigRead         // addr = device<<32 | offset; replied with 4 bytes
	OpConfigWrite        // the same with a 4-byte payload; replied, because it is rare and then a fault is known at once
	OpClock              // advance addr clocks; replied
	OpSync               // nothing; replied
	OpExit               // end the simulation; not replied
	OpDMARead            // size bytes of host memory at addr into the DMA reply area
	OpDMAWrite           // payload to host memory at addr
)

// Sizes in bytes of the parts of the memory that the two processes share.
const (
	headerSize   = 4096
	requestBytes = 1 << 20   // request ring
	dmaBytes     = 512 << 10 // DMA ring
	ReplyBytes   = 256 << 10 // answer to a read
	DMAChunk     = 64 << 10  // answer to a DMA read, and the largest payload of a DMA record
	WriteChunk   = 64 << 10  // largest payload of a request
	sharedBytes  = headerSize + requestBytes + dmaBytes + ReplyBytes + DMAChunk
	recordHeader = 16
)

// A Ring is a queue of records in shared memory with one producer and one consumer. Head and tail count bytes ever
// consumed and produced, so they never wrap in practice and their difference is what is queued.
//
// A record is op u8, device u8, u16 0, size u32, addr u64, and then size bytes of payload if the operation has any,
// padded to 8 bytes.
type Ring struct {
	Data       []byte // length is a power of two
	Head, Tail *uint64
	Items      Gate // the consumer waits here for records
	Space      Gate // the producer waits here for space
}

// A Record is what Next found in a Ring.
type Record struct {
	Op      uint8
	Device  uint8
	Size    uint32
	Addr    uint64
	Payload []byte // within the ring: gone after Advance
	length  uint64 // of the whole record in the ring
}

func recordLength(payload int) uint64 { return recordHeader + uint64(payload+7)&^7 }

// Free says whether a record with a payload of n bytes fits now, with the padding that may come before it.
func (r *Ring) Free(n int) bool {
	need := recordLength(n)
	tail := atomic.LoadUint64(r.Tail)
	if at := tail & uint64(len(r.Data)-1); at+need > uint64(len(r.Data)) {
		need += uint64(len(r.Data)) - at
	}
	return tail+need-atomic.LoadUint64(r.Head) <= uint64(len(r.Data))
}

// Slot begins a record whose payload has n bytes, for which there must be space, and returns where the payload goes.
// Nothing is visible to the consumer before Publish.
func (r *Ring) Slot(op, device uint8, addr uint64, size uint32, n int) []byte {
	tail := atomic.LoadUint64(r.Tail)
	mask := uint64(len(r.Data) - 1)
	if at := tail & mask; at+recordLength(n) > uint64(len(r.Data)) {
		// The rest of the ring is too short even if it holds no whole header, so padding is one word: op and size.
		binary.LittleEndian.PutUint64(r.Data[at:], opPad)
		tail += uint64(len(r.Data)) - at
		atomic.StoreUint64(r.Tail, tail)
	}
	b := r.Data[tail&mask:]
	binary.LittleEndian.PutUint64(b, uint64(op)|uint64(device)<<8|uint64(size)<<32)
	binary.LittleEndian.PutUint64(b[8:], addr)
	return b[recordHeader : recordHeader+n]
}

// Publish makes the record that Slot began visible and wakes the consumer if it sleeps.
func (r *Ring) Publish(n int) {
	atomic.AddUint64(r.Tail, recordLength(n))
	r.Items.Signal()
}

func (r *Ring) Empty() bool { return atomic.LoadUint64(r.Head) == atomic.LoadUint64(r.Tail) }

// Next returns the oldest record, skipping padding, and false if there is none.
func (r *Ring) Next() (Record, bool) {
	mask := uint64(len(r.Data) - 1)
	for {
		head := atomic.LoadUint64(r.Head)
		if head == atomic.LoadUint64(r.Tail) {
			return Record{}, false
		}
		at := head & mask
		w := binary.LittleEndian.Uint64(r.Data[at:])
		op := uint8(w)
		if op == opPad {
			atomic.StoreUint64(r.Head, head+uint64(len(r.Data))-at)
			r.Space.Signal()
			continue
		}
		rec := Record{Op: op, Device: uint8(w >> 8), Size: uint32(w >> 32), Addr: binary.LittleEndian.Uint64(r.Data[at+8:])}
		n := 0
		switch op {
		case OpOpen, OpWrite, OpConfigWrite, OpDMAWrite:
			n = int(rec.Size)
		}
		rec.Payload = r.Data[at+recordHeader : at+recordHeader+uint64(n)]
		rec.length = recordLength(n)
		return rec, true
	}
}

// Advance gives the space of a record that Next returned back to the producer.
func (r *Ring) Advance(rec Record) {
	atomic.AddUint64(r.Head, rec.length)
	r.Space.Signal()
}
