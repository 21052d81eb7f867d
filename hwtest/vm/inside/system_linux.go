package inside

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Mount mounts the file systems that programs expect. A folder for temporary files that isn't empty
// stays as it is.
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
	for _, m := range [][3]string{{"tmpfs", "/dev/shm", ""}, {"devpts", "/dev/pts", "ptmxmode=0666"}, {"debugfs", "/sys/kernel/debug", ""}} {
		if err := os.MkdirAll(m[1], 0o1777); err == nil {
			_ = unix.Mount(m[0], m[1], m[0], 0, m[2]) // most programs can do without
		}
	}
	return nil
}

// Load loads a kernel module, which may be compressed if the kernel can decompress it.
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
