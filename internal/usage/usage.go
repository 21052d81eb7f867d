// Package usage shows other processes how much device memory this process uses, and how busy its
// devices are.
//
// A process that opens a device creates a [Log]: a small file in shared memory. [Log.Set] updates a
// number by a few stores, without a system call or a wait. [Read] reads the logs of all processes
// and opens no device. Only a log's process can write it. It holds a lock, which the kernel
// releases at its end: [Sweep] deletes the caller's logs without a lock. Logs of others aren't
// trusted.
package usage

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/reprise-tt/reprise/allocator"
)

var (
	// ErrFormat is of a file that isn't a log, or has another version.
	ErrFormat = errors.New("not a usage log of this version")
	// ErrTruncated is of a log truncated during the read.
	ErrTruncated = errors.New("the usage log was cut off")
	// ErrUnsupported is of systems without shared files.
	ErrUnsupported = errors.New("no usage logs on this system")
)

const (
	Version = 1    // of the layout; a reader refuses others
	Size    = 4096 // of a log in bytes: one page on every supported system
)

// header is the start of a log, little-endian. The magic number is stored last, and the header
// never changes afterwards. Texts end at their first zero.
type header struct {
	Magic         uint64
	Version, Size uint32
	PID, Flags    uint32
	Start         uint64 // of the process in ticks since boot (proc(5), stat field 22); 0 is unknown
	Namespace     uint64 // inode of the process id's namespace; 0 is unknown
	Opened        int64  // ns since 1970
	NUMA          int32  // memory node of the device, negative if unknown
	_             [12]byte
	Command       [64]byte
	Name          [128]byte
	PCI           [32]byte
	Serial, Arch  [32]byte
}

const (
	atMagic   = 0
	atRecords = 512 // records by kind, then one of Activity and maxQueues of QueueActivity; each is a cache line

	magic        = 0x45474153_55505254 // "TRPUSAGE"
	flagEmulated = 1 << 0

	recordSize  = 64
	recordWords = 7 // after the sequence
	// u64 words of a record. The sequence is odd during an update, else twice the number of
	// updates.
	atSequence = 0
	atCapacity = 8
)

// Records after those of the kinds.
const (
	numKinds       = 5
	activityRecord = numKinds
	queueRecord    = numKinds + 1
	maxQueues      = 2
	numRecords     = queueRecord + maxQueues
)

// Activity is what samples of a device have seen since it was opened.
type Activity struct {
	Samples uint64 `json:"samples"`
	Workers uint64 `json:"workers"`
	Busy    uint64 `json:"busy"`    // workers that ran a kernel, summed over samples
	Kernels uint64 `json:"kernels"` // run on the workers since they started, modulo 2^32; 0 if unknown
}

// QueueActivity is what samples have seen of a command queue's cores. Otherwise they worked.
type QueueActivity struct {
	Samples         uint64 `json:"samples"`
	FetchIdle       uint64 `json:"fetch_idle"`    // the prefetcher waited for the host
	FetchBlocked    uint64 `json:"fetch_blocked"` // it waited for the dispatcher
	DispatchIdle    uint64 `json:"dispatch_idle"` // the dispatcher waited for commands
	DispatchBlocked uint64 `json:"dispatch_blocked"`
}

// Long text is cut.
type Device struct {
	Name     string `json:"name"`             // as opened: a device node, "emulated blackhole 0"
	PCI      string `json:"pci,omitempty"`    // address, "0000:01:00.0"
	Serial   string `json:"serial,omitempty"` // of the board; "" if unknown
	Arch     string `json:"arch,omitempty"`   // "blackhole"
	NUMANode int    `json:"-"`                // negative if unknown
	Emulated bool   `json:"emulated"`         // private to the process
}

