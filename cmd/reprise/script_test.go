package main

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/allocator"
	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/cmd/reprise/internal/cli"
	"github.com/reprise-tt/reprise/dispatch/abi"
	"github.com/reprise-tt/reprise/examples/digits"
	"github.com/reprise-tt/reprise/internal/devtest"
	"github.com/reprise-tt/reprise/internal/effort"
	"github.com/reprise-tt/reprise/internal/elftest"
	"github.com/reprise-tt/reprise/internal/usage"
	"github.com/reprise-tt/reprise/kernels"
	"github.com/reprise-tt/reprise/sim"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"reprise": main})
}

// libraries are the variables that name the vendor's simulator.
var libraries = []string{"REPRISE_TTSIM_WH", "REPRISE_TTSIM_BH"}

func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir: filepath.Join("testdata", "script"),
		Setup: func(e *testscript.Env) error {
			for _, v := range libraries {
				e.Setenv(v, os.Getenv(v))
			}
			for name, dir := range map[string]string{"GOLDEN": "dispatch/cq/testdata/golden", "CAPTURES": "ops/graph/testdata/tt-metal"} {
				path, err := filepath.Abs(filepath.Join("..", "..", filepath.FromSlash(dir)))
				if err != nil {
					return err
				}
				e.Setenv(name, path)
			}
			return nil
		},
		Condition: func(cond string) (bool, error) {
			switch cond {
			case "long":
				return effort.Of(false, true, true), nil
			case "root":
				return os.Geteuid() == 0, nil
			case "loader": // of the vendor's simulator
				return runtime.GOOS == "linux" &&
					(runtime.GOARCH == "amd64" || runtime.GOARCH == "arm64" || runtime.GOARCH == "riscv64"), nil
			}
			if v, ok := strings.CutPrefix(cond, "set:"); ok {
				return os.Getenv(v) != "", nil
			}
			return false, fmt.Errorf("unknown condition %q", cond)
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"exits":   command(2, 99, "CODE PROGRAM [ARGUMENT...]", cmdExits),
			"json":    command(3, 3, "KEY =|>|>= VALUE", cmdJSON),
			"banks":   command(2, 2, "N SIZE", cmdBanks),
			"oneline": command(0, 0, "", cmdOneLine),
			"digits":  command(2, 2, "N FILE", cmdDigits),
			"field":   command(3, 4, "FILE LINE COLUMN [VALUE]", cmdField),
			"gzip":    command(2, 2, "FILE FILE.gz", cmdGzip),
			"cut":     command(2, 2, "FILE BYTES", cmdCut),
			"tamper":  command(4, 4, "FILE SECTION OFFSET BITS", cmdTamper),
			"record":  command(3, 3, "KIND ARCH FILE", cmdRecord),
			"uselog":  command(3, 3, "DIR PCI-ADDRESS BYTES", cmdUseLog),
			"waitfor": command(1, 1, "SOCKET", cmdWaitFor),
			"metal":   command(1, 1, "DIR", cmdMetal),
			"nodes":   command(2, 2, "REPORT FILE", cmdNodes),
		},
	})
}

func command(least, most int, usage string, f func(*testscript.TestScript, []string)) func(*testscript.TestScript, bool, []string) {
	return func(ts *testscript.TestScript, neg bool, args []string) {
		if neg || len(args) < least || len(args) > most {
			ts.Fatalf("arguments: %s", usage)
		}
		f(ts, args)
	}
}

func cmdExits(ts *testscript.TestScript, args []string) {
	code := 0
	var exit *exec.ExitError
	if err := ts.Exec(args[1], args[2:]...); errors.As(err, &exit) {
		code = exit.ExitCode()
	} else {
		ts.Check(err)
	}
	if strconv.Itoa(code) != args[0] {
		ts.Fatalf("exit code %d, want %s", code, args[0])
	}
}

func cmdNodes(ts *testscript.TestScript, args []string) {
	var report struct{ Graph json.RawMessage }
	ts.Check(json.Unmarshal([]byte(ts.ReadFile(args[0])), &report))
	ts.Check(os.WriteFile(ts.MkAbs(args[1]), report.Graph, 0o666))
}

