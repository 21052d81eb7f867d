package mesh

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/internal/expect"
	"github.com/reprise-tt/reprise/mesh/topology"
)

func ownReport() []byte {
	port := func(i int, asic string, peer int) hostPort {
		return hostPort{Channel: i, State: topology.Up, ASIC: asic, PeerPort: peer}
	}
	data, err := json.Marshal(hostReport{Arch: chip.Blackhole, Linked: true, Chips: []hostChip{
		{Name: "a", ASIC: "1", Ports: []hostPort{port(0, "2", 0), port(1, "3", 0)}},
		{Name: "b", ASIC: "2", Ports: []hostPort{port(0, "1", 0)}},
	}})
	if err != nil {
		panic(err)
	}
	return data
}

func FuzzHostReport(f *testing.F) {
	f.Add([]byte(`{"Arch":2,"Linked":true,"Chips":[{"Name":"c","ASIC":"3","Ports":[{"Channel":0,"State":2,"ASIC":"1","PeerPort":1}]}]}`))
	f.Add([]byte(`{"Arch":2,"Linked":true,"Chips":[{"Name":"c","ASIC":"3","Ports":[{"Channel":0,"State":2,"ASIC":"1","PeerPort":-1}]}]}`))
	f.Add([]byte(`{"Arch":2,"Linked":true,"Chips":[{"Name":"c","ASIC":"3","Remote":true,"Ports":[{"State":2,"ASIC":"1","PeerPort":200}],"Carry":[0,-7]}]}`))
	f.Add([]byte(`{"Arch":2,"Linked":true,"Chips":[{"Name":"c","ASIC":"3"}]}`))
	f.Add([]byte(`{"Arch":2,"Linked":true,"Chips":[{"ASIC":"1","Ports":[{"State":2,"ASIC":"1"}]}]}`))
	f.Add([]byte(`{"Err":"no cards"}`))
	f.Add([]byte(`{}`))
	own := ownReport()
	f.Fuzz(func(t *testing.T, other []byte) {
		reports, err := parseReports([][]byte{own, other})
		if err != nil {
			return
		}
		mine := &found{links: links{{}, {}}}
		all := merge(mine, reports, 0)
		if n := 2 + len(reports[1].Chips); len(all.links) != n || len(all.graph.Chips) != n {
			t.Fatalf("%d chips, want %d", len(all.links), n)
		}
		for _, l := range all.graph.Links {
			if l.State != topology.Up {
				continue
			}
			for _, e := range []topology.End{l.A, l.B} {
				if p := all.graph.Chips[e.Chip].Ports; e.Channel < 0 || e.Channel >= len(p) || p[e.Channel].State != topology.Up {
					t.Errorf("link %v, but chip %d has ports %v", l, e.Chip, p)
				}
			}
		}
		all.graph.Degraded()
		_, _, _ = all.choose([]Shape{{2}, {len(all.links)}})
	})
}

func TestMergeDropsUnknownPorts(t *testing.T) {
	for _, tc := range []struct {
		name, other string
		linked      bool
	}{
		{"both ends", `{"Arch":2,"Linked":true,"Chips":[{"Name":"c","ASIC":"3","Ports":[{"State":2,"ASIC":"1","PeerPort":1}]}]}`, true},
		{"negative", `{"Arch":2,"Linked":true,"Chips":[{"Name":"c","ASIC":"3","Ports":[{"State":2,"ASIC":"1","PeerPort":-1}]}]}`, false},
		{"too large", `{"Arch":2,"Linked":true,"Chips":[{"Name":"c","ASIC":"3","Ports":[{"State":2,"ASIC":"1","PeerPort":2}]}]}`, false},
		{"no ports", `{"Arch":2,"Linked":true,"Chips":[{"Name":"c","ASIC":"3"}]}`, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			reports := expect.Value(parseReports([][]byte{ownReport(), []byte(tc.other)}))(t)
			all := merge(&found{links: links{{}, {}}}, reports, 0)
			if all.links[0][2] != tc.linked || all.links[2][0] != tc.linked || !all.links[0][1] {
				t.Errorf("links %v, want chips 0 and 2 linked: %t", all.links, tc.linked)
			}
		})
	}
	for name, other := range map[string]string{
		"architecture": `{"Arch":9,"Linked":true}`,
		"order":        `{"Arch":2,"Linked":true,"Chips":[{"Ports":[{"Channel":1}]}]}`,
		"state":        `{"Arch":2,"Linked":true,"Chips":[{"Ports":[{"State":9}]}]}`,
		"no JSON":      `{`,
	} {
		if _, err := parseReports([][]byte{ownReport(), []byte(other)}); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

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
		data := expect.Value(json.Marshal(out))(b)
		all = append(all, data)
	}
	return all
}

func BenchmarkAcross(b *testing.B) {
	for _, s := range []Shape{{16, 16}, {64, 32}, {128, 128}} {
		all := reportsOf(b, s[0], s[1])
		b.Run(fmt.Sprint(len(all), "_hosts"), func(b *testing.B) {
			for b.Loop() {
				reports := expect.Value(parseReports(all))(b)
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
