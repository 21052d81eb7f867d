package gdb_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/dispatch/abi"
	"github.com/reprise-tt/reprise/internal/debug/core"
	"github.com/reprise-tt/reprise/internal/debug/gdb"
	"github.com/reprise-tt/reprise/internal/debug/live"
	"github.com/reprise-tt/reprise/internal/debug/stack"
	"github.com/reprise-tt/reprise/internal/expect"
	"github.com/reprise-tt/reprise/kernels"
	"github.com/reprise-tt/reprise/kmd"
	"github.com/reprise-tt/reprise/sim"
)

var must = expect.Must

func value[V any](v V, err error) func(expect.TB) V { return expect.Value(v, err) }

func equal[V comparable](t expect.TB, got, want V, what string, args ...any) {
	t.Helper()
	expect.Equal(t, got, want, what, args...)
}

const (
	word   = 0x100000 // the kernel ends when it is 77
	result = 0x100010
)

type session struct {
	card *sim.Card
	user *reprise.Device
	x    *reprise.Executable
	dev  *kmd.Device
	xy   chip.XY
	file string
	text uint32
	end  func() // lets the kernel end, and waits for it
}

func start(t *testing.T, arch chip.Arch) *session {
	t.Helper()
	ctx := t.Context()
	s := &session{card: sim.Blackhole(), file: "testdata/sum." + arch.String() + ".elf"}
	if arch == chip.Wormhole {
		s.card = sim.Wormhole()
	}
	t.Cleanup(func() { s.card.Close() })
	file := expect.Value(os.ReadFile(s.file))(t)
	im, err := kernels.Load(file)
	must(t, err)
	dev, err := reprise.Open(ctx, s.card)
	must(t, err)
	t.Cleanup(func() { dev.Close(context.Background()) })
	at := chip.Core{X: 1, Y: 1}
	program := &reprise.Program{Name: "sum"}
	for _, p := range []chip.Processor{chip.BRISC, chip.TRISC1} {
		program.Kernels = append(program.Kernels, reprise.Kernel{
			Name: "sum", Image: im, Processor: p, Cores: []chip.Range{{Start: at, End: at}},
			Args: func(chip.Core) []uint32 { return []uint32{word, result + 16*uint32(p)} },
		})
	}
	x, err := dev.Load(ctx, program)
	must(t, err)
	q := dev.Queue(0)
	must(t, q.Run(ctx, x))
	s.user, s.x = dev, x
	s.dev, err = kmd.Open(ctx, s.card)
	must(t, err)
	t.Cleanup(func() { s.dev.Close() })
	topo, err := chip.New(arch, chip.Harvesting{})
	must(t, err)
	s.xy, err = topo.Virtual(at)
	must(t, err)
	for v := uint32(0); v == 0; {
		v, err = s.dev.Read32(s.xy, result)
		must(t, err)
	}
	c := &live.Catalogue{}
	must(t, c.Add("sum.elf", file))
	space, err := c.Modules(abi.Own(arch), func(a uint32, p []byte) error { return s.dev.Read(s.xy, uint64(a), p) }, chip.BRISC)
	must(t, err)
	s.text = module(space, "sum.elf")
	s.end = func() {
		must(t, s.dev.Write32(s.xy, word, 77))
		must(t, q.Wait(ctx))
	}
	return s
}

func module(space stack.Space, name string) uint32 {
	for _, m := range space {
		if m.Name == name {
			return m.Start
		}
	}
	return 0
}

func (s *session) serve(ctx context.Context, t *testing.T) (string, chan error) {
	t.Helper()
	tile, err := core.Open(s.dev, s.xy)
	must(t, err)
	var threads []gdb.Thread
	for _, p := range []chip.Processor{chip.BRISC, chip.TRISC1} {
		c, err := tile.Core(p)
		must(t, err)
		threads = append(threads, gdb.Thread{Name: p.String(), Core: c})
	}
	server, err := gdb.New(threads, gdb.Options{Text: s.text})
	must(t, err)
	dir := expect.Value(os.MkdirTemp("", "gdb"))(t)
	t.Cleanup(func() { os.RemoveAll(dir) })
	name := filepath.Join(dir, "s")
	l := expect.Value(net.Listen("unix", name))(t)
	t.Cleanup(func() { l.Close() })
	done := make(chan error, 1)
	go func() {
		conn, err := l.Accept()
		if err == nil {
			err = server.Serve(ctx, conn)
			conn.Close()
		}
		done <- err
	}()
	return name, done
}

