package cq

import "slices"

// Moved maps offsets of a stream to those after Pack.
type Moved []moved

type moved struct{ from, to, n int }

// At returns where the byte at offset at lies now. ok is false for bytes that Pack left out:
// relays' headers, and NotifySubordinates in front of go signals.
func (m Moved) At(at int) (now int, ok bool) {
	i, found := slices.BinarySearchFunc(m, at, func(x moved, at int) int {
		switch {
		case at < x.from:
			return 1
		case at >= x.from+x.n:
			return -1
		}
		return 0
	})
	if !found {
		return 0, false
	}
	return m[i].to + at - m[i].from, true
}

// Pack rewrites a stream for this runtime's own firmware, with the same effect: neighbouring
// dispatcher commands share relays and pages of page bytes, and a NotifySubordinate with the go
// signal after it becomes a ForwardSubordinate. Commands that fill a page, and those for the
// prefetcher, stay as they are. A stream that Decode refuses, or that is packed already, is an
// error.
func Pack(l Layout, page int, stream []byte) ([]byte, Moved, error) {
	p := packer{l: l, page: page}
	reader := parser{v: own(), l: l}
	for e, err := range func(yield func(Entry, error) bool) { reader.all(stream, yield) } {
		if err != nil {
			return nil, nil, err
		}
		if err := p.add(e, reader.items); err != nil {
			return nil, nil, shift(err, e.Offset)
		}
	}
	if h := p.header; h != nil {
		return nil, nil, bad(ErrOrder, h.from, "", "the data for the last NOFLUSH are missing")
	}
	p.flush()
	return p.out, p.moves, nil
}

type packer struct {
	l     Layout
	page  int
	out   []byte
	moves Moved

	held []held
	size int // of their sequence

	notify *held
	wait   bool

	header *held // of a NOFLUSH
	wants  uint64
}

type held struct {
	from    int
	payload []byte
	at      int
}

func (p *packer) add(e Entry, its []item) error {
	if p.header != nil {
		// The dispatcher skips what a relay brings beyond the data with the rest of the page, so
		// the header must keep its place in the page.
		if n, _ := its[0].relayed(); n != p.wants {
			p.close(PrefetchRelayInline)
		}
		p.hold(*p.header)
		p.close(PrefetchRelayInlineNoFlush)
		p.header = nil
	}
	if len(its) == 1 || e.Command.ID() == PrefetchExecBufEnd {
		p.keep(e)
		return nil
	}
	it := &its[1]
	if it.raw[0] >= uint8(DispatchSequence) {
		return bad(ErrFormat, AtRelayed, it.form.name, "the stream is packed already")
	}
	payload := held{from: e.Offset + AtRelayed, payload: it.raw}
	switch c := e.Command.(type) {
	case RelayInlineNoFlush:
		p.settle()
		p.header, p.wants = &payload, it.data-uint64(it.inline())
		return nil
	case RelayInline:
		switch d := c.Command.(type) {
		case NotifySubordinate:
			if c.To == Master && d.Mask == 1 {
				p.settle()
				p.notify, p.wait = &payload, d.Wait
				return nil
			}
		case SendGoSignal:
			if c.To == Subordinate && p.notify != nil {
				p.notify = nil
				over := make([]byte, ForwardSubordinateSize)
				ForwardSubordinate{Wait: p.wait}.words().put(over)
				copy(over[AtForwarded:], it.raw)
				p.hold(held{from: payload.from, payload: over, at: AtForwarded})
				return nil
			}
		}
	}
	p.settle()
	if it.to == Master {
		p.hold(payload)
	} else {
		p.keep(e)
	}
	return nil
}

func (p *packer) keep(e Entry) {
	p.flush()
	p.moves = append(p.moves, moved{from: e.Offset, to: len(p.out), n: len(e.Raw)})
	p.out = append(p.out, e.Raw...)
}

// settle places a NotifySubordinate that no go signal follows.
func (p *packer) settle() {
	if n := p.notify; n != nil {
		p.notify = nil
		p.hold(*n)
	}
}

func (p *packer) hold(h held) {
	end := SlotStride(max(p.size, HeaderSize)) + len(h.payload)
	if len(p.held) > 0 && end > p.page {
		p.close(PrefetchRelayInline)
		end = HeaderSize + len(h.payload)
	}
	p.held, p.size = append(p.held, h), end
}

func (p *packer) flush() {
	p.settle()
	p.close(PrefetchRelayInline)
}

// close writes the relay; one command alone needs no sequence.
func (p *packer) close(id PrefetchID) {
	if len(p.held) == 0 {
		return
	}
	start := len(p.out)
	p.out = append(p.out, make([]byte, HeaderSize)...)
	base := len(p.out)
	if len(p.held) > 1 {
		p.out = le.AppendUint64(le.AppendUint64(p.out, sequenceWord(len(p.held))), 0)
	}
	for _, h := range p.held {
		p.out = append(p.out, make([]byte, SlotStride(len(p.out)-base)-(len(p.out)-base))...)
		p.moves = append(p.moves, moved{from: h.from, to: len(p.out) + h.at, n: len(h.payload) - h.at})
		p.out = append(p.out, h.payload...)
	}
	n := len(p.out) - base
	stride := p.l.Stride(HeaderSize + n)
	p.out = append(p.out, make([]byte, stride-HeaderSize-n)...)
	relayWords(id, Master, n, stride).put(p.out[start:])
	p.held, p.size = p.held[:0], 0
}
