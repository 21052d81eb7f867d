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

// findCard turns a card's name into a target. A PCI address or serial number stays when device
// numbers change.
func findCard(ctx context.Context, name string) (kmd.Target, error) {
	wrong := func(why, hint string, err error) error {
		return cli.Wrong("--device", name, why, hint).By(err)
	}
	switch {
	case pciAddress.MatchString(name), serial.MatchString(name):
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
		return nil, wrong("no card of this machine is called that", "reprise ls lists them", kmd.ErrNoDevice)
	}
	return cli.ParseTarget(name)
}

// checkName checks a card's name before any card is opened.
func checkName(name string) error {
	if name == "" || pciAddress.MatchString(name) || serial.MatchString(name) {
		return nil
	}
	_, err := cli.ParseTarget(name)
	return err
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

// cards returns the named card, or all of the machine.
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
		return nil, cli.OpenError(name, c.Problem) // nothing is known about the card
	}
	return []kmd.Card{c}, nil
}

// cardJSON is a card for scripts. Unknown fields are absent.
type cardJSON struct {
	Node         string          `json:"node"`
	PCI          string          `json:"pci"`
	Serial       string          `json:"serial,omitempty"`
	ASIC         string          `json:"asic,omitempty"`
	Arch         string          `json:"arch,omitempty"`
	Board        string          `json:"board,omitempty"`
	PCIID        string          `json:"pci_id"`
	SubsystemID  string          `json:"subsystem_id"`
	Driver       string          `json:"driver,omitempty"`
	Firmware     string          `json:"firmware,omitempty"`
	AICLK        *float64        `json:"aiclk_mhz,omitempty"`
	AXICLK       *float64        `json:"axiclk_mhz,omitempty"`
	Temperature  *float64        `json:"temperature_c,omitempty"`
	Power        *float64        `json:"power_w,omitempty"`
	Current      *float64        `json:"current_a,omitempty"`
	Voltage      *float64        `json:"voltage_v,omitempty"`
	Heartbeat    *float64        `json:"heartbeat,omitempty"`
	Workers      *cli.Grid       `json:"workers,omitempty"`
	DRAMBanks    int             `json:"dram_banks,omitempty"`
	Harvesting   *harvestingJSON `json:"harvested,omitempty"`
	NUMANode     *int            `json:"numa_node,omitempty"`
	IOMMU        string          `json:"iommu"`
	Holders      []holderJSON    `json:"holders"`
	Problem      string          `json:"problem,omitempty"`
	harvestError error
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
		if h.PID == os.Getpid() {
			continue // this process lists the card and doesn't use it
		}
		j.Holders = append(j.Holders, holderJSON{h.PID, h.Name, h.Files})
	}
	if h := c.Harvesting; h != nil {
		j.Harvesting = &harvestingJSON{h.Tensix, h.DRAM, h.Ethernet}
		if m, err := chip.New(c.Arch, *h); err != nil {
			j.harvestError = err
		} else {
			w, ht := m.Grid()
			j.Workers, j.DRAMBanks = &cli.Grid{Width: w, Height: ht}, len(m.DRAMBanks())
		}
	}
	if c.Problem != nil {
		j.Problem = problem(c.Problem)
	} else if j.harvestError != nil {
		j.Problem = j.harvestError.Error()
	}
	return j
}

// problem is an error's text without its origin, which is printed beside the text.
func problem(err error) string {
	s := err.Error()
	if _, rest, ok := strings.Cut(s, ": open: "); ok && strings.HasPrefix(s, "kmd: ") {
		return rest
	}
	return strings.TrimPrefix(s, "kmd: ")
}