func TestGDB(t *testing.T) {
	program, err := exec.LookPath("gdb-multiarch")
	if err != nil {
		t.Skip("gdb-multiarch is not installed")
	}
	for _, arch := range []chip.Arch{chip.Blackhole, chip.Wormhole} {
		t.Run(arch.String(), func(t *testing.T) {
			s := start(t, arch)
			socket, done := s.serve(t.Context(), t)
			script := []string{
				"set pagination off", "set confirm off", "set architecture riscv:rv32",
				"target remote " + socket, "info threads",
				"break sum.c:8 if total == 3", "continue", "print total", "print i", "backtrace", "delete",
				"monitor record on", "next", "next", "print total", "step", "step",
				"reverse-next", "reverse-next", "print total", "info registers pc", "reverse-stepi", "stepi",
				"watch total", "continue", "continue", "print total", "reverse-continue", "reverse-continue", "reverse-continue", "delete",
				"monitor threads", "monitor cfg 2", "x/4xb &total", "detach",
			}
			args := []string{"-nx", "-batch", s.file}
			for _, c := range script {
				args = append(args, "-ex", "echo > "+strings.ReplaceAll(c, " ", "\\ ")+"\\n", "-ex", c)
			}
			ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
			defer cancel()
			cmd := exec.CommandContext(ctx, program, args...)
			cmd.Env = append(os.Environ(), "LC_ALL=C", "HOME="+t.TempDir())
			var out bytes.Buffer
			cmd.Stdout, cmd.Stderr = &out, &out
			err := cmd.Run()
			text := out.String()
			for _, want := range []string{
				"BRISC", "TRISC1", "> print total\n$1 = 3\n", "> print i\n$2 = 3\n", "sum (count=10) at ./sum.c:8", "in kernel_main () at ./sum.c:15",
				"> print total\n$3 = 6\n", "> print total\n$4 = 6\n", "Old value = 6\nNew value = 10\n", "Old value = 10\nNew value = 15\n",
				"> print total\n$5 = 15\n", "Old value = 15\nNew value = 10\n", "Old value = 10\nNew value = 6\n", "Old value = 6\nNew value = 3\n",
				"0x03\t0x00\t0x00\t0x00", "detached",
			} {
				if !strings.Contains(text, want) {
					t.Errorf("gdb doesn't print %q", want)
				}
			}
			if err != nil || t.Failed() {
				t.Errorf("%v\n%s", err, text)
			}
			select {
			case err := <-done:
				must(t, err)
			case <-ctx.Done():
				t.Fatal("the session doesn't end")
			}
			s.end()
		})
	}
}

type client struct {
	t    *testing.T
	conn net.Conn
}

func (s *session) attach(ctx context.Context, t *testing.T) (client, chan error) {
	t.Helper()
	socket, done := s.serve(ctx, t)
	conn := value(net.Dial("unix", socket))(t)
	return client{t, conn}, done
}

func (c client) finish(s *session, done chan error) {
	c.t.Helper()
	c.conn.Close()
	must(c.t, <-done)
	s.end()
}

func (c client) ask(p string) string {
	c.t.Helper()
	must(c.t, c.conn.SetDeadline(time.Now().Add(20*time.Second)))
	c.send(p)
	return c.reply()
}

func (c client) send(p string) {
	c.t.Helper()
	sum := byte(0)
	for i := range len(p) {
		sum += p[i]
	}
	_, err := fmt.Fprintf(c.conn, "$%s#%02x", p, sum)
	must(c.t, err)
}

func (c client) reply() string {
	c.t.Helper()
	var b [1]byte
	var out []byte
	for in := false; ; {
		_, err := c.conn.Read(b[:])
		must(c.t, err)
		switch {
		case b[0] == '$':
			in = true
		case b[0] == '#':
			_, err := c.conn.Read(make([]byte, 2))
			must(c.t, err)
			return string(out)
		case in:
			out = append(out, b[0])
		}
	}
}

