package tracebuf_test

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/reprise-tt/reprise/allocator"
	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/dispatch/abi"
	"github.com/reprise-tt/reprise/dispatch/cq"
	"github.com/reprise-tt/reprise/internal/expect"
	"github.com/reprise-tt/reprise/tracebuf"
	"github.com/reprise-tt/reprise/tracebuf/flow"
	"pgregory.net/rapid"
)

var (
	fails  = expect.Fails
	must   = expect.Must
	noDiff = expect.NoDiff
)

func second[V any](_ V, err error) error { return err }

func TestReplayEqualsReference(t *testing.T) {
	want := expect.Value(os.ReadFile(filepath.Join("..", "dispatch", "cq", "testdata", "golden", "exec_trace.bin")))(t)
	r, err := tracebuf.NewReplay(tracebuf.ReplayConfig{
		ResetConfig: flow.ResetConfig{Layout: cq.Blackhole, DispatchX: 1, DispatchY: 3, Workers: 64, Stream: 48},
		Addr:        0x00100000, PageSize: 4096, Pages: 16,
	})
	must(t, err)
	cq.Put32(r.Bytes, r.GoCount, 0x140)
	cq.Put32(r.Bytes, r.WaitCount, 0x140+64)
	noDiff(t, r.Bytes, want, "replay commands differ from the reference")
}

func record(n int) *tracebuf.Recording {
	r := tracebuf.NewRecording(cq.Blackhole)
	for i := range n {
		r.Add("p", 0, func(dst []byte) ([]byte, uint8) {
			b := cq.NewBuilder(cq.Blackhole, dst)
			b.Wait(cq.Master, cq.Wait{Flags: cq.WaitStream, Stream: 48, Count: uint32(i)})
			return b.Bytes(), 0
		})
	}
	return r
}

func TestExtentsHoldAllPages(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		banks := rapid.IntRange(1, 12).Draw(t, "banks")
		im, err := record(rapid.IntRange(1, 3000).Draw(t, "commands")).Finish(banks)
		must(t, err)
		total := uint64(0)
		for i, e := range im.Extents(0x1000, banks) {
			if e.Bank != i || e.Start != 0x1000 {
				t.Fatalf("extent %d is %+v", i, e)
			}
			total += e.End - e.Start
		}
		if total != uint64(len(im.Bytes)) || im.Pages()*im.PageSize != len(im.Bytes) {
			t.Fatalf("extents hold %d B of %d", total, len(im.Bytes))
		}
		if waste := len(im.Bytes) - im.Size; waste < 0 || waste >= im.PageSize {
			t.Fatalf("%d B of padding with pages of %d B", waste, im.PageSize)
		}
	})
}

func TestTraceEndsItself(t *testing.T) {
	im, err := record(3).Finish(8)
	must(t, err)
	end := im.Bytes[im.Size-cq.Blackhole.PCIeAlign() : im.Size]
	if cq.PrefetchID(end[0]) != cq.PrefetchExecBufEnd || cq.DispatchID(end[16]) != cq.DispatchExecBufEnd {
		t.Errorf("the last command starts % x", end[:17])
	}
}

func TestEmptyRecordingIsRefused(t *testing.T) {
	expect.Error(t, second(tracebuf.NewRecording(cq.Blackhole).Finish(8)))
}

func devicesFile(t testing.TB, arch chip.Arch) []*tracebuf.File {
	t.Helper()
	files := []*tracebuf.File{testFile(t, arch), nil, spanFile(t, arch), testFile(t, arch)}
	files[3].Data = files[3].Data[:1]
	return files
}

func encodeAll(t testing.TB, files []*tracebuf.File) []byte {
	t.Helper()
	var b bytes.Buffer
	must(t, tracebuf.EncodeAll(&b, files))
	return b.Bytes()
}

