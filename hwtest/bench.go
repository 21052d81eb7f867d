package hwtest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/dispatch"
	"github.com/reprise-tt/reprise/dispatch/abi"
	"github.com/reprise-tt/reprise/dispatch/cq"
	"github.com/reprise-tt/reprise/hwtest/target"
	"github.com/reprise-tt/reprise/kmd"
)

// bench holds the device that the cases of a layer share.
type bench struct {
	config *settings
	device *target.Device
	level  level
	kd     *kmd.Device
	disp   *dispatch.Device
	dev    *reprise.Device
	meshed *meshed
	alone  string // why the device makes no mesh, once that is known
}

// close closes what is open, in order.
func (b *bench) close(ctx context.Context) error {
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
	if b.meshed != nil {
		errs = append(errs, b.meshed.close(ctx))
	}
	b.dev, b.disp, b.kd, b.meshed, b.level = nil, nil, nil, nil, levelNone
	return errors.Join(errs...)
}

// discard closes the device after a failure, which may make closing fail too. With unsafe cases a card that has stopped is
// reset, since nothing could open it otherwise.
func (b *bench) discard(t tb) {
	t.Helper()
	if err := b.close(t.Context()); err != nil {
		t.Logf("close after a failure: %v", err)
	}
	if b.device.Kind != target.Silicon || !b.config.unsafe {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), patience(b.device))
	defer cancel()
	kd, err := kmd.Open(ctx, b.device.Open())
	if err == nil {
		err = errors.Join(kd.Alive(), kd.Close())
	}
	if err == nil {
		return
	}
	_, reset := kmd.Reset(ctx, b.device.Open(), kmd.ResetConfig{Mode: kmd.ResetASIC})
	t.Logf("reset after a failure, as %v: %v", err, reset)
}

// use returns a fixture for a case, with a context that ends after limit, and opens the device at the level if it isn't open.
func (b *bench) use(t tb, l level, limit time.Duration) *fixture {
	t.Helper()
	x := &fixture{tb: t, config: b.config, device: b.device, bench: b}
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	t.Cleanup(cancel)
	x.ctx = ctx
	if b.leave(t, l) {
		var err error
		switch l {
		case levelKMD:
			b.kd, err = kmd.Open(x.ctx, b.device.Open())
		case levelQueues:
			b.kd, b.disp, err = openQueues(x.ctx, b.device.Open(), dispatch.Options{HangTimeout: x.patience()})
		case levelDevice:
			b.dev, err = x.open(x.ctx, b.device.Open(), reprise.WithHangTimeout(x.patience()))
		case levelTwo, levelSplit:
			opts := append(queueOptions(l == levelSplit), reprise.WithHangTimeout(x.patience()))
			b.dev, err = x.open(x.ctx, b.device.Open(), opts...)
		}
		if err != nil {
			if why := b.config.firmware.skip(err); why != "" {
				t.Skip(why)
			}
			t.Fatalf("open: %v", err)
		}
		b.level = l
	}
	x.kd, x.disp, x.dev = b.kd, b.disp, b.dev
	switch l {
	case levelKMD:
		x.useDriver(b.kd)
	case levelQueues:
		x.useQueues(b.kd, b.disp)
	case levelDevice, levelTwo, levelSplit:
		x.useDevice(b.dev)
	}
	return x
}

// leave closes what is open at another level than l, and reports whether the level changes.
func (b *bench) leave(t tb, l level) bool {
	t.Helper()
	if b.level == l {
		return false
	}
	if err := b.close(t.Context()); err != nil {
		t.Errorf("close: %v", err)
	}
	return true
}

// openQueues opens a device up to its command queues.
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

// fixture is what a case works with. Which fields are set depends on its layer.
type fixture struct {
	tb
	bench  *bench
	config *settings
	device *target.Device
	ctx    context.Context

	ch *chip.Chip
	p  *chip.Params
	l1 *abi.L1Map // of workers

	kd   *kmd.Device
	disp *dispatch.Device
	q    *dispatch.Queue

	dev *reprise.Device
	rq  *reprise.Queue
}

// patience is how long a device may stand still before it counts as hanging.
func (t *fixture) patience() time.Duration { return patience(t.device) }

func patience(d *target.Device) time.Duration {
	if d.Slow() {
		return 60 * time.Second
	}
	return 20 * time.Second
}

// caseTime is how long a case may take before its context is over.
func caseTime(d *target.Device) time.Duration { return 10 * patience(d) }

// size returns fast for an emulator or silicon, and slow for the vendor's simulator, which needs about 300 ns for each clock,
// for an emulator with every check, and in short runs.
func (t *fixture) size(fast, slow int) int {
	if t.device.Slow() || t.config.short {
		return slow
	}
	return fast
}

// more returns many in long runs, and few otherwise.
func (t *fixture) more(few, many int) int {
	if t.config.long {
		return many
	}
	return few
}

func (t *fixture) useDriver(kd *kmd.Device) {
	t.Helper()
	t.kd = kd
	h, err := kd.Harvesting(t.ctx)
	t.ok(err)
	t.ch, err = chip.New(kd.Arch(), h)
	t.ok(err)
	t.p, t.l1 = t.ch.Params(), &abi.Own(t.ch.Arch()).L1
}

func (t *fixture) useQueues(kd *kmd.Device, d *dispatch.Device) {
	t.kd, t.disp, t.q = kd, d, d.Queue(0)
	t.ch, t.p, t.l1 = d.Chip(), d.Chip().Params(), &d.WorkerLayout().L1
}

