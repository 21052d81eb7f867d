package umd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"sync"

	"github.com/reprise-tt/reprise/chip"
)

// Folder makes a server's folder where tt-umd looks for some, and returns its path. The caller
// removes it.
func Folder() (string, error) {
	for i := 0; ; i++ {
		path := filepath.Join(os.TempDir(), fmt.Sprintf("tt-umd-sim-server-%d", i))
		switch err := os.Mkdir(path, 0o755); {
		case err == nil:
			return path, nil
		case !errors.Is(err, fs.ErrExist):
			return "", fmt.Errorf("serve tt-umd: %w", err)
		}
	}
}

// Socket returns the path of chip i's socket in a server's folder.
func Socket(folder string, i int) string {
	return filepath.Join(folder, fmt.Sprintf("tt-umd-sim-%d.sock", i))
}

// Tiles are a chip's tiles, at raw or translated coordinates of NoC 0.
type Tiles interface {
	ReadTile(at chip.XY, address uint64, p []byte) error
	WriteTile(at chip.XY, address uint64, p []byte) error
}

// Chip is what a server tells of a chip.
type Chip struct {
	Arch       chip.Arch
	Harvesting chip.Harvesting
	UnusedPCIe uint32 // mask of PCIe tiles
	SOC        string // the chip's soc_descriptor.yaml
	Simulator  string // the path of the library that tt-umd would load
	Cluster    string // the machine's cluster_descriptor.yaml, or empty for a chip alone
	// Observe returns the tiles for one connection.
	Observe func() Tiles
	// Warn gets sentences for the user of the program that runs on the chip.
	Warn func(string)
}

// Serve answers what connects to a listener, until ctx ends. Then it closes the listener.
func (c *Chip) Serve(ctx context.Context, l *net.UnixListener) {
	stop := context.AfterFunc(ctx, func() { _ = l.Close() }) // ends the loop
	defer stop()
	var running sync.WaitGroup
	defer running.Wait()
	for {
		conn, err := l.AcceptUnix()
		if err != nil {
			return
		}
		running.Go(func() {
			stop := context.AfterFunc(ctx, func() { _ = conn.Close() }) // ends the connection's loop
			defer stop()
			defer conn.Close()
			if err := c.converse(conn); errors.Is(err, ErrMessage) { // otherwise the tool is gone
				c.Warn(fmt.Sprintf("a tool's connection ends: %v", err))
			}
		})
	}
}

// maxWarnings bounds what one connection can print.
const maxWarnings = 20

func (c *Chip) converse(rw io.ReadWriter) error {
	tiles, warned := c.Observe(), map[string]bool{}
	for {
		b, err := receive(rw)
		if err != nil {
			return err
		}
		q, err := decodeRequest(b)
		if err != nil {
			return err
		}
		answer, err := c.answer(tiles, &q)
		if err != nil {
			if text := err.Error(); len(warned) < maxWarnings && !warned[text] {
				warned[text] = true
				c.Warn("a tool's access was refused: " + text)
			}
			answer = response(failed, nil)
		}
		if err := send(rw, answer); err != nil {
			return err
		}
	}
}

const failed = 0xFFFF_FFFF // status -1

func response(status uint64, data []byte) []byte { return encode(number(4, status), field{data: data}) }

var archs = map[chip.Arch]uint64{chip.Wormhole: 2, chip.Blackhole: 3} // tt-umd device/api/umd/device/types/arch.hpp

func (c *Chip) answer(tiles Tiles, q *request) ([]byte, error) {
	const x, simulator, translated = 63, 0, 1
	switch q.command {
	case getDeviceInfo:
		h := &c.Harvesting
		return encode(number(4, 0), number(4, archs[c.Arch]), number(1, simulator), text(c.SOC), number(1, translated),
			number(4, uint64(h.Tensix)), number(4, uint64(h.DRAM)), number(4, uint64(h.Ethernet)), number(4, 0),
			number(4, uint64(c.UnusedPCIe)), text(c.Simulator)), nil
	case getClusterDescriptor:
		return encode(number(4, 0), text(c.Cluster)), nil
	case shutdown:
		return response(0, nil), nil // the program goes on, as in a server of tt-umd's that doesn't take part
	case read, write:
	default:
		return nil, fmt.Errorf("command %d is not known", q.command)
	}
	if q.x > x || q.y > x {
		return nil, fmt.Errorf("there is no tile (%d,%d)", q.x, q.y)
	}
	at, access, p := chip.XY{X: uint8(q.x), Y: uint8(q.y)}, tiles.WriteTile, q.data
	switch {
	case q.command == write && int(q.size) != len(q.data):
		return nil, fmt.Errorf("a store of %d bytes brings %d", q.size, len(q.data))
	case q.command == read && q.size > maxMessage/2:
		return nil, fmt.Errorf("a load of %d bytes: at most %d", q.size, maxMessage/2)
	case q.command == read:
		access, p = tiles.ReadTile, make([]byte, q.size)
	}
	for address, rest := q.address, p; len(rest) > 0; {
		n := min(len(rest), 1<<20) // the chip stands still meanwhile
		if err := access(at, address, rest[:n]); err != nil {
			return nil, err
		}
		address, rest = address+uint64(n), rest[n:]
	}
	if q.command == write {
		p = nil
	}
	return response(0, p), nil
}
