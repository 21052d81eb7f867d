package cq

// Reading of the commands that are this runtime's own, which stand beside those of the pinned revision.

// all returns what was read, in order: offsets count from the prefetcher's command.
func (d *revisionReader) all() []Reading {
	if d.several != nil {
		return d.several
	}
	return []Reading{d.r}
}

// sequence reads the commands of a SEQUENCE.
func (d *revisionReader) sequence(p []byte, noFlush bool) error {
	c, err := DecodeDispatch(p, noFlush) // it tells where each begins, and that nothing lies between
	if err != nil {
		return shift(err, HeaderSize)
	}
	whole, n := d.r, len(c.(Sequence).Commands)
	c.(Sequence).each(noFlush, func(at int, one DispatchCommand, header bool) bool {
		inner := revisionReader{v: d.v, l: d.l, form: d.form, r: whole}
		if noFlush && !header {
			inner.r.Name = PrefetchRelayInline.String()
		}
		if err = inner.inline(p[at : at+size(one, header)]); err != nil {
			err = shift(err, at)
			return false
		}
		r := inner.all()[0]
		r.At += at
		if len(d.several) > 0 {
			r.Offset = HeaderSize + at
			last := &d.several[len(d.several)-1]
			last.Size = r.Offset - last.Offset
		}
		d.several, d.missing = append(d.several, r), inner.missing
		return true
	})
	if err != nil {
		return err
	}
	last := &d.several[n-1]
	last.Size = whole.Size - last.Offset
	d.r = whole
	return nil
}

// forwardSubordinate reads a FORWARD_SUBORDINATE as the command in it, which the subordinate carries out.
func (d *revisionReader) forwardSubordinate(p []byte) error {
	if _, err := DecodeDispatch(p, false); err != nil {
		return shift(err, HeaderSize)
	}
	whole := d.r
	inner := revisionReader{v: d.v, l: d.l, form: d.form, r: whole}
	if err := inner.inline(p[AtForwarded:]); err != nil {
		return shift(err, AtForwarded)
	}
	d.r = inner.r
	d.r.Relay, d.r.Who, d.r.At = DispatchID(p[0]).String(), Subordinate.String(), d.r.At+AtForwarded
	return nil
}

// readArg reads a READ_ARG.
func (d *revisionReader) readArg(p []byte) error {
	c, err := DecodeDispatch(p, false)
	if err != nil {
		return shift(err, HeaderSize)
	}
	d.r.Name, d.r.Fields = c.Name(), c.Fields(d.l)
	return nil
}
