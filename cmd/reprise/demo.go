package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"time"

	"golang.org/x/term"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/allocator"
	"github.com/reprise-tt/reprise/examples/digits"
	"github.com/reprise-tt/reprise/examples/digits/deploy"
)

type demoCmd struct {
	Device string `help:"${device_help}" default:"emu:blackhole" placeholder:"DEVICE"`
	Input  string `help:"Classify the digits of this file instead: comma-separated lines of 64 pixels (0 to 16) and a label, plain or gzip." type:"path" placeholder:"FILE"`
	Batch  int    `help:"Images per batch." default:"128"`
	JSON   bool   `help:"Print one JSON object instead of text." name:"json"`
}

// demoResult is what the demo found out; its JSON form is for scripts.
type demoResult struct {
	Device   string  `json:"device"`
	Arch     string  `json:"arch"`
	Images   int     `json:"images"`
	Batch    int     `json:"batch"`
	Replays  int     `json:"replays"`
	Cores    int     `json:"cores"`
	Programs int     `json:"programs"`
	Accuracy float64 `json:"accuracy"` // of the images the network was not trained on
	// Unseen is the number of those images.
	Unseen     int `json:"unseen"`
	Mismatches int `json:"mismatches"`

	TraceBytes    int         `json:"trace_bytes"`
	TraceCommands int         `json:"trace_command_bytes"`
	TraceBanks    []traceBank `json:"trace_banks"`
	// TraceAfter is what the trace memory of all banks holds once the trace is released.
	TraceAfter uint64 `json:"trace_bytes_after_release"`

	EagerNs     int64   `json:"eager_host_ns_p50"`
	ReplayNs    int64   `json:"replay_host_ns_p50"`
	EagerBytes  int     `json:"eager_bytes"`
	ReplayBytes int     `json:"replay_bytes"`
	Allocs      float64 `json:"replay_allocs"`
	Seconds     float64 `json:"seconds"`
	OpenSeconds float64 `json:"open_seconds"`

	bankSize uint64
	samples  []sample
}

type traceBank struct {
	Bank  int    `json:"bank"`
	Start uint64 `json:"start"`
	End   uint64 `json:"end"`
}

// sample is an image and what the chip said it is.
type sample struct {
	image digits.Image
	said  uint8
}

// mismatchError says that a device computed something else than the network is defined to give.
type mismatchError struct {
	count         int
	batch, index  int
	how           string
	got, expected [digits.Classes]int32
}

func (e *mismatchError) Error() string {
	return fmt.Sprintf("%d results differ; the first is image %d of batch %d, %s: the device gave the scores %v, the integer network is defined to give %v", e.count, e.index, e.batch, e.how, e.got, e.expected)
}

func (c *demoCmd) Run(ctx context.Context, s streams) error {
	images, unseen, err := c.images()
	if err != nil {
		return err
	}
	if c.Batch < 1 {
		return fmt.Errorf("demo: --batch %d: a batch has at least one image", c.Batch)
	}
	target, err := parseTarget(c.Device)
	if err != nil {
		return err
	}
	bar := newProgress(s.err, !c.JSON && isTerminal(s.err))
	res, err := c.classify(ctx, target, images, unseen, bar)
	bar.end()
	if err != nil {
		return fmt.Errorf("demo: %w", err)
	}
	if c.JSON {
		enc := json.NewEncoder(s.out)
		enc.SetIndent("", "  ")
		return enc.Encode(res)
	}
	return res.print(s.out)
}

// images returns what to classify, with the images that the network has never seen in front, and their number.
func (c *demoCmd) images() ([]digits.Image, int, error) {
	if c.Input == "" {
		all, err := digits.Images()
		if err != nil {
			return nil, 0, err
		}
		training, heldOut := digits.Split(all)
		return append(slices.Clone(heldOut), training...), len(heldOut), nil
	}
	f, err := os.Open(c.Input)
	if err != nil {
		return nil, 0, fmt.Errorf("demo: --input: %w", err)
	}
	defer f.Close()
	all, err := digits.ParseImages(f)
	if err != nil {
		return nil, 0, fmt.Errorf("demo: --input %s: %w", c.Input, err)
	}
	return all, len(all), nil
}

