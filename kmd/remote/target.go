package remote

import (
	"context"
	"fmt"
	"syscall"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/internal/seam"
	"github.com/reprise-tt/reprise/kmd"
)

// Target is a Wormhole without a PCI interface, for kmd.Open. The chip can't reach host memory;
// command queues use the link of kmd.Device.Uplink.
type Target struct {
	Local kmd.Target // the chip in front, with a PCI interface
	Name  string     // such as "0000:01:00.0/(1,0)"
	Place Place      // the chip's coordinate for Ethernet firmware
	Tile  chip.XY    // the Ethernet tile of the local chip whose firmware forwards accesses
	Link  kmd.Link   // for command queues
}

func (t *Target) String() string { return t.Name }

// Node implements kmd.Target.
func (t *Target) Node() seam.Node { return node{t} }

type node struct{ t *Target }

func (n node) String() string { return n.t.Name }

func (n node) Open(flags int) (seam.File, error) {
	if flags&syscall.O_EXCL != 0 {
		return nil, fmt.Errorf("%s: a chip without a PCI interface can't be opened exclusively: %w", n.t.Name, syscall.EINVAL)
	}
	local, err := kmd.Open(context.Background(), n.t.Local, kmd.WithoutWaiting())
	if err != nil {
		return nil, err
	}
	tun, err := OpenTunnel(local, n.t.Tile, n.t.Place)
	if err != nil {
		local.Close()
		return nil, err
	}
	return &file{t: n.t, local: local, tun: tun, windows: map[uint32]*window{}}, nil
}
