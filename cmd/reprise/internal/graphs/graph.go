// Package graphs has the commands about reports of what ran and what it allocated.
package graphs

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/reprise-tt/reprise/cmd/reprise/internal/cli"
	"github.com/reprise-tt/reprise/ops/graph"
	"github.com/reprise-tt/reprise/ops/graph/visualizer"
)

// Cmd is the commands about reports of captures.
type Cmd struct {
	Show   graphShowCmd   `cmd:""`
	Table  graphTableCmd  `cmd:""`
	Peak   graphPeakCmd   `cmd:""`
	Dot    graphDotCmd    `cmd:""`
	Svg    graphSVGCmd    `cmd:""`
	Levels graphLevelsCmd `cmd:""`
	Import graphImportCmd `cmd:""`
	Perf   graphPerfCmd   `cmd:""`
}

type reportArg struct {
	Report string `arg:"" placeholder:"REPORT"`
}

func (a *reportArg) read(s cli.Streams) (*graph.Report, error) {
	r, err := cli.Read(a.Report, func(f io.Reader) (*graph.Report, error) {
		r, err := graph.Decode(f, graph.Limits{})
		if err != nil {
			err = fmt.Errorf("%s: %w", a.Report, err)
		}
		return r, err
	})
	if err != nil {
		return nil, err
	}
	for _, w := range r.Warnings() {
		fmt.Fprintln(s.Err, "warning:", w)
	}
	return r, nil
}

type describedArg struct {
	reportArg
	Arch string `enum:",wormhole,blackhole" default:"" placeholder:"wormhole|blackhole"`
}

func (a *describedArg) read(s cli.Streams) (*graph.Report, error) {
	r, err := a.reportArg.read(s)
	if err != nil {
		return nil, err
	}
	return r, r.Describe(a.Arch)
}

type graphShowCmd struct {
	reportArg
	cli.Reader
	Tree bool
}

func (c *graphShowCmd) Run(s cli.Streams) error {
	return with(s, c.read, func(r *graph.Report) error {
		if c.Tree {
			return r.PrintTree(s.Out)
		}
		return r.Graph.Print(s.Out)
	})
}

type picture struct {
	Output string `short:"o" placeholder:"FILE" type:"path"`
}

func (p *picture) OnlyReads() bool { return p.Output == "" }

func (p *picture) save(ctx context.Context, s cli.Streams, write func(io.Writer) error) error {
	if p.Output == "" {
		return write(s.Out)
	}
	return cli.Save(ctx, "--output", p.Output, write)
}

func with(s cli.Streams, read func(cli.Streams) (*graph.Report, error), f func(*graph.Report) error) error {
	r, err := read(s)
	if err != nil {
		return err
	}
	return f(r)
}

type graphLevelsCmd struct {
	reportArg
	cli.Reader
	MaxLevel int  `default:"1" placeholder:"N"`
	JSON     bool `name:"json"`
}

func (c *graphLevelsCmd) Run(s cli.Streams) error {
	if c.MaxLevel < 1 {
		return cli.Wrong("--max-level", fmt.Sprint(c.MaxLevel), "levels count from 1", "give 1 or more")
	}
	return with(s, c.read, func(r *graph.Report) error {
		vertices := graph.Levelized(r.Graph, c.MaxLevel)
		return s.Print(c.JSON, map[string]any{"vertices": vertices}, func(w cli.Text) {
			for _, v := range vertices {
				w.F("%d %s (level %d) %s\n", v.Counter, v.Name, v.Level, strings.Join(v.OutputShapes, ", "))
				for _, edges := range []struct {
					name string
					to   []int
				}{{"inputs", v.In}, {"outputs", v.Out}, {"internals", v.Internals}} {
					if len(edges.to) > 0 {
						w.F("  %s %v\n", edges.name, edges.to)
					}
				}
			}
		})
	})
}

type graphTableCmd struct {
	reportArg
	cli.Reader
	cli.AsJSON
}

func (c *graphTableCmd) Run(s cli.Streams) error {
	return with(s, c.read, func(r *graph.Report) error {
		rows := graph.Table(r.Graph)
		return s.Print(c.JSON, map[string]any{"rows": rows}, func(w cli.Text) {
			t := w.Table()
			t.Row("current_op", "event", "total_cb", "cb_in_buffers", "total_buffer")
			for _, row := range rows {
				t.Row(row.Op, row.Event, row.Circular, row.InBuffers, row.Buffers)
			}
			t.Flush()
		})
	})
}

type graphPeakCmd struct {
	describedArg
	cli.Reader
	Cores *int `placeholder:"N"`
	cli.AsJSON
}

type peakJSON struct {
	L1          int64 `json:"peak_l1"`
	L1InBuffers int64 `json:"peak_l1_in_buffers"` // circular buffers in buffers, which count twice
	Allocated   int64 `json:"peak_allocated"`
	DRAM        int64 `json:"peak_dram"`
	graph.CoreUse
	Intermediate int `json:"intermediate_tensors"`
	Outputs      int `json:"output_tensors"`
}

func (c *graphPeakCmd) Validate() error {
	if c.Cores != nil && *c.Cores < 1 {
		return cli.Wrong("--cores", *c.Cores, "pages need a core", "give 1 or more")
	}
	return nil
}

