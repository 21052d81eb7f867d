package reprise_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"golang.org/x/sys/unix"
	"pgregory.net/rapid"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/allocator"
	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/dispatch"
	"github.com/reprise-tt/reprise/internal/expect"
	"github.com/reprise-tt/reprise/internal/usage"
	"github.com/reprise-tt/reprise/kernels"
	"github.com/reprise-tt/reprise/kmd"
	"github.com/reprise-tt/reprise/sim"
)

func TestLargeWritesEndWhereTheyEnd(t *testing.T) {
	onEmulators(t, func(b *bench) {
		page := 200<<10 + 16
		buf := b.Buffer(reprise.BufferConfig{Kind: allocator.L1, PageSize: page, Name: "large", Sharding: &allocator.ShardSpec{
			Layout: allocator.HeightSharded, Tensor: []int{2, 1}, Shard: []int{2, 1}, Cores: []chip.Range{chip.Single(1, 1)},
		}})
		want := bytes.Repeat([]byte{1, 2, 3, 5, 7, 11, 13, 17}, 2*page/8)
		b.Must(b.Queue.Write(b.Ctx, buf, 0, want))
		for i, r := range []struct{ off, n int }{{0, page}, {0, 132<<10 + 16}, {page, 140<<10 + 48}, {32, 150<<10 + 32}} {
			part := bytes.Repeat([]byte{byte(100 + i)}, r.n)
			b.Must(b.Queue.Write(b.Ctx, buf, r.off, part))
			copy(want[r.off:], part)
			got := make([]byte, 2*page)
			b.Must(b.Queue.Read(b.Ctx, buf, 0, got))
			for k := range got {
				if got[k] != want[k] {
					b.Fatalf("%d B written at %d: byte %d is %d, want %d", r.n, r.off, k, got[k], want[k])
				}
			}
		}
	})
}

func TestOutOfMemory(t *testing.T) {
	b := open(t, sim.Blackhole())
	big := b.Buffer(reprise.BufferConfig{Kind: allocator.DRAM, Size: 30 << 30, PageSize: 1 << 20, Name: "hoard"})
	_, err := b.Dev.NewBuffer(reprise.BufferConfig{Kind: allocator.DRAM, Size: 4 << 30, PageSize: 1 << 20, Name: "late"})
	var oom *allocator.OutOfMemoryError
	if !errors.As(err, &oom) || !errors.Is(err, reprise.ErrOutOfMemory) {
		t.Fatalf("%v, want an *OutOfMemoryError", err)
	}
	if oom.Kind != allocator.DRAM || oom.Owner != "late" || oom.Banks != 8 || oom.Size != 4<<30 || oom.Need != 512<<20 ||
		oom.Have >= oom.Need || oom.Hole > oom.Have {
		t.Errorf("%+v", oom)
	}
	b.Says(err, `new buffer "late"`, "4294967296 B (4.0 GiB) of DRAM", "each of 8 banks must hold 536870912 B", "free something first",
		"most is held by hoard")

	_, err = b.Dev.NewBuffer(reprise.BufferConfig{Kind: allocator.DRAM, Size: 1 << 45, Name: "impossible"})
	b.Says(err, "it would not fit an empty device")
	_, err = b.Dev.NewBuffer(reprise.BufferConfig{Kind: allocator.L1, Size: 2 << 20, Name: "one page"})
	b.Says(err, `new buffer "one page"`, "of L1", "each of 130 banks must hold")

	b.Must(big.Release())
	again := b.Buffer(reprise.BufferConfig{Kind: allocator.DRAM, Size: 4 << 30, PageSize: 1 << 20, Name: "late"})
	b.Must(again.Release())
	err = again.Release()
	b.fails("freed twice", err, reprise.ErrReleased)
	b.Says(err, `reprise: release buffer "late": it has been released already`)
	for _, err := range []error{b.Queue.Write(b.Ctx, again, 0, nil), b.Queue.Read(b.Ctx, again, 0, nil)} {
		b.fails("used after it was freed", err, reprise.ErrReleased)
	}
}

