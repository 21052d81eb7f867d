package main

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/reprise-tt/reprise/cmd/reprise/internal/cli"
	"github.com/reprise-tt/reprise/sim/serve"
)

// text writes a line to whatever --timeline names.
func text(ctx context.Context, path string) error {
	if err := cli.Creatable("--timeline", path); err != nil {
		return err
	}
	return cli.Save(ctx, "--timeline", path, func(w io.Writer) error {
		_, err := io.WriteString(w, "line")
		return err
	})
}

func names(t *testing.T, dir string) map[string]fs.FileMode {
	t.Helper()
	l, err := os.ReadDir(dir)
	must(t, err)
	m := map[string]fs.FileMode{}
	for _, e := range l {
		m[e.Name()] = e.Type()
	}
	return m
}

func TestSaveBehindLinks(t *testing.T) {
	for name, links := range map[string]map[string]string{
		"file":           {"out": "../b/there"},
		"nothing yet":    {"out": "../b/new"},
		"link to a link": {"out": "next", "next": "../b/there"},
		"over directory": {"out": "way/there", "way": "../b"},
		"dots after one": {"out": "way/../new", "way": "../b/deep"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			a, b := filepath.Join(dir, "a"), filepath.Join(dir, "b")
			must(t, errors.Join(os.Mkdir(a, 0o777), os.MkdirAll(filepath.Join(b, "deep"), 0o777),
				os.WriteFile(filepath.Join(b, "there"), []byte("what was there before"), 0o666)))
			for from, to := range links {
				must(t, os.Symlink(to, filepath.Join(a, from)))
			}
			before := names(t, a)
			must(t, text(t.Context(), filepath.Join(a, "out")))
			if diff := cmp.Diff(before, names(t, a)); diff != "" {
				t.Errorf("beside the links (-before +after):\n%s", diff)
			}
			at := filepath.Join(b, filepath.Base(links["out"]))
			if name == "link to a link" {
				at = filepath.Join(b, "there")
			}
			got, err := os.ReadFile(at)
			if err != nil || string(got) != "line" {
				t.Errorf("%s: %q, %v", at, got, err)
			}
			if n := len(names(t, b)); n > 3 {
				t.Errorf("%d files where the link leads to", n)
			}
		})
	}
	circle := filepath.Join(t.TempDir(), "circle")
	must(t, os.Symlink("circle", circle))
	if err := text(t.Context(), circle); !errors.Is(err, unix.ELOOP) {
		t.Errorf("a circle of links: %v", err)
	}
}

// The command doesn't open and close the pipe before it writes.
func TestSaveToPipe(t *testing.T) {
	dir := t.TempDir()
	path, link := filepath.Join(dir, "pipe"), filepath.Join(dir, "link")
	must(t, errors.Join(unix.Mkfifo(path, 0o666), os.Symlink("pipe", link)))
	before := names(t, dir)
	for _, p := range []string{path, link} {
		read := make(chan string)
		go func() {
			b, err := os.ReadFile(path)
			if err != nil {
				b = []byte(err.Error())
			}
			read <- string(b)
		}()
		must(t, text(t.Context(), p))
		if diff := cmp.Diff(before, names(t, dir)); diff != "" { // a reader of a pipe that is gone would wait for ever
			t.Fatalf("%s (-before +after):\n%s", p, diff)
		}
		if got := <-read; got != "line" {
			t.Errorf("%s: read %q", p, got)
		}
	}
}

// A device is closed in the end.
func TestSaveToPipeOfNobody(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pipe")
	must(t, unix.Mkfifo(path, 0o666))
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- text(ctx, path) }()
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("nobody opens it: %v", err)
	}

	r, err := os.OpenFile(path, os.O_RDWR, 0) // opens whatever still waits
	must(t, err)
	defer r.Close()
	ctx, cancel = context.WithCancel(t.Context())
	defer cancel()
	begun := make(chan bool)
	go func() {
		ended <- cli.Save(ctx, "--timeline", path, func(w io.Writer) error {
			close(begun)
			_, err := w.Write(make([]byte, 1<<20))
			return err
		})
	}()
	<-begun
	cancel()
	if err := <-ended; !errors.Is(err, os.ErrClosed) {
		t.Errorf("nobody reads it: %v", err)
	}
}

// --timeline /dev/null of root would otherwise take that of the machine away.
func TestSaveToDevice(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "null")
	if err := unix.Mknod(path, unix.S_IFCHR|0o666, int(unix.Mkdev(1, 3))); err != nil {
		t.Skip("nodes can't be made here: ", err)
	}
	if f, err := os.OpenFile(path, os.O_WRONLY, 0); err != nil {
		t.Skip("nodes can't be opened here: ", err)
	} else if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	before := names(t, dir)
	must(t, text(t.Context(), path))
	if diff := cmp.Diff(before, names(t, dir)); diff != "" {
		t.Errorf("(-before +after):\n%s", diff)
	}
}

func TestSaveToSocket(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "socket")
	l, err := serve.Listen(path)
	must(t, err)
	defer l.Close()
	before := names(t, dir)
	var wrong *cli.FlagError
	if err := text(t.Context(), path); !errors.As(err, &wrong) || !errors.Is(err, unix.ENXIO) {
		t.Error(err)
	}
	if diff := cmp.Diff(before, names(t, dir)); diff != "" {
		t.Errorf("(-before +after):\n%s", diff)
	}
}

// fewDigits is a file with two images.
func fewDigits(t *testing.T) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "digits.csv")
	must(t, os.WriteFile(name, []byte(strings.Repeat(strings.Repeat("0,8,16,3,", 16)+"7\n", 2)), 0o666))
	return name
}

func TestFullDisk(t *testing.T) {
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=8k"); err != nil {
		t.Skip("no file system of its own for the test: ", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, 0); err != nil {
			t.Error(err)
		}
	})
	at := filepath.Join(dir, "out.json")
	must(t, os.WriteFile(at, []byte("of before"), 0o666))
	few, timed := fewDigits(t), filepath.Join(t.TempDir(), "timed.json")
	must(t, os.WriteFile(timed, []byte(`{"version":1,"graph":[],"programs":[{"function":1,"program":"relu","start_cycle":1000,"end_cycle":2000}]}`), 0o666))
	for _, args := range [][]string{
		{"graph", "perf", timed, dir}, // its device log fits
		{"demo", "--input", few, "--graph", at}, {"demo", "--input", few, "--record", at},
		{"demo", "--input", few, "--timeline", at}, {"demo", "--input", few, "--save-trace", at},
		{"hwtest", "--device", "emu:blackhole", "--run", "^(bringup|cq)$", "--short", "--report", at},
	} {
		c := start(t, nil, args...)
		var exit *exec.ExitError
		if err := c.Wait(); !errors.As(err, &exit) || exit.ExitCode() != cli.ExitFailed {
			t.Errorf("%v: %v", args, err)
		}
		if got := c.err.String(); strings.Count(got, "\n") != 1 || strings.Count(got, "no space left") != 1 {
			t.Errorf("%v: standard error %q, want one line with the cause", args, got)
		}
		b, err := os.ReadFile(at)
		if err != nil || string(b) != "of before" || len(names(t, dir)) != 1 {
			t.Errorf("%v left %d bytes, %v, files %v", args, len(b), err, names(t, dir))
		}
	}
}
