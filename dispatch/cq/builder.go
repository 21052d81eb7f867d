package cq

import (
	"math"
	"slices"
)

// maxPayload keeps sizes with headers and strides below 2^31.
const maxPayload = math.MaxInt32 - 128

// Builder appends commands to a byte slice: by a method those that queues and programs are full of,
// any by Append and Dispatch. It allocates only when the slice is full. A command that can't be
// written leaves the bytes as they were and sets the error that Finish returns.
//
// The methods for dispatcher commands wrap them in a RELAY_INLINE and return the offset of the
// dispatcher command, 16 bytes after the prefetcher's, or 0 after an error. The At constants find
// fields from there.
type Builder struct {
	layout Layout
	buf    []byte
	err    error
	inside sequencing
}

// NewBuilder appends to buf, whose length must be a multiple of the layout's PCIe alignment.
func NewBuilder(l Layout, buf []byte) Builder {
	b := Builder{layout: l}
	b.Reset(buf)
	return b
}

// Reset starts again, appending to buf.
func (b *Builder) Reset(buf []byte) {
	b.buf, b.err, b.inside = buf, nil, sequencing{}
	if !b.layout.Valid() {
		b.fail(limit("builder", "layout", uint8(b.layout), "Wormhole or Blackhole", "pass the device's"))
	} else if len(buf)%b.layout.PCIeAlign() != 0 {
		b.fail(limit("builder", "bytes before the first command", len(buf), "a multiple of the PCIe alignment", "pad them with zeros"))
	}
}

// Layout is the layout commands are written for.
func (b *Builder) Layout() Layout { return b.layout }

// Bytes are all bytes so far; later methods may move them.
func (b *Builder) Bytes() []byte { return b.buf }

func (b *Builder) Len() int { return len(b.buf) }

// Finish returns the bytes and the first error.
func (b *Builder) Finish() ([]byte, error) { return b.buf, b.err }

func (b *Builder) fail(err error) int {
	if b.err == nil {
		b.err = err
	}
	return 0
}

// grow appends n bytes of unspecified content.
func (b *Builder) grow(n int) []byte {
	at := len(b.buf)
	if cap(b.buf)-at < n {
		b.more(n)
	}
	b.buf = b.buf[:at+n]
	return b.buf[at:]
}

// more is separate so that grow can be inlined.
//
//go:noinline
func (b *Builder) more(n int) { b.buf = slices.Grow(b.buf, n) }

func (b *Builder) bare(w head) int {
	if b.err != nil || b.outside(PrefetchID(w.lo)) {
		return 0
	}
	at := len(b.buf)
	if b.layout == Wormhole {
		p := (*[32]byte)(b.grow(32))
		w.put(p[:])
		*(*[16]byte)(p[16:]) = [16]byte{}
		return at
	}
	p := (*[64]byte)(b.grow(64))
	w.put(p[:])
	*(*[48]byte)(p[16:]) = [48]byte{}
	return at
}

func (b *Builder) large(w [4]uint64) int {
	at := b.bare(head{w[0], w[1]})
	if b.err == nil {
		head{w[2], w[3]}.put(b.buf[at+HeaderSize:])
	}
	return at
}

func (b *Builder) small(to Dispatcher, w head) int {
	if b.err != nil {
		return 0
	}
	if b.inside.on {
		p, at := b.relay(PrefetchRelayInline, to, HeaderSize)
		if p != nil {
			w.put(p)
		}
		return at
	}
	if to > Subordinate {
		return b.fail(noDispatcher(to))
	}
	at := len(b.buf)
	if b.layout == Wormhole {
		p := (*[32]byte)(b.grow(32))
		relayWords(PrefetchRelayInline, to, HeaderSize, 32).put(p[:])
		w.put(p[HeaderSize:])
		return at + HeaderSize
	}
	p := (*[64]byte)(b.grow(64))
	relayWords(PrefetchRelayInline, to, HeaderSize, 64).put(p[:])
	w.put(p[HeaderSize:])
	*(*[32]byte)(p[32:]) = [32]byte{}
	return at + HeaderSize
}

// padded appends n bytes of unspecified content, and zeros up to the next command.
func (b *Builder) padded(n int) (p []byte, at int) {
	at = len(b.buf)
	p = b.grow(b.layout.Stride(n))
	clear(p[n:])
	return p, at
}

