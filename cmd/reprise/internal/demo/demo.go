// Package demo has the commands that run networks: demo and generate.
package demo

import (
	"bufio"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/dustin/go-humanize"
	"golang.org/x/sync/errgroup"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/allocator"
	"github.com/reprise-tt/reprise/cmd/reprise/internal/cli"
	"github.com/reprise-tt/reprise/examples/digits"
	"github.com/reprise-tt/reprise/examples/digits/convnet"
	"github.com/reprise-tt/reprise/examples/digits/convnet/reference"
	"github.com/reprise-tt/reprise/hwtest/target"
	"github.com/reprise-tt/reprise/internal/bench/measure"
	"github.com/reprise-tt/reprise/internal/tables"
	"github.com/reprise-tt/reprise/kmd"
	"github.com/reprise-tt/reprise/kmd/session"
	"github.com/reprise-tt/reprise/mesh"
	"github.com/reprise-tt/reprise/mesh/hosts"
	"github.com/reprise-tt/reprise/observe"
	"github.com/reprise-tt/reprise/ops"
	"github.com/reprise-tt/reprise/ops/graph"
	"github.com/reprise-tt/reprise/pipeline"
	"github.com/reprise-tt/reprise/sim"
	"github.com/reprise-tt/reprise/tracebuf"
)

// Cmd classifies handwritten digits.
type Cmd struct {
	Device string `default:"emu:blackhole" placeholder:"DEVICE"`
	Hosts  string `enum:"one,mpi" default:"one" placeholder:"ENGINE"`
	Links  string `placeholder:"NETWORK"`
	Input  string `placeholder:"FILE"`
	Batch  int    `default:"128"`
	cli.AsJSON
	SaveTrace string `placeholder:"FILE" type:"path"`
	Timeline  string `placeholder:"FILE" type:"path"`
	Record    string `placeholder:"FILE" type:"path"`
	Graph     string `placeholder:"FILE" type:"path"`
	cli.Hangs

	target  kmd.Target
	machine *target.Machine // if Device names several chips
}

// Outcome is what demos on one and on several chips find out; its JSON form is for scripts.
type Outcome struct {
	Device  string `json:"device"`
	Arch    string `json:"arch"`
	Images  int    `json:"images"`
	Batch   int    `json:"batch"`
	Replays int    `json:"replays"`
	// Accuracy is of Measured images: embedded ones not used for training, or all of a file.
	Accuracy    float64 `json:"accuracy"`
	Measured    int     `json:"accuracy_images"`
	Mismatches  int     `json:"mismatches"`
	TraceBytes  int     `json:"trace_bytes"`
	ReplayNs    int64   `json:"replay_host_ns_p50"`
	Seconds     float64 `json:"seconds"`
	OpenSeconds float64 `json:"open_seconds"`
}

// Result is the demo's result on one chip.
type Result struct {
	Outcome
	Cores    int `json:"cores"`
	Programs int `json:"programs"`

	TraceCommands int               `json:"trace_command_bytes"`
	TraceBanks    []tracebuf.Extent `json:"trace_banks"`
	TraceFile     string            `json:"trace_file,omitempty"`
	TimelineFile  string            `json:"timeline_file,omitempty"`
	GraphFile     string            `json:"graph_file,omitempty"`
	TraceAfter    uint64            `json:"trace_bytes_after_release"`

	EagerNs     int64  `json:"eager_host_ns_p50"`
	EagerBytes  int    `json:"eager_bytes"`
	ReplayBytes int    `json:"replay_bytes"`
	Allocs      uint64 `json:"replay_allocs"`

	input    string
	bankSize uint64
	samples  []sample
}

type sample struct {
	image digits.Image
	said  uint8
}

// arithmetic is what the host computes the expected scores by.
const arithmetic = "bfloat16 arithmetic of the engines"

// mismatches are results that differ from the host's.
type mismatches struct {
	count int
	first string
}

// compare notes which of several results differ, by their bits.
func compare[T comparable](m *mismatches, got, expected []T, describe func(i int) string) {
	for i, v := range got {
		if v != expected[i] {
			if m.count++; m.count == 1 {
				m.first = describe(i)
			}
		}
	}
}

