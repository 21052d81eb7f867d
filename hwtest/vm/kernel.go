package vm

import (
	"bufio"
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
)

// ErrNotKernel means that a file is no kernel image that tells its release.
var ErrNotKernel = errors.New("not a kernel image of x86 (vmlinuz, bzImage)")

// ErrNotModule means that a file is no kernel module.
var ErrNotModule = errors.New("not a kernel module")

// KernelRelease returns an x86 kernel image's release, such as "6.12.38-amd64" (Linux's
// boot.rst).
func KernelRelease(name string) (string, error) {
	f, err := os.Open(name)
	if err != nil {
		return "", err
	}
	defer f.Close()
	const magicAt, versionAt, base = 0x202, 0x20E, 0x200
	head, text, n := make([]byte, versionAt+2), make([]byte, 256), 0
	if _, err := f.ReadAt(head, 0); err == nil && bytes.Equal(head[magicAt:magicAt+4], []byte("HdrS")) {
		n, _ = f.ReadAt(text, base+int64(binary.LittleEndian.Uint16(head[versionAt:]))) // the text may end with the file
	}
	release, _, _ := strings.Cut(string(text[:n]), " ")
	if release == "" || strings.ContainsRune(release, 0) {
		return "", fmt.Errorf("vm: %s: %w", name, ErrNotKernel)
	}
	return release, nil
}

// ModuleRelease returns the release that a module was built for, or "" if it is compressed.
func ModuleRelease(name string) (string, error) {
	f, err := os.Open(name)
	if err != nil {
		return "", err
	}
	defer f.Close()
	magic := make([]byte, 6)
	n, _ := f.ReadAt(magic, 0)
	for _, compressed := range []string{"\xFD7zXZ\x00", "\x28\xB5\x2F\xFD", "\x1F\x8B"} { // xz, zstd, gzip
		if strings.HasPrefix(string(magic[:n]), compressed) {
			return "", nil
		}
	}
	var info []byte
	if e, err := elf.NewFile(f); err == nil && e.Section(".modinfo") != nil {
		if info, err = e.Section(".modinfo").Data(); err != nil {
			return "", fmt.Errorf("vm: %s: %w: %w", name, ErrNotModule, err)
		}
	}
	for _, field := range strings.Split(string(info), "\x00") {
		if magic, ok := strings.CutPrefix(field, "vermagic="); ok {
			release, _, _ := strings.Cut(magic, " ")
			return release, nil
		}
	}
	return "", fmt.Errorf("vm: %s: %w", name, ErrNotModule)
}

// QEMUVersion returns the version of a QEMU and whether it has a client of vfio-user.
func QEMUVersion(command []string) (version string, vfioUser bool, err error) {
	ask := func(args ...string) string {
		out, e := exec.Command(command[0], append(command[1:len(command):len(command)], args...)...).Output()
		if e != nil && err == nil {
			err = fmt.Errorf("vm: %s %s: %w", strings.Join(command, " "), strings.Join(args, " "), e)
		}
		return string(out)
	}
	line, _, _ := strings.Cut(ask("--version"), "\n")
	_, version, _ = strings.Cut(line, "version ")
	version, _, _ = strings.Cut(version, " ")
	return version, strings.Contains(ask("-device", "help"), `"vfio-user-pci"`), err
}

// A LibraryError lists a program's missing libraries.
type LibraryError struct {
	Program string
	Missing []string
}

func (e *LibraryError) Error() string {
	return fmt.Sprintf("vm: %s: this machine has no %s", e.Program, strings.Join(e.Missing, ", "))
}

// needs lists a program's loader and libraries, or its script's interpreter with what that needs.
func needs(program string) ([]string, error) {
	f, err := os.Open(program)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if line, err := bufio.NewReader(io.LimitReader(f, 256)).ReadString('\n'); err == nil && strings.HasPrefix(line, "#!") {
		words := strings.Fields(line[2:])
		if len(words) == 0 {
			return nil, nil
		}
		more, err := needs(words[0])
		return append(more, words[0]), err
	}
	e, err := elf.NewFile(f)
	var format *elf.FormatError
	if errors.As(err, &format) || errors.Is(err, io.EOF) {
		return nil, nil
	} else if err != nil {
		return nil, fmt.Errorf("vm: %s: %w", program, err)
	}
	loader := ""
	for _, p := range e.Progs {
		if p.Type == elf.PT_INTERP {
			b, err := io.ReadAll(io.LimitReader(p.Open(), 4096))
			if err != nil {
				return nil, fmt.Errorf("vm: %s: %w", program, err)
			}
			loader = string(bytes.TrimRight(b, "\x00"))
		}
	}
	if loader == "" {
		return nil, nil
	}
	out, err := exec.Command(loader, "--list", program).Output()
	libraries, missing := parseLoader(string(out))
	if len(missing) > 0 {
		return nil, &LibraryError{Program: program, Missing: missing}
	}
	if err != nil {
		return nil, fmt.Errorf("vm: find the libraries of %s: %w", program, err)
	}
	return append(libraries, loader), nil
}

// parseLoader splits a loader's list into found and missing libraries.
func parseLoader(out string) (found, missing []string) {
	for line := range strings.Lines(out) {
		name, rest, arrow := strings.Cut(strings.TrimSpace(line), " => ")
		if !arrow {
			rest = name
		}
		switch w := strings.Fields(rest); {
		case arrow && strings.HasPrefix(rest, "not found"):
			missing = append(missing, name)
		case len(w) > 0 && strings.HasPrefix(w[0], "/"):
			found = append(found, w[0])
		}
	}
	return found, missing
}
