package sim

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/reprise-tt/reprise/sim/emu"
)

// Each fault is left in place, so that the next one has to add to it.
func TestLinkFaultsAddUp(t *testing.T) {
	m := N300(LinkFault("link-delay=0:9/3"), LinkFault("link-duplicate=0:9/2"), LinkFault("link-drop=1:1/7"))
	defer m.Close()
	for _, f := range []string{"link-drop=0:9/4", "link-delay=0:9/5"} {
		if err := m.Inject(f); err != nil {
			t.Fatal(err)
		}
	}
	if err := m.Inject("link-drop=0:1/2"); !errors.Is(err, emu.ErrConfig) {
		t.Errorf("a link that isn't there: %v", err)
	}
	want := map[[2]int]emu.LinkFaults{{0, 9}: {Drop: 4, Duplicate: 2, Delay: 5}, {1, 1}: {Drop: 7}}
	if diff := cmp.Diff(want, m.faults); diff != "" {
		t.Error(diff)
	}
}
