package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// started is a command that runs, for at most a minute.
type started struct {
	*exec.Cmd
	err bytes.Buffer
}

func start(t *testing.T, out io.Writer, args ...string) *started {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	c := &started{Cmd: exec.CommandContext(ctx, "reprise", args...)}
	c.Stdout, c.Stderr = out, &c.err
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	return c
}

// wantInterrupted waits for the command's end, which a signal of this name has caused.
func (c *started) wantInterrupted(t *testing.T, name string) {
	t.Helper()
	var exit *exec.ExitError
	if err := c.Wait(); !errors.As(err, &exit) || exit.ExitCode() != exitInterrupted {
		t.Errorf("%v, want exit code %d: %s", err, exitInterrupted, &c.err)
	}
	// A machine that is busy may make it wait long enough to say so.
	if got, want := strings.TrimPrefix(c.err.String(), endingLine+"\n"), "reprise: ended: "+name+" signal received\n"; got != want {
		t.Errorf("standard error %q, want %q", got, want)
	}
}

// A command that has to wait for the device after the signal says so.
func TestSignalThatTakesTime(t *testing.T) {
	path := filepath.Join(t.TempDir(), "digits.trace")
	c := start(t, nil, "demo", "--input", fewDigits(t), "--save-trace", path)
	if err := c.Wait(); err != nil {
		t.Fatal(err)
	}
	c = start(t, nil, "trace", "run", "--replays", "1000000", path)
	time.Sleep(2 * time.Second) // whether the trace is running by then or not, what is checked holds
	if err := c.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	c.wantInterrupted(t, "terminated")
}

func pipe(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "pipe")
	if err := unix.Mkfifo(path, 0o666); err != nil {
		t.Fatal(err)
	}
	return path
}

// A command that waits for another process to write to a pipe ends with the first signal, and with the code of that.
func TestSignalWhileReading(t *testing.T) {
	path := pipe(t)
	for i, line := range []string{
		"graph show PIPE", "graph table PIPE", "graph peak PIPE", "graph dot PIPE", "graph svg PIPE", "graph serve PIPE", "graph import PIPE out", "inspect PIPE",
		"demo --input PIPE", "demo --device emu:quietbox --input PIPE", "trace run PIPE", "trace verify PIPE", "bench replay --compare PIPE",
	} {
		t.Run(line, func(t *testing.T) {
			args := strings.Fields(line)
			for k := range args {
				switch args[k] {
				case "PIPE":
					args[k] = path
				case "out":
					args[k] = t.TempDir()
				}
			}
			sig := []syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP}[i%3]
			if signal.Ignored(sig) {
				t.Skipf("%v is ignored here, as under nohup, and so it is by the command", sig)
			}
			name := sig.String()
			c := start(t, nil, args...)
			w, err := os.OpenFile(path, os.O_WRONLY, 0) // returns when the command has opened it as well
			if err != nil {
				t.Fatal(err)
			}
			defer w.Close()
			if err := c.Process.Signal(sig); err != nil {
				t.Fatal(err)
			}
			c.wantInterrupted(t, name)
		})
	}
}

// So does one whose output no process reads.
func TestSignalWhilePrinting(t *testing.T) {
	report := filepath.Join(t.TempDir(), "report.json")
	var b strings.Builder
	for i := range 10000 { // more than a pipe holds
		fmt.Fprintf(&b, `,{"counter":%d,"node_type":"function_start","params":{"name":"relu"}}`, i)
	}
	if err := os.WriteFile(report, []byte(`{"version":1,"graph":[`+b.String()[1:]+`]}`), 0o666); err != nil {
		t.Fatal(err)
	}
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	c := start(t, w, "graph", "table", report)
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	if err := c.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	c.wantInterrupted(t, "terminated")
}

// A second signal ends a command that doesn't end with the first, here one that reads a recording while it reads its flags.
func TestSecondSignal(t *testing.T) {
	path := pipe(t)
	c := start(t, nil, "demo", "--device", "session:"+path)
	w, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = c.Wait() // its state says it all
	}()
	tick := time.NewTicker(10 * time.Millisecond) // two signals at once are one
	defer tick.Stop()
	for running := true; running; {
		_ = c.Process.Signal(syscall.SIGTERM) // it may have ended
		select {
		case <-ended:
			running = false
		case <-tick.C:
		}
	}
	if s := c.ProcessState.Sys().(syscall.WaitStatus); !s.Signaled() || s.Signal() != syscall.SIGTERM {
		t.Errorf("%v, want it ended by the signal", c.ProcessState)
	}
}
