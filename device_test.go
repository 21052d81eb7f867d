package reprise_test

import (
	"bytes"
	"context"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/allocator"
	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/dispatch"
	"github.com/reprise-tt/reprise/internal/devtest"
	"github.com/reprise-tt/reprise/kmd"
	"github.com/reprise-tt/reprise/sim"
	"github.com/reprise-tt/reprise/tracebuf"
)

func TestDeviceDescribesItself(t *testing.T) {
	type facts struct {
		Arch   chip.Arch
		Grid   chip.Range
		Banks  int
		Bank   uint64
		Queues int
	}
	for _, tt := range []struct {
		card *sim.Card
		want facts
	}{
		{sim.Wormhole(), facts{chip.Wormhole, chip.Grid(8, 9), 12, 1 << 30, 1}},
		{sim.Blackhole(), facts{chip.Blackhole, chip.Grid(13, 10), 8, 0xFF000000, 1}},
		{sim.Wormhole(sim.Harvesting(chip.Harvesting{Tensix: 1<<1 | 1<<8})), facts{chip.Wormhole, chip.Grid(8, 7), 12, 1 << 30, 1}},
		{sim.Blackhole(sim.Harvesting(chip.Harvesting{Tensix: 1<<3 | 1<<9, DRAM: 1 << 2})), facts{chip.Blackhole, chip.Grid(11, 10), 7, 0xFF000000, 1}},
	} {
		b := open(t, tt.card)
		got := facts{b.Dev.Arch(), b.Dev.Grid(), b.Dev.DRAMBanks(), b.Dev.DRAMBankSize(), b.Dev.Queues()}
		noDiff(t, got, tt.want, "%v", tt.card)
		if b.Dev.Name() != tt.card.String() || b.Queue.ID() != 0 || b.Queue.Device() != b.Dev {
			t.Errorf("%v is named %q, its queue %d is of %v", tt.card, b.Dev.Name(), b.Queue.ID(), b.Queue.Device().Name())
		}
	}
}

