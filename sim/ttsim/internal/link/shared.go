package link

// Protocol is the revision of the layout below; both processes must have the same.
const Protocol = 0x5250_5453_0000_0001

// Shared is the memory that the two processes exchange everything through. Words that different processes write are
// on different cache lines.
type Shared struct {
	Revision *uint64 // Protocol, written by the parent before the server starts
	Clock    *uint64 // clocks that the library has run, written by the server

	Requests Ring // parent to server
	DMA      Ring // server to parent

	Replies   *uint32 // replies given; a reply's bytes are in Reply
	Replied   Gate    // the parent waits here for replies
	Reply     []byte
	DMAReply  []byte  // answer to the DMA read at the head of the ring, valid once the head has moved
	Status    *uint32 // outcome of OpOpen: 0 or an openStatus; the text is the reply
	StatusLen *uint32
	Manual    *uint32 // nonzero: no clocking but through OpClock
}

// Outcomes of OpOpen.
const (
	OpenOK = iota
	OpenLoad
	OpenSymbol
	OpenUnsupported
)

// New lays the parts out in memory of the size that Map returns.
func New(mem []byte) *Shared {
	line := 0
	next := func() int { line += 64; return line - 64 }
	g := func(at int) Gate { return Gate{bell: word32(mem, at), asleep: word32(mem, at+4)} }
	s := &Shared{}
	s.Revision = word64(mem, next())
	s.Clock = word64(mem, next())
	s.Requests.Tail = word64(mem, next())
	s.Requests.Head = word64(mem, next())
	s.Requests.Items = g(next())
	s.Requests.Space = g(next())
	s.DMA.Tail = word64(mem, next())
	s.DMA.Head = word64(mem, next())
	s.DMA.Items = g(next())
	s.DMA.Space = g(next())
	s.Replies = word32(mem, next())
	s.Replied = g(next())
	st := next()
	s.Status, s.StatusLen, s.Manual = word32(mem, st), word32(mem, st+4), word32(mem, st+8)
	at := headerSize
	cut := func(n int) []byte { at += n; return mem[at-n : at : at] }
	s.Requests.Data = cut(requestBytes)
	s.DMA.Data = cut(dmaBytes)
	s.Reply = cut(ReplyBytes)
	s.DMAReply = cut(DMAChunk)
	return s
}
