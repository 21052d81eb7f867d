package ttsim

// protocol is the revision of the layout below; both processes must have the same.
const protocol = 0x5250_5453_0000_0001

// shared is the memory that the two processes exchange everything through. Words that different processes write are
// on different cache lines.
type shared struct {
	mem      []byte
	revision *uint64 // protocol, written by the parent before the server starts
	clock    *uint64 // clocks that the library has run, written by the server

	requests ring // parent to server
	dma      ring // server to parent

	replies   *uint32 // replies given; a reply's bytes are in reply
	replied   gate    // the parent waits here for replies
	reply     []byte
	dmaReply  []byte  // answer to the DMA read at the head of the ring, valid once the head has moved
	status    *uint32 // outcome of opOpen: 0 or an openStatus; the text is the reply
	statusLen *uint32
	manual    *uint32 // nonzero: no clocking but through opClock
}

// Outcomes of opOpen.
const (
	openOK = iota
	openLoad
	openSymbol
	openUnsupported
)

func newShared(mem []byte) *shared {
	line := 0
	next := func() int { line += 64; return line - 64 }
	g := func(at int) gate { return gate{bell: word32(mem, at), asleep: word32(mem, at+4)} }
	s := &shared{mem: mem}
	s.revision = word64(mem, next())
	s.clock = word64(mem, next())
	s.requests.tail = word64(mem, next())
	s.requests.head = word64(mem, next())
	s.requests.items = g(next())
	s.requests.space = g(next())
	s.dma.tail = word64(mem, next())
	s.dma.head = word64(mem, next())
	s.dma.items = g(next())
	s.dma.space = g(next())
	s.replies = word32(mem, next())
	s.replied = g(next())
	st := next()
	s.status, s.statusLen, s.manual = word32(mem, st), word32(mem, st+4), word32(mem, st+8)
	at := headerSize
	cut := func(n int) []byte { at += n; return mem[at-n : at : at] }
	s.requests.data = cut(requestBytes)
	s.dma.data = cut(dmaBytes)
	s.reply = cut(replyBytes)
	s.dmaReply = cut(dmaChunk)
	return s
}
