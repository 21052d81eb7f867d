package mesh

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/mesh/topology"
)

// Hosts exchanges bytes between all hosts of a mesh: with MPI (package hosts/mpi), or in a process
// (hosts.InProcess).
type Hosts interface {
	Rank() int // number of this host, from 0
	Size() int // number of hosts
	// Exchange waits until every host has called it and returns the data of each, by rank. Hosts
	// must exchange for the same operations in the same order: if op differs, all get
	// hosts.ErrOrder and the engine stays usable. An exchange that ends with its context breaks the
	// engine (hosts.LostError, then hosts.ErrBroken), unless the context ended before it began.
	// When an exchange fails on one host, another one may have succeeded; its next one fails.
	Exchange(ctx context.Context, op string, mine []byte) ([][]byte, error)
}

// Across makes one mesh of the chips of several hosts. Each host calls Open with its own targets
// and the same shapes and options, and later methods in the same order; it drives its own chips.
// Chips of other hosts have no Device, and Buffer.On and the like are nil for them. If Open or
// NewLinks fails on one host, it fails on all.
func Across(h Hosts) Option { return func(o *options) { o.hosts = h } }

// ErrElsewhere is wrapped by a host's error if another host failed.
var ErrElsewhere = errors.New("another host failed")

type hostReport struct {
	Err      string `json:",omitempty"`
	Arch     chip.Arch
	Linked   bool
	Chips    []hostChip
	Problems []string
}

type hostChip struct {
	Name, ASIC string
	Remote     bool
	Ports      []hostPort
	Carry      []int // channels that carry its command queues
}

type hostPort struct {
	Channel  int
	Tile     chip.XY
	State    topology.State
	ASIC     string // of the chip at the other end; "" if unknown
	PeerPort int
}

func (f *found) report() hostReport {
	r := hostReport{Problems: f.problems, Linked: f.graph != nil}
	if f.graph != nil {
		r.Arch = f.graph.Arch
	}
	for _, n := range f.usable() {
		n := &f.nodes[n]
		c := hostChip{Name: n.name, Remote: n.remote}
		if f.graph != nil {
			g := &f.graph.Chips[n.inGraph]
			c.ASIC = g.ASIC
			for _, p := range g.Ports {
				port := hostPort{Channel: p.Channel, Tile: p.Tile, State: p.State}
				if p.Peer != nil {
					port.ASIC, port.PeerPort = f.graph.Chips[p.Peer.Chip].ASIC, p.Peer.Channel
				}
				c.Ports = append(c.Ports, port)
			}
			for _, other := range f.nodes {
				for _, l := range other.carry {
					for _, end := range []topology.End{l.A, l.B} {
						if end.Chip == n.inGraph {
							c.Carry = append(c.Carry, end.Channel)
						}
					}
				}
			}
		}
		r.Chips = append(r.Chips, c)
	}
	return r
}

func (f *found) usable() []int {
	var out []int
	for n, l := range f.links {
		if l != nil {
			out = append(out, n)
		}
	}
	return out
}

// Nodes are the chips of host 0, then those of host 1, and so on. err is this host's failure.
func (f *found) across(ctx context.Context, h Hosts, err error) (*found, error) {
	mine := hostReport{}
	if err != nil {
		mine.Err = err.Error()
	} else {
		mine = f.report()
	}
	data, jerr := json.Marshal(mine)
	if jerr != nil {
		return nil, fmt.Errorf("mesh: open: %w", jerr)
	}
	fail := func(err error) (*found, error) {
		if f != nil {
			err = errors.Join(err, f.close())
		}
		return nil, err
	}
	all, xerr := h.Exchange(ctx, "open mesh", data)
	if err != nil || xerr != nil {
		return fail(errors.Join(err, xerr))
	}
	reports, err := parseReports(all)
	if err != nil {
		return fail(fmt.Errorf("mesh: open: %w", err))
	}
	return merge(f, reports, h.Rank()), nil
}

