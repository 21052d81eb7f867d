package remote

import (
	"context"
	"fmt"
	"syscall"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/internal/seam"
	"github.com/reprise-tt/reprise/kmd"
)

// Target is a Wormhole without a PCI interface, as a target for kmd.Open. The device can't pin host
// memory, which the chip can't reach. Command queues use the link of kmd.Device.Uplink.
type Target struct {
	// Local is the chip in front, with a PCI interface.
	Local kmd.Target
	// Name names the target, such as "0000:01:00.0/(1,0)".
	Name string
	// Place is the chip's coordinate for Ethernet firmware.
	Place Place
	// Tile is the Ethernet tile of the local chip whose firmware forwards accesses.
	Tile chip.XY
	// Link carries command queues.
	Link kmd.Link
}

func (t *Target) String() string { return t.Name }

// Node implements kmd.Target.
func (t *Target) Node() seam.Node { return node{t} }

type node struct{ t *Target }

func (n node) String() string { return n.t.Name }

// Open implements seam.Node. It opens the local chip once more.
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
