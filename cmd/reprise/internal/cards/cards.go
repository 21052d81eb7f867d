// Package cards has the commands about the cards of a machine.
package cards

import (
	"context"
	"fmt"
	"os"
	"regexp"
	"strings"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/cmd/reprise/internal/cli"
	"github.com/reprise-tt/reprise/kmd"
)

// CardHelp describes names of cards.
const CardHelp = "PCI address such as 0000:01:00.0, board serial number, device node, socket:PATH where reprise sim serves a card, ttsim:PATH of a libttsim.so, or emu:blackhole, emu:wormhole (with options: emu:blackhole,no-iommu,driver=2.4.0,fault=busy-windows)"

var (
	pciAddress = regexp.MustCompile(`^([0-9a-fA-F]{4}:)?[0-9a-fA-F]{2}:[0-9a-fA-F]{2}\.[0-7]$`)
	serial     = regexp.MustCompile(`^[0-9a-fA-F]{16}$`)
)

// cardFlags are the flags of most commands about cards.
type cardFlags struct {
	Device string `help:"${card_help}. If not given, all cards, or the only one for info and reset." placeholder:"DEVICE"`
	cli.AsJSON
}

// Validate checks a card's name before any card is opened.
func (c *cardFlags) Validate() error {
	if c.Device == "" || isSlot(c.Device) {
		return nil
	}
	_, err := cli.ParseTarget(c.Device)
	return err
}

// isSlot reports whether a name is a PCI address or serial number, which stay when device numbers
// change.
func isSlot(name string) bool { return pciAddress.MatchString(name) || serial.MatchString(name) }

// findCard turns a card's name into a target.
func findCard(ctx context.Context, name string) (kmd.Target, error) {
	if !isSlot(name) {
		return cli.ParseTarget(name)
	}
	cards, err := kmd.Host().List(ctx)
	if err != nil {
		return nil, err
	}
	full := strings.ToLower(name)
	if strings.Count(full, ":") == 1 {
		full = "0000:" + full
	}
	for _, c := range cards {
		if c.BDF == full || strings.EqualFold(c.Serial, name) {
			return kmd.Path(c.Node), nil
		}
	}
	return nil, cli.Wrong("--device", name, "no card of this machine is called that", "reprise ls lists them").By(kmd.ErrNoDevice)
}

// oneCard returns the named card, or the machine's only one.
func oneCard(ctx context.Context, name string) (kmd.Target, error) {
	if name != "" {
		return findCard(ctx, name)
	}
	cards, err := kmd.Host().List(ctx)
	if err != nil {
		return nil, err
	}
	switch len(cards) {
	case 1:
		return kmd.Path(cards[0].Node), nil
	case 0:
		return nil, fmt.Errorf("%w: this machine has no card with a device node: reprise doctor says why", kmd.ErrNoDevice)
	}
	var names []string
	for _, c := range cards {
		names = append(names, c.BDF)
	}
	return nil, fmt.Errorf("this machine has several cards: say which with --device: %s", strings.Join(names, ", "))
}

// cards returns the named card, or all cards of the machine.
func cards(ctx context.Context, name string) ([]kmd.Card, error) {
	if name == "" {
		return kmd.Host().List(ctx)
	}
	t, err := findCard(ctx, name)
	if err != nil {
		return nil, err
	}
	c := kmd.Inspect(ctx, t)
	if c.Problem != nil && c.BDF == "" {
		return nil, cli.OpenError(name, c.Problem)
	}
	return []kmd.Card{c}, nil
}

// cardJSON is a card for scripts. Unknown fields are absent.
type cardJSON struct {
	Node        string          `json:"node"`
	PCI         string          `json:"pci"`
	Serial      string          `json:"serial,omitempty"`
	ASIC        string          `json:"asic,omitempty"`
	Arch        string          `json:"arch,omitempty"`
	Board       string          `json:"board,omitempty"`
	PCIID       string          `json:"pci_id"`
	SubsystemID string          `json:"subsystem_id"`
	Driver      string          `json:"driver,omitempty"`
	Firmware    string          `json:"firmware,omitempty"`
	AICLK       *float64        `json:"aiclk_mhz,omitempty"`
	AXICLK      *float64        `json:"axiclk_mhz,omitempty"`
	Temperature *float64        `json:"temperature_c,omitempty"`
	Power       *float64        `json:"power_w,omitempty"`
	Current     *float64        `json:"current_a,omitempty"`
	Voltage     *float64        `json:"voltage_v,omitempty"`
	Heartbeat   *float64        `json:"heartbeat,omitempty"`
	Workers     *cli.Grid       `json:"workers,omitempty"`
	DRAMBanks   int             `json:"dram_banks,omitempty"`
	Harvesting  *harvestingJSON `json:"harvested,omitempty"`
	NUMANode    *int            `json:"numa_node,omitempty"`
	IOMMU       string          `json:"iommu"`
	Holders     []holderJSON    `json:"holders"`
	Problem     string          `json:"problem,omitempty"`
}

// harvestingJSON has a bit for each unit that is fused off.
type harvestingJSON struct {
	Tensix   uint32 `json:"tensix"`
	DRAM     uint32 `json:"dram"`
	Ethernet uint32 `json:"ethernet"`
}

type holderJSON struct {
	PID   int    `json:"pid"`
	Name  string `json:"name,omitempty"`
	Files int    `json:"files"`
}

func toJSON(c *kmd.Card) cardJSON {
	number := func(r kmd.Reading) *float64 {
		if !r.OK {
			return nil
		}
		return &r.Value
	}
	j := cardJSON{Node: c.Node, PCI: c.BDF, Serial: c.Serial, ASIC: c.ASIC, Board: c.Board,
		PCIID:       fmt.Sprintf("%04x:%04x", c.Vendor, c.Device),
		SubsystemID: fmt.Sprintf("%04x:%04x", c.SubsystemVendor, c.SubsystemDevice),
		Driver:      c.Driver, Firmware: c.Firmware, AICLK: number(c.AICLK), AXICLK: number(c.AXICLK),
		Temperature: number(c.Temperature), Power: number(c.Power), Current: number(c.Current), Voltage: number(c.Voltage),
		Heartbeat: number(c.Heartbeat), IOMMU: c.IOMMU.String(), Holders: []holderJSON{}}
	if c.Arch != 0 {
		j.Arch = c.Arch.String()
	}
	if c.NUMANode >= 0 {
		j.NUMANode = &c.NUMANode
	}
	for _, h := range c.Holders {
		if h.PID != os.Getpid() { // this process lists the card and doesn't use it
			j.Holders = append(j.Holders, holderJSON{h.PID, h.Name, h.Files})
		}
	}
	if h := c.Harvesting; h != nil {
		j.Harvesting = &harvestingJSON{h.Tensix, h.DRAM, h.Ethernet}
		if m, err := chip.New(c.Arch, *h); err != nil {
			j.Problem = err.Error()
		} else {
			w, ht := m.Grid()
			j.Workers, j.DRAMBanks = &cli.Grid{Width: w, Height: ht}, len(m.DRAMBanks())
		}
	}
	if c.Problem != nil {
		j.Problem = problem(c.Problem)
	}
	return j
}

// problem is an error's text without the device, which is printed beside the text.
func problem(err error) string {
	s := err.Error()
	if _, rest, ok := strings.Cut(s, ": open: "); ok && strings.HasPrefix(s, "kmd: ") {
		return rest
	}
	return strings.TrimPrefix(s, "kmd: ")
}
