package main

import (
	"context"
	"fmt"
	"strings"
	"text/tabwriter"
)

// lsCmd lists cards.
type lsCmd struct {
	Device string `help:"Only this one: ${card_help}." placeholder:"DEVICE"`
	JSON   bool   `help:"Print one JSON object instead of a table." name:"json"`
}

// Help is shown by --help.
func (lsCmd) Help() string {
	return "Cards are named by their PCI address, since numbers of device nodes change. " + exitHelp
}

// Validate checks the flags.
func (c *lsCmd) Validate() error { return checkName(c.Device) }

// Run prints the cards.
func (c *lsCmd) Run(ctx context.Context, s streams) error {
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
		return printJSON(s.out, out)
	}
	if len(l) == 0 {
		_, err := fmt.Fprintln(s.out, "No Tenstorrent device has a node on this machine; reprise doctor says why. Without one: --device emu:blackhole")
		return err
	}
	w := tabwriter.NewWriter(s.out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "PCI\tNODE\tBOARD\tCHIP\tWORKERS\tFIRMWARE\tAICLK\tTEMP\tPOWER\tIOMMU\tOPEN BY")
	var notes []string
	for _, d := range out.Devices {
		grid := "-"
		if d.Workers != nil {
			grid = fmt.Sprintf("%dx%d", d.Workers.Width, d.Workers.Height)
		}
		fmt.Fprintln(w, strings.Join([]string{d.PCI, d.Node, dash(d.Board), dash(d.Arch), grid, dash(d.Firmware),
			unit(d.AICLK, "%.0f MHz"), unit(d.Temperature, "%.0f C"), unit(d.Power, "%.0f W"), d.IOMMU, holderNames(d.Holders)}, "\t"))
		if d.Problem != "" {
			notes = append(notes, d.PCI+": "+d.Problem)
		}
	}
	if err := w.Flush(); err != nil {
		return err
	}
	for _, n := range notes {
		if _, err := fmt.Fprintln(s.out, n); err != nil {
			return err
		}
	}
	return nil
}

func dash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

func unit(v *float64, format string) string {
	if v == nil {
		return "-"
	}
	return fmt.Sprintf(format, *v)
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
	return dash(strings.Join(names, ", "))
}
