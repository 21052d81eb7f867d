// Package cli is what all commands share: output, names of devices, errors.
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// IsFile reports whether a name is that of a plain file, and so not of a device.
func IsFile(name string) bool {
	st, err := os.Stat(name)
	return err == nil && st.Mode().IsRegular()
}

// Until calls a function that only reads or prints, and returns early when ctx ends: the function may
// block in a pipe, and the process ends soon.
func Until[T any](ctx context.Context, f func() (T, error)) (T, error) {
	type result struct {
		v   T
		err error
	}
	done := make(chan result, 1)
	go func() {
		v, err := f()
		done <- result{v, err}
	}()
	select {
	case r := <-done:
		return r.v, r.err
	case <-ctx.Done():
		var none T
		return none, context.Cause(ctx)
	}
}

// Process labels messages with the number of this process among several.
type Process struct {
	name atomic.Pointer[string]
	Quit func(error) // ends the process with an error at once; nil in tests
	said sync.Once
}

// Last writes a process's last message once: an orderly end and Quit can coincide.
func (p *Process) Last(write func()) {
	if p == nil {
		write()
	} else {
		p.said.Do(write)
	}
}

// Set sets the number of the process.
func (p *Process) Set(rank, size int) {
	if p == nil || size < 2 {
		return
	}
	name := fmt.Sprintf("process %d of %d: ", rank, size)
	p.name.Store(&name)
}

// Label puts the process into each line, after a leading "reprise: ".
func (p *Process) Label(text string) string {
	if p == nil || p.name.Load() == nil {
		return text
	}
	var b strings.Builder
	for line := range strings.Lines(text) {
		rest, ok := strings.CutPrefix(line, "reprise: ")
		if ok {
			b.WriteString("reprise: ")
		}
		b.WriteString(*p.name.Load() + rest)
	}
	return b.String()
}

// ExitHelp ends the help of all commands but those that pass on a program's exit code.
const ExitHelp = `Exit codes: 0 all is well, 1 something went wrong or a check failed, 2 wrong flags or arguments, 130 interrupted.`

// Streams are where a command reads and writes.
type Streams struct {
	Out, Err io.Writer
	Who      *Process
}

// Endings are the signals on which a command closes its device and ends. SIGHUP is left out if the
// process was started with it ignored, as under nohup.
func Endings() []os.Signal {
	s := []os.Signal{os.Interrupt, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) {
		s = append(s, syscall.SIGHUP)
	}
	return s
}

// Serve answers HTTP requests at an address until ctx ends, and returns ctx's error then. It prints
// the URL of path.
func Serve(ctx context.Context, what, address string, h http.Handler, out io.Writer, path string) error {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	fmt.Fprintf(out, "serving http://%s%s\n", l.Addr(), path)
	srv := &http.Server{Handler: h, ReadHeaderTimeout: 5 * time.Second, WriteTimeout: time.Minute}
	ended := make(chan error, 1)
	go func() { ended <- srv.Serve(l) }()
	select {
	case err := <-ended:
		return fmt.Errorf("%s: %w", what, err)
	case <-ctx.Done():
	}
	err = srv.Close() // clients repeat what was cut
	if e := <-ended; !errors.Is(e, http.ErrServerClosed) {
		err = errors.Join(err, e)
	}
	return errors.Join(ctx.Err(), err)
}
