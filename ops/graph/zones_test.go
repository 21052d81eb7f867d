package graph_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/reprise-tt/reprise/internal/devtest"
	"github.com/reprise-tt/reprise/ops/graph"
)

func TestZones(t *testing.T) {
	r := timed()
	zone := func(processor, program, name string, line int, start, end uint64) graph.Zone {
		return graph.Zone{Device: 4, X: 18, Y: 2, Processor: processor, Program: program, Kernel: "k", Name: name, File: "kernels/a,b.c",
			Line: line, Start: start, End: end}
	}
	r.Zones = []graph.Zone{
		zone("TRISC1", "conv", "TRISC-KERNEL", 7, 2010, 2080),
		zone("BRISC", "conv", "BRISC-KERNEL", 3, 1010, 1400), zone("BRISC", "conv", "BRISC-KERNEL", 3, 1020, 1450), // of two cores
		zone("BRISC", "conv", "BRISC-KERNEL", 3, 1610, 1660), // of the same operation's other program
		zone("BRISC", "conv", "page, 1", 4, 1020, 1030),
		zone("NCRISC", "other", "NCRISC-KERNEL", 5, 1020, 1040), // not of the program that ran then
	}
	var file bytes.Buffer
	devtest.Must(t, r.Encode(&file))
	again, err := graph.Decode(&file, graph.Limits{})
	devtest.Must(t, err)
	for _, r := range []*graph.Report{r, again} {
		var b strings.Builder
		devtest.Must(t, r.WriteDeviceLog(&b))
		want := []string{
			"4,18,2,BRISC,1,1010,0,1,,,BRISC-KERNEL,ZONE_START,3,a;b.c,",
			"4,18,2,BRISC,1,1020,0,1,,,BRISC-KERNEL,ZONE_START,3,a;b.c,",
			"4,18,2,NCRISC,2,1020,0,0,,,NCRISC-KERNEL,ZONE_START,5,a;b.c,",
			"4,18,2,BRISC,3,1020,0,1,,,page; 1,ZONE_START,4,a;b.c,",
			"4,18,2,BRISC,3,1030,0,1,,,page; 1,ZONE_END,4,a;b.c,",
			"4,18,2,NCRISC,2,1040,0,0,,,NCRISC-KERNEL,ZONE_END,5,a;b.c,",
			"4,18,2,BRISC,1,1400,0,1,,,BRISC-KERNEL,ZONE_END,3,a;b.c,",
			"4,18,2,BRISC,1,1450,0,1,,,BRISC-KERNEL,ZONE_END,3,a;b.c,",
			"4,18,2,BRISC,1,1610,0,1,,,BRISC-KERNEL,ZONE_START,3,a;b.c,",
			"4,18,2,BRISC,1,1660,0,1,,,BRISC-KERNEL,ZONE_END,3,a;b.c,",
			"4,18,2,TRISC_1,4,2010,0,1,0,1,TRISC-KERNEL,ZONE_START,7,a;b.c,",
			"4,18,2,TRISC_1,4,2080,0,1,0,1,TRISC-KERNEL,ZONE_END,7,a;b.c,",
		}
		got := strings.Split(strings.TrimSpace(b.String()), "\n")[2:]
		graph.Equal(t, want, got, "device log")
		rows := perfTable(t, r, "DEVICE BRISC KERNEL DURATION [ns]", "DEVICE NCRISC KERNEL DURATION [ns]",
			"DEVICE TRISC1 KERNEL DURATION [ns]")
		// A cycle takes 2 ns.
		graph.Equal(t, [][]string{{"980", "", ""}, {"", "", "140"}, {"", "", ""}, {"", "", ""}}, rows, "performance")
	}
}
