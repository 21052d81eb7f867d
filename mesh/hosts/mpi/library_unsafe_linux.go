//go:build linux && (amd64 || arm64 || riscv64)

package mpi

import (
	"fmt"
	"strings"
	"unsafe"

	"github.com/ebitengine/purego"
	"golang.org/x/sys/unix"
)

// Constants of Open MPI's mpi.h, 4.0 to 5.0.
const (
	threadMultiple = 3
	maxErrorString = 256
)

type openMPI struct {
	initThread, commRank, commSize, commDup, setErrhandler, iallgather, iallgatherv, test, finalize, errorString, iprobe uintptr
	world, self, byteType, errorsReturn                                                                                  uintptr

	// ULFM, 0 without it.
	revoke, failureAck, failureAcked, commGroup, groupSize, translateRanks, groupFree uintptr
	// MPI's tool interface, to ask whether ULFM is on.
	tInit, tIndex, tHandle, tRead uintptr
}

// load loads the library for good, with global symbols, which its plug-ins need. What handles
// signals by then (UCX) is undone, since Go's runtime needs them for faults, preemption and
// delivery.
func load(name string) (*openMPI, error) {
	defer saveSignals().restore()
	h, err := purego.Dlopen(name, purego.RTLD_NOW|purego.RTLD_GLOBAL)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNoLibrary, err)
	}
	l := &openMPI{}
	for _, s := range []struct {
		name string
		at   *uintptr
	}{
		{"MPI_Init_thread", &l.initThread},
		{"MPI_Comm_rank", &l.commRank},
		{"MPI_Comm_size", &l.commSize},
		{"MPI_Comm_dup", &l.commDup},
		{"MPI_Comm_set_errhandler", &l.setErrhandler},
		{"MPI_Iallgather", &l.iallgather},
		{"MPI_Iallgatherv", &l.iallgatherv},
		{"MPI_Test", &l.test},
		{"MPI_Finalize", &l.finalize},
		{"MPI_Error_string", &l.errorString},
		{"MPI_Iprobe", &l.iprobe},
		{"ompi_mpi_comm_world", &l.world},
		{"ompi_mpi_comm_self", &l.self},
		{"ompi_mpi_byte", &l.byteType},
		{"ompi_mpi_errors_return", &l.errorsReturn},
		{"MPIX_Comm_revoke", &l.revoke},
		{"MPIX_Comm_failure_ack", &l.failureAck},
		{"MPIX_Comm_failure_get_acked", &l.failureAcked},
		{"MPI_Comm_group", &l.commGroup},
		{"MPI_Group_size", &l.groupSize},
		{"MPI_Group_translate_ranks", &l.translateRanks},
		{"MPI_Group_free", &l.groupFree},
		{"MPI_T_init_thread", &l.tInit},
		{"MPI_T_cvar_get_index", &l.tIndex},
		{"MPI_T_cvar_handle_alloc", &l.tHandle},
		{"MPI_T_cvar_read", &l.tRead},
	} {
		if *s.at, err = purego.Dlsym(h, s.name); err != nil && !strings.HasPrefix(s.name, "MPIX_") {
			return nil, fmt.Errorf("%w: it is no Open MPI 4 or 5: %w", ErrNoLibrary, err)
		}
	}
	return l, nil
}

func (l *openMPI) call(name string, f uintptr, args ...uintptr) error {
	r, _, _ := purego.SyscallN(f, args...)
	if code := int32(r); code != 0 {
		return l.failure(name, code)
	}
	return nil
}

func (l *openMPI) failure(name string, code int32) error {
	text, n := make([]byte, maxErrorString), int32(0)
	purego.SyscallN(l.errorString, uintptr(code), uintptr(unsafe.Pointer(&text[0])), uintptr(unsafe.Pointer(&n)))
	return &Error{Function: name, Code: int(code), Text: string(text[:min(max(int(n), 0), len(text))])}
}

// words is memory in words of 8 B that the garbage collector doesn't know, so its addresses may be
// passed as numbers.
type words []byte

func newWords(n int) (words, error) { return mapped(8 * n) }

func (w words) at(i int) uintptr { return uintptr(unsafe.Pointer(&w[8*i])) }

func (w words) int32(i int) int32 { return *(*int32)(unsafe.Pointer(&w[8*i])) }

func (w words) ptr(i int) uintptr { return *(*uintptr)(unsafe.Pointer(&w[8*i])) }

func (w words) int32s(i, n int) []int32 { return unsafe.Slice((*int32)(unsafe.Pointer(&w[8*i])), n) }

