package topology

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/kmd"
	"github.com/reprise-tt/reprise/kmd/remote"
)

// Graph is the chips of a machine and their links.
type Graph struct {
	Arch  chip.Arch
	Chips []Chip // the devices' chips in their order, then the remote chips
	Links []Link
}

// Chip is a chip of a machine.
type Chip struct {
	// Name is the PCI address, or "0000:01:00.0/eth8" for the remote chip at channel 8 of another
	// one.
	Name     string       `json:"name"`
	PCI      string       `json:"pci,omitempty"`
	Node     string       `json:"node,omitempty"`
	Serial   string       `json:"serial,omitempty"` // of the board: 16 hexadecimal digits, or the part that the other end of a link knows
	ASIC     string       `json:"asic,omitempty"`   // unique in a machine
	Location int          `json:"location"`         // of the chip on its board, where the firmware reports it
	Place    remote.Place `json:"-"`                // in Wormhole's Ethernet firmware
	// Gateway is the channel of another chip that leads to a remote chip; nil with a PCI interface.
	Gateway *End   `json:"behind,omitempty"`
	Ports   []Port `json:"-"`
	// Problem is why the chip's links could not be read, or nil. It wraps remote.ErrUnreachable,
	// remote.ErrNoAnswer or an error of package kmd.
	Problem error `json:"-"`
}

// End is an Ethernet channel of a chip of a Graph.
type End struct {
	Chip    int `json:"chip"`
	Channel int `json:"channel"`
}

// Port is an Ethernet tile and its link.
type Port struct {
	Channel int     // index among the working Ethernet tiles
	Tile    chip.XY // raw NoC 0 coordinate
	State   State
	Peer    *End // the current or last other end; nil if its chip is unknown
}

// State is the state of a link.
type State uint8

// The states of a link.
const (
	Unconnected State = iota // no other end was ever seen
	Training                 // the firmware has not decided yet
	Up
	Down // the other end was seen, and the link is lost
)

// String returns "up" and so on.
func (s State) String() string {
	return [...]string{"unconnected", "training", "up", "down"}[min(s, Down)]
}

// Link is a cable between two channels.
type Link struct {
	A, B  End
	State State // the worse state of both ends
}

// Degraded describes the links that are lost or training, and the chips that can't be read. Parts
// that were never seen are not listed.
func (g *Graph) Degraded() []string {
	var out []string
	for i := range g.Chips {
		if err := g.Chips[i].Problem; err != nil {
			out = append(out, fmt.Sprintf("chip %s: %v", g.Chips[i].Name, err))
		}
	}
	linked := map[End]bool{}
	for _, l := range g.Links {
		linked[l.A], linked[l.B] = true, true
		if l.State != Up {
			out = append(out, fmt.Sprintf("link %s is %v", g.linkName(l), l.State))
		}
	}
	for i := range g.Chips {
		for _, p := range g.Chips[i].Ports {
			if p.State != Unconnected && !linked[End{i, p.Channel}] {
				out = append(out, fmt.Sprintf("link %s eth%d is %v, and its other end isn't known", g.Chips[i].Name, p.Channel, p.State))
			}
		}
	}
	return out
}

func (g *Graph) linkName(l Link) string {
	return fmt.Sprintf("%s eth%d - %s eth%d", g.Chips[l.A.Chip].Name, l.A.Channel, g.Chips[l.B.Chip].Name, l.B.Channel)
}

// Neighbors returns the chips that are linked to chip i, with the number of links that are up.
func (g *Graph) Neighbors(i int) map[int]int {
	out := map[int]int{}
	for _, l := range g.Links {
		switch {
		case l.State != Up:
		case l.A.Chip == i:
			out[l.B.Chip]++
		case l.B.Chip == i:
			out[l.A.Chip]++
		}
	}
	return out
}

// Join makes the list of links from what the ports of both ends report.
func (g *Graph) Join() {
	g.Links = nil
	for i := range g.Chips {
		for _, p := range g.Chips[i].Ports {
			if p.Peer == nil {
				continue
			}
			a, b := End{i, p.Channel}, *p.Peer
			state := p.State
			far := g.port(b)
			if far == nil && len(g.Chips[b.Chip].Ports) > 0 {
				state = Down
			}
			if far != nil {
				if far.Peer != nil && *far.Peer == a && (b.Chip < a.Chip || b.Chip == a.Chip && b.Channel < a.Channel) {
					continue
				}
				if far.State != Up {
					state = far.State
				}
				if far.State == Unconnected || far.Peer == nil || *far.Peer != a {
					state = Down
				}
			}
			g.Links = append(g.Links, Link{A: a, B: b, State: state})
		}
	}
}

