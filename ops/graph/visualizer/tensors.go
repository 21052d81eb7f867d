package visualizer

import (
	"encoding/json"
	"strings"

	"github.com/reprise-tt/reprise/ops/graph"
)

// tensors writes the tensors, each from its first node. An unused tensor without a device is left
// out.
func (w *writer) tensors(p *plan, io *operands) {
	done, sizes := map[int64]bool{}, p.sizes()
	columns, values := "tensor_id, shape, dtype, layout, memory_config, device_id, address, buffer_type", "?, ?, ?, ?, ?, ?, ?, ?"
	sized := w.has("tensors", "size") // a database of tt-metal has no sizes
	if sized {
		columns, values = columns+", size", values+", ?"
	}
	for i := range p.g.Nodes {
		n := &p.g.Nodes[i]
		id, ok := n.Params.Int(graph.ParamTensorID)
		if n.Type != graph.TensorNode || !ok || done[id] {
			continue
		}
		done[id] = true
		q := n.Params
		var device, address, memory, size any
		if d, ok := q.Int(graph.ParamDeviceID); ok {
			of := int64(kind(graph.Params{graph.ParamBufferTypeValue: q[graph.ParamBufferTypeValue],
				graph.ParamBufferType: q[graph.ParamBufferType]}))
			device, memory = p.device(d), of
			if a, ok := q.Int(graph.ParamAddress); ok {
				address = a
				if s, ok := sizes.before(place{p.device(d), a}, of, i); ok {
					size = s
				}
			}
		} else if !io.used[id] {
			continue
		}
		dots := strings.NewReplacer("::", ".")
		row := []any{id, q[graph.ParamShape], dots.Replace(q[graph.ParamDType]), dots.Replace(q[graph.ParamLayout]), q[graph.ParamMemoryConfig],
			device, address, memory}
		if sized {
			row = append(row, size)
		}
		w.insert("INSERT OR IGNORE INTO tensors ("+columns+") VALUES ("+values+")", row...)
		w.sum.Tensors++
		w.parts(p, id, q[graph.ParamDeviceTensors])
	}
}

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
		w.row("device_tensors", id, d, int64(t.Address))
		w.sum.DeviceTensors++
	}
}
