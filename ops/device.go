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
	"github.com/reprise-tt/reprise/internal/images"
	"github.com/reprise-tt/reprise/kernels"
	"github.com/reprise-tt/reprise/ops/graph"
)

// Device runs operations on a queue of a device, in the order of the calls of all goroutines.
// [OnQueue] chooses another queue for some calls; only a reprise.Event orders two queues.
type Device struct {
	dev            *reprise.Device
	q              *reprise.Queue
	id             int
	blocking       bool
	separateRepeat bool
	observers      observers
	captures       captures

	mu       sync.Mutex // held by an operation from start to end; guards the fields below
	images   map[string]*kernels.Image
	cache    map[programKey]loaded
	lastLoad int
	scratch  map[scratchKey]*Tensor
	lastID   uint64
}

type scratchKey struct {
	queue int
	slot  int
	kind  kind
}

type loaded struct {
	*reprise.Executable
	number int
}

// Option configures a Device.
type Option func(*Device)

// WithQueue runs the operations on a queue by its number; the default is 0.
func WithQueue(id int) Option { return func(d *Device) { d.q = d.dev.Queue(id) } }

// WithID sets the number of the device in graphs; the default is 0.
func WithID(id int) Option { return func(d *Device) { d.id = id } }

// WithBlocking makes every operation wait until the device has finished it: an operation that hangs
// returns the *dispatch.HangError, and durations in graphs include the device's work.
func WithBlocking() Option { return func(d *Device) { d.blocking = true } }

// WithSeparateRepeat makes Add and Multiply repeat an operand along its first two dimensions with
// an operation of its own, and gives functions inside operations TT-NN's names of 2025. By default
// one program repeats and computes.
func WithSeparateRepeat() Option { return func(d *Device) { d.separateRepeat = true } }

// New returns a Device that runs operations on dev. Closing it doesn't close dev. After
// [reprise.Device.Recover] tensors and cached programs stay valid, and the contents of tensors are
// undefined: write them again with [Device.CopyHostToDevice].
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

// Release unloads all programs; tensors stay allocated.
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

type queueOf struct{}

// OnQueue returns a context whose operations, transfers, captures and waits use a queue by its
// number: TT-NN's command_queue. The error wraps [ErrQueue] if the device has no such queue.
func OnQueue(ctx context.Context, id int) context.Context {
	return context.WithValue(ctx, queueOf{}, id)
}

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

type recording struct {
	*reprise.Recorder
	refused error // why the capture fails; guarded by Device.mu
}

type recordingOf struct{ d *Device }

// Capture records the operations that are called with the context of the function record as a
// trace. Programs must be in the program cache, or the capture fails with a [*CacheMissError];
// results must go [Into] existing tensors, because a trace can't allocate. The trace holds the
// memory of all tensors until it is released.
func (d *Device) Capture(ctx context.Context, name string, record func(ctx context.Context) error) (*reprise.Trace, error) {
	q, err := d.queue(ctx)
	if err != nil {
		return nil, fmt.Errorf("ops: capture %q: %w", name, err)
	}
	return q.Capture(ctx, name, func(ctx context.Context, r *reprise.Recorder) error { return d.Record(ctx, r, record) })
}

// Record is [Device.Capture] into a trace that a caller records with r, a recorder of the Device's
// queue.
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
	a := d.dev.Arch()
	file, err := prebuilt.ELF(a, name)
	if errors.Is(err, fs.ErrNotExist) {
		err = kernels.ErrNotFound
	}
	if err != nil {
		return nil, fmt.Errorf("kernel %s for %v: %w", name, a, err)
	}
	im, err := kernels.Load(file)
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

// WithObserver attaches an Observer. Of several the first is called first in Begin, and last in
// End. Nil attaches nothing.
func WithObserver(o Observer) Option {
	return func(d *Device) {
		if o != nil {
			d.observers = append(d.observers, o)
		}
	}
}

// BeginCapture starts to record operations with their arguments and tensors, and other uses of the
// device: buffers, programs and transfers.
//
// With graph.NoDispatch no operation reaches the device, and [Device.ToHost] returns no data.
// Tensors are allocated in a copy of the allocator's state; one that doesn't fit is at address 0,
// and none can be used after the capture ([ErrPlanned]). Calls to the reprise.Device itself still
// run.
//
// Captures nest: each records everything, and the innermost ends first. The outermost one's mode
// decides whether operations run.
func (d *Device) BeginCapture(cfg graph.Config) *Capture {
	c := d.captures.start(cfg, &d.mu, nil)
	c.rec.Cluster(fmt.Sprintf(oneChip, archName(d.dev.Arch())), "")
	return c
}

// oneChip is the cluster descriptor of a chip alone; see [Mesh.clusterDescriptor].
const oneChip = `arch:
  0: %s
chips:
  0: [0, 0, 0, 0]
chip_unique_ids:
  0: 1
chips_with_mmio:
  - 0: 0
ethernet_connections: []
`

// SetDetails switches what all captures of the Device record from now on, beside what their Config
// asks for. [Capture.Set] does it for one.
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
