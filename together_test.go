package reprise_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/sim"
)

// Lists of devices that can't be are refused before anything is allocated or loaded on those that can.
func TestListsOfDevices(t *testing.T) {
	b := open(t, sim.Blackhole())
	before := b.allocated()
	for _, tt := range []struct {
		ds   []*reprise.Device
		says string
	}{
		{nil, "no devices"},
		{[]*reprise.Device{nil}, "device 0 of the list is nil"},
		{[]*reprise.Device{b.dev, nil}, "device 1 of the list is nil"},
		{[]*reprise.Device{b.dev, b.dev}, "is given twice"},
	} {
		_, err := reprise.NewBuffers(tt.ds, reprise.BufferConfig{Kind: reprise.DRAM, Size: 64, PageSize: 64, Name: "x"})
		b.says(err, `reprise: new buffer "x"`, tt.says)
		_, err = reprise.LoadAll(b.ctx, tt.ds, make([]*reprise.Program, len(tt.ds)))
		b.says(err, "reprise: load", tt.says)
	}
	if diff := cmp.Diff(before, b.allocated()); diff != "" {
		t.Errorf("allocated (-before +now):\n%s", diff)
	}
}
