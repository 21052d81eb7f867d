package tracebuf_test

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"embed"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"go/constant"
	"go/token"
	"go/types"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"testing/iotest"
	"unicode"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/reprise-tt/reprise/allocator"
	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/dispatch/abi"
	"github.com/reprise-tt/reprise/dispatch/cq"
	"github.com/reprise-tt/reprise/internal/expect"
	"github.com/reprise-tt/reprise/tracebuf"
)

var arches = []chip.Arch{chip.Wormhole, chip.Blackhole}

const (
	testSteps   = 11 // more than there are launch messages
	binaryPages = 3
)

type (
	file     = tracebuf.File
	sharding = allocator.ShardSpec
)

func testFile(t testing.TB, arch chip.Arch) *tracebuf.File {
	t.Helper()
	return testFileOf(t, arch, false)
}

func testFileOf(t testing.TB, arch chip.Arch, inline bool) *tracebuf.File {
	t.Helper()
	ch, err := chip.New(arch, chip.Harvesting{})
	must(t, err)
	l, l1 := cq.Layout(arch), &abi.Own(arch).L1
	f := &tracebuf.File{
		Name: "two programs",
		Target: tracebuf.Target{Arch: arch, Workers: chip.Range{End: chip.Core{X: 3, Y: 1}}, Banks: len(ch.DRAMBanks()), Revision: cq.Pinned,
			Firmware: sha256.Sum256([]byte("firmware"))},
	}
	f.Target.Dispatch, err = ch.Virtual(chip.Core{X: 5, Y: 5})
	must(t, err)
	worker, err := ch.Virtual(chip.Core{X: 1, Y: 1})
	must(t, err)
	rect := ch.Rects(chip.Range{End: chip.Core{X: 3, Y: 1}})[0]
	noc := arch.NOCMulticast(rect.Start, rect.End)
	rec := tracebuf.NewRecording(l)
	var relocs []tracebuf.Reloc
	param := tracebuf.Param{Name: "n", Value: 0x2A}
	for i := range testSteps {
		rec.Add([]string{"even", "odd"}[i%2], i%2, func(dst []byte) ([]byte, uint8) {
			b := cq.NewBuilder(l, dst)
			b.SetWriteOffset(cq.SetWriteOffset{HostID: uint16(i), Count: 3, Offsets: [4]uint32{0, l1.KernelConfig, l1.KernelConfig + 1024}})
			b.Wait(cq.Master, cq.Wait{Flags: cq.WaitStream, Stream: 48, Count: uint32(i * 8)})
			w := b.WritePacked(cq.WritePacked{Type: cq.PackedRuntimeArgs, OffsetIndex: 1, Size: 16, Cores: []uint32{l.NOCXY(worker.X, worker.Y)},
				Data: []byte{1, 0, 0, 0, 0x2A, 15: 0}})
			if i%2 == 1 {
				param.At = append(param.At, w.Slot(0)+4)
			}
			b.WritePackedLarge(cq.WritePackedLarge{Type: cq.LargeConfig, Alignment: 16, OffsetIndex: 1,
				Subs: []cq.LargeSub{{NOC: noc, Addr: 16, Length: 32, Dests: 8, Unlink: true}}, Data: make([]byte, 32)})
			if kernels := (cq.WritePackedLarge{Type: cq.LargeBinaries, Alignment: uint16(l.DRAMAlign()), OffsetIndex: 2,
				Subs: []cq.LargeSub{{NOC: noc, Length: 2048 + 64, Dests: 8, Unlink: true}}}); inline {
				kernels.Data = bytes.Repeat([]byte{byte(i%2 + 1)}, 2048+64)
				b.WritePackedLarge(kernels)
			} else {
				b.WritePackedLargeHeader(kernels)
				page := i % 2
				base := uint32(0x10000*(1+i%2) + page/f.Target.Banks*2048)
				at := b.RelayPagedPacked(cq.RelayPagedPacked{Subs: []cq.PagedSub{{StartPage: uint16(page % f.Target.Banks), LogPageSize: 11,
					Base: base, Length: 2048 + 64}}})
				relocs = append(relocs, tracebuf.Reloc{At: at + cq.AtPagedSub(0), Program: i % 2, Page: page})
			}
			b.WritePacked(cq.WritePacked{Type: cq.PackedLaunch, Size: uint16(l1.LaunchSize), Addr: l1.Launch + uint32(i)%8*l1.LaunchSize,
				Rects: []cq.Rect{{NOC: noc, Dests: 8}}, Data: launchMessage(arch)})
			b.NotifySubordinate(cq.NotifySubordinate{Wait: true, Mask: 1})
			b.SendGoSignal(cq.Subordinate, cq.SendGoSignal{Go: cq.NewGoWord(0, f.Target.Dispatch.X, f.Target.Dispatch.Y, cq.SignalGo),
				WaitCount: uint32(i * 8), WaitStream: 48})
			out, err := b.Finish()
			must(t, err)
			return out, 0
		})
	}
	im, err := rec.Finish(f.Target.Banks)
	must(t, err)
	for i := range im.Steps {
		im.Steps[i].Program = i % 2
	}
	for i, name := range []string{"even", "odd"} {
		im.Programs = append(im.Programs, tracebuf.Program{Name: name, Addr: uint64(0x10000 * (1 + i)), Pages: binaryPages,
			Binary: bytes.Repeat([]byte{byte(i + 1)}, binaryPages*2048)})
	}
	im.Relocs, im.Params, im.L1End, im.After = relocs, []tracebuf.Param{param}, uint64(l1.Unreserved)+4096, []byte("queue")
	im.Buffers = []tracebuf.Buffer{
		{Name: "input", Addr: 0x40000, Size: 8192, PageSize: 1024, Stride: 1024},
		{Name: "result", Kind: tracebuf.KindL1, Addr: uint64(l1.Unreserved), Size: 4096, PageSize: 512, Stride: 512, Output: true},
	}
	f.Image = *im
	f.Data = []tracebuf.Data{{Buffer: 0, Offset: 1024, Bytes: []byte("weights")}, {Buffer: 1, Bytes: []byte("r")}}
	f.Results = []tracebuf.Data{{Buffer: 1, Offset: 512, Bytes: []byte("result")}}
	return f
}