func TestDevicesRoundTrip(t *testing.T) {
	for _, arch := range arches {
		files := devicesFile(t, arch)
		b := encodeAll(t, files)
		got := expect.Value(tracebuf.DecodeAll(bytes.NewReader(b)))(t)
		if diff := cmp.Diff(files, got, cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("%v (-encoded +decoded):\n%s", arch, diff)
		}
		if !bytes.Equal(encodeAll(t, got), b) {
			t.Errorf("%v: the same trace gives other bytes", arch)
		}
		fails(t, second(tracebuf.Decode(bytes.NewReader(b))), tracebuf.ErrSeveralDevices, "%v: Decode returns", arch)
		parts := expect.Value(tracebuf.InspectAll(files))(t)
		var at [][2]int
		for _, p := range parts {
			at = append(at, [2]int{p.Device, p.Queue})
		}
		expect.NoDiff(t, at, [][2]int{{0, 0}, {2, 1}, {2, 0}, {3, 0}}, "%v: parts are of devices and queues", arch)
		one := encodeAll(t, files[:1])
		if !bytes.Equal(one, encode(t, files[0])) {
			t.Errorf("%v: a trace of one device has a file of its own", arch)
		}
	}
}

func TestDevicesBytesStay(t *testing.T) {
	for arch, want := range map[chip.Arch]string{
		chip.Wormhole:  "7c9c49e204d237591fdecbe54a9ed8bcec51f7221efca684471ffe8ecd3593c1",
		chip.Blackhole: "18c1f9105ff68c0d5c80940e09b24d4409e3cea2ee634730da3d77b21fd03c15",
	} {
		expect.Equal(t, fmt.Sprintf("%x", sha256.Sum256(encodeAll(t, devicesFile(t, arch)))), want, "%v: the file", arch)
	}
}

func TestDevicesRefused(t *testing.T) {
	for name, c := range map[string]struct {
		change func([]*tracebuf.File) []*tracebuf.File
		want   string
	}{
		"no device":      {func([]*tracebuf.File) []*tracebuf.File { return nil }, "0 devices"},
		"no part":        {func([]*tracebuf.File) []*tracebuf.File { return make([]*tracebuf.File, 2) }, "at least one has a part"},
		"nothing of one": {func([]*tracebuf.File) []*tracebuf.File { return make([]*tracebuf.File, 1) }, "at least one has a part"},
		"many devices":   {func(f []*tracebuf.File) []*tracebuf.File { return append(f, make([]*tracebuf.File, 1024)...) }, "1028 devices"},
		"two names":      {func(f []*tracebuf.File) []*tracebuf.File { f[3].Name = "other"; return f }, `device 3: the trace's name is "other"`},
		"another's error": {func(f []*tracebuf.File) []*tracebuf.File { f[2].Image.L1End = 1 << 40; return f },
			"device 2, queue 1, circular buffers"},
	} {
		t.Run(name, func(t *testing.T) {
			var b bytes.Buffer
			err := tracebuf.EncodeAll(&b, c.change(devicesFile(t, chip.Blackhole)))
			if !errors.Is(err, tracebuf.ErrInvalid) || !strings.Contains(err.Error(), c.want) || b.Len() > 0 {
				t.Errorf("error is %v, want an ErrInvalid with %q; %d B were written", err, c.want, b.Len())
			}
		})
	}
	b := encodeAll(t, devicesFile(t, chip.Blackhole))
	at := bytes.Index(b, []byte("DEVS")) + 16 // 4 devices, 3 with a part: 0, 2, 3
	for name, change := range map[string]func([]byte){
		"one device":         func(c []byte) { c[at] = 1 },
		"2^32-1 devices":     func(c []byte) { copy(c[at:], "\xff\xff\xff\xff") },
		"2^32-1 parts":       func(c []byte) { copy(c[at+4:], "\xff\xff\xff\xff") },
		"fewer parts":        func(c []byte) { c[at+4] = 2 },
		"device beyond":      func(c []byte) { c[at+16] = 4 },
		"device twice":       func(c []byte) { c[at+12] = 3 },
		"falling devices":    func(c []byte) { c[at+8] = 2 },
		"no list of devices": func(c []byte) { copy(c[at-16:], "DEVX") },
	} {
		c := bytes.Clone(b)
		change(c)
		fails(t, second(tracebuf.DecodeAll(bytes.NewReader(seal(c)))), tracebuf.ErrInvalid, "%s", name)
	}
}

