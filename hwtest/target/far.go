package target

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/internal/seam"
	"github.com/reprise-tt/reprise/kmd"
	"github.com/reprise-tt/reprise/kmd/remote"
	"github.com/reprise-tt/reprise/mesh/topology"
	"github.com/reprise-tt/reprise/sim"
	"github.com/reprise-tt/reprise/sim/ttsim"
)

// parseFar makes the first chip of a machine that has no PCI interface, such as far:emu:n300.
func parseFar(name, machine string, server ttsim.Option) (*Device, error) {
	kind, rest, _ := strings.Cut(machine, ":")
	words := strings.Split(rest, ",")
	spec, ok := chip.MachineNamed(words[0])
	d := &Device{Name: "far_" + strings.NewReplacer(":", "_", ",", "_", "=", "_").Replace(machine), Given: name, Kind: Simulator,
		Arch: chip.Wormhole}
	if kind != "emu" || !ok {
		m, err := ParseMachine(machine, server)
		if err != nil {
			return nil, err
		}
		d.Name, d.Kind = "far_"+m.Name, m.Kind
		d.open = func() kmd.Target { return &farTarget{name: name, start: m.Open} }
		return d, nil
	}
	var opts []sim.Option
	for _, w := range words[1:] {
		key, value, _ := strings.Cut(w, "=")
		if strings.HasPrefix(w, "link-") {
			opts = append(opts, sim.LinkFault(w))
			continue
		}
		o, err := numberOption(key, value)
		if err != nil {
			return nil, &Error{Value: name, Why: fmt.Sprintf("there is no option %q", w),
				Hint: "use seed=N, delay=CLOCKS, strict=SEED or faults of links such as link-down=0:8", Err: ErrUnknown}
		}
		opts = append(opts, o)
		d.Strict = d.Strict || key == "strict"
	}
	d.open = func() kmd.Target {
		return &farTarget{name: name, start: (&Machine{open: emulatedMachine(spec, opts)}).Open}
	}
	return d, nil
}

type farTarget struct {
	name  string
	start func() ([]kmd.Target, func() error, error)

	mu    sync.Mutex
	files int
	chip  *remote.Target
	end   func() error
}

func (t *farTarget) String() string  { return t.name }
func (t *farTarget) Node() seam.Node { return (*farNode)(t) }

type farNode farTarget

func (n *farNode) String() string { return n.name }

func (n *farNode) Open(flags int) (seam.File, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.files == 0 {
		if err := n.startMachineLocked(); err != nil {
			return nil, err
		}
	}
	f, err := n.chip.Node().Open(flags)
	if err != nil {
		if n.files == 0 {
			err = errors.Join(err, n.end())
		}
		return nil, err
	}
	n.files++
	return &farFile{File: f, n: n}, nil
}

func (n *farNode) startMachineLocked() error {
	cards, end, err := n.start()
	if err != nil {
		return err
	}
	ctx := context.Background()
	var open []*kmd.Device
	var g *topology.Graph
	for _, c := range cards {
		var d *kmd.Device
		if d, err = kmd.Open(ctx, c); err != nil {
			break
		}
		defer d.Close()
		open = append(open, d)
	}
	if err == nil {
		g, err = topology.Discover(ctx, open)
	}
	if err == nil {
		n.chip, err = g.Remote(len(cards), cards)
	}
	if err != nil {
		return errors.Join(err, end())
	}
	n.end = end
	return nil
}

type farFile struct {
	seam.File
	n    *farNode
	once sync.Once
}

func (f *farFile) Uplink() *kmd.Uplink { return f.File.(interface{ Uplink() *kmd.Uplink }).Uplink() }

func (f *farFile) Close() error {
	err := f.File.Close()
	f.once.Do(func() {
		f.n.mu.Lock()
		defer f.n.mu.Unlock()
		if f.n.files--; f.n.files == 0 {
			err = errors.Join(err, f.n.end())
		}
	})
	return err
}
