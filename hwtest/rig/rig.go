// Package rig has what conformance cases work with, those of other modules too: devices, programs,
// traces, queues, comparisons. Failed checks end the case; a T's methods need no errors handled.
package rig

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/dispatch"
	"github.com/reprise-tt/reprise/dispatch/abi"
	"github.com/reprise-tt/reprise/hwtest/target"
	"github.com/reprise-tt/reprise/kernels/metal"
	"github.com/reprise-tt/reprise/kmd"
)

// TB is what a case needs of its runner; the methods are testing.T's.
type TB interface {
	ArtifactDir() string      // of the case
	Context() context.Context // over just before the cleanups
	Helper()
	Log(args ...any)
	Logf(format string, args ...any)
	Error(args ...any)
	Errorf(format string, args ...any)
	Fatal(args ...any)
	Fatalf(format string, args ...any)
	Skip(args ...any)
	Skipf(format string, args ...any)
	Failed() bool
	Skipped() bool
	Cleanup(func())
	Parallel()
	Run(name string, fn func(TB)) bool
}

// T is what a case works with; its layer decides which fields are set.
type T struct {
	TB
	Shared *Shared
	Config *Settings
	Device *target.Device
	Ctx    context.Context
	opened *opened

	Chip   *chip.Chip
	Params *chip.Params
	L1     *abi.L1Map // of workers

	// From LevelQueues on.
	KMD      *kmd.Device
	Dispatch *dispatch.Device
	CQ       *dispatch.Queue

	// From LevelDevice on.
	Dev   *reprise.Device
	Queue *reprise.Queue
}

// Shared holds the device that the cases of a layer share.
type Shared struct {
	Config  *Settings
	Device  *target.Device
	level   Level
	kd      *kmd.Device
	disp    *dispatch.Device
	dev     *reprise.Device
	Machine machine
	Alone   string // why the device makes no mesh, once that is known
	running atomic.Pointer[opened]
}

type machine interface {
	Close(ctx context.Context) error
}

// Close closes what is open, in order.
func (b *Shared) Close(ctx context.Context) error {
	var errs []error
	if b.dev != nil {
		errs = append(errs, b.dev.Close(ctx))
	}
	if b.disp != nil {
		errs = append(errs, b.disp.Close(ctx))
	}
	if b.kd != nil {
		errs = append(errs, b.kd.Close())
	}
	if b.Machine != nil {
		errs = append(errs, b.Machine.Close(ctx))
	}
	b.dev, b.disp, b.kd, b.Machine, b.level = nil, nil, nil, nil, LevelNone
	return errors.Join(errs...)
}

// discard closes the device after a failure. With unsafe cases a stopped card is reset.
func (b *Shared) discard(t TB) {
	if err := b.Close(t.Context()); err != nil {
		t.Logf("close after a failure: %v", err)
	}
	if b.Device.Kind != target.Silicon || !b.Config.Unsafe {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), Patience(b.Device))
	defer cancel()
	_, err := Probe(ctx, b.Device)
	if err == nil {
		return
	}
	_, reset := kmd.Reset(ctx, b.Device.Open(), kmd.ResetConfig{Mode: kmd.ResetASIC})
	t.Logf("reset after a failure, as %v: %v", err, reset)
}

// Probe opens a device and reads a register: one that reads as all ones can be opened too.
func Probe(ctx context.Context, d *target.Device) (chip.Arch, error) {
	ctx, cancel := context.WithTimeout(ctx, Patience(d))
	defer cancel()
	kd, err := kmd.Open(ctx, d.Open())
	if err != nil {
		return 0, err
	}
	return kd.Arch(), errors.Join(kd.Alive(), kd.Close())
}

