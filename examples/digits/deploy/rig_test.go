package deploy

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/dispatch"
	"github.com/reprise-tt/reprise/examples/digits"
	"github.com/reprise-tt/reprise/kmd"
)

// rig is a device, the trained network and the images of a test.
type rig struct {
	*testing.T
	ctx     context.Context
	dev     *reprise.Device
	q       *reprise.Queue
	network *digits.Network
	images  []digits.Image
}

func newRig(t *testing.T, target kmd.Target, atMost time.Duration) *rig {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), atMost)
	t.Cleanup(cancel)
	r := &rig{T: t, ctx: ctx}
	var err error
	r.network, err = digits.Trained()
	r.must(err)
	r.images, err = digits.Images()
	r.must(err)
	r.dev, err = reprise.Open(ctx, target)
	r.must(err)
	t.Cleanup(func() {
		if err := r.dev.Close(context.WithoutCancel(ctx)); err != nil {
			t.Error(err)
		}
	})
	r.q = r.dev.Queue(0)
	return r
}

// must fails the test on an error, with the report of a hang.
func (r *rig) must(err error) {
	r.Helper()
	if err == nil {
		return
	}
	var hang *dispatch.HangError
	if errors.As(err, &hang) {
		r.Log(hang.Detail())
	}
	r.Fatal(err)
}
