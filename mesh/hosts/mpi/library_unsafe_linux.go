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

type openMPI map[string]uintptr

// Of ULFM, MPIX, and of MPI's tool interface, MPI_T, to ask whether ULFM is on.
const names = `MPI_Init_thread MPI_Comm_rank MPI_Comm_size MPI_Comm_dup MPI_Comm_set_errhandler MPI_Iallgather MPI_Iallgatherv
MPI_Test MPI_Finalize MPI_Error_string MPI_Iprobe ompi_mpi_comm_world ompi_mpi_comm_self ompi_mpi_byte ompi_mpi_errors_return
MPIX_Comm_revoke MPIX_Comm_failure_ack MPIX_Comm_failure_get_acked MPI_Comm_group MPI_Group_size MPI_Group_translate_ranks
MPI_Group_free MPI_T_init_thread MPI_T_cvar_get_index MPI_T_cvar_handle_alloc MPI_T_cvar_read`

// load loads the library for good, with global symbols, which its plug-ins need. What handles
// signals by then (UCX) is undone, since Go's runtime needs them for faults, preemption and
// delivery.
func load(name string) (openMPI, error) {
	defer saveSignals().restore()
	h, err := purego.Dlopen(name, purego.RTLD_NOW|purego.RTLD_GLOBAL)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNoLibrary, err)
	}
	l := openMPI{}
	for name := range strings.FieldsSeq(names) {
		if l[name], err = purego.Dlsym(h, name); err != nil && !strings.HasPrefix(name, "MPIX_") {
			return nil, fmt.Errorf("%w: it is no Open MPI 4 or 5: %w", ErrNoLibrary, err)
		}
	}
	return l, nil
}

func (l openMPI) call(name string, args ...uintptr) error {
	r, _, _ := purego.SyscallN(l[name], args...)
	if code := int32(r); code != 0 {
		return l.failure(name, code)
	}
	return nil
}

func (l openMPI) failure(name string, code int32) error {
	text, n := make([]byte, maxErrorString), int32(0)
	purego.SyscallN(l["MPI_Error_string"], uintptr(code), uintptr(unsafe.Pointer(&text[0])), uintptr(unsafe.Pointer(&n)))
	return &Error{Function: name, Code: int(code), Text: string(text[:min(max(int(n), 0), len(text))])}
}

// words is memory that the garbage collector doesn't know, so its addresses may be passed as
// numbers.
type words []byte

func newWords(n int) (words, error) { return mapped(8 * n) }

func (w words) at(i int) uintptr { return uintptr(unsafe.Pointer(&w[8*i])) }

func (w words) int32(i int) int32 { return *(*int32)(unsafe.Pointer(&w[8*i])) }

func (w words) ptr(i int) uintptr { return *(*uintptr)(unsafe.Pointer(&w[8*i])) }

func (w words) int32s(i, n int) []int32 { return unsafe.Slice((*int32)(unsafe.Pointer(&w[8*i])), n) }

func mapped(n int) ([]byte, error) {
	return unix.Mmap(-1, 0, max(n, 1), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
}

type world struct {
	l       openMPI
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

func (l openMPI) start() (communicator, error) {
	w, err := newWords(slots)
	if err != nil {
		return nil, fmt.Errorf("memory for MPI's results: %w", err)
	}
	c := &world{l: l, w: w}
	if c.ft, err = l.faultTolerance(); err != nil {
		return nil, err
	}
	defer saveSignals().restore()
	if err := l.call("MPI_Init_thread", 0, 0, threadMultiple, w.at(result)); err != nil {
		return nil, err
	}
	if got := w.int32(result); got < threadMultiple {
		return nil, fmt.Errorf("%w: it provides thread level %d of %d", ErrThreads, got, threadMultiple)
	}
	then := func(name string, args ...uintptr) {
		if err == nil {
			err = l.call(name, args...)
		}
	}
	then("MPI_Comm_set_errhandler", l["ompi_mpi_comm_world"], l["ompi_mpi_errors_return"])
	then("MPI_Comm_dup", l["ompi_mpi_comm_world"], w.at(result))
	c.comm = w.ptr(result)
	then("MPI_Comm_set_errhandler", c.comm, l["ompi_mpi_errors_return"])
	then("MPI_Comm_rank", c.comm, w.at(result))
	c.me = int(w.int32(result))
	then("MPI_Comm_size", c.comm, w.at(result))
	c.all = int(w.int32(result))
	return c, err
}

// faultTolerance asks the library's control variable mpi_ft_enable, which mpirun --with-ft sets.
// ULFM's functions exist even when it is off.
func (l openMPI) faultTolerance() (bool, error) {
	if l["MPIX_Comm_revoke"] == 0 || l["MPIX_Comm_failure_ack"] == 0 || l["MPIX_Comm_failure_get_acked"] == 0 {
		return false, nil
	}
	const provided, index, handle, count, value, name, end = 0, 1, 2, 3, 4, 5, 7
	w, err := newWords(end)
	if err != nil {
		return false, fmt.Errorf("memory for MPI's variables: %w", err)
	}
	defer func() { _ = unix.Munmap(w) }()
	copy(w[8*name:], "mpi_ft_enable\x00")
	if err := l.call("MPI_T_init_thread", threadMultiple, w.at(provided)); err != nil {
		return false, err
	}
	if l.call("MPI_T_cvar_get_index", w.at(name), w.at(index)) != nil {
		return false, nil
	}
	if err := l.call("MPI_T_cvar_handle_alloc", uintptr(w.int32(index)), 0, w.at(handle), w.at(count)); err != nil {
		return false, err
	}
	if err := l.call("MPI_T_cvar_read", w.ptr(handle), w.at(value)); err != nil {
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
	l, kind := c.l, c.l["ompi_mpi_byte"]
	if counts == nil {
		return l.call("MPI_Iallgather", address(send), uintptr(len(send)), kind,
			address(recv), uintptr(len(send)), kind, c.comm, c.w.at(request))
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
	return l.call("MPI_Iallgatherv", address(send), uintptr(len(send)), kind,
		address(recv), w.at(0), w.at(0)+uintptr(4*len(counts)), kind, c.comm, c.w.at(request))
}

func address(b []byte) uintptr { return uintptr(unsafe.Pointer(unsafe.SliceData(b))) }

func (c *world) test() (bool, error) {
	if err := c.l.call("MPI_Test", c.w.at(request), c.w.at(flag), 0); err != nil {
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
	purego.SyscallN(l["MPI_Iprobe"], 0, 0, l["ompi_mpi_comm_self"], w.at(result), 0)
	if l.call("MPIX_Comm_failure_ack", c.comm) != nil ||
		l.call("MPIX_Comm_failure_get_acked", c.comm, w.at(group)) != nil {
		return nil
	}
	defer purego.SyscallN(l["MPI_Group_free"], w.at(group))
	if l.call("MPI_Comm_group", c.comm, w.at(allGroup)) != nil {
		return nil
	}
	defer purego.SyscallN(l["MPI_Group_free"], w.at(allGroup))
	if l.call("MPI_Group_size", w.ptr(group), w.at(result)) != nil {
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
	if l.call("MPI_Group_translate_ranks", w.ptr(group), uintptr(n), lists.at(0), w.ptr(allGroup),
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
		purego.SyscallN(c.l["MPIX_Comm_revoke"], c.comm)
	}
}

func (c *world) finalize() error { return c.l.call("MPI_Finalize") }
