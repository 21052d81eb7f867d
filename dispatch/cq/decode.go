package cq

import "iter"

// Decode reads the prefetcher command at the start of b and returns it with the number of bytes to
// the next one. Its data alias b.
//
// n is 0 if the size is unknown; then c is nil and nothing after it can be read. With an error and
// a positive n only this command is bad: c is nil, or what could be read. With ErrPadding c is the
// whole command. A relay with an unreadable payload has an Opaque in it.
func Decode(l Layout, b []byte) (c PrefetchCommand, n int, err error) {
	p := parser{v: own(), l: l}
	return p.decode(b)
}

func (p *parser) decode(b []byte) (c PrefetchCommand, n int, err error) {
	err = p.prefetch(b)
	if len(p.items) > 0 {
		c = p.items[0].form.prefetch(&p.items[0], p.items[1:])
	}
	return c, p.n, err
}

// ReadDispatch reads the dispatcher command at the start of b, nil if there is none, and returns
// its size with its data. It leaves out data that may go beyond pages: those of WriteLinear,
// WriteHost and WritePaged.
func ReadDispatch(b []byte) (DispatchCommand, int) {
	p := parser{v: own()}
	n, err := p.dispatch(b, 0, place{header: true})
	if err == nil && p.items[0].data > 0 && !p.items[0].form.data.long() {
		p.items = p.items[:0]
		n, err = p.dispatch(b, 0, place{})
	}
	if err != nil || p.odd != nil && p.items[0].list != nil {
		return nil, 0
	}
	it := &p.items[0]
	if n == it.head {
		n += int(min(it.data, 1<<30))
	}
	return it.form.dispatch(it, p.items[1:]), n
}

type parser struct {
	v     *Revision
	l     Layout
	items []item // only the relay if its payload is unreadable
	first [3]item
	n     int   // bytes to the next command, 0 if unknown
	odd   error // the first ErrPadding
}

func (p *parser) note(err error, at int) {
	if err != nil && p.odd == nil {
		p.odd = shift(err, at)
	}
}

func (p *parser) unknown(id uint8, newer bool, name, who string) error {
	switch {
	case p.v != own():
		return bad(ErrIllegal, 0, "", "%s has no command %d in revision %s", who, id, p.v.Name)
	case newer:
		return bad(ErrNewer, 0, name, "id %d is not in the revision read here: the stream needs other firmware and another decoder", id)
	}
	return bad(ErrIllegal, 0, "", "id is %d: is this the start of a command, and the right layout?", id)
}

func (p *parser) prefetch(b []byte) error {
	if p.items == nil {
		p.items = p.first[:0]
	}
	p.items, p.n, p.odd = p.items[:0], 0, nil
	if !p.l.Valid() {
		return limit("decoder", "layout", uint8(p.l), "Wormhole or Blackhole", "pass the device's")
	}
	if len(b) < HeaderSize {
		return bad(ErrTruncated, len(b), "", "%d bytes left, a command has at least 16", len(b))
	}
	f := p.v.prefetch.by(b[0])
	if f == nil {
		id := PrefetchID(b[0])
		return p.unknown(b[0], id.Newer(), id.String(), "the prefetcher")
	}
	it := item{form: f, raw: b}
	err := it.measure()
	need := uint64(it.end) + it.data
	if err2 := p.size(&it, need); err2 != nil {
		return err2
	}
	if err != nil {
		return err
	}
	it.raw = b[:need:need]
	p.items = append(p.items, it)
	if f.relays == "total" && it.sum() != it.value("total") {
		return bad(ErrFormat, 4, f.name, "total length is %d, the list adds up to %d", it.value("total"), it.sum())
	}
	if f.data == dataRelay {
		if err := p.relay(); err != nil {
			return err
		}
	}
	p.note(it.canonical(), 0)
	if want := p.l.Stride(int(need)); p.n != want {
		p.note(bad(ErrPadding, find(f.fields, "stride").at, f.name, "stride is %d for %d bytes, want %d", p.n, need, want), 0)
	}
	p.note(zeros(b[:p.n], int(need), f.name), 0)
	return p.odd
}

