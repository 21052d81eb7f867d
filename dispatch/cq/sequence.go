package cq

// Dispatcher commands of this file are this runtime's alone: no revision of tt-metal has them, and only the firmware of package
// dispatch/firmware takes them. They let small commands share a page, which otherwise each has for itself with a relay
// around it, and let go signals reach the subordinate without one. Pack makes them from a stream of the stock wire format.

// Sequence is several commands in one page of the dispatcher's ring. They run in order, as if each had a relay of its own.
type Sequence struct {
	Commands []DispatchCommand // without sequences; in a NOFLUSH the last one is a header without its data
}

// ForwardSubordinate makes the dispatcher give a command to its subordinate itself: a SendGoSignal or a TerminateDispatch. It takes
// the place of a relay to the subordinate, and of the NotifySubordinate before it.
type ForwardSubordinate struct {
	Wait    bool // until all writes before have landed
	Args    bool // a go signal that carries out the ReadArgs before it first: FORWARD_WITH_ARGS
	Command DispatchCommand
}

// ForwardSubordinateSize is the bytes of a FORWARD_SUBORDINATE with the command in it.
const ForwardSubordinateSize = 2 * HeaderSize

// AtSequenceCount is where a SEQUENCE says how many commands it has: 16 bits.
const AtSequenceCount = 2

// AtForwarded is where the command lies in a FORWARD_SUBORDINATE.
const AtForwarded = HeaderSize

func (Sequence) ID() DispatchID { return DispatchSequence }
func (c ForwardSubordinate) ID() DispatchID {
	if c.Args {
		return DispatchForwardWithArgs
	}
	return DispatchForwardSubordinate
}
func (c Sequence) Name() string           { return c.ID().String() }
func (c ForwardSubordinate) Name() string { return c.ID().String() }

func (c Sequence) words() (lo, hi uint64) {
	return uint64(DispatchSequence) | uint64(uint16(len(c.Commands)))<<16, 0
}

func (c ForwardSubordinate) words() (lo, hi uint64) {
	return uint64(c.ID()) | bit(c.Wait)<<8, 0
}

// each yields the commands of a sequence with their offsets from its header's start. header says that it is the last
// one, without its data.
func (c Sequence) each(noFlush bool, yield func(at int, c DispatchCommand, header bool) bool) int {
	at := HeaderSize
	for i, d := range c.Commands {
		at = SlotStride(at)
		header := noFlush && i == len(c.Commands)-1
		if yield != nil && !yield(at, d, header) {
			return at
		}
		at += size(d, header)
	}
	return at
}

// Fields lists the number of commands, and the fields of each after its place.
func (c Sequence) Fields(l Layout) []Field {
	f := []Field{deci("count", 2, 2, uint16(len(c.Commands)))}
	c.each(false, func(at int, d DispatchCommand, _ bool) bool {
		f = append(f, inside(l, at, d)...)
		return true
	})
	return f
}

// Fields lists the fields, and those of the command in it.
func (c ForwardSubordinate) Fields(l Layout) []Field {
	f := []Field{yes("wait", 1, c.Wait)}
	if c.Command != nil {
		f = append(f, inside(l, AtForwarded, c.Command)...)
	}
	return f
}

// inside is the fields of a command inside of another one.
func inside(l Layout, at int, c DispatchCommand) []Field {
	f := []Field{text("id", at, 1, c.ID(), c.Name())}
	for _, d := range c.Fields(l) {
		d.Offset += at
		f = append(f, d)
	}
	return f
}

// Validate tests the commands, and that they share a page.
func (c Sequence) Validate(l Layout, m Limits) error { return c.validate(l, m, false) }

