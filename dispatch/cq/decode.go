package cq

// Decode reads the prefetcher command at the start of b and returns it with the
// number of bytes to the next one. The command's data alias b.
//
// n is 0 if the size of the command could not be told; then c is nil too and
// nothing after it can be read. n is positive beside an error if only this
// command is bad: c is then nil, or what could be read. With ErrPadding c is the
// whole command. A relay whose payload could not be read has an Opaque in it. A
// command without an error encodes to the n bytes that it came from.
func Decode(l Layout, b []byte) (c PrefetchCommand, n int, err error) {
	if !l.Valid() {
		return nil, 0, limit("decoder", "layout", uint8(l), "Wormhole or Blackhole", "pass the device's")
	}
	if len(b) < HeaderSize {
		return nil, 0, bad(ErrTruncated, len(b), "", "%d bytes left, a command has at least 16", len(b))
	}
	d := decoder{l: l, b: b, id: PrefetchID(b[0])}
	c, err = d.command()
	return c, d.n, err
}

type decoder struct {
	l  Layout
	b  []byte
	id PrefetchID
	n  int // bytes to the next command, once known
}

func (d *decoder) command() (PrefetchCommand, error) {
	lo, hi := le.Uint64(d.b), le.Uint64(d.b[8:])
	switch d.id {
	case PrefetchRelayLinear, PrefetchRelayLinearH:
		return d.linear()
	case PrefetchRelayPaged:
		var c RelayPaged
		c.read(lo, hi)
		return bare(d, c, c.words)
	case PrefetchRelayPagedPacked:
		return d.pagedPacked(lo, hi)
	case PrefetchRelayInline, PrefetchRelayInlineNoFlush, PrefetchExecBufEnd:
		return d.relay(lo, hi)
	case PrefetchExecBuf:
		var c ExecBuf
		c.read(lo, hi)
		return bare(d, c, c.words)
	case PrefetchStall:
		return bare(d, Stall{}, idOnly(d.id))
	case PrefetchDebug:
		return d.debug(lo, hi)
	case PrefetchTerminate:
		return bare(d, TerminatePrefetch{}, idOnly(d.id))
	case PrefetchPagedToRingbuffer:
		var c PagedToRingbuffer
		c.read(lo, hi)
		return bare(d, c, c.words)
	case PrefetchSetRingbufferOffset:
		var c SetRingbufferOffset
		c.read(lo, hi)
		return bare(d, c, c.words)
	case PrefetchRelayRingbuffer:
		return d.ring(lo, hi)
	case PrefetchLoopBegin:
		var c LoopBegin
		c.read(lo, hi)
		return bare(d, c, c.words)
	case PrefetchLoopEnd:
		var c LoopEnd
		c.read(lo, hi)
		return bare(d, c, c.words)
	case PrefetchBranch:
		return d.branch()
	case PrefetchCall:
		var c CallTrace
		c.read(lo, hi)
		return bare(d, c, c.words)
	}
	if d.id.Newer() {
		return nil, bad(ErrNewer, 0, d.id.String(),
			"id %d is not in the revision read here: the stream needs other firmware and another decoder", uint8(d.id))
	}
	return nil, bad(ErrIllegal, 0, "", "id is %d: is this the start of a command, and the right layout?", uint8(d.id))
}

func idOnly(id PrefetchID) func() (lo, hi uint64) {
	return func() (uint64, uint64) { return uint64(id), 0 }
}

// take sets the size of the command to the stride of size bytes.
func (d *decoder) take(size int) error {
	n := d.l.Stride(size)
	if n > len(d.b) {
		return bad(ErrTruncated, len(d.b), d.id.String(), "it takes %d bytes, %d are left", n, len(d.b))
	}
	d.n = n
	return nil
}

// padding demands zeros from byte end of the command to its stride.
func (d *decoder) padding(end int) error { return zeros(d.b[:d.n], end, d.id.String()) }

func zeros(b []byte, from int, name string) error {
	for i, v := range b[from:] {
		if v != 0 {
			return bad(ErrPadding, from+i, name, "padding byte is 0x%02x, want 0", v)
		}
	}
	return nil
}

// same demands that the header's bytes are those an encoder writes.
func same(b []byte, name string, w ...uint64) error {
	for i, v := range w {
		if x := le.Uint64(b[8*i:]) ^ v; x != 0 {
			at := 8 * i
			for x&0xFF == 0 {
				x >>= 8
				at++
			}
			return bad(ErrPadding, at, name, "header byte is 0x%02x, an encoder writes 0x%02x", b[at], byte(v>>(at%8*8)))
		}
	}
	return nil
}

// bare finishes a command of one slot.
func bare[C PrefetchCommand](d *decoder, c C, words func() (lo, hi uint64)) (PrefetchCommand, error) {
	if err := d.take(HeaderSize); err != nil {
		return nil, err
	}
	lo, hi := words()
	if err := same(d.b, d.id.String(), lo, hi); err != nil {
		return c, err
	}
	return c, d.padding(HeaderSize)
}

func (d *decoder) linear() (PrefetchCommand, error) {
	if err := d.take(LargeHeaderSize); err != nil {
		return nil, err
	}
	w := readWords(d.b)
	var c PrefetchCommand
	var want [4]uint64
	if d.id == PrefetchRelayLinear {
		var r RelayLinear
		r.read(w)
		c, want = r, r.words()
	} else {
		var r RelayLinearH
		r.read(w)
		c, want = r, r.words()
	}
	if err := same(d.b, d.id.String(), want[:]...); err != nil {
		return c, err
	}
	return c, d.padding(LargeHeaderSize)
}

func readWords(b []byte) [4]uint64 {
	return [4]uint64{le.Uint64(b), le.Uint64(b[8:]), le.Uint64(b[16:]), le.Uint64(b[24:])}
}

