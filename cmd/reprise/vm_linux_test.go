package main

import (
	"archive/tar"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/reprise-tt/reprise/cmd/reprise/internal/cli"
	"github.com/reprise-tt/reprise/hwtest/vm/inside"
	"github.com/reprise-tt/reprise/sim/serve"
)

// A killed server's socket is replaced; a busy server's stays.
func TestListen(t *testing.T) {
	path := filepath.Join(t.TempDir(), "card")
	at := &unix.SockaddrUnix{Name: path}
	open := func() int {
		fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
		must(t, err)
		return fd
	}
	server := open()
	must(t, errors.Join(unix.Bind(server, at), unix.Listen(server, 0)))
	var err error
	for range 10 { // no reader takes them
		fd := open()
		defer unix.Close(fd)
		if err = unix.Connect(fd, at); err != nil {
			break
		}
	}
	if !errors.Is(err, unix.EAGAIN) {
		t.Fatalf("a server without room: %v", err)
	}
	if l, err := serve.Listen(path); !errors.Is(err, syscall.EADDRINUSE) {
		t.Errorf("beside a busy server: %v", err)
		if err == nil {
			l.SetUnlinkOnClose(false)
			_ = l.Close()
		}
	}
	if _, err := os.Lstat(path); err != nil {
		t.Fatal(err)
	}
	if err := unix.Close(server); err != nil { // the file stays
		t.Fatal(err)
	}
	l, err := serve.Listen(path)
	must(t, err)
	c, err := net.Dial("unix", path)
	must(t, err)
	must(t, errors.Join(c.Close(), l.Close()))
}

func fakeKernel(t *testing.T, release string) string {
	t.Helper()
	b := make([]byte, 0x400)
	copy(b[0x202:], "HdrS")
	binary.LittleEndian.PutUint16(b[0x20E:], 0x100)
	copy(b[0x300:], release+" (somebody@somewhere) #1")
	return write(t, "vmlinuz", b, 0o644)
}

func write(t *testing.T, name string, b []byte, mode os.FileMode) string {
	t.Helper()
	name = filepath.Join(t.TempDir(), name)
	must(t, os.WriteFile(name, b, mode))
	return name
}

func fakeModule(t *testing.T) string {
	t.Helper()
	return write(t, "tenstorrent.ko.xz", []byte("\xFD7zXZ\x00"), 0o644)
}

// fakeQEMU writes a program that answers as a QEMU of a version does, and otherwise runs a script
// in which $results is the file behind the third serial port.
func fakeQEMU(t *testing.T, version, devices, script string) string {
	t.Helper()
	return write(t, "qemu", []byte(`#!/bin/sh
case "$1 $2" in
--version*) echo "QEMU emulator version `+version+` (Debian)"; exit;;
"-device help") echo '`+devices+`'; exit;;
esac
for a; do case $a in file:*) results=${a#file:};; esac; done
`+script), 0o755)
}

const vfioUserDevice = `name "vfio-user-pci", bus PCI`

func runVM(ctx context.Context, qemu, kernel, module string, args ...string) (code int, stdout, stderr string) {
	command := []string{"vm", "--machine", "n150", "--qemu", qemu, "--kernel", kernel}
	if module != "" {
		command = append(command, "--module", module)
	}
	return runs(ctx, append(command, args...)...)
}

func runFake(ctx context.Context, t *testing.T, script string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	return runVM(ctx, fakeQEMU(t, "11.1.3", vfioUserDevice, script), fakeKernel(t, "6.12.0-test"), fakeModule(t), args...)
}

func TestVMMissing(t *testing.T) {
	kernel, module := fakeKernel(t, "6.12.0-test"), fakeModule(t)
	good := fakeQEMU(t, "11.1.3", vfioUserDevice, "exit 1")
	prog := []string{"--", "reprise"}
	tree := t.TempDir() // of another Debian
	must(t, errors.Join(os.MkdirAll(tree+"/usr/bin", 0o777), os.Mkdir(tree+"/usr/lib64", 0o777), os.Rename(
		fakeQEMU(t, "11.1.3", vfioUserDevice, ""), tree+"/usr/bin/qemu-system-x86_64"), os.WriteFile(tree+"/usr/lib64/ld-linux-x86-64.so.2",
		[]byte("#!/bin/sh\nqemu=$3; shift 7; exec \"$qemu\" \"$@\"\n"), 0o755)))
	for _, c := range []struct {
		name, qemu, kernel, module string
		args, want                 []string
	}{
		{"everything", "no-such-qemu", "no/kernel", "no/module", []string{"--", "no-such-program"}, []string{
			"reprise: QEMU is missing (no-such-qemu): install Debian 13's package of its backports (apt-get install -t trixie-backports qemu-system-x86), on Debian 12 into a folder, as root (mmdebstrap --variant=extract ",
			"reprise: the kernel no/kernel is missing: name one with --kernel (Debian: package linux-image-amd64 has /boot/vmlinuz-…)",
			"reprise: the driver no/module is missing: build the module of https://github.com/tenstorrent/tt-kmd for that kernel as its README says, and name it with --module (Debian: packages linux-headers-amd64, make, gcc)",
			"reprise: the program no-such-program is missing: executable file not found in $PATH"}},
		{"vfio-user", fakeQEMU(t, "10.0.2", "", ""), kernel, module, prog, []string{
			"has no vfio-user, which QEMU has since 10.1: install Debian 13's package of its backports"}},
		{"a kernel", good, module, module, prog, []string{"not a kernel image of x86 (vmlinuz, bzImage): name one with --kernel"}},
		{"the kernel's driver", good, kernel, "", prog, []string{
			"reprise: the driver is missing: build the module of https://github.com/tenstorrent/tt-kmd for that kernel as its README says, and name it with --module (Debian: packages linux-headers-6.12.0-test, make, gcc)"}},
		{"a module", good, kernel, kernel, prog, []string{"not a kernel module: build the module"}},
		{"a folder without QEMU", t.TempDir(), kernel, module, prog, []string{"reprise: QEMU is missing (/"}},
		{"a folder with QEMU", tree, kernel, kernel, prog, []string{"not a kernel module: build the module"}},
		{"a terminal", good, kernel, module, nil, []string{"a shell needs a terminal: give a program after --"}},
		{"a folder", good, kernel, module, []string{"--share", "/no/such/folder", "--", "reprise"}, []string{"/no/such/folder: no such file or directory"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			in, err := os.Open(os.DevNull)
			must(t, err)
			defer in.Close()
			old := os.Stdin
			os.Stdin = in
			defer func() { os.Stdin = old }()
			code, stdout, stderr := runVM(t.Context(), c.qemu, c.kernel, c.module, c.args...)
			if lines := strings.Split(strings.TrimSpace(stderr), "\n"); code != cli.ExitFailed || stdout != "" ||
				len(lines) != len(c.want) {
				t.Errorf("exit code %d, standard output %q, standard error in %d lines, want %d:\n%s", code, stdout, len(lines),
					len(c.want), stderr)
			}
			for _, w := range c.want {
				if !strings.Contains(stderr, w) {
					t.Errorf("standard error lacks %q:\n%s", w, stderr)
				}
			}
		})
	}
}

