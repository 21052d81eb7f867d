package pipeline_test

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/internal/devtest"
	"github.com/reprise-tt/reprise/kmd"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type bench struct{ *devtest.Bench }

func open(t *testing.T, target kmd.Target, opts ...reprise.Option) *bench {
	t.Helper()
	return &bench{devtest.Open(t, target, opts...)}
}

func rounds(n, short int) int {
	if testing.Short() {
		return short
	}
	return n
}