func TestFindRelocs(t *testing.T) {
	for _, arch := range arches {
		for _, f := range []*tracebuf.File{testFile(t, arch), spanFile(t, arch)} {
			for i, im := range f.Images() {
				program := func(step int) []int { return []int{im.Steps[step].Program} } // testFile's pages
				expect.NoDiff(t, im.FindRelocs(program), im.Relocs, "%v, part %d", arch, i)
			}
		}
	}
}

func everyStep(f *tracebuf.File) []int {
	var at []int
	off := f.Image.Params[0].At[0] - f.Image.Steps[1].Offset
	for _, s := range f.Image.Steps {
		at = append(at, s.Offset+off)
	}
	return at
}

func TestMoveBuffer(t *testing.T) {
	f := testFile(t, chip.Blackhole)
	all := everyStep(f)
	f.Image.Buffers[0].Addr = 0x2A
	f.Image.Params = []tracebuf.Param{{Name: "input", Kind: tracebuf.BufferAddr, Value: 0x2A, Pages: 8, At: all[1:]}}
	expect.Says(t, f.CheckMovable(0, 0x1000), nil, "0x2a")
	f.Image.Params[0].At = all
	expect.Fails(t, f.CheckMovable(0, 0x1000), nil, "all arguments are parameters")
	f.Image.Buffers[0].Addr = 1           // another argument of the same commands
	expect.Error(t, f.CheckMovable(0, 1)) // another argument
	f.MoveBuffer(0, 0x40000)
	expect.Equal(t, f.Image.Buffers[0].Addr, 0x40000, "f.Image.Buffers[0].Addr")
	expect.Equal(t, f.Image.Params[0].Value, 0x40000, "f.Image.Params[0].Value")
	encode(t, f) // which checks the words
}

func TestResidentArgumentsDontMove(t *testing.T) {
	for large, movable := range map[cq.LargeType]bool{cq.LargeBinaries: true, cq.LargeConfig: false} {
		rec := tracebuf.NewRecording(cq.Blackhole)
		rec.Add("p", 0, func(dst []byte) ([]byte, uint8) {
			b := cq.NewBuilder(cq.Blackhole, dst)
			b.WritePackedLargeHeader(cq.WritePackedLarge{Type: large, Alignment: 64, OffsetIndex: 1,
				Subs: []cq.LargeSub{{NOC: 1, Length: 64, Dests: 1, Unlink: true}}})
			b.RelayPagedPacked(cq.RelayPagedPacked{Subs: []cq.PagedSub{{StartPage: 1, LogPageSize: 11, Length: 64}}})
			return b.Bytes(), 0
		})
		im, err := rec.Finish(8)
		must(t, err)
		binary := make([]byte, 2*2048)
		cq.Put32(binary, 2048+60, 0x20010)
		im.Programs = []tracebuf.Program{{Name: "p", Binary: binary, Pages: 2}}
		im.Relocs = im.FindRelocs(func(int) []int { return []int{1} })
		f := tracebuf.NewFile("resident", []tracebuf.Part{{Image: *im}}, []tracebuf.Buffer{{Name: "x", Addr: 0x20000},
			{Name: "y", Addr: 0x30000}})
		expect.Equal(t, f.CheckMovable(0, 0x11) == nil, movable, "type %d", large)
		expect.Fails(t, f.CheckMovable(0, 0x10), nil, "type %d, a buffer that ends before the word", large)
		expect.Fails(t, f.CheckMovable(1, 0x1000), nil, "type %d, another buffer", large)
	}
}