func parseReports(all [][]byte) ([]hostReport, error) {
	reports, chips := make([]hostReport, len(all)), 0
	for i, data := range all {
		r := &reports[i]
		if err := json.Unmarshal(data, r); err != nil {
			return nil, fmt.Errorf("what host %d found: %w", i, err)
		}
		if r.Err != "" {
			return nil, fmt.Errorf("%w: host %d: %s", ErrElsewhere, i, r.Err)
		}
		if err := r.check(); err != nil {
			return nil, fmt.Errorf("what host %d found: %w: it runs another version", i, err)
		}
		if chips += len(r.Chips); chips > maxChips {
			return nil, fmt.Errorf("hosts up to %d have %d chips, want at most %d", i, chips, maxChips)
		}
	}
	return reports, nil
}

// Peer channels come from firmware and may be anything.
func (r *hostReport) check() error {
	if r.Linked && !r.Arch.Valid() {
		return fmt.Errorf("chips of %v", r.Arch)
	}
	for _, c := range r.Chips {
		for i, p := range c.Ports {
			if p.Channel != i || p.State > topology.Down {
				return fmt.Errorf("port %d of %s is channel %d in state %d", i, c.Name, p.Channel, p.State)
			}
		}
	}
	return nil
}

// One end's report is enough for a link; both ends must be up.
func merge(f *found, reports []hostReport, rank int) *found {
	out := &found{devices: f.devices, targets: f.targets}
	own := f.usable()
	byASIC := map[string]int{}
	for i, r := range reports {
		for _, p := range r.Problems {
			out.problems = append(out.problems, fmt.Sprintf("host %d: %s", i, p))
		}
		for k, c := range r.Chips {
			n := node{name: fmt.Sprintf("host %d %s", i, c.Name), remote: c.Remote, host: i, target: -1, inGraph: len(out.nodes)}
			if i == rank {
				n.target = own[k]
			}
			if c.ASIC != "" {
				byASIC[c.ASIC] = n.inGraph
			}
			out.nodes, out.links = append(out.nodes, n), append(out.links, map[int]bool{})
			if r.Linked && out.graph == nil {
				out.graph = &topology.Graph{Arch: r.Arch}
			}
		}
	}
	if out.graph == nil {
		out.unlinked = true
		return out
	}
	carries := map[topology.End]bool{}
	for _, r := range reports {
		for _, c := range r.Chips {
			n := len(out.graph.Chips)
			g := topology.Chip{Name: out.nodes[n].name, ASIC: c.ASIC}
			if !c.Remote {
				g.PCI = g.Name
			}
			for _, p := range c.Ports {
				port := topology.Port{Channel: p.Channel, Tile: p.Tile, State: p.State}
				if to, ok := byASIC[p.ASIC]; ok && p.ASIC != "" {
					port.Peer = &topology.End{Chip: to, Channel: p.PeerPort}
				}
				g.Ports = append(g.Ports, port)
			}
			for _, channel := range c.Carry {
				carries[topology.End{Chip: n, Channel: channel}] = true
			}
			out.graph.Chips = append(out.graph.Chips, g)
		}
	}
	for _, c := range out.graph.Chips {
		for i := range c.Ports {
			p := &c.Ports[i]
			if p.Peer != nil && (p.Peer.Channel < 0 || p.Peer.Channel >= len(out.graph.Chips[p.Peer.Chip].Ports)) {
				p.Peer = nil
			}
		}
	}
	out.graph.Join()
	for _, l := range out.graph.Links {
		a, b := l.A.Chip, l.B.Chip
		if l.State == topology.Up {
			out.links[a][b], out.links[b][a] = true, true
		}
		if carries[l.A] || carries[l.B] {
			for _, end := range []int{a, b} {
				if n := &out.nodes[end]; n.remote {
					n.carry = append(n.carry, l)
				}
			}
		}
	}
	return out
}

func (s *system) agree(ctx context.Context, op string, err error) error {
	if s.hosts == nil {
		return err
	}
	var mine []byte
	if err != nil {
		mine = []byte(err.Error())
		mine = mine[:min(len(mine), maxText)]
	}
	all, xerr := s.hosts.Exchange(ctx, op, mine)
	if err != nil || xerr != nil {
		return errors.Join(err, xerr)
	}
	var errs []error
	for i, text := range all {
		if len(text) > 0 {
			errs = append(errs, fmt.Errorf("mesh: %s: %w: host %d: %s", op, ErrElsewhere, i, text))
		}
	}
	return errors.Join(errs...)
}

const maxText = 64 << 10
