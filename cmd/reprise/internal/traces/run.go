package traces

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"time"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/cmd/reprise/internal/cli"
	"github.com/reprise-tt/reprise/kernels/print"
	"github.com/reprise-tt/reprise/tracebuf"
	"github.com/reprise-tt/reprise/tracebuf/debug"
)

func (r *traceRun) ran(first, end int) error {
	all := programsOf(r.Trace)
	r.out.Pieces = append(r.out.Pieces, pieceJSON{all[first], all[end-1]})
	return nil
}

func (r *traceRun) step(ctx context.Context) (wrong, err error) {
	if err := r.Debug().Step(ctx, func(i int) error { return r.ran(i, i+1) }); err != nil {
		return nil, err
	}
	return r.results(ctx)
}

func (r *traceRun) split(ctx context.Context, pieces int) (wrong, err error) {
	if err := r.Debug().Split(ctx, pieces, r.ran); err != nil {
		return nil, err
	}
	return r.results(ctx)
}

func (r *traceRun) check(ctx context.Context) (wrong, err error) {
	err = r.Debug().Check(ctx)
	var c *debug.CheckError
	if errors.As(err, &c) {
		if c.Step >= 0 {
			r.out.Found = &programsOf(r.Trace)[c.Step]
			r.out.Found.Loops = c.Loops
		}
		return err, nil
	}
	return nil, err
}

// bisect notes the buffers' contents after each program run one by one, and finds the shortest prefix
// of the trace that leaves other contents when replayed, or hangs. It restores the buffers.
func (r *traceRun) bisect(ctx context.Context) (wrong, err error) {
	bufs, q := r.Buffers(), r.dev.Queue(0)
	before := make([][]byte, len(bufs))
	for i, b := range bufs {
		before[i] = make([]byte, b.Size())
		if err := q.Read(ctx, b, 0, before[i]); err != nil {
			return nil, err
		}
	}
	restore := func() error {
		for i, b := range bufs {
			if err := q.Write(ctx, b, 0, before[i]); err != nil {
				return err
			}
		}
		return q.Wait(ctx)
	}
	var want [][]runBufferJSON // after each program
	err = r.Debug().Step(ctx, func(int) error {
		c, err := r.contents(ctx)
		want = append(want, c)
		return err
	})
	if err != nil {
		return nil, err
	}
	at, err := r.Debug().BisectRun(ctx, func(int) error { return restore() }, func(n int) (bool, error) {
		c, err := r.contents(ctx)
		return slices.Equal(c, want[n-1]), err
	})
	if err == nil {
		err = restore()
	}
	if err != nil || at == nil {
		return nil, err
	}
	p := &programsOf(r.Trace)[at.Step]
	p.Loops = at.Loops
	r.out.Found = p
	return fmt.Errorf("trace run: program %d %s%s is the first with which a replay hangs, "+
		"or leaves something else in the buffers than the programs one by one", p.Step, tracebuf.Printable(p.Name), p.in()), nil
}

// writePrints writes the prints of a device's kernels to a file, or to errs for the name -, until
// stop is called.
func writePrints(dev *reprise.Device, name string, errs io.Writer) (stop func() error, err error) {
	out, done := errs, func() error { return nil }
	if name != "-" {
		f, err := os.Create(name)
		if err != nil {
			return nil, err
		}
		out, done = f, f.Close
	}
	l, err := print.Listen(dev.Debug(), print.ToWriter(out), print.Options{})
	if err != nil {
		return nil, errors.Join(err, done())
	}
	return func() error { return errors.Join(l.Close(), done()) }, nil
}

type traceRunCmd struct {
	loadFlags
	Replays int               `help:"How many times to replay the trace." default:"1"`
	Set     map[string]uint32 `help:"Set a parameter to another value than the file's. Can be repeated." placeholder:"NAME=VALUE" mapsep:"none"`
	Step    bool              `help:"Run the trace program by program, waiting for each." xor:"mode"`
	Split   *int              `help:"Replay the trace in this many pieces, waiting for each." placeholder:"N" xor:"mode"`
	Bisect  bool              `help:"Find the first program at which a replay hangs, or leaves other data in the buffers than the programs run one by one." xor:"mode"`
	Check   bool              `help:"Compare a replay with running the programs one by one, and name the first program that differs. Unlike --bisect, this ends at the first hang." xor:"mode"`
	Prints  string            `help:"Write what kernels print to a file, or with - to standard error." placeholder:"FILE"`
	cli.AsJSON
	cli.Hangs
}