func (m *mismatches) scores(batch int, how string, got, expected []convnet.Scores) {
	compare(m, got, expected, func(i int) string {
		return fmt.Sprintf("image %d of batch %d, %s: the device gave the scores %v, the "+arithmetic+" gives %v", i, batch, how, got[i],
			expected[i])
	})
}

func (m *mismatches) err(noun string) error {
	if m.count == 0 {
		return nil
	}
	return fmt.Errorf("%s; the first is %s", differing(m.count, noun), m.first)
}

// Validate checks what can be checked without a device.
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
	status := func(string) {}
	if !c.JSON {
		status = s.Status()
	}
	res, err := c.classify(ctx, images, measured, status)
	status("")
	if res == nil {
		return err
	}
	// A result that differs from the network's is printed too.
	return errors.Join(s.Print(c.JSON, res, res.print), err)
}

// images has those that measure the accuracy first.
func (c *Cmd) images(ctx context.Context) ([]digits.Image, int, error) {
	if c.Input == "" {
		all, err := digits.Images()
		if err != nil {
			return nil, 0, err
		}
		training, heldOut := digits.Split(all)
		return append(slices.Clone(heldOut), training...), len(heldOut), nil
	}
	all, err := cli.Until(ctx, func() ([]digits.Image, error) { return cli.Read(c.Input, digits.ParseImages) })
	if err != nil {
		err = inputError(c.Input, err)
	}
	return all, len(all), err
}

