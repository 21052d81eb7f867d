package vm

import (
	"archive/tar"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/reprise-tt/reprise/hwtest/vm/inside"
)

// Program is a program of this machine that runs in a virtual one with cards and their driver.
type Program struct {
	Hardware
	// Module is the vendor's driver, built for the kernel. It may be compressed if the kernel can
	// decompress modules.
	Module string
	// Init is a program that calls inside.Main if its arguments are InitArgs. It is at InitPath in
	// the machine.
	Init     string
	InitArgs []string
	// Args are the program and its arguments. A program with the path InitPath is Init; all others
	// are paths of this machine, and have the same path in the other one, where their loader and
	// libraries are copied to as well.
	Args []string
	// Env is the program's environment.
	Env []string
	// Share is the absolute path of a folder that is copied to the same path of the machine. What
	// the program has written there is copied back when it ends; what it has deleted stays. Empty
	// for none.
	Share string
	// Dir is the program's working directory, "/" if empty.
	Dir string
	// Files are further programs and files of this machine that have the same path in the other
	// one.
	Files []string
	// Busybox is the path of a static busybox, whose commands the machine then has in BusyboxDir;
	// empty for none.
	Busybox string
	// Terminal makes standard input and output, which have to be a terminal of the given size, that
	// of the program. Otherwise the program reads nothing.
	Terminal      bool
	Rows, Columns uint16
	// Stdout gets the program's standard output.
	Stdout io.Writer
	// Console gets the kernel's messages and the program's standard error.
	Console io.Writer
	// KernelMessages is how important those messages must be: 4 for errors, 7 for all.
	KernelMessages int
}

// Paths in the machine.
const (
	InitPath   = "/usr/bin/reprise"
	BusyboxDir = "/usr/lib/busybox"
)

const modulePath = "/tenstorrent.ko"

// ErrProgram is wrapped by the error of a machine that could not run the program.
var ErrProgram = errors.New("the machine could not run the program")