func TestAlignedPieces(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		im := &tracebuf.Image{PageSize: 1024}
		align := rapid.SampledFrom([]int{16, 32, 64}).Draw(t, "align")
		at := rapid.SliceOfDistinct(rapid.Map(rapid.IntRange(0, 1023), func(i int) int { return 4 * i }),
			func(i int) int { return i }).Draw(t, "words")
		slices.Sort(at)
		hit := map[int]bool{}
		for _, o := range at {
			hit[o/align] = true
		}
		got, covered := im.AlignedPieces(at, align), 0
		for i, r := range got {
			covered += (r.End - r.Start) / align
			for o := r.Start; o < r.End; o += align {
				if !hit[o/align] {
					t.Fatalf("%v holds no word at %d", r, o)
				}
			}
			page := r.Start / im.PageSize
			joins := i > 0 && got[i-1].End == r.Start && (got[i-1].End-1)/im.PageSize == page
			if r.Start%align != 0 || r.End%align != 0 || (r.End-1)/im.PageSize != page || i > 0 && r.Start < got[i-1].End || joins {
				t.Fatalf("pieces are %v", got)
			}
		}
		if covered != len(hit) {
			t.Fatalf("%d units are covered, want %d", covered, len(hit))
		}
	})
}

func TestNewFile(t *testing.T) {
	f := spanFile(t, chip.Wormhole)
	bufs := f.Image.Buffers
	parts := f.Parts()
	parts[0].Image.Buffers = nil
	g := tracebuf.NewFile(f.Name, parts, bufs)
	g.Data, g.Results = f.Data, f.Results
	if !bytes.Equal(encode(t, f), encode(t, g)) {
		t.Error("the files differ")
	}
	g.Images()[1].L1End++
	expect.Equal(t, g.Others[0].Image.L1End, f.Others[0].Image.L1End+1, "an image isn't the file's own")
}

func spanFile(t testing.TB, arch chip.Arch) *tracebuf.File {
	t.Helper()
	ch, err := chip.New(arch, chip.Harvesting{})
	must(t, err)
	f := testFile(t, arch)
	f.Target.Queue, f.Target.Word = 1, 0x20000
	other := f.Target
	other.Queue, other.Word, other.Workers = 0, 0x20010, chip.Range{Start: chip.Core{Y: 2}, End: chip.Core{X: 3, Y: 3}}
	other.Dispatch, err = ch.Virtual(chip.Core{X: 5, Y: 6})
	must(t, err)
	if f.Image, err = withEdges(f, &other, []tracebuf.Edge{
		1: {Kind: tracebuf.EdgeRecord, Number: 1}, 4: {Kind: tracebuf.EdgeWait, Queue: 0, Number: 1},
		5: {Kind: tracebuf.EdgeRecord, Number: 2}, testSteps: {Kind: tracebuf.EdgeEnd},
	}, 1); err != nil {
		t.Fatal(err)
	}
	rec := tracebuf.NewRecording(f.Image.Layout)
	for i, e := range []tracebuf.Edge{{Kind: tracebuf.EdgeWait, Queue: 1, Number: 1}, {Kind: tracebuf.EdgeRecord, Number: 1},
		{Kind: tracebuf.EdgeEnd}} {
		cmds, err := tracebuf.AppendEdge(nil, f.Image.Layout, 48, dispatcher(&other),
			[]tracebuf.Peer{{Dispatcher: dispatcher(&f.Target), Recorded: 2}}, e, 0)
		must(t, err)
		rec.AddEdge(fmt.Sprintf("edge %d", i), e, cmds)
	}
	im, err := rec.Finish(f.Target.Banks)
	must(t, err)
	im.After = []byte("other queue")
	f.Others = []tracebuf.Part{{Target: other, Image: *im}}
	l1 := abi.Own(ch.Arch()).L1.Unreserved
	grid := []chip.Range{{End: chip.Core{X: 3}}, {Start: chip.Core{Y: 1}, End: chip.Core{X: 1, Y: 1}}}
	f.Image.Buffers = append(f.Image.Buffers,
		tracebuf.Buffer{Name: "height", Kind: tracebuf.KindL1, Addr: uint64(l1), Size: 700, PageSize: 100, Stride: 112,
			Sharding: &allocator.ShardSpec{Layout: 2, Tensor: []int{7, 1}, Shard: []int{2, 1}, Cores: grid[:1]}},
		tracebuf.Buffer{Name: "block", Kind: tracebuf.KindDRAM, Addr: 0x40, Size: 24 * 64, PageSize: 64, Stride: 64,
			Sharding: &allocator.ShardSpec{Layout: 4, Orientation: 1, Tensor: []int{6, 4}, Shard: []int{2, 4}, Cores: grid[:1]}},
		tracebuf.Buffer{Name: "ND", Kind: tracebuf.KindL1Small, Addr: 0x150000, Size: 24 * 16, PageSize: 16, Stride: 16,
			Sharding: &allocator.ShardSpec{Layout: 5, Strategy: 2, Tensor: []int{2, 3, 4}, Shard: []int{1, 1, 4}, Cores: grid}},
	)
	f.Image.Params = append(f.Image.Params, tracebuf.Param{Name: "part", Kind: tracebuf.BufferAddr, Value: 0x40, Buffer: 3,
		First: 3, Pages: 4})
	p := &f.Image.Params[1]
	p.At = []int{f.Image.Params[0].At[0] - 4} // the word in front, which is 1 in testFile
	cq.Put32(f.Image.Bytes, p.At[0], p.Value)
	return f
}