func TestCircularBuffersAgainstL1Buffers(t *testing.T) {
	onEmulators(t, func(b *bench) {
		half := int(b.Dev.Memory(allocator.L1).Free) / 2 &^ 63
		tall := reprise.BufferConfig{Kind: allocator.L1, Size: half * b.Dev.Grid().Size(), PageSize: half, Name: "tall"}
		program := func(name string, bytes int) *reprise.Program {
			cores := []chip.Range{chip.Single(0, 0)}
			p := b.blank(name, cores...)
			p.CircularBuffers = []reprise.CircularBuffer{{Index: 0, Cores: cores, PageSize: bytes, Pages: 1}}
			return p
		}
		buf := b.Buffer(tall)
		before := b.Allocated()
		_, err := b.Dev.Load(b.Ctx, program("wide", half+128))
		b.fails("circular buffers over a buffer", err, allocator.ErrOccupied)
		b.Says(err, `reprise: load program "wide"`, "circular buffers", "tall")
		b.sameMemory(before)
		small := b.Load(program("small", half/2))
		b.Must(buf.Release())

		refused := func() {
			b.Helper()
			_, err := b.Dev.NewBuffer(tall)
			b.fails("a buffer over circular buffers", err, reprise.ErrOutOfMemory)
			b.Says(err, `new buffer "tall"`, "most is held by circular buffers")
		}
		large := b.Load(program("large", half+128))
		refused()
		trace := b.Capture("large", large)
		b.Must(large.Release(b.Ctx))
		refused()
		b.Must(errors.Join(trace.Replay(b.Ctx), trace.Release(b.Ctx)))
		b.Must(errors.Join(b.Buffer(tall).Release(), small.Release(b.Ctx)))
		equal(b, b.Allocated()[allocator.L1], 0, "bytes of L1 still taken")
	})
}

func TestTraceRegion(t *testing.T) {
	if testing.Short() {
		t.Skip("one goroutine, and slow under the race detector")
	}
	for _, region := range []uint64{0, 100_000} {
		t.Run(fmt.Sprint(region), func(t *testing.T) {
			b := open(t, sim.Blackhole(), reprise.WithTraceRegion(region))
			x := b.Load(b.blank("blank", b.Dev.Grid()))
			trace := b.Capture("short", x)
			for _, e := range trace.Parts()[0].Extents {
				if end := b.Dev.DRAMBankSize(); e.End > end || region != 0 && e.Start < end-allocator.TracePerBank(region, 8, 64) ||
					e.End < end-16<<10 {
					t.Errorf("%+v is not at the top of a bank of %#x", e, end)
				}
			}
			s := b.Dev.Memory(allocator.Trace)
			if want := allocator.TracePerBank(region, 8, 64); region != 0 && s.Total != want {
				t.Errorf("the region has %d B of each bank, want %d", s.Total, want)
			}
			var xs []*reprise.Executable
			for range 600 {
				xs = append(xs, x)
			}
			long, err := b.Queue.Capture(b.Ctx, "long", record(xs...))
			if region == 0 {
				b.Must(err)
				b.Replay(long)
				b.Must(errors.Join(long.Release(b.Ctx), trace.Release(b.Ctx)))
				return
			}
			var oom *allocator.OutOfMemoryError
			if !errors.As(err, &oom) || oom.Kind != allocator.Trace || oom.TraceRegion <= region {
				t.Fatalf("%v (%+v), want an *OutOfMemoryError for traces", err, oom)
			}
			b.Says(err, `capture "long"`, "trace needs", "a trace region of", "would do", "short")
			b.Must(trace.Release(b.Ctx))

			c := open(t, sim.Blackhole(), reprise.WithTraceRegion(oom.TraceRegion))
			x = c.Load(c.blank("blank", c.Dev.Grid()))
			for i := range xs {
				xs[i] = x
			}
			c.Must(c.Capture("short", x).Replay(c.Ctx))
			c.Must(c.Capture("long", xs...).Replay(c.Ctx))
			c.Wait()
		})
	}
}

func TestAbandonedRead(t *testing.T) {
	card := sim.Blackhole()
	b := open(t, card)
	word := b.Buffer(reprise.BufferConfig{Kind: allocator.L1, Size: 64, Name: "word"})
	data := b.Pages("data", 100)
	b.Write(word, 0)
	b.Write(data, 1)
	b.Execute(b.spin("gate", word, chip.BRISC, chip.Single(0, 0)))
	ctx, cancel := context.WithCancelCause(b.Ctx)
	cancel(errors.New("changed my mind"))
	dst := make([]byte, data.Size())
	err := b.Queue.Read(ctx, data, 0, dst)
	b.Says(err, `reprise: read buffer "data"`, "changed my mind")
	poke(b, card, chip.Core{}, word.Addr(), 1)
	b.Wait()
	equal(t, len(bytes.Trim(dst, "\x00")), 0, "bytes that the abandoned read wrote")
	b.Holds(data, 1)
}

