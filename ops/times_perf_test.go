package ops_test

import (
	"bytes"
	"encoding/csv"
	"testing"

	"github.com/reprise-tt/reprise/ops"
	"github.com/reprise-tt/reprise/ops/graph"
	"github.com/reprise-tt/reprise/sim"
)

func TestPerformanceReport(t *testing.T) {
	b := open(t, sim.Wormhole())
	in := dram
	x := b.put(normal([4]int{1, 1, 64, 96}, ops.BFloat16, 1), ops.Tile, in)
	y := b.put(normal([4]int{1, 1, 96, 40}, ops.BFloat16, 2), ops.Tile, in)
	c := b.BeginCapture(graph.Config{StackTraces: true, OperationBuffers: true})
	product := b.ok(b.Matmul(b.ctx, x, y))
	b.ok(b.Relu(b.ctx, product))
	b.must(b.Wait(b.ctx))
	r := b.report(c)

	var out bytes.Buffer
	b.must(r.WritePerformance(&out))
	records, err := csv.NewReader(&out).ReadAll()
	b.must(err)
	rows := make([]map[string]string, len(records)-1)
	for i, record := range records[1:] {
		rows[i] = map[string]string{}
		for k, v := range record {
			if v != "" {
				rows[i][records[0][k]] = v
			}
		}
		for _, column := range []string{"DEVICE KERNEL DURATION [ns]", "HOST START TS", "HOST END TS", "HOST DURATION [ns]",
			"DEVICE FW START CYCLE", "DEVICE FW END CYCLE",
			"OP TO OP LATENCY [ns]", "OP TO OP LATENCY BR/NRISC START [ns]", "DEVICE FW DURATION [ns]", "ATTRIBUTES", "CORE COUNT"} {
			if rows[i][column] == "" {
				t.Errorf("row %d has no %s", i, column)
			}
			delete(rows[i], column)
		}
	}
	tensor := func(row map[string]string, name, y, x string) {
		for k, v := range map[string]string{"W_PAD[LOGICAL]": "1[1]", "Z_PAD[LOGICAL]": "1[1]", "Y_PAD[LOGICAL]": y, "X_PAD[LOGICAL]": x,
			"LAYOUT": "TILE", "DATATYPE": "BFLOAT16", "MEMORY": "DEV_0_DRAM_INTERLEAVED"} {
			row[name+"_"+k] = v
		}
	}
	want := []map[string]string{
		{"OP CODE": "MatmulDeviceOperation", "OP TYPE": "tt_dnn_device", "GLOBAL CALL COUNT": "1", "DEVICE ID": "0", "DEVICE ARCH": "wormhole_b0",
			"MATH FIDELITY":               "HiFi4",
			"AVAILABLE WORKER CORE COUNT": rows[0]["AVAILABLE WORKER CORE COUNT"]},
		{"OP CODE": "UnaryDeviceOperation", "OP TYPE": "tt_dnn_device", "GLOBAL CALL COUNT": "2", "DEVICE ID": "0", "DEVICE ARCH": "wormhole_b0",
			"AVAILABLE WORKER CORE COUNT": rows[0]["AVAILABLE WORKER CORE COUNT"]},
	}
	tensor(want[0], "INPUT_0", "64[64]", "96[96]")
	tensor(want[0], "INPUT_1", "96[96]", "64[40]")
	tensor(want[0], "OUTPUT_0", "64[64]", "64[40]")
	tensor(want[1], "INPUT_0", "64[64]", "64[40]")
	tensor(want[1], "OUTPUT_0", "64[64]", "64[40]")
	equal(t, want, rows)
}
