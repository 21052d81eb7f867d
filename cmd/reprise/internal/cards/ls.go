package cards

import (
	"context"
	"fmt"
	"strings"
	"text/tabwriter"

	"github.com/reprise-tt/reprise/cmd/reprise/internal/cli"
)

// LsCmd lists cards.
type LsCmd struct {
	Device string `help:"Only this one: ${card_help}." placeholder:"DEVICE"`
	JSON   bool   `help:"Print one JSON object instead of a table." name:"json"`
}

// Help is shown by --help.
func (LsCmd) Help() string {
	return "Cards are named by their PCI address, since numbers of device nodes change. " + cli.ExitHelp
}

// Validate checks the flags.
func (c *LsCmd) Validate() error { return checkName(c.Device) }

// Run prints the cards.
func (c *LsCmd) Run(ctx context.Context, s cli.Streams) error {
	l, err := cards(ctx, c.Device)
	if err != nil {
		return err
	}
	out := struct {
		Devices []cardJSON `json:"devices"`
	}{[]cardJSON{}}
	for i := range l {
		out.Devices = append(out.Devices, toJSON(&l[i]))
	}
	if c.JSON {
		return cli.PrintJSON(s.Out, out)
	}
	if len(l) == 0 {
		_, err := fmt.Fprintln(s.Out,
			"No Tenstorrent device has a node on this machine; reprise doctor says why. Without one: --device emu:blackhole")
		return err
	}
	w := tabwriter.NewWriter(s.Out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "PCI\tNODE\tBOARD\tCHIP\tWORKERS\tFIRMWARE\tAICLK\tTEMP\tPOWER\tIOMMU\tOPEN BY")
	var notes []string
	for _, d := range out.Devices {
		grid := "-"
		if d.Workers != nil {
			grid = fmt.Sprintf("%dx%d", d.Workers.Width, d.Workers.Height)
		}
		fmt.Fprintln(w, strings.Join([]string{d.PCI, d.Node, cli.Dash(d.Board), cli.Dash(d.Arch), grid, cli.Dash(d.Firmware),
			cli.Unit(d.AICLK,
				"%.0f MHz"), cli.Unit(d.Temperature, "%.0f C"), cli.Unit(d.Power, "%.0f W"), d.IOMMU, holderNames(d.Holders)}, "\t"))
		if d.Problem != "" {
			notes = append(notes, d.PCI+": "+d.Problem)
		}
	}
	if err := w.Flush(); err != nil {
		return err
	}
	for _, n := range notes {
		if _, err := fmt.Fprintln(s.Out, n); err != nil {
			return err
		}
	}
	return nil
}

func holderNames(l []holderJSON) string {
	var names []string
	for _, h := range l {
		if h.Name == "" {
			names = append(names, fmt.Sprint(h.PID))
		} else {
			names = append(names, fmt.Sprintf("%s (%d)", h.Name, h.PID))
		}
	}
	return cli.Dash(strings.Join(names, ", "))
}
