//go:build unix

package usage

import (
	"encoding/binary"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"golang.org/x/sys/unix"

	"github.com/reprise-tt/reprise/allocator"
	"github.com/reprise-tt/reprise/internal/expect"
)

var card = Device{Name: "/dev/tenstorrent/0", PCI: "0000:01:00.0", Serial: "0100014511000001", Arch: "blackhole", NUMANode: -1}

func create(t testing.TB, dir string, d Device) *Log {
	t.Helper()
	l, err := Create(dir, d)
	must(t, err)
	t.Cleanup(func() {
		expect.Fails(t, l.Close(), nil, "l.Close()")
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
	l.Set(allocator.DRAM, allocator.Usage{Capacity: 32 << 30, Allocated: 5, Peak: 7, Extents: 2})
	l.Set(allocator.DRAM, allocator.Usage{Capacity: 32 << 30, Allocated: 6, Peak: 8, Extents: 3})
	l.Set(allocator.Trace, allocator.Usage{Capacity: 32 << 30})
	l.Set(2, allocator.Usage{Capacity: 1}) // no device's
	l.Set(200, allocator.Usage{Capacity: 1})
	got := only(t, dir)
	want := Entry{
		PID: os.Getpid(), Start: startOf(os.Getpid()), Namespace: namespace(), Command: filepath.Base(os.Args[0]), Device: card,
		Memory: []Record{
			{Kind: allocator.DRAM, Updates: 2, Usage: allocator.Usage{Capacity: 32 << 30, Allocated: 6, Peak: 8, Extents: 3}},
			{Kind: allocator.Trace, Updates: 1, Usage: allocator.Usage{Capacity: 32 << 30}},
		},
		Path: l.Path(), UID: os.Geteuid(),
	}
	if diff := cmp.Diff(want, got, cmpopts.IgnoreFields(Entry{}, "Opened")); diff != "" {
		t.Errorf("read something else than was set (-want +got):\n%s", diff)
	}
	if age := time.Since(got.Opened); age < 0 || age > time.Minute {
		t.Errorf("the log was made %v ago", age)
	}
	st := expect.Value(os.Stat(l.Path()))(t)
	expect.Equal(t, st.Mode().Perm(), 0o444, "st.Mode().Perm()")
	expect.Equal(t, st.Size(), Size, "st.Size()")
}

func TestCloseDeletesTheLog(t *testing.T) {
	dir := t.TempDir()
	l := create(t, dir, card)
	for range 2 {
		must(t, l.Close())
		l.Set(allocator.DRAM, allocator.Usage{Allocated: 1})
	}
	expect.Equal(t, len(expect.Value(os.ReadDir(dir))(t)), 0, "after Close the directory has")
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
	l.Set(allocator.DRAM, allocator.Usage{Allocated: 1})
	if !l.dead.Load() {
		t.Error("a store into memory that is gone went unnoticed")
	}
	l.Set(allocator.DRAM, allocator.Usage{Allocated: 2})
}

func TestCreateFails(t *testing.T) {
	expect.Says(t, second(Create(filepath.Join(t.TempDir(), "none"), card)), os.ErrNotExist, "usage: create: ")
}

func TestSetAllocatesNothing(t *testing.T) {
	l := create(t, t.TempDir(), card)
	n := uint64(0)
	if got := testing.AllocsPerRun(1000, func() {
		n++
		l.Set(allocator.DRAM, allocator.Usage{Capacity: 1 << 40, Allocated: n, Peak: n, Extents: 1})
	}); got != 0 {
		t.Errorf("Set allocates %v times", got)
	}
}

func TestReadersSeeWholeUpdates(t *testing.T) {
	dir := t.TempDir()
	l := create(t, dir, card)
	l.Set(allocator.L1, allocator.Usage{})
	stop := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		for n := uint64(1); ; n++ {
			select {
			case <-stop:
				return
			default:
				l.Set(allocator.L1, all(n))
			}
		}
	})
	defer wg.Wait()
	defer close(stop)
	for range 500 {
		r := only(t, dir).Memory[0]
		if r.Torn {
			continue // the writer was updating during every try: then nothing is promised
		}
		if n := r.Allocated; r.Usage != all(n) || r.Updates != n+1 {
			t.Fatalf("after %d updates the record is %+v", r.Updates, r.Usage)
		}
	}
}

// writerDir makes the test binary a process that changes a log there for ever.
const writerDir = "REPRISE_TEST_USAGE_DIR"