func TestOpenErrors(t *testing.T) {
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	file := filepath.Join(t.TempDir(), "file")
	devtest.Must(t, os.WriteFile(file, nil, 0o666))
	b := &bench{&devtest.Bench{T: t}}
	for _, tt := range []struct {
		name   string
		ctx    context.Context
		target kmd.Target
		opts   []reprise.Option
		is     error
		linux  bool
		parts  []string
	}{
		{"no node", t.Context(), kmd.Path("/no/such/node"), nil, kmd.ErrNoDevice, true, []string{"reprise: open", "/no/such/node", "no such device", "modprobe tenstorrent"}},
		{"no device", t.Context(), kmd.Path(file), nil, kmd.ErrNotDevice, true, []string{"reprise: open", file, "not a Tenstorrent device"}},
		{"no target", t.Context(), nil, nil, nil, false, []string{"reprise: open: no target", "kmd.Path"}},
		{"cancelled", cancelled, sim.Blackhole(), nil, context.Canceled, false, []string{"reprise: open", "context canceled"}},
		{"three queues", t.Context(), sim.Blackhole(), []reprise.Option{reprise.WithQueues(3)}, nil, false, []string{"reprise: open emulated blackhole 0", "3 command queues asked for", "1 or 2"}},
		{"minus one queue", t.Context(), sim.Wormhole(), []reprise.Option{reprise.WithQueues(-1)}, nil, false, []string{"-1 command queues asked for"}},
		{"a negative hang timeout", t.Context(), sim.Wormhole(), []reprise.Option{reprise.WithHangTimeout(-time.Second)}, nil, false, []string{"a hang timeout of -1s asked for", "0 for 10s"}},
		{"negative times to spin and sleep", t.Context(), sim.Wormhole(), []reprise.Option{reprise.WithPace(-1, -1)}, nil, false, []string{"spin for -1ns and sleep for at most -1ns", "0 for the defaults"}},
		{"no directory for dumps", t.Context(), sim.Wormhole(), []reprise.Option{reprise.WithDumpDir(file + "-missing")}, fs.ErrNotExist, false, []string{"directory for dumps", "file-missing", "make it before"}},
		{"a file for dumps", t.Context(), sim.Wormhole(), []reprise.Option{reprise.WithDumpDir(file)}, nil, false, []string{"directory for dumps", "is no directory"}},
		{"little queue memory", t.Context(), sim.Wormhole(), []reprise.Option{reprise.WithQueueMemory(4096)}, nil, false, []string{"4096 B of host memory for each queue", "at least 1048576 B"}},
		{"odd queue memory", t.Context(), sim.Wormhole(), []reprise.Option{reprise.WithQueueMemory(1<<20 + 1)}, nil, false, []string{"1048577 B of host memory", "a multiple of 4096 B"}},
		{"too large a trace region", t.Context(), sim.Wormhole(), []reprise.Option{reprise.WithTraceRegion(1 << 40)}, nil, false, []string{"trace region of 1099511627776 B", "more than it has"}},
		{"too much small L1", t.Context(), sim.Blackhole(), []reprise.Option{reprise.WithL1Small(2 << 20)}, nil, false, []string{"L1 small region of 2097152 B"}},
		{"no such policy", t.Context(), sim.Blackhole(), []reprise.Option{reprise.WithAllocationPolicy(3)}, nil, false,
			[]string{"there is no policy(3)"}},
		{"an impossible card", t.Context(), sim.Wormhole(sim.Harvesting(chip.Harvesting{Tensix: 1 << 30})), nil, nil, false, []string{"reprise: open", "emulated wormhole"}},
		{"no IOMMU", t.Context(), sim.Wormhole(sim.WithoutIOMMU()), nil, kmd.ErrNotContiguous, false, []string{"memory of the command queues", "IOMMU"}},
	} {
		if tt.linux && runtime.GOOS != "linux" {
			continue
		}
		t.Run(tt.name, func(t *testing.T) {
			b.T = t
			d, err := reprise.Open(tt.ctx, tt.target, tt.opts...)
			if d != nil {
				t.Error("an error and a device", d.Close(t.Context()))
			}
			b.Says(err, tt.parts...)
			if tt.is != nil && !errors.Is(err, tt.is) {
				t.Errorf("%v is not %v", err, tt.is)
			}
		})
	}
}

func second[T any](_ T, err error) error { return err }

func TestCloseIdleUnderEndedContext(t *testing.T) {
	onEmulators(t, func(b *bench) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		b.Must(b.Dev.Close(ctx))
	})
}

func TestCloseWhileOthersWait(t *testing.T) {
	t.Parallel()
	onEmulators(t, func(b *bench) {
		b.Execute(b.spin("forever", b.word(), chip.BRISC, chip.Single(0, 0)))
		const waiters = 3
		errs := make(chan error, waiters)
		for range waiters {
			go func() { errs <- b.Queue.Wait(b.Ctx) }()
		}
		time.Sleep(20 * time.Millisecond)
		_ = b.Dev.Close(t.Context())
		for range waiters {
			b.fails("a wait ended with", <-errs, reprise.ErrClosed)
		}
	}, reprise.WithHangTimeout(time.Second)) // how long Close waits for the kernel
}

func TestNoPowerSettings(t *testing.T) {
	for _, card := range emulators {
		b := open(t, card(sim.Fault("no-power")))
		b.Execute(b.Load(b.blank("blank", b.Dev.Grid())))
		b.Wait()
		b.Must(b.Dev.Close(t.Context()))
	}
}