func (g *Graph) port(e End) *Port {
	if p := g.Chips[e.Chip].Ports; e.Channel >= 0 && e.Channel < len(p) {
		return &p[e.Channel]
	}
	return nil
}

// Remote returns the target of chip i, which has no PCI interface, through a neighbour that has
// one. local are the targets of Discover's devices, in order. Of the links to the neighbour that
// are up, the first carries the tunnel and the last the command queues. The error wraps
// remote.ErrUnreachable or remote.ErrRange, or is the chip's Problem.
func (g *Graph) Remote(i int, local []kmd.Target) (*remote.Target, error) {
	if i < len(local) || i >= len(g.Chips) {
		return nil, fmt.Errorf("topology: chip %d: %w: of %d chips those from %d on have no PCI interface", i,
			remote.ErrRange, len(g.Chips), len(local))
	}
	c := &g.Chips[i]
	fail := func(err error) (*remote.Target, error) { return nil, fmt.Errorf("topology: chip %s: %w", c.Name, err) }
	switch {
	case c.Problem != nil:
		return fail(c.Problem)
	case g.Arch != chip.Wormhole:
		return fail(fmt.Errorf("%w: only Wormhole's Ethernet firmware forwards", remote.ErrUnreachable))
	}
	links := g.linksToLocal(i, len(local))
	if len(links) == 0 {
		return fail(fmt.Errorf("%w: no link that is up leads to a chip with a PCI interface%s", remote.ErrUnreachable, g.lost(i)))
	}
	n, last := links[0].A.Chip, links[len(links)-1]
	return &remote.Target{
		Local: local[n], Name: g.Chips[n].Name + "/" + c.Place.String(), Place: c.Place,
		Tile: g.Chips[n].Ports[links[0].A.Channel].Tile,
		Link: kmd.Link{
			Name: g.linkName(last),
			Near: g.Chips[n].Ports[last.A.Channel].Tile, Far: c.Ports[last.B.Channel].Tile, NearChannel: last.A.Channel,
		},
	}, nil
}

// Carries reports whether a link carries the command queues of a chip without a PCI interface, so
// that nothing else may drive it; devices is the number of chips with one.
func (g *Graph) Carries(l Link, devices int) bool {
	for _, e := range []End{l.A, l.B} {
		if e.Chip < devices || e.Chip >= len(g.Chips) || g.Chips[e.Chip].Problem != nil {
			continue
		}
		if links := g.linksToLocal(e.Chip, devices); len(links) > 0 {
			last := links[len(links)-1]
			if l == last || l == (Link{A: last.B, B: last.A, State: last.State}) {
				return true
			}
		}
	}
	return false
}

// linksToLocal returns the links that are up to chip i from the first local chip that has any, by
// its channels. End A is the local chip.
func (g *Graph) linksToLocal(i, devices int) []Link {
	var out []Link
	for _, l := range g.Links {
		if l.B.Chip != i {
			l.A, l.B = l.B, l.A
		}
		if l.State == Up && l.B.Chip == i && l.A.Chip < devices && l.B.Channel < len(g.Chips[i].Ports) &&
			l.A.Channel < len(g.Chips[l.A.Chip].Ports) { // the channel of a chip that wasn't read can be any number
			out = append(out, l)
		}
	}
	slices.SortFunc(out, func(a, b Link) int { return cmp.Or(a.A.Chip-b.A.Chip, a.A.Channel-b.A.Channel) })
	for k, l := range out {
		if l.A.Chip != out[0].A.Chip {
			return out[:k]
		}
	}
	return out
}

func (g *Graph) lost(i int) string {
	s := ""
	for _, l := range g.Links {
		if (l.A.Chip == i || l.B.Chip == i) && l.State != Up {
			s += fmt.Sprintf("; link %s is %v", g.linkName(l), l.State)
		}
	}
	return s
}

// ErrMixed is returned for devices of different architectures, which no link joins.
var ErrMixed = errors.New("devices of different architectures")

type finder struct {
	graph   *Graph
	devices []*kmd.Device
	known   map[asicID]int
	via     map[int]int // by chip without a PCI interface: the device that leads to it
}

type asicID [2]uint32

