package vm

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
)

// ErrNotKernel means that a file is no kernel image that tells its release.
var ErrNotKernel = errors.New("not a kernel image of x86 (vmlinuz, bzImage)")

// ErrNotModule means that a file is no kernel module.
var ErrNotModule = errors.New("not a kernel module")

// KernelRelease returns the release of an x86 kernel image, such as "6.12.38-amd64"
// (Documentation/arch/x86/boot.rst of Linux).
func KernelRelease(name string) (string, error) {
	f, err := os.Open(name)
	if err != nil {
		return "", err
	}
	defer f.Close()
	const magicAt, versionAt, base = 0x202, 0x20E, 0x200
	head := make([]byte, versionAt+2)
	if _, err := f.ReadAt(head, 0); err != nil || !bytes.Equal(head[magicAt:magicAt+4], []byte("HdrS")) {
		return "", fmt.Errorf("vm: %s: %w", name, ErrNotKernel)
	}
	text := make([]byte, 256)
	n, _ := f.ReadAt(text, base+int64(binary.LittleEndian.Uint16(head[versionAt:]))) // the text may end with the file
	release, _, _ := strings.Cut(string(text[:n]), " ")
	if release == "" || strings.ContainsRune(release, 0) {
		return "", fmt.Errorf("vm: %s: %w", name, ErrNotKernel)
	}
	return release, nil
}

// ModuleRelease returns the release of the kernel that a module was built for, or "" if the file is
// compressed.
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
	e, err := elf.NewFile(f)
	if err != nil {
		return "", fmt.Errorf("vm: %s: %w", name, ErrNotModule)
	}
	s := e.Section(".modinfo")
	if s == nil {
		return "", fmt.Errorf("vm: %s: %w", name, ErrNotModule)
	}
	b, err := s.Data()
	if err != nil {
		return "", fmt.Errorf("vm: %s: %w: %w", name, ErrNotModule, err)
	}
	for _, field := range strings.Split(string(b), "\x00") {
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
