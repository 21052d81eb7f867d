package main

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"time"

	"github.com/dustin/go-humanize"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/tracebuf"
)

type traceRunCmd struct {
	File    string `arg:"" help:"Trace file to run." type:"existingfile"`
	Device  string `help:"${device_help}; the emulator of the file's chip if not given." placeholder:"DEVICE"`
	Replays int    `help:"How often to replay it." default:"1"`
	JSON    bool   `help:"Print one JSON object instead of text." name:"json"`
	DumpDir string `help:"Directory in which a hang leaves a file for reprise inspect." default:"${temp_dir}" placeholder:"DIR"`
}

// Help is shown by --help.
func (traceRunCmd) Help() string {
	return "The buffers of the file are allocated where they lay when the trace was recorded, or elsewhere if parameters name all of their addresses, and filled with what the file has of them. Results that the file has are compared after the first replay."
}

// Validate checks the flags.
func (c *traceRunCmd) Validate() error {
	if c.Replays < 1 {
		return &flagError{flag: "--replays", value: strconv.Itoa(c.Replays), why: "a trace is replayed at least once", hint: "give a positive number"}
	}
	if c.Device == "" {
		return nil
	}
	_, err := parseTarget(c.Device)
	return err
}

type runJSON struct {
	File     string `json:"file"`
	Trace    string `json:"trace"`
	Device   string `json:"device"`
	Arch     string `json:"arch"`
	Programs int    `json:"programs"` // that a replay runs
	Replays  int    `json:"replays"`
	// Results is "same" or "different" from those in the file, or "none" if it has none.
	Results  string          `json:"results"`
	ReplayNs int64           `json:"replay_host_ns_p50"`
	Seconds  float64         `json:"seconds"` // of all replays
	Buffers  []runBufferJSON `json:"buffers"`
}

type runBufferJSON struct {
	Name   string `json:"name"`
	Bytes  int    `json:"bytes"`
	SHA256 string `json:"sha256"` // of what it holds in the end
}

func (c *traceRunCmd) Run(ctx context.Context, s streams) (err error) {
	t, dev, err := loadTrace(ctx, c.File, &c.Device, reprise.WithDumpDir(c.DumpDir))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, dev.Close()) }()
	out := &runJSON{File: c.File, Trace: t.Name(), Device: c.Device, Arch: dev.Arch().String(), Programs: len(t.Steps()), Replays: c.Replays}
	differ := c.replay(ctx, dev.Queue(0), t, out)
	var v *reprise.VerifyError
	if differ != nil && !errors.As(differ, &v) {
		return differ
	}
	if out.Buffers, err = contents(ctx, dev.Queue(0), t); err != nil {
		return err
	}
	if err := t.Release(ctx); err != nil {
		return err
	}
	if c.JSON {
		return errors.Join(printJSON(s.out, out), differ)
	}
	return errors.Join(out.print(s.out), differ)
}

// replay runs the trace. A *reprise.VerifyError says that its results differ from the file's.
func (c *traceRunCmd) replay(ctx context.Context, q *reprise.Queue, t *reprise.Trace, out *runJSON) (differ error) {
	times := make([]time.Duration, c.Replays)
	begin := time.Now()
	for i := range times {
		start := time.Now()
		if err := t.Replay(ctx); err != nil {
			return err
		}
		times[i] = time.Since(start)
		if i > 0 {
			continue
		}
		switch differ = t.CheckResults(ctx); {
		case differ == nil:
			out.Results = "same"
		case errors.Is(differ, reprise.ErrNoResults):
			out.Results, differ = "none", nil
		default:
			out.Results = "different"
		}
		var v *reprise.VerifyError
		if differ != nil && !errors.As(differ, &v) {
			return differ
		}
	}
	if err := q.Finish(ctx); err != nil {
		return err
	}
	out.Seconds, out.ReplayNs = time.Since(begin).Seconds(), median(times)
	return differ
}

// contents are the buffers of a trace by the hash of what they hold.
func contents(ctx context.Context, q *reprise.Queue, t *reprise.Trace) ([]runBufferJSON, error) {
	out := []runBufferJSON{}
	for _, b := range t.Buffers() {
		data := make([]byte, b.Size())
		if err := q.Read(ctx, b, 0, data); err != nil {
			return nil, err
		}
		sum := sha256.Sum256(data)
		out = append(out, runBufferJSON{b.Name(), b.Size(), hex.EncodeToString(sum[:])})
	}
	return out, nil
}

func (r *runJSON) print(out io.Writer) error {
	w := bufio.NewWriter(out)
	fmt.Fprintf(w, "%s: trace %s of %d programs on %s\n", r.File, tracebuf.Printable(r.Trace), r.Programs, r.Device)
	fmt.Fprintf(w, "replayed %d times in %.3f s, %s of the host's time each (median)\n", r.Replays, r.Seconds, nanoseconds(r.ReplayNs))
	switch r.Results {
	case "same":
		fmt.Fprintln(w, "the results are those of the file")
	case "different":
		fmt.Fprintln(w, "the results are not those of the file")
	case "none":
		fmt.Fprintln(w, "the file has no results to compare with")
	}
	for _, b := range r.Buffers {
		fmt.Fprintf(w, "  %s  %10s B  %s\n", b.SHA256[:16], humanize.Comma(int64(b.Bytes)), tracebuf.Printable(b.Name))
	}
	return w.Flush()
}

// loadTrace loads a trace file into a device, which isn't opened for a file that is no good. An empty name stands for the
// emulator of the file's chip, and is filled in.
func loadTrace(ctx context.Context, path string, device *string, opts ...reprise.Option) (*reprise.Trace, *reprise.Device, error) {
	file, err := readTraceFile(path)
	if err != nil {
		return nil, nil, err
	}
	if *device == "" {
		*device = "emu:" + file.Target.Arch.String()
	}
	target, err := parseTarget(*device)
	if err != nil {
		return nil, nil, err
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, nil, fmt.Errorf("trace: %w", err)
	}
	defer f.Close()
	dev, err := reprise.Open(ctx, target, opts...)
	if err != nil {
		return nil, nil, openError(*device, err)
	}
	t, err := dev.LoadTrace(ctx, bufio.NewReaderSize(f, 1<<16))
	if err != nil {
		return nil, nil, errors.Join(fmt.Errorf("%s: %w", path, err), dev.Close())
	}
	return t, dev, nil
}

// readTraceFile reads a trace file, without a device.
func readTraceFile(path string) (*tracebuf.File, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("trace: %w", err)
	}
	defer f.Close()
	file, err := tracebuf.Decode(bufio.NewReaderSize(f, 1<<16))
	if err != nil {
		return nil, fmt.Errorf("trace: %s: %w", path, err)
	}
	return file, nil
}