// Discover reads the links of the devices' chips and of remote chips: those without a PCI interface
// that are linked to them. A remote chip that can't be read has a Problem in the graph; errors are
// the devices' or ctx's, or wrap [ErrMixed] for devices of different architectures.
func Discover(ctx context.Context, devices []*kmd.Device) (*Graph, error) {
	f := &finder{graph: &Graph{}, devices: devices, known: map[asicID]int{}, via: map[int]int{}}
	var found [][]tile
	for i, d := range devices {
		if i > 0 && d.Arch() != f.graph.Arch {
			return nil, fmt.Errorf("topology: %v is a %v and %v a %v: %w", devices[0], f.graph.Arch, d, d.Arch(), ErrMixed)
		}
		f.graph.Arch = d.Arch()
		s, err := f.device(ctx, d)
		if err != nil {
			return nil, fmt.Errorf("topology: %v: %w", d, err)
		}
		found = append(found, s)
		for _, t := range s {
			if t.named {
				f.known[t.own] = i
			}
		}
	}
	for i := 0; i < len(f.graph.Chips); i++ {
		if i == len(found) {
			s, err := f.readRemote(ctx, i)
			if ctx.Err() != nil {
				return nil, fmt.Errorf("topology: %w", ctx.Err())
			}
			f.graph.Chips[i].Problem = err
			found = append(found, s)
		}
		f.join(i, found[i])
	}
	f.graph.Join()
	return f.graph, nil
}

func (f *finder) device(ctx context.Context, d *kmd.Device) ([]tile, error) {
	c := Chip{Name: d.Info().BDF(), PCI: d.Info().BDF(), Node: d.String()}
	h, err := d.Harvesting(ctx)
	if err != nil {
		return nil, err
	}
	top, err := chip.New(d.Arch(), h)
	if err != nil {
		return nil, err
	}
	if v, err := d.Telemetry(ctx); err == nil {
		hi, _ := v.Value(chip.TagBoardIDHigh)
		lo, _ := v.Value(chip.TagBoardIDLow)
		c.Serial = asicID{hi, lo}.asic()
		if n, ok := v.Value(chip.TagASICLocation); ok {
			c.Location = int(n)
		}
	}
	s, err := f.tiles(top, &c, d.Read32)
	if err = cmp.Or(err, d.Alive()); err != nil {
		return nil, err
	}
	f.graph.Chips = append(f.graph.Chips, c)
	return s, nil
}

func (f *finder) join(i int, s []tile) {
	if s == nil {
		return
	}
	for n, t := range s {
		p := Port{Channel: n, Tile: t.xy, State: t.state}
		if t.state != Unconnected && t.named {
			at, ok := f.known[t.peer]
			if !ok && t.peer != (asicID{}) {
				at = len(f.graph.Chips)
				from := End{i, n}
				f.known[t.peer] = at
				f.graph.Chips = append(f.graph.Chips, Chip{
					Name: fmt.Sprintf("%s/eth%d", f.graph.Chips[i].Name, n), Gateway: &from,
					Serial: t.peerSerial, ASIC: t.peer.asic(), Place: t.peerPlace, Location: t.peerLocation,
				})
				ok = true
			}
			if ok {
				p.Peer = &End{at, t.peerChannel}
			}
		}
		f.graph.Chips[i].Ports = append(f.graph.Chips[i].Ports, p)
	}
}

func (f *finder) readRemote(ctx context.Context, i int) ([]tile, error) {
	c := &f.graph.Chips[i]
	if f.graph.Arch != chip.Wormhole {
		return nil, fmt.Errorf("%w: it has no device on this host, and only Wormhole's Ethernet firmware forwards", remote.ErrUnreachable)
	}
	from := *c.Gateway
	if v, ok := f.via[from.Chip]; ok { // more than one link away: the firmware on the way forwards
		from = f.entry(v, -1)
	} else if e := f.entry(from.Chip, i); e.Chip < len(f.devices) { // prefer a link that is up
		from = e
	}
	if from.Chip >= len(f.devices) {
		return nil, fmt.Errorf("%w: the chip in front of it has no device on this host", remote.ErrUnreachable)
	}
	f.via[i] = from.Chip
	port := f.graph.Chips[from.Chip].Ports[from.Channel]
	tun, err := remote.OpenTunnel(f.devices[from.Chip], port.Tile, c.Place)
	if err != nil {
		return nil, err
	}
	defer tun.Close()
	if v, err := f.devices[from.Chip].Read32(port.Tile, wormholeRouting); err != nil || v != 0 {
		return nil, errors.Join(fmt.Errorf("%w: the Ethernet firmware doesn't forward", remote.ErrUnreachable), err)
	}
	top, err := chip.New(chip.Wormhole, chip.Harvesting{})
	if err != nil {
		return nil, err
	}
	return f.tiles(top, c, func(xy chip.XY, addr uint64) (uint32, error) { return tun.Load32(ctx, xy, addr) })
}

