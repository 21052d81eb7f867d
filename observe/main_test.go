package observe_test

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/google/go-cmp/cmp"
	"github.com/reprise-tt/reprise/internal/devtest"
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

// equal fails the test unless got is want, and formats what it is.
func equal[V comparable](t testing.TB, got, want V, what string, args ...any) {
	t.Helper()
	if got != want {
		t.Errorf(what+": %#v, want %#v", append(args, got, want)...)
	}
}

// noDiff is equal for slices, maps and structs.
func noDiff(t testing.TB, got, want any, what string, args ...any) {
	t.Helper()
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf(what+" (-want +got):\n%s", append(args, d)...)
	}
}
