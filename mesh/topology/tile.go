package topology

import (
	"fmt"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/kmd/remote"
)

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
