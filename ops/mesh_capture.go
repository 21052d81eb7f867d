package ops

import (
	"errors"
	"slices"

	"github.com/reprise-tt/reprise/ops/graph"
)

// MeshCapture records operations on a mesh as a graph.
type MeshCapture struct{ chips []*Capture } // of each chip; that of chip 0 has the descriptions of all

// BeginCapture starts to record operations on the mesh, as [Device.BeginCapture] does on a device. The graph is that of chip 0,
// with the addresses of tensors on all chips; operations of other chips alone aren't in it.
func (m *Mesh) BeginCapture(cfg graph.Config) *MeshCapture {
	c := &MeshCapture{}
	for _, d := range m.chips {
		c.chips = append(c.chips, d.BeginCapture(cfg))
		c.chips[0].rec.Device(d.describe())
	}
	return c
}

// End ends the capture and returns its report.
func (c *MeshCapture) End() (*graph.Report, error) {
	var r *graph.Report
	var errs []error
	for _, chip := range slices.Backward(c.chips) {
		var err error
		r, err = chip.End()
		errs = append(errs, err)
	}
	return r, errors.Join(errs...)
}
