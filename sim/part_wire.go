package sim

import (
	"encoding/binary"
	"fmt"
	"io"

	"github.com/reprise-tt/reprise/sim/emu"
)

// A message between two parts: length in bytes without these 4, link number, then in a byte each
// kind, queue, register and copies, then epoch, held, destination, and the words; little-endian.
const (
	messageHead = 4 + 4 + 8 + 8 + 4
	maxMessage  = 1 << 20 // more than an Ethernet tile's whole L1, the largest packet
)

func (m *message) append(b []byte) []byte {
	s := &m.s
	b = binary.LittleEndian.AppendUint32(b, uint32(messageHead+4*len(s.Words)))
	b = binary.LittleEndian.AppendUint32(b, m.link)
	register := byte(0)
	if s.Register {
		register = 1
	}
	b = append(b, byte(s.Kind), s.Queue, register, s.Copies)
	b = binary.LittleEndian.AppendUint64(b, s.Epoch)
	b = binary.LittleEndian.AppendUint64(b, s.Held)
	b = binary.LittleEndian.AppendUint32(b, s.Dest)
	for _, w := range s.Words {
		b = binary.LittleEndian.AppendUint32(b, w)
	}
	return b
}

// head is room for the length. An invalid message's error wraps emu.ErrConfig; the emulator checks
// the signal.
func readMessage(r io.Reader, head []byte) (m message, err error) {
	if _, err := io.ReadFull(r, head[:4]); err != nil {
		return m, err
	}
	n := binary.LittleEndian.Uint32(head)
	if n < messageHead || n > maxMessage || n%4 != 0 {
		return m, fmt.Errorf("sim: message of %d B: %w: want %d to %d and whole words", n, emu.ErrConfig, messageHead, maxMessage)
	}
	b := make([]byte, n)
	if _, err := io.ReadFull(r, b); err != nil {
		return m, err
	}
	m.link = binary.LittleEndian.Uint32(b)
	if b[6] > 1 {
		return m, fmt.Errorf("sim: message: %w: register is %d, want 0 or 1", emu.ErrConfig, b[6])
	}
	m.s = emu.Signal{
		Kind: emu.SignalKind(b[4]), Queue: b[5], Register: b[6] == 1, Copies: b[7],
		Epoch: binary.LittleEndian.Uint64(b[8:]), Held: binary.LittleEndian.Uint64(b[16:]), Dest: binary.LittleEndian.Uint32(b[24:]),
	}
	for i := messageHead; i < len(b); i += 4 {
		m.s.Words = append(m.s.Words, binary.LittleEndian.Uint32(b[i:]))
	}
	return m, nil
}