// use opens the device at the level if it isn't open.
func (b *Shared) use(t TB, l Level, limit time.Duration) *T {
	x := &T{TB: t, Config: b.Config, Device: b.Device, Shared: b, opened: new(opened)}
	b.running.Store(x.opened)
	// This cause makes waits for the device end with the report of a hang.
	over := fmt.Errorf("the case's limit of %v is over: %w", limit, dispatch.ErrTimeout)
	ctx, cancel := context.WithTimeoutCause(t.Context(), limit, over)
	t.Cleanup(cancel)
	x.Ctx = ctx
	if b.leave(t, l) {
		var err error
		switch l {
		case LevelKMD:
			b.kd, err = kmd.Open(x.Ctx, b.Device.Open())
		case LevelQueues:
			b.kd, b.disp, err = openQueues(x.Ctx, b.Device.Open(), dispatch.Options{HangTimeout: x.Patience()})
		case LevelDevice, LevelTwo, LevelSplit:
			opts := []reprise.Option{reprise.WithHangTimeout(x.Patience())}
			if l != LevelDevice {
				opts = append(opts, QueueOptions(l == LevelSplit)...)
			}
			b.dev, err = x.Open(x.Ctx, b.Device.Open(), opts...)
		}
		if err != nil {
			if why := b.Config.Firmware.Skip(err); why != "" {
				t.Skip(why)
			}
			t.Fatalf("open: %v", err)
		}
		b.level = l
	}
	switch l {
	case LevelKMD:
		x.UseDriver(b.kd)
	case LevelQueues:
		note(x.opened, b.disp)
		x.useQueues(b.kd, b.disp)
	case LevelDevice, LevelTwo, LevelSplit:
		note(x.opened, b.dev)
		x.UseDevice(b.dev)
	}
	return x
}

// Only closes what is open, for a case that opens the device at a level itself.
func (b *Shared) Only(t TB, l Level) {
	if err := b.Close(t.Context()); err != nil {
		t.Errorf("close: %v", err)
	}
	b.level = l
}

// leave closes what is open at another level, and reports whether the level changes.
func (b *Shared) leave(t TB, l Level) bool {
	if b.level == l {
		return false
	}
	b.Only(t, LevelNone)
	return true
}

func openQueues(ctx context.Context, target kmd.Target, o dispatch.Options) (*kmd.Device, *dispatch.Device, error) {
	kd, err := kmd.Open(ctx, target)
	if err != nil {
		return nil, nil, err
	}
	d, err := dispatch.Start(ctx, kd, o)
	if err != nil {
		return nil, nil, errors.Join(err, kd.Close())
	}
	return kd, d, nil
}

// Patience is how long a device may stand still before it counts as hanging.
func (t *T) Patience() time.Duration { return Patience(t.Device) }

// Patience is the same for a device.
func Patience(d *target.Device) time.Duration {
	if d.Slow() {
		return 60 * time.Second
	}
	return 20 * time.Second
}

// Size returns slow for slow devices and in short runs, else fast.
func (t *T) Size(fast, slow int) int {
	if t.Device.Slow() || t.Config.Short {
		return slow
	}
	return fast
}

// More returns many in long runs, and few otherwise.
func (t *T) More(few, many int) int {
	if t.Config.Long {
		return many
	}
	return few
}

// UseDriver makes the case work with a driver alone.
func (t *T) UseDriver(kd *kmd.Device) {
	t.KMD = kd
	h, err := kd.Harvesting(t.Ctx)
	t.OK(err)
	t.Chip, err = chip.New(kd.Arch(), h)
	t.OK(err)
	t.Params, t.L1 = t.Chip.Params(), &abi.Own(t.Chip.Arch()).L1
}

func (t *T) useQueues(kd *kmd.Device, d *dispatch.Device) {
	t.KMD, t.Dispatch, t.CQ = kd, d, d.Queue(0)
	t.Chip, t.Params, t.L1 = d.Chip(), d.Chip().Params(), &d.WorkerLayout().L1
}

// UseDevice makes the case work with a whole device.
func (t *T) UseDevice(d *reprise.Device) {
	t.Dev, t.Queue = d, d.Queue(0)
	t.Params, t.L1 = d.Arch().Params(), &abi.Own(d.Arch()).L1
}

// Sub runs part of a case with a name of its own.
func (t *T) Sub(name string, fn func(*T)) {
	t.Run(name, func(s TB) {
		u := *t
		u.TB = s
		fn(&u)
	})
}

// OK ends the case on any error; the runner adds all cores' state after a hang.
func (t *T) OK(errs ...error) {
	err := errs[0]
	if len(errs) > 1 {
		err = errors.Join(errs...)
	}
	if err == nil {
		return
	}
	if why := t.Config.Firmware.Skip(err); why != "" {
		t.Skip(why)
	}
	t.Fatal(err)
}

// Ends calls a function with the end of the case, whose error fails a case that hasn't failed.
func (t *T) Ends(fn func() error) {
	t.Cleanup(func() {
		if err := fn(); err != nil && !t.Failed() {
			t.Errorf("at the end: %v", err)
		}
	})
}

// Queues opens the device up to its command queues for the length of a case.
func (t *T) Queues(o dispatch.Options) *T {
	if o.HangTimeout == 0 {
		o.HangTimeout = t.Patience()
	}
	u, end := t.queues(o)
	t.Ends(end)
	return u
}