func TestProtocol(t *testing.T) {
	for _, arch := range []chip.Arch{chip.Blackhole, chip.Wormhole} {
		s := start(t, arch)
		c, done := s.attach(t.Context(), t)
		for _, x := range [][2]string{
			{"qfThreadInfo", "m1,2"}, {"qsThreadInfo", "l"}, {"vMustReplyEmpty", ""}, {"m100000,4", "00000000"}, {"mffffff00,4", "E0e"},
			{"m", "E01"}, {"Hg2", "OK"}, {"T9", "E01"}, {"p41", "E01"}, {"Z0,1,4", "E02"}, {"vCont;x", "E01"}, {"qRcmd,zz", "E01"},
			{"Z2,100000,4", "OK"}, {"z2,100000,4", "OK"}, {"Z3,100000,8", "OK"}, {"z3,100000,8", "OK"}, {"Z2,100000,0", "E02"}, {"Z2,100000,9", "E02"},
			{"Z4,100000,8", "OK"}, {"Z4,100008,8", "OK"}, {"Z4,100010,8", "OK"}, {"Z4,100018,4", "OK"}, {"Z4,100020,8", "E02"}, {"Z4,10001c,4", "OK"},
			{"z4,100000,8", "OK"}, {"z4,100008,8", "OK"}, {"z4,100010,8", "OK"}, {"z4,100018,4", "OK"}, {"z4,10001c,4", "OK"}, {"bs", "T05thread:2;replaylog:begin;"}, {"vCont;s:1;", "E01"}, {"vCont;s:1", "T05thread:1;"},
		} {
			equal(t, c.ask(x[0]), x[1], "%v: %s", arch, x[0])
		}
		equal(t, len(c.ask("g")), 33*8, "%v: registers", arch)
		_, err := c.conn.Write([]byte("$c#63\x03"))
		must(t, err)
		if got := c.reply(); !strings.HasPrefix(got, "T02") {
			t.Errorf("%v: after Ctrl-C: %q", arch, got)
		}
		c.finish(s, done)
	}
}

func (c client) monitor(command string) string {
	c.t.Helper()
	text := value(hex.DecodeString(c.ask("qRcmd," + hex.EncodeToString([]byte(command)))))(c.t)
	return strings.TrimSuffix(string(text), "\n")
}

func TestMonitor(t *testing.T) {
	for _, arch := range []chip.Arch{chip.Blackhole, chip.Wormhole} {
		s := start(t, arch)
		c, done := s.attach(t.Context(), t)
		help := c.monitor("help")
		if !strings.Contains(help, "record on|off") {
			t.Errorf("%v: help: %s", arch, help)
		}
		streams := arch.Params().Stream
		buffer := func(r chip.StreamReg, v int) string {
			return fmt.Sprintf("reg %#x %d", streams.Reg(streams.FirstCB+31, r), v)
		}
		for _, x := range [][2]string{
			{"reg 0x100020 0x12345", "stored"}, {"reg 0x100020", "0x00012345"}, {"reg 0x100022", help}, {"reg 0x100020 many", help},
			{"gpr 5", "BRISC has no thread of the engines: select TRISC0, 1 or 2"}, {"gpr 64", help},
			{"reg 0xffef0008 0x4000000", "stored"}, {"cfg 2", "0x04000000"}, {"cfg 1024", help}, {"cfg", help}, {"record maybe", help},
			{"csr 0x1000", help}, {"cb", "no circular buffer has had a page"}, {buffer(chip.RemoteDestBufSize, 5), "stored"}, {buffer(chip.RemoteDestBufStart, 2), "stored"},
			{"cb", "31: 5 pages pushed, 2 popped, 3 are there"},
			{"wait", "thread 0: nothing\nthread 1: nothing\nthread 2: nothing"},
			{"threads", "1 BRISC: 0 instructions back\n2 TRISC1: 0 instructions back"},
		} {
			equal(t, c.monitor(x[0]), x[1], "%v: monitor %s", arch, x[0])
		}
		if got := c.monitor("csr 0x7c0"); (arch == chip.Blackhole) != (got == "0x00040000") || arch == chip.Wormhole &&
			!strings.HasSuffix(got, "CSR 0x7c0") {
			t.Errorf("%v: CSR: %s", arch, got)
		}
		c.ask("Hg2")
		stored, got := c.monitor("reg 0xffe00014 77"), c.monitor("gpr 5")
		equal(t, stored, "stored", "%v", arch)
		equal(t, got, "0x0000004d", "%v", arch)
		c.finish(s, done)
	}
}

func TestWatchpointOfTwoWords(t *testing.T) {
	for _, arch := range []chip.Arch{chip.Blackhole, chip.Wormhole} {
		s := start(t, arch)
		c, done := s.attach(t.Context(), t)
		for _, x := range [][2]string{
			{"Z2,10000c,8", "OK"}, {"vCont;c", "T05thread:1;watch:100010;"}, {"z2,10000c,8", "OK"},
			{"Z3,ffffc,8", "OK"}, {"vCont;c:2", "T05thread:2;rwatch:100000;"}, {"z3,ffffc,8", "OK"},
			{"Z4,10003c,8", "OK"}, {"vCont;c", "T05thread:2;awatch:100040;"}, {"z4,10003c,8", "OK"},
		} {
			equal(t, c.ask(x[0]), x[1], "%v: %s", arch, x[0])
		}
		c.finish(s, done)
	}
}

