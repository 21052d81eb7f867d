package cq

import "iter"

// Entry is one prefetcher command of a stream.
type Entry struct {
	Offset  int             // of the command in the stream
	Raw     []byte          // its bytes up to the next command; all that are left if its size is unknown
	Command PrefetchCommand // nil if it could not be read
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

// All reads a stream command by command, as far as the prefetcher would: to its
// end, or to an EXEC_BUF_END, after which a buffer in DRAM has zeros up to its
// last page. An error beside an entry is about that command only; reading goes
// on after it unless its size is unknown. Offsets in errors count from the
// start of the stream.
func All(l Layout, stream []byte) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		for at := 0; at < len(stream); {
			c, n, err := Decode(l, stream[at:])
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
}