func encode(t testing.TB, f *tracebuf.File) []byte {
	t.Helper()
	var b bytes.Buffer
	must(t, tracebuf.Encode(&b, f))
	return b.Bytes()
}

func encodeRefuses(t *testing.T, f *tracebuf.File, reason string) {
	t.Helper()
	var b bytes.Buffer
	err := tracebuf.Encode(&b, f)
	var e *tracebuf.FileError
	if !errors.Is(err, tracebuf.ErrInvalid) || !errors.As(err, &e) || !strings.Contains(err.Error(), reason) {
		t.Errorf("error is %v, want an ErrInvalid with %q", err, reason)
	}
	if b.Len() > 0 {
		t.Error("something was written all the same")
	}
}

func TestFileRoundTrip(t *testing.T) {
	tensors := testFile(t, chip.Blackhole)
	setup, _ := setupFiles(t)
	tensors.Image.Buffers[1].Tensor = &tracebuf.Tensor{Shape: []int{2, 3}, DType: "INT32", Tiles: true, Weight: "a", Transposed: true}
	for _, f := range []*tracebuf.File{testFile(t, chip.Wormhole), testFile(t, chip.Blackhole), spanFile(t, chip.Wormhole),
		spanFile(t, chip.Blackhole), tensors, setup} {
		t.Run(fmt.Sprintf("%v, %d parts", f.Target.Arch, len(f.Parts())), func(t *testing.T) {
			b := encode(t, f)
			if !tracebuf.IsFile(b) {
				t.Error("the file isn't known as one")
			}
			for _, r := range []io.Reader{bytes.NewReader(b), iotest.OneByteReader(bytes.NewReader(b)),
				iotest.DataErrReader(bytes.NewReader(b))} {
				got := expect.Value(tracebuf.Decode(r))(t)
				if diff := cmp.Diff(f, got, cmpopts.EquateEmpty()); diff != "" {
					t.Fatalf("decoded differs (-encoded +decoded):\n%s", diff)
				}
				if !bytes.Equal(encode(t, got), b) {
					t.Error("the same trace gives other bytes")
				}
			}
		})
	}
}

func unzipped(t testing.TB, files embed.FS, name string) []byte {
	t.Helper()
	r, err := files.Open(name)
	must(t, err)
	z, err := gzip.NewReader(r)
	must(t, err)
	b := expect.Value(io.ReadAll(z))(t)
	return b
}

