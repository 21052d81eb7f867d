package inside

import (
	"archive/tar"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// Main is the machine's first program: it runs the Job of JobFile, writes the results, and turns
// the machine off. It returns an error only if it is not the first program.
func Main() error {
	if os.Getpid() != 1 {
		return errors.New("inside: this is the first program of a virtual machine; run it nowhere else")
	}
	if err := runJob(); err != nil {
		fmt.Fprintln(os.Stderr, "reprise:", err)
	}
	PowerOff()
	return nil
}

// runJob runs the Job and writes its results.
func runJob() error {
	if err := Mount(); err != nil {
		return err
	}
	results, err := openPort(Results)
	if err != nil {
		return err
	}
	w := tar.NewWriter(results)
	var job Job
	before := snapshot{}
	status, err := func() (int, error) {
		text, err := os.ReadFile(JobFile)
		if err != nil {
			return 0, err
		}
		if err := json.Unmarshal(text, &job); err != nil {
			return 0, fmt.Errorf("%s: %w", JobFile, err)
		}
		if job.Busybox != "" {
			if out, err := exec.Command(job.Busybox, "--install", "-s", filepath.Dir(job.Busybox)).CombinedOutput(); err != nil {
				return 0, fmt.Errorf("install the commands of busybox: %w: %s", err, out)
			}
		}
		if err := Load(job.Module); err != nil {
			return 0, err
		}
		if before, err = snap(job.Share); err != nil {
			return 0, err
		}
		return job.run()
	}()
	end := func(name, text string) error {
		if err := w.WriteHeader(&tar.Header{Name: name, Mode: 0o644, Size: int64(len(text))}); err != nil {
			return err
		}
		_, err := io.WriteString(w, text)
		return err
	}
	if err == nil {
		err = before.writeChanged(w, job.Share)
	}
	if err == nil {
		err = end(ResultStatus, strconv.Itoa(status))
	} else {
		err = errors.Join(err, end(ResultError, err.Error()))
	}
	err = errors.Join(err, w.Close())
	// The port has the bytes once they are sent.
	return errors.Join(err, unix.IoctlSetInt(int(results.Fd()), unix.TCSBRK, 1), results.Close())
}

// run runs the program and returns its exit status, 128 and the signal's number for one that was
// killed.
func (j *Job) run() (status int, err error) {
	cmd := exec.Command(j.Args[0], j.Args[1:]...)
	cmd.Env, cmd.Dir = j.Env, j.Dir
	var ports []*os.File
	open := func(name string, open func(string) (*os.File, error)) *os.File {
		f, e := open(name)
		if err = errors.Join(err, e); e == nil {
			ports = append(ports, f)
		}
		return f
	}
	defer func() {
		for _, f := range ports {
			err = errors.Join(err, f.Close())
		}
	}()
	if j.Terminal {
		t := open(Console, openTerminal)
		cmd.Stdin, cmd.Stdout, cmd.Stderr = t, t, t
		cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
		if err == nil && j.Rows > 0 {
			err = unix.IoctlSetWinsize(int(t.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: j.Rows, Col: j.Columns})
		}
	} else {
		cmd.Stdout = open(Output, openPort)
		// Through a pipe: a program prints no interactive display to it.
		cmd.Stderr = struct{ io.Writer }{os.Stderr}
	}
	if err != nil {
		return 0, err
	}
	err = cmd.Run()
	var exit *exec.ExitError
	switch {
	case !errors.As(err, &exit):
		status = 0
	case exit.Sys().(syscall.WaitStatus).Signaled():
		status, err = 128+int(exit.Sys().(syscall.WaitStatus).Signal()), nil
	default:
		status, err = exit.ExitCode(), nil
	}
	if err == nil && !j.Terminal {
		err = unix.IoctlSetInt(int(ports[0].Fd()), unix.TCSBRK, 1)
	}
	return status, err
}

// openTerminal opens a serial port as a terminal.
func openTerminal(name string) (*os.File, error) {
	return os.OpenFile(name, os.O_RDWR|unix.O_NOCTTY, 0)
}

// openPort opens a serial port for bytes as they are.
func openPort(name string) (*os.File, error) {
	f, err := os.OpenFile(name, os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		return nil, err
	}
	t, err := unix.IoctlGetTermios(int(f.Fd()), unix.TCGETS)
	if err == nil {
		t.Iflag, t.Oflag, t.Lflag = 0, 0, 0
		t.Cflag = unix.CS8 | unix.CREAD | unix.CLOCAL | unix.B115200
		err = unix.IoctlSetTermios(int(f.Fd()), unix.TCSETS, t)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("make %s a port for bytes: %w", name, err), f.Close())
	}
	return f, nil
}
