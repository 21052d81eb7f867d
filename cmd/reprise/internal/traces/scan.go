package traces

import (
	"bufio"
	"context"
	"fmt"
	"strings"

	"github.com/dustin/go-humanize"

	"github.com/reprise-tt/reprise/cmd/reprise/internal/cli"
	"github.com/reprise-tt/reprise/dispatch/cq"
	"github.com/reprise-tt/reprise/tracebuf/metaltrace"
)

type scanJSON struct {
	Source string          `json:"source"`
	Arch   string          `json:"arch"`
	Window uint64          `json:"window"` // bytes of each bank
	Traces []scanTraceJSON `json:"traces"`
}

type scanTraceJSON struct {
	Addr      uint64   `json:"addr"` // in every DRAM bank
	Pages     int      `json:"pages"`
	PageSize  int      `json:"page_size"`
	Bytes     int      `json:"bytes"` // of the commands
	Programs  int      `json:"programs"`
	Revisions []string `json:"revisions"` // of the protocol, in which the commands are valid up to their EXEC_BUF_END
}

// scan looks for traces at the top of the DRAM banks.
func (s *importSource) scan(ctx context.Context, window uint64) ([]metaltrace.Candidate, error) {
	banks := s.ch.DRAMBanks()
	return metaltrace.Scan(ctx, s, len(banks), cq.Layout(s.ch.Arch()), banks[0].Size, window)
}

// list prints what may be traces in the device's DRAM.
func (c *traceImportCmd) list(ctx context.Context, to cli.Streams, src *importSource) error {
	found, err := src.scan(ctx, c.Window)
	if err != nil {
		return fmt.Errorf("trace import: %s: %w", c.Source, err)
	}
	out := scanJSON{Source: c.Source, Arch: src.ch.Arch().String(), Window: c.Window, Traces: []scanTraceJSON{}}
	for _, f := range found {
		out.Traces = append(out.Traces, scanTraceJSON{f.Addr, f.Pages, f.PageSize, f.Size, f.Programs, f.Revisions})
	}
	if c.JSON {
		return cli.PrintJSON(to.Out, out)
	}
	w := bufio.NewWriter(to.Out)
	fmt.Fprintf(w, "%s: %s, %s B at the top of each DRAM bank, %d traces\n", c.Source, out.Arch, humanize.Comma(int64(c.Window)),
		len(found))
	for _, f := range found {
		fmt.Fprintf(w, "--addr %#x --pages %d --page-size %d: %d programs, %s B of commands up to their EXEC_BUF_END, valid in %s\n",
			f.Addr, f.Pages, f.PageSize, f.Programs, humanize.Comma(int64(f.Size)), strings.Join(f.Revisions, ", "))
	}
	return w.Flush()
}
