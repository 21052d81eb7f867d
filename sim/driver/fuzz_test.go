//go:build linux

package driver

import (
	"encoding/binary"
	"errors"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/internal/kabi"
)

func FuzzIoctl(f *testing.F) {
	for n := range uint32(21) {
		f.Add(n, []byte{16, 0, 0, 0})
		f.Add(n, make([]byte, 64))
		arg := make([]byte, 64)
		binary.LittleEndian.PutUint32(arg, []uint32{32, 40, 48}[n%3])
		f.Add(n, arg)
	}
	f.Add(uint32(7), []byte{16, 0, 0, 0, 2, 0, 0, 0, 0, 0x10, 0, 0, 0, 0, 0, 0, 0, 0x10, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
		0, 0, 0, 0})
	f.Fuzz(func(t *testing.T, n uint32, arg []byte) {
		req := 0xFA00 | n&0xFF
		if req == kabi.IoctlLockCtl && len(arg) >= 8 && binary.LittleEndian.Uint32(arg[4:]) == kabi.LockAcquireBlocking {
			t.Skip("waits for itself, as the driver does")
		}
		if req == kabi.IoctlPinPages && len(arg) >= 24 && binary.LittleEndian.Uint64(arg[8:]) > 1<<16 {
			t.Skip("could be memory of this process that isn't the test's")
		}
		drv, err := New(Config{Arch: chip.Blackhole, Functions: []Function{newRegFile(chip.Blackhole)}, Version: Version{2, 11, 0}})
		must(t, err)
		defer drv.Close()
		file, err := drv.Node(0).Open(0)
		must(t, err)
		if _, err := allocate(file, 2<<20); err != nil {
			t.Fatal(err)
		}
		var no syscall.Errno
		if err := file.Ioctl(req, arg); err != nil && !errors.As(err, &no) {
			t.Errorf("request %d: %v isn't an errno", n&0xFF, err)
		} else if err == nil && req == kabi.IoctlExportTLBDMABuf {
			if err := unix.Close(int(int32(binary.LittleEndian.Uint32(arg[12:])))); err != nil {
				t.Error(err)
			}
		}
		if err := file.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
		equal(t, drv.Node(0).OpenFiles(), 0, "open files")
	})
}