// classify does the work: eager runs, a capture, replays, each compared with the network on the host.
func (c *demoCmd) classify(ctx context.Context, target reprise.Target, images []digits.Image, unseen int, bar *progress) (res *demoResult, err error) {
	start := time.Now()
	net, err := digits.Trained()
	if err != nil {
		return nil, err
	}
	dev, err := reprise.Open(ctx, target)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, dev.Close()) }()
	opened := time.Since(start)

	dep, err := deploy.New(ctx, dev, net, c.Batch, dev.Grid())
	if err != nil {
		return nil, err
	}
	queue := dev.Queue(0)
	batches := slices.Collect(slices.Chunk(images, c.Batch))
	res = &demoResult{
		Device: dev.Name(), Arch: dev.Arch().String(), Images: len(images), Batch: c.Batch, Replays: len(batches),
		Cores: dep.Layers()[0].Cores(), Programs: len(dep.Layers()), Unseen: unseen,
		OpenSeconds: opened.Seconds(), bankSize: dev.DRAMBankSize(),
	}
	for _, x := range dep.Layers() {
		res.EagerBytes += x.CommandBytes()
	}
	check := checker{net: net}

	bar.begin("eager", len(batches))
	eager := make([][][digits.Classes]int32, len(batches))
	times := make([]time.Duration, len(batches))
	for i, b := range batches {
		scores, t, err := runBatch(ctx, dep, queue, b, func() error { return dep.Run(ctx, queue) })
		if err != nil {
			return nil, err
		}
		eager[i], times[i] = scores, t
		check.compare(i, "run eagerly", b, scores)
		bar.step()
	}
	res.EagerNs = median(times)

	trace, err := queue.Capture(ctx, "digits", dep.Record)
	if err != nil {
		return nil, err
	}
	res.TraceBytes, res.ReplayBytes = trace.Size(), trace.ReplayBytes()
	for _, step := range trace.Steps() {
		res.TraceCommands += step.Size
	}
	for _, e := range trace.Extents() {
		res.TraceBanks = append(res.TraceBanks, traceBank{e.Bank, e.Start, e.End})
	}

	bar.begin("replay", len(batches))
	correct := 0
	for i, b := range batches {
		scores, t, err := runBatch(ctx, dep, queue, b, func() error { return trace.Replay(ctx) })
		if err != nil {
			return nil, err
		}
		times[i] = t
		check.compare(i, "replayed", b, scores)
		for j, m := range b {
			if scores[j] != eager[i][j] {
				check.differ(i, j, "replayed after the eager run gave something else", scores[j], eager[i][j])
			}
			said := digits.Best(scores[j])
			if i*c.Batch+j < unseen && said == m.Label {
				correct++
			}
			res.sample(m, said, i*c.Batch+j < unseen)
		}
		bar.step()
	}
	res.ReplayNs = median(times)
	res.Accuracy = float64(correct) / float64(unseen)
	if res.Allocs, err = replayAllocs(ctx, queue, trace); err != nil {
		return nil, err
	}

	if err := trace.Release(ctx); err != nil {
		return nil, err
	}
	if err := dep.Close(ctx); err != nil {
		return nil, err
	}
	mem := dev.Memory(allocator.Trace)
	res.TraceAfter = mem.Allocated * uint64(mem.Banks)
	res.Mismatches = check.mismatches
	res.Seconds = time.Since(start).Seconds()
	if check.first != nil {
		check.first.count = check.mismatches
		return nil, check.first
	}
	return res, nil
}

// runBatch writes a batch, runs it, and reads its scores. The time is what submitting the work took the host.
func runBatch(ctx context.Context, dep *deploy.Deployment, q *reprise.Queue, b []digits.Image, submit func() error) ([][digits.Classes]int32, time.Duration, error) {
	if err := dep.Write(ctx, q, b); err != nil {
		return nil, 0, err
	}
	start := time.Now()
	err := submit()
	t := time.Since(start)
	if err != nil {
		return nil, 0, err
	}
	scores, err := dep.Scores(ctx, q)
	if err != nil {
		return nil, 0, err
	}
	return scores[:len(b)], t, nil
}

// replayAllocs returns how often a replay allocates on the heap. The emulated device runs in this process and may
// allocate too, so it is left to finish before the counter is read, and the fewest of several rounds counts.
func replayAllocs(ctx context.Context, q *reprise.Queue, t *reprise.Trace) (float64, error) {
	const rounds, replays = 8, 4
	fewest := uint64(1 << 63)
	for range rounds {
		if err := q.Finish(ctx); err != nil {
			return 0, err
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		for range replays {
			if err := t.Replay(ctx); err != nil {
				return 0, err
			}
		}
		runtime.ReadMemStats(&after)
		fewest = min(fewest, after.Mallocs-before.Mallocs)
	}
	return float64(fewest) / replays, nil
}

func median(t []time.Duration) int64 {
	s := slices.Sorted(slices.Values(t))
	return s[len(s)/2].Nanoseconds()
}

// checker compares a device's scores with those of the network on the host.
type checker struct {
	net        *digits.Network
	mismatches int
	first      *mismatchError
}

func (c *checker) compare(batch int, how string, images []digits.Image, scores [][digits.Classes]int32) {
	for i, m := range images {
		if want := c.net.Forward(m.Pixels); scores[i] != want {
			c.differ(batch, i, how, scores[i], want)
		}
	}
}

func (c *checker) differ(batch, index int, how string, got, want [digits.Classes]int32) {
	c.mismatches++
	if c.first == nil {
		c.first = &mismatchError{batch: batch, index: index, how: how, got: got, expected: want}
	}
}

func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}
