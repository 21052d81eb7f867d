package umd

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/internal/expect"
	"github.com/reprise-tt/reprise/sim/serve"
)

func encodeRequest(q *request) []byte {
	return encode(number(1, uint64(q.command)), number(4, uint64(q.x)), number(4, uint64(q.y)), number(8, q.address),
		number(4, uint64(q.size)), field{data: q.data})
}

// recorded is what tt-umd 0.9.14 sends for a write of "hello" to 0x1_0000_0002 of tile (18,19).
const recorded = "\x18\x00\x00\x00\x00\x00\x00\x00\x10\x00$\x00\a\x00\b\x00\f\x00\x18\x00\x10\x00\x14\x00\x10\x00\x00\x00\x00\x00\x00\x01" +
	"\x12\x00\x00\x00\x13\x00\x00\x00\x05\x00\x00\x00\x10\x00\x00\x00\x02\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00\x00\x05\x00\x00\x00hello\x00\x00\x00"

func TestRecorded(t *testing.T) {
	want := request{command: write, x: 18, y: 19, address: 0x1_0000_0002, size: 5, data: []byte("hello")}
	got, err := decodeRequest([]byte(recorded))
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, %v, want %+v", got, err, want)
	}
}

type tiles struct{ memory []byte }

var errRefused = errors.New("refused")

func (m *tiles) access(at chip.XY, address uint64, p []byte, move func(at []byte)) error {
	if at != (chip.XY{X: 18, Y: 19}) || address+uint64(len(p)) > uint64(len(m.memory)) {
		return errRefused
	}
	move(m.memory[address:])
	return nil
}

func (m *tiles) ReadTile(at chip.XY, address uint64, p []byte) error {
	return m.access(at, address, p, func(at []byte) { copy(p, at) })
}

func (m *tiles) WriteTile(at chip.XY, address uint64, p []byte) error {
	return m.access(at, address, p, func(at []byte) { copy(at, p) })
}

func TestServer(t *testing.T) {
	warned := make(chan string, 100) // by several connections
	m := &tiles{memory: make([]byte, 3<<20)}
	c := &Chip{Arch: chip.Blackhole, Harvesting: chip.Harvesting{Tensix: 1, DRAM: 2, Ethernet: 0x120}, UnusedPCIe: 2, SOC: "soc",
		Cluster: "cluster", Simulator: "lib", Observe: func() Tiles { return m }, Warn: func(s string) { warned <- s }}
	l := expect.Value(serve.Listen(Socket(t.TempDir(), 0)))(t)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { c.Serve(ctx, l); close(ended) }()
	dial := func() net.Conn {
		conn := expect.Value(net.Dial("unix", l.Addr().String()))(t)
		return conn
	}
	conn := dial()
	ask := func(widths []int, q request) []field {
		t.Helper()
		expect.Must(t, send(conn, encodeRequest(&q)))
		b, err := receive(conn)
		expect.Must(t, err)
		f, err := decode(b, widths)
		expect.Must(t, err)
		return f
	}
	long := bytes.Repeat([]byte("0123456789abcde"), 1<<17) // some pieces
	for _, tc := range []struct {
		request
		status uint64
		data   []byte
	}{
		{request{command: write, x: 18, y: 19, address: 7, size: uint32(len(long)), data: long}, 0, nil},
		{request{command: read, x: 18, y: 19, address: 7, size: uint32(len(long))}, 0, long},
		{request{command: read, x: 18, y: 19, address: 7}, 0, nil},
		{request{command: write, x: 18, y: 19, size: 2, data: []byte{1}}, failed, nil}, // tt-umd doesn't send such
		{request{command: read, x: 18 + 256, y: 19, size: 4}, failed, nil},
		{request{command: read, x: 18, y: 19, size: 1<<30 + 1}, failed, nil},
		{request{command: read, x: 18, y: 19, address: 3 << 20, size: 4}, failed, nil},
		{request{command: read, x: 18, y: 19, address: 3 << 20, size: 4}, failed, nil}, // is said once
		{request{command: 5}, failed, nil},
		{request{command: shutdown}, 0, nil},
	} {
		f := ask([]int{4, 0}, tc.request)
		if f[0].value != tc.status || !bytes.Equal(f[1].data, tc.data) {
			t.Errorf("%+.40v: status %#x, %d bytes", tc.request, f[0].value, len(f[1].data))
		}
	}
	info := ask([]int{4, 4, 1, 0, 1, 4, 4, 4, 4, 4, 0}, request{command: getDeviceInfo})
	var values []uint64
	for _, f := range info {
		values = append(values, f.value)
	}
	if !slices.Equal(values, []uint64{0, 3, 0, 0, 1, 1, 2, 0x120, 0, 2, 0}) || string(info[3].data) != "soc" ||
		string(info[10].data) != "lib" {
		t.Errorf("device info %v", info)
	}
	if f := ask([]int{4, 0}, request{command: getClusterDescriptor}); f[0].value != 0 || string(f[1].data) != "cluster" {
		t.Errorf("cluster descriptor %v", f)
	}
	for _, b := range []string{"\xff\xff\xff\xff", "\x04\x00\x00\x00\x09\x00\x00\x00", "\x08\x00\x00\x00no"} {
		bad := dial()
		_, err := io.WriteString(bad, b)
		err = errors.Join(err, bad.(*net.UnixConn).CloseWrite())
		if rest, end := io.ReadAll(bad); err != nil || len(rest) > 0 || end != nil {
			t.Errorf("%q: answer %q, %v, %v", b, rest, err, end)
		}
		_ = bad.Close()
	}
	stop()
	expect.Error(t, expect.ErrOf(receive(conn))) // the connection has ended
	<-ended
	close(warned)
	for _, want := range []string{"a store of 2 bytes brings 1", "no tile (274,19)", "1073741825 bytes", "refused", "command 5", "more than 1073741824",
		"table at 9"} {
		if got := <-warned; !strings.Contains(got, want) {
			t.Fatalf("warning %q, want %q", got, want)
		}
	}
	expect.Equal(t, <-warned, "", "one more warning")
}

func TestFolder(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	for _, want := range []string{"tt-umd-sim-server-0", "tt-umd-sim-server-1"} {
		if dir, err := Folder(); err != nil || filepath.Base(dir) != want {
			t.Errorf("%s, %v, want %s", dir, err, want)
		}
	}
}

func FuzzDecode(f *testing.F) {
	f.Add([]byte(recorded))
	f.Add(encodeRequest(&request{command: read, x: 1, y: 63, address: 1 << 63, size: 1 << 31}))
	f.Fuzz(func(t *testing.T, b []byte) {
		q, err := decodeRequest(b)
		if err != nil {
			expect.Fails(t, err, ErrMessage, "error")
			return
		}
		again, err := decodeRequest(encodeRequest(&q))
		if err != nil || again.command != q.command || again.x != q.x || again.y != q.y || again.address != q.address ||
			again.size != q.size || !bytes.Equal(again.data, q.data) {
			t.Errorf("%+v became %+v, %v", q, again, err)
		}
	})
}
