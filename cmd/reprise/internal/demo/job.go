package demo

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"sync/atomic"
	"time"

	"github.com/reprise-tt/reprise/cmd/reprise/internal/cli"
	"github.com/reprise-tt/reprise/hwtest/target"
	"github.com/reprise-tt/reprise/kmd"
	"github.com/reprise-tt/reprise/mesh"
	"github.com/reprise-tt/reprise/mesh/hosts"
	"github.com/reprise-tt/reprise/sim"
)

// job is a group of processes started by mpirun, or this process alone.
type job struct {
	hosts.Engine
	watch func(context.Context) (context.Context, func())
	leave func()
	close func(context.Context) error

	stop func() // the watch
	left atomic.Bool
}

// leaveTime bounds a process's cleanup after the end of another process or of the job, so that the
// whole job ends within a second.
const leaveTime = 250 * time.Millisecond

// startJob joins the processes that --hosts names and tells who this process is. The returned
// context ends when another process ends, if that can be known.
func startJob(ctx context.Context, engine string, who *cli.Process) (context.Context, *job, error) {
	if engine == "mpi" {
		j, err := startMPI(ctx)
		if err != nil {
			return nil, nil, err
		}
		who.Set(j.Rank(), j.Size())
		ctx, j.stop = j.watch(ctx)
		if who != nil && who.Quit != nil {
			context.AfterFunc(ctx, func() {
				time.AfterFunc(leaveTime, func() {
					if !j.left.Load() {
						who.Quit(context.Cause(ctx))
					}
				})
			})
		}
		return ctx, j, nil
	}
	one, err := hosts.InProcess(1)
	if err != nil {
		return nil, nil, err
	}
	return ctx, &job{Engine: one[0], leave: func() {}, close: func(context.Context) error { return one[0].Close() }, stop: func() {}}, nil
}

// end leaves the job. After an error it tells the other processes, so that they don't wait. If
// another process ended first, that is the returned error.
func (j *job) end(ctx context.Context, err error) error {
	j.stop()
	if lost := (*hosts.LostError)(nil); err != nil && errors.As(context.Cause(ctx), &lost) {
		err = lost
	}
	ctx = context.WithoutCancel(ctx)
	if err == nil {
		defer j.left.Store(true)
		return j.close(ctx)
	}
	j.leave()
	// MPI_Finalize waits for processes that may never come; the exit code tells mpirun enough.
	ctx, cancel := context.WithTimeout(ctx, 300*time.Millisecond)
	defer cancel()
	_ = j.close(ctx)
	return err
}

func (j *job) options() []mesh.Option {
	if j.Size() == 1 {
		return nil
	}
	return []mesh.Option{mesh.Across(j)}
}

// open starts the machine, or this process's part of an emulated machine.
func (j *job) open(ctx context.Context, m *target.Machine, network string) ([]kmd.Target, func() error, error) {
	if j.Size() == 1 || m.Spec == nil {
		return m.Open()
	}
	conns, err := j.meet(ctx, network)
	if err != nil {
		return nil, nil, err
	}
	return m.OpenPart(sim.Part{Index: j.Rank(), Count: j.Size(), Conns: conns})
}

// An exchange takes 1 MiB of each process; larger results are split.
const (
	pieceSize    = 512 << 10
	maxCollected = 32 << 20 // bytes of a process; a million tokens take about 3 MB of JSON
)

