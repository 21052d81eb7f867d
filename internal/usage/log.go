package usage

import (
	"os"
	"runtime/debug"
	"sync/atomic"
)

// Dir is the default folder of logs.
const Dir = "/dev/shm"

// prefix begins each log's name, such as reprise.1234.0f3a9c51: the process id and random letters.
const prefix = "reprise."

// Log is a log of this process. Its methods may be called concurrently, except Set.
type Log struct {
	path   string
	file   *os.File
	mem    []byte
	dead   atomic.Bool // closed, or the file was truncated
	closed atomic.Bool
}

// Path returns the log's file.
func (l *Log) Path() string { return l.path }

// Set records the use of one kind of memory by six stores into one cache line. Calls for the same
// kind must not be concurrent. After Close it does nothing.
func (l *Log) Set(k Kind, v Value) {
	if !k.valid() || l.dead.Load() {
		return
	}
	defer l.guard(debug.SetPanicOnFault(true))
	at := atRecords + int(k)*recordSize
	seq := word(l.mem, at+atSequence)
	n := atomic.LoadUint64(seq)
	atomic.StoreUint64(seq, n|1)
	store(word(l.mem, at+atCapacity), v.Capacity)
	store(word(l.mem, at+atAllocated), v.Allocated)
	store(word(l.mem, at+atPeak), v.Peak)
	store(word(l.mem, at+atExtents), v.Extents)
	atomic.StoreUint64(seq, (n|1)+1)
}

// guard turns the fault of a store (SIGBUS) to a truncated file into the end of the log.
func (l *Log) guard(old bool) {
	debug.SetPanicOnFault(old)
	if e := recover(); e != nil {
		if !faulted(e, l.mem) {
			panic(e)
		}
		l.dead.Store(true)
	}
}

func faulted(recovered any, mem []byte) bool {
	f, ok := recovered.(interface{ Addr() uintptr })
	return ok && f.Addr() >= address(mem) && f.Addr() < address(mem)+uintptr(len(mem))
}