func TestFileVersion(t *testing.T) {
	b := encode(t, testFile(t, chip.Blackhole))
	for _, v := range []uint32{0, tracebuf.FileVersion - 1, tracebuf.FileVersion + 1} {
		binary.LittleEndian.PutUint32(b[8:], v)
		fails(t, second(tracebuf.Decode(bytes.NewReader(seal(b)))), tracebuf.ErrVersion, "version %d", v)
	}
}

// Files that people keep can be read by later programs: a change of the sums needs a new
// FileVersion, unless the trace itself is another one.
func TestFileBytesStay(t *testing.T) {
	for _, c := range []struct {
		arch chip.Arch
		make func(testing.TB, chip.Arch) *tracebuf.File
		want string
	}{
		{chip.Wormhole, testFile, "bd90908f383430d86b0f571041ef0d8e30d17deb3fc9af1e8049a2c5982e97f0"},
		{chip.Blackhole, testFile, "913583b443e3df3180bfac89bd656ff28f421e794c576e6bf8461d8ae3f51fe4"},
		{chip.Wormhole, spanFile, "a39c2ffd46d64418be01925ce3a45cc3fb313c97b8fb0f3ff4f3c72c48c50f0f"},
		{chip.Blackhole, spanFile, "e2308e81ee5152e9d2227d7f862f005c203cf7d2622c8c1b79f695541defbc66"},
	} {
		f := c.make(t, c.arch)
		expect.Equal(t, fmt.Sprintf("%x", sha256.Sum256(encode(t, f))), c.want, "%v, %d parts: the file", c.arch, len(f.Parts()))
	}
}

func TestFileDamage(t *testing.T) {
	b := encode(t, testFile(t, chip.Blackhole))
	for _, n := range []int{0, 1, 7, 8, 12, 23, 24, 40, len(b) / 2, len(b) - 33, len(b) - 1} {
		_, err := tracebuf.Decode(bytes.NewReader(b[:n]))
		if want := tracebuf.ErrDamaged; n < 8 && !errors.Is(err, tracebuf.ErrNotTrace) || n >= 8 && !errors.Is(err, want) {
			t.Errorf("cut to %d bytes: %v", n, err)
		}
	}
	fails(t, second(tracebuf.Decode(bytes.NewReader(append(bytes.Clone(b), 0)))), tracebuf.ErrDamaged, "a byte more")
	rapid.Check(t, func(t *rapid.T) {
		c := bytes.Clone(b)
		c[rapid.IntRange(0, len(c)-1).Draw(t, "at")] ^= rapid.Byte().Filter(func(v byte) bool { return v != 0 }).Draw(t, "bits")
		_, err := tracebuf.Decode(bytes.NewReader(c))
		if !errors.Is(err, tracebuf.ErrDamaged) && !errors.Is(err, tracebuf.ErrNotTrace) && !errors.Is(err, tracebuf.ErrVersion) {
			t.Fatalf("%v", err)
		}
	})
	gone := errors.New("the disk is gone")
	fails(t, second(tracebuf.Decode(io.MultiReader(bytes.NewReader(b[:100]), iotest.ErrReader(gone)))), gone, "a reader's error is lost")
	fails(t, second(tracebuf.Decode(iotest.ErrReader(gone))), gone, "a reader's first error is lost")
}

func seal(b []byte) []byte {
	b = bytes.Clone(b)
	binary.LittleEndian.PutUint64(b[16:], uint64(len(b)))
	sum := sha256.Sum256(b[:len(b)-32])
	copy(b[len(b)-32:], sum[:])
	return b
}

func TestFileNoAllocationBomb(t *testing.T) {
	b := encode(t, testFile(t, chip.Blackhole))
	huge := bytes.Clone(b)
	binary.LittleEndian.PutUint64(huge[16:], 1<<38)
	if _, err := tracebuf.Decode(bytes.NewReader(huge)); !errors.Is(err, tracebuf.ErrDamaged) {
		t.Fatal(err)
	}
	for _, tag := range []string{"PROG", "STEP", "RELO", "BUFF", "PARM"} {
		c := bytes.Clone(b)
		binary.LittleEndian.PutUint32(c[bytes.Index(c, []byte(tag))+16:], 1<<32-1)
		c = seal(c)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := tracebuf.Decode(bytes.NewReader(c))
		runtime.ReadMemStats(&after)
		if n := after.TotalAlloc - before.TotalAlloc; !errors.Is(err, tracebuf.ErrInvalid) || n > 8<<20 {
			t.Errorf("%s with 2^32-1 entries: %d B allocated, %v", tag, n, err)
		}
	}
}

