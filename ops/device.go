package ops

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/kernels"
)

// Device runs operations on a queue of a device. Its methods may be called from any goroutine; operations run in the order
// of the calls.
type Device struct {
	dev      *reprise.Device
	q        *reprise.Queue
	id       int
	block    bool
	separate bool // see WithSeparateRepeat

	watch []Observer

	mu     sync.Mutex // held by operations
	images map[string]*kernels.Image
	cache  map[string]*reprise.Executable
	rec    *reprise.Recorder // of the trace that is captured
	next   uint64            // id of the next tensor
	live   live
}

// Option changes how New sets a Device up.
type Option func(*Device)

// WithQueue makes the operations run on a queue; the default is queue 0.
func WithQueue(id int) Option { return func(d *Device) { d.q = d.dev.Queue(id) } }

// WithID gives the device the number that graphs name it by; the default is 0.
func WithID(id int) Option { return func(d *Device) { d.id = id } }

// WithBlocking makes every operation wait until the device has done it. Then an operation that hangs is the one that
// returns the *reprise.HangError, and durations in graphs are those of the device's work.
func WithBlocking() Option { return func(d *Device) { d.block = true } }

// WithSeparateRepeat repeats operands of Add and Multiply by an operation of its own where their first two dimensions are
// 1 and the other's aren't, and names what is inside of operations as TT-NN did in 2025. Without it one program does all of
// it, as in later TT-NN.
func WithSeparateRepeat() Option { return func(d *Device) { d.separate = true } }

// New makes operations run on a device, which stays the caller's.
func New(dev *reprise.Device, opts ...Option) *Device {
	d := &Device{dev: dev, q: dev.Queue(0), images: map[string]*kernels.Image{}, cache: map[string]*reprise.Executable{}}
	for _, o := range opts {
		o(d)
	}
	return d
}

// Device returns the device that operations run on.
func (d *Device) Device() *reprise.Device { return d.dev }

// Close empties the program cache. Tensors stay allocated; they end with the device.
func (d *Device) Close(ctx context.Context) error { return d.ClearProgramCache(ctx) }

// ProgramCacheEntries counts the programs in the program cache.
func (d *Device) ProgramCacheEntries() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.cache)
}

// ClearProgramCache unloads all programs. Traces keep those that they need.
func (d *Device) ClearProgramCache(ctx context.Context) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	var errs []error
	for key, x := range d.cache {
		if err := x.Close(ctx); err != nil && !errors.Is(err, reprise.ErrReleased) {
			errs = append(errs, err)
			continue
		}
		delete(d.cache, key)
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("ops: clear program cache: %w", err)
	}
	return nil
}

// Synchronize waits until the device has done everything.
func (d *Device) Synchronize(ctx context.Context) error {
	if d.live.blocked() {
		return nil
	}
	return d.q.Finish(ctx)
}

// Capture records the operations that record calls as a trace. Their programs must be in the program cache, or the capture
// fails with a *CacheMissError, and their results must go [Into] tensors that exist, because a trace can't allocate. The
// trace keeps all tensors' memory until it is released.
func (d *Device) Capture(ctx context.Context, name string, record func() error) (*reprise.Trace, error) {
	return d.q.Capture(ctx, name, func(r *reprise.Recorder) error {
		d.mu.Lock()
		d.rec = r
		d.mu.Unlock()
		defer func() {
			d.mu.Lock()
			d.rec = nil
			d.mu.Unlock()
		}()
		return record()
	})
}

// image returns a kernel, loaded once.
func (d *Device) image(name string) (*kernels.Image, error) {
	if im := d.images[name]; im != nil {
		return im, nil
	}
	im, err := loadKernel(d.dev.Arch(), name)
	if err == nil {
		d.images[name] = im
	}
	return im, err
}

// creation is the name of the function that allocates a tensor.
func (d *Device) creation() string {
	if d.separate {
		return "create_device_tensor"
	}
	return "tt::tt_metal::create_device_tensor"
}
