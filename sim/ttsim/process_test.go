//go:build linux

package ttsim_test

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/reprise-tt/reprise/internal/expect"
	"github.com/reprise-tt/reprise/sim/serve/function"
	"github.com/reprise-tt/reprise/sim/ttsim"
	"github.com/reprise-tt/reprise/sim/ttsim/ttsimtest"
)

func children(t *testing.T, pid int) []int {
	t.Helper()
	stats := value(filepath.Glob("/proc/[0-9]*/stat"))(t)
	var out []int
	for _, name := range stats {
		b, err := os.ReadFile(name)
		if err != nil {
			continue // it has ended meanwhile
		}
		// "pid (name) state ppid ...", and the name may have anything in it
		fields := strings.Fields(string(b[bytes.LastIndexByte(b, ')')+1:]))
		if len(fields) > 1 && fields[1] == strconv.Itoa(pid) {
			p, _ := strconv.Atoi(filepath.Base(filepath.Dir(name)))
			out = append(out, p)
		}
	}
	return out
}

func TestKilled(t *testing.T) {
	eachBoard(t, func(t *testing.T, b board, f *ttsim.Function) {
		kids := children(t, os.Getpid())
		if len(kids) != 1 {
			t.Fatalf("children %v, want one server", kids)
		}
		must(t, syscall.Kill(kids[0], syscall.SIGKILL))
		for f.Sim().Sync() == nil { // it may answer until the signal has come
		}
		var e *ttsim.Error
		if err := f.Fault(); !errors.As(err, &e) || e.Category != ttsim.CategorySignal || e.Signal != syscall.SIGKILL ||
			!strings.Contains(err.Error(), "killed") {
			t.Fatalf("fault %v, want one that names the signal", err)
		}
		equal(t, f.BARLoad(0, b.window, 8), ^uint64(0), "a device without a process answers")
		must(t, f.Reset())
		fails(t, f.Fault(), nil, "after a reset there is the fault")
		off := b.at(f, b.x, b.y, 0x20000)
		f.BARStore(0, off, 4, 7)
		equal(t, f.BARLoad(0, off, 4), 7, "after a reset L1")
		f.Sim().Close()
		equal(t, len(children(t, os.Getpid())), 0, "processes that are left")
	})
}

func TestCloseOfStoppedServer(t *testing.T) {
	if testing.Short() {
		t.Skip("it waits until a server has had its time to end")
	}
	b := boards["wormhole"]
	f := ttsimtest.Start(t, b.variable).Functions()[0]
	off := b.at(f, b.x, b.y, 0)
	must(t, f.Sim().Sync())
	pid := children(t, os.Getpid())[0]
	must(t, syscall.Kill(pid, syscall.SIGSTOP))
	var written atomic.Int32
	writer, closed := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(writer)
		for p := make([]byte, 64<<10); ; written.Add(1) {
			f.BARWrite(0, off, p)
			select {
			case <-closed:
				return
			default:
			}
		}
	}()
	for written.Load() < 14 { // the ring has room for as many at least
		time.Sleep(time.Millisecond)
	}
	go func() { f.Sim().Close(); close(closed) }()
	select {
	case <-closed:
		<-writer
	case <-time.After(time.Minute):
		syscall.Kill(pid, syscall.SIGKILL)
		t.Fatal("Close waits for a server that stands still")
	}
}

func TestResetForgets(t *testing.T) {
	eachBoard(t, func(t *testing.T, b board, f *ttsim.Function) {
		f.BARStore(0, b.at(f, b.x, b.y, 0x20000), 4, 7)
		f.ConfigWrite(4, 1<<6)
		must(t, f.Reset())
		equal(t, f.ConfigRead(4), 0, "command register after a reset")
		equal(t, f.BARLoad(0, b.at(f, b.x, b.y, 0x20000), 4), 0, "L1 after a reset")
		f.Close()
		fails(t, f.Reset(), ttsim.ErrClosed, "Reset after Close")
	})
}

func TestResetWithoutTheLibrary(t *testing.T) {
	lib := value(os.ReadFile(ttsimtest.Path(t, ttsimtest.Wormhole)))(t)
	path := filepath.Join(t.TempDir(), "libttsim.so")
	write := func() {
		must(t, os.WriteFile(path, lib, 0o777))
	}
	write()
	s := value(ttsim.Start(path, ttsimtest.Server()))(t)
	defer s.Close()
	must(t, os.Remove(path))
	if err := s.Reset(); !errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("reset: %v, want that the file is missing", err)
	}
	var e *ttsim.Error
	if err := s.Fault(); !errors.As(err, &e) || !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("fault %v, want why the reset failed", err)
	}
	fails(t, s.Sync(), fs.ErrNotExist, "sync")
	write()
	must(t, s.Reset())
	if err := s.Sync(); err != nil || s.Fault() != nil {
		t.Errorf("after another reset: sync %v, fault %v", err, s.Fault())
	}
}

