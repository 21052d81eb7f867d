//go:build unix

package usage

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// perUser bounds the logs read of one user, who could otherwise keep a reader busy.
const perUser = 1024

// Read reads the logs of a directory. The error is the directory's.
func Read(dir string) (*Snapshot, error) {
	files, err := logs(dir)
	if err != nil {
		return nil, fmt.Errorf("usage: read: %w", err)
	}
	s := &Snapshot{Time: time.Now()}
	seen := map[int]int{}
	r, ns := &reader{patience: pauses}, namespace()
	for _, path := range files {
		e, err := r.read(path, ns, seen)
		switch {
		case errors.Is(err, fs.ErrNotExist), errors.Is(err, errUnfinished), errors.Is(err, errTooMany):
		case errors.Is(err, errDead):
			s.Dead++
		case err != nil:
			s.Problems = append(s.Problems, fmt.Errorf("%s: %w", path, err))
		default:
			s.Entries = append(s.Entries, *e)
		}
	}
	for uid, n := range seen {
		if n > perUser {
			s.Problems = append(s.Problems, fmt.Errorf("user %d has %d logs in %s: only the first %d are read", uid, n, dir, perUser))
		}
	}
	slices.SortStableFunc(s.Entries, func(a, b Entry) int {
		return cmp.Or(cmp.Compare(a.PID, b.PID), a.Opened.Compare(b.Opened), cmp.Compare(a.Path, b.Path))
	})
	return s, nil
}

var (
	errDead    = errors.New("its process is gone")
	errTooMany = errors.New("its user has too many logs")
)

func logs(dir string) ([]string, error) {
	l, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var out []string
	for _, f := range l {
		if strings.HasPrefix(f.Name(), prefix) && logName.MatchString(f.Name()) {
			out = append(out, filepath.Join(dir, f.Name()))
		}
	}
	return out, nil
}

var logName = regexp.MustCompile(`^reprise\.[1-9][0-9]{0,9}\.[0-9a-f]{8}$`)

// open opens a regular file without following links or waiting for pipes.
func open(path string) (fd int, st unix.Stat_t, err error) {
	fd, err = unix.Open(path, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, st, err
	}
	if err = unix.Fstat(fd, &st); err == nil && st.Mode&unix.S_IFMT != unix.S_IFREG {
		err = fmt.Errorf("%w: it is no regular file", ErrFormat)
	}
	if err != nil {
		_ = unix.Close(fd)
		return -1, st, err
	}
	return fd, st, nil
}

func (r *reader) read(path string, ns uint64, seen map[int]int) (*Entry, error) {
	fd, st, err := open(path)
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	uid := int(st.Uid)
	if seen[uid]++; seen[uid] > perUser {
		return nil, errTooMany
	}
	e, err := r.entry(fd, st.Size)
	if err != nil {
		return nil, err
	}
	if e.dead(fd, ns) {
		return nil, errDead
	}
	e.Path, e.UID, e.Foreign = path, uid, e.Namespace != ns
	return e, nil
}

func (r *reader) entry(fd int, size int64) (*Entry, error) {
	if size == 0 {
		return nil, errUnfinished
	}
	if size != Size {
		return nil, fmt.Errorf("%w: it has %d B, a log has %d", ErrFormat, size, Size)
	}
	mem, err := unix.Mmap(fd, 0, Size, unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("map: %w", err)
	}
	defer func() { _ = unix.Munmap(mem) }()
	b, err := r.copy(mem)
	if err != nil {
		return nil, err
	}
	return Decode(b)
}

// dead reports whether a log's process is gone, and its lock free. But any reader can lock the
// file.
func (e *Entry) dead(fd int, ns uint64) bool {
	if unlocked(fd) {
		return true
	}
	if e.Namespace == 0 || e.Namespace != ns || e.Start == 0 {
		return false
	}
	if errors.Is(unix.Kill(e.PID, 0), unix.ESRCH) {
		return true
	}
	now := startOf(e.PID) // 0 if it is hidden from this user
	return now != 0 && max(now, e.Start)-min(now, e.Start) > sameStart
}

// sameStart is one second in ticks: emulators of processors invent start times.
const sameStart = 100

func unlocked(fd int) bool {
	if unix.Flock(fd, unix.LOCK_SH|unix.LOCK_NB) != nil {
		return false
	}
	_ = unix.Flock(fd, unix.LOCK_UN) // at the latest closing the file unlocks
	return true
}