// poke writes a worker's L1 past the queues.
func poke(b *bench, card *sim.Card, at chip.Core, addr, value uint32) {
	b.Helper()
	d, err := kmd.Open(b.Ctx, card)
	b.Must(err)
	defer func() { b.Must(d.Close()) }()
	h, err := d.Harvesting(b.Ctx)
	b.Must(err)
	c, err := chip.New(d.Arch(), h)
	b.Must(err)
	xy, err := c.Virtual(at)
	b.Must(err)
	b.Must(d.Write32(xy, uint64(addr), value))
}

func TestImpossibleBuffers(t *testing.T) {
	b := open(t, sim.Wormhole(), reprise.WithL1Small(1024))
	before := b.Allocated()
	wide := &allocator.ShardSpec{Layout: allocator.WidthSharded, Tensor: []int{1, 9}, Shard: []int{1, 1},
		Cores: []chip.Range{chip.Grid(9, 1)}}
	for _, tt := range []struct {
		c    reprise.BufferConfig
		want error
		part string
	}{
		{reprise.BufferConfig{Kind: allocator.DRAM}, nil, "0 B in pages of 0 B"},
		{reprise.BufferConfig{Kind: allocator.L1, Size: -64}, nil, "-64 B in pages of -64 B"},
		{reprise.BufferConfig{Kind: allocator.DRAM, Size: 64, PageSize: -1}, nil, "64 B in pages of -1 B"},
		{reprise.BufferConfig{Kind: allocator.DRAM, Size: 100, PageSize: 64}, nil, "100 B in pages of 64 B"},
		{reprise.BufferConfig{Kind: allocator.Trace, Size: 64}, nil, "kind trace is not DRAM, L1 or L1 small"},
		{reprise.BufferConfig{Kind: 99, Size: 64}, nil, "kind kind(99) is not DRAM, L1 or L1 small"},
		{reprise.BufferConfig{Kind: allocator.L1, Sharding: heights(4, 1, 4)}, nil, "needs a page size"},
		{reprise.BufferConfig{Kind: allocator.L1, PageSize: -16, Sharding: heights(4, 1, 4)}, nil, "needs a page size"},
		{reprise.BufferConfig{Kind: allocator.L1, PageSize: 1 << 62, Sharding: heights(4, 1, 4)}, nil, "a size that can be counted"},
		{reprise.BufferConfig{Kind: allocator.L1, PageSize: 16, Size: 80, Sharding: heights(4, 1, 4)}, nil, "4 pages of 16 B are 64 B"},
		{reprise.BufferConfig{Kind: allocator.L1, PageSize: 16, Sharding: heights(5, 1, 4)}, allocator.ErrRequest, "5 shards on 4 cores"},
		{reprise.BufferConfig{Kind: allocator.L1, PageSize: 16, Sharding: wide}, nil, "core (8,0) is not one of the workers"},
		{reprise.BufferConfig{Kind: allocator.DRAM, PageSize: 16, Sharding: heights(13, 1, 13)}, nil, "core (12,0): shards in DRAM"},
		{reprise.BufferConfig{Kind: allocator.L1, PageSize: 16, Sharding: &allocator.ShardSpec{}}, allocator.ErrRequest, "rank 0"},
		{reprise.BufferConfig{Kind: allocator.L1Small, Size: 64, PageSize: 64}, allocator.ErrRequest, "sharded buffers only"},
		{reprise.BufferConfig{Kind: allocator.L1Small, PageSize: 2048, Sharding: heights(4, 1, 4)}, reprise.ErrOutOfMemory, "1024 B"},
		{reprise.BufferConfig{Kind: allocator.DRAM, Size: 64, Addr: 33}, allocator.ErrRequest, "not a multiple of 32 B"},
		{reprise.BufferConfig{Kind: allocator.DRAM, Size: 64, Addr: 1 << 30}, allocator.ErrOccupied, "beyond the region"},
	} {
		tt.c.Name = "odd"
		_, err := b.Dev.NewBuffer(tt.c)
		b.Says(err, `reprise: new buffer "odd": `, tt.part)
		if tt.want != nil && !errors.Is(err, tt.want) {
			t.Errorf("%v is no %v", err, tt.want)
		}
	}
	b.sameMemory(before)
	without := open(t, sim.Wormhole())
	_, err := without.Dev.NewBuffer(reprise.BufferConfig{Kind: allocator.L1Small, PageSize: 64, Name: "small", Sharding: heights(4, 1, 4)})
	without.Says(err, `new buffer "small"`, "out of memory", "opened with WithL1Small")
}

