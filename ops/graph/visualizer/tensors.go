package visualizer

import (
	"encoding/json"
	"strings"

	"github.com/reprise-tt/reprise/ops/graph"
)

// tensors writes the tensors, each from its first node. A tensor without a device is left out if no operation uses it.
func (w *writer) tensors(p *plan, io *operands) {
	done := map[int64]bool{}
	for i := range p.g.Nodes {
		n := &p.g.Nodes[i]
		id, ok := n.Params.Int(graph.ParamTensorID)
		if n.Type != graph.TensorNode || !ok || done[id] {
			continue
		}
		done[id] = true
		q := n.Params
		var device, address, memory any
		if d, ok := q.Int(graph.ParamDeviceID); ok {
			device, memory = p.device(d), int64(kind(graph.Params{graph.ParamBufferTypeValue: q[graph.ParamBufferTypeValue], graph.ParamBufferType: q[graph.ParamBufferType]}))
			if a, ok := q.Int(graph.ParamAddress); ok {
				address = a
			}
		} else if !io.used[id] {
			continue
		}
		dots := strings.NewReplacer("::", ".")
		w.insert("INSERT OR IGNORE INTO tensors VALUES (?, ?, ?, ?, ?, ?, ?, ?)", id, q[graph.ParamShape], dots.Replace(q[graph.ParamDType]),
			dots.Replace(q[graph.ParamLayout]), q[graph.ParamMemoryConfig], device, address, memory)
		w.sum.Tensors++
		w.parts(p, id, q[graph.ParamDeviceTensors])
	}
}

// parts writes the places of a tensor's parts.
func (w *writer) parts(p *plan, id int64, text string) {
	if text == "" {
		return
	}
	var parts []graph.DeviceTensor
	if err := json.Unmarshal([]byte(text), &parts); err != nil {
		w.warn("tensor %d: its parts on devices can't be read: %v", id, err)
		return
	}
	w.insert("DELETE FROM device_tensors WHERE tensor_id = ?", id)
	type part struct{ device, address int64 }
	seen := map[part]bool{}
	for _, t := range parts {
		d := p.device(int64(t.Device))
		if t.MeshDevice != nil {
			d = p.device(int64(*t.MeshDevice))
		}
		k := part{d, int64(t.Address)}
		if seen[k] {
			continue
		}
		seen[k] = true
		w.insert("INSERT INTO device_tensors VALUES (?, ?, ?)", id, d, int64(t.Address))
		w.sum.DeviceTensors++
	}
}
