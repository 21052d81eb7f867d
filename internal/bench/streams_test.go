package bench

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/reprise-tt/reprise/internal/effort"
)

// Beside each is a read through the queue of as many bytes.
func TestStreamFigures(t *testing.T) {
	effort.Long(t)
	const messages = 20
	r := runFamily(t, "streams", Config{iterations: messages})
	names := map[string][]string{} // by parameters
	for _, f := range r.Figures {
		per, params := messages, ""
		for _, p := range f.Params {
			if params += " " + p.Key + " " + p.Value; p.Key == "pace" {
				per = 1
			}
		}
		names[params] = append(names[params], f.Name)
		if f.P50 <= 0 || f.PerSample != per {
			t.Errorf("%s: %v ns, %d in a sample", f.ID(), f.P50, f.PerSample)
		}
	}
	want := map[string][]string{}
	for _, p := range paces[:2] {
		want[" bytes 4 pace "+p.name] = []string{"round_trip", "to_goroutine", "queue_read"}
	}
	for _, n := range streamSizes {
		want[fmt.Sprint(" bytes ", n)] = []string{"to_host", "to_device", "queue_read"}
	}
	if diff := cmp.Diff(want, names); diff != "" {
		t.Errorf("figures (-want +got):\n%s", diff)
	}
}
