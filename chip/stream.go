package chip

// StreamReg is an overlay stream register that software uses as a counter (tt-isa-documentation
// WormholeB0/NoC/Overlay/AsGeneralUse.md).
type StreamReg uint8

const (
	RemoteSrc          StreamReg = iota // 24 bits
	RemoteDestBufStart                  // 17 bits; a circular buffer's "tiles acked"
	// RemoteDestBufSize holds 17 bits, a circular buffer's "tiles received". Writing it also sets
	// SpaceAvailable.
	RemoteDestBufSize
	// SpaceAvailableUpdate is write only: increment<<6 | destination index, added to SpaceAvailable
	// modulo 2^17.
	SpaceAvailableUpdate
	SpaceAvailable // read only, 17 bits

	numStreamRegs
)

// StreamParams describe the overlay streams of a tile.
type StreamParams struct {
	Base          uint32 // address of stream 0
	Stride        uint32
	Count         int
	FirstDispatch int // first stream of a dispatch core that counts workers' completions
	FirstCB       int // of circular buffer 0
	offset        [numStreamRegs]uint32
}

// StreamCounterBits is the width of SpaceAvailable and of a circular buffer's counters.
const StreamCounterBits = 17

// StreamUpdate returns the value to store to SpaceAvailableUpdate for SpaceAvailable to grow by n
// modulo 2^17.
func StreamUpdate(n int32) uint32 { return uint32(n) << 6 & (1<<(StreamCounterBits+6) - 1) }

// Reg returns the address of register r of stream n, or NoRegister.
func (s *StreamParams) Reg(n int, r StreamReg) uint32 {
	if n < 0 || n >= s.Count || r >= numStreamRegs {
		return NoRegister
	}
	return s.Base + uint32(n)*s.Stride + s.offset[r]
}