// watcherDir makes it one that watches the logs there.
const watcherDir = "REPRISE_TEST_WATCH_DIR"

func TestMain(m *testing.M) {
	if dir := os.Getenv(writerDir); dir != "" {
		write(dir)
	}
	os.Exit(m.Run())
}

func write(dir string) {
	l, err := Create(dir, card)
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	l.Set(allocator.DRAM, allocator.Usage{Capacity: 1})
	fmt.Println(l.Path())
	for n := uint64(0); ; n++ {
		l.Set(allocator.DRAM, all(n))
	}
}

func writer(t *testing.T, dir string) (*exec.Cmd, string) {
	t.Helper()
	c := exec.Command(os.Args[0])
	c.Env = append(os.Environ(), writerDir+"="+dir)
	out, err := c.StdoutPipe()
	must(t, err)
	must(t, c.Start())
	t.Cleanup(func() { _, _ = c.Process.Kill(), c.Wait() })
	var path string
	expect.Value(fmt.Fscanln(out, &path))(t)
	return c, path
}

func TestActivity(t *testing.T) {
	dir := t.TempDir()
	l := create(t, dir, card)
	if l.Watched() {
		t.Error("watched before anybody watches")
	}
	must(t, Watch(dir))
	must(t, Watch(dir))
	if !l.Watched() {
		t.Error("not watched")
	}
	a := Activity{Samples: 4, Workers: 80, Busy: 160, Kernels: 7}
	queues := []QueueActivity{{4, 1, 2, 3, 1}, {4, 0, 0, 4, 0}}
	l.SetActivity(a, queues...)
	e := only(t, dir)
	noDiff(t, e.Activity, a, "result")
	noDiff(t, e.Queues, queues, "result")
	for _, by := range []time.Duration{-time.Minute, 24 * time.Hour} {
		at := time.Now().Add(by)
		must(t, os.Chtimes(filepath.Join(dir, watchName), at, at))
		if l.Watched() {
			t.Errorf("watched by a look %v from now", by)
		}
	}
}

// A process is sampled for monitors of any user.
func TestOthersWatch(t *testing.T) {
	if dir := os.Getenv(watcherDir); dir != "" {
		must(t, Watch(dir))
		return
	}
	if os.Geteuid() != 0 {
		t.Skip("only root runs a process as another user")
	}
	dir, err := os.MkdirTemp("", "watch") // t.TempDir has parents of mode 0700
	must(t, err)
	defer os.RemoveAll(dir)
	must(t, os.Chmod(dir, 0o777|os.ModeSticky))
	l := create(t, dir, card)
	must(t, Watch(dir))
	old := time.Now().Add(-time.Minute)
	must(t, os.Chtimes(filepath.Join(dir, watchName), old, old))
	bin := filepath.Join(dir, "test")
	b := expect.Value(os.ReadFile(os.Args[0]))(t)
	must(t, os.WriteFile(bin, b, 0o755))
	c := exec.Command(bin, "-test.run=^TestOthersWatch$")
	c.Dir, c.Env = dir, append(os.Environ(), watcherDir+"="+dir)
	c.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	if out, err := c.CombinedOutput(); err != nil || !l.Watched() {
		t.Errorf("another user's look: %v, watched: %t\n%s", err, l.Watched(), out)
	}
}

func TestSampler(t *testing.T) {
	dir := t.TempDir()
	l := create(t, dir, card)
	must(t, Watch(dir))
	samples := make(chan struct{})
	s := StartSampler(l, time.Millisecond, func() { samples <- struct{}{} })
	for range 3 {
		<-samples
	}
	go func() { // a sample may have begun
		for range samples {
		}
	}()
	s.Stop()
	s.Stop()
	close(samples) // a later sample would panic
	(*Sampler)(nil).Stop()
}

