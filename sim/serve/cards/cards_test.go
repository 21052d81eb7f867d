//go:build linux

package cards_test

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"testing"

	"go.uber.org/goleak"

	"github.com/reprise-tt/reprise/sim"
	"github.com/reprise-tt/reprise/sim/serve/cards"
)

func TestMain(m *testing.M) {
	if len(os.Args) == 4 && os.Args[1] == asUser {
		os.Exit(user(os.Args[2], os.Args[3]))
	}
	goleak.VerifyTestMain(m)
}

var emulated = map[string]func(...sim.Option) *sim.Card{"wormhole": sim.Wormhole, "blackhole": sim.Blackhole}

func onCards(t *testing.T, run func(*testing.T, *served)) {
	for name, card := range emulated {
		t.Run(name, func(t *testing.T) { run(t, offer(t, card(sim.Resident()))) })
	}
}

type served struct {
	*sim.Card
	path string
}

func offer(t *testing.T, card *sim.Card) *served {
	t.Helper()
	d := value(card.Driver())(t)
	s := &served{Card: card, path: filepath.Join(t.TempDir(), "card")}
	l := value(net.ListenUnix("unix", &net.UnixAddr{Name: s.path, Net: "unix"}))(t)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() { ended <- cards.Serve(ctx, l, d, 0) }()
	t.Cleanup(func() {
		cancel()
		must(t, errors.Join(<-ended, card.Close()))
	})
	return s
}

// must ends the test on an error.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// value is must for a call with a result.
func value[T any](v T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		must(t, err)
		return v
	}
}
