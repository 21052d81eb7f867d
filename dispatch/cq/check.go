package cq

// checker tests whether the device could run streams: every command against the
// limits of its firmware, and their order. It follows a queue over its fetch
// entries, because a header and its data may be in two of them and because
// STALLs count from the start of the queue. The zero value does not work; set
// Layout and Limits.
type checker struct {
	Layout Layout
	Limits Limits

	header   DispatchCommand // sent by a NOFLUSH, waiting for its data
	notifies int             // WAITs with NotifyFetch
	stalls   int
	args     int  // READ_ARGs since the last go signal
	argBytes int  // of them
	flow     flow // of the trace
}

// Check tests the bytes of one fetch entry of a queue that starts with it.
func Check(l Layout, m Limits, stream []byte) error {
	c := checker{Layout: l, Limits: m}
	if err := c.Entry(stream); err != nil {
		return err
	}
	return c.Idle()
}

// CheckTrace tests a stream for an EXEC_BUF: it must end in EXEC_BUF_END, after
// which there may be zeros.
func CheckTrace(l Layout, m Limits, stream []byte) error {
	c := checker{Layout: l, Limits: m}
	end, err := c.run(stream, true)
	if err != nil {
		return err
	}
	if end < 0 {
		return bad(ErrOrder, len(stream), PrefetchExecBufEnd.String(),
			"the trace does not end in it: the prefetcher would run on into whatever follows")
	}
	if err := zeros(stream, end, PrefetchExecBufEnd.String()); err != nil {
		return err
	}
	return c.Idle()
}

// Entry tests the bytes of the next fetch entry. After an error the checker is
// of no further use.
func (c *checker) Entry(stream []byte) error {
	if n := len(stream); n == 0 || n > c.Limits.MaxCommand {
		return limit("fetch entry", "size", n, words(c.Limits.MaxCommand)+" bytes and not 0", "split the commands over several entries")
	}
	_, err := c.run(stream, false)
	return err
}

// Idle tests that nothing is outstanding: no header waits for data, and every
// notification of the prefetcher has its STALL.
func (c *checker) Idle() error {
	if c.header != nil {
		return bad(ErrOrder, 0, c.header.Name(), "the data for its NOFLUSH never come: put a relay after it")
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
	for e, err := range All(c.Layout, stream) {
		if err == nil {
			err = e.Command.Validate(c.Layout, c.Limits)
			if err == nil {
				err = c.order(e.Command, e.Offset == 0 && len(e.Raw) == len(stream))
			}
			if err != nil {
				err = shift(err, e.Offset)
			}
		}
		if err != nil {
			return -1, err
		}
		if PrefetchID(e.Raw[0]).control() && !trace {
			return -1, bad(ErrOrder, e.Offset, e.Command.Name(), "it is in a fetch entry, not in a buffer that an EXEC_BUF runs")
		}
		if err := c.flow.add(e, c.header != nil); err != nil {
			return -1, err
		}
		switch e.Command.(type) {
		case ExecBufEnd:
			if !trace {
				return -1, bad(ErrOrder, e.Offset, e.Command.Name(), "it is in a fetch entry, not in a buffer that an EXEC_BUF runs")
			}
			return e.Offset + len(e.Raw), c.flow.check()
		case ExecBuf:
			if execs++; trace || execs > 1 {
				return -1, bad(ErrOrder, e.Offset, e.Command.Name(),
					"one EXEC_BUF in a fetch entry, none in a trace: the prefetcher keeps one return address")
			}
		}
	}
	return -1, nil
}

// order tests a command against those before it.
func (c *checker) order(p PrefetchCommand, alone bool) error {
	data, relays := relayed(p)
	if _, ok := p.(RelayLinearH); ok && !alone {
		return bad(ErrOrder, 0, p.Name(), "it must be alone in its fetch entry")
	}
	if !relays && c.header != nil {
		return bad(ErrOrder, 0, p.Name(), "the relay with the data of the %s before it is missing", c.header.Name())
	}
	if relays {
		if c.header == nil {
			return bad(ErrOrder, 0, p.Name(), "there is no NOFLUSH with a header before it")
		}
		head := uint64(size(c.header, true))
		want := uint64(size(c.header, false)) - head
		if page := uint64(c.Limits.DispatchPage); data < want || pages(head+data, page) != pages(head+want, page) {
			return bad(ErrOrder, 0, p.Name(), "it brings %d bytes for a %s of %d: the dispatcher would lose the start of the next command", data,
				c.header.Name(), want)
		}
		c.header = nil
	}
	switch p := p.(type) {
	case RelayInline:
		if p.To == Master {
			return c.count(p.Command)
		}
	case RelayInlineNoFlush:
		c.header = p.Command
		return c.count(p.Command)
	case Stall:
		if c.stalls++; c.stalls != c.notifies {
			return bad(ErrOrder, 0, p.Name(), "it is number %d after %d WAITs that notify the prefetcher: it would hang", c.stalls, c.notifies)
		}
	}
	return nil
}

// count counts the WAITs that notify the prefetcher, and the arguments that a go signal is to read.
func (c *checker) count(d DispatchCommand) error {
	switch d := d.(type) {
	case Wait:
		if d.Flags&NotifyFetch != 0 {
			c.notifies++
		}
	case ReadArg:
		c.args, c.argBytes = c.args+1, c.argBytes+d.Size()
		if c.args > MaxReadArgs || c.argBytes > MaxReadArgBytes {
			return bad(ErrOrder, 0, d.Name(), "%d of them with %d bytes before the go signal, the dispatcher has room for %d and %d", c.args,
				c.argBytes, MaxReadArgs, MaxReadArgBytes)
		}
	case ForwardSubordinate:
		if (c.args > 0) != d.Args {
			return bad(ErrOrder, 0, d.Name(), "%d READ_ARGs before it: FORWARD_WITH_ARGS stands after one or more, and nothing else does", c.args)
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

// relayed is the number of bytes that a command brings for a NOFLUSH, if it does.
func relayed(p PrefetchCommand) (n uint64, ok bool) {
	switch p := p.(type) {
	case RelayLinear:
		return p.Length, true
	case RelayLinearH:
		return uint64(p.Length), true
	case RelayPaged:
		return uint64(p.PageSize)*uint64(p.Pages) - uint64(p.LengthAdjust), true
	case RelayPagedPacked:
		for _, s := range p.Subs {
			n += uint64(s.Length)
		}
		return n, true
	case RelayRingbuffer:
		for _, s := range p.Subs {
			n += uint64(s.Length)
		}
		return n, true
	}
	return 0, false
}