// tt-metal's issue 27966: serial captures and releases lost parts of the region.
func TestSerialCaptures(t *testing.T) {
	b := open(t, sim.Blackhole(), reprise.WithTraceRegion(8192))
	x := b.Load(b.blank("blank", b.Dev.Grid()))
	all := b.Dev.Memory(allocator.Trace)
	xs := slices.Repeat([]*reprise.Executable{x}, int(all.Total)*b.Dev.DRAMBanks()*3/4/x.Commands().Bytes) // two of these don't fit
	for range 5 {
		trace := b.Capture("trace", xs...)
		if _, err := b.Queue.Capture(b.Ctx, "second", record(xs...)); !errors.Is(err, reprise.ErrOutOfMemory) {
			t.Fatalf("a second trace: %v", err)
		}
		b.Must(errors.Join(trace.Replay(b.Ctx), trace.Release(b.Ctx)))
	}
	if s := b.Dev.Memory(allocator.Trace); s.Allocated != 0 || s.LargestHole != all.LargestHole {
		t.Errorf("the region is %+v, it was %+v", s, all)
	}
}

func (b *bench) ends() context.Context {
	ctx, cancel := context.WithTimeout(b.Ctx, 50*time.Millisecond)
	b.Cleanup(cancel)
	return ctx
}

func (b *bench) letGo(q *reprise.Queue, word *reprise.Buffer) {
	b.Helper()
	one := make([]byte, word.Size())
	for i := 0; i < len(one); i += 64 {
		one[i] = 1
	}
	b.Must(q.Write(b.Ctx, word, 0, one))
	b.Must(q.Wait(b.Ctx))
}

func TestLoadThatIsCanceledKeepsItsMemory(t *testing.T) {
	b := open(t, sim.Blackhole(), reprise.WithQueues(2))
	q1, word := b.Dev.Queue(1), b.word()
	x := b.spin("spin", word, chip.BRISC, chip.Single(0, 0))
	out := b.perWorker("out")
	before := b.Allocated()
	b.Execute(x)
	if _, err := b.Dev.Load(b.ends(), b.wide(out, 1)); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatal(err)
	}
	mine := b.Buffer(reprise.BufferConfig{Kind: allocator.DRAM, Size: 64 << 10, PageSize: 1024, Name: "mine"})
	want := bytes.Repeat([]byte{0xAB}, mine.Size())
	b.Must(q1.Write(b.Ctx, mine, 0, want))
	b.letGo(q1, word)
	b.Wait()
	got := make([]byte, mine.Size())
	b.Must(q1.Read(b.Ctx, mine, 0, got))
	if !bytes.Equal(got, want) {
		t.Error("a buffer has changed that only this test uses")
	}
	b.Must(mine.Release())
	b.sameMemory(before)
}

func TestSplitThatIsCanceledKeepsItsMemory(t *testing.T) {
	left := chip.Range{End: chip.Core{X: 7, Y: 9}}
	right := chip.Range{Start: chip.Core{X: 8}, End: chip.Core{X: 9, Y: 9}}
	b := open(t, sim.Blackhole(), reprise.WithQueues(2), reprise.WithQueueWorkers(0, left), reprise.WithQueueWorkers(1, right))
	q1, word := b.Dev.Queue(1), b.word()
	out := b.perWorker("out")
	long := func(on chip.Range, value uint32) *reprise.Executable {
		x := b.Load(&reprise.Program{Name: "long", Buffers: []*reprise.Buffer{out}, Kernels: []reprise.Kernel{{
			Name: "store", Image: b.Image(kernels.Store), Processor: chip.BRISC, Cores: []chip.Range{on}, Common: []uint32{0},
			Args: func(chip.Core) []uint32 {
				a := []uint32{out.Addr(), 16}
				for len(a) < 64 {
					a = append(a, value)
				}
				return a
			},
		}}})
		b.Must(x.SetArgs("store", func(chip.Core, []uint32) {}))
		return x
	}
	xs := []*reprise.Executable{b.spin("spin", word, chip.BRISC, chip.Single(0, 0))}
	x, y := long(left, 7), long(right, 9)
	for range 60 {
		xs = append(xs, x)
	}
	trace := b.Capture("long", xs...)
	before := b.Allocated()
	if err := trace.Debug().Split(b.ends(), 1, nil); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatal(err)
	}
	var ys []*reprise.Executable
	for range 240 {
		ys = append(ys, y)
	}
	other := value(q1.Capture(b.Ctx, "other", record(ys...)))(b)
	b.letGo(q1, word)
	b.Wait()
	b.Must(other.Release(b.Ctx))
	b.sameMemory(before)
}

