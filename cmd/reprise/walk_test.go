package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/reprise-tt/reprise/cmd/reprise/internal/cli"
	"github.com/reprise-tt/reprise/dispatch"
	"github.com/reprise-tt/reprise/examples/deadlock"
	"github.com/reprise-tt/reprise/kernels"
)

// walk is the commands of the walk of docs/debugging.md and what they print now.
type walk struct {
	t      *testing.T
	dir    string // stands for the current one
	socket string // of the card
	said   map[string]string
	// without says why a command didn't run: gdb is not installed.
	without map[string]error
}

func (w *walk) command(line string) {
	w.t.Helper()
	code, out, errs := runs(w.t.Context(), w.args(line)...)
	if code != cli.ExitOK {
		w.t.Errorf("%s: exit code %d: %s", line, code, errs)
	}
	w.said[line] = out
}

func (w *walk) args(line string) []string {
	words := strings.Fields(line)[1:]
	for i, s := range words {
		switch {
		case s == "socket:/tmp/card":
			words[i] = "socket:" + w.socket
		case s == "/tmp/gdb":
			words[i] = filepath.Join(w.dir, "g")
		case strings.HasSuffix(s, ".elf"):
			words[i] = filepath.Join(w.dir, s)
		case s == "reprise-hang-*.dump":
			found, err := filepath.Glob(filepath.Join(w.dir, s))
			if err != nil || len(found) != 1 {
				w.t.Fatalf("%d dumps, %v", len(found), err)
			}
			words[i] = found[0]
		}
	}
	return words
}

