package ttnn_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/allocator"
	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/dispatch"
	"github.com/reprise-tt/reprise/internal/effort"
	"github.com/reprise-tt/reprise/internal/expect"
	"github.com/reprise-tt/reprise/kernels"
	"github.com/reprise-tt/reprise/ops"
	"github.com/reprise-tt/reprise/ops/graph"
	"github.com/reprise-tt/reprise/ops/graph/visualizer"
	"github.com/reprise-tt/reprise/sim"
)

// TestSnippets runs the snippets and traps of testdata/programs/seeds.py in Go and compares with
// what they give in TT-NN on the vendor's simulator. TestPrograms runs those.
func TestSnippets(t *testing.T) {
	golden := readGolden(t)
	for name, open := range map[string]func(...sim.Option) *sim.Card{"wormhole": sim.Wormhole, "blackhole": sim.Blackhole} {
		entries := golden.entries(golden.First, name)
		for program := range entries {
			if (strings.HasPrefix(program, "seed/") || strings.HasPrefix(program, "trap/")) && snippets[program].run == nil {
				t.Errorf("%s has no counterpart in Go", program)
			}
		}
		for snippet, s := range snippets {
			t.Run(name+"/"+snippet, func(t *testing.T) {
				if name != "wormhole" {
					effort.Long(t)
				}
				dev := expect.Value(reprise.Open(t.Context(), open(), s.options...))(t)
				b := &seed{T: t, ctx: t.Context(), dev: dev, Device: ops.New(dev)}
				defer func() {
					b.must(errors.Join(b.Release(context.WithoutCancel(b.ctx)), dev.Close(context.WithoutCancel(b.ctx))))
				}()
				result := s.run(b)
				h := sha256.New()
				update(h, result)
				expect.Equal(t, hex.EncodeToString(h.Sum(nil)), entries[snippet].digest(), "%v: digest of the result", result)
			})
		}
	}
}

// update hashes a result as corpus.py does.
func update(h hash.Hash, v any) {
	switch v := v.(type) {
	case *ops.Host:
		fmt.Fprintf(h, "array bfloat16 %s", strings.ReplaceAll(fmt.Sprint(v.Shape), " ", ", "))
		h.Write(v.Data)
	case []any:
		h.Write([]byte("["))
		for _, e := range v {
			update(h, e)
		}
		h.Write([]byte("]"))
	case bool:
		fmt.Fprintf(h, "%s,", strings.ToUpper(fmt.Sprint(v)[:1])+fmt.Sprint(v)[1:])
	case string:
		fmt.Fprintf(h, "'%s',", v)
	default:
		fmt.Fprintf(h, "%v,", v)
	}
}

func list[T any](vs []T) []any {
	out := []any{}
	for _, v := range vs {
		out = append(out, v)
	}
	return out
}

var (
	region    = reprise.WithTraceRegion(1 << 22)
	oneQueue  = []reprise.Option{region}
	twoQueues = []reprise.Option{region, reprise.WithQueues(2)}
)

