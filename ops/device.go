package ops

import (
	"cmp"
	"context"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"sync"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/internal/images"
	"github.com/reprise-tt/reprise/kernels"
	"github.com/reprise-tt/reprise/ops/graph"
)

// Device runs operations on a queue of a device. Its methods may be called from several goroutines;
// operations on one queue run in the order of the calls. [OnQueue] chooses another queue for some
// calls; nothing orders two queues but a reprise.Event.
type Device struct {
	dev            *reprise.Device
	q              *reprise.Queue // of calls whose context chooses none
	id             int
	blocking       bool
	separateRepeat bool
	observers      observers
	captures       captures

	mu       sync.Mutex // guards the fields below; an operation holds it from start to end
	images   map[string]*kernels.Image
	cache    map[programKey]loaded
	lastLoad int                    // number of the latest program in the cache
	scratch  map[scratchKey]*Tensor // memory between programs of an operation
	lastID   uint64                 // of a tensor
}

type scratchKey struct {
	queue int // whose programs use it
	slot  int // which of those that an operation has
	kind  kind
}

type loaded struct {
	*reprise.Executable
	number int // in order of loading
}

// Option configures a Device.
type Option func(*Device)

// WithQueue runs the operations on a queue by its number; the default is 0.
func WithQueue(id int) Option { return func(d *Device) { d.q = d.dev.Queue(id) } }

// WithID sets the number of the device in graphs; the default is 0.
func WithID(id int) Option { return func(d *Device) { d.id = id } }

// WithBlocking makes every operation wait until the device has finished it. Then a hanging
// operation itself returns the *dispatch.HangError, and durations in graphs include the device's
// work.
func WithBlocking() Option { return func(d *Device) { d.blocking = true } }

// WithSeparateRepeat makes Add and Multiply repeat an operand with an operation of its own if one
// of its first two dimensions is 1 and the other operand's isn't. Functions inside operations then
// have TT-NN's names of 2025. By default one program repeats and computes, as in later TT-NN.
func WithSeparateRepeat() Option { return func(d *Device) { d.separateRepeat = true } }

// New returns a Device that runs operations on dev. Closing it doesn't close dev.
func New(dev *reprise.Device, opts ...Option) *Device {
	d := &Device{dev: dev, q: dev.Queue(0), images: map[string]*kernels.Image{}, cache: map[programKey]loaded{},
		scratch: map[scratchKey]*Tensor{}}
	for _, o := range opts {
		o(d)
	}
	d.captures.dev, d.captures.id, d.captures.on = dev, d.id, graph.DetailDurations
	return d
}

// Device returns the device under the operations.
func (d *Device) Device() *reprise.Device { return d.dev }

// Release unloads all programs. Tensors stay allocated until they are deallocated or the device is
// closed.
func (d *Device) Release(ctx context.Context) error { return d.ClearProgramCache(ctx) }

// ProgramCacheEntries returns the number of programs in the program cache.
func (d *Device) ProgramCacheEntries() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.cache)
}

// ClearProgramCache unloads all programs and releases the scratch memory of operations. Traces keep
// what they recorded.
func (d *Device) ClearProgramCache(ctx context.Context) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	var errs []error
	released := func(err error) bool {
		if err == nil || errors.Is(err, reprise.ErrReleased) {
			return true
		}
		errs = append(errs, err)
		return false
	}
	for _, key := range sortedKeys(d.cache, func(x loaded) int { return x.number }) { // the same order each time
		if released(d.cache[key].Release(ctx)) {
			delete(d.cache, key)
		}
	}
	for _, key := range sortedKeys(d.scratch, func(t *Tensor) int { return int(t.id) }) {
		if released(d.scratch[key].releaseLocked()) {
			delete(d.scratch, key)
		}
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("ops: clear program cache: %w", err)
	}
	return nil
}

func sortedKeys[K comparable, V any](m map[K]V, number func(V) int) []K {
	return slices.SortedFunc(maps.Keys(m), func(a, b K) int { return number(m[a]) - number(m[b]) })
}

// Wait waits until the queue has finished all operations.
func (d *Device) Wait(ctx context.Context) error {
	if d.captures.noDispatch() {
		return nil
	}
	q, err := d.queue(ctx)
	if err != nil {
		return fmt.Errorf("ops: wait: %w", err)
	}
	return q.Wait(ctx)
}

// queueOf is the key of contexts that [OnQueue] made.
type queueOf struct{}