func TestOneOfTwoRuns(t *testing.T) {
	s := start(t, chip.Blackhole)
	c, done := s.attach(t.Context(), t)
	pcs := func() (pcs [2]string) {
		for i := range pcs {
			c.ask(fmt.Sprintf("Hg%d", i+1))
			pcs[i] = c.ask("p20")
		}
		return pcs
	}
	before := pcs()
	for _, at := range []uint32{result, result + 16*uint32(chip.TRISC1)} {
		must(t, s.dev.Write32(s.xy, uint64(at), 0))
	}
	ran := make(chan error, 1)
	go func() { // until the one that runs has stored
		var err error
		for v := uint32(0); v == 0 && err == nil; {
			v, err = s.dev.Read32(s.xy, result)
		}
		_, _ = c.conn.Write([]byte{3})
		ran <- err
	}()
	if got := c.ask("vCont;c:1"); !strings.HasPrefix(got, "T02") {
		t.Errorf("after Ctrl-C: %q", got)
	}
	must(t, <-ran)
	equal(t, pcs()[1], before[1], "pc of the processor that was not resumed")
	other, err := s.dev.Read32(s.xy, result+16*uint64(chip.TRISC1))
	must(t, err)
	equal(t, other, 0, "what it has stored")
	c.finish(s, done)
}

func TestSessionEnds(t *testing.T) {
	for _, how := range []string{"paused", "running", "kill"} {
		s := start(t, chip.Blackhole)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		c, done := s.attach(ctx, t)
		equal(t, c.ask(fmt.Sprintf("Z0,%x,4", s.text)), "OK", "%s: breakpoint", how)
		want := context.Canceled
		switch how {
		case "paused":
			cancel()
		case "running":
			_, err := c.conn.Write([]byte("$c#63"))
			must(t, err)
			time.Sleep(time.Millisecond) // whether they run by then or not, what is checked holds
			cancel()
		case "kill":
			want = nil
			c.ask("k")
		}
		expect.Fails(t, <-done, want, "%s: the session ends with", how)
		c.conn.Close()
		s.end()
		must(t, s.user.Queue(0).Run(t.Context(), s.x)) // the host's word is there still
		must(t, s.user.Queue(0).Wait(t.Context()))
	}
}

func TestRecoverDuringSession(t *testing.T) {
	for _, arch := range []chip.Arch{chip.Blackhole, chip.Wormhole} {
		s := start(t, arch)
		c, done := s.attach(t.Context(), t)
		equal(t, c.ask(fmt.Sprintf("Z0,%x,4", s.text)), "OK", "%v: breakpoint", arch)
		must(t, s.user.Recover(t.Context()))
		equal(t, c.ask("g"), "E02", "%v: registers", arch)
		equal(t, c.ask("c"), "X09", "%v: continue", arch)
		if err := <-done; !errors.Is(err, core.ErrRunning) && !errors.Is(err, core.ErrInReset) {
			t.Errorf("%v: the session ends with %v", arch, err)
		}
		c.conn.Close()
		q := s.user.Queue(0)
		must(t, s.dev.Write32(s.xy, word, 77))
		must(t, q.Run(t.Context(), s.x))
		must(t, q.Wait(t.Context()))
	}
}

func TestDeviceLost(t *testing.T) {
	for _, request := range []string{"c", "m100000,4", "g", "s", "Z0,0,4"} {
		s := start(t, chip.Blackhole)
		c, done := s.attach(t.Context(), t)
		if got := c.ask("?"); !strings.HasPrefix(got, "T05") {
			t.Errorf("%s: %q", request, got)
		}
		lose := func() { s.card.Chip().Close() } // nothing answers from now on
		if request != "c" {
			lose()
		}
		c.send(request)
		if request == "c" {
			lose()
		}
		equal(t, c.reply(), "X09", "%s: the program ends with", request)
		expect.Fails(t, <-done, kmd.ErrDeviceLost, "%s: session", request)
	}
}

func write(t *testing.T, dev *kmd.Device, xy chip.XY, at uint32, program ...uint32) {
	t.Helper()
	var code []byte
	for _, w := range program {
		code = binary.LittleEndian.AppendUint32(code, w)
	}
	must(t, dev.Write(xy, uint64(at), code))
}

