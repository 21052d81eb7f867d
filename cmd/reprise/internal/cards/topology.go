package cards

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/cmd/reprise/internal/cli"
	"github.com/reprise-tt/reprise/hwtest/target"
	"github.com/reprise-tt/reprise/kmd"
	"github.com/reprise-tt/reprise/kmd/remote"
	"github.com/reprise-tt/reprise/mesh"
	"github.com/reprise-tt/reprise/mesh/topology"
)

// TopologyCmd shows how a machine's chips are linked.
type TopologyCmd struct {
	Device string `help:"Machine to show instead of this one: ${machine_help}." placeholder:"MACHINE"`
	SVG    string `help:"Also draw the chips and links into this SVG file." name:"svg" placeholder:"FILE" type:"path"`
	cli.AsJSON
}

func (TopologyCmd) Help() string {
	return "Prints what the chips' Ethernet firmware says; a chip without a PCI interface is read through the one in front of it. Links that are down and chips that can't be read are no failure of the command."
}

func (c *TopologyCmd) machine() (*target.Machine, error) {
	return cli.ParseMachine("--device", c.Device)
}

func (c *TopologyCmd) Validate() (err error) {
	if c.Device != "" {
		_, err = c.machine()
	}
	return err
}

// targets returns the cards to ask, and a function that closes them.
func (c *TopologyCmd) targets(ctx context.Context) ([]kmd.Target, func() error, error) {
	if c.Device != "" {
		m, err := c.machine()
		if err != nil {
			return nil, nil, err
		}
		return m.Open()
	}
	cards, err := kmd.Host().List(ctx)
	var l []kmd.Target
	for _, card := range cards {
		l = append(l, kmd.Path(card.Node))
	}
	return l, func() error { return nil }, err
}
func (c *TopologyCmd) Run(ctx context.Context, s cli.Streams) (err error) {
	targets, end, err := c.targets(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, end()) }()
	var devices []*kmd.Device
	for _, t := range targets {
		d, err := kmd.Open(ctx, t, kmd.WithoutPower())
		if err != nil {
			return err
		}
		defer d.Close()
		devices = append(devices, d)
	}
	g, err := topology.Discover(ctx, devices)
	if err != nil {
		return err
	}
	if c.SVG != "" { // the table is printed even if the file can't be written
		defer func() {
			err = errors.Join(err, cli.Save(ctx, "--svg", c.SVG, func(w io.Writer) error { return mesh.Draw(w, g) }))
		}()
	}
	return s.Print(c.JSON, graphJSON(g), func(w cli.Text) { printGraph(w, g) })
}

type topologyJSON struct {
	Arch     string             `json:"arch,omitempty"`
	Chips    []topologyChipJSON `json:"chips"`
	Links    []topologyLinkJSON `json:"links"`
	Degraded []string           `json:"degraded"`
}

// topologyChipJSON is a chip for scripts. Unknown fields are absent.
type topologyChipJSON struct {
	Name     string   `json:"name"`
	PCI      string   `json:"pci,omitempty"`
	Node     string   `json:"node,omitempty"`
	Serial   string   `json:"serial,omitempty"`
	ASIC     string   `json:"asic,omitempty"`
	Location int      `json:"location"`
	Place    *[2]int  `json:"place,omitempty"`
	Behind   *endJSON `json:"behind,omitempty"`
	Up       int      `json:"links_up"`
	Problem  string   `json:"problem,omitempty"`
}

type endJSON struct {
	Chip    int `json:"chip"`
	Channel int `json:"channel"`
}

type topologyLinkJSON struct {
	A     endJSON `json:"a"`
	B     endJSON `json:"b"`
	State string  `json:"state"`
}

func graphJSON(g *topology.Graph) topologyJSON {
	out := topologyJSON{Chips: []topologyChipJSON{}, Links: []topologyLinkJSON{}, Degraded: append([]string{}, g.Degraded()...)}
	if g.Arch != 0 {
		out.Arch = g.Arch.String()
	}
	for i := range g.Chips {
		c := &g.Chips[i]
		j := topologyChipJSON{Name: c.Name, PCI: c.PCI, Node: c.Node, Serial: c.Serial, ASIC: c.ASIC, Location: c.Location, Up: upLinks(g, i)}
		// On Wormhole (0,0) is a place too, known along with the chip's identity.
		if c.Place != (remote.Place{}) || g.Arch == chip.Wormhole && c.ASIC != "" {
			j.Place = &[2]int{int(c.Place.X), int(c.Place.Y)}
		}
		if c.Gateway != nil {
			j.Behind = &endJSON{c.Gateway.Chip, c.Gateway.Channel}
		}
		if c.Problem != nil {
			j.Problem = c.Problem.Error()
		}
		out.Chips = append(out.Chips, j)
	}
	for _, l := range g.Links {
		out.Links = append(out.Links, topologyLinkJSON{endJSON{l.A.Chip, l.A.Channel}, endJSON{l.B.Chip, l.B.Channel}, l.State.String()})
	}
	return out
}

func upLinks(g *topology.Graph, i int) int {
	n := 0
	for _, l := range g.Neighbors(i) {
		n += l
	}
	return n
}

func printGraph(w cli.Text, g *topology.Graph) {
	if len(g.Chips) == 0 {
		w.F("No Tenstorrent device has a node on this machine; reprise doctor says why. Without one: --device emu:t3000\n")
		return
	}
	t := w.Table(0)
	t.Row("CHIP", "WHERE", "SERIAL", "ASIC", "LINKS UP", "TO")
	for i := range g.Chips {
		c := &g.Chips[i]
		var to []string
		near := g.Neighbors(i)
		for j := range g.Chips {
			if n := near[j]; n > 0 {
				to = append(to, fmt.Sprintf("%d (%d)", j, n))
			}
		}
		t.Row(i, c.Name, cli.Dash(c.Serial), cli.Dash(c.ASIC), upLinks(g, i), list(to))
	}
	t.Flush()
	for _, d := range g.Degraded() {
		w.F("%s\n", d)
	}
}