// unfinished generously bounds the time to create a log.
const unfinished = time.Minute

// Sweep deletes logs of the caller's dead processes and returns their number.
func Sweep(dir string) (int, error) {
	files, err := logs(dir)
	if err != nil {
		return 0, fmt.Errorf("usage: sweep: %w", err)
	}
	n := 0
	var errs []error
	r, ns := &reader{}, namespace() // without patience: the numbers don't matter
	for _, path := range files {
		if !r.stale(path, ns) {
			continue
		}
		switch err := os.Remove(path); {
		case err == nil:
			n++
		case !errors.Is(err, fs.ErrNotExist): // another Sweep was faster
			errs = append(errs, fmt.Errorf("usage: sweep: %w", err))
		}
	}
	return n, errors.Join(errs...)
}

// Watch asks the processes with a log in a directory to sample their devices for the next seconds.
func Watch(dir string) error {
	path := filepath.Join(dir, watchName)
	err := unix.Lutimes(path, nil) // to now, which others than the owner may too
	if errors.Is(err, fs.ErrNotExist) {
		var f *os.File
		if f, err = os.OpenFile(path, os.O_CREATE|os.O_EXCL, 0o666); err == nil {
			err = errors.Join(f.Chmod(0o666), f.Close()) // whatever the umask is
		}
	}
	if err != nil {
		return fmt.Errorf("usage: watch: %w", err)
	}
	return nil
}

// stale reports whether a file is a log of this user's dead process, whose name no other takes.
func (r *reader) stale(path string, ns uint64) bool {
	fd, st, err := open(path)
	if err != nil {
		return false
	}
	defer unix.Close(fd)
	if int(st.Uid) != os.Geteuid() {
		return false
	}
	e, err := r.entry(fd, st.Size)
	if errors.Is(err, errUnfinished) {
		return time.Since(time.Unix(st.Mtim.Unix())) > unfinished && unlocked(fd)
	}
	return err == nil && e.dead(fd, ns)
}

// Create makes a log of a device and deletes logs of the same user's dead processes.
func Create(dir string, d Device) (*Log, error) {
	_, _ = Sweep(dir) // an undeletable log is no reason to fail
	f, err := newFile(dir)
	if err != nil {
		return nil, fmt.Errorf("usage: create: %w", err)
	}
	l, err := start(f, d)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("usage: create: %w", err), os.Remove(f.Name()), f.Close())
	}
	return l, nil
}

func newFile(dir string) (*os.File, error) {
	for try := 0; ; try++ {
		path := filepath.Join(dir, fmt.Sprintf("%s%d.%08x", prefix, os.Getpid(), rand.Uint32()))
		// Read-only for the owner's other programs too: only this descriptor writes.
		f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL|unix.O_NOFOLLOW, 0o444)
		if errors.Is(err, fs.ErrExist) && try < 8 {
			continue
		}
		return f, err
	}
}

// start locks and fills a new file, whose magic number is stored last.
func start(f *os.File, d Device) (*Log, error) {
	if err := f.Chmod(0o444); err != nil { // whatever the umask is
		return nil, err
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		return nil, &fs.PathError{Op: "lock", Path: f.Name(), Err: err}
	}
	e := Entry{PID: os.Getpid(), Start: startOf(os.Getpid()), Namespace: namespace(), Opened: time.Now(), Command: filepath.Base(os.Args[0]),
		Device: d}
	b := make([]byte, Size)
	e.encode(b)
	// Writing instead of truncating fails on a full file system, where a store would fault later.
	if _, err := f.WriteAt(b, 0); err != nil {
		return nil, err
	}
	mem, err := unix.Mmap(int(f.Fd()), 0, Size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil, &fs.PathError{Op: "map", Path: f.Name(), Err: err}
	}
	l := &Log{path: f.Name(), file: f, mem: mem}
	// A concurrent Set may be running, so only unreachable memory is unmapped.
	runtime.AddCleanup(l, func(mem []byte) { _ = unix.Munmap(mem) }, mem)
	atomic.StoreUint64(word(mem, atMagic), magic)
	return l, nil
}

// Close ends the log and deletes its file. It is idempotent.
func (l *Log) Close() error {
	l.dead.Store(true)
	if l.closed.Swap(true) {
		return nil
	}
	err := os.Remove(l.path)
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	// The mapping keeps the lock, and a reader may have the file open.
	return errors.Join(err, unix.Flock(int(l.file.Fd()), unix.LOCK_UN), l.file.Close())
}