func TestNothing(t *testing.T) {
	b := open(t, sim.Wormhole())
	p := b.blank("blank", chip.Single(0, 0))
	p.Buffers = []*reprise.Buffer{nil}
	for what, err := range map[string]error{
		"reprise: write: no buffer":                              b.Queue.Write(b.Ctx, nil, 0, nil),
		"reprise: read: no buffer":                               b.Queue.Read(b.Ctx, nil, 0, nil),
		"reprise: run: no executable":                            b.Queue.Run(b.Ctx, nil),
		"reprise: load: no program":                              second(b.Dev.Load(b.Ctx, nil)),
		`reprise: load program "blank": no buffer`:               second(b.Dev.Load(b.Ctx, p)),
		`reprise: capture "none": no function`:                   second(b.Queue.Capture(b.Ctx, "none", nil)),
		`reprise: capture "nil": run program at : no executable`: second(b.Queue.Capture(b.Ctx, "nil", record((*reprise.Executable)(nil)))),
	} {
		for part := range strings.SplitSeq(what, ": ") {
			b.Says(err, part)
		}
	}
	b.Wait()
}

func TestCoordinatesForKernels(t *testing.T) {
	onEmulators(t, func(b *bench) {
		g := b.Dev.Grid()
		first, err1 := b.Dev.Virtual(g.Start)
		last, err2 := b.Dev.Virtual(g.End)
		b.Must(errors.Join(err1, err2))
		all := value(b.Dev.Multicast(g))(b)
		equal(b, all.Start, first, "a multicast to %v", g)
		equal(b, all.End, last, "a multicast to %v", g)
		equal(b, all.Cores, g.Size(), "a multicast to %v", g)
		start, end := all.Corners(chip.NOC1)
		equal(b, start, last, "start on NoC 1")
		equal(b, end, first, "end on NoC 1")
		var outside *chip.CoordinateError
		if _, err := b.Dev.Virtual(chip.Core{X: 100}); !errors.As(err, &outside) {
			b.Errorf("a core outside of the chip: %v", err)
		}
		if _, err := b.Dev.Multicast(chip.Grid(100, 1)); !errors.As(err, &outside) {
			b.Errorf("a range beyond the chip: %v", err)
		}
	})
}

// The lines of Go in README.md are the example's, without its checks of errors.
func TestReadmeShowsTheExample(t *testing.T) {
	readme := value(os.ReadFile("README.md"))(t)
	example := value(os.ReadFile("example_test.go"))(t)
	block := regexp.MustCompile("(?s)```go\n(.*?)```").FindSubmatch(readme)
	if block == nil {
		t.Fatal("README.md has no Go")
	}
	rest := strings.Split(string(example), "\n")
	for line := range strings.Lines(string(block[1])) {
		want := code(line)
		if want == "" {
			continue
		}
		i := 0
		for i < len(rest) && code(rest[i]) != want {
			i++
		}
		if i == len(rest) {
			t.Fatalf("README.md has a line that example_test.go doesn't have, or not in that order:\n%s", line)
		}
		rest = rest[i+1:]
	}
}

func code(line string) string {
	line, _, _ = strings.Cut(line, " // ")
	return strings.TrimSpace(line)
}

// What belongs to a topic goes to its package; go doc shows no fields of aliases.
func TestExportedNames(t *testing.T) {
	const most = 60 // types and functions
	files := value(filepath.Glob("*.go"))(t)
	names := 0
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		f := value(parser.ParseFile(token.NewFileSet(), name, nil, 0))(t)
		for _, d := range f.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && fn.Recv == nil && fn.Name.IsExported() {
				names++
			}
			g, _ := d.(*ast.GenDecl)
			for i := 0; g != nil && g.Tok == token.TYPE && i < len(g.Specs); i++ {
				if s := g.Specs[i].(*ast.TypeSpec); s.Name.IsExported() {
					names++
					if s.Assign.IsValid() {
						t.Errorf("%s is an alias: name the type by its own package", s.Name)
					}
				}
			}
		}
	}
	if names > most || names < most/2 {
		t.Errorf("the package has %d exported types and functions, at most %d are wanted", names, most)
	}
}