func TestVMProgram(t *testing.T) {
	share := t.TempDir()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, f := range [][2]string{{inside.ResultShare + "out/report.json", "{}"}, {inside.ResultStatus, "7"}} {
		must(t, w.WriteHeader(&tar.Header{Name: f[0], Mode: 0o644, Size: int64(len(f[1]))}))
		_, err := w.Write([]byte(f[1]))
		must(t, err)
	}
	must(t, w.Close())
	results := write(t, "results", b.Bytes(), 0o644)
	code, stdout, stderr := runFake(t.Context(), t, `echo of the kernel >&3; echo of the program >&4; cat `+results+` > "$results"`,
		"--share", share, "--", "reprise", "ls", "--json")
	if code != 7 || stdout != "of the program\n" || !strings.Contains(stderr, "of the kernel\n") || strings.Contains(stderr, "reprise: ") {
		t.Errorf("exit code %d, standard output %q, standard error %q", code, stdout, stderr)
	}
	if got, err := os.ReadFile(filepath.Join(share, "out", "report.json")); err != nil || string(got) != "{}" {
		t.Errorf("the returned file has %q, %v", got, err)
	}
}

func TestVMNoStatus(t *testing.T) {
	for script, want := range map[string]string{
		"exit 0":                        "the machine did not get to its end",
		"echo cannot start >&2; exit 1": "cannot start",
	} {
		code, _, stderr := runFake(t.Context(), t, script, "--", "reprise")
		if code != cli.ExitFailed || !strings.Contains(stderr, want) {
			t.Errorf("%s: exit code %d, standard error %q, want %q in it", script, code, stderr, want)
		}
	}
}

func TestVMInterrupted(t *testing.T) {
	dir := t.TempDir()
	started, ended := filepath.Join(dir, "started"), filepath.Join(dir, "ended")
	must(t, unix.Mkfifo(started, 0o600))
	script := "trap 'echo >" + ended + "; exit 0' TERM; echo $$ >" + started + "; while :; do read line <" + started + "; done"
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	go func() {
		b := make([]byte, 16)
		if f, err := os.Open(started); err == nil { // until QEMU has opened it
			n, _ := f.Read(b)
			_ = f.Close()
			if _, err := strconv.Atoi(strings.TrimSpace(string(b[:n]))); err == nil {
				cancel()
			}
		}
	}()
	code, _, stderr := runFake(ctx, t, script, "--", "reprise")
	if code != cli.ExitInterrupted || !strings.HasSuffix(stderr, "\nreprise: ended: context canceled\n") {
		t.Errorf("exit code %d, standard error %q", code, stderr)
	}
	if _, err := os.Stat(ended); err != nil {
		t.Errorf("QEMU didn't end in order: %v", err)
	}
}

func TestVMBoot(t *testing.T) {
	qemu, kernel, module := os.Getenv("REPRISE_QEMU"), os.Getenv("REPRISE_VM_KERNEL"), os.Getenv("REPRISE_VM_MODULE")
	if qemu == "" || kernel == "" || module == "" {
		t.Skip("REPRISE_QEMU, REPRISE_VM_KERNEL and REPRISE_VM_MODULE don't name a QEMU, a kernel and the vendor's driver")
	}
	share := t.TempDir()
	script := filepath.Join(share, "program")
	must(t, os.WriteFile(script, []byte("#!/bin/sh\necho \"$1\" > out\necho of the program\nexit 7\n"), 0o755))
	code, stdout, stderr := runVM(t.Context(), qemu, kernel, module, "--share", share, "--", script, "in")
	if code != 7 || stdout != "of the program\n" {
		t.Errorf("exit code %d, standard output %q, standard error:\n%s", code, stdout, stderr)
	}
	if got, err := os.ReadFile(filepath.Join(share, "out")); err != nil || string(got) != "in\n" {
		t.Errorf("the returned file has %q, %v", got, err)
	}
}