// OnQueue returns a context with which operations, transfers, captures and waits use a queue by its
// number, whatever queue their Device has. Calls return an error with [ErrQueue] if the device
// has no such queue. It is what TT-NN's command_queue is.
func OnQueue(ctx context.Context, id int) context.Context {
	return context.WithValue(ctx, queueOf{}, id)
}

// queue returns the queue of calls with a context.
func (d *Device) queue(ctx context.Context) (*reprise.Queue, error) {
	id, ok := ctx.Value(queueOf{}).(int)
	switch {
	case !ok:
		return d.q, nil
	case id < 0 || id >= d.dev.Queues():
		return nil, fmt.Errorf("%w: %d, the device has %d: see reprise.WithQueues", ErrQueue, id, d.dev.Queues())
	}
	return d.dev.Queue(id), nil
}

// recording is a trace that operations with its context are recorded into.
type recording struct {
	*reprise.Recorder
	refused error // why the capture fails; guarded by Device.mu
}

// recordingOf is the key of a context in which a Device's operations are recorded.
type recordingOf struct{ d *Device }

// Capture records the operations that are called with the context of the function record as a
// trace; those with another context run, as do those of other goroutines. Programs must be in the
// program cache, or the capture fails with a [*CacheMissError], and results must go [Into] existing
// tensors, because a trace can't allocate. The trace holds the memory of all tensors until it is
// released.
func (d *Device) Capture(ctx context.Context, name string, record func(ctx context.Context) error) (*reprise.Trace, error) {
	q, err := d.queue(ctx)
	if err != nil {
		return nil, fmt.Errorf("ops: capture %q: %w", name, err)
	}
	return q.Capture(ctx, name, func(ctx context.Context, r *reprise.Recorder) error { return d.Record(ctx, r, record) })
}

// Record is [Device.Capture] into a trace that a caller records with r, such as a trace over
// several devices. r is a recorder of the Device's queue.
func (d *Device) Record(ctx context.Context, r *reprise.Recorder, record func(ctx context.Context) error) error {
	rec := &recording{Recorder: r}
	err := record(context.WithValue(ctx, recordingOf{d}, rec))
	d.mu.Lock()
	defer d.mu.Unlock()
	return cmp.Or(rec.refused, err)
}

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

func (d *Device) createName() string {
	if d.separateRepeat {
		return "create_device_tensor"
	}
	return "tt::tt_metal::create_device_tensor"
}

// WithObserver attaches an Observer. Of several Observers the first one is called first in Begin,
// and last in End. A nil Observer attaches nothing.
func WithObserver(o Observer) Option {
	return func(d *Device) {
		if o != nil {
			d.observers = append(d.observers, o)
		}
	}
}

// BeginCapture starts to record operations with their arguments and tensors, and other uses of the
// device: buffers, programs and transfers. [Capture.End] returns the graph.
//
// With graph.NoDispatch no operation reaches the device. Tensors are allocated in a copy of the
// allocator's state; a tensor that doesn't fit is at address 0. Nothing is loaded, transferred or
// run, and [Device.ToHost] returns no data. Calls to the reprise.Device itself still run. After the
// capture its tensors can't be used ([ErrPlanned]).
//
// Captures nest: each records everything, and the innermost ends first. The outermost one's mode
// decides whether operations run.
func (d *Device) BeginCapture(cfg graph.Config) *Capture { return d.captures.start(cfg, &d.mu, nil) }

// SetDetails switches what the captures of the Device record: those that are under way, from the
// next event on, and those that begin later, beside what their Config asks for. [Capture.Set]
// does it for one.
func (d *Device) SetDetails(some graph.Details, on bool) {
	d.captures.each(func(c *Capture) { c.rec.Set(some, on) })
	d.captures.mu.Lock()
	defer d.captures.mu.Unlock()
	d.captures.on = d.captures.on.With(some, on)
}

// HasDetails reports whether captures that begin record all of some details, whatever their Config
// asks for.
func (d *Device) HasDetails(some graph.Details) bool {
	d.captures.mu.Lock()
	defer d.captures.mu.Unlock()
	return d.captures.on.Has(some)
}

//go:embed kernels/prebuilt
var archives embed.FS

var prebuilt = images.New(archives, "kernels/prebuilt")

func loadKernel(a chip.Arch, name string) (*kernels.Image, error) {
	file, err := prebuilt.ELF(a, name)
	if errors.Is(err, fs.ErrNotExist) {
		err = kernels.ErrNotFound
	}
	if err != nil {
		return nil, fmt.Errorf("kernel %s for %v: %w", name, a, err)
	}
	return kernels.Load(file)
}