func (c Sequence) validate(l Layout, m Limits, noFlush bool) error {
	if n := len(c.Commands); n == 0 || n > 1<<16-1 {
		return limit(c.Name(), "count", n, "1 to 65535", "leave an empty one out")
	}
	var err error
	end := c.each(noFlush, func(at int, d DispatchCommand, header bool) bool {
		if _, nested := d.(Sequence); nested {
			err = bad(ErrFormat, at, c.Name(), "a sequence in a sequence: put its commands into this one")
		} else {
			err = shift(d.Validate(l, m), at)
		}
		return err == nil
	})
	if err == nil && end > m.DispatchPage {
		err = limit(c.Name(), "size", end, words(m.DispatchPage)+" bytes, a page of the dispatcher", "use several sequences")
	}
	return err
}

// Validate tests the command in it.
func (c ForwardSubordinate) Validate(l Layout, m Limits) error {
	switch d := c.Command.(type) {
	case SendGoSignal:
		return shift(d.Validate(l, m), AtForwarded)
	case TerminateDispatch:
		if c.Args {
			return bad(ErrFormat, AtForwarded, c.Name(), "only a go signal takes arguments, this is %s", d.Name())
		}
		return nil
	case nil:
		return bad(ErrFormat, AtForwarded, c.Name(), "no command in it")
	default:
		return bad(ErrFormat, AtForwarded, c.Name(), "dispatch_s takes SEND_GO_SIGNAL and TERMINATE from the dispatcher, not %s: relay it",
			d.Name())
	}
}

// sequencing is the state of a builder between BeginSequence and EndSequence.
type sequencing struct {
	on    bool
	start int        // of the relay in the bytes
	count int        // of commands so far
	id    PrefetchID // of the relay: NOFLUSH as soon as the last command is a header
}

// BeginSequence makes the commands for the master up to EndSequence share a relay and a page. Whether they fit into one is
// for Validate to say. Commands for others, and those that are no dispatcher's, are an error in between.
func (b *Builder) BeginSequence() {
	if b.err != nil {
		return
	}
	if b.inside.on {
		b.fail(bad(ErrFormat, 0, DispatchSequence.String(), "a sequence in a sequence"))
		return
	}
	b.inside = sequencing{on: true, start: len(b.buf), id: PrefetchRelayInline}
	p := b.grow(2 * HeaderSize)
	clear(p)
}