// classify returns both the result and an error if results differ from the host's.
func (c *Cmd) classify(ctx context.Context, images []digits.Image, measured int, status func(string)) (res *Result, err error) {
	start := time.Now()
	net, err := convnet.Trained()
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
		dev: dev, ops: ops.New(dev), net: net, status: status, batches: slices.Collect(slices.Chunk(images, c.Batch)),
		room: min(c.Batch, len(images)), // more would only be padding
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
		Outcome: Outcome{Device: c.Device, Arch: dev.Arch().String(), Images: len(images), Batch: c.Batch, Replays: len(r.batches),
			Measured: measured, OpenSeconds: opened.Seconds()},
		bankSize: dev.DRAMBankSize(), input: c.Input, TimelineFile: c.Timeline, GraphFile: c.Graph,
	}

	expected := make([][]convnet.Scores, len(r.batches))
	eager, err := r.pass(ctx, "eager", false, func(i int, got []convnet.Scores) {
		expected[i] = reference.Scores(dev.Arch(), net, r.batches[i])
		r.check.scores(i, "run eagerly", got, expected[i])
	}, nil)
	if err != nil {
		return nil, err
	}
	res.EagerNs, res.Programs, res.Cores, res.EagerBytes = cli.Median(eager.times), eager.programs, eager.cores, eager.bytes

	correct := 0
	replay, err := r.pass(ctx, "replay", true, func(i int, got []convnet.Scores) {
		r.check.scores(i, "replayed", got, expected[i])
		for j, m := range r.batches[i] {
			said := got[j].Best()
			if i*c.Batch+j < measured {
				if said == m.Label {
					correct++
				}
				res.sample(m, said)
			}
		}
	}, func(trace *reprise.Trace, on *convnet.Model) error {
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
	return res, r.check.err("result")
}

// Sampling of engine waits for a timeline.
const (
	engineSampling = 100 * time.Microsecond
	sampledWorkers = 4
)

func (c *Cmd) inspect(ctx context.Context, res *Result, dev *reprise.Device, trace *reprise.Trace, on *convnet.Model) (err error) {
	part := trace.Parts()[0]
	res.TraceBytes, res.ReplayBytes, res.TraceBanks = trace.Size(), part.ReplayBytes, part.Extents
	for _, step := range part.Steps {
		res.TraceCommands += step.Size
	}
	rounds := 32
	if c.repeatable() {
		rounds = 1 // the number of rounds until the least one varies
	}
	settle, replay := func() error { return dev.Queue(0).Wait(ctx) }, func() error { return trace.Replay(ctx) }
	if res.Allocs, err = measure.Allocations(rounds, settle, replay); err != nil || c.SaveTrace == "" {
		return err
	}
	// The last replays were of the last batch, so the results are its own.
	res.TraceFile = c.SaveTrace
	return cli.Save(ctx, "--save-trace", c.SaveTrace, func(w io.Writer) error {
		return trace.Save(ctx, w, reprise.WithData(), reprise.WithResults(cli.Map(on.Results(), (*ops.Tensor).Buffer)...))
	})
}

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

// Classify is reprise demo on a device, with all its checks.
func Classify(ctx context.Context, t kmd.Target) error {
	c := &Cmd{Device: fmt.Sprint(t), Batch: 128, Hangs: cli.Hangs{DumpDir: os.TempDir()}, target: t}
	images, measured, err := c.images(ctx)
	if err != nil {
		return err
	}
	_, err = c.classify(ctx, images, measured, func(string) {})
	return err
}

const maxSamples = 4

// sample keeps the first images, and the first mistake last.
func (r *Result) sample(m digits.Image, said uint8) {
	s := sample{m, said}
	switch {
	case len(r.samples) < maxSamples:
		r.samples = append(r.samples, s)
	case said != m.Label && r.samples[maxSamples-1].said == r.samples[maxSamples-1].image.Label:
		r.samples[maxSamples-1] = s
	}
}

func (r *Result) print(w cli.Text) {
	w.F("%s: %d programs on %d cores, %d handwritten digits in batches of %d\n\n", r.Device, r.Programs, r.Cores, r.Images, r.Batch)
	r.printSamples(w)
	which := "images the network never saw"
	if r.input != "" {
		which = "images of " + r.input
	}
	w.F("accuracy  %.2f %% of the %d %s\n", 100*r.Accuracy, r.Measured, which)
	w.F("checked   %d replays and as many eager runs, bit for bit against the "+arithmetic+": %s\n\n", r.Replays,
		cli.Count(r.Mismatches, "mismatch"))
	w.F("          %14s %14s\n", "eager", "replay")
	w.F("host time %14s %14s   to submit a batch, median\n", tables.Duration(r.EagerNs), tables.Duration(r.ReplayNs))
	w.F("commands  %14s %14s   sent per batch\n", cli.Bytes(r.EagerBytes), cli.Bytes(r.ReplayBytes))
	w.F("built     %14d %14d   programs' commands per batch\n", r.Programs, 0)
	w.F("allocated %14s %14d   times per batch\n\n", "", r.Allocs)
	w.F("trace: %s at the top of %d DRAM banks of %s\n", cli.Bytes(r.TraceBytes), len(r.TraceBanks), humanize.IBytes(r.bankSize))
	for _, e := range r.TraceBanks {
		w.F("  bank %2d  0 ├%s┤█ %#x..%#x  %s\n", e.Bank, strings.Repeat("─", 24), e.Start, e.End, cli.Bytes(e.End-e.Start))
	}
	w.F("\nreleased: the trace memory holds %d B\n", r.TraceAfter)
	for _, f := range [][2]string{{"saved: reprise trace run %s\n", r.TraceFile}, {"timeline: open %s in ui.perfetto.dev\n", r.TimelineFile},
		{"graph: reprise graph show %s\n", r.GraphFile}} {
		if f[1] != "" {
			w.F(f[0], f[1])
		}
	}
	w.F("took %s, %s of it to open the device\n", tables.Duration(1e9*r.Seconds), tables.Duration(1e9*r.OpenSeconds))
}

func (r *Result) printSamples(w cli.Text) {
	var lines []string
	for _, s := range r.samples {
		for i, l := range strings.Split(strings.TrimSuffix(digits.Render(s.image), "\n"), "\n") {
			if len(lines) <= i {
				lines = append(lines, "")
			}
			lines[i] += "  " + l
		}
	}
	for _, l := range lines {
		w.F("%s\n", l)
	}
	for _, s := range r.samples {
		verdict := fmt.Sprintf("says %d", s.said)
		if s.said != s.image.Label {
			verdict += fmt.Sprintf(", is %d", s.image.Label)
		}
		w.F("  %-16s", verdict)
	}
	w.F("\n\n")
}

func differing(n int, noun string) string {
	verb := " differ"
	if n == 1 {
		verb = " differs"
	}
	return cli.Count(n, noun) + verb
}

// recordedQueue bounds a queue's host memory: recording compares all of it at each access.
const recordedQueue = 1 << 20

func (c *Cmd) repeatable() bool {
	_, played := c.target.(*session.Player)
	return played || c.Record != ""
}

var errPlayed = errors.New("the recording has more than the demo did")

// recorded returns the target or what records it. end takes the demo's error.
func (c *Cmd) recorded(ctx context.Context) (on kmd.Target, end func(error) error, err error) {
	p, played := c.target.(*session.Player)
	switch {
	case c.Record == "" && !played:
		return c.target, func(err error) error { return err }, nil
	case c.Record == "":
		return p, func(err error) error {
			switch left := p.Left(); {
			case p.Err() != nil:
				return p.Err()
			case err == nil && left > 0:
				return fmt.Errorf("%w: %d events that have to come were not played", errPlayed, left)
			}
			return err
		}, nil
	}
	f, err := cli.Create(ctx, "--record", c.Record)
	if err != nil {
		return nil, nil, err
	}
	w := bufio.NewWriterSize(f, 1<<16)
	r := session.Record(c.target, w)
	return r, func(err error) error {
		// The recording of a failed demo is kept. If it can't be written, that is the only error.
		closed := r.Close()
		if bad := f.End(w.Flush()); bad != nil {
			return fmt.Errorf("--record %q: %w", c.Record, bad)
		}
		return errors.Join(err, closed)
	}, nil
}

func (c *Cmd) saveGraph(ctx context.Context, capture *ops.Capture) error {
	r, err := capture.End()
	if r == nil {
		return err
	}
	bad := os.MkdirAll(filepath.Dir(c.Graph), 0o755)
	if bad == nil {
		bad = cli.Save(context.WithoutCancel(ctx), "--graph", c.Graph, r.Encode)
	}
	return errors.Join(err, bad)
}

const barWidth = 40

func progress(what string, done, all int) string {
	pos := barWidth * done / all
	return fmt.Sprintf("%-7s %s%s %d/%d batches", what, strings.Repeat("█", pos), strings.Repeat("░", barWidth-pos), done, all)
}

type demoRun struct {
	dev     *reprise.Device
	ops     *ops.Device
	net     *convnet.Network
	status  func(string) // shows the progress
	room    int
	batches [][]digits.Image
	check   mismatches
	span    func(string) func() // of the timeline; nil without one
}

type passed struct {
	times                  []time.Duration
	programs, cores, bytes int
}

// pass sends all batches through a pipeline: queue 1 writes, queue 0 runs and reads.
func (r *demoRun) pass(ctx context.Context, what string, trace bool, got func(int, []convnet.Scores),
	done func(*reprise.Trace, *convnet.Model) error) (p passed, err error) {
	end := func() {}
	if r.span != nil {
		end = r.span(what)
	}
	input, err := r.net.InputSpec(r.room).BufferConfig("input")
	if err != nil {
		return p, err
	}
	inputs := make([][]byte, len(r.batches))
	for i, b := range r.batches {
		if inputs[i], err = r.net.EncodeImages(b, r.room); err != nil {
			return p, err
		}
	}
	var on *convnet.Model
	var clock submitTimes
	pipe, err := pipeline.New(r.dev, pipeline.Config{Name: "digits", Trace: trace, Queues: 2, Input: &input},
		func(ctx context.Context, b *pipeline.Buffers) (_ *pipeline.Stages, err error) {
			if on, err = load(ctx, r.ops, r.net, b.Input, r.room); err != nil {
				return nil, err
			}
			return &pipeline.Stages{
				Run: func(ctx context.Context) error {
					start := time.Now()
					err := on.Run(ctx)
					clock.times = append(clock.times, time.Since(start))
					return err
				},
				Capture: func(ctx context.Context, name string) (*reprise.Trace, error) {
					return r.dev.Queue(0).Capture(ctx, name, on.Record)
				},
				Outputs: []*reprise.Buffer{scoresOf(on)}, Close: on.Close,
			}, nil
		})
	if err != nil {
		return p, err
	}
	defer func() { err = errors.Join(err, pipe.Release(context.WithoutCancel(ctx))) }()
	if err := pipe.Compile(ctx, inputs[0]); err != nil {
		return p, err
	}
	r.status(progress(what, 0, len(r.batches)))
	clock = submitTimes{}
	stop := r.dev.Observe(&clock)
	err = r.stream(ctx, what, pipe, inputs, got)
	stop()
	end()
	if err == nil && done != nil {
		err = done(pipe.Trace(), on)
	}
	return clock.passed(len(r.batches)), err
}

func (r *demoRun) stream(ctx context.Context, what string, pipe *pipeline.Pipeline, inputs [][]byte,
	got func(int, []convnet.Scores)) error {
	i := 0
	for out, err := range pipe.Run(ctx, slices.Values(inputs)) {
		if err != nil {
			return err
		}
		all, err := r.net.DecodeScores(out[0], r.room)
		if err != nil {
			return err
		}
		got(i, all[:len(r.batches[i])])
		i++
		r.status(progress(what, i, len(r.batches)))
	}
	return nil
}

type submitTimes struct {
	times    []time.Duration
	programs []*reprise.Executable
}

func (s *submitTimes) Begin(context.Context, *reprise.Call) {}

func (s *submitTimes) End(_ context.Context, c *reprise.Call) {
	switch c.Kind {
	case reprise.CallReplay:
		s.times = append(s.times, c.End.Sub(c.Start))
	case reprise.CallRun:
		s.programs = append(s.programs, c.Object.(*reprise.Executable))
	}
}

// passed sums up n batches, which all run the same programs.
func (s *submitTimes) passed(n int) passed {
	p := passed{times: s.times, programs: len(s.programs) / n}
	for _, x := range s.programs[:p.programs] {
		p.cores, p.bytes = max(p.cores, x.Cores()), p.bytes+x.Commands().Bytes
	}
	return p
}

// load returns a network that reads the images of an input buffer with room for so many.
func load(ctx context.Context, d *ops.Device, net *convnet.Network, input *reprise.Buffer, room int) (*convnet.Model, error) {
	t, err := d.FromBuffer(input, net.InputSpec(room))
	if err != nil {
		return nil, err
	}
	return convnet.Load(ctx, d, net, room, t)
}

// scoresOf is the buffer of the scores, which the last layer makes.
func scoresOf(m *convnet.Model) *reprise.Buffer {
	all := m.Results()
	return all[len(all)-1].Buffer()
}

type meshResult struct {
	Outcome
	Shape     []int       `json:"shape"`
	Streams   int         `json:"trace_streams"`
	HostBytes int         `json:"trace_host_bytes"`
	Hosts     int         `json:"hosts"`
	Chips     []meshShare `json:"chips"`

	rank int
}

type meshShare struct {
	Coord      []int  `json:"coord"`
	Name       string `json:"name"`
	Images     int    `json:"images"`
	Mismatches int    `json:"mismatches"`
}

func (c *Cmd) onMachine(ctx context.Context, who *cli.Process, images []digits.Image, measured int) (res *meshResult, err error) {
	start := time.Now()
	net, err := convnet.Trained()
	if err != nil {
		return nil, err
	}
	ctx, j, err := startJob(ctx, c.Hosts, who)
	if err != nil {
		return nil, err
	}
	defer func() { err = j.end(ctx, err) }()
	cards, end, err := j.open(ctx, c.machine, c.Links)
	if err != nil {
		return nil, cli.OpenError(c.Device, err)
	}
	defer func() { err = errors.Join(err, end()) }()
	shape, opts := mesh.Shape{len(cards) * j.Size()}, []mesh.Option{mesh.WithDevice(c.Hangs.Options()...)}
	if spec := c.machine.Spec; spec != nil && mesh.Shape(spec.Shape[:]).Size() == len(spec.Chips) {
		shape = spec.Shape[:]
	} else {
		opts = append(opts, mesh.Unlinked())
	}
	if j.Size() > 1 {
		opts = append(opts, mesh.Across(j))
	}
	m, err := mesh.Open(ctx, mesh.Cards(cards...), shape, opts...)
	if err != nil {
		return nil, cli.OpenError(c.Device, err)
	}
	defer func() { err = errors.Join(err, m.Close(ctx)) }()
	if len(m.Here()) == 0 {
		return nil, fmt.Errorf("the mesh of %v has no chip of this process: start fewer", shape)
	}
	group, err := hosts.Join(ctx, j, m)
	if err != nil {
		return nil, err
	}
	res = &meshResult{
		Outcome: Outcome{Device: c.Device, Arch: m.Here()[0].Device.Arch().String(), Images: len(images), Measured: measured,
			Batch: min(c.Batch, (len(images)+m.Size()-1)/m.Size()), OpenSeconds: time.Since(start).Seconds()},
		Shape: shape, Hosts: j.Size(), rank: j.Rank(),
		Chips: cli.Map(m.Chips(), func(c *mesh.Chip) meshShare { return meshShare{Coord: c.Coord, Name: c.Name} }),
	}
	if err := res.run(ctx, m, group, net, images); err != nil {
		return nil, err
	}
	if err := res.gather(ctx, j); err != nil {
		return nil, err
	}
	res.Accuracy /= float64(measured)
	res.Seconds = time.Since(start).Seconds()
	if res.Mismatches > 0 {
		return res, fmt.Errorf("%s from what the "+arithmetic+" gives", differing(res.Mismatches, "result"))
	}
	return res, nil
}

func (res *meshResult) run(ctx context.Context, m *mesh.Mesh, group *hosts.Group, net *convnet.Network, images []digits.Image) (err error) {
	chips := m.Chips()
	each := func(n int, f func(int) error) error {
		var g errgroup.Group
		for i := range n {
			if chips[i].Device != nil {
				g.Go(func() error { return f(i) })
			}
		}
		return g.Wait()
	}
	write := func(q *reprise.Queue, to *reprise.Buffer, images []digits.Image) error {
		b, err := net.EncodeImages(images, res.Batch)
		if err != nil {
			return err
		}
		return q.Write(ctx, to, 0, b)
	}
	on, inputs := make([]*convnet.Model, len(chips)), make([]*reprise.Buffer, len(chips))
	input, err := net.InputSpec(res.Batch).BufferConfig("input")
	if err != nil {
		return err
	}
	if err := each(len(chips), func(i int) (err error) {
		d := chips[i].Device
		if inputs[i], err = d.NewBuffer(input); err != nil {
			return err
		}
		if on[i], err = load(ctx, ops.New(d), net, inputs[i], res.Batch); err != nil {
			return err
		}
		// One run without a trace, because operations load their programs then.
		if err := write(d.Queue(0), inputs[i], images[:1]); err != nil {
			return err
		}
		return on[i].Run(ctx)
	}); err != nil {
		return err
	}
	q := m.Queue(0)
	trace, err := q.Capture(ctx, "digits", func(ctx context.Context, r *mesh.Recorder) error {
		for i, c := range chips {
			if c.Device != nil {
				if err := on[i].Record(ctx, r.On(c)); err != nil {
					return err
				}
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, trace.Release(context.WithoutCancel(ctx))) }()
	res.TraceBytes = trace.Parts()[0].Size
	res.Streams, res.HostBytes = trace.Streams()
	var times []time.Duration
	first := 0
	for round := range slices.Chunk(images, res.Batch*len(chips)) {
		parts := slices.Collect(slices.Chunk(round, res.Batch))
		if err := each(len(parts), func(i int) error { return write(q.On(chips[i]), inputs[i], parts[i]) }); err != nil {
			return err
		}
		start := time.Now()
		if err := group.Replay(ctx, trace); err != nil {
			return err
		}
		times = append(times, time.Since(start))
		got := make([][]convnet.Scores, len(parts))
		if err := each(len(parts), func(i int) (err error) {
			last := scoresOf(on[i])
			b := make([]byte, last.Size())
			if err = q.On(chips[i]).Read(ctx, last, 0, b); err == nil {
				got[i], err = net.DecodeScores(b, res.Batch)
			}
			return err
		}); err != nil {
			return err
		}
		for i, part := range parts {
			if chips[i].Device == nil {
				continue
			}
			c, expected := &res.Chips[i], reference.Scores(chips[i].Device.Arch(), net, part)
			for k, m := range part {
				if expected[k] != got[i][k] {
					c.Mismatches++
					res.Mismatches++
				}
				if first+i*res.Batch+k < res.Measured && got[i][k].Best() == m.Label {
					res.Accuracy++
				}
			}
			c.Images += len(part)
		}
		first += len(round)
		res.Replays++
	}
	res.ReplayNs = cli.Median(times)
	return group.Wait(ctx, q)
}

func (res *meshResult) gather(ctx context.Context, j *job) error {
	all, err := collectJSON(ctx, j, "gather results", res)
	if err != nil {
		return err
	}
	for rank, r := range all {
		if rank == j.Rank() {
			continue
		}
		if len(r.Chips) != len(res.Chips) {
			return fmt.Errorf("results of process %d: %d chips", rank, len(r.Chips))
		}
		res.Accuracy += r.Accuracy
		res.Mismatches += r.Mismatches
		for i, c := range r.Chips {
			res.Chips[i].Images += c.Images
			res.Chips[i].Mismatches += c.Mismatches
		}
	}
	return nil
}

func (res *meshResult) print(w cli.Text) {
	processes := ""
	if res.Hosts > 1 {
		processes = fmt.Sprintf(" over %d processes", res.Hosts)
	}
	w.F("%s: %s as a mesh of %v%s, open in %s\n"+
		"%s, %d of each chip at a time, %s of one trace\n"+
		"accuracy %.2f %% of %s, %s from the network's\n"+
		"trace: %d B on each chip, %d B on the host in %s\n"+
		"a replay on all chips takes the host %s\n",
		res.Device, cli.Count(len(res.Chips), "chip"), mesh.Shape(res.Shape), processes, tables.Duration(1e9*res.OpenSeconds),
		cli.Count(res.Images, "image"), res.Batch, cli.Count(res.Replays, "replay"), 100*res.Accuracy,
		cli.Count(res.Measured, "image"), differing(res.Mismatches, "result"), res.TraceBytes, res.HostBytes,
		cli.Count(res.Streams, "stream"), tables.Duration(res.ReplayNs))
	for _, c := range res.Chips {
		w.F("  %v %s: %s\n", mesh.Coord(c.Coord), c.Name, cli.Count(c.Images, "image"))
	}
}

// job is a group of processes of mpirun, or this one.
type job struct {
	hosts.Engine
	watch func(context.Context) (context.Context, func())
	leave func()
	close func(context.Context) error

	stop func()
	left atomic.Bool
}

// leaveTime bounds a process's cleanup after another's end.
const leaveTime = 250 * time.Millisecond

// startJob joins the processes that --hosts names. The returned context ends when another one ends.
func startJob(ctx context.Context, engine string, who *cli.Process) (context.Context, *job, error) {
	if engine == "mpi" {
		j, err := startMPI(ctx)
		if err != nil {
			return nil, nil, err
		}
		who.Set(j.Rank(), j.Size())
		ctx, j.stop = j.watch(ctx)
		if who != nil && who.Quit != nil {
			context.AfterFunc(ctx, func() {
				time.AfterFunc(leaveTime, func() {
					if !j.left.Load() {
						who.Quit(context.Cause(ctx))
					}
				})
			})
		}
		return ctx, j, nil
	}
	one, err := hosts.InProcess(1)
	if err != nil {
		return nil, nil, err
	}
	return ctx, &job{Engine: one[0], leave: func() {}, close: func(context.Context) error { return one[0].Close() }, stop: func() {}}, nil
}

// end leaves the job and tells the others of an error.
func (j *job) end(ctx context.Context, err error) error {
	j.stop()
	if lost := (*hosts.LostError)(nil); err != nil && errors.As(context.Cause(ctx), &lost) {
		err = lost
	}
	ctx = context.WithoutCancel(ctx)
	if err == nil {
		defer j.left.Store(true)
		return j.close(ctx)
	}
	j.leave()
	// MPI_Finalize waits for processes that may never come; the exit code tells mpirun enough.
	ctx, cancel := context.WithTimeout(ctx, 300*time.Millisecond)
	defer cancel()
	_ = j.close(ctx)
	return err
}

func (j *job) open(ctx context.Context, m *target.Machine, network string) ([]kmd.Target, func() error, error) {
	if j.Size() == 1 || m.Spec == nil {
		return m.Open()
	}
	conns, err := j.meet(ctx, network)
	if err != nil {
		return nil, nil, err
	}
	return m.OpenPart(sim.Part{Index: j.Rank(), Count: j.Size(), Conns: conns})
}

// An exchange takes 1 MiB of each process; larger results are split.
const (
	pieceSize    = 512 << 10
	maxCollected = 32 << 20 // bytes of a process; a million tokens take about 3 MB of JSON
)

func (j *job) collect(ctx context.Context, op string, mine []byte) ([][]byte, error) {
	out := make([][]byte, j.Size())
	for more := true; more; {
		piece := mine[:min(len(mine), pieceSize)]
		mine = mine[len(piece):]
		all, err := j.Exchange(ctx, op, piece)
		if err != nil {
			return nil, err
		}
		more = false
		for rank, b := range all {
			if out[rank] = append(out[rank], b...); len(b) > pieceSize || len(out[rank]) > maxCollected {
				return nil, fmt.Errorf("%s: process %d gave %d B, %d together, want at most %d and %d: is it another version?", op, rank,
					len(b), len(out[rank]), pieceSize, maxCollected)
			}
			more = more || len(b) == pieceSize // a shorter piece is the last one
		}
	}
	return out, nil
}

func collectJSON[T any](ctx context.Context, j *job, op string, mine *T) ([]T, error) {
	b, err := json.Marshal(mine)
	if err != nil {
		return nil, err
	}
	all, err := j.collect(ctx, op, b)
	out := make([]T, len(all))
	for rank, data := range all {
		if bad := json.Unmarshal(data, &out[rank]); bad != nil {
			return nil, fmt.Errorf("%s: process %d: %w", op, rank, bad)
		}
	}
	return out, err
}

type endpoint struct {
	Address string
	Key     []byte
}

// meet connects emulated links by TCP, with the key of process 0.
func (j *job) meet(ctx context.Context, network string) ([]net.Conn, error) {
	at, err := ownAddress(network)
	if err != nil {
		return nil, err
	}
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", netip.AddrPortFrom(at, 0).String())
	if err != nil {
		return nil, fmt.Errorf("listen for the links of other processes: %w", err)
	}
	mine := endpoint{Address: l.Addr().String(), Key: make([]byte, 32)}
	_, _ = rand.Read(mine.Key) // never fails
	all, err := collectJSON(ctx, j, "connect links", &mine)
	if err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return sim.Meet(ctx, l, j.Rank(), cli.Map(all, func(e endpoint) string { return e.Address }), all[0].Key)
}

// ownAddress returns this machine's first address in a network, or else the source address of the
// default route, any off the loopback interface, or the loopback address.
func ownAddress(network string) (netip.Addr, error) {
	var own []netip.Addr
	addrs, err := net.InterfaceAddrs()
	if err != nil {
		return netip.Addr{}, fmt.Errorf("addresses of this machine: %w", err)
	}
	for _, a := range addrs {
		if n, ok := a.(*net.IPNet); ok {
			if ip, ok := netip.AddrFromSlice(n.IP); ok {
				own = append(own, ip.Unmap())
			}
		}
	}
	if network != "" {
		prefix, err := netip.ParsePrefix(network)
		if err != nil {
			return netip.Addr{}, linksError(network, "it isn't a network", err)
		}
		if i := slices.IndexFunc(own, prefix.Contains); i >= 0 {
			return own[i], nil
		}
		return netip.Addr{}, linksError(network, fmt.Sprintf("this machine has no address in it, only %v", own), nil)
	}
	// This sends nothing; the address is for documentation.
	if c, err := net.Dial("udp4", "198.51.100.1:9"); err == nil {
		from, ok := c.LocalAddr().(*net.UDPAddr)
		_ = c.Close()
		if ok && !from.IP.IsLoopback() {
			return from.AddrPort().Addr().Unmap(), nil
		}
	}
	if i := slices.IndexFunc(own, func(a netip.Addr) bool { return a.Is4() && a.IsGlobalUnicast() }); i >= 0 {
		return own[i], nil
	}
	return netip.AddrFrom4([4]byte{127, 0, 0, 1}), nil
}

func linksError(network, why string, err error) error {
	return cli.Wrong("--links", network, why, "give the network that the hosts share, such as 10.1.0.0/16").By(err)
}