func TestRecoverFreesWhatIsLeft(t *testing.T) {
	b := open(t, sim.Blackhole(), reprise.WithQueues(2))
	word := b.word()
	x := b.spin("spin", word, chip.BRISC, chip.Single(0, 0))
	before := b.Allocated()
	b.Execute(x)
	if _, err := b.Dev.Load(b.ends(), b.blank("other", chip.Single(1, 0))); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatal(err)
	}
	if cmp.Equal(before, b.Allocated()) {
		t.Error("what the queue is still going to write is free")
	}
	b.Must(b.Dev.Recover(b.Ctx))
	b.sameMemory(before)
}

func TestCheckThatIsCanceledPutsBack(t *testing.T) {
	b := open(t, sim.Blackhole(), reprise.WithQueues(2))
	word, data := b.word(), b.Pages("data", 4)
	add := b.Adder("add", chip.Core{}, data, data, 1)
	// More than the queue takes at once.
	add.Buffers = []*reprise.Buffer{b.Buffer(reprise.BufferConfig{Kind: allocator.DRAM, Size: 80 << 20, PageSize: 4096, Name: "big"}), data}
	trace := b.Capture("t", b.Load(add), b.spin("spin", word, chip.BRISC, chip.Single(1, 0)))
	b.Write(data, 5)
	b.Wait()
	done := make(chan error, 1)
	ctx, cancel := context.WithCancel(b.Ctx)
	defer cancel()
	go func() { done <- trace.Debug().Check(ctx) }()
	for got := make([]byte, data.Size()); !bytes.Equal(got, words(data.Size(), 6)); {
		b.Must(b.Dev.Queue(1).Read(b.Ctx, data, 0, got))
	}
	cancel()
	time.Sleep(100 * time.Millisecond) // a Check that doesn't wait has ended by then
	b.letGo(b.Dev.Queue(1), word)
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	b.Holds(data, 5)
}

func (b *bench) memoryIn(dir string) map[string]map[allocator.Kind]allocator.Usage {
	b.Helper()
	s := value(usage.Read(dir))(b)
	if len(s.Problems) != 0 {
		b.Fatal(s.Problems)
	}
	out := map[string]map[allocator.Kind]allocator.Usage{}
	for _, e := range s.Entries {
		m := map[allocator.Kind]allocator.Usage{}
		for _, r := range e.Memory {
			m[r.Kind] = r.Usage
		}
		out[e.Device.Name] = m
	}
	return out
}

// A watcher sees workers, queues and kernels of a device in use.
func TestUsageLogHasActivity(t *testing.T) {
	dir := t.TempDir()
	b := open(t, sim.Wormhole(), reprise.WithUsageLog(dir))
	in, out := b.Pages("in", 4), b.Pages("out", 4)
	x := b.Load(b.Adder("add", chip.Core{}, in, out, 1))
	for {
		b.Must(usage.Watch(dir))
		b.Must(b.Dev.Queue(0).Run(b.Ctx, x))
		b.Must(b.Dev.Queue(0).Wait(b.Ctx))
		s := value(usage.Read(dir))(b)
		a, queues := s.Entries[0].Activity, s.Entries[0].Queues
		if a.Samples < 2 || a.Kernels == 0 {
			continue // the first look comes within a second
		}
		if len(queues) != 1 || queues[0].Samples != a.Samples || a.Workers != uint64(b.Dev.Grid().Size()) || a.Busy > a.Samples*a.Workers {
			t.Errorf("activity %+v, queues %+v", a, queues)
		}
		return
	}
}

func TestUsageLogFollowsMemory(t *testing.T) {
	dir := t.TempDir()
	b := open(t, sim.Blackhole(), reprise.WithUsageLog(dir), reprise.WithL1Small(1024))
	checked := func(what string) map[allocator.Kind]allocator.Usage {
		t.Helper()
		got := b.memoryIn(dir)[b.Dev.Name()]
		want := map[allocator.Kind]allocator.Usage{}
		for _, k := range allocator.Kinds() {
			m := b.Dev.Memory(k)
			n := uint64(m.Banks)
			want[k] = allocator.Usage{Capacity: m.Total * n, Allocated: m.Allocated * n, Peak: m.Peak * n, Extents: uint64(m.Extents)}
		}
		noDiff(t, got, want, "%s: the log differs from Device.Memory", what)
		return got
	}
	empty := checked("after Open")
	in, out := b.Pages("in", 4), b.Pages("out", 4)
	x := b.Load(b.Adder("add", chip.Core{}, in, out, 1))
	tr := b.Capture("t", x)
	full := checked("with a trace")
	for _, k := range []allocator.Kind{allocator.DRAM, allocator.L1, allocator.Trace} {
		if full[k].Allocated <= empty[k].Allocated || full[k].Extents <= empty[k].Extents {
			t.Errorf("buffers, kernels and a trace take no %v: %+v, before %+v", k, full[k], empty[k])
		}
	}
	b.Must(tr.Release(b.Ctx))
	b.Must(x.Release(b.Ctx))
	b.Must(in.Release())
	b.Must(out.Release())
	for k, v := range checked("after all is freed") {
		equal(t, v.Allocated, empty[k].Allocated, "%v", k)
		equal(t, v.Peak, full[k].Peak, "%v", k)
	}
	other := open(t, sim.Wormhole(), reprise.WithUsageLog(dir))
	if got := b.memoryIn(dir); len(got) != 2 || got[other.Dev.Name()] == nil {
		t.Errorf("two devices have logs %v", got)
	}
	late := b.Pages("late", 1)
	b.Must(other.Dev.Close(t.Context()))
	b.Must(b.Dev.Close(t.Context()))
	_ = late.Release()
	equal(t, len(expect.Value(os.ReadDir(dir))(t)), 0, "after Close the directory has")
}

