package cq

// checker follows a queue over its fetch entries: a header and its data may be in two entries, and
// STALLs count from the start of the queue.
type checker struct {
	Layout Layout
	Limits Limits

	header   string // command of a NOFLUSH that waits for its data
	sent     uint64
	wants    uint64 // bytes of its data
	notifies int    // WAITs with NotifyFetch
	stalls   int
	args     int // READ_ARGs since the last go signal
	argBytes int
	flow     flow
}

// Check tests the bytes of the first fetch entry of a queue.
func Check(l Layout, m Limits, stream []byte) error {
	c := checker{Layout: l, Limits: m}
	if err := c.Entry(stream); err != nil {
		return err
	}
	return c.Idle()
}

// CheckTrace tests a stream for an EXEC_BUF. It must end in EXEC_BUF_END; zeros may follow.
func CheckTrace(l Layout, m Limits, stream []byte) error {
	c := checker{Layout: l, Limits: m}
	end, err := c.run(stream, true)
	if err != nil {
		return err
	}
	if end < 0 {
		return bad(ErrOrder, len(stream), nameEnd,
			"the trace does not end in it: the prefetcher would run on into whatever follows")
	}
	if err := zeros(stream, end, nameEnd); err != nil {
		return err
	}
	return c.Idle()
}

func (c *checker) Entry(stream []byte) error {
	if n := len(stream); n == 0 || n > c.Limits.MaxCommand {
		return limit("fetch entry", "size", n, atMost(c.Limits.MaxCommand)+" bytes and not 0", "split the commands over several entries")
	}
	_, err := c.run(stream, false)
	return err
}

func (c *checker) Idle() error {
	if c.header != "" {
		return bad(ErrOrder, 0, c.header, "the data for its NOFLUSH never come: put a relay after it")
	}
	if c.args > 0 {
		return bad(ErrOrder, 0, DispatchReadArg.String(), "no FORWARD_WITH_ARGS after it: the argument would go to a later program")
	}
	if c.notifies != c.stalls {
		return bad(ErrOrder, 0, DispatchWait.String(), "%d WAITs notify the prefetcher for %d STALLs: every later STALL would hang",
			c.notifies, c.stalls)
	}
	return nil
}

// run returns the offset after an EXEC_BUF_END, or -1.
func (c *checker) run(stream []byte, trace bool) (end int, err error) {
	execs := 0
	p := parser{v: own(), l: c.Layout}
	for e, err := range func(yield func(Entry, error) bool) { p.all(stream, yield) } {
		if err == nil {
			err = p.validate(c.Limits)
			if err == nil {
				err = c.order(&p, e.Command, e.Offset == 0 && len(e.Raw) == len(stream))
			}
			if err != nil {
				err = shift(err, e.Offset)
			}
		}
		if err != nil {
			return -1, err
		}
		name := p.items[0].form.name
		if e.Command.ID().control() && !trace {
			return -1, misplaced(e.Offset, name)
		}
		if err := c.flow.add(e, name, c.header != ""); err != nil {
			return -1, err
		}
		switch e.Command.(type) {
		case ExecBufEnd:
			if !trace {
				return -1, misplaced(e.Offset, name)
			}
			return e.Offset + len(e.Raw), c.flow.check()
		case ExecBuf:
			if execs++; trace || execs > 1 {
				return -1, bad(ErrOrder, e.Offset, name,
					"one EXEC_BUF in a fetch entry, none in a trace: the prefetcher keeps one return address")
			}
		}
	}
	return -1, nil
}

func misplaced(at int, name string) error {
	return bad(ErrOrder, at, name, "it is in a fetch entry, not in a buffer that an EXEC_BUF runs")
}

func (p *parser) validate(m Limits) error {
	if p.n > m.MaxCommand {
		return limit(p.items[0].form.name, "size", p.n, atMost(m.MaxCommand)+" bytes", "split it, or send the data by a relay")
	}
	for i := range p.items {
		it := &p.items[i]
		err := it.validate(p.l, m)
		if err == nil && it.in != nil {
			err = it.fits(m)
		}
		if err != nil {
			return shift(err, it.at)
		}
	}
	if p.items[0].form.data == dataRelay && len(p.items) == 1 {
		return bad(ErrFormat, AtRelayed, p.items[0].form.name, "%d bytes that are no known command", p.items[0].data)
	}
	return nil
}

