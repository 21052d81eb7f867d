package metaltrace

import (
	"encoding/binary"
	"testing"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/dispatch/abi"
)

func TestPlacesOfArguments(t *testing.T) {
	workers := abi.Own(chip.Blackhole)
	const base = 0x8000
	type offsets struct{ unique, common [2]uint16 } // of BRISC and NCRISC
	for _, c := range []struct {
		name           string
		offsets        offsets
		unique, common [2]region
	}{
		{"both kinds", offsets{[2]uint16{0, 12}, [2]uint16{32, 48}},
			[2]region{{base, base + 12}, {base + 12, base + 32}}, [2]region{{base + 32, base + 48}, {base + 48, base + 64}}},
		{"a sentinel for none", offsets{[2]uint16{noArguments, 0}, [2]uint16{32, noArguments}},
			[2]region{{}, {base, base + 32}}, [2]region{{base + 32, base + 64}, {}}},
		{"none where the semaphores are", offsets{[2]uint16{0, 12}, [2]uint16{64, 64}},
			[2]region{{base, base + 12}, {base + 12, base + 64}}, [2]region{}},
		{"none in the message", offsets{unique: [2]uint16{0, 12}},
			[2]region{{base, base + 12}, {base + 12, base + 64}}, [2]region{}},
	} {
		le, at := binary.LittleEndian, &workers.Launch
		b := make([]byte, workers.L1.LaunchSize)
		le.PutUint32(b[at.ConfigBase:], base)
		le.PutUint32(b[at.Enables:], 3)
		le.PutUint16(b[at.Semaphores:], 64)
		le.PutUint16(b[at.Circular:], 96)
		for p := range uint32(2) {
			le.PutUint32(b[at.Text+4*p:], 0x1000)
			le.PutUint16(b[at.Args+4*p:], c.offsets.unique[p])
			le.PutUint16(b[at.Args+4*p+2:], c.offsets.common[p])
		}
		msg := message{bytes: b}
		for p := range chip.Processor(2) {
			if unique, common := msg.arguments(workers, p); unique != c.unique[p] || common != c.common[p] {
				t.Errorf("%s, %v: %v and %v, want %v and %v", c.name, p, unique, common, c.unique[p], c.common[p])
			}
		}
	}
}