// halves loads a division into the rows 0 and 1, and some cores below.
func (b *bench) halves(localL1 int) *reprise.SubDevices {
	b.Helper()
	s, err := b.Dev.NewSubDevices(localL1, []chip.Range{{End: chip.Core{X: 3, Y: 1}}},
		[]chip.Range{{Start: chip.Core{X: 0, Y: 3}, End: chip.Core{X: 2, Y: 3}},
			{Start: chip.Core{X: 2, Y: 4}, End: chip.Core{X: 3, Y: 4}}})
	b.Must(err)
	b.Must(s.Load(b.Ctx))
	return s
}

// A program of one sub-device runs while one of another doesn't end. Transfers and waits don't wait
// for what is outside of the stall group.
func TestSubDevices(t *testing.T) {
	onAll(t, func(b *bench) {
		in, out := b.Pages("in", 4), b.Pages("out", 4)
		add := b.Load(b.Adder("add", chip.Core{X: 1, Y: 3}, in, out, 5))
		word := b.word()
		b.zero(word)
		spin := b.spin("spin", word, chip.BRISC, chip.Grid(2, 2))
		wide := b.Load(b.blank("wide", chip.Range{End: chip.Core{X: 1, Y: 3}}))
		for range 2 {
			s := b.halves(0)
			b.zero(word)
			b.Execute(spin)
			b.Must(b.Queue.SetStallGroup(1))
			for i := range uint32(20) {
				b.Write(in, i)
				b.Execute(add)
				b.Wait()
				b.Holds(out, i+5)
			}
			var sub *dispatch.SubDeviceError
			if err := b.Queue.Run(b.Ctx, wide); !errors.As(err, &sub) {
				b.Errorf("a program on both sub-devices: %v", err)
			}
			if err := b.Queue.WaitFor(b.Ctx, 2); !errors.As(err, &sub) {
				b.Errorf("a wait for sub-device 2: %v", err)
			}
			b.Must(b.Queue.Write(b.Ctx, word, 0, bytes.Repeat([]byte{1, 0, 0, 0}, word.Size()/4)))
			done := b.Dev.NewEvent("done")
			b.Must(b.Queue.RecordFor(b.Ctx, done, 0))
			b.Must(done.Wait(b.Ctx))
			b.Must(b.Queue.SetStallGroup())
			b.Wait()
			b.Must(b.Dev.ClearSubDevices(b.Ctx))
			b.Must(s.Release())
			b.Execute(wide)
			b.Execute(add)
			b.Wait()
		}
	})
}

// Sub-devices have L1 of their own: a buffer of one doesn't take room from another.
func TestSubDeviceMemory(t *testing.T) {
	onEmulators(t, func(b *bench) {
		s := b.halves(32 << 10)
		defer func() { b.Must(s.Release()) }()
		shard := func(name string, c chip.Core) reprise.BufferConfig {
			return reprise.BufferConfig{Name: name, PageSize: 16 << 10, Sharding: &allocator.ShardSpec{
				Layout: allocator.HeightSharded, Tensor: []int{2, 1}, Shard: []int{2, 1}, Cores: []chip.Range{{Start: c, End: c}}}}
		}
		first, err := s.Pool(0).NewBuffer(shard("first", chip.Core{X: 1}))
		b.Must(err)
		second, err := s.Pool(1).NewBuffer(shard("second", chip.Core{X: 1, Y: 3}))
		b.Must(err)
		equal(b, first.Addr(), second.Addr(), "addresses of two buffers")
		data := bytes.Repeat([]byte{1, 2, 3, 4}, first.Size()/4)
		b.Must(b.Queue.Write(b.Ctx, first, 0, data))
		b.zero(second)
		got := make([]byte, len(data))
		b.Must(b.Queue.Read(b.Ctx, first, 0, got))
		if !bytes.Equal(got, data) {
			b.Error("the buffer of one sub-device is that of the other")
		}
		_, err = s.Pool(0).NewBuffer(shard("third", chip.Core{X: 1}))
		b.fails("more than there is", err, reprise.ErrOutOfMemory)
		_, err = s.Pool(0).NewBuffer(shard("outside", chip.Core{X: 1, Y: 3}))
		b.Says(err, "core (1,3) is not in the sub-device")
		_, err = s.Pool(0).NewBuffer(reprise.BufferConfig{Name: "interleaved", PageSize: 64, Size: 64})
		b.Says(err, "sharded ones only")
		b.Says(b.Dev.ClearSubDevices(b.Ctx), "sub-device 0 has buffers")
		b.Must(errors.Join(first.Release(), second.Release()))
		b.Says(s.Release(), "they are loaded")
		b.Must(b.Dev.ClearSubDevices(b.Ctx))
	})
}

