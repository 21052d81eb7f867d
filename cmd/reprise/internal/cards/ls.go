package cards

import (
	"context"
	"fmt"

	"github.com/reprise-tt/reprise/cmd/reprise/internal/cli"
)

// LsCmd lists cards.
type LsCmd struct{ cardFlags }

func (LsCmd) Help() string {
	return "Cards are named by their PCI address, since numbers of device nodes change."
}

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
	return s.Print(c.JSON, out, func(w cli.Text) { printCards(w, out.Devices) })
}

func printCards(w cli.Text, all []cardJSON) {
	if len(all) == 0 {
		w.F("No Tenstorrent device has a node on this machine; reprise doctor says why. Without one: --device emu:blackhole\n")
		return
	}
	t, notes := w.Table(0), ""
	t.Row("PCI", "NODE", "BOARD", "CHIP", "WORKERS", "FIRMWARE", "AICLK", "TEMP", "POWER", "IOMMU", "OPEN BY")
	for _, d := range all {
		grid := "-"
		if d.Workers != nil {
			grid = fmt.Sprintf("%dx%d", d.Workers.Width, d.Workers.Height)
		}
		t.Row(d.PCI, d.Node, cli.Dash(d.Board), cli.Dash(d.Arch), grid, cli.Dash(d.Firmware), cli.Unit(d.AICLK, "%.0f MHz"),
			cli.Unit(d.Temperature, "%.0f C"), cli.Unit(d.Power, "%.0f W"), d.IOMMU, holderNames(d.Holders))
		if d.Problem != "" {
			notes += d.PCI + ": " + d.Problem + "\n"
		}
	}
	t.Flush()
	w.F("%s", notes)
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
	return list(names)
}