// relay appends a relay and returns its payload of n unspecified bytes, nil after an error.
func (b *Builder) relay(id PrefetchID, to Dispatcher, n uint64) ([]byte, int) {
	if b.err != nil {
		return nil, 0
	}
	if n > maxPayload {
		b.fail(limit(id.String(), "length", n, "less than 2 GiB", "split the write over several commands"))
		return nil, 0
	}
	if b.inside.on {
		return b.add(id, to, int(n))
	}
	at := len(b.buf)
	end := HeaderSize + int(n)
	stride := b.layout.Stride(end)
	p := b.grow(stride)
	relayWords(id, to, int(n), stride).put(p)
	if end < stride {
		clear(p[end:])
	}
	return p[HeaderSize:end:end], at + HeaderSize
}

func (b *Builder) payload(noFlush bool, head int, data uint64) ([]byte, int) {
	if noFlush {
		return b.relay(PrefetchRelayInlineNoFlush, Master, uint64(head))
	}
	if data > maxPayload { // before the sum below can wrap
		b.fail(limit(PrefetchRelayInline.String(), "data", data, "less than 2 GiB", "split the write over several commands"))
		return nil, 0
	}
	return b.relay(PrefetchRelayInline, Master, uint64(head)+data)
}

func fill(dst, data []byte) {
	if len(data) == 0 {
		clear(dst)
		return
	}
	copy(dst, data)
}

type sequencing struct {
	on    bool
	start int // offset of the relay
	count int
	id    PrefetchID // NOFLUSH once the last command is a header
}

// BeginSequence makes the commands for the master up to EndSequence share a relay and a page; Check
// tests whether they fit.
func (b *Builder) BeginSequence() {
	if b.err != nil {
		return
	}
	if b.inside.on {
		b.fail(bad(ErrFormat, 0, DispatchSequence.String(), "a sequence in a sequence"))
		return
	}
	b.inside = sequencing{on: true, start: len(b.buf), id: PrefetchRelayInline}
	clear(b.grow(2 * HeaderSize))
}

func (b *Builder) add(id PrefetchID, to Dispatcher, n int) ([]byte, int) {
	s := &b.inside
	switch {
	case to != Master:
		b.fail(notInSequence(to))
		return nil, 0
	case s.id == PrefetchRelayInlineNoFlush:
		b.fail(bad(ErrOrder, 0, DispatchSequence.String(), "a command after a header whose data come with a relay: end the sequence with it"))
		return nil, 0
	}
	s.id = id
	s.count++
	pad := -(len(b.buf) - s.start) & (L1Align - 1)
	at := len(b.buf) + pad
	p := b.grow(pad + n)
	clear(p[:pad])
	return p[pad : pad+n : pad+n], at
}

func (b *Builder) outside(id PrefetchID) bool {
	if b.inside.on {
		b.fail(bad(ErrOrder, 0, id.String(), "it is the prefetcher's, and can't be in a sequence: end that first"))
		return true
	}
	return false
}

// EndSequence returns the sequence's offset.
func (b *Builder) EndSequence() int {
	s := b.inside
	b.inside = sequencing{}
	if b.err != nil {
		return 0
	}
	if !s.on || s.count == 0 || s.count > 1<<16-1 {
		return b.fail(limit(DispatchSequence.String(), "count", s.count, "1 to 65535, after BeginSequence",
			"begin a sequence, and put commands into it"))
	}
	n := len(b.buf) - s.start - HeaderSize
	stride := b.layout.Stride(HeaderSize + n)
	clear(b.grow(stride - HeaderSize - n))
	p := b.buf[s.start:]
	relayWords(s.id, Master, n, stride).put(p)
	le.PutUint64(p[16:], sequenceWord(s.count))
	return s.start + AtRelayed
}

func relayWords(id PrefetchID, to Dispatcher, length, stride int) head {
	return head{uint64(id) | uint64(to)<<8 | uint64(uint32(length))<<32, uint64(uint32(stride))}
}

// head is a header of 16 bytes as little-endian words.
type head struct{ lo, hi uint64 }

func (h head) put(b []byte) {
	p := (*[HeaderSize]byte)(b)
	le.PutUint64(p[0:], h.lo)
	le.PutUint64(p[8:], h.hi)
}

func sequenceWord(n int) uint64 { return uint64(DispatchSequence) | uint64(uint16(n))<<16 }