// Divisions that can't be are refused.
func TestSubDevicesThatCannotBe(t *testing.T) {
	onEmulators(t, func(b *bench) {
		one := []chip.Range{chip.Grid(2, 2)}
		for want, sets := range map[string][][]chip.Range{
			"there may be 1 to 8":               make([][]chip.Range, 9),
			"sub-device 1 has no cores":         {one, nil},
			"have core (0,0) both":              {one, one},
			"is not inside the worker grid":     {{{End: chip.Core{X: 90, Y: 1}}}},
			"0 sub-devices: there may be 1 to ": nil,
		} {
			_, err := b.Dev.NewSubDevices(0, sets...)
			b.Says(err, want)
		}
	})
}

// Recover brings the division back.
func TestRecoverKeepsSubDevices(t *testing.T) {
	onEmulators(t, func(b *bench) {
		in, out := b.Pages("in", 4), b.Pages("out", 4)
		add := b.Load(b.Adder("add", chip.Core{X: 2, Y: 4}, in, out, 5))
		s := b.halves(0)
		b.Must(b.Dev.Recover(b.Ctx))
		if b.Dev.SubDevices() != s {
			b.Error("the division is gone")
		}
		b.Write(in, 1)
		b.Execute(add)
		b.Must(b.Queue.WaitFor(b.Ctx, 1))
		b.Holds(out, 6)
		b.Must(b.Dev.ClearSubDevices(b.Ctx))
		b.Execute(add)
	}, reprise.WithHangTimeout(2*time.Second))
}