func dispatcher(t *tracebuf.Target) tracebuf.Dispatcher {
	return tracebuf.Dispatcher{Queue: t.Queue, Core: t.Dispatch, Word: t.Word}
}

func withEdges(f *tracebuf.File, other *tracebuf.Target, edges []tracebuf.Edge, recorded uint32) (tracebuf.Image, error) {
	old := f.Image
	rec := tracebuf.NewRecording(old.Layout)
	moved := map[int]int{} // offset of each step
	for i := range len(old.Steps) + 1 {
		if i < len(edges) && edges[i].Kind != tracebuf.EdgeNone {
			cmds, err := tracebuf.AppendEdge(nil, old.Layout, 48, dispatcher(&f.Target),
				[]tracebuf.Peer{{Dispatcher: dispatcher(other), Recorded: recorded}}, edges[i], uint32(8*i))
			if err != nil {
				return old, err
			}
			rec.AddEdge(edges[i].Kind.String(), edges[i], cmds)
		}
		if i < len(old.Steps) {
			s := old.Steps[i]
			moved[s.Offset] = len(rec.Bytes()) - s.Offset
			rec.Add(s.Name, s.Program, func(dst []byte) ([]byte, uint8) { return append(dst, old.Bytes[s.Offset:s.Offset+s.Size]...), 0 })
		}
	}
	im, err := rec.Finish(f.Target.Banks)
	if err != nil {
		return old, err
	}
	shift := func(at int) int {
		i, found := slices.BinarySearchFunc(old.Steps, at, func(s tracebuf.Step, at int) int { return s.Offset - at })
		if !found {
			i--
		}
		return at + moved[old.Steps[i].Offset]
	}
	im.Programs, im.Buffers, im.L1End, im.After = old.Programs, old.Buffers, old.L1End, old.After
	for _, r := range old.Relocs {
		r.At = shift(r.At)
		im.Relocs = append(im.Relocs, r)
	}
	for _, p := range old.Params {
		at := p.At
		p.At = nil
		for _, a := range at {
			p.At = append(p.At, shift(a))
		}
		im.Params = append(im.Params, p)
	}
	return *im, nil
}

