// Package demo has the commands that run networks: demo and generate.
package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"net/netip"
	"os"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/allocator"
	"github.com/reprise-tt/reprise/cmd/reprise/internal/cli"
	"github.com/reprise-tt/reprise/examples/digits"
	"github.com/reprise-tt/reprise/hwtest/target"
	"github.com/reprise-tt/reprise/kmd"
	"github.com/reprise-tt/reprise/observe"
	"github.com/reprise-tt/reprise/ops"
	"github.com/reprise-tt/reprise/ops/graph"
)

// Cmd classifies handwritten digits.
type Cmd struct {
	Device  string `help:"${device_help}; or a machine of several chips, each of which takes a part of the images: emu:quietbox, emu:galaxy-bh and the like" default:"emu:blackhole" placeholder:"DEVICE"`
	Hosts   string `help:"Run in each process of mpirun (mpi), whose chips form one mesh. Each process has a part of an emulated machine." enum:"one,mpi" default:"one" placeholder:"ENGINE"`
	Links   string `help:"Network for emulated links between processes, such as 10.1.0.0/16, or 127.0.0.0/8 on one machine; the default route's if absent." placeholder:"NETWORK"`
	Input   string `help:"Classify the digits of this file instead: comma-separated lines of 64 pixels (0 to 16) and a label (0 to 9), plain or gzip." placeholder:"FILE"`
	Batch   int    `help:"Images per batch." default:"128"`
	Network string `help:"Network: bfloat16, of operations on the engines; or integer, of kernels on the RISC-V cores." enum:"bfloat16,integer" default:"bfloat16" placeholder:"NETWORK"`
	cli.AsJSON
	SaveTrace string `help:"Save the trace to this file, with its weights, the last batch and its results, for reprise trace." placeholder:"FILE" type:"path"`
	Timeline  string `help:"Write a timeline of the host and the queues, and on the emulator of engine waits, to this file, as JSON for ui.perfetto.dev. Each call becomes a little slower." placeholder:"FILE" type:"path"`
	Record    string `help:"Record all driver calls in this file: --device session:FILE with the same other flags plays them back without a device. Recording makes the run and the measured times longer." placeholder:"FILE" type:"path"`
	Graph     string `help:"Write what ran and what it allocated to this file, for reprise graph and the vendor's visualizer." placeholder:"FILE" type:"path"`
	cli.Hangs

	target  kmd.Target
	machine *target.Machine // if Device names several chips
}

// Result is the demo's result.
type Result struct {
	Device   string `json:"device"`
	Arch     string `json:"arch"`
	Engine   string `json:"engine"` // tensix, or riscv for the integer network
	Images   int    `json:"images"`
	Batch    int    `json:"batch"`
	Replays  int    `json:"replays"`
	Cores    int    `json:"cores"`
	Programs int    `json:"programs"`
	// Accuracy is the share of right answers among Measured images: the embedded ones not used for
	// training, or all images of a file.
	Accuracy   float64 `json:"accuracy"`
	Measured   int     `json:"accuracy_images"`
	Mismatches int     `json:"mismatches"`

	TraceBytes    int             `json:"trace_bytes"`
	TraceCommands int             `json:"trace_command_bytes"`
	TraceBanks    []cli.BankRange `json:"trace_banks"`
	TraceFile     string          `json:"trace_file,omitempty"`
	TimelineFile  string          `json:"timeline_file,omitempty"`
	GraphFile     string          `json:"graph_file,omitempty"`
	// TraceAfter is the size of the trace memory once the trace is released.
	TraceAfter uint64 `json:"trace_bytes_after_release"`

	EagerNs     int64   `json:"eager_host_ns_p50"`
	ReplayNs    int64   `json:"replay_host_ns_p50"`
	EagerBytes  int     `json:"eager_bytes"`
	ReplayBytes int     `json:"replay_bytes"`
	Allocs      uint64  `json:"replay_allocs"`
	Seconds     float64 `json:"seconds"`
	OpenSeconds float64 `json:"open_seconds"`

	network  string // its name
	input    string // file of the images, if not embedded
	bankSize uint64
	samples  []sample
}

// sample is an image and the chip's answer.
type sample struct {
	image digits.Image
	said  uint8
}

// mismatchError says that a device's scores differ from those of the network on the host. The other
// fields describe the first of count differences.
type mismatchError struct {
	network       string
	count         int
	batch, index  int
	how           string
	got, expected scores
}

func (e *mismatchError) Error() string {
	return fmt.Sprintf("%s; the first is image %d of batch %d, %s: the device gave the scores %v, the %s gives %v",
		differing(e.count, "result"), e.index, e.batch, e.how, e.got, e.network, e.expected)
}

func (e *mismatchError) compare(batch int, how string, got, expected []scores) {
	for i, want := range expected {
		if !want.same(got[i]) {
			if e.count++; e.count == 1 {
				e.batch, e.index, e.how, e.got, e.expected = batch, i, how, got[i], want
			}
		}
	}
}

// err returns the error if there is a difference.
func (e *mismatchError) err() error {
	if e.count == 0 {
		return nil
	}
	return e
}