var snippets = map[string]struct {
	options []reprise.Option
	run     func(*seed) any
}{
	"seed/000:22":      {oneQueue, (*seed).basic},
	"seed/001:34":      {oneQueue, (*seed).inputInDRAM},
	"seed/001:51":      {oneQueue, (*seed).inputInL1},
	"seed/001:104":     {twoQueues, func(b *seed) any { return b.writesOnQueue1(false) }},
	"seed/001:211":     {twoQueues, func(b *seed) any { return b.writesOnQueue1(true) }},
	"seed/001:131":     {twoQueues, func(b *seed) any { return b.transfersOnQueue1(false) }},
	"seed/001:271":     {twoQueues, func(b *seed) any { return b.transfersOnQueue1(true) }},
	"seed/001:9":       {nil, (*seed).withoutRegion},
	"seed/001:8":       {[]reprise.Option{reprise.WithTraceRegion(2048)}, (*seed).regionTooSmall},
	"seed/000:16":      {oneQueue, func(b *seed) any { return b.refused(b.writeInCapture) }},
	"seed/000:16_read": {oneQueue, func(b *seed) any { return b.refused(b.readInCapture) }},
	"seed/001:31":      {oneQueue, func(b *seed) any { return b.refused(func(context.Context, *ops.Tensor) error { return nil }) }},
	"seed/003:22":      {oneQueue, func(b *seed) any { return b.operations(graph.FunctionStart, graph.Normal) }},
	"seed/003:75":      {oneQueue, func(b *seed) any { return b.operations(graph.FunctionStart, graph.NoDispatch) }},
	"seed/003:91":      {oneQueue, func(b *seed) any { return b.operations(graph.FunctionEnd, graph.Normal) }},
	"seed/003:103":     {oneQueue, func(b *seed) any { return graph.PeakAllocated(b.captured(graph.Normal).Graph) }},
	"seed/003:145":     {oneQueue, (*seed).report},
	"seed/003:51":      {oneQueue, (*seed).imported},
	"seed/003:264":     {[]reprise.Option{reprise.WithHangTimeout(time.Second)}, (*seed).hangs},
	"seed/003:189":     {oneQueue, func(b *seed) any { return b.switches(graph.DetailStackTraces) }},
	"seed/003:224":     {oneQueue, func(b *seed) any { return b.switches(graph.DetailBufferPages) }},
	"seed/003:244":     {oneQueue, func(b *seed) any { return len(graph.Arguments(b.captured(graph.Normal).Graph)) > 0 }},
	"seed/003:283":     {oneQueue, (*seed).levelized},
	"seed/004:290":     {oneQueue, (*seed).traceMemory},

	"trap/moved_between_captures":   {oneQueue, (*seed).movedBetweenCaptures},
	"trap/allocation_after_capture": {oneQueue, (*seed).allocationAfterCapture},
	"trap/release_order":            {oneQueue, (*seed).releaseOrder},
	"trap/input_allocated_again":    {oneQueue, (*seed).inputAllocatedAgain},
	"trap/queues_without_event":     {twoQueues, (*seed).queuesWithoutEvent},
}

// seed is a device with a snippet's operations.
type seed struct {
	*testing.T
	*ops.Device
	ctx context.Context
	dev *reprise.Device
}

func (b *seed) must(err error) {
	b.Helper()
	expect.Must(b, err)
}

func must[T any](b *seed) func(T, error) T {
	return func(v T, err error) T { b.Helper(); b.must(err); return v }
}

func (b *seed) ok(t *ops.Tensor, err error) *ops.Tensor {
	b.Helper()
	return must[*ops.Tensor](b)(t, err)
}

// counted is counted of seeds.py.
func (b *seed) counted(start, h, w int) *ops.Host {
	values := make([]float32, h*w)
	for i := range values {
		values[i] = float32((3*i+start)%5 - 2)
	}
	return must[*ops.Host](b)(ops.NewHost([]int{1, 1, h, w}, ops.BFloat16, values))
}

var dram, l1 = ops.Interleaved(allocator.DRAM), ops.Interleaved(allocator.L1)

func (b *seed) tensor(start, h, w int) *ops.Tensor {
	return b.ok(b.ToDevice(b.ctx, b.counted(start, h, w), ops.Tile, dram))
}

func (b *seed) capture(run func(ctx context.Context) error) *reprise.Trace {
	b.Helper()
	return must[*reprise.Trace](b)(b.Capture(b.ctx, "model", run))
}

func (b *seed) basic() any {
	input, weights := b.tensor(9, 64, 64), b.tensor(1, 64, 64)
	product, result := b.tensor(0, 64, 64), b.tensor(0, 64, 64)
	model := func(ctx context.Context) error {
		_, err := b.Matmul(ctx, input, weights, ops.Into(product))
		if err == nil {
			_, err = b.Relu(ctx, product, ops.Into(result))
		}
		return err
	}
	b.must(model(b.ctx))
	trace := b.capture(model)
	var results []any
	for i := range 3 {
		b.must(b.CopyHostToDevice(b.ctx, b.counted(i, 64, 64), input))
		b.must(trace.Replay(b.ctx))
		results = append(results, must[*ops.Host](b)(b.ToHost(b.ctx, result)))
	}
	return results
}

// seedModel is Model of seeds.py: the results of its operations have places, as in a trace.
type seedModel struct {
	*seed
	l1, dram                  ops.MemoryConfig
	hosts                     []*ops.Host
	input, x                  *ops.Tensor // in DRAM, and in shards in L1
	weights, moved, mid, last *ops.Tensor
}

func (b *seed) model(last ops.MemoryConfig) *seedModel {
	const side = 128
	m := &seedModel{seed: b, l1: ops.Sharded(allocator.HeightSharded, side/4, side, chip.Grid(2, 2)),
		dram: ops.Sharded(allocator.HeightSharded, side/4, side, chip.Grid(4, 1))}
	m.dram.Kind = allocator.DRAM
	for i := range 3 {
		m.hosts = append(m.hosts, b.counted(i, side, side))
	}
	twice := make([]float32, side*side)
	for i := range side {
		twice[i*(side+1)] = 2
	}
	eye := must[*ops.Host](b)(ops.NewHost([]int{1, 1, side, side}, ops.BFloat16, twice))
	m.weights = b.ok(b.ToDevice(b.ctx, eye, ops.Tile, dram))
	if last.Shard == nil && last.Kind == allocator.L1 {
		last = m.l1
	}
	m.input, m.x = m.allocate(m.dram), m.allocate(m.l1)
	m.moved, m.mid, m.last = m.allocate(dram), m.allocate(dram), m.allocate(last)
	return m
}

func (m *seedModel) allocate(at ops.MemoryConfig) *ops.Tensor {
	return m.ok(m.Empty(m.ctx, ops.Spec{Shape: []int{1, 1, 128, 128}, DType: ops.BFloat16, Layout: ops.Tile, Memory: at}))
}

func (m *seedModel) write(ctx context.Context, i int) {
	m.must(m.CopyHostToDevice(ctx, m.hosts[i%3], m.input))
}

func (m *seedModel) toL1(ctx context.Context) error {
	_, err := m.Reshard(ctx, m.input, m.l1, ops.Into(m.x))
	return err
}

func (m *seedModel) run(ctx context.Context, x *ops.Tensor) error {
	_, err := m.ToMemoryConfig(ctx, x, dram, ops.Into(m.moved))
	if err == nil {
		_, err = m.Matmul(ctx, m.moved, m.weights, ops.Into(m.mid))
	}
	if err == nil {
		_, err = m.Add(ctx, m.mid, m.mid, ops.Into(m.last))
	}
	return err
}

// read puts a read behind what the queue has, and returns what waits for it.
func (b *seed) read(ctx context.Context, t *ops.Tensor) func() any {
	h := new(ops.Host)
	r := must[*ops.Read](b)(b.StartToHost(ctx, t, h))
	return func() any { b.must(r.Wait(b.ctx)); return h }
}

func all(reads []func() any) []any {
	var out []any
	for _, r := range reads {
		out = append(out, r())
	}
	return out
}

func (b *seed) inputInDRAM() any {
	m := b.model(dram)
	whole := func(ctx context.Context) error { return errors.Join(m.toL1(ctx), m.run(ctx, m.x)) }
	m.write(b.ctx, 0)
	b.must(whole(b.ctx))
	trace := b.capture(whole)
	var reads []func() any
	for i := range m.hosts {
		m.write(b.ctx, i)
		b.must(trace.Replay(b.ctx))
		reads = append(reads, b.read(b.ctx, m.last))
	}
	return all(reads)
}

// The trace holds the pool, whose memory the input leaves in the capture and has again afterwards.
func (b *seed) inputInL1() any {
	m := b.model(dram)
	spec := ops.Spec{Shape: []int{1, 1, 128, 128}, DType: ops.BFloat16, Layout: ops.Tile, Memory: l1}
	pool := must[*reprise.Pool](b)(b.dev.NewPool(reprise.PoolConfig{Kind: allocator.L1, Size: 1 << 20, Name: "input"}))
	take := func() (*reprise.Buffer, *ops.Tensor) {
		buf := must[*reprise.Buffer](b)(pool.NewBuffer(must[reprise.BufferConfig](b)(spec.BufferConfig("input"))))
		return buf, b.ok(b.FromBuffer(buf, spec))
	}
	buf, x := take()
	b.must(b.CopyHostToDevice(b.ctx, m.hosts[0], x))
	b.must(m.run(b.ctx, x))
	at := x.Address()
	trace := b.capture(func(ctx context.Context) error { return errors.Join(m.run(ctx, x), buf.Release()) })
	_, x = take()
	var reads []func() any
	for _, h := range m.hosts {
		b.must(b.CopyHostToDevice(b.ctx, h, x))
		b.must(trace.Replay(b.ctx))
		reads = append(reads, b.read(b.ctx, m.last))
	}
	return []any{at == x.Address(), all(reads)}
}

// order makes a queue wait for what the other one has.
func (b *seed) order(before, after int) func() {
	e := b.dev.NewEvent(fmt.Sprintf("of queue %d", before))
	b.must(b.dev.Queue(before).Record(b.ctx, e))
	return func() { b.must(b.dev.Queue(after).WaitEvent(b.ctx, e)) }
}

func (b *seed) writesOnQueue1(traced bool) any {
	m := b.model(dram)
	b.must(errors.Join(m.toL1(b.ctx), m.run(b.ctx, m.x)))
	run := func() { b.must(m.run(b.ctx, m.x)) }
	at, same := m.x.Address(), true
	if traced {
		trace := b.capture(func(ctx context.Context) error { return m.run(ctx, m.x) })
		run = func() { b.must(trace.Replay(b.ctx)) }
	}
	free := b.order(0, 1)
	var reads []func() any
	for i := range m.hosts {
		free()
		m.write(ops.OnQueue(b.ctx, 1), i)
		b.order(1, 0)()
		b.must(m.toL1(b.ctx))
		same = same && at == m.x.Address()
		free = b.order(0, 1)
		run()
		reads = append(reads, b.read(b.ctx, m.last))
	}
	return []any{same, all(reads)}
}

func (b *seed) transfersOnQueue1(traced bool) any {
	m := b.model(l1)
	on1, leaving := ops.OnQueue(b.ctx, 1), m.allocate(m.dram)
	leave := func() { b.ok(b.Reshard(b.ctx, m.last, m.dram, ops.Into(leaving))) }
	b.must(errors.Join(m.toL1(b.ctx), m.run(b.ctx, m.x)))
	leave()
	run := func() { b.must(m.run(b.ctx, m.x)) }
	if traced {
		trace := b.capture(func(ctx context.Context) error { return m.run(ctx, m.x) })
		run = func() { b.must(trace.Replay(b.ctx)) }
	}
	consumed, drained := b.order(0, 1), b.order(1, 0)
	consumed()
	m.write(on1, 0)
	written := b.order(1, 0)
	var reads []func() any
	for i := range m.hosts {
		written()
		b.must(m.toL1(b.ctx))
		consumed = b.order(0, 1)
		run()
		drained()
		leave()
		ready := b.order(0, 1)
		consumed()
		m.write(on1, i+1)
		written = b.order(1, 0)
		ready()
		reads = append(reads, b.read(on1, leaving))
		drained = b.order(1, 0)
	}
	return all(reads)
}

func (b *seed) withoutRegion() any {
	x, y := b.tensor(0, 32, 64), b.tensor(0, 32, 64)
	add := func(ctx context.Context) error { _, err := b.Add(ctx, x, x, ops.Into(y)); return err }
	b.must(add(b.ctx))
	b.must(b.capture(add).Replay(b.ctx))
	return must[*ops.Host](b)(b.ToHost(b.ctx, y))
}

func (b *seed) regionTooSmall() any {
	x, y := b.tensor(0, 32, 64), b.tensor(0, 32, 64)
	model := func(ctx context.Context) (err error) {
		for i := 0; i < 40 && err == nil; i++ {
			_, err = b.Add(ctx, x, x, ops.Into(y))
		}
		return err
	}
	b.must(model(b.ctx))
	_, err := b.Capture(b.ctx, "large", model)
	return errors.Is(err, reprise.ErrOutOfMemory)
}

// refused reports whether a capture is refused with what happens in it: then an addition that has
// not run before.
func (b *seed) refused(also func(context.Context, *ops.Tensor) error) any {
	x, y := b.tensor(0, 32, 64), b.tensor(0, 32, 64)
	_, err := b.Capture(b.ctx, "refused", func(ctx context.Context) error {
		err := also(ctx, x)
		if err == nil {
			_, err = b.Add(ctx, x, x, ops.Into(y))
		}
		return err
	})
	return errors.Is(err, reprise.ErrInCapture)
}

func (b *seed) writeInCapture(ctx context.Context, x *ops.Tensor) error {
	return b.CopyHostToDevice(ctx, b.counted(1, 32, 64), x)
}

func (b *seed) readInCapture(ctx context.Context, x *ops.Tensor) error {
	_, err := b.ToHost(ctx, x)
	return err
}

// captured is the graph of a product of elements and a sum.
func (b *seed) captured(mode graph.Mode) *graph.Report {
	x, y, z := b.tensor(0, 64, 64), b.tensor(1, 64, 64), b.tensor(2, 64, 64)
	c := b.BeginCapture(graph.Config{Mode: mode})
	product := b.ok(b.Multiply(b.ctx, y, z, ops.WithMemoryConfig(l1)))
	b.ok(b.Add(b.ctx, x, product, ops.WithMemoryConfig(l1)))
	b.must(b.Deallocate(product))
	return must[*graph.Report](b)(c.End())
}

var twoOperations = []string{"ttnn::multiply", "ttnn::add"}

func operationsOf(g *graph.Graph, kind graph.NodeType) []any {
	out := []any{}
	for i := range g.Nodes {
		n := &g.Nodes[i]
		name := n.Params[graph.ParamName]
		if n.Type == kind && slices.Contains(twoOperations, name) && (kind == graph.FunctionStart || n.Duration > 0) {
			out = append(out, name)
		}
	}
	return out
}

func (b *seed) operations(kind graph.NodeType, mode graph.Mode) any {
	return operationsOf(b.captured(mode).Graph, kind)
}

func (b *seed) report() any {
	var file bytes.Buffer
	b.must(b.captured(graph.Normal).Encode(&file))
	var keys map[string]json.RawMessage
	b.must(json.Unmarshal(file.Bytes(), &keys))
	out := []any{}
	for _, k := range []string{"version", "graph", "devices", "metadata"} {
		out = append(out, keys[k] != nil)
	}
	r := must[*graph.Report](b)(graph.Decode(&file, graph.Limits{}))
	return append(out, operationsOf(r.Graph, graph.FunctionStart))
}

func (b *seed) imported() any {
	path := filepath.Join(b.TempDir(), "my_report.json")
	var file bytes.Buffer
	b.must(b.captured(graph.Normal).Encode(&file))
	b.must(os.WriteFile(path, file.Bytes(), 0o666))
	db := filepath.Join(b.TempDir(), "db.sqlite")
	must[*visualizer.Summary](b)(visualizer.Import(b.ctx, db, []string{path}, visualizer.Options{}))
	rows := func(query string) (out []string) {
		conn := must[*sql.DB](b)(sql.Open("sqlite3", db))
		defer func() { b.must(conn.Close()) }()
		found := must[*sql.Rows](b)(conn.QueryContext(b.ctx, query))
		for found.Next() {
			out = append(out, "")
			b.must(found.Scan(&out[len(out)-1]))
		}
		b.must(found.Err())
		return out
	}
	tables, all := rows("SELECT name FROM sqlite_master WHERE type = 'table'"), true
	for _, want := range []string{"operations", "operation_arguments", "tensors", "device_tensors", "buffers", "stack_traces", "errors"} {
		all = all && slices.Contains(tables, want)
	}
	names := slices.DeleteFunc(rows("SELECT name FROM operations ORDER BY operation_id"),
		func(n string) bool { return !slices.Contains(twoOperations, n) })
	return []any{all, list(names)}
}

func (b *seed) hangs() any {
	x, y := b.tensor(0, 32, 64), b.tensor(0, 32, 64)
	relu := func() { b.ok(b.Relu(b.ctx, x, ops.Into(y))) }
	relu()
	word := must[*reprise.Buffer](b)(b.dev.NewBuffer(reprise.BufferConfig{Kind: allocator.L1, Size: 64, Name: "word"}))
	b.must(b.dev.Queue(0).Write(b.ctx, word, 0, make([]byte, 64)))
	forever := must[*reprise.Executable](b)(b.dev.Load(b.ctx, &reprise.Program{Name: "forever", Kernels: []reprise.Kernel{{
		Name: "wait", Image: must[*kernels.Image](b)(kernels.Prebuilt(b.dev.Arch(), kernels.Spin)), Processor: chip.BRISC,
		Cores: []chip.Range{chip.Single(0, 0)}, Args: func(chip.Core) []uint32 { return []uint32{word.Addr(), 1} },
	}}}))
	c := b.BeginCapture(graph.Config{})
	b.must(b.dev.Queue(0).Run(b.ctx, forever))
	relu()
	var h *dispatch.HangError
	hung := errors.As(b.Wait(b.ctx), &h)
	g := must[*graph.Report](b)(c.End()).Graph
	b.must(b.dev.Recover(b.ctx))
	return []any{hung, slices.Contains(graph.CallTrace(g), "ttnn::relu")}
}

