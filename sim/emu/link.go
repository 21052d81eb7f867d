package emu

// Identity is what a chip's firmware knows of the chip's place in a machine.
type Identity struct {
	Board    uint64 // serial number of the board: the kind of board is in bits 36 to 51
	ASIC     uint64 // number of the chip, different for each chip of a machine
	Location uint8  // of the chip on its board
	X, Y     uint8  // Wormhole: where the chip is among those that the routing firmware reaches
	Routing  bool   // Wormhole: some chip of the machine is reached through Ethernet only
}

// mangled is how Wormhole's Ethernet firmware shortens the number of a board (ttsim src/tile.cpp
// wh_mangled_board_id).
func (id *Identity) mangled() uint32 {
	return uint32(id.Board>>4)&0xF0000000 | uint32(id.Board)&0x0FFFFFFF
}

// LinkFaults is what a link does to the packets that one of its ends sends. One in so many, drawn
// from the chip's seed, is dropped, comes twice or is held up with all those after it; 0 means
// never. What is dropped is sent again until it arrives, and nothing after it is taken before
// (tt-isa-documentation WormholeB0/EthernetTile/EthernetTxRx.md, TT-link mode); if all are dropped,
// none arrives, and the queue stands still once it is full. Of those that come twice, silicon
// discards one; here both are written, as a check of what is above.
type LinkFaults struct {
	Drop, Duplicate, Delay uint64
	// By is the delay of a delayed packet, and the time until a dropped one is sent again, in
	// clocks; 0 means 10000.
	By uint64
}

// Cable is a link from an Ethernet tile to a chip that is elsewhere, such as in another process.
// What the tile sends goes to Send; what the chip at the other end sends is given to
// [Machine.Receive].
type Cable struct {
	Chip, Channel int
	// Peer and PeerChannel are the other end.
	Peer        Identity
	PeerChannel int
	// Send sends to the other end, in order. It is called while the chip runs, so it must not wait,
	// and must not call methods of the Machine. At most 16 packets of each of the tile's transmit
	// queues are under way.
	Send func(Signal)
}

// SignalKind is what a Signal says.
type SignalKind uint8

// The signals of a cable.
const (
	SignalPacket SignalKind = iota + 1 // a transmit queue has sent a packet
	SignalTaken                        // the other end has taken one of the packets: there is room for another
	SignalDown                         // the link goes down
	SignalUp                           // the link comes up
	SignalReset                        // the chip was reset: what was under way is lost
)

// Signal is what one end of a cable tells the other.
type Signal struct {
	Kind  SignalKind
	Queue uint8 // of SignalPacket and SignalTaken: the transmit queue of the packet
	// Epoch is how often what was under way had been lost when the packet was sent; SignalTaken has
	// that of its packet.
	Epoch uint64
	// Of SignalPacket: where the words go, an address of L1, or that of one register.
	Dest     uint32
	Register bool
	Words    []uint32
	// Held is for how many clocks the packet is held up, and Copies how often it arrives: faults of
	// the sender's end.
	Held   uint64
	Copies uint8
}