// cmdMetal writes a kernel cache as tt-metal lays it out, of two revisions.
func cmdMetal(ts *testscript.TestScript, args []string) {
	root := ts.MkAbs(args[0])
	for _, b := range []struct {
		l               *abi.Layout
		build, firmware string
	}{
		{abi.Of("0.65.1", chip.Blackhole), "a4347c0dda/1111", "firmware/2222"},
		{abi.Of("0.72.0", chip.Wormhole), "3333", "firmware"},
	} {
		at := filepath.Join(root, b.build)
		for p := range chip.Processor(chip.NumProcessors) {
			m := elftest.NewMetal(p, b.l.L1.Firmware[p], 8, 64)
			m.IRAM = p == chip.NCRISC && b.l.Arch == chip.Wormhole
			m.KernelData = []byte("12345678")
			ts.Check(m.WriteFile(filepath.Join(at, b.firmware), m.Base()))
			name := "compute/5"
			if p == chip.BRISC || p == chip.NCRISC {
				name = "reader/4"
			}
			ts.Check(m.WriteFile(filepath.Join(at, "kernels", name), m.Kernel()))
		}
	}
}

// cmdWaitFor waits until a process listens at a socket. It doesn't connect, which would make it a
// client.
func cmdWaitFor(ts *testscript.TestScript, args []string) {
	for end := time.Now().Add(time.Minute); ; time.Sleep(5 * time.Millisecond) {
		table, err := os.ReadFile("/proc/net/unix")
		ts.Check(err)
		for line := range strings.Lines(string(table)) { // the fourth field says that it listens, the last one is its path
			if f := strings.Fields(line); len(f) == 8 && f[3] == "00010000" && f[7] == args[0] {
				return
			}
		}
		if time.Now().After(end) {
			ts.Fatalf("nobody listens at %s", args[0])
		}
	}
}

func object(ts *testscript.TestScript) map[string]any {
	var o map[string]any
	d := json.NewDecoder(strings.NewReader(ts.ReadFile("stdout")))
	d.UseNumber()
	ts.Check(d.Decode(&o))
	if d.More() {
		ts.Fatalf("more than one JSON value on standard output")
	}
	return o
}

func cmdJSON(ts *testscript.TestScript, args []string) {
	key, op, want := args[0], args[1], args[2]
	v, ok := object(ts)[key]
	if !ok {
		ts.Fatalf("the JSON has no key %q", key)
	}
	got := fmt.Sprint(v)
	if op == "=" {
		if got != want {
			ts.Fatalf("%s is %s, want %s", key, got, want)
		}
		return
	}
	g, err := strconv.ParseFloat(got, 64)
	ts.Check(err)
	w, err := strconv.ParseFloat(want, 64)
	ts.Check(err)
	if op == ">" && !(g > w) || op == ">=" && !(g >= w) {
		ts.Fatalf("%s is %s, want it %s %s", key, got, op, want)
	}
}

// cmdBanks checks that the trace lies at the top of so many banks and nowhere twice.
func cmdBanks(ts *testscript.TestScript, args []string) {
	var got struct {
		Bytes uint64 `json:"trace_bytes"`
		Banks []struct {
			Bank       int
			Start, End uint64
		} `json:"trace_banks"`
	}
	ts.Check(json.Unmarshal([]byte(ts.ReadFile("stdout")), &got))
	size, err := strconv.ParseUint(args[1], 0, 64)
	ts.Check(err)
	if n := strconv.Itoa(len(got.Banks)); n != args[0] {
		ts.Fatalf("the trace is in %s banks, want %s", n, args[0])
	}
	sum, top := uint64(0), uint64(0)
	for i, b := range got.Banks {
		if b.Bank != i || b.Start != got.Banks[0].Start || b.End <= b.Start || b.End > size {
			ts.Fatalf("entry %d is %+v, the first starts at %#x, banks end at %#x", i, b, got.Banks[0].Start, size)
		}
		sum, top = sum+b.End-b.Start, max(top, b.End)
	}
	if sum != got.Bytes || top != size {
		ts.Fatalf("the trace of %d B ends at %#x and its banks hold %d B, want it at the top, %#x", got.Bytes, top, sum, size)
	}
}

func cmdOneLine(ts *testscript.TestScript, _ []string) {
	if out := ts.ReadFile("stdout"); out != "" {
		ts.Fatalf("standard output has %d bytes, want none", len(out))
	}
	out := ts.ReadFile("stderr")
	if !strings.HasSuffix(out, "\n") || strings.Count(out, "\n") != 1 || !strings.HasPrefix(out, "reprise: ") {
		ts.Fatalf("standard error is not one line that starts with the program's name")
	}
}

func cmdDigits(ts *testscript.TestScript, args []string) {
	n, err := strconv.Atoi(args[0])
	ts.Check(err)
	images, err := digits.Images()
	ts.Check(err)
	var b []byte
	for _, m := range images[:n] {
		b = m.AppendCSV(b)
	}
	ts.Check(os.WriteFile(ts.MkAbs(args[1]), b, 0o666))
}