func (w *walk) debug(server, client string, commands []string) {
	w.t.Helper()
	program, err := exec.LookPath("gdb-multiarch")
	if err != nil {
		w.without[server], w.without[client] = err, err
		return
	}
	r, out := io.Pipe()
	var errs bytes.Buffer
	done := make(chan int, 1)
	go func() {
		code := run(w.t.Context(), w.args(server), cli.Streams{Out: out, Err: &errs})
		out.Close()
		done <- code
	}()
	var heading strings.Builder
	for b := make([]byte, 256); !strings.Contains(heading.String(), "waiting for gdb"); {
		n, err := r.Read(b)
		heading.Write(b[:n])
		if err != nil {
			w.t.Errorf("%s: %v: %s%s", server, err, &heading, &errs)
			return
		}
	}
	go func() { _, _ = io.Copy(io.Discard, r) }()
	w.said[server] = heading.String()
	args := append([]string{"-nx", "-batch", "-ex", "set architecture riscv:rv32", "-ex", "set pagination off"}, w.args(client)...)
	for _, c := range commands {
		args = append(args, "-ex", "echo (gdb) "+strings.ReplaceAll(c, " ", "\\ ")+"\\n", "-ex",
			strings.ReplaceAll(c, "/tmp/gdb", filepath.Join(w.dir, "g")))
	}
	ctx, cancel := context.WithTimeout(w.t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Env = append(os.Environ(), "LC_ALL=C", "HOME="+w.dir)
	said, err := cmd.CombinedOutput()
	if code := <-done; err != nil || code != cli.ExitOK {
		w.t.Errorf("gdb: %v; server: exit code %d, %s\n%s", err, code, &errs, said)
	}
	w.said[client] = string(said)
}

var varies = regexp.MustCompile(`0x[0-9a-f]+|#\d+|reprise-hang-\S+\.dump|\d+ of \d+ cores|^ +\d+ \(|no progress for \S+|\d+ cycles`)

// alike drops from a line what differs between runs.
func (w *walk) alike(line string) string {
	line = strings.ReplaceAll(line, filepath.Join(w.dir, "g"), "/tmp/gdb")
	line = strings.ReplaceAll(line, w.dir+string(filepath.Separator), "")
	return strings.TrimSpace(varies.ReplaceAllString(line, "_"))
}

// check compares a block of the page, whose first line is the command: its lines are in what the
// command printed, in that order; "..." stands for any others.
func (w *walk) check(block string) {
	first, rest, _ := strings.Cut(strings.TrimPrefix(block, "$ "), "\n")
	first = strings.TrimSuffix(first, " &")
	said, ok := w.said[first]
	if err := w.without[first]; err != nil {
		w.t.Run(first, func(t *testing.T) { t.Skip(err) })
		return
	} else if !ok {
		w.t.Errorf("the page has a command that the test doesn't run: %s", first)
		return
	}
	have := strings.Split(said, "\n")
	for line := range strings.Lines(rest) {
		want := w.alike(line)
		if want == "..." || want == "" {
			continue
		}
		i := 0
		for i < len(have) && w.alike(have[i]) != want {
			i++
		}
		if i == len(have) {
			w.t.Errorf("%s: the page has this line, or has it in another order:\n%s\nit prints:\n%s", first, line, said)
			return
		}
		have = have[i+1:]
	}
}

func TestWalkThroughADeadlock(t *testing.T) {
	if testing.Short() {
		t.Skip("it waits for a hang")
	}
	w := &walk{t: t, dir: t.TempDir(), said: map[string]string{}, without: map[string]error{}}
	w.socket = filepath.Join(w.dir, "c")
	ctx, stop := context.WithCancel(t.Context())
	served := make(chan int, 1)
	r, out := io.Pipe()
	go func() {
		served <- run(ctx, []string{"sim", "serve", "--socket", w.socket}, cli.Streams{Out: out, Err: out})
	}()
	defer func() {
		stop()
		go func() { _, _ = io.Copy(io.Discard, r) }()
		<-served
	}()
	if _, err := r.Read(make([]byte, 256)); err != nil { // "serving"
		t.Fatal(err)
	}
	card, err := cli.ParseTarget("socket:" + w.socket)
	must(t, err)
	var prints bytes.Buffer
	hung := false
	err = deadlock.Run(ctx, card, deadlock.Options{
		Block: 8, Dir: w.dir, Prints: &prints, HangTimeout: 2 * time.Second,
		Hung: func(error) {
			hung = true
			w.command("reprise stacks --device socket:/tmp/card --core 1-1 --processor brisc,trisc0 --elf reader.elf --elf unpack.elf")
			w.debug(
				"reprise gdb --device socket:/tmp/card --core 1-1 --processor brisc --elf reader.elf --listen /tmp/gdb",
				"gdb-multiarch reader.elf",
				[]string{"target remote /tmp/gdb", "backtrace", "frame apply all -q -s print page", "monitor record on",
					"stepi 12", "reverse-continue", "detach"},
			)
		},
	})
	var h *dispatch.HangError
	switch {
	case errors.Is(err, kernels.ErrNoCompiler):
		t.Skip(err)
	case !errors.As(err, &h) || !hung:
		t.Fatal(err)
	}
	w.said["go run ./examples/deadlock/run --device socket:/tmp/card"] = prints.String() + err.Error()
	w.command("reprise inspect reprise-hang-*.dump")
	prints.Reset()
	if err = deadlock.Run(ctx, card, deadlock.Options{Block: 8, Watch: true, Dir: w.dir, Prints: &prints}); err == nil {
		t.Error("a block that is too large passes the assertion")
	} else {
		w.said["go run ./examples/deadlock/run --device socket:/tmp/card --watch"] = prints.String() + err.Error()
	}
	prints.Reset()
	if err := deadlock.Run(ctx, card, deadlock.Options{Block: 4, Dir: t.TempDir(), Prints: &prints}); err != nil ||
		strings.Count(prints.String(), "\n") != 33 {
		t.Errorf("blocks of 4 pages: %v\n%s", err, &prints)
	}
	w.said["go run ./examples/deadlock/run --device socket:/tmp/card --block 4"] = prints.String()
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "debugging.md"))
	must(t, err)
	_, section, ok := strings.Cut(string(page), "\n## A walk through a deadlock\n")
	if !ok {
		t.Fatal("docs/debugging.md has no such section")
	}
	section, _, _ = strings.Cut(section, "\n## ")
	blocks := regexp.MustCompile("(?s)```\n(\\$ .*?)```").FindAllStringSubmatch(section, -1)
	if len(blocks) < 7 {
		t.Errorf("%d blocks", len(blocks))
	}
	for _, b := range blocks {
		w.check(b[1])
	}
	if t.Failed() {
		for command, said := range w.said {
			t.Logf("$ %s\n%s", command, said)
		}
	}
}
