package digits

import (
	"bytes"
	_ "embed" // the data set and the trained weights are part of the package

	"github.com/reprise-tt/reprise/examples/internal/rng"
)

//go:embed data/digits.csv.gz
var imagesFile []byte

//go:embed weights.bin
var weightsFile []byte

// Images returns the 1,797 digits of the embedded data set in file order (credit and licence:
// data/README.md).
func Images() ([]Image, error) {
	return ParseImages(bytes.NewReader(imagesFile))
}

// Trained returns the network of the embedded weights.bin, trained on the first result of [Split].
func Trained() (*Network, error) {
	return DecodeNetwork(weightsFile)
}

// Split divides images into those the network is trained on and those held out to measure it: a
// quarter of every label, rounded down. The choice is the same on every machine; order is kept.
func Split(images []Image) (training, heldOut []Image) {
	var perLabel [Classes][]int
	for i, m := range images {
		l := m.Label % Classes
		perLabel[l] = append(perLabel[l], i)
	}
	out := make([]bool, len(images))
	src := rng.Source(0x5EED_0D19)
	for _, idx := range perLabel {
		src.Shuffle(idx)
		for _, i := range idx[:len(idx)/4] {
			out[i] = true
		}
	}
	for i, m := range images {
		if out[i] {
			heldOut = append(heldOut, m)
		} else {
			training = append(training, m)
		}
	}
	return training, heldOut
}