func TestTargetMatch(t *testing.T) {
	base := testFile(t, chip.Blackhole).Target
	must(t, base.Match(&base))
	for what, change := range map[string]func(*tracebuf.Target){
		"architecture":         func(x *tracebuf.Target) { x.Arch = chip.Wormhole },
		"protocol revision":    func(x *tracebuf.Target) { x.Revision = "0.60.1" },
		"harvesting":           func(x *tracebuf.Target) { x.Harvesting.Tensix = 1 },
		"grid of workers":      func(x *tracebuf.Target) { x.Workers.End.X++ },
		"number of DRAM banks": func(x *tracebuf.Target) { x.Banks-- },
		"firmware":             func(x *tracebuf.Target) { x.Firmware[31]++ },
	} {
		here := base
		change(&here)
		err := base.Match(&here)
		var e *tracebuf.TargetError
		if !errors.As(err, &e) || e.What != what || !errors.Is(err, tracebuf.ErrTarget) || e.Trace == "" ||
			!strings.Contains(err.Error(), "record it again") {
			t.Errorf("%s: %v", what, err)
		}
	}
}

func field(t testing.TB, im *tracebuf.Image, command string, nth, at int) int {
	t.Helper()
	for e := range cq.All(im.Layout, im.Bytes) {
		name, off := e.Command.ID().String(), e.Offset
		if c, _, ok := e.Dispatch(); ok {
			name, off = c.ID().String(), e.Offset+cq.AtRelayed
		}
		if name == command {
			if nth--; nth < 0 {
				return off + at
			}
		}
	}
	t.Fatalf("there is no such %s", command)
	return 0
}

type refusal struct {
	name   string
	change func(*file)
	want   string
}

// refuse checks that files that were changed are refused: by a table of testdata, and otherwise.
func refuse(t *testing.T, valid func(testing.TB, chip.Arch) *file, table string, cases []refusal) {
	for line := range strings.Lines(string(expect.Value(os.ReadFile(filepath.Join("testdata", table)))(t))) {
		if c := strings.Split(line, " | "); len(c) == 3 {
			cases = append(cases, refusal{c[0], func(f *file) { set(t, f, strings.TrimSpace(c[1])) }, strings.TrimSpace(c[2])})
		}
	}
	for _, c := range cases {
		t.Run(strings.TrimSpace(c.name), func(t *testing.T) {
			f := valid(t, chip.Blackhole)
			c.change(f)
			encodeRefuses(t, f, c.want)
		})
	}
}

// set changes fields of a file, as rows of those tables say.
func set(t *testing.T, f *file, changes string) {
	for change := range strings.SplitSeq(changes, "; ") {
		c := strings.SplitN(change, " ", 3)
		v := fieldOf(f, c[0])
		from, err := types.Eval(token.NewFileSet(), nil, token.NoPos, c[2])
		number := err == nil && from.Value.Kind() == constant.Int
		switch {
		case c[1] == "append":
			v.Set(reflect.Append(v, fieldOf(f, c[2])))
		case number:
			n := expect.Value(strconv.ParseInt(from.Value.ExactString(), 10, 64))(t)
			if c[1] == "+=" {
				n += v.Convert(reflect.TypeFor[int64]()).Int()
			}
			v.Set(reflect.ValueOf(n).Convert(v.Type()))
		case unicode.IsUpper(rune(c[2][0])):
			v.Set(fieldOf(f, c[2]))
		default:
			v.SetZero()
			expect.Must(t, json.Unmarshal([]byte(c[2]), v.Addr().Interface()))
		}
	}
}

// fieldOf finds a field. On the way it copies what pointers point to, which other files may share.
func fieldOf(f *file, path string) reflect.Value {
	v := reflect.ValueOf(f).Elem()
	for _, name := range regexp.MustCompile(`-?\w+`).FindAllString(path, -1) {
		if v.Kind() == reflect.Pointer {
			p := reflect.New(v.Type().Elem())
			p.Elem().Set(v.Elem())
			v.Set(p)
			v = p.Elem()
		}
		if i, err := strconv.Atoi(name); err == nil {
			if i < 0 {
				i += v.Len()
			}
			v = v.Index(i)
		} else {
			v = v.FieldByName(name)
		}
	}
	return v
}

