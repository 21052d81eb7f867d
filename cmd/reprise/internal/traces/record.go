package traces

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/reprise-tt/reprise/cmd/reprise/internal/cli"
	"github.com/reprise-tt/reprise/internal/tables"
	"github.com/reprise-tt/reprise/internal/ttnn/recording"
	"github.com/reprise-tt/reprise/ops/safetensors"
	"github.com/reprise-tt/reprise/tracebuf"
)

func readRecording(ctx context.Context, name string) (*recording.Recording, error) {
	f, err := cli.Open(ctx, name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var tensors io.Reader
	if t, err := os.Open(name + recording.TensorsSuffix); err == nil {
		defer t.Close()
		tensors = t
	}
	return cli.Until(ctx, func() (*recording.Recording, error) { return recording.Read(f, tensors) })
}

// openRecording returns nothing for a file that isn't a recording.
func (c *traceImportCmd) openRecording(ctx context.Context) (*memory, []byte, error) {
	r, err := readRecording(ctx, c.Source)
	if errors.Is(err, recording.ErrOther) {
		return nil, nil, nil
	}
	if err != nil {
		return nil, nil, c.of(c.Source, err)
	}
	var addresses []string
	for _, t := range r.Traces {
		if addresses = append(addresses, fmt.Sprintf("%#x", t.Addr)); t.Addr == c.Addr || len(r.Traces) == 1 && c.Addr == 0 {
			c.recorded = t
		}
	}
	if c.recorded == nil {
		return nil, nil, c.of(c.Source, noneOf(c.Addr, addresses))
	}
	return &memory{ctx: ctx, ch: r.Chip, of: c.recorded.Memory}, c.recorded.Commands, nil
}

func noneOf(addr uint64, addresses []string) error {
	return cli.Wrong("--addr", fmt.Sprintf("%#x", addr), "it is none of the replayed traces'", "give one of "+strings.Join(addresses, ", "))
}

// Recorded are the flags for a recording's traces.
type Recorded struct {
	Output  string `short:"o" required:"" placeholder:"FILE"`
	Addr    uint64 `placeholder:"ADDRESS"`
	Weights string `placeholder:"FILE" type:"existingfile"`
	fileFlags
}

// Save makes a file of each trace of a recording, or of the one at Addr if that isn't 0, and
// replays it: an error says that the results aren't TT-NN's. The second file has -2 before its
// extension.
func (f *Recorded) Save(ctx context.Context, s cli.Streams, recorded, cache string) error {
	r, err := readRecording(ctx, recorded)
	if err != nil {
		return err
	}
	n := 0
	var addresses []string
	for _, t := range r.Traces {
		addresses = append(addresses, fmt.Sprintf("%#x", t.Addr))
		if f.Addr != 0 && t.Addr != f.Addr {
			continue
		}
		name := f.Output
		if n++; n > 1 {
			ext := filepath.Ext(name)
			name = fmt.Sprintf("%s-%d%s", strings.TrimSuffix(name, ext), n, ext)
		}
		c := traceImportCmd{Source: recorded, Cache: []string{cache}, Output: name, Name: "recorded", weights: f.Weights, recorded: t,
			fileFlags: f.fileFlags}
		made, firmware, err := c.importFrom(ctx, &memory{ctx: ctx, ch: r.Chip, of: t.Memory}, t.Commands)
		if err != nil {
			return err
		}
		if err := c.replayRecorded(ctx, s, made, firmware); err != nil {
			return err
		}
	}
	if n == 0 {
		return noneOf(f.Addr, addresses)
	}
	return nil
}

// replayRecorded replays the file, and prints its interface and that the results are TT-NN's.
func (c *traceImportCmd) replayRecorded(ctx context.Context, s cli.Streams, made *importJSON, firmware string) error {
	run := traceRunCmd{loadFlags: loadFlags{File: c.Output, Firmware: firmware}, Replays: 1, tensorFlags: tensorFlags{Weights: c.weights},
		recorded: true}
	file, err := run.read(ctx)
	if err != nil {
		return err
	}
	r, wrong, err := run.run(ctx, s)
	if err != nil {
		return err
	}
	return errors.Join(s.Print(false, nil, func(w cli.Text) {
		w.F("%s: the trace at %#x, replayed %s, of %s\n", c.Output, c.recorded.Addr, cli.Count(c.recorded.Replays, "time"),
			cli.Count(len(made.Programs), "program"))
		w.F("base firmware of %s: %s\n", made.Workers, firmware)
		c.printInterface(w, file)
		if r.Results == "same" {
			w.F("replayed it in %s: the results are TT-NN's\n", tables.Duration(1e9*r.Seconds))
		}
	}), wrong)
}

func (c *traceImportCmd) printInterface(w cli.Text, file *tracebuf.File) {
	referred, contents := 0, 0
	for i := range file.Image.Buffers {
		b := &file.Image.Buffers[i]
		kind := ""
		switch t := b.Tensor; {
		case b.Output:
			kind = "output"
		case t != nil && t.Input, t == nil && strings.HasPrefix(b.Name, "in"):
			kind = "input"
		case t != nil && t.Weight != "":
			referred++
		}
		if kind != "" {
			t := toTensor(b.Tensor)
			if t != nil {
				t.Input = false // as said
			}
			w.F("  %-6s %s: %s in DRAM%v", kind, tracebuf.Printable(b.Name), cli.Bytes(b.Size), t)
			if t == nil {
				w.F("; %s: --tensor says what they hold", pagesText(b.Size, b.PageSize))
			}
			w.F("\n")
		}
	}
	for _, d := range file.Data {
		contents += len(d.Bytes)
	}
	w.F("  %s of contents", cli.Bytes(contents))
	if c.weights != "" {
		w.F("; %s from %s", cli.Count(referred, "tensor"), c.weights)
	}
	w.F("\n")
}

// refer leaves weights of a trace to a safetensors file.
func refer(trace *tracebuf.File, file string) error {
	f, err := safetensors.Open(file)
	if err != nil {
		return err
	}
	f.Refer(trace)
	return f.Close()
}
