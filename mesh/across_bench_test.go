package mesh

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/mesh/topology"
)

func reportsOf(b *testing.B, rows, cols int) [][]byte {
	b.Helper()
	const height, width, lanes = 8, 4, 3
	name := func(r, c int) string { return fmt.Sprintf("%08X%08X", (r+rows)%rows, (c+cols)%cols) }
	var all [][]byte
	for host := range rows / height * (cols / width) {
		out := hostReport{Arch: chip.Blackhole, Linked: true}
		for i := range height * width {
			r, c := host/(cols/width)*height+i/width, host%(cols/width)*width+i%width
			n := hostChip{Name: fmt.Sprintf("0000:%02x:00.0", i+1), ASIC: name(r, c)}
			for side, peer := range []string{name(r-1, c), name(r, c-1), name(r+1, c), name(r, c+1)} {
				for k := range lanes {
					channel := side*lanes + k
					n.Ports = append(n.Ports, hostPort{
						Channel: channel, Tile: chip.XY{X: uint8(channel), Y: 1}, State: topology.Up, ASIC: peer, PeerPort: (side+2)%4*lanes + k,
					})
				}
			}
			out.Chips = append(out.Chips, n)
		}
		data, err := json.Marshal(out)
		if err != nil {
			b.Fatal(err)
		}
		all = append(all, data)
	}
	return all
}

func BenchmarkAcross(b *testing.B) {
	for _, s := range []Shape{{16, 16}, {64, 32}, {128, 128}} {
		all := reportsOf(b, s[0], s[1])
		b.Run(fmt.Sprint(len(all), "_hosts"), func(b *testing.B) {
			for b.Loop() {
				reports, err := parseReports(all)
				if err != nil {
					b.Fatal(err)
				}
				f := &found{links: make(links, 32), nodes: make([]node, 32)}
				for n := range f.links {
					f.links[n] = map[int]bool{}
				}
				if _, _, err := merge(f, reports, 0).choose([]Shape{s}); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(len(all[0])), "B/host")
		})
	}
}
