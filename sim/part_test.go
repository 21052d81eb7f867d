package sim

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/internal/expect"
	"github.com/reprise-tt/reprise/kmd"
	"github.com/reprise-tt/reprise/mesh/topology"
	"github.com/reprise-tt/reprise/sim/emu"
)

func meet(t *testing.T, ctx context.Context, keys ...string) ([][]net.Conn, []error) {
	t.Helper()
	n := len(keys)
	listeners, addresses := make([]net.Listener, n), make([]string, n)
	for i := range listeners {
		var err error
		if listeners[i], err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
			t.Fatal(err)
		}
		addresses[i] = listeners[i].Addr().String()
	}
	conns, errs := make([][]net.Conn, n), make([]error, n)
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() { conns[i], errs[i] = Meet(ctx, listeners[i], i, addresses, []byte(keys[i])) })
	}
	wg.Wait()
	return conns, errs
}

// In a QuietBox chips 0 and 1 aren't linked: all links of part 0 lead to part 2.
func TestParts(t *testing.T) {
	conns, errs := meet(t, t.Context(), "k", "k", "k")
	expect.Must(t, errors.Join(errs...))
	chips := 0
	var machines []*Machine
	var graphs []*topology.Graph
	for i := range conns {
		m := NewMachine(chip.QuietBox(), OfPart(Part{Index: i, Count: 3, Conns: conns[i]}))
		defer m.Close()
		machines = append(machines, m)
		chips += len(m.Cards())
	}
	if chips != 4 {
		t.Fatalf("the parts have %d chips, want 4", chips)
	}
	discover := func(i int) *topology.Graph {
		var ds []*kmd.Device
		for _, c := range machines[i].Cards() {
			d := expect.Value(kmd.Open(t.Context(), c))(t)
			defer d.Close()
			ds = append(ds, d)
		}
		g := expect.Value(topology.Discover(t.Context(), ds))(t)
		return g
	}
	for i := range machines {
		graphs = append(graphs, discover(i))
	}
	for i, g := range graphs {
		for _, l := range g.Links {
			expect.Equal(t, l.State, topology.Up, "part %d: a link", i)
		}
		if len(g.Chips) < 3 { // its own and those of two neighbours at least
			t.Errorf("part %d sees %d chips", i, len(g.Chips))
		}
	}
	expect.Must(t, machines[2].Close())
	for deadline := time.Now().Add(20 * time.Second); ; {
		down := 0
		for _, l := range discover(0).Links {
			if l.State == topology.Down {
				down++
			}
		}
		if down > 0 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("the links to a part that has ended stay up")
		}
	}
}

func TestPartRefusals(t *testing.T) {
	for _, tc := range map[string]struct {
		spec chip.Machine
		part Part
		says string
	}{
		"index":       {chip.QuietBox(), Part{Index: 2, Count: 2}, "part 2 of 2"},
		"negative":    {chip.QuietBox(), Part{Index: -1, Count: 2}, "part -1"},
		"no parts":    {chip.QuietBox(), Part{}, "1 to 4 parts"},
		"too many":    {chip.QuietBox(), Part{Count: 5}, "1 to 4 parts"},
		"far chips":   {chip.N300(), Part{Count: 2}, "only its other chips lead to"},
		"connections": {chip.QuietBox(), Part{Count: 2}, "there is no connection"},
	} {
		m := NewMachine(tc.spec, OfPart(tc.part))
		expect.Says(t, m.Err(), emu.ErrConfig, tc.says)
		m.Close()
	}
	if m := N300(OfPart(Part{Count: 1})); m.Err() != nil || len(m.Cards()) != 1 {
		t.Errorf("the whole machine as its only part: %v", m.Err())
	} else {
		m.Close()
	}
}

func TestMeetStrangers(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	l := expect.Value(net.Listen("tcp", "127.0.0.1:0"))(t)
	done := make(chan error)
	go func() {
		_, err := Meet(ctx, l, 0, []string{"", ""}, []byte("key"))
		done <- err
	}()
	for _, said := range [][]byte{hello(1, 2, []byte("other key")), hello(1, 3, []byte("key")), hello(0, 2, []byte("key")),
		bytes.Repeat([]byte{7}, helloSize), nil} {
		c := expect.Value(net.Dial("tcp", l.Addr().String()))(t)
		_, _ = c.Write(said)
		if said == nil {
			_ = c.Close()
			continue
		}
		if told, err := io.ReadAll(c); len(told) > 0 {
			t.Errorf("a stranger was told %x, %v", told, err)
		}
		_ = c.Close()
	}
	cancel()
	expect.Fails(t, <-done, context.Canceled, "<-done")
	if _, errs := meet(t, t.Context(), "a"); errs[0] != nil {
		t.Error(errs[0])
	}
}

func FuzzPartMessage(f *testing.F) {
	for _, m := range []message{
		{1, emu.Signal{Kind: emu.SignalPacket, Copies: 1, Dest: 0x1000, Words: []uint32{1, 2, 3, 4}, Held: 7}},
		{2, emu.Signal{Kind: emu.SignalTaken, Queue: 1, Epoch: 9}},
		{3, emu.Signal{Kind: emu.SignalPacket, Register: true, Copies: 2, Words: []uint32{5}}},
	} {
		f.Add(m.append(nil))
	}
	f.Add(binary.LittleEndian.AppendUint32(nil, 0xFFFFFFFF))
	f.Fuzz(func(t *testing.T, b []byte) {
		r := bytes.NewReader(b)
		m, err := readMessage(r, make([]byte, 4))
		if err != nil {
			return
		}
		again := m.append(nil)
		expect.NoDiff(t, again, b[:len(b)-r.Len()], "again")
	})
}

// Each fault is left in place, so that the next one has to add to it.
func TestLinkFaultsAddUp(t *testing.T) {
	m := N300(LinkFault("link-delay=0:9/3"), LinkFault("link-duplicate=0:9/2"), LinkFault("link-drop=1:1/7"))
	defer m.Close()
	for _, f := range []string{"link-drop=0:9/4", "link-delay=0:9/5"} {
		expect.Must(t, m.Inject(f))
	}
	expect.Fails(t, m.Inject("link-drop=0:1/2"), emu.ErrConfig, "a link that isn't there")
	want := map[[2]int]emu.LinkFaults{{0, 9}: {Drop: 4, Duplicate: 2, Delay: 5}, {1, 1}: {Drop: 7}}
	expect.NoDiff(t, m.faults, want, "m.faults")
}
