package driver

import (
	"sync"
	"syscall"

	"github.com/reprise-tt/reprise/internal/kabi"
	"github.com/reprise-tt/reprise/internal/seam"
)

// file is an open file of a node: what the driver hangs off struct file. It lives while its
// descriptor, a mapping of it or a request on it does.
type file struct {
	dev  *device
	proc *Process

	closeOnce sync.Once

	// Guarded by device.mu.
	refs    int  // of the descriptor and mappings
	calls   int  // requests under way
	ended   bool // it is being released, or has been
	fd      int  // its descriptor in the process, negative once that is closed
	last    bool // released after all others at the end of the process
	killed  bool
	gen     uint64
	tlbs    map[uint32]int // owned windows and how many mappings of each there are
	maps    map[*barMap]struct{}
	cleanup kabi.SetNOCCleanup
	power   kabi.PowerState
	desc    int // descriptor for other ioctls to name the file by, 0 if none was asked for
	message *smcMessage
	fileMemory
}

// smcMessage is a message that a file has posted and not seen the answer of.
type smcMessage struct {
	answer [8]uint32
	early  bool // the answer comes with the poll after the next
}

var _ seam.File = (*file)(nil)

func (f *file) function() Function {
	f.dev.mu.Lock()
	defer f.dev.mu.Unlock()
	return f.dev.fn
}

// Fault says why the function behind the node stopped.
func (f *file) Fault() error {
	fn := f.function()
	if fn == nil {
		return nil
	}
	return fn.Fault()
}

// EngineWait says what a thread of the Tensix engines of the tile at a virtual coordinate waits
// for, where the function knows.
func (f *file) EngineWait(x, y uint8, thread int) (wait string, known bool) {
	fn := f.function()
	if b, ok := fn.(interface {
		EngineWait(x, y uint8, thread int) string
	}); ok {
		return b.EngineWait(x, y, thread), true
	}
	return "", false
}

// CoreDebug says whether the processors' debug interface answers: it does unless the function says
// otherwise.
func (f *file) CoreDebug() bool {
	fn := f.function()
	b, ok := fn.(interface{ CoreDebug() bool })
	return !ok || b.CoreDebug()
}

// RemoteFault says why a chip that is reached through the function's links stopped, by its place,
// where the function knows.
func (f *file) RemoteFault(x, y uint8) error {
	fn := f.function()
	if b, ok := fn.(interface{ RemoteFault(x, y uint8) error }); ok {
		return b.RemoteFault(x, y)
	}
	return nil
}

// Close drops the descriptor. The file lives on while it is mapped.
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

// ReleaseLast makes the end of the process release the file after all others of the process,
// whatever its descriptor.
func (f *file) ReleaseLast() error {
	f.dev.mu.Lock()
	defer f.dev.mu.Unlock()
	if f.fd < 0 {
		return syscall.EBADF
	}
	f.last = true
	return nil
}

// put drops a reference of the descriptor or a mapping, unless the end of the process has dropped
// them all. It releases the file with the last one.
func (f *file) put() error {
	f.dev.mu.Lock()
	if !f.killed {
		f.refs--
	}
	return f.unlockAndRelease()
}

// enter takes the reference that a request holds on its file, as fdget does in the kernel: a file
// whose descriptor is closed meanwhile is released after the request, with what that took.
func (f *file) enter() error {
	f.dev.mu.Lock()
	defer f.dev.mu.Unlock()
	if f.closedLocked() {
		return syscall.EBADF
	}
	f.calls++
	return nil
}

// leave drops it. The device's reset lock must not be held, since a release takes it.
func (f *file) leave() {
	f.dev.mu.Lock()
	f.calls--
	_ = f.unlockAndRelease() // a request has no answer for it, nor has the kernel
}

// unlockAndRelease releases the file if nothing holds it any more. d.mu is held before and not
// after.
func (f *file) unlockAndRelease() error {
	over := f.overLocked()
	f.dev.mu.Unlock()
	if over {
		return f.dev.release(f)
	}
	return nil
}

// overLocked reports, once, that nothing holds the file any more: the caller that gets true
// releases it.
func (f *file) overLocked() bool {
	if f.ended || f.refs > 0 || f.calls > 0 {
		return false
	}
	f.ended = true
	return true
}

// closedLocked reports whether requests find no file at the descriptor.
func (f *file) closedLocked() bool { return f.fd < 0 || f.killed }

// Descriptor returns a descriptor of this process by which an ioctl of another file can name this
// one. It is the file's and is closed with it.
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

// dropDescriptorLocked closes the descriptor.
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

// exitRank says when a file's last reference goes at the end of its process: with the mappings,
// with the descriptors, or last.
func (f *file) exitRank() int {
	switch {
	case f.last:
		return 2
	case f.fd >= 0:
		return 1
	}
	return 0
}
