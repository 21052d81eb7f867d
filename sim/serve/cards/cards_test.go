//go:build linux

package cards_test

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/internal/expect"
	"github.com/reprise-tt/reprise/internal/kabi"
	"github.com/reprise-tt/reprise/sim"
	"github.com/reprise-tt/reprise/sim/driver"
	"github.com/reprise-tt/reprise/sim/driver/drivertest"
	"github.com/reprise-tt/reprise/sim/serve"
	"github.com/reprise-tt/reprise/sim/serve/cards"
)

// Requests, in the order of their numbers on the wire.
const (
	opProcess = serve.OpService + iota
	opJoin
	opFile
	opOpen
	opClose
	opIoctl
	opMmap
	opUnmap
	_
	opLast
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

var must = expect.Must

func value[V any](v V, err error) func(expect.TB) V { return expect.Value(v, err) }

type thinking struct {
	*drivertest.Function
	asked, goOn, closed chan struct{}
}

func (f *thinking) ConfigRead(off uint32) uint32 {
	if off == 0 {
		f.asked <- struct{}{}
		<-f.goOn
	}
	return f.Function.ConfigRead(off)
}

func (f *thinking) Close() error {
	close(f.closed)
	return f.Function.Close()
}

func TestEndInARequest(t *testing.T) {
	f := &thinking{drivertest.New(chip.Blackhole), make(chan struct{}), make(chan struct{}), make(chan struct{})}
	d := value(driver.New(driver.Config{Arch: chip.Blackhole, Start: func() (driver.Function, error) { return f, nil }}))(t)
	at := &net.UnixAddr{Name: filepath.Join(t.TempDir(), "card"), Net: "unix"}
	l := value(net.ListenUnix("unix", at))(t)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- cards.Serve(ctx, l, d, 0) }()
	dial := func() *serve.Conn {
		u := value(net.DialUnix("unix", nil, at))(t)
		c := serve.NewConn(u)
		must(t, c.Greet(serve.ServiceCard, -1))
		return c
	}
	say := func(c *serve.Conn, h serve.Head) (val uint64) {
		t.Helper()
		r, out, err := c.Call(&h, nil)
		must(t, errors.Join(err, r.Err(out)))
		return r.Val
	}
	process, work := dial(), dial()
	defer work.Close()
	say(work, serve.Head{Op: opJoin, Val: say(process, serve.Head{Op: opProcess})})
	say(work, serve.Head{Op: opOpen, Val: 2})
	ids := serve.Head{Op: opIoctl, Object: 1, Val: kabi.IoctlGetDeviceInfo}
	must(t, work.Send(&ids, append([]byte{20, 0, 0, 0}, make([]byte, 20)...), -1))
	<-f.asked
	if err := process.Close(); err != nil { // the process ends
		t.Fatal(err)
	}
	select {
	case <-f.closed:
		t.Error("the card was closed in the middle of a request")
	case <-time.After(20 * time.Millisecond): // if it is wrong it happens at once
	}
	close(f.goOn)
	if n := d.Node(0).OpenFiles(); n > 1 {
		t.Errorf("%d files", n)
	}
	<-f.closed
	cancel()
	must(t, <-ended)
}
