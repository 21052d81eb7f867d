package libttsim_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"net"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/internal/expect"
	"github.com/reprise-tt/reprise/sim/emu"
	"github.com/reprise-tt/reprise/sim/libttsim"
	"github.com/reprise-tt/reprise/sim/serve/cards"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type memory struct {
	mu sync.Mutex
	b  [1 << 16]byte
}

var errOutside = errors.New("outside host memory")

func (m *memory) at(bus uint64, n int) ([]byte, error) {
	if bus > uint64(len(m.b)) || uint64(n) > uint64(len(m.b))-bus {
		return nil, errOutside
	}
	return m.b[bus:][:n], nil
}

func (m *memory) ReadHost(bus uint64, p []byte) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	b, err := m.at(bus, len(p))
	copy(p, b)
	return err
}

func (m *memory) WriteHost(bus uint64, p []byte) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	b, err := m.at(bus, len(p))
	copy(b, p)
	return err
}

func start(t *testing.T, s libttsim.Settings) *libttsim.Machine {
	t.Helper()
	m := expect.Value(libttsim.Start(s, &memory{}, func(err error) { t.Errorf("stopped: %v", err) }))(t)
	t.Cleanup(func() { must(t, m.Close()) })
	return m
}

func bar(t *testing.T, m *libttsim.Machine, device uint32, n uint32) uint64 {
	t.Helper()
	var half [2]uint32
	for i := range half {
		v := expect.Value(m.ConfigRead(device<<3, 0x10+4*(n+uint32(i))))(t)
		half[i] = v
	}
	return uint64(half[1])<<32 | uint64(half[0]&^15)
}

func point(t *testing.T, m *libttsim.Machine, device uint32, at chip.XY) uint64 {
	t.Helper()
	base := bar(t, m, device, 0)
	words := []uint32{0, uint32(at.X)<<11 | uint32(at.Y)<<17, 0} // Blackhole
	if m.Spec().Arch == chip.Wormhole {
		words = []uint32{uint32(at.X)<<16 | uint32(at.Y)<<22, 0}
	}
	for i, w := range words {
		must(t, m.Write(base+0x1FC00000+4*uint64(i), binary.LittleEndian.AppendUint32(nil, w)))
	}
	return base
}

func worker(t *testing.T, m *libttsim.Machine, at chip.Core) chip.XY {
	t.Helper()
	return expect.Value(m.Chips()[0].Topology().Virtual(at))(t)
}

func TestDevicesAreToldApart(t *testing.T) {
	for machine, want := range map[string][]uint32{
		"n150": {0x401E1E52, 0xFFFFFFFF},
		"p150": {0xB1401E52, 0xFFFFFFFF},
		"n300": {0x401E1E52, 0xFFFFFFFF}, // its second chip has no PCI interface
		"p300": {0xB1401E52, 0xB1401E52, 0xFFFFFFFF},
	} {
		t.Run(machine, func(t *testing.T) {
			m := start(t, libttsim.Settings{Machine: machine})
			var got []uint32
			for device := range want {
				v := expect.Value(m.ConfigRead(uint32(device)<<3, 0))(t)
				got = append(got, v)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Error(diff)
			}
			xy := worker(t, m, chip.Core{X: 1, Y: 1})
			for device := range uint32(len(want) - 1) {
				p := []byte{byte(device), 2, 3, 4, 5}
				must(t, m.Write(point(t, m, device, xy)+0x20000, p))
			}
			for device := range uint32(len(want) - 1) {
				p := make([]byte, 5)
				if err := m.Read(point(t, m, device, xy)+0x20000, p); err != nil || !bytes.Equal(p, []byte{byte(device), 2, 3, 4, 5}) {
					t.Errorf("device %d: read % x, %v", device, p, err)
				}
			}
		})
	}
}

func TestAccesses(t *testing.T) {
	for _, machine := range []string{"n150", "p150"} {
		m := start(t, libttsim.Settings{Machine: machine})
		base := point(t, m, 0, worker(t, m, chip.Core{X: 2, Y: 3})) + 0x40000
		for _, n := range []int{1, 2, 3, 4, 5, 8, 16, 4096, 70000} {
			for off := range uint64(4) {
				p := bytes.Repeat([]byte{byte(n), byte(off), 7}, n)[:n]
				got := make([]byte, n)
				if err := errors.Join(m.Write(base+off, p), m.Read(base+off, got)); err != nil || !bytes.Equal(p, got) {
					t.Errorf("%s: %d bytes at offset %d: %v", machine, n, off, err)
				}
			}
		}
		if address, n, write, ok := m.LastAccess(); address != base+3 || n != 70000 || write || !ok {
			t.Errorf("%s: the newest access is said to be %#x, %d bytes, write %t, %t", machine, address, n, write, ok)
		}
	}
}