// Entry is the contents of a log.
type Entry struct {
	PID       int             `json:"pid"` // in the process's own namespace
	Start     uint64          `json:"-"`   // of the process, in ticks since boot; 0 is unknown
	Namespace uint64          `json:"-"`   // inode of the namespace of PID; 0 is unknown
	Opened    time.Time       `json:"opened"`
	Command   string          `json:"command"`
	Device    Device          `json:"-"`
	Memory    []Record        `json:"memory"` // of each kind that the device has, by Kind
	Activity  Activity        `json:"-"`      // zero until sampled
	Queues    []QueueActivity `json:"queues,omitempty"`

	Path    string `json:"log"`
	UID     int    `json:"uid"`                   // owner of the file, by the system
	Foreign bool   `json:"foreign_pid,omitempty"` // PID belongs to another namespace
}

// Record is one kind's memory.
type Record struct {
	Kind allocator.Kind `json:"kind"`
	allocator.Usage
	Updates uint64 `json:"updates"`
	Torn    bool   `json:"torn,omitempty"` // the writer was inside an update during the whole read: the numbers may be of different ones
}

// Decode decodes the untrusted bytes of a log. The error wraps [ErrFormat].
func Decode(b []byte) (*Entry, error) {
	le := binary.LittleEndian
	refuse := func(format string, args ...any) (*Entry, error) {
		return nil, fmt.Errorf("usage: decode: %w: %s", ErrFormat, fmt.Sprintf(format, args...))
	}
	if len(b) != Size {
		return refuse("it has %d B, a log has %d", len(b), Size)
	}
	var h header
	_, _ = binary.Decode(b, le, &h) // b is long enough
	if h.Magic != magic {
		return refuse("it starts with % x", b[:8])
	}
	if h.Version != Version || h.Size != Size {
		return refuse("version %d of %d B, this program reads version %d of %d B", h.Version, h.Size, Version, Size)
	}
	if h.PID == 0 || h.PID > 1<<30 {
		return refuse("process %d", h.PID)
	}
	e := &Entry{PID: int(h.PID), Start: h.Start, Namespace: h.Namespace, Opened: time.Unix(0, h.Opened), Command: text(h.Command[:]),
		Device: Device{Name: text(h.Name[:]), PCI: text(h.PCI[:]), Serial: text(h.Serial[:]), Arch: text(h.Arch[:]),
			NUMANode: int(h.NUMA), Emulated: h.Flags&flagEmulated != 0}}
	words := func(record int) (sequence uint64, w [recordWords]uint64) {
		r := b[atRecords+record*recordSize:]
		for i := range w {
			w[i] = le.Uint64(r[8*(i+1):])
		}
		return le.Uint64(r[atSequence:]), w
	}
	for _, k := range allocator.Kinds() {
		if seq, w := words(int(k)); seq != 0 { // else the device doesn't have it
			e.Memory = append(e.Memory, Record{k,
				allocator.Usage{Capacity: w[0], Allocated: w[1], Peak: w[2], Extents: w[3]}, seq / 2, seq&1 != 0})
		}
	}
	_, w := words(activityRecord)
	e.Activity = Activity{w[0], w[1], w[2], w[3]}
	for i := range maxQueues {
		if _, w := words(queueRecord + i); w[0] > 0 {
			e.Queues = append(e.Queues, QueueActivity{w[0], w[1], w[2], w[3], w[4]})
		}
	}
	return e, nil
}

// encode writes the header of a log without the magic number.
func (e *Entry) encode(b []byte) {
	h := header{Version: Version, Size: Size, PID: uint32(e.PID), Start: e.Start, Namespace: e.Namespace, Opened: e.Opened.UnixNano(),
		NUMA: int32(e.Device.NUMANode)}
	if e.Device.Emulated {
		h.Flags = flagEmulated
	}
	copy(h.Command[:], e.Command)
	copy(h.Name[:], e.Device.Name)
	copy(h.PCI[:], e.Device.PCI)
	copy(h.Serial[:], e.Device.Serial)
	copy(h.Arch[:], e.Device.Arch)
	_, _ = binary.Encode(b, binary.LittleEndian, &h) // b is long enough
}