func (t *fixture) useDevice(d *reprise.Device) {
	t.dev, t.rq = d, d.Queue(0)
	t.p, t.l1 = d.Arch().Params(), &abi.Own(d.Arch()).L1
}

// sub runs part of a case with a name of its own.
func (t *fixture) sub(name string, fn func(*fixture)) {
	t.Helper()
	t.Run(name, func(s tb) {
		u := *t
		u.tb = s
		fn(&u)
	})
}

// ok ends the case on an error, with the state of all cores if the device hangs.
func (t *fixture) ok(err error) {
	t.Helper()
	if err == nil {
		return
	}
	var hang *dispatch.HangError
	if errors.As(err, &hang) {
		t.Log(hang.Detail())
	}
	if why := t.config.firmware.skip(err); why != "" {
		t.Skip(why)
	}
	t.Fatal(err)
}

// same compares bytes and shows the first difference.
func (t *fixture) same(what string, want, got []byte) {
	t.Helper()
	if d := difference(want, got); d != "" {
		t.Errorf("%s: %s", what, d)
	}
}

// difference describes where two pieces of memory differ; it is empty if they don't.
func difference(want, got []byte) string {
	if bytes.Equal(want, got) {
		return ""
	}
	if len(want) != len(got) {
		return fmt.Sprintf("%d bytes, want %d", len(got), len(want))
	}
	first, last, n := -1, 0, 0
	for i := range want {
		if want[i] != got[i] {
			if first < 0 {
				first = i
			}
			last = i
			n++
		}
	}
	end := min(first+16, len(want))
	return fmt.Sprintf("%d of %d bytes differ, from %#x to %#x: first % x, want % x", n, len(want), first, last, got[first:end],
		want[first:end])
}

// pattern returns n bytes that differ from those of another seed, and at any shift.
func pattern(seed uint32, n int) []byte {
	b := make([]byte, n)
	x := seed*2654435761 + 1
	for i := range b {
		x ^= x << 13
		x ^= x >> 17
		x ^= x << 5
		b[i] = byte(x >> 8)
	}
	return b
}

// virtual is the coordinate by which software names a core.
func (t *fixture) virtual(c chip.Core) chip.XY {
	t.Helper()
	xy, err := t.ch.Virtual(c)
	t.ok(err)
	return xy
}

// poke and peek reach a core's L1 past the command queues.
func (t *fixture) poke(c chip.Core, addr uint32, p []byte) {
	t.Helper()
	t.ok(t.kd.Write(t.virtual(c), uint64(addr), p))
}

func (t *fixture) peek(c chip.Core, addr uint32, n int) []byte {
	t.Helper()
	p := make([]byte, n)
	t.ok(t.kd.Read(t.virtual(c), uint64(addr), p))
	return p
}

// pokeDRAM and peekDRAM reach a DRAM bank past the command queues.
func (t *fixture) pokeDRAM(bank int, addr uint64, p []byte) {
	t.Helper()
	b := t.ch.DRAMBanks()[bank]
	t.ok(t.kd.Write(b.HostEndpoint, b.Offset+addr, p))
}

func (t *fixture) peekDRAM(bank int, addr uint64, n int) []byte {
	t.Helper()
	b := t.ch.DRAMBanks()[bank]
	p := make([]byte, n)
	t.ok(t.kd.Read(b.HostEndpoint, b.Offset+addr, p))
	return p
}

// layout is the wire format of the chip's commands.
func (t *fixture) layout() cq.Layout { return cq.Layout(t.p.Arch) }

// commands builds commands and checks them against the limits of the device's firmware, unless raw is wanted.
func (t *fixture) commands(add func(*cq.Builder)) []byte {
	t.Helper()
	b := cq.NewBuilder(t.layout(), nil)
	add(&b)
	cmds, err := b.Finish()
	t.ok(err)
	return cmds
}

// send sends commands, and finish waits for everything sent.
func (t *fixture) send(add func(*cq.Builder)) {
	t.Helper()
	t.ok(t.q.Send(t.ctx, t.commands(add), false))
}

func (t *fixture) finish() {
	t.Helper()
	t.ok(t.q.Wait(t.ctx))
}

// do sends commands and waits for them.
func (t *fixture) do(add func(*cq.Builder)) {
	t.Helper()
	t.send(add)
	t.finish()
}

// nocXY and nocRect name tiles as commands do.
func (t *fixture) nocXY(c chip.Core) uint32 {
	t.Helper()
	return t.p.Arch.NOCXY(t.virtual(c))
}

func (t *fixture) nocRect(r chip.Range) (noc uint32, cores int) {
	t.Helper()
	rects := t.ch.Rects(r)
	if len(rects) != 1 {
		t.Fatalf("%v is %d rectangles", r, len(rects))
	}
	start, end := rects[0].Corners(chip.NOC0)
	return t.p.Arch.NOCMulticast(start, end), rects[0].Cores
}

// corners are the four corners of the grid of workers, the farthest apart that there are.
func (t *fixture) corners() []chip.Core {
	g := t.grid()
	return []chip.Core{g.Start, {X: g.End.X, Y: g.Start.Y}, {X: g.Start.X, Y: g.End.Y}, g.End}
}

// circularBuffers is how many circular buffers a core has for kernels of this runtime.
func (t *fixture) circularBuffers() int { return abi.Own(t.p.Arch).Launch.CircularBuffers }

func (t *fixture) grid() chip.Range {
	switch {
	case t.disp != nil:
		return t.disp.Grid()
	case t.dev != nil:
		return t.dev.Grid()
	}
	return t.ch.All()
}

// scratch is an address in the workers' L1 that nothing else uses.
const scratch = 0x40000
