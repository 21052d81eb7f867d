package dispatch

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

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
	must(t, err)
	copy(inRelay, relay)
	inRelay[cq.AtRelayed] = 0xEE
	kd, err := kmd.Open(t.Context(), sim.Blackhole())
	must(t, err)
	defer func() {
		must(t, kd.Close())
	}()
	d, err := Start(t.Context(), kd, Options{HangTimeout: time.Second, QueueMemory: 1 << 20})
	must(t, err)
	defer func() {
		must(t, d.Close(t.Context()))
	}()
	q := d.Queue(0)
	buffer := Interleaved{DRAM: true, Addr: 1 << 20, PageSize: 64, HostPage: 64, Pages: 3, Banks: 8}
	for _, tt := range []struct {
		name     string
		commands []byte
		says     []string
	}{
		{"prefetcher", garbage, []string{"(prefetch)", "BRISC   BADC", "has stopped for good at a command it doesn't know, which begins with the word 0x000000ee"}},
		{"dispatcher", inRelay, []string{"(dispatch)", "BRISC   BADC", "has stopped for good at a command it doesn't know, which begins with the word 0x000000ee", "dispatch ring", "page   2  ? 0x000000ee  <- stopped here"}},
	} {
		must(t, q.Send(t.Context(), tt.commands, false))
		err := q.Wait(t.Context())
		var h *HangError
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
		contents := []Content{{Name: "digits", At: buffer, Data: content}}
		if err := d.Restart(cancelled, contents); !errors.Is(err, context.Canceled) {
			t.Errorf("%s: cancelled restart: %v", tt.name, err)
		}
		short := []Content{{Name: "few", At: buffer, Data: content[1:]}}
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