func TestUsageLogNamesTheDevice(t *testing.T) {
	dir := t.TempDir()
	b := open(t, sim.Wormhole(), reprise.WithUsageLog(dir))
	s, err := usage.Read(dir)
	if err != nil || len(s.Entries) != 1 {
		t.Fatalf("%d logs, %v", len(s.Entries), err)
	}
	want := usage.Entry{PID: os.Getpid(), UID: os.Geteuid(), Device: usage.Device{Name: b.Dev.Name(), Arch: "wormhole", NUMANode: -1,
		Emulated: true}}
	if diff := cmp.Diff(want, s.Entries[0], cmpopts.IgnoreFields(usage.Entry{}, "Start", "Namespace", "Opened", "Command", "Memory",
		"Path")); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestOpenWithoutUsageLog(t *testing.T) {
	for _, tt := range []struct {
		name string
		opt  reprise.Option
		err  error
	}{
		{"unwanted", reprise.WithUsageLog(""), nil},
		{"impossible", reprise.WithUsageLog(filepath.Join(t.TempDir(), "none")), fs.ErrNotExist},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := open(t, sim.Wormhole(), tt.opt)
			b.Pages("buffer", 4)
			path, err := b.Dev.UsageLog()
			if path != "" || !errors.Is(err, tt.err) || (err == nil) != (tt.err == nil) {
				t.Errorf("log %q, error %v; want none and %v", path, err, tt.err)
			}
		})
	}
}

func (b *bench) host(n int, c reprise.HostBufferConfig) *reprise.HostBuffer {
	b.Helper()
	c.Size = n
	return value(b.Dev.NewHostBuffer(c))(b)
}

func mapped(t *testing.T, n int) []byte {
	t.Helper()
	mem := value(unix.Mmap(-1, 0, n, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON))(t)
	t.Cleanup(func() { _ = unix.Munmap(mem) })
	return mem
}

func fill(p []byte, seed int) {
	for i := range p {
		p[i] = byte(i*7 + i>>8*3 + seed)
	}
}

func TestStrictPinnedTransfers(t *testing.T) {
	onEmulators(t, func(b *bench) {
		h := b.host(64<<10, reprise.HostBufferConfig{Name: "strict", Strict: true})
		even := b.Buffer(reprise.BufferConfig{Kind: allocator.DRAM, Size: 16 << 10, PageSize: 1 << 10, Name: "even"})
		odd := b.Buffer(reprise.BufferConfig{Kind: allocator.DRAM, Size: 500, PageSize: 100, Name: "odd"})
		small := b.Buffer(reprise.BufferConfig{Kind: allocator.DRAM, Size: 480, PageSize: 48, Name: "gaps"})
		for _, tt := range []struct {
			x          *reprise.Buffer
			off, at, n int
			part       *dispatch.DirectError
		}{
			{even, 0, 0, 16 << 10, nil},
			{even, 32, 48, 5000, nil},
			{even, 16, 8, 100, &dispatch.DirectError{Offset: 16, At: 8, Size: 100}},
			{even, 1 << 10, 4, 2 << 10, &dispatch.DirectError{Offset: 1 << 10, At: 4, Size: 2 << 10}},
			{even, 5, 5, 100, &dispatch.DirectError{Offset: 5, At: 5, Size: 11}},
			{odd, 0, 0, 100, nil},
			{odd, 0, 0, 200, &dispatch.DirectError{Offset: 100, At: 100, Size: 100}},
			{small, 0, 0, 480, nil},
		} {
			fill(h.Bytes(), 1)
			before := bytes.Clone(h.Bytes())
			for op, do := range map[string]func() error{
				"write": func() error { return b.Queue.WriteFrom(b.Ctx, tt.x, tt.off, h, tt.at, tt.n) },
				"read":  func() error { return b.Queue.ReadTo(b.Ctx, tt.x, tt.off, h, tt.at, tt.n) },
			} {
				if tt.part == nil {
					b.Must(do())
					continue
				}
				var e *dispatch.DirectError
				tt.part.Op = op
				if err := do(); !errors.As(err, &e) || *e != *tt.part {
					b.Errorf("%s of %d B at %d, host %d: %v, want a part of %d B at %d", op, tt.n, tt.off, tt.at, err, tt.part.Size, tt.part.Offset)
				} else {
					b.Says(err, op, tt.x.Name(), "without a copy", "modulo 16")
				}
			}
			if tt.part != nil && !bytes.Equal(before, h.Bytes()) {
				b.Error("a transfer that was refused has changed the memory")
			}
		}
	})
}

