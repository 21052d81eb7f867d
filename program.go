package reprise

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/reprise-tt/reprise/allocator"
	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/dispatch"
	"github.com/reprise-tt/reprise/dispatch/program"
	"github.com/reprise-tt/reprise/kernels"
)

// Program is what the workers run between two go signals. It is a description; [Device.Load] makes
// it runnable.
type Program struct {
	Name            string
	Kernels         []Kernel
	CircularBuffers []CircularBuffer
	Semaphores      []Semaphore
	// Buffers are the buffers that the kernels read or write. They stay allocated as long as the
	// program is loaded or part of a trace.
	Buffers []*Buffer
	// HostBuffers is pinned host memory that the kernels read or write (package stream). It can't
	// be released as long as the program is loaded or part of a trace.
	HostBuffers []*HostBuffer
}

// Kernel is device code for one processor of a set of workers.
type Kernel struct {
	Name      string // for errors and reports
	Image     *kernels.Image
	Processor chip.Processor
	Cores     []chip.Range
	Common    []uint32                 // common runtime arguments
	Args      func(chip.Core) []uint32 // unique runtime arguments of a core; nil if there are none
	NOC       chip.NOC                 // network of a BRISC kernel; NCRISC takes the other one
}

// CircularBuffer is a ring of pages in L1, through which the kernels of a core pass data.
type CircularBuffer struct {
	Index    int // 0..31, by which kernels name it
	Cores    []chip.Range
	PageSize int // bytes, a multiple of 16
	Pages    int // up to program.MaxCircularPages
	// Addr is the address in the L1 of each core, a multiple of 16. With 0 the runtime chooses, and
	// the circular buffers of all programs share the memory. Otherwise the memory is the caller's,
	// such as a Buffer with a shard on each core. List that Buffer in Program.Buffers unless
	// something else keeps it allocated. tt-metal calls this a globally allocated circular buffer.
	// Several may share memory. See [Executable.SetCircularAddr].
	Addr uint32
}

// Semaphore is a word in L1 that kernels signal each other with.
type Semaphore struct {
	ID      int // 0..15, by which kernels name it
	Cores   []chip.Range
	Initial uint32
}

// Executable is a program that is compiled and whose kernels lie in the device's DRAM.
type Executable struct {
	d        *Device
	image    *dispatch.Image
	bin      allocator.Extent
	holds    []allocator.Extent // of bufs
	bufs     []*Buffer
	hosts    []*HostBuffer
	cbs      []dispatch.CircularBuffer
	cbEnd    uint64
	placedAt map[int][]int // offsets in the commands of caller-placed circular buffers' addresses, by index

	written bool // the write of the kernels is in queue 0

	mu       sync.RWMutex // held for reading while released must not change
	released bool
	retiring atomic.Bool // a Release waits for mu, and later uses are refused: they would starve it
}

// Load compiles a program and writes its kernels to DRAM. Later changes of p have no effect on the
// Executable. A *dispatch.ProgramError says what is wrong with a program. If ctx ends while the
// kernels are being written, their memory is free again after the next successful wait for queue 0
// ([Queue.Wait]).
func (d *Device) Load(ctx context.Context, p *Program) (*Executable, error) {
	xs, err := LoadAll(ctx, []*Device{d}, []*Program{p})
	if err != nil {
		return nil, err
	}
	return xs[0], nil
}

// LoadAll loads program ps[i] on device ds[i], as [Device.Load] does, with the kernels of all
// programs at one address. So equal programs have equal commands on all devices. Each takes as much
// memory as the largest. Either all programs are loaded or none.
func LoadAll(ctx context.Context, ds []*Device, ps []*Program) (xs []*Executable, err error) {
	if len(ds) != len(ps) {
		return nil, fmt.Errorf("reprise: load: %d programs for %d devices", len(ps), len(ds))
	}
	if err := distinct(ds); err != nil {
		return nil, fmt.Errorf("reprise: load: %w", err)
	}
	if slices.Contains(ps, nil) {
		return nil, errors.New("reprise: load: no program: it is nil")
	}
	begun := beginAll(ctx, callsOn(ds), func(i int) *Call { return &Call{Kind: CallLoad, Name: ps[i].Name} })
	defer endAll(ctx, begun, func(i int, call *Call) { call.Object, call.Bytes = xs[i], len(xs[i].image.Binary()) }, &err)
	made := make([]*Executable, len(ds))
	if err := loadAll(ctx, ds, ps, made); err != nil {
		return nil, err
	}
	return made, nil
}