// size finds the next command by the field "stride", as the firmware does, if there is one.
func (p *parser) size(it *item, need uint64) error {
	f, b, align := it.form, it.raw, uint64(p.l.PCIeAlign())
	s := find(f.fields, "stride")
	if s == nil {
		n := p.l.Stride(int(need))
		if n > len(b) {
			return bad(ErrTruncated, len(b), f.name, "it takes %d bytes, %d are left", n, len(b))
		}
		p.n = n
		return nil
	}
	stride := s.get(b)
	switch {
	case stride < need:
		return bad(ErrFormat, s.at, f.name, "stride is %d for %d bytes", stride, need)
	case stride%align != 0:
		return bad(ErrFormat, s.at, f.name, "stride %d is no multiple of the %v's %d bytes", stride, p.l, align)
	case stride > uint64(len(b)):
		return bad(ErrTruncated, len(b), f.name, "its stride is %d bytes, %d are left", stride, len(b))
	}
	p.n = int(stride)
	return nil
}

func (p *parser) relay() error {
	r := &p.items[0]
	f, to := r.form, Dispatcher(r.u8(1))
	noFlush := f.name == nameNoFlush
	if to > Subordinate || to != Master && f.name != nameRelay {
		p.items = p.items[:0]
		return bad(ErrFormat, 1, f.name, "dispatcher is %d", uint8(to))
	}
	_, err := p.dispatch(r.raw[HeaderSize:], HeaderSize, place{in: f, to: to, header: noFlush, whole: true})
	end := f.name == nameEnd
	if end && (err != nil || p.items[1].form.name != f.name) {
		p.items = p.items[:0]
		return bad(ErrFormat, AtRelayed, f.name, "it doesn't carry EXEC_BUF_END")
	}
	if err != nil {
		p.items = p.items[:1]
		return shift(err, HeaderSize)
	}
	p.items[0].kids = len(p.items) - 1
	return nil
}

type place struct {
	in     *form
	to     Dispatcher
	header bool // its data may come from the next relay
	whole  bool // it must fill the bytes
}

// dispatch reads the dispatcher command at the start of b, at offset at of the prefetcher's, and
// returns its size.
func (p *parser) dispatch(b []byte, at int, w place) (n int, err error) {
	if len(b) < HeaderSize {
		return 0, bad(ErrTruncated, len(b), "", "%d bytes, a dispatcher command has at least 16", len(b))
	}
	f := p.v.dispatch.by(b[0])
	if f == nil {
		id := DispatchID(b[0])
		return 0, p.unknown(b[0], id.Newer(), id.String(), "the dispatcher")
	}
	it := item{form: f, at: at, raw: b, in: w.in, to: w.to, header: w.header}
	if err := it.measure(); err != nil {
		return 0, err
	}
	size := uint64(it.head) + it.data
	switch {
	case f.data == dataCommands:
		size = uint64(len(b))
	case !w.header || f.data == dataSized || f.data == dataForward:
	case f.data == dataSlots && size == uint64(len(b)):
	default:
		size = uint64(it.head)
	}
	switch {
	case size > uint64(len(b)) && !w.whole:
		return 0, bad(ErrTruncated, len(b), f.name, "it takes %d bytes, %d are left", size, len(b))
	case f.data == dataSlots && PackedType(b[1]>>4) == PackedEvent && p.v != own() &&
		uint64(len(b)) == size+uint64(p.l.PCIeAlign())-HeaderSize:
		// tt-metal reserves so much more for an event of several queues than it fills.
	case size != uint64(len(b)) && w.whole:
		return 0, bad(ErrFormat, it.head, f.name, "%d bytes in the relay, its fields say %d", len(b), size)
	}
	it.raw = b[:size:size]
	i := len(p.items)
	p.items = append(p.items, it)
	p.note(it.canonical(), at)
	switch f.data {
	case dataForward:
		err = p.forward(i)
	case dataCommands:
		err = p.commands(i)
	}
	p.items[i].kids = len(p.items) - 1 - i
	return int(size), err
}

