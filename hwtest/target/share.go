package target

import (
	"context"
	"errors"
	"fmt"
	"net"

	"github.com/reprise-tt/reprise/sim"
	"github.com/reprise-tt/reprise/sim/serve/cards"
	"github.com/reprise-tt/reprise/sim/ttsim"
)

// ErrNotShared is returned when a second process can't open the device.
var ErrNotShared = errors.New("a second process can't open the same device")

// Share returns the device as one that other processes can open at the same time, by the name that
// is its Given, until end is called. An emulated card and one of the vendor's simulator are served
// by this process, which needs Linux; their chips live until then. Others are what they are.
func (d *Device) Share() (shared *Device, end func() error, err error) {
	switch {
	case d.Kind == Emulator:
		card := emulator(d.Arch, append(append([]sim.Option(nil), d.opts...), sim.Resident())...)
		drv, err := card.Driver()
		if err != nil {
			return nil, nil, err
		}
		return d.serve(func(ctx context.Context, l *net.UnixListener) error { return cards.Serve(ctx, l, drv, 0) }, card.Close)
	case d.library != "":
		s, err := ttsim.Start(d.library, d.server)
		if err != nil {
			return nil, nil, err
		}
		drv, err := s.Driver()
		if err != nil {
			return nil, nil, errors.Join(err, s.Close())
		}
		return d.serve(func(ctx context.Context, l *net.UnixListener) error { return cards.Serve(ctx, l, drv, 0) }, s.Close)
	}
	return d, func() error { return nil }, nil
}

// serve serves a card at a socket without a file.
func (d *Device) serve(serve func(context.Context, *net.UnixListener) error, closeCard func() error) (*Device, func() error, error) {
	l, err := net.ListenUnix("unix", &net.UnixAddr{Net: "unix"})
	if err != nil {
		return nil, nil, errors.Join(fmt.Errorf("target: share %s: %w: %w", d.Given, ErrNotShared, err), closeCard())
	}
	at := l.Addr().String()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- serve(ctx, l) }()
	shared := *d
	shared.Given, shared.Kind, shared.open = "socket:"+at, Simulator, socket(at)
	shared.library, shared.server = "", nil
	return &shared, func() error {
		cancel()
		return errors.Join(<-ended, closeCard())
	}, nil
}