func (t *T) queues(o dispatch.Options) (u *T, end func() error) {
	if !t.Config.Firmware.Own() {
		t.Skip(belowRuntime)
	}
	kd, d, err := openQueues(t.Ctx, t.Device.Open(), o)
	t.OK(err)
	note(t.opened, d)
	u = new(T)
	*u = *t
	u.useQueues(kd, d)
	return u, func() error { return errors.Join(d.Close(context.WithoutCancel(t.Context())), kd.Close()) }
}

// Full opens the whole device for a case that shares none: a card has one firmware.
func (t *T) Full(opts ...reprise.Option) *T {
	if t.Dev != nil {
		t.Fatalf("the case shares a device with others, and opens another one: a case that does has LevelOwn")
	}
	u := t.Unclosed(t.Device.Open(), append([]reprise.Option{reprise.WithHangTimeout(t.Patience())}, opts...)...)
	t.Ends(func() error { return u.Dev.Close(context.WithoutCancel(t.Context())) })
	return u
}

// Unclosed opens the whole device for a case that closes it itself.
func (t *T) Unclosed(target kmd.Target, opts ...reprise.Option) *T {
	d, err := t.Open(t.Ctx, target, opts...)
	t.OK(err)
	note(t.opened, d)
	u := *t
	u.UseDevice(d)
	return &u
}

// On is the case on another queue of its device.
func (t *T) On(q *reprise.Queue) *T {
	u := *t
	u.Queue = q
	return &u
}

// VictimRunning is the line that the process writes that the suite kills, once it replays.
const VictimRunning = "replaying"

// FirstEvent makes events wrap in the course of the cases.
const FirstEvent = 0xFFFFFFC0

// QueueOptions are the options of a device with two queues, which share all workers or have some of
// their own.
func QueueOptions(split bool) []reprise.Option {
	opts := []reprise.Option{reprise.WithQueues(2), reprise.WithFirstEvent(FirstEvent)}
	for id, r := range SplitRanges() {
		if split {
			opts = append(opts, reprise.WithQueueWorkers(id, r))
		}
	}
	return opts
}

// SplitRanges are inside the grid of every chip.
func SplitRanges() [2]chip.Range {
	return [2]chip.Range{
		{End: chip.Core{X: 3, Y: 5}},
		{Start: chip.Core{X: 4, Y: 1}, End: chip.Core{X: 7, Y: 5}},
	}
}

// Firmware names folders of firmware that tt-metal built. Cases that need this runtime's own are
// skipped. Emulators let it rely on what package sim/waivers names.
type Firmware struct {
	Workers string // base firmware of the workers: reprise.WithFirmware
	Queues  string // the command queues': reprise.WithQueueFirmware
}

// Options are those that a device is opened with.
func (f Firmware) Options() []reprise.Option {
	var o []reprise.Option
	if f.Workers != "" {
		o = append(o, reprise.WithFirmware(f.Workers))
	}
	if f.Queues != "" {
		o = append(o, reprise.WithQueueFirmware(f.Queues))
	}
	return o
}

// Describe says what firmware a device runs: a digest of this runtime's own, and folders.
func (f Firmware) Describe(a chip.Arch) string {
	own, err := dispatch.HashFirmware(a, nil)
	if err != nil {
		return err.Error()
	}
	return strings.TrimSpace(fmt.Sprintf("%x %s %s", own, f.Workers, f.Queues))
}

const belowRuntime = "opens the command queues below the runtime, with its own firmware"

// Own reports whether devices run this runtime's own firmware alone.
func (f Firmware) Own() bool { return f == Firmware{} }

// Skip says why a case can't run that ends in an error, or "".
func (f Firmware) Skip(err error) string {
	var queues *dispatch.QueueFirmwareError
	var base *dispatch.FirmwareError
	switch {
	case !f.Own() && errors.As(err, &base):
		return "the case opens another chip than the firmware was built for: " + base.Why
	case f.Workers != "" && errors.Is(err, metal.ErrNotMetal):
		return "its kernels were not built with tt-metal's firmware, which the workers run"
	case f.Queues != "" && (errors.Is(err, dispatch.ErrQueueFirmware) || errors.As(err, &queues)):
		return "tt-metal's command-queue firmware can't do it: " + err.Error()
	}
	return ""
}

// Open opens a device that runs the firmware that is being tested.
func (t *T) Open(ctx context.Context, target kmd.Target, opts ...reprise.Option) (*reprise.Device, error) {
	return reprise.Open(ctx, target, append(t.Config.Firmware.Options(), opts...)...)
}