// The parent is another run of this test.
func TestParentDies(t *testing.T) {
	path := ttsimtest.Path(t, ttsimtest.Wormhole)
	if os.Getenv("TTSIM_TEST_PARENT") != "" {
		s := value(ttsim.Start(path, ttsimtest.Server()))(t)
		os.Stdout.WriteString("started\n")
		time.Sleep(time.Minute)
		s.Close()
		return
	}
	cmd := exec.Command(os.Args[0], "-test.run=^TestParentDies$")
	cmd.Env = append(os.Environ(), "TTSIM_TEST_PARENT=1")
	out := value(cmd.StdoutPipe())(t)
	must(t, cmd.Start())
	value(out.Read(make([]byte, 8)))(t)
	kids := children(t, cmd.Process.Pid)
	cmd.Process.Kill()
	cmd.Wait()
	if len(kids) != 1 {
		t.Fatalf("the parent had the children %v, want one", kids)
	}
	for end := time.Now().Add(20 * time.Second); syscall.Kill(kids[0], 0) == nil; time.Sleep(time.Millisecond) {
		if b, _ := os.ReadFile("/proc/" + strconv.Itoa(kids[0]) + "/stat"); bytes.Contains(b, []byte(") Z ")) {
			break // ended; its new parent hasn't waited for it yet
		}
		if time.Now().After(end) {
			t.Fatal("the server outlives its parent")
		}
	}
}

func TestWrongLibrary(t *testing.T) {
	dir := t.TempDir()
	file := func(name, content string) string {
		p := filepath.Join(dir, name)
		must(t, os.WriteFile(p, []byte(content), 0o644))
		return p
	}
	self := value(os.Executable())(t)
	tests := []struct {
		name, path string
		want       error
		says       string
	}{
		{"missing", filepath.Join(dir, "nowhere.so"), fs.ErrNotExist, "give the path of a libttsim.so"},
		{"directory", dir, ttsim.ErrNotLibrary, "the file libttsim.so itself"},
		{"empty", file("empty.so", ""), ttsim.ErrNotLibrary, "it is empty"},
		{"text", file("text.so", "a linker script, say"), ttsim.ErrNotLibrary, "bad magic"},
		{"cut off", file("cut.so", "\x7fELF"), ttsim.ErrNotLibrary, ""},
		{"program", self, nil, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := ttsim.Start(tt.path, ttsimtest.Server())
			var le *ttsim.LibraryError
			if !errors.As(err, &le) || le.Path != tt.path || le.Hint == "" {
				t.Fatalf("error %v, want a *LibraryError with a hint", err)
			}
			expect.Says(t, err, tt.want, tt.says)
		})
	}
}

func TestAnotherLibrary(t *testing.T) {
	libs, _ := filepath.Glob("/lib/*/libc.so.6")
	if len(libs) == 0 {
		t.Skip("there is no libc.so.6 to mistake for a simulator")
	}
	_, err := ttsim.Start(libs[0], ttsimtest.Server())
	if !errors.Is(err, ttsim.ErrMissingSymbol) && !errors.Is(err, ttsim.ErrNotLibrary) {
		t.Errorf("error %v", err)
	}
}

func TestWrongServer(t *testing.T) {
	path := ttsimtest.Path(t, ttsimtest.Wormhole)
	expect.Says(t, second(ttsim.Start(path, nil)), ttsim.ErrNoServer, "ttsim.Server")
	fails(t, second(ttsim.Start(path, ttsim.Server("/nonexistent/program"))), fs.ErrNotExist, "with a program that doesn't exist")
	_, err := ttsim.Start(path, ttsim.Server("/bin/echo", "hello"))
	var e *ttsim.Error
	if !errors.As(err, &e) || e.Category != ttsim.CategoryExit || !strings.Contains(err.Error(), "hello") {
		t.Errorf("with a program that isn't a server: %v", err)
	}
}

func TestServeElsewhere(t *testing.T) {
	cmd := exec.Command(os.Args[0], "reprise-ttsim-serve")
	out, err := cmd.CombinedOutput()
	if err == nil || !strings.Contains(string(out), function.ErrNotServer.Error()) {
		t.Errorf("a server that nobody started: %v, %q", err, out)
	}
}

func TestOutput(t *testing.T) {
	var mu sync.Mutex
	var buf bytes.Buffer
	w := writerFunc(func(p []byte) (int, error) { mu.Lock(); defer mu.Unlock(); return buf.Write(p) })
	eachBoard(t, func(t *testing.T, b board, f *ttsim.Function) {
		f.ConfigRead(2)
		f.Sim().Close()
		mu.Lock()
		defer mu.Unlock()
		if !strings.Contains(buf.String(), "misaligned offset=0x2") {
			t.Errorf("the server's output was %q", buf.String())
		}
	}, ttsim.Output(w))
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }
