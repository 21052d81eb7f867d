package traces

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/cmd/reprise/internal/cli"
	"github.com/reprise-tt/reprise/internal/tables"
	"github.com/reprise-tt/reprise/tracebuf"
	"github.com/reprise-tt/reprise/tracebuf/optimize"
)

type traceOptimizeCmd struct {
	loadFlags
	Output string `short:"o" required:"" placeholder:"FILE"`
	Inputs int    `default:"4" placeholder:"N"`
	cli.AsJSON
	cli.Hangs
}

func (c *traceOptimizeCmd) Validate() error {
	if c.Inputs < 1 {
		return cli.Wrong("--inputs", c.Inputs, "the traces are compared at least once", "give a positive number")
	}
	return c.loadFlags.Validate()
}

type optimizeJSON struct {
	File     string        `json:"file"`
	Output   string        `json:"output"`
	Device   string        `json:"device"`
	Before   traceCostJSON `json:"before"`
	After    traceCostJSON `json:"after"`
	Changes  int           `json:"changes"`
	Compared int           `json:"compared_replays"`
	Buffers  int           `json:"compared_buffers"` // after each of them
	clock    float64       // MHz
}

type traceCostJSON struct {
	Bytes    int    `json:"bytes"` // of the commands
	Commands int    `json:"commands"`
	Cycles   uint64 `json:"cycles,omitempty"` // of a replay, the mean; of traces on one device
}

func (c *traceOptimizeCmd) Run(ctx context.Context, s cli.Streams) error {
	files, err := c.readAll(ctx)
	if err != nil {
		return err
	}
	out := &optimizeJSON{File: c.File, Output: c.Output, Device: c.Device}
	before, err := c.replays(ctx, files, out, &out.Before)
	if err != nil {
		return err
	}
	if files, err = optimize.Files(files); err != nil {
		return fmt.Errorf("trace optimize: %s: %w", c.File, err)
	}
	after, err := c.replays(ctx, files, out, &out.After)
	if err != nil {
		return err
	}
	for i := range before {
		for k := range before[i] {
			if a, b := before[i][k], after[i][k]; a != b {
				return fmt.Errorf("trace optimize: replay %d on random inputs leaves other bytes in buffer %s: nothing was written", i, a.Name)
			}
		}
	}
	for _, f := range files {
		if f == nil {
			continue
		}
		for _, im := range f.Images() {
			out.Changes += len(im.Changes)
		}
	}
	out.Compared, out.Buffers = len(before), len(before[0])
	var b bytes.Buffer
	if err := tracebuf.EncodeAll(&b, files); err != nil {
		return err
	}
	if err := cli.SaveBytes(ctx, "--output", c.Output, b.Bytes()); err != nil {
		return err
	}
	return s.Print(c.JSON, out, out.print)
}

// replays replays a trace on the file's data and then on other inputs, the same for all traces, and
// returns the contents of all buffers after each.
func (c *traceOptimizeCmd) replays(ctx context.Context, files []*tracebuf.File, out *optimizeJSON,
	cost *traceCostJSON) (all [][]runBufferJSON, err error) {
	parts, err := tracebuf.InspectAll(files)
	if err != nil {
		return nil, err
	}
	for _, p := range parts {
		cost.Bytes, cost.Commands = cost.Bytes+len(p.Bytes), cost.Commands+len(p.Commands)
	}
	var b bytes.Buffer
	if err := tracebuf.EncodeAll(&b, files); err != nil {
		return nil, err
	}
	load := c.loadFlags
	load.piped = b.Bytes()
	t, devs, end, err := load.load(ctx, c.Hangs.Options()...)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, end()) }()
	r := &traceRun{Trace: t, dev: devs[0], devs: devs, out: &runJSON{Device: c.Device}}
	random := rand.New(rand.NewPCG(1, 2))
	do := func() error {
		for i := range c.Inputs + 1 {
			if i > 0 {
				if err := newInputs(ctx, files, t.Buffers(), random); err != nil {
					return err
				}
			}
			if err := t.Replay(ctx); err != nil {
				return err
			}
			sums, err := r.contents(ctx)
			if err != nil {
				return err
			}
			all = append(all, sums)
		}
		return nil
	}
	if len(devs) > 1 || files[0].Target.SubDevices != nil { // of which no times are noted
		err = do()
		return all, err
	}
	if _, err = r.timed(ctx, do); err != nil {
		return nil, err
	}
	out.clock = r.out.Times.ClockMHz
	for _, q := range r.out.Times.Queues {
		cost.Cycles += q.Cycles / uint64(len(all))
	}
	return all, nil
}

// newInputs writes the trace's inputs: random bits as floating-point numbers. Others may be
// indices, so it changes the order of their elements, and that of all data if no input is known.
func newInputs(ctx context.Context, files []*tracebuf.File, bufs []*reprise.Buffer, random *rand.Rand) error {
	for _, f := range files {
		if f == nil {
			continue
		}
		known := slices.ContainsFunc(f.Image.Buffers, func(b tracebuf.Buffer) bool { return b.Tensor != nil && b.Tensor.Input })
		for i := range f.Image.Buffers {
			b := &f.Image.Buffers[i]
			if known != (b.Tensor != nil && b.Tensor.Input) || i >= len(bufs) ||
				!known && !slices.ContainsFunc(f.Data, func(d tracebuf.Data) bool { return d.Buffer == i }) {
				continue
			}
			q := bufs[i].Device().Queue(0)
			data := make([]byte, bufs[i].Size())
			if err := q.Read(ctx, bufs[i], 0, data); err != nil {
				return err
			}
			shuffle(data, b.Tensor, random)
			if err := q.Write(ctx, bufs[i], 0, data); err != nil {
				return err
			}
		}
		bufs = bufs[min(len(bufs), len(f.Image.Buffers)):]
	}
	return nil
}

func shuffle(data []byte, t *tracebuf.Tensor, random *rand.Rand) {
	n := 4
	if t != nil {
		switch t.DType {
		case "BFLOAT16", "FLOAT32", "BFLOAT8_B", "BFLOAT4_B":
			for i := 0; i+4 <= len(data); i += 4 {
				binary.LittleEndian.PutUint32(data[i:], random.Uint32())
			}
			return
		case "UINT16":
			n = 2
		case "UINT8":
			n = 1
		}
	}
	random.Shuffle(len(data)/n, func(i, j int) {
		for k := range n {
			data[n*i+k], data[n*j+k] = data[n*j+k], data[n*i+k]
		}
	})
}

func (o *optimizeJSON) print(w cli.Text) {
	w.F("%s: does the same as %s\n", o.Output, o.File)
	table := w.Table()
	table.Head("trace", "bytes", "commands", "a replay takes")
	for _, row := range []struct {
		name string
		traceCostJSON
	}{{"before", o.Before}, {"after", o.After}} {
		took := "-"
		if row.Cycles > 0 && o.clock > 0 {
			took = tables.Duration(float64(row.Cycles) * 1e3 / o.clock)
		} else if row.Cycles > 0 {
			took = tables.Count(float64(row.Cycles)) + " cycles"
		}
		table.Row(row.name, cli.Bytes(row.Bytes), row.Commands, took)
	}
	table.Flush()
	w.F("%s in %s had the same bytes after %s, all but the first on random inputs\n", cli.Count(o.Buffers, "buffer"), o.Device,
		cli.Count(o.Compared, "replay"))
	w.F("%s: reprise trace diff %s %s\n", cli.Count(o.Changes, "change"), o.File, o.Output)
}