func TestKilledWriters(t *testing.T) {
	dir := t.TempDir()
	mine := create(t, dir, card)
	for range 3 {
		c, path := writer(t, dir)
		if s := mustRead(t, dir); len(s.Entries) != 2 || s.Dead != 0 || len(s.Problems) != 0 {
			t.Fatalf("with two processes: %d logs, %d dead, problems %v", len(s.Entries), s.Dead, s.Problems)
		}
		must(t, c.Process.Kill())
		_ = c.Wait()
		if s := mustRead(t, dir); len(s.Entries) != 1 || s.Dead != 1 || len(s.Problems) != 0 {
			t.Fatalf("after one was killed: %d logs, %d dead, problems %v", len(s.Entries), s.Dead, s.Problems)
		}
		if n, err := Sweep(dir); n != 1 || err != nil {
			t.Fatalf("Sweep deleted %d logs (%v), want 1", n, err)
		}
		fails(t, second(os.Stat(path)), os.ErrNotExist, "the dead log is still there")
	}
	expect.Fails(t, second(os.Stat(mine.Path())), nil, "the live log is gone")
	c, path := writer(t, dir)
	_, _ = c.Process.Kill(), c.Wait()
	create(t, dir, card)
	fails(t, second(os.Stat(path)), os.ErrNotExist, "Create left the dead log")
}

// A writer that stands still in the middle of an update doesn't stop a reader.
func TestStoppedWriter(t *testing.T) {
	dir := t.TempDir()
	l := create(t, dir, card)
	l.Set(allocator.DRAM, allocator.Usage{Capacity: 100, Allocated: 1})
	l.Set(allocator.L1, allocator.Usage{Capacity: 50, Allocated: 2})
	*word(l.mem, atRecords+int(allocator.DRAM)*recordSize) |= 1 // where an update stores first
	*word(l.mem, atRecords+int(allocator.DRAM)*recordSize+atCapacity+8) = 10
	want := []Record{
		{Kind: allocator.DRAM, Torn: true, Updates: 1, Usage: allocator.Usage{Capacity: 100, Allocated: 10}},
		{Kind: allocator.L1, Updates: 1, Usage: allocator.Usage{Capacity: 50, Allocated: 2}},
	}
	noDiff(t, only(t, dir).Memory, want, "records")
}

func TestTornReads(t *testing.T) {
	l := create(t, t.TempDir(), card)
	for _, c := range []struct {
		name    string
		changes int
		torn    bool
	}{
		{"never", 0, false},
		{"once", 1, false},
		{"as often as there are loads of one try", 7, false},
		{"always", 1 << 40, true},
	} {
		l.Set(allocator.DRAM, all(1))
		n := uint64(1)
		r := &reader{patience: 2}
		r.between = func() {
			if int(n) <= c.changes {
				n++
				l.Set(allocator.DRAM, all(n))
			}
		}
		b, err := r.copy(l.mem)
		must(t, err)
		e, err := Decode(b)
		must(t, err)
		got := e.Memory[0]
		if got.Torn != c.torn || !c.torn && got.Usage != all(n) {
			t.Errorf("changed %s: read %+v, the last update was %d", c.name, got, n)
		}
	}
}

// forge makes a log that isn't locked or is another process's.
func forge(t *testing.T, dir string, lock bool, change func(*Entry)) {
	t.Helper()
	e := Entry{PID: os.Getpid(), Start: startOf(os.Getpid()), Namespace: namespace(), Device: card}
	b := make([]byte, Size)
	change(&e)
	e.encode(b)
	binary.LittleEndian.PutUint64(b, magic)
	path := filepath.Join(dir, fmt.Sprintf("reprise.%d.0000000a", e.PID))
	must(t, os.WriteFile(path, b, 0o444))
	if lock {
		fd, _, err := open(path)
		must(t, err)
		t.Cleanup(func() { unix.Close(fd) })
		must(t, unix.Flock(fd, unix.LOCK_EX))
	}
}

// A process id is no proof of life, and neither is a lock, which any reader can take.
func TestWhichLogsAreDead(t *testing.T) {
	if startOf(os.Getpid()) == 0 {
		t.Skip("this system doesn't tell when processes started")
	}
	ended := exec.Command("true")
	must(t, ended.Run())
	same := func(*Entry) {}
	for _, c := range []struct {
		name   string
		lock   bool
		change func(*Entry)
		dead   bool
	}{
		{"a live process's", true, same, false},
		{"unlocked, though its id and start are a live process's", false, same, true},
		{"locked, but its id was given to another process", true, func(e *Entry) { e.Start += sameStart + 1 }, true},
		{"a live process's that knows its start only roughly", true, func(e *Entry) { e.Start += sameStart / 2 }, false},
		{"locked by a reader, its process is gone", true, func(e *Entry) { e.PID = ended.Process.Pid }, true},
		{"a container's, whose ids say nothing here", true, func(e *Entry) { e.Namespace++; e.PID = ended.Process.Pid }, false},
		{"a dead container's", false, func(e *Entry) { e.Namespace++ }, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			forge(t, dir, c.lock, c.change)
			s := mustRead(t, dir)
			if want := map[bool]int{true: 1}[c.dead]; s.Dead != want || len(s.Entries) != 1-want || len(s.Problems) != 0 {
				t.Errorf("%d live, %d dead, problems %v; want %d dead of 1", len(s.Entries), s.Dead, s.Problems, want)
			}
			for _, e := range s.Entries {
				expect.Equal(t, e.Foreign, e.Namespace != namespace(), "its process id is another container's")
			}
			expect.Equal(t, expect.Value(Sweep(dir))(t), s.Dead, "Sweep deleted")
		})
	}
}

