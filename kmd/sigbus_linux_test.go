package kmd_test

import (
	"errors"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/kmd"
	"github.com/reprise-tt/reprise/sim/driver"
)

func TestSIGBUSIsTheDevicesLoss(t *testing.T) {
	m := blackhole(t)
	var fds []int
	node := changed{Node: m.node(), mmap: plain(func(n int) ([]byte, error) {
		fd, err := unix.MemfdCreate("window", unix.MFD_CLOEXEC)
		if err != nil {
			return nil, err
		}
		fds = append(fds, fd)
		if err := unix.Ftruncate(fd, int64(n)); err != nil {
			return nil, err
		}
		return unix.Mmap(fd, 0, n, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	})}
	d := value(kmd.Open(t.Context(), target{node}))(t)
	defer d.Close()
	xy := worker(chip.Blackhole)
	must(t, d.Write32(xy, 0, 5))
	func() {
		defer func() {
			if recover() == nil {
				t.Error("a fault elsewhere was taken for the device's")
			}
		}()
		_ = d.Guard(func() error {
			var p *[1 << 20]byte
			p[1<<19] = 1
			return nil
		})
	}()
	fails(t, d.Write32(xy, 4, 5), nil, "after a fault elsewhere")
	for _, fd := range fds {
		must(t, errors.Join(unix.Ftruncate(fd, 0), unix.Close(fd)))
	}
	fails(t, d.Write32(xy, 0, 6), kmd.ErrDeviceLost, "store to a mapping without pages")
	fails(t, d.Write32(xy, 0, 6), kmd.ErrDeviceLost, "the next one")
}

func TestSIGBUSUnderAlive(t *testing.T) {
	each(t, func(t *testing.T, a chip.Arch) {
		m := start(t, a, driver.Config{})
		node := changed{Node: m.node(), mmap: plain(func(n int) ([]byte, error) {
			fd, err := unix.MemfdCreate("register", unix.MFD_CLOEXEC) // of no bytes
			if err != nil {
				return nil, err
			}
			defer unix.Close(fd)
			return unix.Mmap(fd, 0, n, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
		})}
		d := value(kmd.Open(t.Context(), target{node}))(t)
		defer d.Close()
		fails(t, d.Alive(), kmd.ErrDeviceLost, "a register without a page")
	})
}
