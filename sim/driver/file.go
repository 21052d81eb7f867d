package driver

import (
	"sync"
	"syscall"

	"github.com/reprise-tt/reprise/internal/kabi"
	"github.com/reprise-tt/reprise/internal/seam"
)

// file lives until its descriptor, its mappings and its requests are gone.
type file struct {
	dev  *device
	proc *Process

	closeOnce sync.Once

	// Guarded by device.mu.
	refs    int  // of the descriptor and mappings
	calls   int  // requests in progress
	ended   bool // release has begun
	fd      int  // descriptor in the process, negative once closed
	last    bool // released after all others at the end of the process
	killed  bool
	gen     uint64
	tlbs    map[uint32]int // owned windows, with their numbers of mappings
	maps    map[*barMap]struct{}
	cleanup kabi.SetNOCCleanup
	power   kabi.PowerState
	desc    int // descriptor that names the file in other ioctls, 0 if none
	message *smcMessage
	fileMemory
}

// smcMessage is posted, its answer not read.
type smcMessage struct {
	answer [8]uint32
	early  bool // the next poll comes too early
}

var _ seam.File = (*file)(nil)

func (f *file) function() Function {
	f.dev.mu.Lock()
	defer f.dev.mu.Unlock()
	return f.dev.fn
}

func (f *file) Fault() error {
	fn := f.function()
	if fn == nil {
		return nil
	}
	return fn.Fault()
}

func (f *file) EngineWait(x, y uint8, thread int) (wait string, known bool) {
	if b, ok := f.function().(interface {
		EngineWait(x, y uint8, thread int) string
	}); ok {
		return b.EngineWait(x, y, thread), true
	}
	return "", false
}

func (f *file) CoreDebug() bool {
	b, ok := f.function().(interface{ CoreDebug() bool })
	return !ok || b.CoreDebug()
}

func (f *file) RemoteFault(x, y uint8) error {
	if b, ok := f.function().(interface{ RemoteFault(x, y uint8) error }); ok {
		return b.RemoteFault(x, y)
	}
	return nil
}

func (f *file) Close() error {
	err := error(syscall.EBADF)
	f.closeOnce.Do(func() {
		f.dev.mu.Lock()
		f.proc.giveBack(f.fd)
		f.fd, f.last = -1, false
		f.dev.mu.Unlock()
		err = f.put()
	})
	return err
}

func (f *file) ReleaseLast() error {
	f.dev.mu.Lock()
	defer f.dev.mu.Unlock()
	if f.fd < 0 {
		return syscall.EBADF
	}
	f.last = true
	return nil
}

// The process's end drops all references at once.
func (f *file) put() error {
	f.dev.mu.Lock()
	if !f.killed {
		f.refs--
	}
	return f.unlockAndRelease()
}

// enter takes a reference, as the kernel's fdget: a file closed meanwhile is released after the
// request.
func (f *file) enter() error {
	f.dev.mu.Lock()
	defer f.dev.mu.Unlock()
	if f.closedLocked() {
		return syscall.EBADF
	}
	f.calls++
	return nil
}

// The reset lock must not be held.
func (f *file) leave() {
	f.dev.mu.Lock()
	f.calls--
	_ = f.unlockAndRelease() // a request can't report this error; nor can the kernel
}

func (f *file) unlockAndRelease() error {
	over := f.overLocked()
	f.dev.mu.Unlock()
	if over {
		return f.dev.release(f)
	}
	return nil
}

func (f *file) overLocked() bool {
	if f.ended || f.refs > 0 || f.calls > 0 {
		return false
	}
	f.ended = true
	return true
}

func (f *file) closedLocked() bool { return f.fd < 0 || f.killed }

// Descriptor names this file in another's ioctl, until it is closed.
func (f *file) Descriptor() (int, error) {
	d := f.dev
	d.mu.Lock()
	defer d.mu.Unlock()
	if f.closedLocked() {
		return -1, syscall.EBADF
	}
	if f.desc == 0 {
		fd, err := newDescriptor()
		if err != nil {
			return -1, err
		}
		f.desc = fd
		d.drv.filesMu.Lock()
		d.drv.files[fd] = f
		d.drv.filesMu.Unlock()
	}
	return f.desc, nil
}

func (f *file) dropDescriptorLocked() {
	if f.desc == 0 {
		return
	}
	drv := f.dev.drv
	drv.filesMu.Lock()
	delete(drv.files, f.desc)
	drv.filesMu.Unlock()
	closeDescriptor(f.desc)
	f.desc = 0
}

func (f *file) exitRank() int {
	switch {
	case f.last:
		return 2
	case f.fd >= 0:
		return 1
	}
	return 0 // only a mapping keeps the file
}