func TestPinnedMemoryMisuse(t *testing.T) {
	onEmulators(t, func(b *bench) {
		h := b.host(4096, reprise.HostBufferConfig{Name: "h"})
		other := open(b.T, sim.Wormhole()).host(4096, reprise.HostBufferConfig{Name: "foreign"})
		x := b.Pages("x", 16)
		var span *dispatch.TransferError
		for name, err := range map[string]error{
			"beyond the host buffer": b.Queue.ReadTo(b.Ctx, x, 0, h, 4000, 100),
			"before the host buffer": b.Queue.WriteFrom(b.Ctx, x, 0, h, -16, 64),
			"beyond the buffer":      b.Queue.WriteFrom(b.Ctx, x, 1000, h, 0, 64),
		} {
			if !errors.As(err, &span) {
				b.Errorf("%s: %v", name, err)
			}
		}
		b.fails("foreign", b.Queue.ReadTo(b.Ctx, x, 0, other, 0, 64), reprise.ErrWrongDevice)
		expect.Error(b, second(b.Queue.StartWriteFrom(b.Ctx, x, 0, nil, 0, 64)))
		expect.Error(b, second(b.Dev.NewHostBuffer(reprise.HostBufferConfig{Memory: make([]byte, 100)}))) // no whole pages
		b.Must(h.Release(b.Ctx))
		for name, err := range map[string]error{
			"read": b.Queue.ReadTo(b.Ctx, x, 0, h, 0, 64), "write": b.Queue.WriteFrom(b.Ctx, x, 0, h, 0, 64), "free": h.Release(b.Ctx),
		} {
			b.fails(name+" after Free", err, reprise.ErrReleased)
		}
		_, err := b.Queue.Capture(b.Ctx, "captured", func(ctx context.Context, _ *reprise.Recorder) error {
			return b.Queue.ReadTo(ctx, x, 0, b.host(4096, reprise.HostBufferConfig{}), 0, 64)
		})
		b.fails("in a capture", err, reprise.ErrInCapture)
		for n := 0; ; n++ {
			if _, err := b.Dev.NewHostBuffer(reprise.HostBufferConfig{Size: 4096}); err != nil {
				if n == 0 || !errors.Is(err, reprise.ErrBusy) {
					b.Errorf("after %d more: %v", n, err)
				}
				break
			}
		}
	})
}

// allocatedBy counts what functions with a name have allocated: an emulated device allocates too.
func allocatedBy(name string) (objects int64) {
	runtime.GC() // the profile is that of the last collection but one
	runtime.GC()
	records := make([]runtime.MemProfileRecord, 10000)
	n, ok := runtime.MemProfile(records, true)
	if !ok {
		panic("more than 10000 places allocate")
	}
	for _, r := range records[:n] {
		frames := runtime.CallersFrames(r.Stack())
		for more := true; more; {
			var f runtime.Frame
			if f, more = frames.Next(); strings.Contains(f.Function, name) {
				objects += r.AllocObjects
				break
			}
		}
	}
	return objects
}

