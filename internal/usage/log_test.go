//go:build unix

package usage

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"golang.org/x/sys/unix"
)

var card = Device{Name: "/dev/tenstorrent/0", PCI: "0000:01:00.0", Serial: "0100014511000001", Arch: "blackhole", NUMANode: -1}

func create(t testing.TB, dir string, d Device) *Log {
	t.Helper()
	l, err := Create(dir, d)
	must(t, err)
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
	return l
}

func mustRead(t testing.TB, dir string) *Snapshot {
	t.Helper()
	s, err := Read(dir)
	must(t, err)
	return s
}

func only(t testing.TB, dir string) Entry {
	t.Helper()
	s := mustRead(t, dir)
	if len(s.Entries) != 1 || len(s.Problems) != 0 {
		t.Fatalf("the directory has %d logs and problems %v, want one log", len(s.Entries), s.Problems)
	}
	return s.Entries[0]
}

func TestReadersSeeWhatWasSet(t *testing.T) {
	dir := t.TempDir()
	l := create(t, dir, card)
	l.Set(DRAM, Value{Capacity: 32 << 30, Allocated: 5, Peak: 7, Extents: 2})
	l.Set(DRAM, Value{Capacity: 32 << 30, Allocated: 6, Peak: 8, Extents: 3})
	l.Set(Trace, Value{Capacity: 32 << 30})
	l.Set(2, Value{Capacity: 1}) // no device's
	l.Set(200, Value{Capacity: 1})
	got := only(t, dir)
	want := Entry{
		PID: os.Getpid(), Start: startOf(os.Getpid()), Namespace: namespace(), Command: filepath.Base(os.Args[0]), Device: card,
		Memory: []Record{
			{Kind: DRAM, Updates: 2, Value: Value{Capacity: 32 << 30, Allocated: 6, Peak: 8, Extents: 3}},
			{Kind: Trace, Updates: 1, Value: Value{Capacity: 32 << 30}},
		},
		Path: l.Path(), UID: os.Geteuid(),
	}
	if diff := cmp.Diff(want, got, cmpopts.IgnoreFields(Entry{}, "Opened")); diff != "" {
		t.Errorf("read something else than was set (-want +got):\n%s", diff)
	}
	if age := time.Since(got.Opened); age < 0 || age > time.Minute {
		t.Errorf("the log was made %v ago", age)
	}
	st, err := os.Stat(l.Path())
	must(t, err)
	if st.Mode().Perm() != 0o444 || st.Size() != Size {
		t.Errorf("the file has mode %v and %d B, want 0444 and %d", st.Mode().Perm(), st.Size(), Size)
	}
}

func TestCloseDeletesTheLog(t *testing.T) {
	dir := t.TempDir()
	l := create(t, dir, card)
	for range 2 {
		must(t, l.Close())
		l.Set(DRAM, Value{Allocated: 1})
	}
	if files, err := os.ReadDir(dir); err != nil || len(files) != 0 {
		t.Errorf("after Close the directory has %v (%v)", files, err)
	}
}

func TestCloseUnlocksWhatReadersHaveOpen(t *testing.T) {
	l := create(t, t.TempDir(), card)
	fd, _, err := open(l.Path())
	must(t, err)
	defer unix.Close(fd)
	if unlocked(fd) {
		t.Error("a live log isn't locked")
	}
	must(t, l.Close())
	if !unlocked(fd) {
		t.Error("a closed log is locked")
	}
}

// A file that is cut off takes the memory away under the writer.
func TestWriterSurvivesACutFile(t *testing.T) {
	l := create(t, t.TempDir(), card)
	must(t, l.file.Truncate(0))
	l.Set(DRAM, Value{Allocated: 1})
	if !l.dead.Load() {
		t.Error("a store into memory that is gone went unnoticed")
	}
	l.Set(DRAM, Value{Allocated: 2})
}

func TestCreateFails(t *testing.T) {
	if _, err := Create(filepath.Join(t.TempDir(), "none"), card); !errors.Is(err, os.ErrNotExist) ||
		!strings.Contains(err.Error(), "usage: create: ") {
		t.Errorf("a directory that isn't there: %v", err)
	}
}

// Every allocation of the process goes through Set.
func TestSetAllocatesNothing(t *testing.T) {
	l := create(t, t.TempDir(), card)
	n := uint64(0)
	if got := testing.AllocsPerRun(1000, func() { n++; l.Set(DRAM, Value{Capacity: 1 << 40, Allocated: n, Peak: n, Extents: 1}) }); got != 0 {
		t.Errorf("Set allocates %v times", got)
	}
}

// Every word of a record is the same number.
func TestReadersSeeWholeUpdates(t *testing.T) {
	dir := t.TempDir()
	l := create(t, dir, card)
	l.Set(L1, Value{})
	stop := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		for n := uint64(1); ; n++ {
			select {
			case <-stop:
				return
			default:
				l.Set(L1, Value{n, n, n, n})
			}
		}
	})
	defer wg.Wait()
	defer close(stop)
	for range 500 {
		r := only(t, dir).Memory[0]
		if r.Torn {
			continue // the writer was always in the way; then nothing is promised
		}
		if n := r.Allocated; r.Value != (Value{n, n, n, n}) || r.Updates != n+1 {
			t.Fatalf("after %d updates the record is %+v", r.Updates, r.Value)
		}
	}
}