func loadAll(ctx context.Context, ds []*Device, ps []*Program, xs []*Executable) error {
	for i, d := range ds {
		if err := d.admit(ctx, nil, "load", opLoad, ps[i].Name); err != nil {
			return err
		}
		xs[i] = &Executable{d: d}
	}
	for _, d := range lockOrder(ds) {
		d.work.RLock()
		defer d.work.RUnlock()
	}
	each := func(f func(i int) error) error {
		return eachOf(len(ds), func(i int) error { return loadError(ps[i].Name, ds[i:i+1], len(ds), f(i)) })
	}
	err := each(func(i int) error { return xs[i].prepare(ps[i]) })
	if err == nil {
		err = loadError(ps[0].Name, ds, len(ds), placeAll(ds, xs))
	}
	if err == nil {
		err = each(func(i int) error { return xs[i].place(ctx) })
	}
	if err != nil {
		for _, x := range xs {
			err = errors.Join(err, x.discard(ctx))
		}
		return err
	}
	for i, d := range ds {
		d.mu.Lock()
		d.execs[xs[i]] = struct{}{}
		d.mu.Unlock()
	}
	return nil
}

func loadError(program string, on []*Device, n int, err error) error {
	where := ""
	switch {
	case err == nil:
		return nil
	case len(on) > 1:
		where = fmt.Sprintf(" on %d devices", len(on))
	case n > 1:
		where = " on " + on[0].name
	}
	return fmt.Errorf("reprise: load program %q%s: %w", program, where, nameOnce(program, err))
}

func placeAll(ds []*Device, xs []*Executable) error {
	rs, site := make([]allocator.Request, len(xs)), userPC()
	most, end := uint64(0), uint64(0)
	for i, x := range xs {
		rs[i] = x.request()
		rs[i].Site = site
		most, end = max(most, rs[i].Size), max(end, x.cbEnd)
	}
	for i, x := range xs {
		rs[i].Size = most
		if x.cbEnd < end {
			if err := x.d.cbs.Move(x.cbEnd, end); err != nil {
				return err
			}
			x.cbEnd = end
		}
	}
	exts, err := allocator.AllocateAll(memories(ds), rs)
	if err != nil {
		return err
	}
	for i, x := range xs {
		x.bin = exts[i]
	}
	return nil
}

func (x *Executable) prepare(p *Program) error {
	d := x.d
	for _, b := range p.Buffers {
		if err := b.checkDevice(d); err != nil {
			return err
		}
		if err := x.hold(b); err != nil {
			return err
		}
	}
	for _, h := range p.HostBuffers {
		if err := h.hold(d, x, fmt.Sprintf("program %q", p.Name)); err != nil {
			return err
		}
		x.hosts = append(x.hosts, h)
	}
	spec, addr := dispatch.Program{Name: p.Name}, d.cbs.Base()
	for _, c := range p.CircularBuffers {
		if c.PageSize <= 0 || c.Pages <= 0 {
			return circularError(p.Name, c.Index, "%d pages of %d B: both must be positive", c.Pages, c.PageSize)
		}
		if c.Addr != 0 {
			b, err := x.placedCircular(p.Name, &c)
			if err != nil {
				return err
			}
			spec.CircularBuffers = append(spec.CircularBuffers, b)
			continue
		}
		// Divided to avoid an overflow.
		if l1 := uint64(d.disp.WorkerLayout().L1.Size); uint64(c.Pages) > (l1-min(l1, addr))/uint64(c.PageSize) {
			return circularError(p.Name, c.Index, "%d pages of %d B from %#x on are beyond the end of L1 at %#x", c.Pages, c.PageSize, addr, l1)
		}
		spec.CircularBuffers = append(spec.CircularBuffers, dispatch.CircularBuffer{
			Index: c.Index, Cores: c.Cores, Addr: uint32(addr), PageSize: uint32(c.PageSize), Pages: uint32(c.Pages),
		})
		align := uint64(d.disp.Chip().Params().Align.DRAM())
		addr = (addr + uint64(c.PageSize)*uint64(c.Pages) + align - 1) / align * align
	}
	if err := d.cbs.Grow(addr); err != nil {
		return err
	}
	x.cbs, x.cbEnd = spec.CircularBuffers, addr
	for i := range p.Kernels {
		k, err := dispatchKernel(d, &p.Kernels[i])
		if err != nil {
			return &dispatch.ProgramError{Program: p.Name, Part: fmt.Sprintf("kernel %q", p.Kernels[i].Name), Why: err.Error(), Err: err}
		}
		spec.Kernels = append(spec.Kernels, k)
	}
	for _, s := range p.Semaphores {
		spec.Semaphores = append(spec.Semaphores, dispatch.Semaphore(s))
	}
	var err error
	if x.image, err = d.disp.Compile(&spec); err != nil {
		return err
	}
	return x.findGiven(&spec)
}

