package isa_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/sim/emu/tensix/isa"
)

func Example() {
	for _, a := range []chip.Arch{chip.Wormhole, chip.Blackhole} {
		w, err := isa.Encode(a, "MVMUL", map[string]uint32{"Dst": 8, "Mode": 1, "Clear": 3})
		fmt.Printf("%v %#x %v\n", a, w, err)
	}
	// Output:
	// wormhole 0x26c08008 <nil>
	// blackhole 0x26c04008 <nil>
}

func TestEncodeRefusesWhatAnInstructionHasNoRoomFor(t *testing.T) {
	for _, tt := range []struct {
		name   string
		arch   chip.Arch
		in     string
		values map[string]uint32
		want   string // in the error, or the word
	}{
		{"fits", chip.Blackhole, "ZEROACC", map[string]uint32{"Clear": 3, "Revive": 1}, "0x101a0000"},
		{"too large", chip.Blackhole, "MVMUL", map[string]uint32{"Dst": 1024}, "MVMUL on blackhole: dst = 0x400: the field has 10 bits"},
		{"absent field", chip.Wormhole, "ZEROACC", map[string]uint32{"Revive": 1}, "the architecture doesn't have this field"},
		{"absent field left 0", chip.Wormhole, "ZEROACC", map[string]uint32{"Clear": 7}, "0x10380000"},
		{"absent instruction", chip.Wormhole, "SFPLE", nil, "wormhole doesn't have SFPLE"},
		{"unknown field", chip.Wormhole, "MVMUL", map[string]uint32{"dst": 1}, "MVMUL doesn't have all fields of map[dst:1]"},
	} {
		w, err := isa.Encode(tt.arch, tt.in, tt.values)
		got := fmt.Sprintf("%#x", w)
		if err != nil {
			got = err.Error()
		}
		if !strings.Contains(got, tt.want) {
			t.Errorf("%s: %s, want %s", tt.name, got, tt.want)
		}
	}
}

func TestFieldsHavePlaces(t *testing.T) {
	for _, tt := range []struct {
		name  string
		arch  chip.Arch
		field interface {
			Place(chip.Arch, uint32) (word, value uint32, err error)
		}
		v           uint32
		word, value uint32
		says        string
	}{
		{"scalar", chip.Wormhole, isa.SrcBFormat, 5, 1, 5 << 21, ""},
		{"array", chip.Wormhole, isa.PackOut + 2, 7, 97, 7, ""},
		{"whole word", chip.Blackhole, isa.UnpackBase + 2, 1<<32 - 1, 124, 1<<32 - 1, ""},
		{"thread", chip.Blackhole, isa.ThreadModeSrcBClear + 3, 1, 15, 1 << 15, ""},
		{"too large", chip.Wormhole, isa.SrcBFormat, 16, 0, 0, "has 4 bits"},
		{"absent", chip.Wormhole, isa.DstRemap, 0, 0, 0, "doesn't have"},
	} {
		word, value, err := tt.field.Place(tt.arch, tt.v)
		if tt.says != "" {
			if err == nil || !strings.Contains(err.Error(), tt.says) {
				t.Errorf("%s: error %v, want %q", tt.name, err, tt.says)
			}
			continue
		}
		if err != nil || word != tt.word || value != tt.value {
			t.Errorf("%s: %d, %#x, %v, want %d, %#x", tt.name, word, value, err, tt.word, tt.value)
		}
	}
}
