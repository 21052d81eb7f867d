package serve

import (
	"fmt"
	"os"
	"sync/atomic"
)

// Sizes in bytes of the parts of a Memory.
const (
	ReplyBytes = 256 << 10 // longest payload of a reply to a request
	CallBytes  = 64 << 10  // of a call, and of its reply
	// RequestBytes is the longest payload of a request.
	RequestBytes = 64 << 10

	wordBytes   = 4096 // header words
	requestRing = 1 << 20
	callRing    = 512 << 10
	memoryBytes = wordBytes + requestRing + callRing + HeadSize + ReplyBytes + HeadSize + CallBytes
	cacheLine   = 64
)

// Memory carries messages between two processes that map it. Words that different processes write
// are on different cache lines.
type Memory struct {
	Requests Channel // client to server
	Calls    Channel // server to client
	Progress *uint64 // of the server, with the service's meaning

	mem []byte
}

// Channel carries messages one way and replies the other way, one at a time: a sender calls Await,
// and uses the reply before its next request.
type Channel struct {
	Ring
	replies *uint32 // count
	replied Gate
	reply   []byte // head and payload
}

// NewMemory makes memory without a name. Pass the file on with Greet, then close it.
func NewMemory() (*Memory, *os.File, error) {
	f, err := newFile(memoryBytes)
	if err != nil {
		return nil, nil, err
	}
	m, err := MapMemory(f)
	if err != nil {
		f.Close()
		return nil, nil, err
	}
	return m, f, nil
}

// MapMemory maps a client's memory.
func MapMemory(f *os.File) (*Memory, error) {
	st, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if st.Size() != memoryBytes {
		return nil, fmt.Errorf("serve: map: %w: %d bytes of shared memory, want %d", ErrProtocol, st.Size(), memoryBytes)
	}
	mem, err := mapFile(f, memoryBytes)
	if err != nil {
		return nil, err
	}
	return newMemory(mem), nil
}

// Unmap unmaps the memory.
func (m *Memory) Unmap() error { return unmap(m.mem) }

func newMemory(mem []byte) *Memory {
	m := &Memory{mem: mem}
	line := 0
	next := func() int { line += cacheLine; return line - cacheLine }
	gate := func() Gate { at := next(); return Gate{bell: word32(mem, at), asleep: word32(mem, at+4)} }
	at := wordBytes
	cut := func(n int) []byte { at += n; return mem[at-n : at : at] }
	m.Progress = word64(mem, next())
	for _, p := range []struct {
		c           *Channel
		ring, reply int
	}{{&m.Requests, requestRing, HeadSize + ReplyBytes}, {&m.Calls, callRing, HeadSize + CallBytes}} {
		p.c.tail = word64(mem, next())
		p.c.head = word64(mem, next())
		p.c.items = gate()
		p.c.space = gate()
		p.c.replies = word32(mem, next())
		p.c.replied = gate()
		p.c.data = cut(p.ring)
		p.c.reply = cut(p.reply)
	}
	return m
}

// Wake wakes everything that waits for the peer.
func (m *Memory) Wake() {
	for _, c := range []*Channel{&m.Requests, &m.Calls} {
		c.items.Ring()
		c.space.Ring()
		c.replied.Ring()
	}
}

// Replies counts the replies so far, for Await.
func (c *Channel) Replies() uint32 { return atomic.LoadUint32(c.replies) }

// Await waits for a reply after the number before; false: gone holds. The next reply overwrites the
// payload.
func (c *Channel) Await(before uint32, gone func() bool, h *Head) (payload []byte, ok bool) {
	c.replied.Wait(Spins, Forever, func() bool { return c.Replies() != before || gone() })
	if c.Replies() == before {
		return nil, false
	}
	h.Take(c.reply)
	body := c.reply[HeadSize:]
	return body[:min(int(h.Size), len(body))], true
}

// ReplyPayload returns the memory for the next reply's payload.
func (c *Channel) ReplyPayload() []byte { return c.reply[HeadSize:] }

// Reply sends a reply with h.Size bytes in ReplyPayload.
func (c *Channel) Reply(h *Head) {
	h.Put(c.reply)
	atomic.AddUint32(c.replies, 1)
	c.replied.Signal()
}
