package digits

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/reprise-tt/reprise/internal/devtest"
)

func TestTrainedNetworkReadsDigitsItHasNotSeen(t *testing.T) {
	images, err := Images()
	devtest.Must(t, err)
	n, err := Trained()
	devtest.Must(t, err)
	_, heldOut := Split(images)
	right := 0
	for _, m := range heldOut {
		if n.Classify(m.Pixels) == m.Label {
			right++
		}
	}
	if accuracy := 100 * float64(right) / float64(len(heldOut)); accuracy < 97 {
		t.Errorf("%d of %d right, %.2f %%, want at least 97 %%", right, len(heldOut), accuracy)
	}
}

func TestTrainedNetworkFitsTheKernel(t *testing.T) {
	n, err := Trained()
	devtest.Must(t, err)
	total := 0
	for i, l := range n.Layers() {
		total += l.PackedSize()
		if i < len(n.Layers())-1 && l.Out()%RowMultiple != 0 {
			t.Errorf("layer %d has %d outputs, want a multiple of %d", i, l.Out(), RowMultiple)
		}
	}
	if total > 16<<10 {
		t.Errorf("%d bytes of packed layers, want at most 16 KiB", total)
	}
}

// A quantised network whose activations all saturate or vanish may still classify well because of
// its biases; this one must use the range of its scales.
func TestActivationsUseTheirRange(t *testing.T) {
	images, err := Images()
	devtest.Must(t, err)
	n, err := Trained()
	devtest.Must(t, err)
	for i, l := range n.Layers()[:len(n.Layers())-1] {
		most, saturated, total := byte(0), 0, 0
		for _, m := range images {
			p := m.Page()
			for _, before := range n.Layers()[:i+1] {
				p = before.Forward(p)
			}
			for _, v := range p[:l.Out()] {
				most = max(most, v)
				total++
				if v == maxActivation {
					saturated++
				}
			}
			for _, v := range p[l.Out():] {
				if v != 0 {
					t.Fatalf("layer %d: page not padded with zeros: %v", i, p)
				}
			}
		}
		if most < 120 || saturated*1000 > total {
			t.Errorf("layer %d: largest activation %d, %d of %d saturated", i, most, saturated, total)
		}
	}
}

func TestForwardIsItsLayers(t *testing.T) {
	images, err := Images()
	devtest.Must(t, err)
	n, err := Trained()
	devtest.Must(t, err)
	for _, m := range images[:50] {
		p := m.Page()
		for _, l := range n.Layers() {
			p = l.Forward(p)
		}
		if diff := cmp.Diff(Scores(p), n.Forward(m.Pixels)); diff != "" {
			t.Fatalf("(-layers +network):\n%s", diff)
		}
	}
}

func TestSplitHoldsOutAQuarterOfEachLabel(t *testing.T) {
	images, err := Images()
	devtest.Must(t, err)
	training, heldOut := Split(images)
	count := func(images []Image) (n [Classes]int) {
		for _, m := range images {
			n[m.Label]++
		}
		return n
	}
	if diff := cmp.Diff([Classes]int{44, 45, 44, 45, 45, 45, 45, 44, 43, 45}, count(heldOut)); diff != "" {
		t.Errorf("held out (-want +got):\n%s", diff)
	}
	// Together they are the images, each once.
	seen := map[Image]int{}
	for _, m := range images {
		seen[m]++
	}
	for _, m := range append(training, heldOut...) {
		seen[m]--
	}
	for m, n := range seen {
		if n != 0 {
			t.Errorf("%d left over of\n%s", n, RenderASCII(m))
		}
	}
}
