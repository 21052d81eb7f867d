package kmd

import (
	"bufio"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// Trap 7.1: no child process inherits the device, and its descriptor isn't reused while a request
// runs.
func TestSystemFilesAreOurs(t *testing.T) {
	name := t.TempDir() + "/0"
	must(t, os.WriteFile(name, make([]byte, 4096), 0o600))
	f := value(systemNode(name).Open(syscall.O_APPEND | syscall.O_NONBLOCK))(t)
	fd := value(f.(*systemFile).Descriptor())(t)
	if v, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); err != nil || v&unix.FD_CLOEXEC == 0 {
		t.Errorf("descriptor flags %#x, %v: children inherit it", v, err)
	}
	if v, err := unix.FcntlInt(uintptr(fd), unix.F_GETFL, 0); err != nil || v&unix.O_APPEND == 0 || v&unix.O_ACCMODE != unix.O_RDWR {
		t.Errorf("file flags %#x, %v", v, err)
	}
	m := value(f.Mmap(0, 4096))(t)
	must(t, m.Unmap())
	must(t, f.Close())
	if _, err := f.(*systemFile).Descriptor(); err != unix.EBADF {
		t.Errorf("after close: %v", err)
	}
	if err := f.Ioctl(0, nil); err != unix.EBADF {
		t.Errorf("request after close: %v", err)
	}
	if _, err := f.Mmap(0, 4096); err != unix.EBADF {
		t.Errorf("mmap after close: %v", err)
	}
	if err := f.Close(); err != unix.EBADF {
		t.Errorf("close again: %v", err)
	}
}

const victimFiles = 8

// It is what keeps memory pinned until the further cleanup writes are made.
func TestKilledProcessReleasesItsFirstFileLast(t *testing.T) {
	for _, kept := range []int{0, 3, victimFiles - 1} {
		ep := value(unix.EpollCreate1(unix.EPOLL_CLOEXEC))(t)
		defer unix.Close(ep)
		cmd := exec.Command(os.Args[0], "-test.run=^TestVictim$", "victim", strconv.Itoa(3+kept))
		for i := range victimFiles {
			var p [2]int
			must(t, unix.Pipe2(p[:], unix.O_CLOEXEC))
			defer unix.Close(p[0])
			w := os.NewFile(uintptr(p[1]), "pipe")
			defer w.Close()
			cmd.ExtraFiles = append(cmd.ExtraFiles, w)
			// One event for each pipe, when its other end goes; the system hands them out in their
			// order.
			e := unix.EpollEvent{Events: unix.EPOLLHUP | unix.EPOLLET&0xFFFFFFFF, Fd: int32(i)}
			must(t, unix.EpollCtl(ep, unix.EPOLL_CTL_ADD, p[0], &e))
		}
		stdin, err1 := cmd.StdinPipe()
		stdout, err2 := cmd.StdoutPipe()
		if err1 != nil || err2 != nil {
			t.Fatal(err1, err2)
		}
		defer stdin.Close()
		must(t, cmd.Start())
		for _, w := range cmd.ExtraFiles {
			_ = w.Close() // the victim's are left
		}
		if !bufio.NewScanner(stdout).Scan() {
			t.Fatal("the victim doesn't begin")
		}
		must(t, cmd.Process.Kill())
		_ = cmd.Wait() // killed
		events := make([]unix.EpollEvent, 2*victimFiles)
		n, err := unix.EpollWait(ep, events, 1000)
		var order []int32
		for _, e := range events[:max(n, 0)] {
			order = append(order, e.Fd)
		}
		if err != nil || n != victimFiles || order[n-1] != int32(kept) {
			t.Errorf("released in the order %v (%v), want %d last", order, err, kept)
		}
	}
}

func TestVictim(t *testing.T) {
	if flag.NArg() != 2 || flag.Arg(0) != "victim" {
		t.Skip("it is another test's process")
	}
	fd := value(strconv.Atoi(flag.Arg(1)))(t)
	f := &systemFile{fd: fd, last: -1}
	for range 2 { // asking again changes nothing
		must(t, f.ReleaseLast())
	}
	fmt.Println("ready")
	_, _ = os.Stdin.Read(make([]byte, 1)) // for ever
}

func TestReleaseLastEndsWithClose(t *testing.T) {
	var p [2]int
	must(t, unix.Pipe2(p[:], unix.O_CLOEXEC))
	defer unix.Close(p[0])
	f := &systemFile{fd: p[1], last: -1}
	must(t, f.ReleaseLast())
	socket := f.last
	must(t, f.Close())
	if n, err := unix.Read(p[0], make([]byte, 1)); n != 0 || err != nil {
		t.Errorf("the other end reads %d, %v: something holds the file", n, err)
	}
	if _, err := unix.FcntlInt(uintptr(socket), unix.F_GETFD, 0); err != unix.EBADF {
		t.Errorf("the socket is open: %v", err)
	}
	if err := f.ReleaseLast(); err != unix.EBADF {
		t.Errorf("of a closed file: %v", err)
	}
}