// A trace runs with the division that it was recorded with, and waits for the sub-devices that it
// uses only.
func TestTracesOnSubDevices(t *testing.T) {
	onAll(t, func(b *bench) {
		in, mid, out := b.Pages("in", 4), b.Pages("mid", 4), b.Pages("out", 4)
		first := b.Load(b.Adder("first", chip.Core{X: 1, Y: 3}, in, mid, 5))
		again := b.Load(b.Adder("again", chip.Core{X: 2, Y: 4}, mid, out, 70))
		above := b.Load(b.Adder("above", chip.Core{X: 3, Y: 1}, in, in, 1))
		word := b.word()
		spin := b.spin("spin", word, chip.BRISC, chip.Grid(2, 2))
		s := b.halves(0)
		below := b.Capture("below", first, again)
		b.Write(word, 0)
		b.zero(word)
		b.Execute(spin)
		b.Must(b.Queue.SetStallGroup(1))
		for i := range uint32(10) {
			b.Write(in, i)
			b.Execute(first)
			b.Replay(below)
			b.Wait()
			b.Holds(out, i+75)
		}
		b.Must(b.Queue.Write(b.Ctx, word, 0, bytes.Repeat([]byte{1, 0, 0, 0}, word.Size()/4)))
		b.Must(b.Queue.SetStallGroup())
		both := b.Capture("both", above, above, first, again)
		b.Write(in, 0)
		for range 12 {
			b.Replay(both)
			b.Execute(above)
		}
		b.Wait()
		b.Holds(in, 36)
		if _, err := b.Queue.Capture(b.Ctx, "loop", func(_ context.Context, r *reprise.Recorder) error {
			return r.Loop(3, func() error { return r.Run(first) })
		}); !errors.Is(err, dispatch.ErrSubDevices) {
			b.Errorf("a loop: %v", err)
		}
		var file bytes.Buffer
		b.Must(both.Save(b.Ctx, &file))
		b.refusesDivisions(file.Bytes())
		b.Must(b.Dev.ClearSubDevices(b.Ctx))
		var other *tracebuf.TargetError
		if _, err := b.Dev.LoadTrace(b.Ctx, bytes.NewReader(file.Bytes())); !errors.As(err, &other) {
			b.Errorf("a file without its division: %v", err)
		}
		var sub *dispatch.SubDeviceError
		if err := both.Replay(b.Ctx); !errors.As(err, &sub) {
			b.Errorf("a replay without the division: %v", err)
		}
		b.Must(s.Load(b.Ctx))
		b.Replay(both)
		b.Wait()
		b.Holds(in, 38)
		loaded := value(b.Dev.LoadTrace(b.Ctx, &file, reprise.WithBuffers(in, mid, out)))(b)
		for range 12 {
			b.Replay(loaded)
			b.Execute(above)
		}
		b.Wait()
		b.Holds(in, 38+36)
		b.Must(errors.Join(below.Release(b.Ctx), both.Release(b.Ctx), loaded.Release(b.Ctx), b.Dev.ClearSubDevices(b.Ctx)))
	})
}

// refusesDivisions says that a trace on two sub-devices isn't one with other sub-devices.
func (b *bench) refusesDivisions(file []byte) {
	b.Helper()
	f := value(tracebuf.Decode(bytes.NewReader(file)))(b)
	sets := f.Target.SubDevices
	for want, other := range map[string][][]chip.Range{
		"SEND_GO_SIGNAL after 8 completions": nil,
		"starts none of the 1 sub-devices":   sets[:1],
		"make them disjoint":                 {sets[0], sets[0]},
		"is no worker":                       {sets[1], sets[0]},
		"after 8 completions, all steps":     {append([]chip.Range{chip.Single(0, 2)}, sets[0]...), sets[1]},
		"0 sub-devices":                      {},
	} {
		f.Target.SubDevices = other
		b.Says(tracebuf.Encode(io.Discard, f), want)
	}
	f.Target.SubDevices = sets
	var again bytes.Buffer
	b.Must(tracebuf.Encode(&again, f))
	if !bytes.Equal(again.Bytes(), file) {
		b.Error("the file isn't the same after a round trip")
	}
}

// Two queues run programs on different sub-devices without an event, and not on the same one.
func TestSubDevicesOfTwoQueues(t *testing.T) {
	onEmulators(t, func(b *bench) {
		in, out := b.Pages("in", 4), b.Pages("out", 4)
		b.Write(in, 3)
		first, second := b.Load(b.Adder("first", chip.Core{X: 1, Y: 1}, in, in, 1)),
			b.Load(b.Adder("second", chip.Core{X: 1, Y: 3}, in, out, 1))
		b.halves(0)
		b.Execute(first)
		b.Must(b.Dev.Queue(1).Run(b.Ctx, second))
		var overlap *dispatch.OverlapError
		if err := b.Dev.Queue(1).Run(b.Ctx, first); !errors.As(err, &overlap) {
			b.Errorf("the sub-device of the other queue's program: %v", err)
		}
		b.Wait()
		b.Must(b.Dev.Queue(1).Run(b.Ctx, first))
		b.Must(b.Dev.Queue(1).Wait(b.Ctx))
		b.Holds(in, 5)
		b.Must(b.Dev.ClearSubDevices(b.Ctx))
	}, reprise.WithQueues(2))
}
