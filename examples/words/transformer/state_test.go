package transformer

import (
	"errors"
	"testing"

	"github.com/reprise-tt/reprise/internal/devtest"
)

func TestSampling(t *testing.T) {
	for _, s := range []Sampling{{Tokens: -1}, {Tokens: 1, Temperature: 0.01}, {Tokens: 1, Temperature: 17}, {Tokens: 1, Temperature: -1}} {
		if _, err := s.Start(); !errors.Is(err, ErrSampling) {
			t.Errorf("%+v: %v", s, err)
		}
	}
	s, err := Sampling{Seed: 1, Tokens: 3}.Start()
	devtest.Must(t, err)
	if s.More != 1 || s.Left != 3 || s.Sharpness != 94548 { // log2(e) times 2^16
		t.Errorf("state %+v", s)
	}
	if s, err = (Sampling{}).Start(); err != nil || s.More != 0 {
		t.Errorf("no tokens: state %+v, error %v", s, err)
	}
}