func TestPinnedTransfersAllocate(t *testing.T) {
	defer func(rate int) { runtime.MemProfileRate = rate }(runtime.MemProfileRate)
	runtime.MemProfileRate = 1
	// A long wait checks the device, which allocates, after an eighth of the hang timeout.
	b := open(t, sim.Blackhole(), reprise.WithHangTimeout(time.Hour))
	h := b.host(64<<10, reprise.HostBufferConfig{Name: "h", Strict: true})
	x := b.Buffer(reprise.BufferConfig{Kind: allocator.DRAM, Size: 64 << 10, PageSize: 1 << 10, Name: "x"})
	sharded := b.Buffer(reprise.BufferConfig{Kind: allocator.L1, PageSize: 1 << 10, Sharding: heights(64, 16, 4), Name: "sharded"})
	for _, tt := range []struct {
		name string
		want int64
		do   func() error
	}{
		{"ReadTo", 0, func() error { return b.Queue.ReadTo(b.Ctx, x, 0, h, 0, len(h.Bytes())) }},
		{"WriteFrom", 0, func() error { return b.Queue.WriteFrom(b.Ctx, x, 0, h, 0, len(h.Bytes())) }},
		{"WriteFrom of part of a page", 0, func() error { return b.Queue.WriteFrom(b.Ctx, x, 32, h, 64, 100) }},
		{"ReadTo of a sharded buffer", 0, func() error { return b.Queue.ReadTo(b.Ctx, sharded, 0, h, 0, len(h.Bytes())) }},
		{"WriteFrom to a sharded buffer", 0, func() error { return b.Queue.WriteFrom(b.Ctx, sharded, 0, h, 0, len(h.Bytes())) }},
		{"StartReadTo", 1, func() error {
			p, err := b.Queue.StartReadTo(b.Ctx, x, 0, h, 0, len(h.Bytes()))
			if err != nil {
				return err
			}
			return p.Wait(b.Ctx)
		}},
	} {
		const times = 20
		b.Must(tt.do())
		before := allocatedBy("reprise.(*Queue)")
		for range times {
			b.Must(tt.do())
		}
		got := (allocatedBy("reprise.(*Queue)") - before) / times // what comes once, such as memory that grows, doesn't count
		if got > tt.want {
			t.Errorf("%s: %v allocations, want %v", tt.name, got, tt.want)
		}
	}
}

func TestPinnedTransfersAreCopies(t *testing.T) {
	onEmulators(t, func(b *bench) {
		const room = 96 << 10
		hosts := []*reprise.HostBuffer{
			b.host(room, reprise.HostBufferConfig{Name: "any"}), b.host(room, reprise.HostBufferConfig{Name: "strict", Strict: true}),
		}
		shard := &allocator.ShardSpec{Layout: allocator.BlockSharded, Tensor: []int{4, 6}, Shard: []int{2, 2},
			Cores: []chip.Range{chip.Grid(3, 2)}}
		seed := 0
		rapid.Check(b.T, func(r *rapid.T) {
			c := reprise.BufferConfig{Name: "x", Kind: rapid.SampledFrom([]allocator.Kind{allocator.DRAM, allocator.L1}).Draw(r, "kind")}
			c.PageSize = rapid.SampledFrom([]int{16, 48, 64, 100, 1024, 2064, 2048, 3000}).Draw(r, "page")
			if rapid.Bool().Draw(r, "sharded") {
				c.Kind, c.Sharding = allocator.L1, shard
			} else {
				c.Size = c.PageSize * rapid.IntRange(1, 24).Draw(r, "pages")
			}
			x, err := b.Dev.NewBuffer(c)
			b.Must(err)
			defer func() { b.Must(x.Release()) }()
			n := x.Size()
			device := make([]byte, n)
			b.Must(b.Queue.Write(b.Ctx, x, 0, device))
			for range rapid.IntRange(1, 6).Draw(r, "transfers") {
				h := rapid.SampledFrom(hosts).Draw(r, "host")
				off := rapid.IntRange(0, n).Draw(r, "offset")
				size := rapid.IntRange(0, n-off).Draw(r, "size")
				at := rapid.IntRange(0, room-size).Draw(r, "at")
				if rapid.Bool().Draw(r, "aligned") {
					at = at&^15 | off%16
					at = min(at, (room-size)&^15)
				}
				seed++
				fill(h.Bytes(), seed)
				host := bytes.Clone(h.Bytes())
				if rapid.Bool().Draw(r, "write") {
					if err = b.Queue.WriteFrom(b.Ctx, x, off, h, at, size); err == nil {
						copy(device[off:off+size], host[at:])
					}
				} else if err = b.Queue.ReadTo(b.Ctx, x, off, h, at, size); err == nil {
					copy(host[at:at+size], device[off:])
				}
				if err != nil && h.Name() != "strict" {
					r.Fatalf("%d B at %d, host %d: %v", size, off, at, err)
				}
				if !bytes.Equal(host, h.Bytes()) {
					r.Fatalf("%d B at %d, host %d: host memory differs (%v)", size, off, at, err)
				}
				got := make([]byte, n)
				b.Must(b.Queue.Read(b.Ctx, x, 0, got))
				if !bytes.Equal(device, got) {
					r.Fatalf("%d B at %d, host %d: the buffer differs (%v)", size, off, at, err)
				}
			}
		})
	})
}
