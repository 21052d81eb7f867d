package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"

	"github.com/reprise-tt/reprise/dispatch/abi"
	"github.com/reprise-tt/reprise/internal/ttnn"
	"github.com/reprise-tt/reprise/sim/libttsim"
)

func report(m *libttsim.Machine, err error) []byte {
	var b bytes.Buffer
	var stopped *libttsim.StoppedError
	if !errors.As(err, &stopped) {
		return fmt.Appendf(nil, "ERROR: %v\n", err)
	}
	if len(m.Chips()) > 1 {
		fmt.Fprintf(&b, "chip %d:\n", stopped.Chip)
	}
	_ = view(m, stopped.Chip).PrintFault(&b, stopped.Fault)
	if address, n, write, ok := m.LastAccess(); ok {
		verb := "reading"
		if write {
			verb = "writing"
		}
		fmt.Fprintf(&b, "the host's newest access to the card: %s %d bytes at physical address %#x\n", verb, n, address)
	}
	return b.Bytes()
}

// view returns a chip, and of TT-NN's kernels those that can be read.
func view(m *libttsim.Machine, n int) *ttnn.View {
	c, s := m.Chips()[n], m.Settings()
	known, _ := ttnn.OpenKernels(context.Background(), s.KernelCache)
	return &ttnn.View{Chip: c, Kernels: known, Layout: abi.Of(s.Wheel, c.Topology().Arch())}
}

func serveReports(m *libttsim.Machine, l *net.UnixListener) {
	for {
		c, err := l.AcceptUnix()
		if err != nil {
			return
		}
		_ = printReport(c, m) // the reader may be gone
		_ = c.Close()
	}
}

func printReport(w io.Writer, m *libttsim.Machine) error {
	for i := range m.Chips() {
		if len(m.Chips()) > 1 {
			if _, err := fmt.Fprintf(w, "chip %d\n", i); err != nil {
				return err
			}
		}
		if err := view(m, i).PrintCores(w); err != nil {
			return err
		}
	}
	return nil
}