func TestStuckThread(t *testing.T) {
	for _, arch := range []chip.Arch{chip.Blackhole, chip.Wormhole} {
		card := sim.Blackhole()
		if arch == chip.Wormhole {
			card = sim.Wormhole()
		}
		defer card.Close()
		dev := value(kmd.Open(t.Context(), card))(t)
		defer dev.Close()
		topo := value(chip.New(arch, chip.Harvesting{}))(t)
		xy := value(topo.Virtual(chip.Core{X: 1, Y: 2}))(t)
		params := arch.Params()
		write(t, dev, xy, 0,
			0x00020637, // lui a2, 0x20
			0x00C62023, // sw a2, 0(a2)
			0xFFEC1537, // lui a0, 0xffec1: the mailbox from TRISC0
			0x00052583, // lw a1, 0(a0)
			0x00B62223, // sw a1, 4(a2)
			0x0000006F, // j .
		)
		write(t, dev, xy, params.ResetPC[chip.TRISC0],
			0xFFEC0537, // lui a0, 0xffec0: the mailbox to BRISC
			0x00500593, // li a1, 5
			0x00B52023, // sw a1, 0(a0)
			0x0000006F, // j .
		)
		write(t, dev, xy, params.ResetPC[chip.TRISC1],
			0x8C400022, // ttinsn SEMINIT: semaphore 1 is 0 of at most 1
			0x9BFE0026, // ttinsn SEMWAIT: while it is 0
			0x0000006F, // j .
		)
		release := func(processors ...chip.Processor) {
			v := params.ResetAll
			for _, p := range processors {
				v &^= p.ResetBit()
			}
			must(t, dev.Write32(xy, uint64(params.SoftReset), v))
		}
		release(chip.BRISC, chip.TRISC1)
		tile := value(core.Open(dev, xy))(t)
		var threads []gdb.Thread
		for _, p := range []chip.Processor{chip.BRISC, chip.TRISC1} {
			c := value(tile.Core(p))(t)
			threads = append(threads, gdb.Thread{Name: p.String(), Core: c})
		}
		waits := uint32(0)
		for last := uint32(1); waits < 8 || waits != last; { // in its load
			last = waits
			waits = value(threads[0].Core.Sample())(t)
		}
		for at := uint32(0); at < params.ResetPC[chip.TRISC1]+8; { // has given the engines its instructions
			at = value(threads[1].Core.Sample())(t)
		}
		server := value(gdb.New(threads, gdb.Options{Patience: 200 * time.Millisecond}))(t)
		conn, end := net.Pipe()
		defer conn.Close()
		done := make(chan error, 1)
		go func() { done <- server.Serve(t.Context(), end) }()
		c := client{t, conn}
		pc := hex.EncodeToString(binary.LittleEndian.AppendUint32(nil, waits))
		for _, x := range [][2]string{
			{"?", "T05thread:2;"}, {"p2", "00000000"}, {"Hg1", "OK"}, {"g", strings.Repeat("xxxxxxxx", 32) + pc}, {"pb", "xxxxxxxx"}, {"p20", pc},
			{"Pb=01000000", "E02"}, {"m20000,4", "00000200"},
		} {
			equal(t, c.ask(x[0]), x[1], "%v: %s", arch, x[0])
		}
		equal(t, c.monitor("threads"), "1 BRISC: 0 instructions back, waits inside of an instruction\n2 TRISC1: 0 instructions back",
			"%v: threads", arch)
		engines := c.monitor("wait")
		for range 1000 {
			if strings.Contains(engines, "SEMWAIT") { // they have come to it
				break
			}
			engines = c.monitor("wait")
		}
		equal(t, engines, "thread 0: nothing\nthread 1: SEMWAIT 0xa6ff8009 waits while semaphore 1 is 0\nthread 2: nothing",
			"%v: engines", arch)
		release(chip.BRISC, chip.TRISC1, chip.TRISC0)
		for got := "xxxxxxxx"; got != "05000000"; {
			if got = c.ask("pb"); got != "xxxxxxxx" && got != "05000000" {
				t.Fatalf("%v: a1 is %q", arch, got)
			}
		}
		if got := c.ask("m20004,4"); got != "00000000" { // it has paused after the load
			t.Errorf("%v: the processor has gone on: %q", arch, got)
		}
		equal(t, c.ask("D"), "OK", "%v: detach", arch)
		must(t, <-done)
		for v := uint32(0); v != 5; {
			v = value(dev.Read32(xy, 0x20004))(t)
		}
		must(t, dev.Fault())
	}
}