func (c *Cmd) Validate() error {
	if c.Batch < 1 {
		return cli.Wrong("--batch", c.Batch, "a batch has at least one image", "give a positive number")
	}
	if c.Links != "" {
		if _, err := netip.ParsePrefix(c.Links); err != nil {
			return linksError(c.Links, "it isn't a network", err)
		}
	}
	if m, err := cli.ParseMachine("--device", c.Device); err == nil && (m.Spec != nil || c.Hosts != "one") {
		c.machine = m
		for flag, value := range map[string]string{"--save-trace": c.SaveTrace, "--timeline": c.Timeline, "--record": c.Record,
			"--graph": c.Graph} {
			if value != "" {
				return cli.Wrong(flag, value, "it is for one chip", "give a --device of one chip, such as emu:blackhole")
			}
		}
		return nil
	}
	var err error
	c.target, err = cli.ParseTarget(c.Device)
	return err
}

func (c *Cmd) Run(ctx context.Context, s cli.Streams) error {
	images, measured, err := c.images(ctx)
	if err != nil {
		return err
	}
	for _, f := range [][2]string{{"--save-trace", c.SaveTrace}, {"--timeline", c.Timeline}} {
		if err := cli.Creatable(f[0], f[1]); err != nil {
			return err
		}
	}
	if c.machine != nil {
		res, err := c.onMachine(ctx, s.Who, images, measured)
		if res == nil {
			return err
		}
		if res.rank == 0 {
			err = errors.Join(s.Print(c.JSON, res, res.print), err)
		}
		return err
	}
	bar := newProgress(s.Err, !c.JSON && cli.IsTerminal(s.Err))
	res, err := c.classify(ctx, images, measured, bar)
	bar.end()
	if res == nil {
		return err
	}
	// A result that differs from the network's is printed too.
	return errors.Join(s.Print(c.JSON, res, res.print), err)
}

// images returns the images, those that measure the accuracy first, and the number of the latter.
func (c *Cmd) images(ctx context.Context) ([]digits.Image, int, error) {
	if c.Input == "" {
		all, err := digits.Images()
		if err != nil {
			return nil, 0, err
		}
		training, heldOut := digits.Split(all)
		return append(slices.Clone(heldOut), training...), len(heldOut), nil
	}
	all, err := cli.Until(ctx, func() ([]digits.Image, error) { return readImages(c.Input) })
	return all, len(all), err
}

