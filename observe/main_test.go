package observe_test

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/reprise-tt/reprise/internal/devtest"
	"github.com/reprise-tt/reprise/internal/expect"
	"github.com/reprise-tt/reprise/sim/ttsim/ttsimtest"
)

func TestMain(m *testing.M) {
	if ttsimtest.Serving() {
		return
	}
	goleak.VerifyTestMain(m)
}

func onAll(t *testing.T, run func(*devtest.Bench)) {
	devtest.OnEmulators(t, run)
	for _, library := range []string{ttsimtest.Wormhole, ttsimtest.Blackhole} {
		t.Run(library, func(t *testing.T) { run(devtest.Open(t, ttsimtest.Card(t, library))) })
	}
}

var noDiff = expect.NoDiff

func equal[V comparable](t expect.TB, got, want V, what string, args ...any) {
	t.Helper()
	expect.Equal(t, got, want, what, args...)
}