func (traceRunCmd) Help() string {
	return "The buffers of the file are allocated at the addresses that they had when the trace was recorded, or at others if parameters name all of those addresses, and filled with the data that the file has for them. Results that the file has are compared after the first replay, or after all steps or pieces. The programs of a trace over several queues are numbered in an order that its edges allow."
}

func (c *traceRunCmd) Validate() error {
	if c.Replays < 1 {
		return cli.Wrong("--replays", c.Replays, "a trace is replayed at least once", "give a positive number")
	}
	if c.Split != nil && *c.Split < 1 {
		return cli.Wrong("--split", *c.Split, "there is at least one piece", "give a positive number")
	}
	if c.Replays > 1 && c.mode() != "replay" {
		return cli.Wrong("--replays", c.Replays, "it goes with replays only", "leave --"+c.mode()+" out")
	}
	return c.loadFlags.Validate()
}

func (c *traceRunCmd) mode() string {
	switch {
	case c.Step:
		return "step"
	case c.Split != nil:
		return "split"
	case c.Bisect:
		return "bisect"
	case c.Check:
		return "check"
	}
	return "replay"
}

type runJSON struct {
	File     string `json:"file"`
	Trace    string `json:"trace"`
	Device   string `json:"device"`
	Arch     string `json:"arch"`
	Queues   int    `json:"queues"`
	Programs int    `json:"programs"`           // of a replay
	Mode     string `json:"mode"`               // "replay", "step", "split", "bisect" or "check"
	Replays  int    `json:"replays"`            // of mode replay
	ReplayNs int64  `json:"replay_host_ns_p50"` // of mode replay
	// Results compares with those in the file: "same", "different", "none" (the file has none) or
	// "not compared" (bisect and check).
	Results string          `json:"results"`
	Seconds float64         `json:"seconds"`
	Pieces  []pieceJSON     `json:"pieces,omitempty"` // of step and split
	Found   *programAt      `json:"found,omitempty"`  // by bisect or check
	Buffers []runBufferJSON `json:"buffers"`
}

// programAt is a program of a trace.
type programAt struct {
	Step  int               `json:"step"`
	Name  string            `json:"name"`
	Queue int               `json:"queue"`
	Loops []debug.Iteration `json:"loops,omitempty"` // in which the program is wrong, outermost first
}

// in returns text such as ", loop 0, iteration 2 of 5".
func (p *programAt) in() string {
	var out string
	for _, l := range p.Loops {
		out += ", " + l.String()
	}
	return out
}

type pieceJSON struct {
	First programAt `json:"first"`
	Last  programAt `json:"last"`
}

type runBufferJSON struct {
	Name   string `json:"name"`
	Bytes  int    `json:"bytes"`
	SHA256 string `json:"sha256"` // of its last content
}

func (c *traceRunCmd) Run(ctx context.Context, s cli.Streams) (err error) {
	t, dev, err := c.load(ctx, c.Hangs.Options()...)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, dev.Close(ctx)) }()
	if c.Prints != "" {
		stop, cause := writePrints(dev, c.Prints, s.Err)
		if cause != nil {
			return cause
		}
		defer func() { err = errors.Join(err, stop()) }()
	}
	r := &traceRun{Trace: t, dev: dev, out: &runJSON{
		File: c.File, Trace: t.Name(), Device: c.Device, Arch: dev.Arch().String(), Queues: len(t.Parts()), Programs: len(t.Debug().Programs()),
		Mode: c.mode(), Results: "not compared",
	}}
	for name, v := range c.Set {
		if err := t.Set(name, v); err != nil {
			return err
		}
	}
	begin := time.Now()
	var wrong error // printed after everything else
	switch r.out.Mode {
	case "step":
		wrong, err = r.step(ctx)
	case "split":
		wrong, err = r.split(ctx, *c.Split)
	case "bisect":
		wrong, err = r.bisect(ctx)
	case "check":
		wrong, err = r.check(ctx)
	default:
		wrong, err = r.replay(ctx, c.Replays)
	}
	if err != nil {
		return err
	}
	r.out.Seconds = time.Since(begin).Seconds()
	if r.out.Buffers, err = r.contents(ctx); err != nil {
		return err
	}
	if err := t.Release(ctx); err != nil {
		return err
	}
	return errors.Join(s.Print(c.JSON, r.out, r.out.print), wrong)
}

