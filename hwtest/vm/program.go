package vm

import (
	"archive/tar"
	"cmp"
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
	// Module is the vendor's driver for the kernel, compressed if the kernel can decompress it.
	Module string
	// Init calls inside.Main if its arguments are InitArgs; the machine has it at InitPath.
	Init     string
	InitArgs []string
	// Args are the program and its arguments. InitPath names Init; others keep their path, loader
	// and libraries.
	Args []string
	Env  []string
	// Share is an absolute folder that is copied to the machine. What the program has written
	// there is copied back.
	Share string
	Dir   string
	// Files are more files with the same path in the machine.
	Files []string
	// Busybox is a static busybox, whose commands the machine has in BusyboxDir; empty for none.
	Busybox string
	// Terminal gives the program standard input and output, a terminal of the given size.
	Terminal      bool
	Rows, Columns uint16
	Stdout        io.Writer
	// Console gets the kernel's messages and the program's errors.
	Console io.Writer
	// KernelMessages is their least importance: 4 for errors, 7 for all.
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

// Run returns the program's exit status. The error wraps ErrBoot if the machine ended first, or
// ctx's.
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
	hw.Memory = max(cmp.Or(hw.Memory, defaultMemory), 512+2*int(info.Size()/mib))
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
		_ = w.Close()
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

// returnFile writes a file into the share, whole or not at all. Links don't lead out of it.
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
