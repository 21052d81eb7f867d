package dispatch

import (
	"context"
	"testing"

	"github.com/reprise-tt/reprise/kmd"
)

// opened opens a card until the test's end.
func opened(t *testing.T, target kmd.Target) *kmd.Device {
	t.Helper()
	kd, err := kmd.Open(t.Context(), target)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := kd.Close(); err != nil {
			t.Error(err)
		}
	})
	return kd
}

// started starts the queues of a card until the test's end.
func started(t *testing.T, target kmd.Target, o Options) *Device {
	t.Helper()
	d, err := Start(t.Context(), opened(t, target), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Close(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	})
	return d
}
