// Package cards has the commands about the cards of a machine.
package cards

import (
	"context"
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"

	"github.com/dustin/go-humanize"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/cmd/reprise/internal/cli"
	"github.com/reprise-tt/reprise/hwtest/target"
	"github.com/reprise-tt/reprise/internal/tables"
	"github.com/reprise-tt/reprise/kmd"
	"github.com/reprise-tt/reprise/kmd/remote"
	"github.com/reprise-tt/reprise/mesh/topology"
)

var (
	pciAddress = regexp.MustCompile(`^([0-9a-fA-F]{4}:)?[0-9a-fA-F]{2}:[0-9a-fA-F]{2}\.[0-7]$`)
	serial     = regexp.MustCompile(`^[0-9a-fA-F]{16}$`)
)

type cardFlags struct {
	Device string `placeholder:"DEVICE"`
	cli.AsJSON
}

func (c *cardFlags) Validate() error {
	if c.Device == "" || isSlot(c.Device) {
		return nil
	}
	_, err := cli.ParseTarget(c.Device)
	return err
}

// isSlot recognises what stays when device numbers change.
func isSlot(name string) bool { return pciAddress.MatchString(name) || serial.MatchString(name) }

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
	return nil, fmt.Errorf("this machine has several cards: say which with --device: %s",
		cli.List(cards, func(c kmd.Card) string { return c.BDF }))
}

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

// Unknown fields are absent.
type cardJSON struct {
	kmd.Card
	Arch      string    `json:"arch,omitempty"`
	Workers   *cli.Grid `json:"workers,omitempty"`
	DRAMBanks int       `json:"dram_banks,omitempty"`
	Problem   string    `json:"problem,omitempty"`
}

