package topology_test

import (
	"context"
	"fmt"

	"github.com/reprise-tt/reprise/kmd"
	"github.com/reprise-tt/reprise/mesh/topology"
	"github.com/reprise-tt/reprise/sim"
)

// The chips of an n300: the second one, which is remote, is found through the first.
func ExampleDiscover() {
	ctx := context.Background()
	m := sim.N300()
	defer m.Close()
	d, err := kmd.Open(ctx, m.Card(0))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer d.Close()
	g, err := topology.Discover(ctx, []*kmd.Device{d})
	if err != nil {
		fmt.Println(err)
		return
	}
	for i, c := range g.Chips {
		fmt.Println(c.Name, "has links to", g.Neighbors(i))
	}
	// Output:
	// 0000:01:00.0 has links to map[1:2]
	// 0000:01:00.0/eth8 has links to map[0:2]
}
