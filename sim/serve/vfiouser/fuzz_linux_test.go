package vfiouser

import (
	"context"
	"io"
	"testing"

	"github.com/reprise-tt/reprise/chip"
)

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