type traceRun struct {
	*reprise.Trace
	dev *reprise.Device
	out *runJSON
}

// replay compares the results after the first replay.
func (r *traceRun) replay(ctx context.Context, n int) (wrong, err error) {
	var times []time.Duration
	for i := range n {
		start := time.Now()
		if err := r.Replay(ctx); err != nil {
			return nil, err
		}
		times = append(times, time.Since(start))
		if i > 0 {
			continue
		}
		if wrong, err = r.results(ctx); err != nil {
			return nil, err
		}
	}
	r.out.Replays, r.out.ReplayNs = n, cli.Median(times)
	for i := range r.dev.Queues() {
		if err := r.dev.Queue(i).Wait(ctx); err != nil {
			return wrong, err
		}
	}
	return wrong, nil
}

// results compares the buffers with the file's results.
func (r *traceRun) results(ctx context.Context) (wrong, err error) {
	err = r.Debug().CheckResults(ctx)
	var v *debug.VerifyError
	switch {
	case err == nil:
		r.out.Results = "same"
	case errors.Is(err, debug.ErrNoResults):
		r.out.Results = "none"
	case errors.As(err, &v):
		r.out.Results = "different"
		return err, nil
	default:
		return nil, err
	}
	return nil, nil
}

func (r *traceRun) contents(ctx context.Context) ([]runBufferJSON, error) {
	out := []runBufferJSON{}
	for _, b := range r.Buffers() {
		data := make([]byte, b.Size())
		if err := r.dev.Queue(0).Read(ctx, b, 0, data); err != nil {
			return nil, err
		}
		sum := sha256.Sum256(data)
		out = append(out, runBufferJSON{b.Name(), b.Size(), hex.EncodeToString(sum[:])})
	}
	return out, nil
}

func (r *runJSON) print(w cli.Text) {
	w.F("%s: trace %s of %s on %s\n", r.File, tracebuf.Printable(r.Trace), cli.Count(r.Programs, "program"), r.Device)
	for _, p := range r.Pieces {
		w.F("  program %d %s", p.First.Step, tracebuf.Printable(p.First.Name))
		if p.Last.Step > p.First.Step {
			w.F(" to %d %s", p.Last.Step, tracebuf.Printable(p.Last.Name))
		} else if r.Queues > 1 {
			w.F(" on queue %d", p.First.Queue)
		}
		w.F("\n")
	}
	switch r.Mode {
	case "replay":
		w.F("replayed %s in %.3f s, %s of the host's time each (median)\n", cli.Count(r.Replays, "time"), r.Seconds, cli.Nanoseconds(r.ReplayNs))
	case "step":
		w.F("ran %s one by one in %.3f s\n", cli.Count(len(r.Pieces), "program"), r.Seconds)
	case "split":
		w.F("replayed %s one after the other in %.3f s\n", cli.Count(len(r.Pieces), "piece"), r.Seconds)
	default:
		if r.Found == nil {
			w.F("a replay does what its programs do one by one\n")
		} else {
			w.F("program %d %s on queue %d%s is the first that goes wrong in a replay\n", r.Found.Step, tracebuf.Printable(r.Found.Name),
				r.Found.Queue, r.Found.in())
		}
	}
	w.F("%s", map[string]string{"same": "the results are those of the file\n", "different": "the results are not those of the file\n",
		"none": "the file has no results to compare with\n"}[r.Results])
	for _, b := range r.Buffers {
		w.F("  %s  %12s  %s\n", b.SHA256[:16], cli.Bytes(b.Bytes), tracebuf.Printable(b.Name))
	}
}