// classify runs the network eagerly, captures it and replays the trace, comparing each result with
// the network on the host. If results differ it returns both the result and a *mismatchError.
func (c *Cmd) classify(ctx context.Context, images []digits.Image, measured int, bar *progress) (res *Result, err error) {
	start := time.Now()
	net, err := trained(c.Network)
	if err != nil {
		return nil, err
	}
	opts := append(c.Hangs.Options(), reprise.WithQueues(2))
	on, end, err := c.recorded(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { err = end(err) }()
	if c.repeatable() {
		opts = append(opts, reprise.WithQueueMemory(recordedQueue))
	}
	dev, err := reprise.Open(ctx, on, opts...)
	if err != nil {
		return nil, cli.OpenError(c.Device, err)
	}
	defer func() { err = errors.Join(err, dev.Close(ctx)) }()
	opened := time.Since(start)

	r := &demoRun{
		dev: dev, ops: ops.New(dev), net: net, bar: bar, batches: slices.Collect(slices.Chunk(images, c.Batch)),
		room:  min(c.Batch, len(images)), // more would only be padding
		check: mismatchError{network: net.name()},
	}
	defer func() { err = errors.Join(err, r.ops.Release(context.WithoutCancel(ctx))) }()
	listened := func() error { return nil }
	if c.Timeline != "" {
		line, err := observe.StartTimeline(ctx, dev)
		if err != nil {
			return nil, err
		}
		r.span = line.Span
		workers := slices.Collect(dev.Grid().Cores())
		workers = workers[:min(sampledWorkers, len(workers))]
		// Recordings, simulators and silicon have no samples.
		if err := line.SampleEngines(engineSampling, workers...); err != nil && !errors.Is(err, errors.ErrUnsupported) {
			return nil, err
		}
		listened = func() error {
			if err := line.Stop(ctx); err != nil {
				return err
			}
			return cli.Save(ctx, "--timeline", c.Timeline, line.WriteJSON)
		}
	}
	if c.Graph != "" { // also after an error: it shows how far the network got
		capture := r.ops.BeginCapture(graph.Config{StackTraces: true, BufferPages: true, OperationBuffers: true})
		defer func() { err = errors.Join(err, c.saveGraph(ctx, capture)) }()
	}
	res = &Result{
		Device: c.Device, Arch: dev.Arch().String(), Engine: net.engine(), Images: len(images), Batch: c.Batch, Replays: len(r.batches),
		Measured: measured, OpenSeconds: opened.Seconds(), bankSize: dev.DRAMBankSize(), network: net.name(), input: c.Input,
		TimelineFile: c.Timeline, GraphFile: c.Graph,
	}

	expected := make([][]scores, len(r.batches))
	eager, err := r.pass(ctx, "eager", false, func(i int, got []scores) {
		expected[i] = net.forward(dev.Arch(), r.batches[i])
		r.check.compare(i, "run eagerly", got, expected[i])
	}, nil)
	if err != nil {
		return nil, err
	}
	res.EagerNs, res.Programs, res.Cores, res.EagerBytes = cli.Median(eager.times), eager.programs, eager.cores, eager.bytes

	correct := 0
	replay, err := r.pass(ctx, "replay", true, func(i int, got []scores) {
		r.check.compare(i, "replayed", got, expected[i])
		for j, m := range r.batches[i] {
			said := got[j].best()
			if i*c.Batch+j < measured {
				if said == m.Label {
					correct++
				}
				res.sample(m, said)
			}
		}
	}, func(trace *reprise.Trace, on deployed) error {
		return errors.Join(listened(), c.inspect(ctx, res, dev, trace, on))
	})
	if err != nil {
		return nil, err
	}
	res.ReplayNs = cli.Median(replay.times)
	res.Accuracy = float64(correct) / float64(measured)
	mem := dev.Memory(allocator.Trace)
	res.TraceAfter = mem.Allocated * uint64(mem.Banks)
	res.Mismatches = r.check.count
	res.Seconds = time.Since(start).Seconds()
	return res, r.check.err()
}

// Sampling of engine waits for a timeline.
const (
	engineSampling = 100 * time.Microsecond
	sampledWorkers = 4 // at most
)

// inspect notes properties of the trace and its programs, and saves the trace on request.
func (c *Cmd) inspect(ctx context.Context, res *Result, dev *reprise.Device, trace *reprise.Trace, on deployed) (err error) {
	part := trace.Parts()[0]
	res.TraceBytes, res.ReplayBytes = trace.Size(), part.ReplayBytes
	for _, step := range part.Steps {
		res.TraceCommands += step.Size
	}
	for _, e := range part.Extents {
		res.TraceBanks = append(res.TraceBanks, cli.BankRange{Bank: e.Bank, Start: e.Start, End: e.End})
	}
	rounds := 32
	if c.repeatable() {
		rounds = 1 // the number of rounds until the least one varies
	}
	if res.Allocs, err = replayAllocs(ctx, dev.Queue(0), trace, rounds); err != nil || c.SaveTrace == "" {
		return err
	}
	// The last replays were of the last batch, so the results are its own.
	res.TraceFile = c.SaveTrace
	return cli.Save(ctx, "--save-trace", c.SaveTrace, func(w io.Writer) error {
		return trace.Save(ctx, w, reprise.WithData(), reprise.WithResults(on.results...))
	})
}

// replayAllocs returns the heap allocations of a replay. The counter is the process's, and an
// emulated device may allocate too: each round is one replay on an idle device and one processor,
// and the least round counts.
// processor, and the least round counts.
func replayAllocs(ctx context.Context, q *reprise.Queue, t *reprise.Trace, rounds int) (uint64, error) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	fewest := uint64(math.MaxUint64)
	for i := 0; i < rounds && fewest > 0; i++ {
		if err := q.Wait(ctx); err != nil {
			return 0, err
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		err := t.Replay(ctx)
		runtime.ReadMemStats(&after)
		if err != nil {
			return 0, err
		}
		fewest = min(fewest, after.Mallocs-before.Mallocs)
	}
	return fewest, nil
}

func readImages(path string) ([]digits.Image, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, inputError(path, err)
	}
	defer f.Close()
	images, err := digits.ParseImages(f)
	if err != nil {
		return nil, inputError(path, err)
	}
	return images, nil
}

// inputError explains why a file of digits can't be used.
func inputError(path string, err error) error {
	wrong := func(why, hint string) error { return cli.Wrong("--input", path, why, hint).By(err) }
	var file *fs.PathError
	var parse *digits.ParseError
	switch {
	case errors.As(err, &file):
		return wrong(file.Err.Error(), "give a file of digits that can be read")
	case !errors.As(err, &parse):
		return err
	}
	why := strings.TrimPrefix(parse.Error(), "digits: parse images: ")
	switch {
	case errors.Is(err, digits.ErrTruncated), errors.Is(err, digits.ErrCompressed):
		return wrong(why, "the copy is incomplete or damaged: copy the file again")
	case errors.Is(err, digits.ErrEmpty):
		return wrong(why, "give a file with at least one line")
	}
	return wrong(why, fmt.Sprintf("a line is %d pixels from 0 to %d and a label from 0 to %d, separated by commas", digits.Pixels,
		digits.MaxPixel, digits.Classes-1))
}

// RunInteger runs the integer network of reprise demo on a device, with all its checks.
func RunInteger(ctx context.Context, t kmd.Target) error {
	c := &Cmd{Device: fmt.Sprint(t), Batch: 128, Network: "integer", Hangs: cli.Hangs{DumpDir: os.TempDir()}, target: t}
	images, measured, err := c.images(ctx)
	if err != nil {
		return err
	}
	_, err = c.classify(ctx, images, measured, newProgress(io.Discard, false))
	return err
}