func TestValidateRefuses(t *testing.T) {
	poke := func(command string, nth, at int, v uint32) func(*file) {
		return func(f *file) { cq.Put32(f.Image.Bytes, field(t, &f.Image, command, nth, at), v) }
	}
	l := &abi.Own(chip.Blackhole).Launch
	launch := func(at uint32, bits byte) func(*file) {
		return func(f *file) {
			f.Image.Bytes[bytes.Index(f.Image.Bytes, launchMessage(chip.Blackhole))+int(at)] ^= bits
		}
	}
	waits := func(programs int) func(*file) {
		return func(f *file) {
			for i := range testSteps {
				if i > programs {
					cq.Put32(f.Image.Bytes, field(t, &f.Image, "WAIT", i, cq.AtWaitCount), uint32(8*programs))
				}
			}
		}
	}
	noc := cq.Blackhole.NOCXY
	refuse(t, testFile, "refused_files.txt", []refusal{
		{"other layout", func(f *file) { f.Image.Layout = cq.Wormhole }, "commands"},
		{"long name", func(f *file) { f.Name = strings.Repeat("x", 5000) }, "name has 5000 bytes"},
		{"long name of a step", func(f *file) { f.Image.Steps[0].Name = strings.Repeat("x", 5000) }, "step 0"},
		{"queue state", func(f *file) { f.Image.After = make([]byte, 5000) }, "queue state"},
		{"tensor without end", func(f *file) {
			f.Image.Buffers[0].Tensor = &tracebuf.Tensor{DType: "x", Shape: []int{1 << 30, 1 << 30}}
		}, "buffer 0"},
		{"data out of order", func(f *file) { f.Data[0], f.Data[1] = f.Data[1], f.Data[0] }, "data 1"},
		{"no commands", func(f *file) { clear(f.Image.Bytes) }, "illegal command id"},
		{"no end", func(f *file) { f.Image.Bytes[f.Image.Size-64] = 5 }, "commands"},
		{"wait for another stream", poke("WAIT", 1, 0, 0x310807), "stream 49"},
		{"wait for the future", poke("WAIT", 1, cq.AtWaitCount, 9), "it would hang"},
		{"wait for memory", poke("WAIT", 1, 0, 0x300C07), "may be for a barrier"},
		{"write offset", poke("SET_WRITE_OFFSET", 0, cq.AtWriteOffset(1), 0x100000), "write offset is 0x100000"},
		{"arguments below kernel memory", poke("SET_WRITE_OFFSET", 0, cq.AtWriteOffset(1), 0x100), "kernel memory is"},
		{"arguments to the dispatcher", poke("WRITE_PACKED", 0, cq.AtPackedCore(0), noc(14, 3)), "no worker"},
		{"arguments beyond kernel memory", poke("WRITE_PACKED", 0, cq.AtPackedAddr, 0x100000), "kernel memory is"},
		{"launch elsewhere", poke("WRITE_PACKED", 1, cq.AtPackedAddr, 0x10), "want the launch message"},
		{"launch of a program elsewhere", launch(l.ConfigBase+1, 0x10), "has its program at"},
		{"launch with a kernel elsewhere", launch(l.Text+3, 0x12), "has BRISC's kernel at 0x1200"},
		{"launch with a kernel at an odd place", launch(l.Text, 1), "at multiples of 16"},
		{"launch with arguments at an odd place", launch(l.Args, 2), "BRISC's arguments at offset 0x2"},
		{"launch with a kernel that isn't there", launch(l.Text+1, 0x24), "BRISC's kernel at 0xa740 of (1,2), where the trace has written none"},
		{"launch with a circular buffer that isn't there", launch(l.Circular, 96), "circular buffer 0 at 0x8780 of (1,2), where its program has written nothing"},
		{"launch with another circular buffer", launch(l.CBMask, 5), "circular buffer 2 at 0x8780"},
		{"launches without room", func(f *file) {
			waits(0)(f)
			base, at := abi.Own(chip.Blackhole).L1.KernelConfig, 0
			for i := range 8 { // programs that don't overlap
				to := base + uint32(i)*0x1800
				set := field(t, &f.Image, "SET_WRITE_OFFSET", i, 0)
				cq.Put32(f.Image.Bytes, set+cq.AtWriteOffset(1), to)
				cq.Put32(f.Image.Bytes, set+cq.AtWriteOffset(2), to+1024)
				at += bytes.Index(f.Image.Bytes[at:], launchMessage(chip.Blackhole))
				cq.Put32(f.Image.Bytes, at+int(l.ConfigBase), to)
				at += len(launchMessage(chip.Blackhole))
			}
		}, "a launch message while 7 programs before it may be running, at most 6"},
		{"arguments over those of a program that runs", waits(0), "where program 0 of the trace may still have its kernels or arguments"},
		{"launch with semaphores at an odd place", launch(l.Semaphores, 1), "semaphores at offset 0x11"},
		{"launch for a sixth processor", launch(l.Enables, 0x20), "starts processors 0b100001"},
		{"launch for none", launch(l.Enables, 1), "starts processors 0b0"},
		{"launch by the host", launch(l.Mode, 1), "with mode 1"},
		{"launch for a third network", launch(l.NOC, 2), "NoC 2"},
		{"launch with shared networks", launch(l.NOCMode, 1), "NoC mode 1"},
		{"launch with another origin", launch(l.Origin+1, 2), "origin at core (0,2)"},
		{"launch with remote circular buffers", launch(l.FirstRemote, 32^3), "from 3 on"},
		{"write of kernels at an odd place", poke("WRITE_PACKED_LARGE", 1, cq.AtLargeSub(0)+4, 8), "want a multiple of 16"},
		{"write offset at an odd place", poke("SET_WRITE_OFFSET", 0, cq.AtWriteOffset(2), abi.Own(chip.Blackhole).L1.KernelConfig+8), "at multiples of 16"},
		{"launch of another step", poke("WRITE_PACKED", 3, cq.AtPackedAddr, abi.Own(chip.Blackhole).L1.Launch), "want the launch message"},
		{"kernels to the dispatcher", poke("WRITE_PACKED_LARGE", 1, cq.AtLargeSub(0), cq.Blackhole.NOCRect(1, 2, 2, 5)), "is no worker"},
		{"no rectangle", poke("WRITE_PACKED_LARGE", 1, cq.AtLargeSub(0), cq.Blackhole.NOCRect(2, 2, 1, 2)), "no rectangle"},
		{"rectangle of another size", poke("WRITE_PACKED_LARGE", 1, cq.AtLargeSub(0), cq.Blackhole.NOCRect(1, 2, 1, 2)), "which has 1 workers"},
		{"kernels beyond kernel memory", poke("WRITE_PACKED_LARGE", 1, cq.AtLargeSub(0)+cq.AtLargeSubAddr, 0x100000), "kernel memory is"},
		{"go for another core", poke("SEND_GO_SIGNAL", 2, 0, 0x00090E|0x03000000), "go word"},
		{"go too early", poke("SEND_GO_SIGNAL", 2, cq.AtGoWaitCount, 0), "after 0 completions"},
		{"go after another stream", poke("SEND_GO_SIGNAL", 2, cq.AtGoWaitStream, 49), "stream 49"},
		{"notify for another", poke("NOTIFY_SUBORDINATE_GO_SIGNAL", 0, 0, 0x0002010F), "mask 0x2"},
		{"terminate", func(f *file) {
			clear(f.Image.Bytes[field(t, &f.Image, "WAIT", 0, 0):][:16])
			f.Image.Bytes[field(t, &f.Image, "SET_WRITE_OFFSET", 0, 0)+64] = byte(cq.DispatchTerminate)
		}, "can't contain TERMINATE"},
		{"DRAM elsewhere", poke("RELAY_PAGED_PACKED", 4, cq.AtPagedSub(0)+cq.AtPagedSubBase, 0x12340), "it reads page"},
		{"relocation missing", func(f *file) { f.Image.Relocs = f.Image.Relocs[1:] }, "no relocation names"},
	})
}