func (f *finder) tiles(top *chip.Chip, c *Chip, load func(xy chip.XY, addr uint64) (uint32, error)) (s []tile, err error) {
	for xy := range top.Tiles(chip.Ethernet) {
		if top.Tile(xy).Harvested {
			continue
		}
		t, err := readTile(f.graph.Arch, func(addr uint64) (uint32, error) { return load(xy, addr) })
		if err != nil {
			return nil, err
		}
		t.xy = xy
		s = append(s, t)
		if !t.named {
			continue
		}
		c.ASIC, c.Place = t.own.asic(), t.ownPlace
		if f.graph.Arch == chip.Blackhole {
			c.Location = t.location
		}
	}
	return s, nil
}

// A negative to is any remote chip.
func (f *finder) entry(device, to int) End {
	for _, p := range f.graph.Chips[device].Ports {
		if p.State == Up && p.Peer != nil && (p.Peer.Chip == to || to < 0 && p.Peer.Chip >= len(f.devices)) {
			return End{device, p.Channel}
		}
	}
	return End{Chip: len(f.devices)}
}

// Words in an Ethernet tile's L1 of its firmware (tt-umd
// device/topology/topology_discovery_wormhole.cpp and topology_discovery_blackhole.cpp; tt-metal
// hw/inc/internal/tt-1xx/blackhole/eth_fw_api.h; ttsim src/tile.cpp).
const (
	wormholeRouting = 0x104C      // 1: the firmware doesn't forward
	wormholeHere    = 0x1108      // place of the chip: x in 23:16, y in 31:24
	wormholeThere   = 0x1124      // place of the chip at the other end: x in 21:16, y in 27:22
	wormholeResults = 0x1EC0      // words 64 and 65 board and chip, 72 and 73 the same of the other end, 76 its channel
	blackholePort   = 0x7CC00 + 4 // 1 up, 2 down, 0 not known yet
	blackholeLocal  = 0x7CFC0     // bytes 1 location, 2 channel; words 1 and 2 board, 5 and 6 chip
	blackholeRemote = 0x7CFE0     // the same of the other end
)

type tile struct {
	xy    chip.XY
	state State
	named bool // the firmware identifies both ends

	own, peer              asicID
	ownPlace, peerPlace    remote.Place
	peerChannel            int
	peerSerial             string
	location, peerLocation int
}

func (id asicID) asic() string { return fmt.Sprintf("%08X%08X", id[0], id[1]) }

func stateOf(v uint32) State {
	switch v {
	case 0:
		return Training
	case 1:
		return Up
	}
	return Down
}

func readTile(a chip.Arch, load func(addr uint64) (uint32, error)) (t tile, err error) {
	word := func(addr uint64) uint32 {
		if err != nil {
			return 0
		}
		var v uint32
		v, err = load(addr)
		return v
	}
	if a == chip.Wormhole {
		v := word(remote.LinkState)
		if v == 3 {
			return t, err
		}
		t.state = stateOf(v)
		t.own = asicID{word(wormholeResults + 4*64), word(wormholeResults + 4*65)}
		t.peer = asicID{word(wormholeResults + 4*72), word(wormholeResults + 4*73)}
		t.peerChannel = int(word(wormholeResults+4*76) & 0xFF)
		here, there := word(wormholeHere), word(wormholeThere)
		t.ownPlace = remote.Place{X: uint8(here >> 16), Y: uint8(here >> 24)}
		t.peerPlace = remote.Place{X: uint8(there >> 16 & 63), Y: uint8(there >> 22 & 63)}
		t.peerSerial = fmt.Sprintf("%08X", t.peer[0])
		t.named = t.state != Training && (t.own != asicID{} || t.peer != asicID{})
		return t, err
	}
	t.state = stateOf(word(blackholePort))
	t.own = asicID{word(blackholeLocal + 20), word(blackholeLocal + 24)}
	t.peer = asicID{word(blackholeRemote + 20), word(blackholeRemote + 24)}
	if t.named = t.peer != (asicID{}); !t.named {
		if t.state == Down {
			t.state = Unconnected
		}
		return t, err
	}
	near, far := word(blackholeLocal), word(blackholeRemote)
	t.location, t.peerLocation = int(near>>8&0xFF), int(far>>8&0xFF)
	t.peerChannel = int(far >> 16 & 0xFF)
	t.peerSerial = asicID{word(blackholeRemote + 4), word(blackholeRemote + 8)}.asic()
	return t, err
}