// text returns a field up to the first zero, made printable.
func text(b []byte) string {
	if i := bytes.IndexByte(b, 0); i >= 0 {
		b = b[:i]
	}
	for cut := 0; cut < utf8.UTFMax-1 && len(b) > 0; cut++ { // a character may be cut
		if r, n := utf8.DecodeLastRune(b); r != utf8.RuneError || n != 1 {
			break
		}
		b = b[:len(b)-1]
	}
	return strings.Map(func(r rune) rune {
		if r == utf8.RuneError || !unicode.IsPrint(r) {
			return '?'
		}
		return r
	}, string(b))
}

// Snapshot holds the contents of a directory's logs.
type Snapshot struct {
	Time     time.Time
	Entries  []Entry
	Dead     int
	Problems []error
}

// errUnfinished is of a log whose process is still creating it, or died meanwhile.
var errUnfinished = errors.New("the usage log has only been begun")

type reader struct {
	patience int    // remaining pauses for records being updated
	between  func() // called between the loads of a record, in tests
}

// The wait for writers that stopped inside an update: preempted, or in a debugger.
const (
	spins  = 64
	pauses = 64
	pause  = 100 * time.Microsecond
)

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
	for i := range numRecords {
		r.record(b, mem, atRecords+i*recordSize)
	}
	return b, nil
}

func move(dst, src []byte, at int) { *word(dst, at) = atomic.LoadUint64(word(src, at)) }

// record marks the copy as torn if the writer never finishes.
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

// Dir is the default folder of logs.
const Dir = "/dev/shm"

// prefix begins each log's name, such as reprise.1234.0f3a9c51.
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

// Set implements allocator.Gauge: it stores into one cache line. Calls for the same kind must not
// be concurrent. After Close it does nothing.
func (l *Log) Set(k allocator.Kind, u allocator.Usage) {
	if k.Valid() {
		l.set(int(k), [recordWords]uint64{u.Capacity, u.Allocated, u.Peak, u.Extents})
	}
}

// SetActivity stores what has been sampled. Calls must not be concurrent.
func (l *Log) SetActivity(a Activity, queues ...QueueActivity) {
	l.set(activityRecord, [recordWords]uint64{a.Samples, a.Workers, a.Busy, a.Kernels})
	for i, q := range queues[:min(len(queues), maxQueues)] {
		l.set(queueRecord+i, [recordWords]uint64{q.Samples, q.FetchIdle, q.FetchBlocked, q.DispatchIdle, q.DispatchBlocked})
	}
}

func (l *Log) set(record int, words [recordWords]uint64) {
	if l.dead.Load() {
		return
	}
	defer l.guard(debug.SetPanicOnFault(true))
	at := atRecords + record*recordSize
	seq := word(l.mem, at+atSequence)
	n := atomic.LoadUint64(seq)
	atomic.StoreUint64(seq, n|1)
	for i, w := range words {
		store(word(l.mem, at+8*(i+1)), w)
	}
	atomic.StoreUint64(seq, (n|1)+1)
}

// watchName is a file whose modification time is that of the monitors' last poll.
const watchName = "reprise.watch"

const watchFor = 3 * time.Second // after a poll

// Watched reports whether a monitor polled lately. A time in the future doesn't count.
func (l *Log) Watched() bool {
	st, err := os.Lstat(filepath.Join(filepath.Dir(l.path), watchName))
	return err == nil && time.Since(st.ModTime()).Abs() < watchFor
}

// Sampler calls sample each interval while a log is watched, which it checks once a second.
type Sampler struct {
	mu      sync.Mutex
	timer   *time.Timer
	stopped bool
}

// StartSampler begins with the first look in a second.
func StartSampler(l *Log, interval time.Duration, sample func()) *Sampler {
	s := &Sampler{}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.timer = time.AfterFunc(time.Second, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.stopped {
			return
		}
		next := time.Second
		if l.Watched() {
			sample()
			next = interval
		}
		s.timer.Reset(next)
	})
	return s
}

// Stop returns when no sample is being taken any more. A nil Sampler has stopped.
func (s *Sampler) Stop() {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stopped = true
	s.timer.Stop()
}

// guard ends the log after the fault of a store (SIGBUS) to a truncated file.
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
