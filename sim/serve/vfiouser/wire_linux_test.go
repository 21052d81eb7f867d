package vfiouser

import (
	"context"
	"encoding/hex"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/reprise-tt/reprise/chip"
)

func talk(t testing.TB, a chip.Arch) (*session, *fake) {
	t.Helper()
	f := newFake(a)
	s := &session{card: present(t, f, Config{Arch: a, Board: chip.BoardP150}), ready: true, multi: true}
	t.Cleanup(s.end)
	return s, f
}

func bytesOf(t testing.TB, text string) []byte {
	t.Helper()
	return value(hex.DecodeString(strings.NewReplacer(" ", "", "\n", "", "\t", "").Replace(text)))(t)
}

func parse(t testing.TB, text string, fds ...int) *message {
	t.Helper()
	b := bytesOf(t, text)
	h := value(parseHeader(b))(t)
	if int(h.Size) != len(b) {
		t.Fatalf("message of %d bytes says %d", len(b), h.Size)
	}
	return &message{header: h, body: b[headerSize:], fds: fds}
}

// exchange is a request, the reply to it, and how the card is accessed.
type exchange struct {
	name, ask, want string
	did             []string
}

// exchanges reads a file of them: blocks of a name and lines that begin with >, < or =.
func exchanges(t testing.TB, path string) (all []exchange) {
	t.Helper()
	for block := range strings.SplitSeq(string(value(os.ReadFile(path))(t)), "\n\n") {
		var e exchange
		for line := range strings.Lines(block) {
			switch kind, text, _ := strings.Cut(strings.TrimSpace(line), " "); kind {
			case ">":
				e.ask += text
			case "<":
				e.want += text
			case "=":
				e.did = append(e.did, text)
			default:
				e.name = strings.TrimSpace(line)
			}
		}
		all = append(all, e)
	}
	return all
}

func TestMessages(t *testing.T) {
	for _, c := range exchanges(t, "testdata/messages.txt") {
		t.Run(c.name, func(t *testing.T) {
			s, f := talk(t, chip.Blackhole)
			got := value(s.answer(parse(t, c.ask)))(t)
			noDiff(t, hex.EncodeToString(got), hex.EncodeToString(bytesOf(t, c.want)), "reply")
			noDiff(t, f.done(), c.did, "accesses")
		})
	}
}

func TestMapMessages(t *testing.T) {
	s, _ := talk(t, chip.Wormhole)
	for _, c := range exchanges(t, "testdata/maps.txt") {
		got := value(s.answer(parse(t, c.ask)))(t)
		noDiff(t, hex.EncodeToString(got), hex.EncodeToString(bytesOf(t, c.want)), "reply to %s", c.ask)
	}
}

