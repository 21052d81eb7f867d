package mesh

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/allocator"
	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/kmd"
	"github.com/reprise-tt/reprise/mesh/topology"
)

// Machine is the targets that a mesh can be made of, in any order.
type Machine []kmd.Target

// Cards returns a machine of emulated cards, the vendor's simulators, or kmd.Paths.
func Cards[T kmd.Target](targets ...T) Machine {
	var m Machine
	for _, t := range targets {
		m = append(m, t)
	}
	return m
}

// Host returns the cards of this host.
func Host(ctx context.Context) (Machine, error) {
	cards, err := kmd.Host().List(ctx)
	if err != nil {
		return nil, fmt.Errorf("mesh: list cards: %w", err)
	}
	var m Machine
	for _, c := range cards {
		m = append(m, kmd.Path(c.Node))
	}
	return m, nil
}

// Option configures Open.
type Option func(*options)

type options struct {
	device   []reprise.Option
	shapes   []Shape
	unlinked bool
	hosts    Hosts
}

// WithDevice sets options for each chip, such as reprise.WithQueues and reprise.WithTraceRegion.
func WithDevice(opts ...reprise.Option) Option {
	return func(o *options) { o.device = append(o.device, opts...) }
}

// OrShape adds a shape to try if the shapes before don't fit. Mesh.Shape returns the one used.
func OrShape(s Shape) Option { return func(o *options) { o.shapes = append(o.shapes, s) } }

// Unlinked ignores links: place i has the i-th usable chip.
func Unlinked() Option { return func(o *options) { o.unlinked = true } }

// Open opens chips of a machine concurrently as a mesh of a shape whose neighbours are linked.
// Chips without a PCI interface (n300, T3000) are used only if the others can't form the shape.
// Other chips stay closed. The error is a [*ShapeError] if the chips can't form the shape, or an
// [*Error] with the state of every chip.
func Open(ctx context.Context, m Machine, shape Shape, opts ...Option) (*Mesh, error) {
	o := options{shapes: []Shape{shape}}
	for _, opt := range opts {
		opt(&o)
	}
	for _, s := range o.shapes {
		if s.Size() == 0 {
			return nil, &ShapeError{Shape: s, Why: fmt.Sprintf("want at least one axis, positive sizes and at most %d chips", maxChips)}
		}
	}
	f, err := find(ctx, m, o.unlinked)
	if o.hosts != nil {
		f, err = f.across(ctx, o.hosts, err)
	}
	if err != nil {
		return nil, err
	}
	at, shape, err := f.choose(o.shapes)
	if err != nil {
		return nil, errors.Join(err, f.close())
	}
	s := &system{found: f, carry: map[topology.Link]bool{}, hosts: o.hosts}
	mesh := &Mesh{s: s, shape: shape}
	for i, n := range at {
		c := &f.nodes[n]
		mesh.chips = append(mesh.chips, &Chip{Coord: shape.Coord(i), Name: c.name, Remote: c.remote, Host: c.host, node: n,
			target: c.target})
		for _, l := range c.carry {
			s.carry[l] = true
		}
	}
	mesh.place()
	err = mesh.bringUp(ctx, f.targets, o.device)
	// Emulated cards that run only while open keep running until here.
	err = cmp.Or(err, f.close())
	if err = s.agree(ctx, "open chips", err); err != nil {
		return nil, errors.Join(err, mesh.closeDevices(ctx))
	}
	mesh.finish()
	return mesh, nil
}

type found struct {
	devices  []*kmd.Device // by target, nil where one can't be opened
	graph    *topology.Graph
	unlinked bool
	problems []string
	targets  Machine
	nodes    []node // the caller's targets, then the remote chips
	links    links
}

type node struct {
	name    string
	remote  bool // it has no PCI interface
	host    int  // rank of its host
	target  int  // index in targets; -1 for another host's
	inGraph int
	carry   []topology.Link // links that carry its command queues
}

// find opens the targets and reads their links. A target that can't be opened is only a problem.
func find(ctx context.Context, m Machine, unlinked bool) (*found, error) {
	if len(m) == 0 {
		return nil, errors.New("mesh: open: no targets: give the cards of a machine with mesh.Cards")
	}
	for i, t := range m { // check all before any is opened
		if t == nil {
			return nil, fmt.Errorf("mesh: open: target %d is nil", i)
		}
	}
	f := &found{devices: make([]*kmd.Device, len(m)), targets: slices.Clone(m), nodes: make([]node, len(m)), links: make(links, len(m)),
		unlinked: unlinked}
	errs := make([]error, len(m))
	var wg sync.WaitGroup
	for i, t := range m {
		f.nodes[i] = node{name: t.String(), target: i}
		wg.Go(func() { f.devices[i], errs[i] = kmd.Open(ctx, t) })
	}
	wg.Wait()
	if err := ctx.Err(); err != nil {
		return nil, errors.Join(fmt.Errorf("mesh: open: %w", err), f.close())
	}
	var open []*kmd.Device
	var at []int
	for i, d := range f.devices {
		if errs[i] != nil {
			f.problems = append(f.problems, fmt.Sprintf("chip %s: %v: %v", f.nodes[i].name, ErrMissing, errs[i]))
			continue
		}
		f.nodes[i].inGraph = len(open)
		open, at = append(open, d), append(at, i)
		f.links[i] = map[int]bool{}
	}
	if unlinked || len(open) == 0 {
		return f, nil
	}
	var err error
	if f.graph, err = topology.Discover(ctx, open); err != nil {
		return nil, errors.Join(fmt.Errorf("mesh: open: %w", err), f.close())
	}
	f.problems = append(f.problems, f.graph.Degraded()...)
	for i, n := range at {
		if g := &f.graph.Chips[i]; g.Problem == nil {
			f.nodes[n].name = g.PCI
		}
	}
	at = f.far(m, at)
	for _, l := range f.graph.Links {
		a, b := at[l.A.Chip], at[l.B.Chip]
		if l.State == topology.Up && a >= 0 && b >= 0 {
			f.links[a][b], f.links[b][a] = true, true
		}
	}
	return f, nil
}

