package inside

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Main runs the Job of JobFile, writes the results, and turns the machine off. It returns an
// error only if it is not the first program.
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
		// A pipe keeps the program from an interactive display.
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

func openTerminal(name string) (*os.File, error) {
	return os.OpenFile(name, os.O_RDWR|unix.O_NOCTTY, 0)
}

func openPort(name string) (*os.File, error) {
	f, err := openTerminal(name)
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

// snapshot is when each file was changed last, content or attributes.
type snapshot map[string]syscall.Timespec

func snap(dir string) (snapshot, error) {
	s := snapshot{}
	err := walk(dir, func(path string, info fs.FileInfo) error {
		s[path] = changed(info)
		return nil
	})
	return s, err
}

func (s snapshot) writeChanged(w *tar.Writer, dir string) error {
	return walk(dir, func(path string, info fs.FileInfo) error {
		if at, ok := s[path]; ok && at == changed(info) {
			return nil
		}
		return writeFile(w, dir, path, info)
	})
}

func walk(dir string, f func(path string, info fs.FileInfo) error) error {
	if dir == "" {
		return nil
	}
	return filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		return f(path, info)
	})
}

func changed(info fs.FileInfo) syscall.Timespec { return info.Sys().(*syscall.Stat_t).Ctim }

func writeFile(w *tar.Writer, dir, path string, info fs.FileInfo) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	name, err := filepath.Rel(dir, path)
	if err != nil {
		return err
	}
	h := &tar.Header{Name: ResultShare + filepath.ToSlash(name), Mode: int64(info.Mode().Perm()), Size: info.Size(),
		ModTime: info.ModTime()}
	if err := w.WriteHeader(h); err != nil {
		return err
	}
	if _, err := io.CopyN(w, f, info.Size()); err != nil {
		return fmt.Errorf("return %s: %w", path, err)
	}
	return nil
}

// Mount mounts what programs expect. A folder for temporary files that isn't empty stays.
func Mount() error {
	for _, m := range [][2]string{{"proc", "/proc"}, {"sysfs", "/sys"}, {"devtmpfs", "/dev"}, {"tmpfs", "/tmp"}, {"tmpfs", "/run"}} {
		if err := os.MkdirAll(m[1], 0o755); err != nil {
			return err
		}
		if files, err := os.ReadDir(m[1]); err != nil || m[0] == "tmpfs" && len(files) > 0 {
			continue
		}
		if err := unix.Mount(m[0], m[1], m[0], 0, ""); err != nil && !errors.Is(err, syscall.EBUSY) {
			return fmt.Errorf("mount %s: %w", m[1], err)
		}
	}
	for _, m := range [][3]string{{"tmpfs", "/dev/shm", ""}, {"devpts", "/dev/pts", "ptmxmode=0666"},
		{"debugfs", "/sys/kernel/debug", ""}} {
		if err := os.MkdirAll(m[1], 0o1777); err == nil {
			_ = unix.Mount(m[0], m[1], m[0], 0, m[2])
		}
	}
	return nil
}

// Load loads a kernel module, compressed if the kernel can decompress it.
func Load(module string) error {
	f, err := os.Open(module)
	if err != nil {
		return err
	}
	defer f.Close()
	magic := make([]byte, 4)
	if _, err := io.ReadFull(f, magic); err != nil {
		return fmt.Errorf("read %s: %w", module, err)
	}
	flags := 0
	if !bytes.Equal(magic, []byte("\x7fELF")) {
		flags = unix.MODULE_INIT_COMPRESSED_FILE
	}
	if err := unix.FinitModule(int(f.Fd()), "", flags); err != nil {
		return fmt.Errorf("load %s: %w", module, err)
	}
	return nil
}

// PowerOff turns the machine off. It doesn't return: the first program must not end.
func PowerOff() {
	unix.Sync()
	time.Sleep(100 * time.Millisecond) // until the console has it
	_ = unix.Reboot(unix.LINUX_REBOOT_CMD_POWER_OFF)
	for {
		time.Sleep(time.Hour)
	}
}
