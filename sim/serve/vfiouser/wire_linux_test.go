package vfiouser

import (
	"context"
	"encoding/hex"
	"io"
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

func TestMessages(t *testing.T) {
	for _, c := range []struct {
		name, ask, want string
		did             []string
	}{
		{"device info: can be reset, is PCI, 9 regions, 5 types of interrupts",
			"0100 0400 20000000 00000000 00000000  10000000 00000000 00000000 00000000",
			"0100 0400 20000000 01000000 00000000  10000000 03000000 09000000 05000000", nil},
		{"region info of BAR 0: read and write, 512 MiB",
			"0200 0500 30000000 00000000 00000000  20000000 00000000 00000000 00000000 0000000000000000 0000000000000000",
			"0200 0500 30000000 01000000 00000000  20000000 03000000 00000000 00000000 0000002000000000 0000000000000000", nil},
		{"region info of BAR 2: 1 MiB",
			"0200 0500 30000000 00000000 00000000  20000000 00000000 02000000 00000000 0000000000000000 0000000000000000",
			"0200 0500 30000000 01000000 00000000  20000000 03000000 02000000 00000000 0000100000000000 0000000000000000", nil},
		{"region info of BAR 4: 32 GiB",
			"0200 0500 30000000 00000000 00000000  20000000 00000000 04000000 00000000 0000000000000000 0000000000000000",
			"0200 0500 30000000 01000000 00000000  20000000 03000000 04000000 00000000 0000000008000000 0000000000000000", nil},
		{"region info of configuration space: 4 KiB",
			"0200 0500 30000000 00000000 00000000  20000000 00000000 07000000 00000000 0000000000000000 0000000000000000",
			"0200 0500 30000000 01000000 00000000  20000000 03000000 07000000 00000000 0010000000000000 0000000000000000", nil},
		{"region info of the ROM, which isn't there",
			"0200 0500 30000000 00000000 00000000  20000000 00000000 06000000 00000000 0000000000000000 0000000000000000",
			"0200 0500 30000000 01000000 00000000  20000000 00000000 06000000 00000000 0000000000000000 0000000000000000", nil},
		{"interrupt info of INTA: by event, can be masked, masks itself",
			"0300 0700 20000000 00000000 00000000  10000000 00000000 00000000 00000000",
			"0300 0700 20000000 01000000 00000000  10000000 07000000 00000000 01000000", nil},
		{"interrupt info of messages: by event, as a set",
			"0300 0700 20000000 00000000 00000000  10000000 00000000 01000000 00000000",
			"0300 0700 20000000 01000000 00000000  10000000 09000000 01000000 01000000", nil},
		{"interrupt info of MSI-X, which isn't there",
			"0300 0700 20000000 00000000 00000000  10000000 00000000 02000000 00000000",
			"0300 0700 20000000 01000000 00000000  10000000 00000000 02000000 00000000", nil},
		{"region read of the ids",
			"0400 0900 20000000 00000000 00000000  0000000000000000 07000000 04000000",
			"0400 0900 24000000 01000000 00000000  0000000000000000 07000000 04000000 521e40b1", nil},
		{"region read of a window: one load of 4 bytes",
			"0400 0900 20000000 00000000 00000000  0400000000000000 00000000 04000000",
			"0400 0900 24000000 01000000 00000000  0400000000000000 00000000 04000000 00000000", []string{"load4 0:0x4"}},
		{"region read that isn't aligned: the loads that it is made of",
			"0400 0900 20000000 00000000 00000000  0200000000000000 00000000 06000000",
			"0400 0900 26000000 01000000 00000000  0200000000000000 00000000 06000000 000000000000", []string{"load2 0:0x2", "load4 0:0x4"}},
		{"region write: one store, and a reply without data",
			"0500 0a00 24000000 00000000 00000000  0010000000000000 02000000 04000000 78563412",
			"0500 0a00 20000000 01000000 00000000  0010000000000000 02000000 04000000", []string{"store4 2:0x1000 0x12345678"}},
		{"region write that is posted: no reply",
			"0500 0a00 28000000 10000000 00000000  0000000001000000 04000000 08000000 0102030405060708",
			"", []string{"store8 4:0x100000000 0x807060504030201"}},
		{"region write of more than a word into a window",
			"0500 0a00 30000000 00000000 00000000  0000000000000000 00000000 10000000 00000000000000000000000000000000",
			"0500 0a00 20000000 01000000 00000000  0000000000000000 00000000 10000000", []string{"write 0:0x0 16"}},
		{"region write beyond the BAR: EINVAL and no more than a header",
			"0500 0a00 24000000 00000000 00000000  feff0f0000000000 02000000 04000000 78563412",
			"0500 0a00 10000000 21000000 16000000", nil},
		{"zero to a register of strided multicasts: accepted, and nothing that the chip has to know",
			"0500 0a00 24000000 00000000 00000000  d809c01f00000000 00000000 04000000 00000000",
			"0500 0a00 20000000 01000000 00000000  d809c01f00000000 00000000 04000000", nil},
		{"something else to a register of strided multicasts: the chip's business",
			"0500 0a00 24000000 00000000 00000000  d809c01f00000000 00000000 04000000 01000000",
			"0500 0a00 20000000 01000000 00000000  d809c01f00000000 00000000 04000000", []string{"store4 0:0x1fc009d8 0x1"}},
		{"several writes in a message",
			`0600 0f00 48000000 00000000 00000000  0200000000000000
			 0010000000000000 02000000 04000000 7856341200000000
			 0800000000000000 00000000 02000000 3412000000000000`,
			"0600 0f00 18000000 01000000 00000000  0200000000000000", []string{"store4 2:0x1000 0x12345678", "store2 0:0x8 0x1234"}},
		{"several writes of which the second is wrong: the number that was done",
			`0600 0f00 48000000 00000000 00000000  0200000000000000
			 0010000000000000 02000000 04000000 7856341200000000
			 0800000000000000 00000000 09000000 3412000000000000`,
			"0600 0f00 18000000 01000000 00000000  0100000000000000", []string{"store4 2:0x1000 0x12345678"}},
		{"reset",
			"0700 0d00 10000000 00000000 00000000",
			"0700 0d00 10000000 01000000 00000000", []string{"reset"}},
		{"memory without a descriptor is noted",
			"0800 0200 30000000 00000000 00000000  20000000 03000000 0000000000000000 0000000001000000 0000100000000000",
			"0800 0200 10000000 01000000 00000000", nil},
		{"memory that isn't mapped: ENOENT",
			"0900 0300 28000000 00000000 00000000  18000000 00000000 0000000001000000 0000100000000000",
			"0900 0300 10000000 21000000 02000000", nil},
		{"events without descriptors: none any more",
			"0a00 0800 24000000 00000000 00000000  14000000 24000000 01000000 00000000 01000000",
			"0a00 0800 10000000 01000000 00000000", nil},
		{"a message interrupt can't be masked: EINVAL",
			"0a00 0800 24000000 00000000 00000000  14000000 09000000 01000000 00000000 01000000",
			"0a00 0800 10000000 21000000 16000000", nil},
		{"descriptors for accesses: EOPNOTSUPP",
			"0b00 0600 20000000 00000000 00000000  10000000 00000000 00000000 00000000",
			"0b00 0600 10000000 21000000 5f000000", nil},
		{"a second version: EINVAL",
			"0c00 0100 14000000 00000000 00000000  00000000",
			"0c00 0100 10000000 21000000 16000000", nil},
		{"a request that is too short: EINVAL",
			"0d00 0400 14000000 00000000 00000000  10000000",
			"0d00 0400 10000000 21000000 16000000", nil},
	} {
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
	for _, c := range []struct{ ask, want string }{
		{"0100 0200 30000000 00000000 00000000  20000000 03000000 0000000000000000 0000100000000000 0000100000000000", "0100 0200 10000000 01000000 00000000"},
		{"0200 0200 30000000 00000000 00000000  20000000 03000000 0000000000000000 0000180000000000 0000100000000000", "0200 0200 10000000 21000000 11000000"},
		{"0200 0200 30000000 00000000 00000000  20000000 03000000 0000000000000000 0000080000000000 0000100000000000", "0200 0200 10000000 21000000 11000000"},
		{"0300 0300 28000000 00000000 00000000  18000000 00000000 0000100000000000 0000080000000000", "0300 0300 10000000 21000000 02000000"},
		{"0300 0300 28000000 00000000 00000000  18000000 00000000 0000100000000000 0000100000000000", "0300 0300 28000000 01000000 00000000  18000000 00000000 0000100000000000 0000100000000000"},
		{"0400 0200 30000000 00000000 00000000  20000000 03000000 0000000000000000 0000180000000000 0000100000000000", "0400 0200 10000000 01000000 00000000"},
		{"0500 0200 30000000 00000000 00000000  20000000 03000000 0000000000000000 00f0ffffffffffff 0020000000000000", "0500 0200 10000000 21000000 16000000"},
	} {
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