// collect returns the bytes of each process, by rank.
func (j *job) collect(ctx context.Context, op string, mine []byte) ([][]byte, error) {
	sizes, err := j.Exchange(ctx, op, binary.LittleEndian.AppendUint64(nil, uint64(len(mine))))
	if err != nil {
		return nil, err
	}
	out, left := make([][]byte, len(sizes)), make([]uint64, len(sizes))
	for rank, b := range sizes {
		if len(b) != 8 {
			return nil, fmt.Errorf("%s: process %d says %d B, want 8: is it another version?", op, rank, len(b))
		}
		if left[rank] = binary.LittleEndian.Uint64(b); left[rank] > maxCollected {
			return nil, fmt.Errorf("%s: process %d has %d B, want at most %d", op, rank, left[rank], maxCollected)
		}
	}
	for slices.Max(left) > 0 {
		piece := mine[:min(len(mine), pieceSize)]
		mine = mine[len(piece):]
		all, err := j.Exchange(ctx, op, piece)
		if err != nil {
			return nil, err
		}
		for rank, b := range all {
			if want := min(left[rank], pieceSize); uint64(len(b)) != want {
				return nil, fmt.Errorf("%s: process %d gave %d B, want %d", op, rank, len(b), want)
			}
			out[rank], left[rank] = append(out[rank], b...), left[rank]-uint64(len(b))
		}
	}
	return out, nil
}

// endpoint is where other processes connect.
type endpoint struct {
	Address string
	Key     []byte
}

// meet connects the emulated links of the processes by TCP. Connections present the key of process 0.
func (j *job) meet(ctx context.Context, network string) ([]net.Conn, error) {
	at, err := ownAddress(network)
	if err != nil {
		return nil, err
	}
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", netip.AddrPortFrom(at, 0).String())
	if err != nil {
		return nil, fmt.Errorf("listen for the links of other processes: %w", err)
	}
	mine := endpoint{Address: l.Addr().String(), Key: make([]byte, 32)}
	_, _ = rand.Read(mine.Key) // never fails
	data, err := json.Marshal(mine)
	if err != nil {
		return nil, errors.Join(err, l.Close())
	}
	all, err := j.Exchange(ctx, "connect links", data)
	if err != nil {
		return nil, errors.Join(err, l.Close())
	}
	addresses, key := make([]string, len(all)), []byte(nil)
	for i, data := range all {
		var p endpoint
		if err := json.Unmarshal(data, &p); err != nil {
			return nil, errors.Join(fmt.Errorf("address of process %d: %w", i, err), l.Close())
		}
		addresses[i] = p.Address
		if i == 0 {
			key = p.Key
		}
	}
	return sim.Meet(ctx, l, j.Rank(), addresses, key)
}

// ownAddress returns this machine's first address in a network. Without a network it is the source
// address of the default route, then any address off the loopback interface, then the loopback
// address.
func ownAddress(network string) (netip.Addr, error) {
	var own []netip.Addr
	addrs, err := net.InterfaceAddrs()
	if err != nil {
		return netip.Addr{}, fmt.Errorf("addresses of this machine: %w", err)
	}
	for _, a := range addrs {
		if n, ok := a.(*net.IPNet); ok {
			if ip, ok := netip.AddrFromSlice(n.IP); ok {
				own = append(own, ip.Unmap())
			}
		}
	}
	if network != "" {
		prefix, err := netip.ParsePrefix(network)
		if err != nil {
			return netip.Addr{}, linksError(network, "it isn't a network", err)
		}
		if i := slices.IndexFunc(own, prefix.Contains); i >= 0 {
			return own[i], nil
		}
		return netip.Addr{}, linksError(network, fmt.Sprintf("this machine has no address in it, only %v", own), nil)
	}
	// This sends nothing; the address is reserved for documentation.
	if c, err := net.Dial("udp4", "198.51.100.1:9"); err == nil {
		from, ok := c.LocalAddr().(*net.UDPAddr)
		_ = c.Close()
		if ok && !from.IP.IsLoopback() {
			return from.AddrPort().Addr().Unmap(), nil
		}
	}
	if i := slices.IndexFunc(own, func(a netip.Addr) bool { return a.Is4() && a.IsGlobalUnicast() }); i >= 0 {
		return own[i], nil
	}
	return netip.AddrFrom4([4]byte{127, 0, 0, 1}), nil
}

func linksError(network, why string, err error) error {
	return cli.Wrong("--links", network, why, "give the network that the hosts share, such as 10.1.0.0/16").By(err)
}