func TestVersion(t *testing.T) {
	for _, c := range []struct{ name, ask, want string }{
		{"what QEMU says", `{"capabilities":{"max_msg_fds":8,"max_data_xfer_size":1048576,"pgsizes":4096,"max_dma_maps":65535,"write_multiple":true}}`,
			`{"capabilities":{"max_msg_fds":8,"max_data_xfer_size":1048576,"max_dma_maps":65535,"pgsizes":4096,"write_multiple":true}}`},
		{"nothing", `{}`, `{"capabilities":{}}`},
		{"things that nobody knows", `{"capabilities":{"migration":{"pgsize":4096}},"other":1}`, `{"capabilities":{}}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, _ := talk(t, chip.Wormhole)
			s.ready = false
			body := append(append([]byte{0, 0, 1, 0}, c.ask...), 0)
			got := value(s.answer(&message{header: header{ID: 7, Command: cmdVersion}, body: body}))(t)
			want := append(append([]byte{0, 0, 1, 0}, c.want...), 0)
			noDiff(t, string(got[headerSize:]), string(want), "answer")
			h, err := parseHeader(got)
			if d := cmp.Diff(header{ID: 7, Command: cmdVersion, Size: uint32(len(got)), Flags: typeReply}, h); d != "" || err != nil {
				t.Errorf("header, %v (-want +got):\n%s", err, d)
			}
		})
	}
}

func TestNoSession(t *testing.T) {
	for name, m := range map[string]*message{
		"another major version": {header: header{Command: cmdVersion}, body: []byte{1, 0, 0, 0}},
		"no version":            {header: header{Command: cmdVersion}, body: []byte{0, 0}},
		"no zero byte":          {header: header{Command: cmdVersion}, body: []byte("\x00\x00\x00\x00{}")},
		"no JSON":               {header: header{Command: cmdVersion}, body: []byte("\x00\x00\x00\x00{\x00")},
		"something else first":  {header: header{Command: cmdDeviceInfo}, body: make([]byte, deviceInfoSize)},
		"a reply":               {header: header{Command: cmdVersion, Flags: typeReply}, body: []byte{0, 0, 0, 0}},
	} {
		t.Run(name, func(t *testing.T) {
			s, _ := talk(t, chip.Wormhole)
			s.ready = false
			if reply, err := s.answer(m); err == nil {
				t.Errorf("answered % x", reply)
			}
		})
	}
}

func TestHeaderSize(t *testing.T) {
	for size, ok := range map[uint32]bool{0: false, 15: false, 16: true, maxMessage: true, maxMessage + 1: false, 1 << 31: false} {
		var b [headerSize]byte
		header{Size: size}.put(b[:])
		if _, err := parseHeader(b[:]); (err == nil) != ok {
			t.Errorf("size %d: %v", size, err)
		}
	}
}

func FuzzMessage(f *testing.F) {
	f.Add(uint16(cmdDMAMap), uint32(0), make([]byte, dmaMapSize), true)
	f.Add(uint16(cmdRegionRead), uint32(0), []byte("\x00\x00\x00\x00\x00\x00\x00\x00\x07\x00\x00\x00\x10\x00\x00\x00"), true)
	f.Add(uint16(cmdRegionWrite), uint32(flagNoReply), []byte("\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x04\x00\x00\x00abcd"), true)
	f.Add(uint16(cmdWriteMulti), uint32(0), make([]byte, multiSize+multiEntrySize), true)
	f.Add(uint16(cmdSetIRQs), uint32(0), []byte("\x14\x00\x00\x00\x21\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00\x00\x01\x00\x00\x00"), true)
	f.Add(uint16(cmdVersion), uint32(0), []byte("\x00\x00\x01\x00{\"capabilities\":{\"max_msg_fds\":8,\"twin_socket\":{\"supported\":true}}}\x00"), false)
	f.Fuzz(func(t *testing.T, cmd uint16, flags uint32, body []byte, ready bool) {
		s, _ := talk(t, chip.Blackhole)
		s.ready = ready
		m := &message{header: header{ID: 1, Command: command(cmd), Flags: flags}, body: body}
		reply, err := s.answer(m)
		_ = s.give.Close() // usually nil
		if err != nil || reply == nil {
			return
		}
		h, err := parseHeader(reply)
		if err != nil || int(h.Size) != len(reply) || h.Flags&flagType != typeReply || h.Flags&flagError != 0 && len(reply) != headerSize {
			t.Errorf("reply %+v of %d bytes: %v", h, len(reply), err)
		}
	})
}

func FuzzConnection(f *testing.F) {
	hello := "\x01\x00\x01\x00\x17\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x01\x00{}\x00"
	f.Add([]byte(hello + "\x02\x00\x04\x00\x20\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x10\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"))
	f.Add([]byte(hello + "\x02\x00\x0d\x00\x10\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"))
	f.Add([]byte(hello + "\x02\x00\x0a\x00\x10\x00\x10\x00\x10\x00\x00\x00\x00\x00\x00\x00"))
	f.Add([]byte("\x00\x00\x00\x00"))
	f.Fuzz(func(t *testing.T, data []byte) {
		card := present(t, newFake(chip.Wormhole), Config{Arch: chip.Wormhole})
		conn, peer := joined(t)
		ended := make(chan struct{})
		go func() {
			_ = card.ServeConn(context.Background(), conn) // an error is as good
			close(ended)
		}()
		read := make(chan struct{})
		go func() {
			_, _ = io.Copy(io.Discard, peer) // the server may end it with what wasn't read
			close(read)
		}()
		_, _ = peer.Write(data) // it may have ended already
		_ = peer.CloseWrite()
		<-ended
		<-read
		peer.Close()
		equal(t, len(card.mem.ranges), 0, "ranges of memory that are left")
	})
}
