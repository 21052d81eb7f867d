package dispatch_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/reprise-tt/reprise/dispatch"
	"github.com/reprise-tt/reprise/dispatch/cq"
	"github.com/reprise-tt/reprise/kmd"
	"github.com/reprise-tt/reprise/sim"
)

func TestRestartAfterABadCommand(t *testing.T) {
	garbage := make([]byte, 64)
	garbage[0] = 0xEE
	inRelay := make([]byte, 64)
	b := cq.NewBuilder(cq.Blackhole, nil)
	b.Wait(cq.Master, cq.Wait{})
	relay, err := b.Finish()
	if err != nil {
		t.Fatal(err)
	}
	copy(inRelay, relay)
	inRelay[cq.AtRelayed] = 0xEE
	kd, err := kmd.Open(t.Context(), sim.Blackhole())
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := kd.Close(); err != nil {
			t.Error(err)
		}
	}()
	d, err := dispatch.Start(t.Context(), kd, dispatch.Options{HangTimeout: time.Second, QueueMemory: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := d.Close(t.Context()); err != nil {
			t.Error(err)
		}
	}()
	q := d.Queue(0)
	buffer := dispatch.Interleaved{DRAM: true, Addr: 1 << 20, PageSize: 64, HostPage: 64, Pages: 3, Banks: 8}
	for _, tt := range []struct {
		name     string
		commands []byte
		says     []string
	}{
		{"prefetcher", garbage, []string{"(prefetch)", "BRISC   BADC", "has stopped for good at a command it doesn't know, which begins with the word 0x000000ee"}},
		{"dispatcher", inRelay, []string{"(dispatch)", "BRISC   BADC", "has stopped for good at a command it doesn't know, which begins with the word 0x000000ee", "dispatch ring", "page   2  ? 0x000000ee  <- stopped here"}},
	} {
		if err := q.Send(t.Context(), tt.commands, false); err != nil {
			t.Fatal(err)
		}
		err := q.Wait(t.Context())
		var h *dispatch.HangError
		if !errors.As(err, &h) {
			t.Fatalf("%s: %v, want a *HangError", tt.name, err)
		}
		rest := h.Detail()
		for _, part := range tt.says {
			_, after, ok := strings.Cut(rest, part)
			if !ok {
				t.Errorf("%s: the report doesn't say %q:\n%s", tt.name, part, h.Detail())
			}
			rest = after
		}
		ended := errors.New("restarted")
		d.Interrupt(ended)
		if err := q.Wait(t.Context()); !errors.As(err, &h) {
			t.Errorf("%s: after an interruption: %v, want the first cause", tt.name, err)
		}
		content := []byte(strings.Repeat("0123456789abcdef", 3*64/16))
		cancelled, cancel := context.WithCancel(t.Context())
		cancel()
		contents := []dispatch.Content{{Name: "digits", At: buffer, Data: content}}
		if err := d.Restart(cancelled, contents); !errors.Is(err, context.Canceled) {
			t.Errorf("%s: cancelled restart: %v", tt.name, err)
		}
		short := []dispatch.Content{{Name: "few", At: buffer, Data: content[1:]}}
		if err := d.Restart(t.Context(), short); err == nil || !strings.Contains(err.Error(), "write few: 191 B for a buffer of 192 B") {
			t.Errorf("%s: contents of another size: %v", tt.name, err)
		}
		if err := d.Restart(t.Context(), contents); err != nil {
			t.Fatalf("%s: %v", tt.name, err)
		}
		got := make([]byte, len(content))
		if err := q.Read(t.Context(), &buffer, 0, got); err != nil || string(got) != string(content) {
			t.Errorf("%s: after the restart: %v, read %q", tt.name, err, got)
		}
	}
}