func toJSON(c kmd.Card) cardJSON {
	// This process lists the card and doesn't use it.
	c.Holders = slices.DeleteFunc(append([]kmd.Holder{}, c.Holders...), func(h kmd.Holder) bool { return h.PID == os.Getpid() })
	j := cardJSON{Card: c}
	if c.Arch != 0 {
		j.Arch = c.Arch.String()
	}
	if h := c.Harvesting; h != nil {
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

// problem leaves out the device.
func problem(err error) string {
	s := err.Error()
	if _, rest, ok := strings.Cut(s, ": open: "); ok && strings.HasPrefix(s, "kmd: ") {
		return rest
	}
	return strings.TrimPrefix(s, "kmd: ")
}

// LsCmd lists cards.
type LsCmd struct{ cardFlags }

// Run prints the cards.
func (c *LsCmd) Run(ctx context.Context, s cli.Streams) error {
	l, err := cards(ctx, c.Device)
	if err != nil {
		return err
	}
	out := struct {
		Devices []cardJSON `json:"devices"`
	}{cli.Map(l, toJSON)}
	return s.Print(c.JSON, out, func(w cli.Text) { printCards(w, out.Devices) })
}

const noCards = "No Tenstorrent device has a node on this machine; reprise doctor says why. Without one: --device %s\n"

func printCards(w cli.Text, all []cardJSON) {
	if len(all) == 0 {
		w.F(noCards, "emu:blackhole")
		return
	}
	t, notes := w.Table(), ""
	t.Row("PCI", "NODE", "BOARD", "CHIP", "WORKERS", "FIRMWARE", "AICLK", "TEMP", "POWER", "IOMMU", "OPEN BY")
	for _, d := range all {
		grid := "-"
		if d.Workers != nil {
			grid = fmt.Sprintf("%dx%d", d.Workers.Width, d.Workers.Height)
		}
		t.Row(d.BDF, d.Node, cli.Dash(d.Board), cli.Dash(d.Arch), grid, cli.Dash(d.Firmware), cli.Unit(d.AICLK, "%.0f MHz"),
			cli.Unit(d.Temperature, "%.0f C"), cli.Unit(d.Power, "%.0f W"), d.IOMMU, cli.List(d.Holders, holderName))
		if d.Problem != "" {
			notes += d.BDF + ": " + d.Problem + "\n"
		}
	}
	t.Flush()
	w.F("%s", notes)
}

func holderName(h kmd.Holder) string {
	if h.Name == "" {
		return fmt.Sprint(h.PID)
	}
	return fmt.Sprintf("%s (%d)", h.Name, h.PID)
}

// InfoCmd prints all about a card.
type InfoCmd struct{ cardFlags }

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

// Run prints the card.
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
	p, out := d.Params(), &infoJSON{cardJSON: toJSON(kmd.Inspect(ctx, t))}
	for _, w := range p.Windows {
		if k := p.BAR.KernelWindow; k >= w.First && k < w.First+w.Count {
			w.Count-- // the driver's own
		}
		out.Windows = append(out.Windows, windowJSON{w.Size, w.Count})
	}
	out.Features = cli.Map(features, func(f kmd.Feature) featureJSON { return featureJSON{f.String(), d.Has(f)} })
	maps, err := d.Mappings()
	if err != nil {
		return nil, err
	}
	out.Mappings = cli.Map(maps, func(m kmd.BARMapping) mappingJSON { return mappingJSON{m.BAR, m.Caching.String(), m.Size} })
	locks, err := d.Locks()
	if err != nil {
		return nil, err
	}
	out.Locks = cli.Map(locks, kmd.LockIndex.String)
	return out, nil
}

func (i *infoJSON) print(out cli.Text) {
	t := out.Table()
	t.Row("PCI address", fmt.Sprintf("%s (%s, subsystem %s)", i.BDF, i.ID, i.Subsystem))
	t.Row("Node", i.Node)
	t.Row("Board", fmt.Sprintf("%s, serial %s", cli.Dash(i.Board), cli.Dash(i.Serial)))
	t.Row("Chip", fmt.Sprintf("%s, id %s", cli.Dash(i.Arch), cli.Dash(i.ASIC)))
	if g := i.Workers; g != nil {
		t.Row("Workers", fmt.Sprintf("%d x %d, %d DRAM banks", g.Width, g.Height, i.DRAMBanks))
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
		t.Row("Fused off", list(masks))
	}
	t.Row("Driver", "tt-kmd "+cli.Dash(i.Driver))
	t.Row("Firmware", cli.Dash(i.Firmware))
	t.Row("Clocks", known(cli.Unit(i.AICLK, "AI %.0f MHz"), cli.Unit(i.AXICLK, "AXI %.0f MHz")))
	t.Row("Temperature", cli.Unit(i.Temperature, "%.1f C"))
	t.Row("Power", known(cli.Unit(i.Power, "%.0f W"), cli.Unit(i.Current, "%.0f A"), cli.Unit(i.Voltage, "%.3f V")))
	t.Row("IOMMU", i.IOMMU)
	if i.NUMANode != nil {
		t.Row("Memory node", fmt.Sprint(*i.NUMANode))
	}
	t.Row("Windows", cli.List(i.Windows, func(x windowJSON) string { return fmt.Sprintf("%d of %s", x.Count, humanize.IBytes(x.Size)) }))
	t.Row("Mappings", cli.List(i.Mappings, func(m mappingJSON) string {
		return fmt.Sprintf("BAR %d %s %s", m.BAR, m.Caching, humanize.IBytes(m.Size))
	}))
	var offers []string
	for _, f := range i.Features {
		if f.Has {
			offers = append(offers, f.Name)
		}
	}
	t.Row("Driver offers", list(offers))
	t.Row("Held locks", list(i.Locks))
	t.Row("Open by", cli.List(i.Holders, holderName))
	if i.Problem != "" {
		t.Row("Problem", i.Problem)
	}
	t.Flush()
}

func list(l []string) string { return cli.Dash(strings.Join(l, ", ")) }

func known(readings ...string) string {
	return list(slices.DeleteFunc(readings, func(s string) bool { return s == "-" }))
}

// DoctorCmd finds out why programs can't run.
type DoctorCmd struct{ cardFlags }

// Run makes the checks.
func (c *DoctorCmd) Run(ctx context.Context, s cli.Streams) error {
	if c.Device == "" {
		return s.PrintChecks(c.JSON, kmd.Host().Diagnose(ctx))
	}
	t, err := findCard(ctx, c.Device)
	if err != nil {
		return err
	}
	l := kmd.DiagnoseTarget(ctx, t)
	for i := range l { // as the user calls it
		l[i].Fix = strings.ReplaceAll(l[i].Fix, "--device "+t.String(), "--device "+c.Device)
	}
	return s.PrintChecks(c.JSON, l)
}

// ResetCmd resets a card.
type ResetCmd struct {
	cardFlags
	Mode  string `default:"asic" enum:"asic,board,link,config-write,restore,user,post"`
	Force bool
}

type resetJSON struct {
	PCI     string       `json:"pci"`
	Node    string       `json:"node"`
	Arch    string       `json:"arch"`
	Mode    string       `json:"mode"`
	Seconds float64      `json:"seconds"`
	Read    bool         `json:"verified"` // the card was opened and read
	Losers  []kmd.Holder `json:"losers"`
}

// Run resets the card.
func (c *ResetCmd) Run(ctx context.Context, s cli.Streams) error {
	mode, err := kmd.ParseResetMode(c.Mode)
	if err != nil {
		return err
	}
	t, err := oneCard(ctx, c.Device)
	if err != nil {
		return err
	}
	cfg := kmd.ResetConfig{Mode: mode, Force: c.Force}
	if !c.JSON && cli.IsTerminal(s.Err) {
		cfg.Progress = func(step string) { fmt.Fprintln(s.Err, step) }
	}
	r, err := kmd.Reset(ctx, t, cfg)
	var held *kmd.HeldError
	switch {
	case errors.As(err, &held):
		return fmt.Errorf("reset: %s is open by %s; end them, or take the card from them with --force", t,
			cli.List(held.Holders, kmd.Holder.String))
	case err != nil:
		return err
	}
	out := resetJSON{PCI: r.BDF, Node: r.Node, Arch: r.Arch.String(), Mode: r.Mode.String(), Seconds: r.Duration.Seconds(),
		Read: r.Harvesting != nil, Losers: append([]kmd.Holder{}, r.Losers...)}
	return s.Print(c.JSON, out, func(w cli.Text) {
		lost := ""
		if len(r.Losers) > 0 {
			lost = ", lost for " + cli.List(r.Losers, holderName)
		}
		if out.Read {
			w.F("%s (%s): reset in %s and answering at %s%s\n", r.BDF, r.Arch, tables.Duration(r.Duration), r.Node, lost)
		} else {
			w.F("%s (%s): the driver waits for your reset%s; then: reprise reset --mode post --device %[1]s\n", r.BDF, r.Arch, lost)
		}
	})
}

// TopologyCmd shows how a machine's chips are linked.
type TopologyCmd struct {
	Device string `placeholder:"MACHINE"`
	cli.AsJSON

	machine *target.Machine // nil for this one
}

// Validate checks the flags.
func (c *TopologyCmd) Validate() (err error) {
	if c.Device != "" {
		c.machine, err = cli.ParseMachine("--device", c.Device)
	}
	return err
}

func (c *TopologyCmd) targets(ctx context.Context) ([]kmd.Target, func() error, error) {
	if c.machine != nil {
		return c.machine.Open()
	}
	cards, err := kmd.Host().List(ctx)
	return cli.Map(cards, func(c kmd.Card) kmd.Target { return kmd.Path(c.Node) }), func() error { return nil }, err
}

// Run asks the chips and prints what they say.
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
	return s.Print(c.JSON, graphJSON(g), func(w cli.Text) { printGraph(w, g) })
}