func TestKernelsAmongCommands(t *testing.T) {
	for _, arch := range arches {
		f := testFileOf(t, arch, true)
		expect.Value(tracebuf.Decode(bytes.NewReader(encode(t, f))))(t)
		at := field(t, &f.Image, "WRITE_PACKED_LARGE", 1, cq.SlotStride(cq.AtLargeSub(1))) // of the first program
		for _, of := range []int{at, at + 2048 + 63} {
			f.Image.Bytes[of]++
			encodeRefuses(t, f, "are no kernels of program 0")
			f.Image.Bytes[of]--
		}
		f.Image.Steps[0].Program = 1
		encodeRefuses(t, f, "are no kernels of program 1")
		f.Image.Steps[0].Program = 0
		f.Image.Params[0].At, f.Image.Params[0].Value = []int{at}, 0x01010101
		encodeRefuses(t, f, "no runtime argument")
	}
}

func TestDecodeValidates(t *testing.T) {
	f := testFile(t, chip.Blackhole)
	b := encode(t, f)
	at := bytes.Index(b, f.Image.Bytes[:f.Image.Size]) + field(t, &f.Image, "SEND_GO_SIGNAL", 2, cq.AtGoWaitCount)
	b[at]++
	expect.Says(t, second(tracebuf.Decode(bytes.NewReader(seal(b)))), tracebuf.ErrInvalid, "SEND_GO_SIGNAL")
}

