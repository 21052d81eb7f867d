package demo

import (
	"strings"
	"testing"

	"github.com/reprise-tt/reprise/examples/words"
)

// Words that the device made are counted by the part of the list that they are in. The share is that of all words that were made.
func TestKnownWords(t *testing.T) {
	all, err := words.All()
	if err != nil {
		t.Fatal(err)
	}
	training, heldBack := words.Split(all)
	const line = "known     1 of them are in the list the network learned from, 1 (25.0 %) in the part that was held back\n"
	r := &Generated{Words: []string{training[len(training)/2], "qzxqzx", heldBack[len(heldBack)-1], "zzzz"}}
	if err := r.count(); err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	if err := r.print(&out); err != nil {
		t.Fatal(err)
	}
	if r.Trained != 1 || r.HeldBack != 1 || r.HeldBackShare != 0.25 || !strings.Contains(out.String(), line) {
		t.Errorf("%d in the list, %d held back, a share of %v:\n%s", r.Trained, r.HeldBack, r.HeldBackShare, out.String())
	}
	none := &Generated{}
	if err := none.count(); err != nil || none.HeldBackShare != 0 {
		t.Errorf("no words: %v, a share of %v", err, none.HeldBackShare)
	}
}
