package sims

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"syscall"
	"time"

	"github.com/reprise-tt/reprise/cmd/reprise/internal/cli"
	"github.com/reprise-tt/reprise/internal/ttnn"
)

// endPatience is how long a program may take to end after it was told to.
const endPatience = 5 * time.Second

// start runs the program and waits for it. What this process is told by signals, the program is told.
func (c *ttnnRunCmd) start(ctx context.Context, s cli.Streams, r *ttnn.Run) error {
	r.Settings.Report = fmt.Sprintf("@reprise-ttnn-%d", os.Getpid()) // in Linux's namespace without files
	env, err := r.Prepare(os.Environ())
	if err != nil {
		return err
	}
	cmd := exec.Command(r.Installation.Python, c.Args...)
	cmd.Env, cmd.Stdin, cmd.Stdout, cmd.Stderr = env, os.Stdin, s.Out, s.Err
	cmd.SysProcAttr = ChildAttributes()

	AdoptOrphans()
	// The program ignores SIGQUIT, which a terminal sends to both: this process answers it.
	signal.Ignore(syscall.SIGQUIT)
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, append(cli.Endings(), syscall.SIGUSR1, syscall.SIGUSR2)...)
	defer signal.Stop(signals)
	ended := make(chan error, 1)
	begun := make(chan error, 1)
	go func() {
		// Linux ends the program with this process: with the thread that started it, to be exact.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		begun <- err
		if err == nil {
			ended <- cmd.Wait()
		}
	}()
	if err := <-begun; err != nil {
		return &ttnn.Error{Kind: ttnn.ErrNoPython, Found: r.Installation.Python, Fix: "name a Python with --python", Err: err}
	}
	signal.Notify(signals, syscall.SIGQUIT)

	var timeout <-chan time.Time
	if c.Timeout > 0 {
		t := time.NewTimer(c.Timeout)
		defer t.Stop()
		timeout = t.C
	}
	for {
		select {
		case err := <-ended:
			return programStatus(err)
		case sig := <-signals:
			switch {
			case sig == syscall.SIGQUIT:
				return c.abandon(ctx, s, r, cmd.Process, ended, "reprise: SIGQUIT: what the program waits for:")
			case sig == os.Interrupt && inForeground(): // the terminal told the program, too
			default:
				_ = cmd.Process.Signal(sig) // unless it has ended just now
			}
		case <-timeout:
			return c.abandon(ctx, s, r, cmd.Process, ended, fmt.Sprintf("reprise: the program took longer than %v:", c.Timeout))
		}
	}
}

// abandon prints what each core does and ends the program.
func (c *ttnnRunCmd) abandon(ctx context.Context, s cli.Streams, r *ttnn.Run, p *os.Process, ended <-chan error, why string) error {
	fmt.Fprintln(s.Err, why)
	ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), 2*endPatience)
	defer stop()
	if err := printCores(ctx, s.Err, r); err != nil {
		fmt.Fprintln(s.Err, "reprise: the cores can't be read:", err)
	}
	_ = p.Signal(syscall.SIGABRT) // Python prints where it is
	var err error
	select {
	case err = <-ended:
	case <-time.After(endPatience):
		_ = p.Kill()
		err = <-ended
	}
	KillOrphans() // what the program has started may wait for it
	return programStatus(err)
}

// printCores prints what the program's chips do, as the library in it says. Before TT-NN has opened a device there is none.
func printCores(ctx context.Context, w io.Writer, r *ttnn.Run) error {
	var d net.Dialer
	c, err := d.DialContext(ctx, "unix", r.Settings.Report)
	if errors.Is(err, syscall.ECONNREFUSED) {
		_, err := fmt.Fprintln(w, "it has no device open")
		return err
	}
	if err != nil {
		return err
	}
	stop := context.AfterFunc(ctx, func() { _ = c.Close() })
	_, err = io.Copy(w, c)
	stop()
	return errors.Join(err, c.Close())
}

// programStatus turns how a program ended into the command's exit code, as shells do.
func programStatus(err error) error {
	var exit *exec.ExitError
	if !errors.As(err, &exit) {
		return err
	}
	if w, ok := exit.Sys().(syscall.WaitStatus); ok && w.Signaled() {
		return cli.ExitStatus(128 + int(w.Signal()))
	}
	return cli.ExitStatus(exit.ExitCode())
}

// builtFrom returns the folder of the checkout that the command was built from; empty if that isn't known.
func builtFrom() string {
	_, file, _, ok := runtime.Caller(0)
	if !ok || !filepath.IsAbs(file) {
		return ""
	}
	dir := filepath.Dir(filepath.Dir(filepath.Dir(file)))
	if _, err := os.Stat(filepath.Join(dir, "go.mod")); err != nil {
		return ""
	}
	return dir
}
