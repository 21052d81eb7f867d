package usage

import (
	"errors"
	"fmt"
	"runtime/debug"
	"sync/atomic"
	"time"
)

// Snapshot holds the contents of a directory's logs.
type Snapshot struct {
	Time     time.Time
	Entries  []Entry // of live processes, by process and path
	Dead     int     // logs of dead processes
	Problems []error // one for each unreadable log
}

// errUnfinished is the error of a log whose process is still creating it, or died meanwhile.
var errUnfinished = errors.New("the usage log has only been begun")

// reader copies logs from mapped memory.
type reader struct {
	patience int    // remaining pauses for records being updated
	between  func() // called between the loads of a record, in tests
}

// pauses and pause bound the wait for writers that stopped inside an update: preempted, or in a
// debugger. A record is tried spins times before each pause.
const (
	spins  = 64
	pauses = 64
	pause  = 100 * time.Microsecond
)

func newReader() *reader { return &reader{patience: pauses} }

// copy copies a log, whose memory may change and vanish meanwhile.
func (r *reader) copy(mem []byte) (b []byte, err error) {
	old := debug.SetPanicOnFault(true)
	defer func() {
		debug.SetPanicOnFault(old)
		if e := recover(); e != nil {
			if !faulted(e, mem) {
				panic(e)
			}
			b, err = nil, ErrTruncated
		}
	}()
	if len(mem) != Size {
		return nil, fmt.Errorf("%w: it has %d B, a log has %d", ErrFormat, len(mem), Size)
	}
	b = make([]byte, Size)
	move(b, mem, atMagic)
	if *word(b, atMagic) == 0 {
		return nil, errUnfinished
	}
	for at := 8; at < atRecords; at += 8 {
		move(b, mem, at)
	}
	for _, k := range Kinds() {
		r.record(b, mem, atRecords+int(k)*recordSize)
	}
	return b, nil
}

func move(dst, src []byte, at int) { *word(dst, at) = atomic.LoadUint64(word(src, at)) }

// record copies a record. If the writer never finishes, the copy is marked as torn.
func (r *reader) record(dst, src []byte, at int) {
	for {
		for range spins {
			move(dst, src, at+atSequence)
			for w := atCapacity; w < recordSize; w += 8 {
				if r.between != nil {
					r.between()
				}
				move(dst, src, at+w)
			}
			seq := *word(dst, at+atSequence)
			if seq&1 == 0 && atomic.LoadUint64(word(src, at+atSequence)) == seq {
				return
			}
		}
		if r.patience == 0 {
			*word(dst, at+atSequence) |= 1
			return
		}
		r.patience--
		time.Sleep(pause)
	}
}