func (x *Executable) request() allocator.Request {
	return allocator.Request{
		Kind: allocator.DRAM, Size: uint64(len(x.image.Binary())), PageSize: program.BinaryPageSize, Owner: x.Name(), Tag: "kernels",
	}
}

func (x *Executable) place(ctx context.Context) error {
	if err := x.image.Place(uint32(x.bin.Addr), int(x.bin.Banks)); err != nil {
		return err
	}
	iv, q := interleaved(x.bin), x.d.queues[0]
	x.written = true
	if err := q.q.Write(ctx, &iv, 0, x.image.Binary()); err != nil {
		return err
	}
	return q.settle(ctx)
}

func dispatchKernel(d *Device, k *Kernel) (dispatch.Kernel, error) {
	if k.Image == nil {
		return dispatch.Kernel{}, errors.New("it has no image: load one with kernels.Load")
	}
	if err := cmp.Or(d.checkFirmware(k), k.Image.Fits(d.Arch(), k.Processor)); err != nil {
		return dispatch.Kernel{}, err
	}
	out := dispatch.Kernel{Name: k.Name, Processor: k.Processor, Cores: k.Cores, Text: k.Image.Text, File: k.Image.File,
		Formats: k.Image.Formats, Common: k.Common, NOC: k.NOC}
	if k.Args == nil {
		return out, nil
	}
	for _, r := range k.Cores {
		if !d.Grid().Contains(r.Start) || !d.Grid().Contains(r.End) {
			continue // Compile refuses these cores; Args must not see them
		}
		for c := range r.Cores() {
			if a := k.Args(c); len(a) > 0 {
				out.Args = append(out.Args, dispatch.CoreArgs{Core: c, Args: a})
			}
		}
	}
	return out, nil
}

// Name returns the program's name.
func (x *Executable) Name() string { return x.image.Name() }

func (x *Executable) label() string {
	if x == nil {
		return ""
	}
	return x.Name()
}

// Cores returns how many workers run a kernel of the program.
func (x *Executable) Cores() int { return x.image.Cores() }

// Commands returns the size of the commands of one run.
func (x *Executable) Commands() dispatch.CommandSize { return x.image.Commands() }

// Release frees the kernels' memory and the program's buffers, after it has waited for the device's
// queues. Traces keep the kernels that they run.
func (x *Executable) Release(ctx context.Context) (err error) {
	defer x.d.observe(ctx, CallReleaseExecutable, nil, x.Name(), x, 0).end(ctx, &err)
	x.d.work.RLock()
	defer x.d.work.RUnlock()
	if err := x.retire(ctx); err != nil {
		return fmt.Errorf("reprise: release executable %q: %w", x.Name(), err)
	}
	for _, q := range x.d.queues {
		if err := q.await(ctx); err != nil {
			x.mu.Lock()
			x.released = false
			x.mu.Unlock()
			return x.d.objectError("release executable", x.Name(), err)
		}
	}
	x.d.mu.Lock()
	delete(x.d.execs, x)
	x.d.mu.Unlock()
	if err := x.drop(); err != nil {
		return fmt.Errorf("reprise: release executable %q: %w", x.Name(), err)
	}
	return nil
}

// retire marks the executable as released. A run holds x.mu for reading while it waits for room in
// its queue. Unlike Lock, TryLock doesn't block later runs meanwhile.
func (x *Executable) retire(ctx context.Context) error {
	if x.retiring.Swap(true) {
		return ErrReleased
	}
	defer x.retiring.Store(false)
	for !x.mu.TryLock() {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(100 * time.Microsecond):
		}
	}
	defer x.mu.Unlock()
	if x.released {
		return ErrReleased
	}
	x.released = true
	return nil
}

// discard is drop once the kernels are no longer being written.
func (x *Executable) discard(ctx context.Context) error {
	if x.written {
		return x.d.freeAfter(ctx, x.drop, x.d.queues[0])
	}
	return x.drop()
}