// setupFiles are a file with a setup and what is wrong with others.
func setupFiles(t testing.TB) (good *file, wrong map[string]*file) {
	ethernet, worker := chip.XY{X: 1, Y: 1}, chip.XY{X: 2, Y: 3} // logical core (1,1)
	of := func(ops ...tracebuf.SetupOp) *file {
		f := testFile(t, chip.Blackhole)
		f.Setup = &tracebuf.Setup{Ops: ops}
		return f
	}
	op := func(turn int, at chip.XY, addr uint64, n int) tracebuf.SetupOp {
		return tracebuf.SetupOp{Turn: turn, Tiles: []chip.XY{at}, Addr: addr, Bytes: make([]byte, n)}
	}
	l1 := testFile(t, chip.Blackhole).Image.Buffers[1].Addr
	wait := op(5, ethernet, 0x30000, 4)
	wait.Wait = true
	long := op(0, ethernet, 0, 8)
	long.Wait = true
	linked := of()
	linked.Setup.Links = []chip.Link{{Channel: 2, PeerChip: 1, PeerChannel: 3}}
	return of(op(0, ethernet, 0xFFB14000, 8), op(5, worker, l1+508, 4), wait), map[string]*file{
		"DRAM":              of(op(0, chip.XY{}, 0, 4)),
		"kernels of worker": of(op(0, worker, uint64(abi.Own(chip.Blackhole).L1.KernelConfig), 4)),
		"beyond a buffer":   of(op(0, worker, l1+508, 8)),
		"no worker":         of(op(0, chip.XY{X: 16, Y: 11}, l1, 4)),
		"end of L1":         of(op(0, ethernet, 0x80000-4, 8)),
		"half a word":       of(op(0, ethernet, 0, 2)),
		"falling turns":     of(op(1, ethernet, 0, 4), op(0, ethernet, 0, 4)),
		"wait for two":      of(long),
		"no such device":    linked,
	}
}

func TestSetupRefuses(t *testing.T) {
	_, wrong := setupFiles(t)
	for name, f := range wrong {
		t.Run(name, func(t *testing.T) { encodeRefuses(t, f, "setup") })
	}
}