func cmdField(ts *testscript.TestScript, args []string) {
	line, err1 := strconv.Atoi(args[1])
	column, err2 := strconv.Atoi(args[2])
	ts.Check(errors.Join(err1, err2))
	lines := strings.Split(ts.ReadFile(args[0]), "\n")
	fields := strings.Split(lines[line-1], ",")
	lines[line-1] = strings.Join(append(fields[:column-1:column-1], append(args[3:], fields[column:]...)...), ",")
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), []byte(strings.Join(lines, "\n")), 0o666))
}

func cmdGzip(ts *testscript.TestScript, args []string) {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, err := w.Write([]byte(ts.ReadFile(args[0])))
	ts.Check(errors.Join(err, w.Close()))
	ts.Check(os.WriteFile(ts.MkAbs(args[1]), b.Bytes(), 0o666))
}

func cmdCut(ts *testscript.TestScript, args []string) {
	n, err := strconv.ParseInt(args[1], 10, 64)
	ts.Check(err)
	ts.Check(os.Truncate(ts.MkAbs(args[0]), n))
}

func cmdUseLog(ts *testscript.TestScript, args []string) {
	n, err := strconv.ParseUint(args[2], 10, 64)
	ts.Check(err)
	l, err := usage.Create(ts.MkAbs(args[0]), usage.Device{Name: "/dev/tenstorrent/0", PCI: args[1], Arch: "wormhole", NUMANode: -1})
	ts.Check(err)
	ts.Defer(func() { _ = l.Close() })
	l.Set(allocator.DRAM, allocator.Usage{Capacity: 12 << 30, Allocated: n, Peak: n, Extents: 1})
}

// cmdTamper changes a byte of a trace file and corrects its checksum.
func cmdTamper(ts *testscript.TestScript, args []string) {
	b := []byte(ts.ReadFile(args[0]))
	off, err1 := strconv.Atoi(args[2])
	bits, err2 := strconv.ParseUint(args[3], 0, 8)
	ts.Check(errors.Join(err1, err2))
	at := bytes.Index(b, []byte(args[1]))
	if at < 0 {
		ts.Fatalf("the file has no section %s", args[1])
	}
	b[at+16+off] ^= byte(bits)
	sum := sha256.Sum256(b[:len(b)-sha256.Size])
	copy(b[len(b)-sha256.Size:], sum[:])
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), b, 0o666))
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func runs(ctx context.Context, args ...string) (code int, out, errs string) {
	var o, e bytes.Buffer
	code = run(ctx, args, cli.Streams{Out: &o, Err: &e})
	return code, o.String(), e.String()
}

// cmdRecord makes the file of a trace on an emulated chip. Kind is span (over two queues), sharded
// (buffers of other layouts), apart (of a queue with workers of its own) or hidden (one program
// goes wrong in a replay).
func cmdRecord(ts *testscript.TestScript, args []string) {
	card := sim.Blackhole()
	if args[1] == "wormhole" {
		card = sim.Wormhole()
	}
	file, err := recordTrace(context.Background(), card, args[0])
	ts.Check(err)
	ts.Check(os.WriteFile(ts.MkAbs(args[2]), file, 0o666))
}

type recorded struct {
	ctx context.Context
	dev *reprise.Device
	err error
}

func recordTrace(ctx context.Context, card *sim.Card, kind string) (file []byte, err error) {
	left, right := chip.Grid(3, 4), chip.Range{Start: chip.Core{X: 3}, End: chip.Core{X: 5, Y: 3}}
	options := []reprise.Option{reprise.WithQueues(2), reprise.WithQueueWorkers(0, left), reprise.WithQueueWorkers(1, right)}
	if kind == "sharded" || kind == "hidden" {
		options = nil
	}
	dev, err := reprise.Open(ctx, card, options...)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, dev.Close(ctx)) }()
	r := &recorded{ctx: ctx, dev: dev}
	var out bytes.Buffer
	record := map[string]func(*bytes.Buffer){"span": r.span, "sharded": r.sharded, "apart": r.apart, "hidden": r.hidden}[kind]
	if record == nil {
		return nil, fmt.Errorf("there is no trace %q", kind)
	}
	record(&out)
	return out.Bytes(), r.err
}

func (r *recorded) do(errs ...error) { r.err = errors.Join(append([]error{r.err}, errs...)...) }

func (r *recorded) buffer(c reprise.BufferConfig) *reprise.Buffer {
	b, err := r.dev.NewBuffer(c)
	r.do(err)
	return b
}

func (r *recorded) pages(name string, addr uint32) *reprise.Buffer {
	return r.buffer(reprise.BufferConfig{Kind: allocator.DRAM, Size: 128, PageSize: 64, Name: name, Addr: addr})
}

func (r *recorded) load(p *reprise.Program) *reprise.Executable {
	x, err := r.dev.Load(r.ctx, p)
	r.do(err)
	return x
}

