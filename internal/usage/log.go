package usage

import (
	"os"
	"runtime/debug"
	"sync/atomic"
)

// Dir is where logs are unless a program chooses another place.
const Dir = "/dev/shm"

// prefix begins the name of each log, which goes on with the process id and eight random letters:
// reprise.1234.0f3a9c51.
const prefix = "reprise."

// Log is a log that this process writes. Its methods may be called from any goroutine, except Set.
type Log struct {
	path   string
	file   *os.File
	mem    []byte
	dead   atomic.Bool // Set stores nothing any more: the log is closed, or the file was cut off
	closed atomic.Bool
}

// Path returns the log's file.
func (l *Log) Path() string { return l.path }

// Set records how much of one kind of memory is in use. For each kind, only one goroutine at a time
// may call it. It does six stores into one cache line, allocates nothing and makes no system call.
// After Close it does nothing.
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

// guard ends a Set. If the file was cut off, which its owner can do, the store's fault (SIGBUS)
// ends the log and not the process. Other faults stay panics.
func (l *Log) guard(old bool) {
	debug.SetPanicOnFault(old)
	if e := recover(); e != nil {
		if !faulted(e, l.mem) {
			panic(e)
		}
		l.dead.Store(true)
	}
}

// faulted reports whether a recovered panic is the fault of an access to mapped memory.
func faulted(recovered any, mem []byte) bool {
	f, ok := recovered.(interface{ Addr() uintptr })
	return ok && f.Addr() >= address(mem) && f.Addr() < address(mem)+uintptr(len(mem))
}