type topologyJSON struct {
	Arch     string             `json:"arch,omitempty"`
	Chips    []topologyChipJSON `json:"chips"`
	Links    []topologyLinkJSON `json:"links"`
	Degraded []string           `json:"degraded"`
}

// Unknown fields are absent.
type topologyChipJSON struct {
	topology.Chip
	Place   *[2]int `json:"place,omitempty"`
	Up      int     `json:"links_up"`
	Problem string  `json:"problem,omitempty"`
}

type topologyLinkJSON struct {
	A     topology.End `json:"a"`
	B     topology.End `json:"b"`
	State string       `json:"state"`
}

func graphJSON(g *topology.Graph) topologyJSON {
	out := topologyJSON{Chips: []topologyChipJSON{}, Degraded: append([]string{}, g.Degraded()...),
		Links: cli.Map(g.Links, func(l topology.Link) topologyLinkJSON { return topologyLinkJSON{l.A, l.B, l.State.String()} })}
	if g.Arch != 0 {
		out.Arch = g.Arch.String()
	}
	for i, c := range g.Chips {
		j := topologyChipJSON{Chip: c, Up: upLinks(g, i)}
		// On Wormhole (0,0) is a place too, known along with the chip's identity.
		if c.Place != (remote.Place{}) || g.Arch == chip.Wormhole && c.ASIC != "" {
			j.Place = &[2]int{int(c.Place.X), int(c.Place.Y)}
		}
		if c.Problem != nil {
			j.Problem = c.Problem.Error()
		}
		out.Chips = append(out.Chips, j)
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
		w.F(noCards, "emu:t3000")
		return
	}
	t := w.Table()
	t.Row("CHIP", "WHERE", "SERIAL", "ASIC", "LINKS UP", "TO")
	for i, c := range g.Chips {
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