func (it *item) fits(m Limits) error {
	n, f := len(it.raw), it.form
	switch {
	case it.in.data == dataCommands:
		return nil
	case it.in.data == dataForward:
		if it.in.name == nameWithArgs && f.name != nameGo {
			return bad(ErrFormat, 0, it.in.name, "only a go signal takes arguments, this is %s", f.name)
		}
	case it.to == Subordinate && !f.sub:
		return bad(ErrFormat, 0, f.name, "dispatch_s knows go signals, their tables, WAIT and TERMINATE only: send it to the master")
	case it.to == Subordinate && n > m.SubordinatePage:
		return limit(f.name, "size", n, atMost(m.SubordinatePage)+" bytes, a page of dispatch_s",
			"send fewer words, or send it to the master")
	case (it.header || f.data == dataCommands) && n > m.DispatchPage:
		return limit(f.name, "size", n, atMost(m.DispatchPage)+" bytes, a page of the dispatcher", "use several commands")
	// The prefetcher takes all pages of a relay at once, and the dispatcher returns pages a block
	// late: only half of its ring is sure to come free.
	case it.to == Master && n > m.DispatchRing/2:
		return limit(f.name, "size", n, atMost(m.DispatchRing/2)+" bytes, half the dispatcher's ring",
			"split it, or send the data by a relay")
	}
	return nil
}

func (c *checker) order(p *parser, command PrefetchCommand, alone bool) error {
	name := p.items[0].form.name
	brings, relays := p.items[0].relayed()
	if _, ok := command.(RelayLinearH); ok && !alone {
		return bad(ErrOrder, 0, name, "it must be alone in its fetch entry")
	}
	if !relays && c.header != "" {
		return bad(ErrOrder, 0, name, "the relay with the data of the %s before it is missing", c.header)
	}
	if relays {
		if c.header == "" {
			return bad(ErrOrder, 0, name, "there is no NOFLUSH with a header before it")
		}
		if page := uint64(c.Limits.DispatchPage); brings < c.wants || pages(c.sent+brings, page) != pages(c.sent+c.wants, page) {
			return bad(ErrOrder, 0, name, "it brings %d bytes for a %s of %d: the dispatcher would lose the start of the next command",
				brings, c.header, c.wants)
		}
		c.header = ""
	}
	switch command := command.(type) {
	case RelayInline:
		if command.To == Master {
			return c.count(command.Command)
		}
	case RelayInlineNoFlush:
		last := &p.items[len(p.items)-1]
		c.header, c.sent, c.wants = p.items[1].form.name, uint64(len(p.items[1].raw)), last.data-uint64(last.inline())
		return c.count(command.Command)
	case Stall:
		if c.stalls++; c.stalls != c.notifies {
			return bad(ErrOrder, 0, name, "it is number %d after %d WAITs that notify the prefetcher: it would hang", c.stalls, c.notifies)
		}
	}
	return nil
}

func (c *checker) count(d DispatchCommand) error {
	switch d := d.(type) {
	case Wait:
		if d.Flags&NotifyFetch != 0 {
			c.notifies++
		}
	case ReadArg:
		c.args, c.argBytes = c.args+1, c.argBytes+d.Size()
		if c.args > MaxReadArgs || c.argBytes > MaxReadArgBytes {
			return bad(ErrOrder, 0, d.ID().String(), "%d of them with %d bytes before the go signal, the dispatcher has room for %d and %d",
				c.args, c.argBytes, MaxReadArgs, MaxReadArgBytes)
		}
	case ForwardSubordinate:
		if (c.args > 0) != d.Args {
			return bad(ErrOrder, 0, d.ID().String(), "%d READ_ARGs before it: FORWARD_WITH_ARGS stands after one or more, and nothing else does",
				c.args)
		}
		c.args, c.argBytes = 0, 0
	case Sequence:
		for _, e := range d.Commands {
			if err := c.count(e); err != nil {
				return err
			}
		}
	}
	return nil
}

func pages(n, page uint64) uint64 {
	if page == 0 {
		return n
	}
	return (n + page - 1) / page
}
