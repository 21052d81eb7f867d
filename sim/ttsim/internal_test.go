package ttsim

import (
	"strings"
	"testing"

	"github.com/reprise-tt/reprise/internal/expect"
)

func TestParseError(t *testing.T) {
	tests := []struct {
		name, output string
		want         *Error
	}{
		{"message", "[12] ERROR: UndefinedBehavior: pci_mem_rd_cur: paddr=0x0 size=4\n",
			&Error{Category: "UndefinedBehavior", Function: "pci_mem_rd_cur", Message: "paddr=0x0 size=4", Clock: 12, Status: 1}},
		{"no message", "[0] ERROR: UnsupportedFunctionality: libttsim_tile_rd_bytes\n",
			&Error{Category: "UnsupportedFunctionality", Function: "libttsim_tile_rd_bytes", Status: 1}},
		{"colons in the message", "[7] ERROR: UnimplementedFunctionality: f: bar0: offset=0x1\n",
			&Error{Category: "UnimplementedFunctionality", Function: "f", Message: "bar0: offset=0x1", Clock: 7, Status: 1}},
		{"after a program's output", "hello [1] world[90] ERROR: ConfigurationError: f: m\n",
			&Error{Category: "ConfigurationError", Function: "f", Message: "m", Clock: 90, Status: 1}},
		{"the end of a run", "[123] 0.5 seconds (1.0 MHz)\n", nil},
		{"empty", "", nil},
		{"no clock", "[x] ERROR: A: b: c\n", nil},
		{"no category", "[1] ERROR: what now\n", nil},
		{"only the marker", "] ERROR: ", nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, ok := parseError(tt.output)
			if ok != (tt.want != nil) {
				t.Fatalf("found=%t", ok)
			}
			expect.NoDiff(t, got, tt.want, "got")
		})
	}
}

func FuzzParseError(f *testing.F) {
	f.Add("[12] ERROR: UndefinedBehavior: pci_mem_rd_cur: paddr=0x0 size=4\n")
	f.Add("] ERROR: : : ")
	f.Fuzz(func(t *testing.T, output string) {
		e, ok := parseError(output)
		if ok && (e.Category == "" || strings.Contains(e.Message, "\n")) {
			t.Errorf("%q gave %+v", output, e)
		}
	})
}