// add makes room for the n bytes of a command in the sequence, and returns them and their offset.
func (b *Builder) add(id PrefetchID, to Dispatcher, n int) ([]byte, int) {
	s := &b.inside
	switch {
	case to != Master:
		b.fail(bad(ErrFormat, 0, DispatchSequence.String(), "a command for %v in a sequence: hand it over", to))
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

// outside says that a command can't be in a sequence, if there is one.
func (b *Builder) outside(id PrefetchID) bool {
	if b.inside.on {
		b.fail(bad(ErrOrder, 0, id.String(), "it is the prefetcher's, and can't be in a sequence: end that first"))
		return true
	}
	return false
}

// EndSequence ends the sequence and returns its offset.
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
	w0, w1 := relayWords(s.id, Master, n, stride)
	le.PutUint64(p[0:], w0)
	le.PutUint64(p[8:], w1)
	le.PutUint64(p[16:], uint64(DispatchSequence)|uint64(s.count)<<16)
	return s.start + AtRelayed
}

// Sequence appends the command.
func (b *Builder) Sequence(c Sequence) int { return b.sequence(c, false) }

// SequenceHeader appends a sequence whose last command is a header without its data: the next command must be the relay
// that brings them.
func (b *Builder) SequenceHeader(c Sequence) int { return b.sequence(c, true) }

func (b *Builder) sequence(c Sequence, noFlush bool) int {
	b.BeginSequence()
	for i, d := range c.Commands {
		if noFlush && i == len(c.Commands)-1 {
			b.noFlush(d)
		} else {
			b.inline(Master, d)
		}
	}
	if noFlush && b.err == nil {
		b.inside.id = PrefetchRelayInlineNoFlush
	}
	return b.EndSequence()
}

// ForwardSubordinate appends the command; the one in it is at AtForwarded.
func (b *Builder) ForwardSubordinate(c ForwardSubordinate) int {
	switch d := c.Command.(type) {
	case SendGoSignal:
		lo, hi := d.words()
		return b.forwardSubordinate(c, lo, hi)
	case TerminateDispatch:
		return b.forwardSubordinate(c, uint64(DispatchTerminate), 0)
	}
	return b.fail(bad(ErrFormat, AtForwarded, c.Name(), "%T can't be forwarded", c.Command))
}

// ForwardSubordinateGo is ForwardSubordinate of a go signal, without an allocation.
func (b *Builder) ForwardSubordinateGo(wait bool, c SendGoSignal) int {
	lo, hi := c.words()
	return b.forwardSubordinate(ForwardSubordinate{Wait: wait}, lo, hi)
}

func (b *Builder) forwardSubordinate(c ForwardSubordinate, lo, hi uint64) int {
	p, at := b.relay(PrefetchRelayInline, Master, ForwardSubordinateSize)
	if p == nil {
		return 0
	}
	h0, h1 := c.words()
	le.PutUint64(p[0:], h0)
	le.PutUint64(p[8:], h1)
	le.PutUint64(p[AtForwarded:], lo)
	le.PutUint64(p[AtForwarded+8:], hi)
	return at
}

// decodeSequence reads the commands one after the other: each says how long it is.
func decodeSequence(p []byte, lo uint64, noFlush bool) (DispatchCommand, error) {
	n := int(uint16(lo >> 16))
	c := Sequence{}
	name := c.Name()
	if n == 0 {
		return nil, limit(name, "count", n, "1 to 65535", "an empty one would be left out")
	}
	at := HeaderSize
	var loose error // what is beside the rules of an encoder only
	for i := range n {
		start := SlotStride(at)
		if start > len(p) {
			return nil, bad(ErrTruncated, len(p), name, "%d bytes, command %d of %d begins at %d", len(p), i, n, start)
		}
		if err := zeros(p[:start], at, name); err != nil && loose == nil {
			loose = err
		}
		rest := p[start:]
		header := noFlush && i == n-1
		size, err := extent(rest, header)
		if err == nil && size > uint64(len(rest)) {
			err = bad(ErrTruncated, len(rest), "", "command %d of %d takes %d bytes, %d are left", i, n, size, len(rest))
		}
		if err != nil {
			return nil, shift(err, start)
		}
		d, err := DecodeDispatch(rest[:size:size], header)
		switch {
		case err != nil && !isPadding(err):
			return nil, shift(err, start)
		case err != nil && loose == nil:
			loose = shift(err, start)
		}
		c.Commands = append(c.Commands, d)
		at = start + int(size)
	}
	if at != len(p) {
		return nil, bad(ErrFormat, at, name, "%d bytes in the relay, its %d commands end at %d", len(p), n, at)
	}
	if loose != nil {
		return c, loose
	}
	w0, w1 := c.words()
	return c, same(p, name, w0, w1)
}

func decodeForwardSubordinate(p []byte, lo uint64) (DispatchCommand, error) {
	c := ForwardSubordinate{Wait: lo>>8&1 != 0, Args: DispatchID(lo) == DispatchForwardWithArgs}
	if len(p) != ForwardSubordinateSize {
		return nil, bad(ErrFormat, HeaderSize, c.Name(), "%d bytes in the relay, want %d", len(p), ForwardSubordinateSize)
	}
	d, err := DecodeDispatch(p[AtForwarded:], false)
	if err != nil && !isPadding(err) {
		return nil, shift(err, AtForwarded)
	}
	switch d.(type) {
	case SendGoSignal, TerminateDispatch:
	default:
		return nil, bad(ErrFormat, AtForwarded, c.Name(), "%s can't be forwarded", d.Name())
	}
	c.Command = d
	if err != nil {
		return c, shift(err, AtForwarded)
	}
	lo, hi := c.words()
	return c, same(p, c.Name(), lo, hi)
}

// extent is the number of bytes of the command at the start of p, which may be longer than p. What makes no sense in its
// header is for DecodeDispatch to say.
func extent(p []byte, noFlush bool) (uint64, error) {
	if len(p) < HeaderSize {
		return 0, bad(ErrTruncated, len(p), "", "%d bytes, a dispatcher command has at least 16", len(p))
	}
	lo, hi := le.Uint64(p), le.Uint64(p[8:])
	head, data := uint64(HeaderSize), uint64(0)
	switch id := DispatchID(p[0]); id {
	case DispatchWriteLinear, DispatchWriteLinearH:
		if len(p) < LargeHeaderSize {
			return LargeHeaderSize, nil
		}
		head = LargeHeaderSize
		var c WriteLinear
		c.read(readWords(p))
		data = c.Length
	case DispatchWriteHost:
		var c WriteHost
		c.read(lo, hi)
		data = max(c.Length, HeaderSize) - HeaderSize
	case DispatchWritePaged:
		var c WritePaged
		c.read(lo, hi)
		data = uint64(c.PageSize) * uint64(c.Pages)
	case DispatchWritePacked:
		n, flags := uint64(uint16(lo>>16)), uint8(lo>>8)
		per, slots := uint64(4), n
		if flags&packedMulticast != 0 {
			per = 8
		}
		if flags&packedNoStride != 0 {
			slots = 1
		}
		head = uint64(SlotStride(HeaderSize + int(n*per)))
		data = slots * uint64(SlotStride(int(lo>>48)))
		if uint64(len(p)) == head+data {
			return head + data, nil // in a NOFLUSH the data may be there or not
		}
	case DispatchWritePackedLarge:
		n, align := int(uint16(lo>>16)), uint64(uint16(lo>>32))
		head = uint64(SlotStride(AtLargeSub(n)))
		if align == 0 || align&(align-1) != 0 || n > MaxLargeSubs {
			return 0, bad(ErrFormat, 0, id.String(), "%d sub-commands with alignment %d", n, align)
		}
		for i := range n {
			if at := AtLargeSub(i) + atLargeSubLength; at+2 <= len(p) {
				data += (uint64(le.Uint16(p[at:])) + align) &^ (align - 1) // it holds the length less 1
			}
		}
	case DispatchSetWriteOffset:
		head = uint64(AtWriteOffset(int(uint8(lo >> 8))))
	case DispatchSetGoSignalNOCData:
		data = 4 * (lo >> 32)
	case DispatchDebug:
		data = lo >> 32
		return head + data, nil // inline also in a NOFLUSH
	case DispatchForwardSubordinate, DispatchForwardWithArgs:
		return ForwardSubordinateSize, nil
	case DispatchReadArg:
		return uint64(SlotStride(atArgTarget(int(uint16(lo >> 16))))), nil
	case DispatchSequence:
		return 0, bad(ErrFormat, 0, id.String(), "a sequence in a sequence")
	}
	if noFlush && DispatchID(p[0]) != DispatchSetGoSignalNOCData {
		data = 0
	}
	if data > maxPayload {
		return 0, limit(DispatchID(p[0]).String(), "length", data, "less than 2 GiB", "split the write over several commands")
	}
	return head + data, nil
}

// Relayed is a dispatcher command in a stream.
type Relayed struct {
	At      int // of the command in the stream
	To      Dispatcher
	Command DispatchCommand
	Header  bool // without its data, which a relay after it brings
}

// Relayed yields the dispatcher commands in an entry: none, one, or those of a sequence. A command that is forwarded is
// in its ForwardSubordinate.
func (e Entry) Relayed(yield func(Relayed) bool) {
	c, to, ok := e.Dispatch()
	if !ok || c == nil {
		return
	}
	_, header := e.Command.(RelayInlineNoFlush)
	s, ok := c.(Sequence)
	if !ok {
		yield(Relayed{e.Offset + AtRelayed, to, c, header})
		return
	}
	s.each(header, func(at int, d DispatchCommand, last bool) bool {
		return yield(Relayed{e.Offset + AtRelayed + at, to, d, last})
	})
}