func mapped(n int) ([]byte, error) {
	return unix.Mmap(-1, 0, max(n, 1), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
}

// world is this package's copy of MPI_COMM_WORLD.
type world struct {
	l       *openMPI
	w       words
	comm    uintptr
	me, all int
	ft      bool
	counts  words // of the running all-gather: the bytes of each host, then where they begin
}

const (
	request = iota
	flag
	result
	group
	allGroup
	slots
)

func (l *openMPI) start() (communicator, error) {
	w, err := newWords(slots)
	if err != nil {
		return nil, fmt.Errorf("memory for MPI's results: %w", err)
	}
	c := &world{l: l, w: w}
	if c.ft, err = l.faultTolerance(); err != nil {
		return nil, err
	}
	defer saveSignals().restore()
	if err := l.call("MPI_Init_thread", l.initThread, 0, 0, threadMultiple, w.at(result)); err != nil {
		return nil, err
	}
	if got := w.int32(result); got < threadMultiple {
		return nil, fmt.Errorf("%w: it provides thread level %d of %d", ErrThreads, got, threadMultiple)
	}
	err = l.call("MPI_Comm_set_errhandler", l.setErrhandler, l.world, l.errorsReturn)
	if err == nil {
		err = l.call("MPI_Comm_dup", l.commDup, l.world, w.at(result))
		c.comm = w.ptr(result)
	}
	if err == nil {
		err = l.call("MPI_Comm_set_errhandler", l.setErrhandler, c.comm, l.errorsReturn)
	}
	if err == nil {
		err = l.call("MPI_Comm_rank", l.commRank, c.comm, w.at(result))
		c.me = int(w.int32(result))
	}
	if err == nil {
		err = l.call("MPI_Comm_size", l.commSize, c.comm, w.at(result))
		c.all = int(w.int32(result))
	}
	return c, err
}

// faultTolerance asks the library's control variable mpi_ft_enable, which mpirun --with-ft sets.
// ULFM's functions exist even when it is off.
func (l *openMPI) faultTolerance() (bool, error) {
	if l.revoke == 0 || l.failureAck == 0 || l.failureAcked == 0 {
		return false, nil
	}
	const provided, index, handle, count, value, name, end = 0, 1, 2, 3, 4, 5, 7
	w, err := newWords(end)
	if err != nil {
		return false, fmt.Errorf("memory for MPI's variables: %w", err)
	}
	defer func() { _ = unix.Munmap(w) }()
	copy(w[8*name:], "mpi_ft_enable\x00")
	if err := l.call("MPI_T_init_thread", l.tInit, threadMultiple, w.at(provided)); err != nil {
		return false, err
	}
	if l.call("MPI_T_cvar_get_index", l.tIndex, w.at(name), w.at(index)) != nil {
		return false, nil
	}
	if err := l.call("MPI_T_cvar_handle_alloc", l.tHandle, uintptr(w.int32(index)), 0, w.at(handle), w.at(count)); err != nil {
		return false, err
	}
	if err := l.call("MPI_T_cvar_read", l.tRead, w.ptr(handle), w.at(value)); err != nil {
		return false, err
	}
	return w.int32(value) != 0, nil
}

func (c *world) rank() int           { return c.me }
func (c *world) size() int           { return c.all }
func (c *world) faultTolerant() bool { return c.ft }

func (c *world) alloc(n int) ([]byte, error) { return mapped(n) }

func (c *world) free(b []byte) { _ = unix.Munmap(b) }

func (c *world) start(send, recv []byte, counts []int) error {
	l := c.l
	if counts == nil {
		return l.call("MPI_Iallgather", l.iallgather, address(send), uintptr(len(send)), l.byteType,
			address(recv), uintptr(len(send)), l.byteType, c.comm, c.w.at(request))
	}
	w, err := newWords(len(counts))
	if err != nil {
		return err
	}
	sizes, at := w.int32s(0, 2*len(counts)), 0
	for i, n := range counts {
		sizes[i], sizes[len(counts)+i] = int32(n), int32(at)
		at += n
	}
	c.counts = w
	return l.call("MPI_Iallgatherv", l.iallgatherv, address(send), uintptr(len(send)), l.byteType,
		address(recv), w.at(0), w.at(0)+uintptr(4*len(counts)), l.byteType, c.comm, c.w.at(request))
}

func address(b []byte) uintptr { return uintptr(unsafe.Pointer(unsafe.SliceData(b))) }

func (c *world) test() (bool, error) {
	if err := c.l.call("MPI_Test", c.l.test, c.w.at(request), c.w.at(flag), 0); err != nil {
		return false, err
	}
	done := c.w.int32(flag) != 0
	if done && c.counts != nil {
		c.free(c.counts)
		c.counts = nil
	}
	return done, nil
}

func (c *world) failed() (ranks []int) {
	if !c.ft {
		return nil
	}
	l, w := c.l, c.w
	// News arrive in calls that make progress, such as a probe for a message that doesn't exist.
	purego.SyscallN(l.iprobe, 0, 0, l.self, w.at(result), 0)
	if l.call("MPIX_Comm_failure_ack", l.failureAck, c.comm) != nil ||
		l.call("MPIX_Comm_failure_get_acked", l.failureAcked, c.comm, w.at(group)) != nil {
		return nil
	}
	defer purego.SyscallN(l.groupFree, w.at(group))
	if l.call("MPI_Comm_group", l.commGroup, c.comm, w.at(allGroup)) != nil {
		return nil
	}
	defer purego.SyscallN(l.groupFree, w.at(allGroup))
	if l.call("MPI_Group_size", l.groupSize, w.ptr(group), w.at(result)) != nil {
		return nil
	}
	n := int(w.int32(result))
	if n <= 0 {
		return nil
	}
	lists, err := newWords(n + 1)
	if err != nil {
		return nil
	}
	defer c.free(lists)
	list := lists.int32s(0, 2*n)
	for i := range n {
		list[i] = int32(i)
	}
	if l.call("MPI_Group_translate_ranks", l.translateRanks, w.ptr(group), uintptr(n), lists.at(0), w.ptr(allGroup),
		lists.at(0)+uintptr(4*n)) != nil {
		return nil
	}
	for _, r := range list[n:] {
		ranks = append(ranks, int(r))
	}
	return ranks
}

func (c *world) revoke() {
	if c.ft {
		purego.SyscallN(c.l.revoke, c.comm)
	}
}

func (c *world) finalize() error { return c.l.call("MPI_Finalize", c.l.finalize) }
