package graphs

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/reprise-tt/reprise/cmd/reprise/internal/cli"
	"github.com/reprise-tt/reprise/ops/graph"
)

type graphPerfCmd struct {
	reportArg
	Folder string `arg:"" help:"The folder of the performance report, which is created." placeholder:"FOLDER"`
	JSON   bool   `help:"Print one JSON object instead of text." name:"json"`
}

// Run writes the files of a performance report, or none of them: the visualizer takes a folder for one by what is in it.
func (c *graphPerfCmd) Run(ctx context.Context, s cli.Streams) error {
	r, err := cli.Until(ctx, c.read)
	if err != nil {
		return err
	}
	if len(r.Programs) == 0 {
		return fmt.Errorf("%s: it has no times of programs on a device: capture what runs, and wait for it before the capture ends",
			c.Report)
	}
	if err := os.MkdirAll(c.Folder, 0o777); err != nil {
		return err
	}
	name := strings.TrimSuffix(filepath.Base(c.Report), filepath.Ext(c.Report))
	times := filepath.Join(c.Folder, graph.PerfFile+name+".csv")
	if err := cli.SaveTogether("FOLDER", []cli.FileText{
		{Path: filepath.Join(c.Folder, graph.DeviceLogFile), Write: r.WriteDeviceLog},
		{Path: filepath.Join(c.Folder, graph.HostLogFile), Write: func(io.Writer) error { return nil }},
		{Path: times, Write: r.WritePerformance},
	}); err != nil {
		return err
	}
	if c.JSON {
		return cli.PrintJSON(s.Out, map[string]any{"file": times, "programs": len(r.Programs)})
	}
	_, err = fmt.Fprintf(s.Out, "%s: %d runs of programs\n", times, len(r.Programs))
	return err
}
