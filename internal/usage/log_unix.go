//go:build unix

package usage

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// Create makes a log of a device in a directory and deletes logs of the same user's dead processes.
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
