package main

import (
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestCommittedTablesAreWhatTheirTextsSay(t *testing.T) {
	const dir = "../.."
	for _, s := range sources {
		want, err := s.generated(dir)
		if err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(dir + "/" + s.to)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(want), string(got)); diff != "" {
			t.Errorf("%s is out of date: run go generate in sim/emu/tensix (-want +got):\n%s", s.to, diff)
		}
	}
}

func TestMalformedLinesAreRefused(t *testing.T) {
	for name, line := range map[string]string{
		"no name":           "08",
		"opcode":            "XY MOVD2A",
		"operand":           "08 MOVD2A dst",
		"bits upside down":  "08 MOVD2A dst=0:9",
		"bits beyond words": "08 MOVD2A dst=40:32",
	} {
		if _, err := instructions([]string{line}); err == nil {
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
		if _, err := registers([]string{line}); err == nil {
			t.Errorf("%s: %q is accepted", name, line)
		}
	}
}

func TestOperandsOfAnInstructionDoNotOverlap(t *testing.T) {
	lines, err := read("../../instructions.txt")
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range lines {
		in, err := parseInstruction(l)
		if err != nil {
			t.Fatal(err)
		}
		for arch := range 2 {
			used := uint32(0)
			for _, o := range in.fields {
				m := o.place[arch].mask() << o.place[arch].low
				if used&m != 0 || m>>24 != 0 {
					t.Errorf("%s: operand %s shares bits (%s)", in.name, o.name, strings.TrimSpace(l))
				}
				used |= m
			}
		}
	}
}
