package bench

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/reprise-tt/reprise/internal/effort"
	"github.com/reprise-tt/reprise/mesh"
	"github.com/reprise-tt/reprise/sim"
)

// Cards are measured first, then all chips, also those that only cards lead to.
func TestMeshFigures(t *testing.T) {
	effort.Long(t)
	for _, tt := range []struct {
		make func(...sim.Option) *sim.Machine
		want []string
	}{
		{sim.N300, []string{"open [{chips 1}]", "replay for each chip [{chips 1}]", "replay for each chip [{chips 2} {behind 1}]"}},
		{sim.P300, []string{"open [{chips 1}]", "open [{chips 2}]", "replay for each chip [{chips 1}]", "replay for each chip [{chips 2}]"}},
	} {
		m := tt.make()
		t.Run(m.String(), func(t *testing.T) {
			r := runFamily(t, "mesh", Config{Target: m.Card(0), Mesh: mesh.Cards(m.Cards()...)})
			var got []string
			for _, f := range r.Figures {
				if f.P50 <= 0 {
					t.Errorf("%s %v takes %v ns", f.Name, f.Params, f.P50)
				}
				got = append(got, fmt.Sprint(strings.TrimPrefix(f.Name, "mesh/"), " ", f.Params))
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("figures (-want +got):\n%s", diff)
			}
			must(t, m.Close())
		})
	}
}
