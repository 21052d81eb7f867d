package reprise_test

import (
	"bytes"
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/allocator"
	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/kernels"
	"github.com/reprise-tt/reprise/sim"
)

// ends returns a context that ends soon.
func (b *bench) ends() context.Context {
	ctx, cancel := context.WithTimeout(b.ctx, 50*time.Millisecond)
	b.Cleanup(cancel)
	return ctx
}

// letGo ends the programs that wait for a word, over a queue that doesn't wait for them.
func (b *bench) letGo(q *reprise.Queue, word *reprise.Buffer) {
	b.Helper()
	one := make([]byte, word.Size())
	for i := 0; i < len(one); i += 64 {
		one[i] = 1
	}
	b.must(q.Write(b.ctx, word, 0, one))
	b.must(q.Wait(b.ctx))
}

// If its context ends, a Load leaves kernels that the queue has still to write: their memory isn't
// allocated again until the queue has written them, and then it is free.
func TestLoadThatIsCanceledKeepsItsMemory(t *testing.T) {
	for name, load := range map[string]func(*bench, context.Context, *reprise.Program) error{
		"Load": func(b *bench, ctx context.Context, p *reprise.Program) error {
			_, err := b.dev.Load(ctx, p)
			return err
		},
		"LoadAll": func(b *bench, ctx context.Context, p *reprise.Program) error {
			_, err := reprise.LoadAll(ctx, []*reprise.Device{b.dev}, []*reprise.Program{p})
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := open(t, sim.Blackhole(), reprise.WithQueues(2))
			q1, word := b.dev.Queue(1), b.word()
			x := b.spin("spin", word, chip.BRISC, chip.Single(0, 0))
			out := b.buffer(reprise.BufferConfig{Kind: allocator.L1, Size: 64 * b.dev.Grid().Size(), PageSize: 64, Name: "out"})
			before := b.allocated()
			b.must(b.queue.Run(b.ctx, x))
			if err := load(b, b.ends(), b.wide(out, 1)); !errors.Is(err, context.DeadlineExceeded) {
				t.Fatal(err)
			}
			mine := b.buffer(reprise.BufferConfig{Kind: allocator.DRAM, Size: 64 << 10, PageSize: 1024, Name: "mine"})
			want := bytes.Repeat([]byte{0xAB}, mine.Size())
			b.must(q1.Write(b.ctx, mine, 0, want))
			b.letGo(q1, word)
			b.must(b.queue.Wait(b.ctx))
			got := make([]byte, mine.Size())
			b.must(q1.Read(b.ctx, mine, 0, got))
			if !bytes.Equal(got, want) {
				t.Error("a buffer has changed that only this test uses")
			}
			b.must(mine.Release())
			if diff := cmp.Diff(before, b.allocated()); diff != "" {
				t.Errorf("allocated after the wait (-before +now):\n%s", diff)
			}
		})
	}
}

// A Split that its context ended gives up its pieces only when the queue has run them.
func TestSplitThatIsCanceledKeepsItsMemory(t *testing.T) {
	left := chip.Range{End: chip.Core{X: 7, Y: 9}}
	right := chip.Range{Start: chip.Core{X: 8}, End: chip.Core{X: 9, Y: 9}}
	b := open(t, sim.Blackhole(), reprise.WithQueues(2), reprise.WithQueueWorkers(0, left), reprise.WithQueueWorkers(1, right))
	q1, word := b.dev.Queue(1), b.word()
	out := b.buffer(reprise.BufferConfig{Kind: allocator.L1, Size: 64 * b.dev.Grid().Size(), PageSize: 64, Name: "out"})
	long := func(on chip.Range, value uint32) *reprise.Executable {
		x := b.load(&reprise.Program{Name: "long", Buffers: []*reprise.Buffer{out}, Kernels: []reprise.Kernel{{
			Name: "store", Image: b.image(kernels.Store), Processor: chip.BRISC, Cores: []chip.Range{on}, Common: []uint32{0},
			Args: func(chip.Core) []uint32 {
				a := []uint32{out.Addr(), 16}
				for len(a) < 64 {
					a = append(a, value)
				}
				return a
			},
		}}})
		b.must(x.SetArgs("store", func(chip.Core, []uint32) {})) // from now on they are in the commands
		return x
	}
	xs := []*reprise.Executable{b.spin("spin", word, chip.BRISC, chip.Single(0, 0))}
	x, y := long(left, 7), long(right, 9)
	for range 60 {
		xs = append(xs, x)
	}
	trace := b.capture("long", xs...)
	before := b.allocated()
	if err := trace.Debug().Split(b.ends(), 1, nil); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatal(err)
	}
	var ys []*reprise.Executable
	for range 240 {
		ys = append(ys, y)
	}
	other, err := q1.Capture(b.ctx, "other", record(ys...)) // as large as what was running
	b.must(err)
	b.letGo(q1, word)
	b.must(b.queue.Wait(b.ctx))
	b.must(other.Release(b.ctx))
	if diff := cmp.Diff(before, b.allocated()); diff != "" {
		t.Errorf("allocated after the wait (-before +now):\n%s", diff)
	}
}

// What a canceled call has left is free on a device that was recovered, since nothing is in its
// queues any more.
func TestRecoverFreesWhatIsLeft(t *testing.T) {
	b := open(t, sim.Blackhole(), reprise.WithQueues(2))
	word := b.word()
	x := b.spin("spin", word, chip.BRISC, chip.Single(0, 0))
	before := b.allocated()
	b.must(b.queue.Run(b.ctx, x))
	if _, err := b.dev.Load(b.ends(), b.blank("other", chip.Single(1, 0))); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatal(err)
	}
	if cmp.Equal(before, b.allocated()) {
		t.Error("what the queue is still going to write is free")
	}
	b.must(b.dev.Recover(b.ctx))
	if diff := cmp.Diff(before, b.allocated()); diff != "" {
		t.Errorf("allocated after the recovery (-before +now):\n%s", diff)
	}
}

// Check puts back what the buffers held also when its context ends in the middle.
func TestCheckThatIsCanceledPutsBack(t *testing.T) {
	b := open(t, sim.Blackhole(), reprise.WithQueues(2))
	word, data := b.word(), b.pages("data", 4)
	add := b.adder("add", chip.Core{}, data, data, 1)
	// More than the queue takes at once, and before the other one.
	add.Buffers = []*reprise.Buffer{b.buffer(reprise.BufferConfig{Kind: allocator.DRAM, Size: 80 << 20, PageSize: 4096, Name: "big"}), data}
	trace := b.capture("t", b.load(add), b.spin("spin", word, chip.BRISC, chip.Single(1, 0)))
	b.write(data, 5)
	b.must(b.queue.Wait(b.ctx))
	done := make(chan error, 1)
	ctx, cancel := context.WithCancel(b.ctx)
	defer cancel()
	go func() { done <- trace.Debug().Check(ctx) }()
	for got := make([]byte, data.Size()); !bytes.Equal(got, words(data.Size(), 6)); { // the first program has run
		b.must(b.dev.Queue(1).Read(b.ctx, data, 0, got))
	}
	cancel()
	time.Sleep(100 * time.Millisecond) // a Check that doesn't wait for the second program has ended by then
	b.letGo(b.dev.Queue(1), word)
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	b.holds(data, 5)
}