func TestOrder(t *testing.T) {
	f := spanFile(t, chip.Blackhole)
	order := expect.Value(tracebuf.Order(f.Parts()))(t)
	want := []tracebuf.At{{0, 0}, {0, 1}, {1, 0}, {1, 1}}
	for i := 2; i < testSteps+4; i++ {
		if want = append(want, tracebuf.At{Part: 0, Step: i}); i == 7 { // the second recording, which ends the other part
			want = append(want, tracebuf.At{Part: 1, Step: 2})
		}
	}
	noDiff(t, order, want, "order")
}

func TestRelocateSpan(t *testing.T) {
	f := spanFile(t, chip.Wormhole)
	want := encode(t, f)
	ch, err := chip.New(chip.Wormhole, chip.Harvesting{})
	must(t, err)
	here := []tracebuf.Target{f.Target, f.Others[0].Target}
	there := slices.Clone(here)
	for i := range there {
		there[i].Queue, there[i].Word = 1-there[i].Queue, there[i].Word+0x100
		there[i].Dispatch, err = ch.Virtual(chip.Core{X: 6, Y: i})
		must(t, err)
	}
	must(t, f.Relocate(there))
	if got := encode(t, f); bytes.Equal(got, want) { // which checks it
		t.Error("nothing has changed")
	}
	expect.Equal(t, f.Others[0].Image.Steps[0].Edge.Queue, 0, "the other part waits for queue")
	must(t, f.Relocate(here))
	if !bytes.Equal(encode(t, f), want) {
		t.Error("the way back leads elsewhere")
	}
	expect.Error(t, f.Relocate(here[:1])) // a part has no place
}

func TestValidateRefusesSpans(t *testing.T) {
	step := func(i int) func(f *file) *tracebuf.Step {
		return func(f *file) *tracebuf.Step { return &f.Image.Steps[i] }
	}
	shard := func(i int, change func(*sharding)) func(*file) {
		return func(f *file) {
			s := *f.Image.Buffers[i].Sharding
			f.Image.Buffers[i].Sharding = &s
			change(&s)
		}
	}
	refuse(t, spanFile, "refused_spans.txt", []refusal{
		{"edge of one part", func(f *file) { f.Others, f.Target.Word = nil, 0 }, "of which the trace has none"},
		{"too many parts", func(f *file) { f.Others = slices.Repeat(f.Others, 9) }, "at most 8"},
		{"edge's commands", func(f *file) { f.Image.Bytes[step(1)(f).Offset+64+cq.AtRelayed+cq.AtPackedAddr] ^= 0x10 }, "isn't what its record edge is made of"},
		{"the other part's end", func(f *file) {
			f.Others[0].Image.Steps[2].Edge = tracebuf.Edge{Kind: tracebuf.EdgeWait, Queue: 1, Number: 1}
		}, "queue 0, commands at"},
		{"circle", func(f *file) {
			// A deadlock: the other part's recording comes after its wait for this part, which
			// waits for that recording.
			o := &f.Others[0]
			s := &o.Image.Steps[0]
			s.Edge.Number = 2
			cmds, err := tracebuf.AppendEdge(nil, o.Image.Layout, 48, dispatcher(&o.Target),
				[]tracebuf.Peer{{Dispatcher: dispatcher(&f.Target)}},
				s.Edge, 0)
			if err != nil {
				panic(err)
			}
			copy(o.Image.Bytes, cmds)
		}, "a replay would hang"},
		{"cores again and again", shard(2, func(s *sharding) { s.Cores = slices.Repeat(s.Cores, 50) }), "is named twice"},
		{"rank", shard(2, func(s *sharding) { s.Shard = s.Shard[:1] }), "shards of rank 1"},
		{"many dimensions", shard(2, func(s *sharding) {
			s.Tensor, s.Shard = append(slices.Repeat([]int{1}, 17), 7), slices.Repeat([]int{1}, 18)
		}), "18 dimensions"},
	})
}
