package tables

import "testing"

func TestMalformedLinesAreRefused(t *testing.T) {
	for name, line := range map[string]string{
		"no name":           "08",
		"opcode":            "XY MOVD2A",
		"operand":           "08 MOVD2A dst",
		"bits upside down":  "08 MOVD2A dst=0:9",
		"bits beyond words": "08 MOVD2A dst=40:32",
	} {
		if _, err := ParseInstructions(line); err == nil {
			t.Errorf("%s: %q is accepted", name, line)
		}
	}
	for name, line := range map[string]string{
		"kind":         "register x",
		"columns":      "config a B 1.2:0",
		"no word":      "config a B 2:0 2:0",
		"architecture": "word gs 0 banked FF rw",
		"mask":         "word wh 0 banked XY rw",
	} {
		if _, err := ParseRegisters(line); err == nil {
			t.Errorf("%s: %q is accepted", name, line)
		}
	}
}

func TestOperandsOfAnInstructionDoNotOverlap(t *testing.T) {
	for _, in := range Instructions() {
		for arch := range 2 {
			used := uint32(0)
			for _, o := range in.Operands {
				m := o.Places[arch].Mask << o.Places[arch].Shift
				if used&m != 0 || m>>24 != 0 {
					t.Errorf("%s: operand %s shares bits", in.Name, o.Name)
				}
				used |= m
			}
		}
	}
}
