package reprise_test

import (
	"bytes"
	"context"
	"errors"
	"testing"
	"time"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/sim/ttsim"
	"github.com/reprise-tt/reprise/sim/ttsim/ttsimtest"
)

func TestMain(m *testing.M) { ttsimtest.Main(m) }

func TestSmoke(t *testing.T) {
	for _, v := range []string{ttsimtest.Wormhole, ttsimtest.Blackhole} {
		t.Run(v, func(t *testing.T) {
			path := ttsimtest.Path(t, v)
			ctx, cancel := context.WithTimeout(context.Background(), 100*time.Second)
			defer cancel()
			start := time.Now()
			d, err := reprise.Open(ctx, ttsim.Library(path, ttsimtest.Server()))
			if err != nil {
				t.Fatal(err)
			}
			t.Logf("open took %v", time.Since(start))
			defer func() {
				if err := d.Close(); err != nil {
					t.Error(err)
				}
			}()
			q := d.Queue(0)
			report := func(err error) {
				t.Helper()
				if err != nil {
					var h *reprise.HangError
					if errors.As(err, &h) {
						t.Log(h.Detail())
					}
					t.Fatal(err)
				}
			}
			report(q.Finish(ctx))
			b, err := d.NewBuffer(reprise.BufferConfig{Kind: reprise.DRAM, Size: 64 * 1000, PageSize: 64, Name: "b"})
			report(err)
			data := make([]byte, b.Size())
			for i := range data {
				data[i] = byte(i*7 + i>>8)
			}
			start = time.Now()
			report(q.Write(ctx, b, 0, data))
			got := make([]byte, b.Size())
			report(q.Read(ctx, b, 0, got))
			t.Logf("write+read took %v", time.Since(start))
			if !bytes.Equal(data, got) {
				t.Fatal("read back differs")
			}
		})
	}
}