// What others put into the directory is never followed, waited for or deleted.
func TestForeignFiles(t *testing.T) {
	dir := t.TempDir()
	l := create(t, dir, card)
	at := func(name string) string { return filepath.Join(dir, name) }
	for _, err := range []error{
		os.WriteFile(at("reprise.notes.txt"), []byte("mine"), 0o644),
		os.WriteFile(at("reprise.1.0000000G"), []byte("mine"), 0o644),
		os.WriteFile(at("reprise.1.00000001"), []byte("short"), 0o644),
		os.WriteFile(at("reprise.1.00000002"), make([]byte, 1<<20), 0o644),
		os.WriteFile(at("reprise.1.00000003"), []byte(strings.Repeat("reprise!", Size/8)), 0o644),
		os.WriteFile(at("reprise.1.00000004"), nil, 0o644),                // just created
		os.WriteFile(at("reprise.1.00000005"), make([]byte, Size), 0o644), // and written, without the magic number
		os.Symlink(l.Path(), at("reprise.1.00000006")),
		os.Mkdir(at("reprise.1.00000007"), 0o755),
		unix.Mkfifo(at("reprise.1.00000008"), 0o644),
	} {
		must(t, err)
	}
	s := mustRead(t, dir)
	if len(s.Entries) != 1 || s.Entries[0].Path != l.Path() || s.Dead != 0 {
		t.Errorf("%d live and %d dead logs, want only the one that is", len(s.Entries), s.Dead)
	}
	want := []string{"reprise.1.00000001", "reprise.1.00000002", "reprise.1.00000003", "reprise.1.00000006", "reprise.1.00000007",
		"reprise.1.00000008"}
	var got []string
	for _, p := range s.Problems {
		name, _, _ := strings.Cut(p.Error(), ":")
		got = append(got, strings.TrimPrefix(name, dir+"/"))
	}
	noDiff(t, got, want, "problems")
	n, err := Sweep(dir)
	expect.Equal(t, n, 0, "foreign files that Sweep deleted")
	expect.Fails(t, err, nil, "error")
	old := time.Now().Add(-2 * unfinished)
	for _, name := range []string{"reprise.1.00000004", "reprise.1.00000005"} {
		must(t, os.Chtimes(at(name), old, old))
	}
	n, err = Sweep(dir)
	expect.Equal(t, n, 2, "logs that won't be finished")
	expect.Fails(t, err, nil, "error")
}

// A file that is cut off takes the memory away under the reader.
func TestReaderSurvivesACutFile(t *testing.T) {
	l := create(t, t.TempDir(), card)
	must(t, l.file.Truncate(0))
	expect.Fails(t, second(new(reader).copy(l.mem)), ErrTruncated, "new(reader).copy(l.mem)")
}

func TestTooManyLogs(t *testing.T) {
	dir := t.TempDir()
	for i := range perUser + 5 {
		must(t, os.WriteFile(filepath.Join(dir, fmt.Sprintf("reprise.1.%08x", i)), nil, 0o644))
	}
	s := mustRead(t, dir)
	if len(s.Problems) != 1 || !strings.Contains(s.Problems[0].Error(), fmt.Sprintf("has %d logs", perUser+5)) {
		t.Errorf("problems: %v", s.Problems)
	}
}

func TestReadNeedsADirectory(t *testing.T) {
	fails(t, second(Read(filepath.Join(t.TempDir(), "none"))), os.ErrNotExist, "Read")
	fails(t, second(Sweep(filepath.Join(t.TempDir(), "none"))), os.ErrNotExist, "Sweep")
}

// all is a value of equal numbers, in which a mixture would be seen.
func all(n uint64) allocator.Usage {
	return allocator.Usage{Capacity: n, Allocated: n, Peak: n, Extents: n}
}