func TestTiles(t *testing.T) {
	for _, machine := range []string{"n150", "p150"} {
		m := start(t, libttsim.Settings{Machine: machine})
		at := worker(t, m, chip.Core{X: 1, Y: 2})
		got := make([]byte, 6)
		if err := errors.Join(m.WriteTile(at, 0x20001, []byte("simple")), m.ReadTile(at, 0x20001, got)); err != nil ||
			string(got) != "simple" {
			t.Errorf("%s: read %q, %v", machine, got, err)
		}
		fails(t, m.ReadTile(chip.XY{X: 63, Y: 63}, 0, got), emu.ErrRefused, "%s: no tile", machine)
	}
}

func TestMisuse(t *testing.T) {
	m := start(t, libttsim.Settings{Machine: "p150"})
	word := make([]byte, 4)
	config := func(bdf, off uint32) error { _, err := m.ConfigRead(bdf, off); return err }
	for name, err := range map[string]error{
		"bus":            config(1<<8, 0),
		"function":       config(1, 0),
		"unaligned word": config(0, 2),
		"far word":       config(0, 4096),
		"below BAR 0":    m.Read(bar(t, m, 0, 0)-4, word),
		"between BARs":   m.Read(bar(t, m, 0, 2)+1<<20, word),
		"end of a BAR":   m.Write(bar(t, m, 0, 2)+1<<20-2, word),
		"no such device": m.Write(bar(t, m, 0, 0)+1<<40, word),
		"address 0":      m.Read(0, word),
	} {
		expect.Fails(t, err, libttsim.ErrMisuse, "%s", name)
	}
	fails(t, config(0, 0), nil, "afterwards")
}

func TestStopped(t *testing.T) {
	stopped := make(chan error, 2)
	m := expect.Value(libttsim.Start(libttsim.Settings{Machine: "n150"}, &memory{}, func(err error) { stopped <- err }))(t)
	base := point(t, m, 0, chip.XY{X: 5, Y: 63}) // no tile
	err := m.Write(base, make([]byte, 64))
	var e *libttsim.StoppedError
	if !errors.As(err, &e) || !errors.Is(err, libttsim.ErrStopped) || !errors.Is(err, emu.ErrRefused) || e.Chip != 0 {
		t.Errorf("the access that stopped the chip: %v", err)
	}
	select {
	case got := <-stopped:
		expect.Equal(t, got.Error(), err.Error(), "reported %v, the access had %v", got, err)
	case <-time.After(10 * time.Second):
		t.Error("it was not reported")
	}
	fails(t, m.Read(base, make([]byte, 4)), libttsim.ErrStopped, "a later access")
	must(t, m.Close())
	expect.Equal(t, len(stopped), 0, "it was reported twice")
}

func TestStartAgain(t *testing.T) {
	for range 3 {
		a, b := start(t, libttsim.Settings{Machine: "n150"}), start(t, libttsim.Settings{Machine: "p150"})
		if a.Spec().Arch == b.Spec().Arch {
			t.Error("two machines are one")
		}
	}
}

func TestServe(t *testing.T) {
	path := filepath.Join(t.TempDir(), "card")
	dead := expect.Value(net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"}))(t)
	dead.SetUnlinkOnClose(false)
	dead.Close()
	m := expect.Value(libttsim.Start(libttsim.Settings{Machine: "p300", Serve: path}, &memory{}, func(err error) { t.Error(err) }))(t)
	for _, at := range []string{path, path + ".1"} {
		f, err := cards.Socket(at).Node().Open(0)
		if err != nil {
			t.Errorf("%s: %v", at, err)
			continue
		}
		fails(t, f.Close(), nil, "%s", at)
	}
	if _, err := libttsim.Start(libttsim.Settings{Machine: "n150", Serve: path}, &memory{},
		func(error) {}); !errors.Is(err, syscall.EADDRINUSE) {
		t.Errorf("a second machine at the same path: %v", err)
	}
	must(t, m.Close())
	fails(t, second(os.Lstat(path)), os.ErrNotExist, "the socket is left")
}

func TestParseSettings(t *testing.T) {
	want := libttsim.Settings{Machine: "p300", Seed: 7, Checks: []string{"stack", "delays"}, Serve: "/tmp/card"}
	got := expect.Value(libttsim.ParseSettings(`{"machine":"p300","seed":7,"checks":["stack","delays"],"serve":"/tmp/card"}`))(t)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	for _, text := range []string{``, `{}`, `{"machine":"n151"}`, `{"machine":"n150","checks":["speed"]}`, `{"machine":"n150","sede":1}`,
		`[]`, `{"machine":"n300","record":"steps"}`} {
		fails(t, second(libttsim.ParseSettings(text)), libttsim.ErrSettings, "%s", text)
	}
}

func FuzzParseSettings(f *testing.F) {
	f.Add(`{"machine":"p150","seed":1}`)
	f.Fuzz(func(t *testing.T, text string) {
		if s, err := libttsim.ParseSettings(text); err == nil {
			fails(t, second(s.Spec()), nil, "%q was accepted", text)
		}
	})
}

var (
	fails = expect.Fails
	must  = expect.Must
)

func second[V any](_ V, err error) error { return err }
