package session

import (
	"errors"
	"io"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/reprise-tt/reprise/internal/seam"
)

type waitingDevice struct{ wait func() }

func (d *waitingDevice) Node() seam.Node             { return d }
func (d *waitingDevice) String() string              { return "a device" }
func (d *waitingDevice) Open(int) (seam.File, error) { return d, nil }
func (d *waitingDevice) Ioctl(uint32, []byte) error  { return syscall.EINVAL }
func (d *waitingDevice) Close() error                { return nil }
func (d *waitingDevice) Fault() error                { return nil }

func (d *waitingDevice) Mmap(uint64, int) (seam.Mapping, error) {
	d.wait()
	return seam.Mapping{}, syscall.EINVAL
}

func TestUndeclaredGoroutines(t *testing.T) {
	for _, declared := range []bool{false, true} {
		d := &waitingDevice{}
		r := Record(d, io.Discard)
		d.wait = sync.OnceFunc(func() { // the second one finds nothing to wait for
			for r.busy.Load() == 1 {
				time.Sleep(time.Millisecond)
			}
		})
		f, err := r.Node().Open(2)
		if err != nil {
			t.Fatal(err)
		}
		end := func() {}
		if declared {
			end = r.Concurrent()
		}
		var g errgroup.Group
		for range 2 {
			g.Go(func() error { _, err := f.Mmap(0, 4096); return err })
		}
		if err := g.Wait(); !errors.Is(err, syscall.EINVAL) {
			t.Error(err)
		}
		end()
		if err := errors.Join(f.Close(), r.Close()); errors.Is(err, ErrConcurrent) == declared {
			t.Errorf("declared: %t, %v", declared, err)
		}
	}
}