// Run boots the machine, runs the program, and waits until the machine is off. It returns the
// program's exit status, as a shell has it. The error wraps ErrBoot if the machine ended before the
// program, or ctx's.
func (p *Program) Run(ctx context.Context) (status int, err error) {
	dir, err := os.MkdirTemp("", "reprise-vm")
	if err != nil {
		return 0, fmt.Errorf("vm: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	initial, results := filepath.Join(dir, "initial"), filepath.Join(dir, "results")
	if err := writeArchive(initial, p.fill); err != nil {
		return 0, fmt.Errorf("vm: initial file system: %w", err)
	}
	hw := p.Hardware
	info, err := os.Stat(initial)
	if err != nil {
		return 0, fmt.Errorf("vm: %w", err)
	}
	// The archive is in memory twice while it is unpacked.
	const mib = 1 << 20
	hw.Memory = max(hw.memory(), 512+2*int(info.Size()/mib))
	first := "stdio,id=console,signal=off,mux=on"
	if !p.Terminal {
		first = "file,id=console,path=/dev/fd/3"
	}
	kernel := fmt.Sprintf("console=ttyS0 panic=-1 loglevel=%d rdinit=%s -- %s", p.KernelMessages, InitPath, strings.Join(p.InitArgs, " "))
	args := hw.arguments(initial, kernel, "-chardev", first, "-serial", "chardev:console",
		"-chardev", "file,id=output,path=/dev/fd/4", "-serial", "chardev:output", "-serial", "file:"+results)
	if p.Terminal {
		args = append(args, "-mon", "chardev=console")
	}
	if err := p.boot(ctx, &hw, args); err != nil {
		return 0, err
	}
	return p.collect(results)
}

// boot starts QEMU and waits until the machine is off.
func (p *Program) boot(ctx context.Context, hw *Hardware, args []string) error {
	m, err := hw.command(ctx, args)
	if err != nil {
		return err
	}
	if p.Terminal {
		m.cmd.Stdin, m.cmd.Stdout = os.Stdin, os.Stdout
	} else {
		apart(m.cmd)
	}
	var ports []*os.File
	copied := make(chan error)
	for _, to := range []io.Writer{p.Console, p.Stdout} {
		r, w, err := os.Pipe()
		if err != nil {
			return fmt.Errorf("vm: %w", err)
		}
		defer r.Close()
		defer w.Close()
		ports, m.cmd.ExtraFiles = append(ports, r), append(m.cmd.ExtraFiles, w)
		if to == nil {
			to = io.Discard
		}
		go func() {
			_, err := io.Copy(to, r)
			_, _ = io.Copy(io.Discard, r) // QEMU waits for a reader, so the machine would
			copied <- err
		}()
	}
	err = m.start()
	for _, w := range m.cmd.ExtraFiles {
		_ = w.Close() // QEMU has it
	}
	if err == nil {
		err = m.wait()
	}
	for range ports {
		if e := <-copied; err == nil && e != nil {
			err = fmt.Errorf("vm: print what the machine printed: %w", e)
		}
	}
	return err
}

// fill adds the program, what it needs, and the job to an archive.
func (p *Program) fill(a *archive) error {
	if err := a.copy(modulePath, p.Module); err != nil {
		return err
	}
	job := inside.Job{Module: modulePath, Args: p.Args, Env: p.Env, Dir: p.Dir, Share: p.Share,
		Terminal: p.Terminal, Rows: p.Rows, Columns: p.Columns}
	add := func(to, from string) error {
		more, err := needs(from)
		if err != nil {
			return err
		}
		for _, m := range more {
			if err := a.copy(m, m); err != nil {
				return err
			}
		}
		return a.copy(to, from)
	}
	if err := add(InitPath, p.Init); err != nil {
		return err
	}
	if p.Busybox != "" {
		job.Busybox = BusyboxDir + "/busybox"
		if err := add(job.Busybox, p.Busybox); err != nil {
			return err
		}
	}
	files := p.Files
	if name := p.Args[0]; name != InitPath && !(p.Busybox != "" && strings.HasPrefix(name, BusyboxDir+"/")) {
		files = append(files[:len(files):len(files)], name)
	}
	for _, f := range files {
		if err := add(f, f); err != nil {
			return err
		}
	}
	if p.Share != "" {
		if err := a.copyTree(p.Share); err != nil {
			return err
		}
	}
	text, err := json.Marshal(job)
	if err != nil {
		return err
	}
	return a.text(inside.JobFile, string(text))
}

// collect reads the results of a machine that is off: it copies files into the share and returns
// the program's status.
func (p *Program) collect(results string) (status int, err error) {
	f, err := os.Open(results)
	if err != nil {
		return 0, fmt.Errorf("vm: %w: %w", ErrBoot, err)
	}
	defer f.Close()
	var share *os.Root
	if p.Share != "" {
		if share, err = os.OpenRoot(p.Share); err != nil {
			return 0, fmt.Errorf("vm: return files: %w", err)
		}
		defer share.Close()
	}
	for r := tar.NewReader(f); ; {
		h, err := r.Next()
		if err != nil {
			return 0, fmt.Errorf("vm: %w: see what it printed on its console", ErrBoot) // the status is the last entry
		}
		switch name, isShare := strings.CutPrefix(h.Name, inside.ResultShare); {
		case isShare && share != nil:
			if err := returnFile(share, filepath.FromSlash(name), h.FileInfo().Mode().Perm(), r); err != nil {
				return 0, fmt.Errorf("vm: return files: %w", err)
			}
		case h.Name == inside.ResultStatus, h.Name == inside.ResultError:
			b, err := io.ReadAll(io.LimitReader(r, 4096))
			if err != nil {
				return 0, fmt.Errorf("vm: %w: %w", ErrBoot, err)
			}
			if h.Name == inside.ResultError {
				return 0, fmt.Errorf("vm: %w: %s", ErrProgram, b)
			}
			return strconv.Atoi(string(b))
		}
	}
}

// returnFile writes a file of the machine into the share, whole or not at all: results that end in
// the middle don't cost the file that was there. Links in the share don't lead out of it.
func returnFile(share *os.Root, name string, mode fs.FileMode, r io.Reader) (err error) {
	if err := share.MkdirAll(filepath.Dir(name), 0o777); err != nil {
		return err
	}
	beside := name + "." + rand.Text()
	f, err := share.OpenFile(beside, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, r)
	if err = errors.Join(err, f.Close()); err == nil {
		err = share.Rename(beside, name)
	}
	if err != nil {
		err = errors.Join(err, share.Remove(beside))
	}
	return err
}