func (x *Executable) drop() error {
	var errs []error
	if x.image != nil {
		x.d.disp.DropPrints(x.image)
	}
	for _, e := range x.holds {
		errs = append(errs, x.d.mem.Unhold(e))
	}
	for _, h := range x.hosts {
		h.unhold(x)
	}
	if !x.bin.IsZero() {
		errs = append(errs, x.d.mem.Free(x.bin))
	}
	errs = append(errs, x.d.cbs.Shrink(x.cbEnd))
	return errors.Join(errs...)
}

func (x *Executable) checkDeviceLocked(d *Device) error {
	if x == nil {
		return errors.New("no executable: it is nil")
	}
	return checkObject("executable", x.Name(), x.d == d, x.released || x.retiring.Load())
}

// Arg names a runtime argument of a program: a word that a kernel reads with get_arg_val or
// get_common_arg_val. It may also name the address of a circular buffer.
type Arg struct {
	Kernel string       // name of the kernel in its Program, where no other kernel may have it
	Index  int          // from 0
	Common bool         // a common argument; otherwise a unique one
	Cores  []chip.Range // for a unique argument; nil for all cores that have one

	// Circular, for [Recorder.ParamBuffer] only, names the address of circular buffer Index, which
	// was loaded with a buffer's address, on all its cores. Each needs a kernel with common
	// arguments.
	Circular bool

	// From and Offset are for [Recorder.Run] only: the argument is the 32-bit word at an offset of
	// a buffer, in bytes, a multiple of 4, which the device reads before it starts the program.
	From   *Buffer
	Offset int
}

func (a *Arg) on(c chip.Core) bool {
	return a.Cores == nil || c.In(a.Cores)
}

func (x *Executable) words(args []Arg) ([]int, error) {
	var at []int
	for i := range args {
		a := &args[i]
		if a.From != nil {
			return nil, fmt.Errorf("argument %d of kernel %q is one that the device computes: give it to Recorder.Run", a.Index, a.Kernel)
		}
		var err error
		switch {
		case a.Circular && x.placedAt[a.Index] == nil:
			err = circularError(x.Name(), a.Index, fixedCircular)
		case a.Circular:
			at = append(at, x.placedAt[a.Index]...)
		case a.Common:
			at, err = x.image.CommonArg(at, a.Kernel, a.Index)
		default:
			at, err = x.image.UniqueArg(at, a.Kernel, a.Index, a.on)
		}
		if err != nil {
			return nil, err
		}
	}
	if len(at) == 0 {
		return nil, fmt.Errorf("program %q: no argument is named", x.Name())
	}
	return at, nil
}

// SetArg sets a runtime argument for later runs and captures. What is in a queue or a trace keeps
// its value; see [Recorder.Param] for arguments of traces.
func (x *Executable) SetArg(a Arg, v uint32) error { return x.setWords([]Arg{a}, v, nil) }

// SetBuffer sets arguments to the address of another buffer, for later runs and captures. The
// executable holds the buffer until it is released.
func (x *Executable) SetBuffer(b *Buffer, args ...Arg) error {
	if x != nil {
		if err := b.checkDevice(x.d); err != nil {
			return fmt.Errorf("reprise: set buffer of executable %q: %w", x.Name(), err)
		}
	}
	return x.setWords(args, 0, b)
}

func (x *Executable) setWords(args []Arg, v uint32, b *Buffer) error {
	return x.change("arguments", func() error {
		if slices.ContainsFunc(args, func(a Arg) bool { return a.Circular }) {
			return errors.New("an address of a circular buffer: use SetCircularAddr")
		}
		at, err := x.words(args)
		if err == nil && b != nil {
			v = b.Addr()
			err = x.hold(b)
		}
		if err == nil {
			x.image.SetWords(at, v)
		}
		return err
	})
}

