package main

import (
	"math"
	"testing"

	"github.com/reprise-tt/reprise/examples/words/transformer"
	"github.com/reprise-tt/reprise/internal/effort"
)

// statedLoss is the loss of the committed weights on the words held back, in nats a token;
// README.md has it, too.
const statedLoss = 1.8274

func TestCommittedWeightsHaveTheStatedLoss(t *testing.T) {
	effort.Long(t)
	if testing.Short() {
		t.Skip("some 60,000 tokens, which are slow under the race detector")
	}
	n, err := transformer.Trained()
	if err != nil {
		t.Fatal(err)
	}
	_, heldBack := split(t)
	loss, err := measure(fromNetwork(n), heldBack)
	if err != nil {
		t.Fatal(err)
	}
	if math.Abs(loss-statedLoss) > 0.00005 {
		t.Errorf("mean loss %.4f, want %.4f", loss, statedLoss)
	}
}
