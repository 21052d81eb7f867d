package emu

// Identity is what a chip's firmware knows of the chip's place in a machine.
type Identity struct {
	Board    uint64 // serial number, with the kind of board in bits 36 to 51
	ASIC     uint64 // different for each chip of a machine
	Location uint8  // on its board
	X, Y     uint8  // Wormhole: place for the routing firmware
	Routing  bool   // Wormhole: some chip is reached through Ethernet only
}

// mangled is how Wormhole's Ethernet firmware shortens a board's number (ttsim src/tile.cpp
// wh_mangled_board_id).
func (id *Identity) mangled() uint32 {
	return uint32(id.Board>>4)&0xF0000000 | uint32(id.Board)&0x0FFFFFFF
}

// LinkFaults is what a link does to the packets that one end sends: one in so many, drawn from the
// chip's seed, is dropped, comes twice or is held up with all after it; 0 means never. Dropped
// packets are sent again, and nothing overtakes them (tt-isa-documentation
// WormholeB0/EthernetTile/EthernetTxRx.md, TT-link mode); with Drop 1 none arrives. Both copies of
// a packet are written, where silicon discards one.
type LinkFaults struct {
	Drop, Duplicate, Delay uint64
	// By is how many clocks a delayed packet and the resending of a dropped one take; 0 means
	// 10000.
	By uint64
}

// Cable is a link from an Ethernet tile to a chip elsewhere, such as in another process. Its
// signals go to Send; those of the other end to [Machine.Receive].
type Cable struct {
	Chip, Channel int
	// The other end.
	Peer        Identity
	PeerChannel int
	// Send sends to the other end, in order. It must not wait or call the Machine. At most 16
	// packets of each transmit queue are under way.
	Send func(Signal)
}

// SignalKind is what a Signal says.
type SignalKind uint8

// The signals of a cable.
const (
	SignalPacket SignalKind = iota + 1 // a transmit queue has sent a packet
	SignalTaken                        // the other end has taken a packet
	SignalDown                         // the link goes down
	SignalUp                           // the link comes up
	SignalReset                        // the chip was reset: packets under way are lost
)

// Signal is what one end of a cable tells the other.
type Signal struct {
	Kind  SignalKind
	Queue uint8 // of SignalPacket and SignalTaken: the packet's transmit queue
	// Epoch is how often packets under way had been lost when the packet was sent.
	Epoch uint64
	// SignalPacket: the target in L1, or of one register.
	Dest     uint32
	Register bool
	Words    []uint32
	// Held is by how many clocks the packet is delayed, Copies how often it arrives.
	Held   uint64
	Copies uint8
}