func (r *recorded) image(name string) *kernels.Image {
	im, err := kernels.Prebuilt(r.dev.Arch(), name)
	r.do(err)
	return im
}

func (r *recorded) add(name string, at chip.Core, from, to *reprise.Buffer, n uint32, uses ...*reprise.Buffer) *reprise.Executable {
	p, err := devtest.Adder(r.dev, name, at, from, to, n)
	r.do(err)
	p.Buffers = uses
	return r.load(p)
}

func (r *recorded) fill(b *reprise.Buffer, v uint32) {
	var data []byte
	for range b.Size() / 4 {
		data = binary.LittleEndian.AppendUint32(data, v)
	}
	r.do(r.dev.Queue(0).Write(r.ctx, b, 0, data), r.dev.Queue(0).Wait(r.ctx))
}

func (r *recorded) span(out *bytes.Buffer) {
	x, y, z := r.pages("x", 0), r.pages("y", 0), r.pages("z", 0)
	there, back := r.add("there", chip.Core{X: 1}, x, y, 1, x, y), r.add("back", chip.Core{X: 3, Y: 1}, y, z, 2, y, z)
	e, second := r.dev.NewEvent("there"), r.dev.Queue(1)
	t, err := r.dev.Queue(0).Capture(r.ctx, "to and fro", func(_ context.Context, rec *reprise.Recorder) error {
		other := rec.On(second)
		return errors.Join(rec.Run(there), rec.Param("addend", reprise.Arg{Kernel: "add", Index: 3}), rec.Record(e), other.WaitEvent(e),
			other.Run(back))
	}, second)
	r.do(err)
	r.fill(x, 10)
	r.do(t.Replay(r.ctx), r.dev.Queue(1).Wait(r.ctx), t.Save(r.ctx, out, reprise.WithData(x), reprise.WithResults(y, z)))
}

func (r *recorded) apart(out *bytes.Buffer) {
	x, y := r.pages("x", 0), r.pages("y", 0)
	add, q := r.add("add", chip.Core{X: 4}, x, y, 3, x, y), r.dev.Queue(1)
	t, err := q.Capture(r.ctx, "apart", func(_ context.Context, rec *reprise.Recorder) error { return rec.Run(add) })
	r.do(err)
	r.fill(x, 10)
	r.do(t.Replay(r.ctx), t.Save(r.ctx, out, reprise.WithData(x), reprise.WithResults(y)))
}

func (r *recorded) sharded(out *bytes.Buffer) {
	b := r.buffer(reprise.BufferConfig{Kind: allocator.L1, PageSize: 16, Name: "shards", Sharding: &allocator.ShardSpec{
		Layout: allocator.HeightSharded, Tensor: []int{6, 1}, Shard: []int{2, 1}, Cores: []chip.Range{chip.Grid(1, 3)},
		Orientation: allocator.ColMajor,
	}})
	part, err := b.Sub(0, 32)
	r.do(err)
	x := r.load(&reprise.Program{Name: "store", Buffers: []*reprise.Buffer{b}, Kernels: []reprise.Kernel{{
		Name: "store", Image: r.image(kernels.Store), Processor: chip.BRISC, Cores: []chip.Range{chip.Grid(1, 3)}, Common: []uint32{0},
		Args: func(c chip.Core) []uint32 { return []uint32{b.Addr(), 8, uint32(c.Y), 7, 6, 5, 4, 3, 2, 1} },
	}}})
	t, err := r.dev.Queue(0).Capture(r.ctx, "shards", func(_ context.Context, rec *reprise.Recorder) error {
		return errors.Join(rec.Run(x), rec.ParamBuffer("to", part, reprise.Arg{Kernel: "store"}))
	})
	r.do(err)
	r.fill(b, 1)
	r.do(t.Replay(r.ctx), t.Save(r.ctx, out, reprise.WithResults(b)))
}

// hidden has the second program count in a buffer that none declares, and the third show it.
func (r *recorded) hidden(out *bytes.Buffer) {
	x, h := r.pages("seen", 0), r.pages("hidden", 1<<24)
	fine, count, show := r.add("fine", chip.Core{}, x, x, 1, x), r.add("count", chip.Core{X: 1}, h, h, 1),
		r.add("show", chip.Core{}, h, x, 0, x)
	t, err := r.dev.Queue(0).Capture(r.ctx, "hidden", func(_ context.Context, rec *reprise.Recorder) error {
		return errors.Join(rec.Run(fine), rec.Run(count), rec.Run(show), rec.Run(fine))
	})
	r.do(err)
	r.fill(x, 10)
	r.do(t.Save(r.ctx, out, reprise.WithData()))
}
