package traces

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/reprise-tt/reprise/allocator"
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
	for _, parts := range r.Traces {
		i, addr := first(parts)
		if addresses = append(addresses, fmt.Sprintf("%#x", addr)); addr == c.Addr || len(r.Traces) == 1 && c.Addr == 0 {
			if len(parts) > 1 {
				return nil, nil, fmt.Errorf("trace import: %s: the trace is over %d chips: reprise ttnn record makes its file",
					c.Source, len(parts))
			}
			c.recorded, c.recording, c.chip = parts[i], r, i
		}
	}
	if c.recorded == nil {
		return nil, nil, c.of(c.Source, noneOf(c.Addr, addresses))
	}
	return &memory{ctx: ctx, ch: r.Chips[c.chip], of: c.recorded.Memory}, c.recorded.Commands, nil
}

// first returns the first chip that has a part of a trace, and the trace's address.
func first(parts []*recording.Trace) (at int, addr uint64) {
	at = slices.IndexFunc(parts, func(t *recording.Trace) bool { return t != nil })
	return at, parts[at].Addr
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
	for _, parts := range r.Traces {
		_, addr := first(parts)
		addresses = append(addresses, fmt.Sprintf("%#x", addr))
		if f.Addr != 0 && addr != f.Addr {
			continue
		}
		name := f.Output
		if n++; n > 1 {
			ext := filepath.Ext(name)
			name = fmt.Sprintf("%s-%d%s", strings.TrimSuffix(name, ext), n, ext)
		}
		c := traceImportCmd{Source: recorded, Cache: []string{cache}, Output: name, Name: "recorded", weights: f.Weights, recording: r,
			fileFlags: f.fileFlags}
		if err := c.saveParts(ctx, s, parts); err != nil {
			return err
		}
	}
	if n == 0 {
		return noneOf(f.Addr, addresses)
	}
	return nil
}

// saveParts makes and replays the file of one trace.
func (c *traceImportCmd) saveParts(ctx context.Context, s cli.Streams, parts []*recording.Trace) error {
	files := make([]*tracebuf.File, len(parts))
	var made *importJSON
	programs := 0
	for i, t := range parts {
		if t == nil {
			continue
		}
		var err error
		c.chip, c.recorded = i, t
		if made, files[i], err = c.importFrom(ctx, &memory{ctx: ctx, ch: c.recording.Chips[i], of: t.Memory}, t.Commands); err != nil {
			return err
		}
		programs += len(made.Programs)
	}
	if err := c.write(ctx, files...); err != nil {
		return err
	}
	run := traceRunCmd{loadFlags: loadFlags{File: c.Output, Firmware: made.Firmware}, Replays: 1,
		tensorFlags: tensorFlags{Weights: c.weights}, recorded: true}
	r, wrong, err := run.run(ctx, s)
	if err != nil {
		return err
	}
	return errors.Join(s.Print(false, nil, func(w cli.Text) {
		w.F("%s: the trace at %#x, replayed %s, of %s", c.Output, c.recorded.Addr, cli.Count(c.recorded.Replays, "time"),
			cli.Count(programs, "program"))
		if len(files) > 1 {
			w.F(" on %d chips", len(files))
		}
		w.F("\nbase firmware of %s: %s\n", made.Workers, made.Firmware)
		c.printInterface(w, files)
		if r.Results == "same" {
			w.F("replayed it in %s: the results are TT-NN's\n", tables.Duration(1e9*r.Seconds))
		}
	}), wrong)
}

func (c *traceImportCmd) printInterface(w cli.Text, files []*tracebuf.File) {
	referred, contents := 0, 0
	for i, f := range files {
		if f == nil {
			continue
		}
		referred += printBuffers(w, f, func(name string) string { return nameOn(i, len(files), name) })
		for _, d := range f.Data {
			contents += len(d.Bytes)
		}
		if f.Setup != nil {
			w.F("  %s for the fabric's Ethernet tiles and tables\n", cli.Count(len(f.Setup.Ops), "store"))
		}
	}
	w.F("  %s of contents", cli.Bytes(contents))
	if c.weights != "" {
		w.F("; %s from %s", cli.Count(referred, "tensor"), c.weights)
	}
	w.F("\n")
}

// printBuffers prints inputs and outputs, and returns the number of weights in another file.
func printBuffers(w cli.Text, file *tracebuf.File, named func(string) string) (referred int) {
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
			w.F("  %-6s %s: %s in %v%v", kind, tracebuf.Printable(named(b.Name)), cli.Bytes(b.Size), allocator.Kind(b.Kind), t)
			if t == nil {
				w.F("; %s: --tensor says what they hold", pagesText(b.Size, b.PageSize))
			}
			w.F("\n")
		}
	}
	return referred
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