func (b *seed) switches(some graph.Details) any {
	out := []any{b.HasDetails(some)}
	for _, on := range []bool{true, false} {
		b.SetDetails(some, on)
		out = append(out, b.HasDetails(some))
	}
	return out
}

func (b *seed) levelized() any {
	out := []any{}
	for _, v := range graph.Levelized(b.captured(graph.Normal).Graph, 1) {
		if slices.Contains(twoOperations, v.Name) {
			out = append(out, []any{v.Name, v.Level})
		}
	}
	return out
}

func (b *seed) traceMemory() any {
	x, y := b.tensor(0, 32, 64), b.tensor(0, 32, 64)
	add := func(ctx context.Context) error { _, err := b.Add(ctx, x, x, ops.Into(y)); return err }
	b.must(add(b.ctx))
	used := func() uint64 { return b.dev.Memory(allocator.Trace).Allocated }
	s := b.dev.Memory(allocator.Trace)
	before := used()
	trace := b.capture(add)
	during := used()
	b.must(trace.Replay(b.ctx))
	replayed := used()
	b.must(trace.Release(b.ctx))
	return []any{s.Total*uint64(s.Banks) >= 1<<22, before, during > 0, during == replayed, used()}
}

// squares captures x*x+x into new tensors, and returns the trace and the result.
func (b *seed) squares(x *ops.Tensor) (*reprise.Trace, *ops.Tensor) {
	square, sum := b.ok(b.Empty(b.ctx, x.Spec())), b.ok(b.Empty(b.ctx, x.Spec()))
	model := func(ctx context.Context) error {
		_, err := b.Multiply(ctx, x, x, ops.Into(square))
		if err == nil {
			_, err = b.Add(ctx, square, x, ops.Into(sum))
		}
		return err
	}
	b.must(model(b.ctx))
	trace := b.capture(model)
	b.must(b.Deallocate(square))
	return trace, sum
}

func (b *seed) host(t *ops.Tensor) *ops.Host { return must[*ops.Host](b)(b.ToHost(b.ctx, t)) }

func (b *seed) movedBetweenCaptures() any {
	x := b.tensor(0, 64, 64)
	first, y := b.squares(x)
	b.tensor(1, 64, 64)
	second, z := b.squares(x)
	for _, trace := range []*reprise.Trace{first, second, first} {
		b.must(trace.Replay(b.ctx))
	}
	return []any{y.Address() != z.Address(), b.host(y), b.host(z)}
}

// In TT-NN the replay changes the later tensor, which has memory that the trace still uses; here
// the trace holds its memory.
func (b *seed) allocationAfterCapture() any {
	trace, y := b.squares(b.tensor(0, 64, 64))
	later := b.tensor(1, 64, 64)
	before := b.host(later)
	b.must(trace.Replay(b.ctx))
	if !bytes.Equal(b.host(later).Data, before.Data) {
		b.Error("a replay changed a tensor that was allocated after the capture")
	}
	return []any{b.host(y), false}
}

func (b *seed) doubles(x *ops.Tensor) (*reprise.Trace, *ops.Tensor) {
	y := b.ok(b.Empty(b.ctx, x.Spec()))
	add := func(ctx context.Context) error { _, err := b.Add(ctx, x, x, ops.Into(y)); return err }
	b.must(add(b.ctx))
	return b.capture(add), y
}

func (b *seed) releaseOrder() any {
	x := b.tensor(0, 64, 64)
	first, _ := b.doubles(x)
	second, z := b.doubles(x)
	b.must(first.Release(b.ctx))
	b.must(second.Replay(b.ctx))
	return []any{b.host(z), errors.Is(first.Replay(b.ctx), reprise.ErrReleased)}
}

func (b *seed) inputAllocatedAgain() any {
	x := b.tensor(0, 64, 64)
	trace, y := b.doubles(x)
	b.must(b.Deallocate(x))
	other := b.tensor(1, 64, 64)
	b.must(trace.Replay(b.ctx))
	return []any{other.Address() != x.Address(), b.host(y)}
}

func (b *seed) queuesWithoutEvent() any {
	x := b.tensor(0, 64, 64)
	add := func(ctx context.Context) error { _, err := b.Add(ctx, x, x); return err }
	b.must(add(b.ctx))
	b.must(b.Wait(b.ctx))
	b.must(add(b.ctx))
	var overlap *dispatch.OverlapError
	return errors.As(add(ops.OnQueue(b.ctx, 1)), &overlap)
}
