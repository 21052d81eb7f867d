package ttsim

import (
	"encoding/binary"
	"sync/atomic"
)

// Operations of the records in the rings. Requests go from the parent to the server, DMA from the server to the parent.
const (
	opPad         = iota // nothing: fills the end of a ring, because a record is contiguous
	opOpen               // size = length of the library's path, the payload; replied
	opWrite              // payload to addr; not replied
	opRead               // size bytes from addr into the reply area; replied
	opConfigRead         // addr = device<<32 | offset; replied with 4 bytes
	opConfigWrite        // the same with a 4-byte payload; replied, because it is rare and then a fault is known at once
	opClock              // advance addr clocks; replied
	opSync               // nothing; replied
	opExit               // end the simulation; not replied
	opDMARead            // size bytes of host memory at addr into the DMA reply area
	opDMAWrite           // payload to host memory at addr
)

// Sizes in bytes of the parts of the memory that the two processes share.
const (
	headerSize   = 4096
	requestBytes = 1 << 20   // request ring
	dmaBytes     = 512 << 10 // DMA ring
	replyBytes   = 256 << 10 // answer to a read
	dmaChunk     = 64 << 10  // answer to a DMA read, and the largest payload of a DMA record
	writeChunk   = 64 << 10  // largest payload of a request
	sharedBytes  = headerSize + requestBytes + dmaBytes + replyBytes + dmaChunk
	recordHeader = 16
)

// A ring is a queue of records in shared memory with one producer and one consumer. Head and tail count bytes ever
// consumed and produced, so they never wrap in practice and their difference is what is queued.
//
// A record is op u8, device u8, u16 0, size u32, addr u64, and then size bytes of payload if the operation has any,
// padded to 8 bytes.
type ring struct {
	data       []byte // length is a power of two
	head, tail *uint64
	items      gate // the consumer waits here for records
	space      gate // the producer waits here for space
}

type record struct {
	op      uint8
	device  uint8
	size    uint32
	addr    uint64
	payload []byte // within the ring: gone after advance
	length  uint64 // of the whole record in the ring
}

func recordLength(payload int) uint64 { return recordHeader + uint64(payload+7)&^7 }

// free says whether a record with a payload of n bytes fits now, with the padding that may come before it.
func (r *ring) free(n int) bool {
	need := recordLength(n)
	tail := atomic.LoadUint64(r.tail)
	if at := tail & uint64(len(r.data)-1); at+need > uint64(len(r.data)) {
		need += uint64(len(r.data)) - at
	}
	return tail+need-atomic.LoadUint64(r.head) <= uint64(len(r.data))
}

// slot begins a record whose payload has n bytes, for which there must be space, and returns where the payload goes.
// Nothing is visible to the consumer before publish.
func (r *ring) slot(op, device uint8, addr uint64, size uint32, n int) []byte {
	tail := atomic.LoadUint64(r.tail)
	mask := uint64(len(r.data) - 1)
	if at := tail & mask; at+recordLength(n) > uint64(len(r.data)) {
		// The rest of the ring is too short even if it holds no whole header, so padding is one word: op and size.
		binary.LittleEndian.PutUint64(r.data[at:], opPad)
		tail += uint64(len(r.data)) - at
		atomic.StoreUint64(r.tail, tail)
	}
	b := r.data[tail&mask:]
	binary.LittleEndian.PutUint64(b, uint64(op)|uint64(device)<<8|uint64(size)<<32)
	binary.LittleEndian.PutUint64(b[8:], addr)
	return b[recordHeader : recordHeader+n]
}

// publish makes the record that slot began visible and wakes the consumer if it sleeps.
func (r *ring) publish(n int) {
	atomic.AddUint64(r.tail, recordLength(n))
	r.items.signal()
}

func (r *ring) empty() bool { return atomic.LoadUint64(r.head) == atomic.LoadUint64(r.tail) }

// next returns the oldest record, skipping padding, and false if there is none.
func (r *ring) next() (record, bool) {
	mask := uint64(len(r.data) - 1)
	for {
		head := atomic.LoadUint64(r.head)
		if head == atomic.LoadUint64(r.tail) {
			return record{}, false
		}
		at := head & mask
		w := binary.LittleEndian.Uint64(r.data[at:])
		op := uint8(w)
		if op == opPad {
			atomic.StoreUint64(r.head, head+uint64(len(r.data))-at)
			r.space.signal()
			continue
		}
		rec := record{op: op, device: uint8(w >> 8), size: uint32(w >> 32), addr: binary.LittleEndian.Uint64(r.data[at+8:])}
		n := 0
		switch op {
		case opOpen, opWrite, opConfigWrite, opDMAWrite:
			n = int(rec.size)
		}
		rec.payload = r.data[at+recordHeader : at+recordHeader+uint64(n)]
		rec.length = recordLength(n)
		return rec, true
	}
}

// advance gives the space of a record that next returned back to the producer.
func (r *ring) advance(rec record) {
	atomic.AddUint64(r.head, rec.length)
	r.space.signal()
}