// stride takes the command's size from its stride field, which is what the
// firmware follows, and demands that it is what size bytes need.
func (d *decoder) stride(size uint64, field uint32, at int) error {
	switch {
	case uint64(field) < size:
		return bad(ErrFormat, at, d.id.String(), "stride is %d for %d bytes", field, size)
	case uint64(field)%uint64(d.l.PCIeAlign()) != 0:
		return bad(ErrFormat, at, d.id.String(), "stride %d is no multiple of the %v's %d bytes", field, d.l, d.l.PCIeAlign())
	case uint64(field) > uint64(len(d.b)):
		return bad(ErrTruncated, len(d.b), d.id.String(), "its stride is %d bytes, %d are left", field, len(d.b))
	}
	d.n = int(field)
	return nil
}

// longer tells of a stride that is larger than it need be.
func (d *decoder) longer(size, at int) error {
	if want := d.l.Stride(size); d.n != want {
		return bad(ErrPadding, at, d.id.String(), "stride is %d, an encoder writes %d", d.n, want)
	}
	return nil
}

func (d *decoder) relay(lo, hi uint64) (PrefetchCommand, error) {
	to, length, name := Dispatcher(lo>>8), uint32(lo>>32), d.id.String()
	size := HeaderSize + uint64(length)
	if err := d.stride(size, uint32(hi), 8); err != nil {
		return nil, err
	}
	p := d.b[HeaderSize:size:size]
	noFlush := d.id == PrefetchRelayInlineNoFlush
	var c PrefetchCommand
	var inner DispatchCommand
	var err error
	if inner, err = DecodeDispatch(p, noFlush); err != nil {
		err = shift(err, HeaderSize)
		if !isPadding(err) {
			inner = Opaque{Payload: p}
		}
	}
	switch {
	case d.id == PrefetchExecBufEnd:
		if _, ok := inner.(ExecBufEndDispatch); !ok || to != Master {
			return nil, bad(ErrFormat, AtRelayed, name, "it carries %s to %v, want EXEC_BUF_END to the master", inner.Name(), to)
		}
		c = ExecBufEnd{}
	case noFlush && to != Master, to > Subordinate:
		return nil, bad(ErrFormat, 1, name, "dispatcher is %d", uint8(to))
	case noFlush:
		c = RelayInlineNoFlush{inner}
	default:
		c = RelayInline{to, inner}
	}
	if err != nil {
		return c, err
	}
	w0, w1 := relayWords(d.id, to, int(length), d.n)
	if err := same(d.b, name, w0, w1); err != nil {
		return c, err
	}
	if err := d.longer(int(size), 8); err != nil {
		return c, err
	}
	return c, d.padding(int(size))
}

func (d *decoder) debug(lo, hi uint64) (PrefetchCommand, error) {
	n := uint32(lo >> 32)
	size := HeaderSize + uint64(n)
	if err := d.stride(size, uint32(hi), 8); err != nil {
		return nil, err
	}
	c := DebugPrefetch{Key: uint16(lo >> 16), Data: d.b[HeaderSize:size:size]}
	w0, w1 := debugWords(uint8(d.id), c.Key, n, uint32(hi))
	if err := same(d.b, d.id.String(), w0, w1); err != nil {
		return c, err
	}
	if err := d.longer(int(size), 8); err != nil {
		return c, err
	}
	return c, d.padding(int(size))
}

func (d *decoder) pagedPacked(lo, hi uint64) (PrefetchCommand, error) {
	n, total := int(uint16(lo>>16)), uint32(lo>>32)
	end := AtPagedSub(n)
	if err := d.stride(uint64(end), uint32(hi), 8); err != nil {
		return nil, err
	}
	if n == 0 || n > maxPagedSubs {
		return nil, limit(d.id.String(), "sub-commands", n, "1 to 35", "the firmware keeps no more")
	}
	c := RelayPagedPacked{Subs: make([]PagedSub, n)}
	var sum uint64
	for i := range c.Subs {
		q := d.b[AtPagedSub(i):]
		c.Subs[i] = PagedSub{le.Uint16(q), le.Uint16(q[2:]), le.Uint32(q[AtPagedSubBase:]), le.Uint32(q[atPagedSubLength:])}
		sum += uint64(c.Subs[i].Length)
	}
	if sum != uint64(total) {
		return c, bad(ErrFormat, 4, d.id.String(), "total length is %d, the sub-commands add up to %d", total, sum)
	}
	w0, w1 := pagedPackedWords(n, total, d.n)
	if err := same(d.b, d.id.String(), w0, w1); err != nil {
		return c, err
	}
	if err := d.longer(end, 8); err != nil {
		return c, err
	}
	return c, d.padding(end)
}

func (d *decoder) ring(lo, _ uint64) (PrefetchCommand, error) {
	n := int(uint16(lo >> 16))
	end := atRingSub(n)
	if err := d.stride(uint64(end), uint32(lo>>32), 4); err != nil {
		return nil, err
	}
	if n == 0 || n > MaxRingSubs {
		return nil, limit(d.id.String(), "sub-commands", n, "1 to 52", "the firmware keeps no more")
	}
	c := RelayRingbuffer{Subs: make([]RingSub, n)}
	for i := range c.Subs {
		q := d.b[atRingSub(i):]
		c.Subs[i] = RingSub{le.Uint32(q), le.Uint32(q[atRingSubLength:])}
	}
	w0, w1 := ringWords(n, d.n)
	if err := same(d.b, d.id.String(), w0, w1); err != nil {
		return c, err
	}
	if err := d.longer(end, 4); err != nil {
		return c, err
	}
	return c, d.padding(end)
}