func (x *Executable) change(what string, set func() error) error {
	if x == nil {
		return fmt.Errorf("reprise: set %s: %w", what, x.checkDeviceLocked(nil))
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	err := x.checkDeviceLocked(x.d)
	if err == nil {
		err = set()
	}
	if err != nil {
		return fmt.Errorf("reprise: set %s of executable %q: %w", what, x.Name(), nameOnce(x.Name(), err))
	}
	return nil
}

// SetArgs sets all unique arguments of a kernel for later runs and captures. It calls set with each
// core that has arguments, row by row, and set changes them in place. set must not keep the slice,
// nor use the executable.
func (x *Executable) SetArgs(kernel string, set func(c chip.Core, args []uint32)) error {
	if set == nil {
		return errors.New("reprise: set arguments: no function that sets them: it is nil")
	}
	return x.change("arguments", func() error { return x.image.SetArgs(kernel, set) })
}

// SetCommonArgs is SetArgs for all common arguments of a kernel. There must be as many as the
// program was loaded with.
func (x *Executable) SetCommonArgs(kernel string, args []uint32) error {
	return x.change("arguments", func() error { return x.image.SetCommonArgs(kernel, args) })
}

func (x *Executable) hold(b *Buffer) error {
	if slices.Contains(x.bufs, b) {
		return nil
	}
	if err := x.d.mem.Hold(b.owned()); err != nil {
		return err
	}
	x.holds, x.bufs = append(x.holds, b.owned()), append(x.bufs, b)
	return nil
}

// CircularPlace is where a circular buffer of a loaded program lies.
type CircularPlace struct {
	Index int
	Cores []chip.Range
	Addr  uint32 // in the L1 of each of its cores
	Size  uint32 // bytes on each of its cores
	Given bool   // the caller placed it: CircularBuffer.Addr was set
}

// CircularBuffers returns where the program's circular buffers lie, in the program's order.
func (x *Executable) CircularBuffers() []CircularPlace {
	x.mu.RLock()
	defer x.mu.RUnlock()
	out := make([]CircularPlace, len(x.cbs))
	for i, c := range x.cbs {
		out[i] = CircularPlace{Index: c.Index, Cores: slices.Clone(c.Cores), Addr: c.Addr, Size: c.PageSize * c.Pages, Given: c.Given}
	}
	return out
}

const fixedCircular = "its place can't be changed: it must be loaded with an address, and each of its cores needs a kernel with common arguments"

// SetCircularAddr moves a circular buffer that was loaded with an address, for later runs and
// captures. Each core with the buffer needs a kernel with common arguments.
func (x *Executable) SetCircularAddr(index int, addr uint32) error {
	return x.change("circular buffer", func() error {
		at := x.placedAt[index]
		if at == nil {
			return circularError(x.Name(), index, fixedCircular)
		}
		i := slices.IndexFunc(x.cbs, func(c dispatch.CircularBuffer) bool { return c.Index == index && c.Given })
		c := &x.cbs[i]
		if err := x.checkInL1(x.Name(), index, addr, uint64(c.PageSize)*uint64(c.Pages)); err != nil {
			return err
		}
		c.Addr = addr
		x.image.SetWords(at, addr)
		return nil
	})
}

func (x *Executable) placedCircular(program string, c *CircularBuffer) (dispatch.CircularBuffer, error) {
	out := dispatch.CircularBuffer{Index: c.Index, Cores: c.Cores, Addr: c.Addr, Given: true}
	if c.PageSize > math.MaxUint32/c.Pages {
		return out, circularError(program, c.Index, "%d pages of %d B are more than any core has", c.Pages, c.PageSize)
	}
	out.PageSize, out.Pages = uint32(c.PageSize), uint32(c.Pages)
	return out, x.checkInL1(program, c.Index, c.Addr, uint64(c.PageSize)*uint64(c.Pages))
}

func (x *Executable) checkInL1(program string, index int, addr uint32, size uint64) error {
	l1 := &x.d.disp.WorkerLayout().L1
	if addr%16 == 0 && addr >= l1.Unreserved && uint64(addr)+size <= uint64(l1.Size) {
		return nil
	}
	return circularError(program, index, "%d B at %#x don't lie 16-aligned in the L1 that is for buffers, %#x..%#x", size, addr,
		l1.Unreserved, l1.Size)
}

func circularError(program string, index int, format string, args ...any) error {
	return &dispatch.ProgramError{Program: program, Part: fmt.Sprintf("circular buffer %d", index), Why: fmt.Sprintf(format, args...)}
}

func (x *Executable) findGiven(p *dispatch.Program) error {
	for _, c := range x.cbs {
		if !c.Given {
			continue
		}
		at, err := x.image.CircularAddr(nil, p, c.Index)
		var fixed *dispatch.ProgramError
		if errors.As(err, &fixed) {
			continue // SetCircularAddr says why it can't
		}
		if err != nil {
			return err
		}
		if x.placedAt == nil {
			x.placedAt = map[int][]int{}
		}
		x.placedAt[c.Index] = at
	}
	return nil
}
