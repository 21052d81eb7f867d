package cards

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/dustin/go-humanize"

	"github.com/reprise-tt/reprise/cmd/reprise/internal/cli"
	"github.com/reprise-tt/reprise/kmd"
)

// InfoCmd prints all about a card.
type InfoCmd struct{ cardFlags }

// infoJSON is a card with the driver's offers.
type infoJSON struct {
	cardJSON
	Windows  []windowJSON  `json:"windows"`
	Mappings []mappingJSON `json:"mappings"`
	Features []featureJSON `json:"features"`
	Locks    []string      `json:"held_locks"`
}

type windowJSON struct {
	Size  uint64 `json:"size"`
	Count int    `json:"count"`
}

type mappingJSON struct {
	BAR     int    `json:"bar"`
	Caching string `json:"caching"`
	Size    uint64 `json:"size"`
}

type featureJSON struct {
	Name string `json:"name"`
	Has  bool   `json:"has"`
}

var features = []kmd.Feature{kmd.FeatureNOCCleanup, kmd.FeaturePower, kmd.FeatureReadOnlyPins, kmd.FeatureExport,
	kmd.FeatureSMCMessage, kmd.FeatureNOCAccess}

func (c *InfoCmd) Run(ctx context.Context, s cli.Streams) error {
	t, err := oneCard(ctx, c.Device)
	if err != nil {
		return err
	}
	// The card stays open: an emulated card lives no longer.
	d, err := kmd.Open(ctx, t, kmd.WithoutPower(), kmd.WithoutWaiting())
	if err != nil {
		return cli.OpenError(t.String(), err)
	}
	out, err := about(ctx, t, d)
	if err := errors.Join(err, d.Close()); err != nil {
		return err
	}
	return s.Print(c.JSON, out, out.print)
}

func about(ctx context.Context, t kmd.Target, d *kmd.Device) (*infoJSON, error) {
	card := kmd.Inspect(ctx, t)
	out := &infoJSON{cardJSON: toJSON(&card), Mappings: []mappingJSON{}, Locks: []string{}}
	p := d.Params()
	for _, w := range p.Windows {
		if k := p.BAR.KernelWindow; k >= w.First && k < w.First+w.Count {
			w.Count-- // the driver's own
		}
		out.Windows = append(out.Windows, windowJSON{w.Size, w.Count})
	}
	for _, f := range features {
		out.Features = append(out.Features, featureJSON{f.String(), d.Has(f)})
	}
	maps, err := d.Mappings()
	if err != nil {
		return nil, err
	}
	for _, m := range maps {
		out.Mappings = append(out.Mappings, mappingJSON{m.BAR, m.Caching.String(), m.Size})
	}
	locks, err := d.Locks()
	if err != nil {
		return nil, err
	}
	for _, l := range locks {
		out.Locks = append(out.Locks, l.Index.String())
	}
	return out, nil
}

func (i *infoJSON) print(out cli.Text) {
	t := out.Table(0)
	line := func(name, value string) { t.Row(name, value) }
	line("PCI address", fmt.Sprintf("%s (%s, subsystem %s)", i.PCI, i.PCIID, i.SubsystemID))
	line("Node", i.Node)
	line("Board", fmt.Sprintf("%s, serial %s", cli.Dash(i.Board), cli.Dash(i.Serial)))
	line("Chip", fmt.Sprintf("%s, id %s", cli.Dash(i.Arch), cli.Dash(i.ASIC)))
	if g := i.Workers; g != nil {
		line("Workers", fmt.Sprintf("%d x %d, %d DRAM banks", g.Width, g.Height, i.DRAMBanks))
	}
	if h := i.Harvesting; h != nil {
		var masks []string
		for _, m := range []struct {
			name string
			bits uint32
		}{{"Tensix", h.Tensix}, {"DRAM", h.DRAM}, {"Ethernet", h.Ethernet}} {
			if m.bits != 0 {
				masks = append(masks, fmt.Sprintf("%s %#x", m.name, m.bits))
			}
		}
		line("Fused off", list(masks))
	}
	line("Driver", "tt-kmd "+cli.Dash(i.Driver))
	line("Firmware", cli.Dash(i.Firmware))
	line("Clocks", known(reading{i.AICLK, "AI %.0f MHz"}, reading{i.AXICLK, "AXI %.0f MHz"}))
	line("Temperature", cli.Unit(i.Temperature, "%.1f C"))
	line("Power", known(reading{i.Power, "%.0f W"}, reading{i.Current, "%.0f A"}, reading{i.Voltage, "%.3f V"}))
	line("IOMMU", i.IOMMU)
	if i.NUMANode != nil {
		line("Memory node", fmt.Sprint(*i.NUMANode))
	}
	var names []string
	for _, x := range i.Windows {
		names = append(names, fmt.Sprintf("%d of %s", x.Count, humanize.IBytes(x.Size)))
	}
	line("Windows", strings.Join(names, ", "))
	names = nil
	for _, m := range i.Mappings {
		names = append(names, fmt.Sprintf("BAR %d %s %s", m.BAR, m.Caching, humanize.IBytes(m.Size)))
	}
	line("Mappings", list(names))
	names = nil
	for _, f := range i.Features {
		if f.Has {
			names = append(names, f.Name)
		}
	}
	line("Driver offers", list(names))
	line("Held locks", list(i.Locks))
	line("Open by", holderNames(i.Holders))
	if i.Problem != "" {
		line("Problem", i.Problem)
	}
	t.Flush()
}

func list(l []string) string { return cli.Dash(strings.Join(l, ", ")) }

// reading is a measured value with its format.
type reading struct {
	value  *float64
	format string
}

// known lists the known readings.
func known(l ...reading) string {
	var out []string
	for _, r := range l {
		if r.value != nil {
			out = append(out, fmt.Sprintf(r.format, *r.value))
		}
	}
	return list(out)
}