func FuzzDecodeFile(f *testing.F) {
	linked := devicesFile(f, chip.Blackhole)
	linked[2].Setup = &tracebuf.Setup{Links: []chip.Link{{Chip: 2, Channel: 2, PeerChip: 3, PeerChannel: 3}}}
	f.Add(true, encodeAll(f, linked))
	withSetup, _ := setupFiles(f)
	f.Add(true, encode(f, withSetup))
	f.Add(true, argsFile(f))
	for _, arch := range arches {
		b := encode(f, testFile(f, arch))
		f.Add(true, b)
		f.Add(false, b)
		f.Add(true, encode(f, spanFile(f, arch)))
		f.Add(true, encodeAll(f, devicesFile(f, arch)))
		c := controlFile(f, arch)
		f.Add(true, c)
		for _, tag := range []string{"STEP", "COND", "CALL"} {
			c = bytes.Clone(c)
			c[bytes.Index(c, []byte(tag))+17] ^= 0x41
			f.Add(true, c)
		}
		f.Add(true, b[:len(b)/2])
		for _, tag := range []string{"TRGT", "CMDS", "PROG", "STEP", "RELO", "BUFF", "PARM", "QUEU", "DATA", "RSLT"} {
			c := bytes.Clone(b)
			c[bytes.Index(c, []byte(tag))+17] ^= 0x41
			f.Add(true, c)
		}
	}
	f.Fuzz(func(t *testing.T, sealed bool, b []byte) {
		if sealed && len(b) >= 64 {
			b = seal(b)
		}
		got, err := tracebuf.DecodeAll(bytes.NewReader(b))
		if err != nil {
			return
		}
		again := encodeAll(t, got)
		if old := binary.LittleEndian.Uint32(b[8:]) == 1; !old && !bytes.Equal(again, b) {
			t.Fatal("an accepted file is written otherwise")
		}
		back, err := tracebuf.DecodeAll(bytes.NewReader(again))
		if err != nil || !cmp.Equal(got, back, cmpopts.EquateEmpty()) {
			t.Fatalf("an accepted file is another one when it is written and read again: %v", err)
		}
	})
}

func TestFileSections(t *testing.T) {
	f := testFile(t, chip.Blackhole)
	for _, c := range []struct{ data, results int }{{0, 0}, {2, 0}, {0, 1}, {1, 1}} {
		g := *f
		g.Data, g.Results = f.Data[:c.data], f.Results[:c.results]
		got, err := tracebuf.Decode(bytes.NewReader(encode(t, &g)))
		if err != nil || len(got.Data) != c.data || len(got.Results) != c.results {
			t.Errorf("%d data and %d results: %v", c.data, c.results, err)
		}
	}
	b := encode(t, f)
	for _, change := range [][2]string{{"DATA", "RSLT"}, {"RSLT", "DATX"}, {"QUEU", "DATA"}, {"TRGT", "CMDS"}, {"RSLT", "QUEU"}} {
		c := bytes.Clone(b)
		copy(c[bytes.Index(c, []byte(change[0])):], change[1])
		fails(t, second(tracebuf.Decode(bytes.NewReader(seal(c)))), tracebuf.ErrInvalid, "%s where %s was", change[1], change[0])
	}
}

func launchMessage(arch chip.Arch) []byte {
	layout := abi.Own(arch)
	l, le := &layout.Launch, binary.LittleEndian
	m := make([]byte, layout.L1.LaunchSize)
	le.PutUint32(m[l.ConfigBase:], layout.L1.KernelConfig)
	le.PutUint16(m[l.Semaphores:], 16)
	le.PutUint16(m[l.Circular:], 32)
	le.PutUint32(m[l.Text:], 1024)
	m[l.CBMask] = 1
	m[l.FirstRemote] = uint8(l.CircularBuffers)
	le.PutUint32(m[l.Enables:], 1)
	m[l.Preload] = 0x80
	return m
}

func TestWorkersFirmware(t *testing.T) {
	own := testFile(t, chip.Blackhole)
	f := testFile(t, chip.Blackhole)
	f.Target.Layout = "2026-01-09"
	var b bytes.Buffer
	must(t, tracebuf.EncodeAll(&b, []*tracebuf.File{f}))
	got := expect.Value(tracebuf.Decode(&b))(t)
	noDiff(t, got.Target, f.Target, "target")
	must(t, got.Target.Match(&f.Target))
	var differs *tracebuf.TargetError
	for _, pair := range [][2]*tracebuf.Target{{&got.Target, &own.Target}, {&own.Target, &got.Target}} {
		if err := pair[0].Match(pair[1]); !errors.As(err, &differs) || differs.What != "base firmware of the workers" ||
			!errors.Is(err, tracebuf.ErrTarget) {
			t.Errorf("%q on %q: %v", pair[0].Layout, pair[1].Layout, err)
		}
	}
	for _, name := range []string{"1999-01-01", "reprise"} {
		f.Target.Layout = name
		fails(t, f.Validate(), tracebuf.ErrInvalid, "firmware of revision %q", name)
	}
	f.Target.Layout = "0.67.0"
	fails(t, f.Validate(), tracebuf.ErrInvalid, "launch messages of another revision")
}