func (c *graphPeakCmd) Run(s cli.Streams) error {
	r, err := c.read(s)
	if err != nil {
		return err
	}
	g, cores := r.Graph, r.Cores()
	if c.Cores != nil {
		cores = *c.Cores
	}
	p := peakJSON{L1: graph.PeakL1(g), L1InBuffers: graph.PeakL1InBuffers(g), Allocated: graph.PeakAllocated(g),
		DRAM: graph.DRAMUsage(g).Peak, CoreUse: graph.PerCore(g, cores)}
	if p.Intermediate, p.Outputs, err = graph.CountTensors(g); err != nil && !errors.Is(err, graph.ErrNoFunctions) {
		return err
	}
	return s.Print(c.JSON, p, p.print)
}

func (p peakJSON) print(w cli.Text) {
	w.F("peak of L1: %d B, buffers of all cores and what programs take on one", p.L1)
	if p.L1InBuffers > 0 {
		w.F("; %d B of it are circular buffers that lie in buffers", p.L1InBuffers)
	}
	w.F("\npeak of what was allocated: %d B, of DRAM %d B\nper core: circular buffers %d B, ", p.Allocated, p.DRAM, p.Circular)
	if p.Dataflow+p.Scratchpad > 0 {
		w.F("dataflow buffers %d B, scratchpads %d B, ", p.Dataflow, p.Scratchpad)
	}
	w.F("buffers %d B, together %d B\ntensors: %d intermediate, %d outputs\n", p.CoreUse.L1, p.Total, p.Intermediate, p.Outputs)
}

type drawing struct {
	reportArg
	picture
}

type graphDotCmd struct {
	drawing
	Level int `placeholder:"N"`
}

func (c *graphDotCmd) Validate() error {
	if c.Level < 0 {
		return cli.Wrong("--level", c.Level, "levels count from 1", "give 1 or more")
	}
	return nil
}

func (c *graphDotCmd) Run(ctx context.Context, s cli.Streams) error {
	return with(s, c.read, func(r *graph.Report) error {
		return c.save(ctx, s, func(w io.Writer) error {
			if c.Level > 0 {
				return r.Graph.DotFlow(w, c.Level)
			}
			return r.Graph.Dot(w)
		})
	})
}

type graphSVGCmd struct{ drawing }

func (c *graphSVGCmd) Run(ctx context.Context, s cli.Streams) error {
	return with(s, c.read, func(r *graph.Report) error { return c.save(ctx, s, r.Graph.SVG) })
}

type graphImportCmd struct {
	Paths  []string `arg:"" placeholder:"REPORT"`
	Output string   `short:"o" required:"" placeholder:"DB"`
	Arch   string   `enum:",wormhole,blackhole" default:"" placeholder:"wormhole|blackhole"`
	SVG    bool     `name:"svg"`
	cli.AsJSON
}

func (c *graphImportCmd) Run(ctx context.Context, s cli.Streams) error {
	db := c.Output
	if st, err := os.Stat(db); err == nil && st.IsDir() || err != nil && filepath.Ext(db) == "" { // the visualizer opens folders
		db = filepath.Join(db, "db.sqlite")
	}
	sum, err := visualizer.Import(ctx, db, c.Paths, visualizer.Options{Arch: c.Arch, SVG: c.SVG})
	if err != nil {
		return err
	}
	if c.JSON {
		return cli.PrintJSON(s.Out, sum)
	}
	for _, w := range sum.Warnings {
		fmt.Fprintln(s.Err, "warning:", w)
	}
	_, err = fmt.Fprintf(s.Out, "%s: %d reports, %d operations, %d tensors, %d buffers, %d errors, %d pages\n", db, sum.Files,
		sum.Operations, sum.Tensors, sum.Buffers, sum.Errors, sum.Pages)
	return err
}

type graphPerfCmd struct {
	reportArg
	Output string `short:"o" required:"" placeholder:"DIR"`
	cli.AsJSON
}

// Run writes all files or none.
func (c *graphPerfCmd) Run(ctx context.Context, s cli.Streams) error {
	r, err := cli.Until(ctx, func() (*graph.Report, error) { return c.read(s) })
	if err != nil {
		return err
	}
	if len(r.Programs) == 0 {
		return fmt.Errorf("%s: it has no times of programs on a device: capture what runs, and wait for it before the capture ends",
			c.Report)
	}
	if err := os.MkdirAll(c.Output, 0o777); err != nil {
		return err
	}
	name := strings.TrimSuffix(filepath.Base(c.Report), filepath.Ext(c.Report))
	times := filepath.Join(c.Output, graph.PerfFile+name+".csv")
	if err := cli.SaveTogether("--output", []cli.FileText{
		{Path: filepath.Join(c.Output, graph.DeviceLogFile), Write: r.WriteDeviceLog},
		{Path: filepath.Join(c.Output, graph.HostLogFile), Write: func(io.Writer) error { return nil }},
		{Path: times, Write: r.WritePerformance},
	}); err != nil {
		return err
	}
	return s.Print(c.JSON, map[string]any{"file": times, "programs": len(r.Programs)}, func(w cli.Text) {
		w.F("%s: %s of programs\n", times, cli.Count(len(r.Programs), "run"))
	})
}