// far adds the chips without a PCI interface. It returns the graph's chips as nodes, -1 for
// unusable ones.
func (f *found) far(m Machine, at []int) []int {
	var near []kmd.Target
	for _, n := range at {
		near = append(near, m[n])
	}
	for i := len(near); i < len(f.graph.Chips); i++ {
		at = append(at, -1)
		g := &f.graph.Chips[i]
		if g.Problem != nil {
			continue
		}
		t, err := f.graph.Remote(i, near)
		if err != nil {
			f.problems = append(f.problems, fmt.Sprintf("chip %s has no PCI interface: %v", g.Name, err))
			continue
		}
		n := node{name: t.String(), remote: true, target: len(f.targets), inGraph: i}
		for _, l := range f.graph.Links {
			if (l.A.Chip == i || l.B.Chip == i) && f.graph.Carries(l, len(near)) {
				n.carry = append(n.carry, l)
			}
		}
		at[i] = len(f.nodes)
		f.targets, f.nodes, f.links = append(f.targets, t), append(f.nodes, n), append(f.links, map[int]bool{})
	}
	return at
}

func (f *found) choose(shapes []Shape) ([]int, Shape, error) {
	own := f.usable()
	near := slices.Clone(f.links)
	for n := range near {
		if f.nodes[n].remote {
			near[n] = nil
		}
	}
	for _, s := range shapes {
		if f.unlinked {
			if s.Size() <= len(own) {
				return own[:s.Size()], s, nil
			}
			continue
		}
		for _, l := range []links{near, f.links} {
			if at, ok := embed(s, l, embedSteps); ok {
				return at, s, nil
			}
		}
	}
	s := shapes[len(shapes)-1]
	e := &ShapeError{Shape: s, Why: fmt.Sprintf("it has %d places, and %d chips can be used", s.Size(), len(own)), Problems: f.problems}
	if s.Size() <= len(own) {
		e.Why = fmt.Sprintf("the links of the %d chips don't form it", len(own))
	}
	if f.unlinked {
		e.Possible = possible(len(s), len(own), func(Shape) bool { return true })
	} else {
		e.Possible = f.links.possible(len(s))
	}
	return nil, nil, e
}

func (f *found) close() error {
	var errs []error
	for _, d := range f.devices {
		if d != nil {
			errs = append(errs, d.Close())
		}
	}
	f.devices = nil
	return errors.Join(errs...)
}

// bringUp opens the devices concurrently; a failure cancels the others.
func (m *Mesh) bringUp(ctx context.Context, targets Machine, opts []reprise.Option) error {
	up, cancel := context.WithCancel(ctx)
	defer cancel()
	errs := make([]error, len(m.chips))
	var wg sync.WaitGroup
	var once sync.Once
	first := -1
	for i, c := range m.chips {
		if c.target < 0 {
			continue
		}
		wg.Go(func() {
			if c.Device, errs[i] = reprise.Open(up, targets[c.target], opts...); errs[i] != nil {
				once.Do(func() {
					first = i
					cancel()
				})
			}
		})
	}
	wg.Wait()
	if first < 0 {
		return m.alike()
	}
	for i, err := range errs {
		if i != first && err != nil && ctx.Err() == nil && errors.Is(err, context.Canceled) {
			errs[i] = ErrSkipped
		}
	}
	return m.failure("open", errs)
}

func (m *Mesh) alike() error {
	type traits struct {
		Arch                         chip.Arch
		Grid                         chip.Range
		Banks                        int
		BankSize                     uint64
		Queues                       int
		DRAM, L1, L1Small, TraceSize uint64 // fingerprints
	}
	of := func(d *reprise.Device) traits {
		return traits{
			d.Arch(), d.Grid(), d.DRAMBanks(), d.DRAMBankSize(), d.Queues(),
			d.MemoryFingerprint(allocator.DRAM), d.MemoryFingerprint(allocator.L1), d.MemoryFingerprint(allocator.L1Small),
			d.MemoryFingerprint(traceKind),
		}
	}
	if len(m.here) == 0 {
		return nil
	}
	first := m.chips[m.here[0]]
	want := of(first.Device)
	for _, i := range m.here {
		c := m.chips[i]
		if got := of(c.Device); got != want {
			return fmt.Errorf("mesh: open: %w: %v %s is %+v, %v %s is %+v: leave one of them out", ErrMismatch,
				first.Coord, first.Name, want, c.Coord, c.Name, got)
		}
	}
	return nil
}

func (m *Mesh) closeDevices(ctx context.Context) error {
	return m.each(ctx, "close", func(i int) error {
		if d := m.chips[i].Device; d != nil {
			return d.Close(ctx)
		}
		return nil
	})
}

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
