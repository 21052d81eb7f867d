package convnet

import (
	"bytes"
	"testing"

	"github.com/reprise-tt/reprise/internal/devtest"
)

// The committed file is what its weights make.
func TestWeightsAreTheirFile(t *testing.T) {
	n, err := Trained()
	devtest.Must(t, err)
	b, err := n.Encode()
	devtest.Must(t, err)
	if !bytes.Equal(b, weightsFile) {
		t.Errorf("%d bytes that differ from the %d of the file", len(b), len(weightsFile))
	}
}