func (p *parser) forward(i int) error {
	it := p.items[i]
	_, err := p.dispatch(it.raw[AtForwarded:], it.at+AtForwarded, place{in: it.form, to: Subordinate, whole: true})
	if err != nil {
		return shift(err, AtForwarded)
	}
	switch name := p.items[i+1].form.name; name {
	case nameGo, "TERMINATE":
		return nil
	default:
		return bad(ErrFormat, AtForwarded, it.form.name, "%s can't be forwarded", name)
	}
}

func (p *parser) commands(i int) error {
	it := p.items[i]
	f, b, n, at := it.form, it.raw, int(it.value("count")), HeaderSize
	switch {
	case n == 0:
		return limit(f.name, "count", n, "1 to 65535", "leave an empty one out")
	case it.in != nil && it.in.data == dataCommands:
		return bad(ErrFormat, 0, f.name, "a sequence in a sequence: put its commands into this one")
	}
	for k := range n {
		start := SlotStride(at)
		if start > len(b) {
			return bad(ErrTruncated, len(b), f.name, "%d bytes, command %d of %d begins at %d", len(b), k, n, start)
		}
		p.note(zeros(b[:start], at, f.name), it.at)
		size, err := p.dispatch(b[start:], it.at+start, place{in: f, to: it.to, header: it.header && k == n-1})
		if err != nil {
			return shift(err, start)
		}
		at = start + size
	}
	if at != len(b) {
		return bad(ErrFormat, at, f.name, "%d bytes in the relay, its %d commands end at %d", len(b), n, at)
	}
	return nil
}

// Entry is a prefetcher command of a stream.
type Entry struct {
	Offset  int
	Raw     []byte          // up to the next command, or all
	Command PrefetchCommand // nil if it can't be read
}

// Dispatch is the dispatcher command in a relay, and the dispatcher that gets it.
func (e Entry) Dispatch() (c DispatchCommand, to Dispatcher, ok bool) {
	switch p := e.Command.(type) {
	case RelayInline:
		return p.Command, p.To, true
	case RelayInlineNoFlush:
		return p.Command, Master, true
	case ExecBufEnd:
		return ExecBufEndDispatch{}, Master, true
	}
	return nil, 0, false
}

// Relayed is a dispatcher command in a stream.
type Relayed struct {
	At      int // offset in the stream
	To      Dispatcher
	Command DispatchCommand
	Header  bool // a relay after it brings its data
}

// Relayed yields the dispatcher commands in an entry: none, one, or those of a sequence. A
// forwarded command stays in its ForwardSubordinate.
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
	i := 0
	for its := range e.sequence {
		if !yield(Relayed{e.Offset + its[0].at, to, s.Commands[i], its[0].header}) {
			return
		}
		i++
	}
}

func (e Entry) sequence(yield func([]item) bool) {
	p := parser{v: own()}
	_, header := e.Command.(RelayInlineNoFlush)
	n := HeaderSize + int(le.Uint32(e.Raw[4:]))
	if _, err := p.dispatch(e.Raw[HeaderSize:n], AtRelayed, place{to: Dispatcher(e.Raw[1]), header: header, whole: true}); err != nil {
		return
	}
	for its := p.items[1:]; len(its) > 0; its = its[1+its[0].kids:] {
		if !yield(its[:1+its[0].kids]) {
			return
		}
	}
}

// All reads a stream as far as the prefetcher would: to its end, or to an EXEC_BUF_END, which zeros
// may follow. An error beside an entry is about that command only. Offsets in errors count from the
// start of the stream.
func All(l Layout, stream []byte) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		p := parser{v: own(), l: l}
		p.all(stream, yield)
	}
}

func (p *parser) all(stream []byte, yield func(Entry, error) bool) {
	for at := 0; at < len(stream); {
		c, n, err := p.decode(stream[at:])
		if err != nil {
			err = shift(err, at)
		}
		e := Entry{Offset: at, Raw: stream[at : at+n : at+n], Command: c}
		if n == 0 {
			e.Raw = stream[at:]
		}
		if !yield(e, err) || n == 0 || PrefetchID(stream[at]) == PrefetchExecBufEnd {
			return
		}
		at += n
	}
}
