// Package gdb serves gdb's remote serial protocol (gdb manual) for the processors of a device, as
// threads that stop together. Breakpoints are ebreak instructions in L1, watchpoints use hardware.
// While recording, the server single-steps and can undo instructions, so that gdb can go backwards.
package gdb

import (
	"cmp"
	"context"
	_ "embed"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/internal/debug/core"
)

const (
	ebreak    = 0x00100073
	pollEvery = time.Millisecond
	unknown   = "xxxxxxxx" // GDB's form of a register that has no value
)

// Thread is a processor to debug.
type Thread struct {
	Name string // such as "core 0-0 BRISC"
	Core *core.Core
}

// Options of a server.
type Options struct {
	// Recording is slow; the monitor command "record" switches it.
	Record bool
	// Text is the load offset of the first thread's program, by which gdb moves its symbols.
	Text uint32
	// Patience bounds the time for all processors to pause before they count as stuck; 0: two
	// seconds, since an emulator on a busy machine needs its turn.
	Patience time.Duration
	Tell     func(string)
}

// Server debugs processors for one gdb.
type Server struct {
	threads []*thread
	opts    Options
	record  bool
	link    *link
	current *thread
	breaks  map[place]uint32 // instructions replaced by breakpoints
}

type place struct {
	tile chip.XY
	addr uint32
}

// New returns a server for the processors that have a debug interface.
func New(threads []Thread, o Options) (*Server, error) {
	s := &Server{opts: o, record: o.Record, breaks: map[place]uint32{}}
	for _, t := range threads {
		if t.Core.HasInterface() {
			s.threads = append(s.threads, &thread{id: len(s.threads) + 1, name: t.Name, core: t.Core, watches: map[watch][]int{}})
		}
	}
	if len(s.threads) == 0 {
		return nil, fmt.Errorf("gdb: none of %d processors: %w", len(threads), core.ErrUnsupported)
	}
	s.current = s.threads[0]
	s.opts.Patience = cmp.Or(s.opts.Patience, 2*time.Second)
	return s, nil
}

// Serve pauses the processors and serves gdb until it detaches, the connection ends, or ctx does;
// then it resumes them. If the device fails, gdb is told that the program has ended.
func (s *Server) Serve(ctx context.Context, rw io.ReadWriter) (err error) {
	defer func() { err = errors.Join(err, s.detach()) }()
	if err := s.pause(ctx, s.threads); err != nil {
		return err
	}
	if i := slices.IndexFunc(s.threads, func(t *thread) bool { return !t.stuck }); i >= 0 {
		s.current = s.threads[i]
	}
	s.link = newLink(rw)
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case p, ok := <-s.link.in:
			if !ok {
				if err := <-s.link.done; !errors.Is(err, io.EOF) {
					return fmt.Errorf("gdb: connection: %w", err)
				}
				return nil
			}
			if p[0] != '$' {
				continue
			}
			if err := s.link.ack(); err != nil {
				return fmt.Errorf("gdb: connection: %w", err)
			}
			reply, end, err := s.handle(ctx, p[1:])
			if err == nil && (reply == "E02" || reply == "E0e") {
				_, err = s.current.core.Reset()
			}
			if err != nil {
				_ = s.link.send("X09")
				return err
			}
			if err := s.link.send(reply); err != nil {
				return fmt.Errorf("gdb: connection: %w", err)
			}
			if p == "$QStartNoAckMode" {
				s.link.acks = false
			}
			if end {
				return nil
			}
		}
	}
}

func (s *Server) pause(ctx context.Context, threads []*thread) error {
	cores := make([]*core.Core, len(threads))
	for i, t := range threads {
		cores[i] = t.core
	}
	var errs []error
	for i, err := range core.PauseAll(ctx, s.opts.Patience, cores...) {
		if threads[i].stuck = errors.Is(err, core.ErrStuck); !threads[i].stuck {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

func (s *Server) detach() error {
	var errs []error
	for p := range s.breaks {
		errs = append(errs, s.remove(p))
	}
	for _, t := range s.threads {
		errs = append(errs, t.present(), t.core.Detach())
	}
	return errors.Join(errs...)
}

func (s *Server) handle(ctx context.Context, p string) (reply string, end bool, err error) {
	cmd, rest := p, ""
	if p != "" {
		cmd, rest = p[:1], p[1:]
	}
	switch cmd {
	case "?":
		reply = s.stopped(s.current, "")
	case "g":
		reply = s.readRegisters()
	case "G":
		reply = s.writeRegisters(rest)
	case "p":
		reply = s.readRegister(rest)
	case "P":
		reply = s.writeRegister(rest)
	case "m":
		reply = s.readMemory(rest)
	case "M", "X":
		reply = s.writeMemory(cmd, rest)
	case "Z", "z":
		reply = s.point(cmd == "Z", rest)
	case "H":
		if id, ok := strings.CutPrefix(rest, "g"); ok {
			s.current = cmp.Or(s.find(id), s.current)
		}
		reply = "OK"
	case "T":
		reply = "OK"
		if s.find(rest) == nil {
			reply = "E01"
		}
	case "D", "k":
		reply, end = "OK", true
	case "c", "s":
		reply, err = s.resume(ctx, map[*thread]byte{s.current: cmd[0]})
	case "b":
		reply, err = s.reverse(rest)
	case "v":
		reply, err = s.verbose(ctx, p)
	case "q", "Q":
		reply = s.query(ctx, p)
	}
	return reply, end, err
}

// 0 and -1 mean the current one.
func (s *Server) find(id string) *thread {
	n, err := strconv.ParseInt(id, 16, 32)
	switch {
	case err != nil:
		return nil
	case n <= 0:
		return s.current
	case int(n) > len(s.threads):
		return nil
	}
	return s.threads[n-1]
}

// stopped is the reply for a thread that stops by a trap.
func (s *Server) stopped(t *thread, why string) string {
	s.current = t
	return fmt.Sprintf("T05thread:%x;%s", t.id, why)
}

func (s *Server) interrupted() string { return fmt.Sprintf("T02thread:%x;", s.current.id) }

func (s *Server) query(ctx context.Context, p string) string {
	const document, extra, command = "features:read:target.xml:", "qThreadExtraInfo,", "qRcmd,"
	name, rest, _ := strings.Cut(p, ":")
	switch {
	case name == "qSupported":
		return fmt.Sprintf("PacketSize=%x;QStartNoAckMode+;qXfer:features:read+;swbreak+;hwbreak+;vContSupported+;ReverseStep+;ReverseContinue+",
			maxPacket/2)
	case name == "QStartNoAckMode":
		return "OK"
	case name == "qXfer" && strings.HasPrefix(rest, document):
		return window(targetXML, rest[len(document):])
	case name == "qAttached":
		return "1"
	case name == "qC":
		return fmt.Sprintf("QC%x", s.current.id)
	case name == "qfThreadInfo":
		ids := make([]string, len(s.threads))
		for i, t := range s.threads {
			ids[i] = strconv.FormatInt(int64(t.id), 16)
		}
		return "m" + strings.Join(ids, ",")
	case name == "qsThreadInfo":
		return "l"
	case name == "qOffsets":
		return fmt.Sprintf("Text=%x;Data=0;Bss=0", s.opts.Text)
	case strings.HasPrefix(p, extra):
		if t := s.find(p[len(extra):]); t != nil {
			return hex.EncodeToString([]byte(t.name))
		}
		return "E01"
	case strings.HasPrefix(p, command):
		text, err := hex.DecodeString(p[len(command):])
		if err != nil {
			return "E01"
		}
		return hex.EncodeToString([]byte(s.monitor(ctx, strings.Fields(string(text))) + "\n"))
	}
	return ""
}

func window(text, at string) string {
	var off, n int
	if k, err := fmt.Sscanf(at, "%x,%x", &off, &n); k != 2 || err != nil || off < 0 || n < 0 {
		return "E01"
	}
	if off >= len(text) {
		return "l"
	}
	if off+n >= len(text) {
		return "l" + text[off:]
	}
	return "m" + text[off:off+n]
}

// targetXML describes the registers of a processor.
//
//go:embed target.xml
var targetXML string

func swap(v uint32) string { return hex.EncodeToString(binary.LittleEndian.AppendUint32(nil, v)) }

func (s *Server) readRegisters() string {
	t := s.current
	if err := t.look(); err != nil {
		return "E02"
	}
	if t.stuck {
		pc, err := t.core.Sample()
		if err != nil {
			return "E02"
		}
		return strings.Repeat(unknown, core.PC) + swap(pc)
	}
	regs, err := t.core.Registers()
	if err != nil {
		return "E02"
	}
	all, _ := binary.Append(nil, binary.LittleEndian, regs) // numbers always encode
	return hex.EncodeToString(all)
}

func (s *Server) writeRegisters(data string) string {
	b, err := hex.DecodeString(data)
	if err != nil || len(b) < 4*(core.PC+1) {
		return "E01"
	}
	s.current.log.diverge()
	for i := range core.PC + 1 {
		if s.current.core.SetRegister(i, binary.LittleEndian.Uint32(b[4*i:])) != nil {
			return "E02"
		}
	}
	return "OK"
}

func (s *Server) readRegister(arg string) string {
	n, err := strconv.ParseUint(arg, 16, 16)
	if err != nil || n > core.PC {
		return "E01"
	}
	t := s.current
	if err := t.look(); err != nil {
		return "E02"
	}
	var v uint32
	switch {
	case !t.stuck:
		v, err = t.core.Register(int(n))
	case n != core.PC:
		return unknown
	default:
		v, err = t.core.Sample()
	}
	if err != nil {
		return "E02"
	}
	return swap(v)
}

func (s *Server) writeRegister(arg string) string {
	at, data, _ := strings.Cut(arg, "=")
	n, err := strconv.ParseUint(at, 16, 16)
	b, err2 := hex.DecodeString(data)
	if err != nil || err2 != nil || n > core.PC || len(b) != 4 {
		return "E01"
	}
	s.current.log.diverge()
	return done(s.current.core.SetRegister(int(n), binary.LittleEndian.Uint32(b)), "E02")
}

func done(err error, code string) string {
	if err != nil {
		return code
	}
	return "OK"
}

func span(arg string) (addr uint32, n int, ok bool) {
	a, l, found := strings.Cut(arg, ",")
	x, err := strconv.ParseUint(a, 16, 32)
	y, err2 := strconv.ParseUint(l, 16, 32)
	return uint32(x), int(y), found && err == nil && err2 == nil && y <= maxPacket
}

func (s *Server) readMemory(arg string) string {
	addr, n, ok := span(arg)
	if !ok {
		return "E01"
	}
	b := make([]byte, min(n, maxPacket/4))
	if s.current.core.Read(addr, b) != nil {
		return "E0e"
	}
	for p, w := range s.breaks {
		if p.tile != s.current.core.Tile().XY() {
			continue
		}
		for i := range uint32(4) {
			if at := p.addr + i - addr; at < uint32(len(b)) {
				b[at] = byte(w >> (8 * i))
			}
		}
	}
	return hex.EncodeToString(b)
}

func (s *Server) writeMemory(kind, arg string) string {
	head, data, _ := strings.Cut(arg, ":")
	addr, n, ok := span(head)
	b := []byte(data)
	if kind == "M" {
		var err error
		if b, err = hex.DecodeString(data); err != nil {
			return "E01"
		}
	}
	if !ok || len(b) != n {
		return "E01"
	}
	if n == 0 {
		return "OK"
	}
	s.current.log.diverge()
	return done(s.current.core.Write(addr, b), "E0e")
}

func (s *Server) point(set bool, arg string) string {
	if len(arg) < 3 {
		return "E01"
	}
	addr, n, ok := span(arg[2:])
	if !ok {
		return "E01"
	}
	var err error
	switch kind := arg[0]; kind {
	case '0', '1':
		err = s.breakpoint(set, addr)
	case '2', '3', '4':
		err = s.watchpoint(set, watch{kind, addr, uint32(n)})
	default:
		return ""
	}
	if err != nil {
		s.tell(err.Error())
	}
	return done(err, "E02")
}

func (s *Server) tell(line string) {
	if s.opts.Tell != nil {
		s.opts.Tell(line)
	}
}

// breakpoint writes an ebreak to L1 of all tiles, or removes it.
func (s *Server) breakpoint(set bool, addr uint32) error {
	seen := map[chip.XY]bool{}
	for _, t := range s.threads {
		p := t.place(addr)
		if _, has := s.breaks[p]; seen[p.tile] || has == set {
			continue
		}
		seen[p.tile] = true
		if !set {
			if err := s.remove(p); err != nil {
				return err
			}
			continue
		}
		w, ok := t.word(addr)
		if !ok || addr&3 != 0 {
			return core.ErrAddress
		}
		if err := t.setWord(addr, ebreak); err != nil {
			return err
		}
		s.breaks[p] = w
		if err := s.forget(p.tile); err != nil {
			return err
		}
	}
	return nil
}

// remove restores a breakpoint's instruction, unless another program has replaced the ebreak.
func (s *Server) remove(p place) error {
	w := s.breaks[p]
	delete(s.breaks, p)
	for _, t := range s.threads {
		if t.tile() != p.tile {
			continue
		}
		if v, ok := t.word(p.addr); !ok || v != ebreak {
			return nil
		}
		if err := t.setWord(p.addr, w); err != nil {
			return err
		}
		return s.forget(p.tile)
	}
	return nil
}

// forget flushes the instruction caches of a tile through one of its paused processors.
func (s *Server) forget(tile chip.XY) error {
	err := error(core.ErrRunning)
	for _, t := range s.threads {
		if t.tile() == tile && !t.stuck {
			if err = t.core.ForgetCode(); err == nil {
				return nil
			}
		}
	}
	return err
}

var errLength = errors.New("gdb: a watchpoint is for 1 to 8 bytes")

func (s *Server) watchpoint(set bool, w watch) error {
	if w.n < 1 || w.n > 8 {
		return errLength
	}
	for _, t := range s.threads {
		var err error
		if _, has := t.watches[w]; set && !has {
			err = t.watch(w)
		} else if !set && has {
			err = t.unwatch(w)
		}
		if err != nil && set {
			return errors.Join(err, s.watchpoint(false, w))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (s *Server) verbose(ctx context.Context, p string) (string, error) {
	if p == "vCont?" {
		return "vCont;c;C;s;S", nil
	}
	list, ok := strings.CutPrefix(p, "vCont;")
	if !ok {
		return "", nil
	}
	actions := map[*thread]byte{}
	for action := range strings.SplitSeq(list, ";") {
		what, who, named := strings.Cut(action, ":")
		if what == "" || !strings.Contains("cCsS", what[:1]) {
			return "E01", nil
		}
		for _, t := range s.threads {
			if _, has := actions[t]; !has && (!named || who == "-1" || s.find(who) == t) {
				actions[t] = what[0] | 0x20
			}
		}
	}
	return s.resume(ctx, actions)
}

func (s *Server) resume(ctx context.Context, actions map[*thread]byte) (string, error) {
	for t, verb := range actions {
		if t.live = false; t.stuck || verb == 's' || s.record || t.log.past() {
			continue
		}
		if err := t.core.Resume(); err != nil {
			return "", err
		}
		t.live = true
	}
	reply, err := s.run(ctx, actions)
	if err != nil {
		return reply, err
	}
	var ran []*thread
	for t := range actions {
		if !t.stuck {
			ran = append(ran, t)
		}
	}
	return reply, s.pause(ctx, ran)
}

func (s *Server) run(ctx context.Context, actions map[*thread]byte) (string, error) {
	for {
		for _, t := range s.threads {
			verb, ok := actions[t]
			if !ok {
				continue
			}
			reply, err := s.turn(ctx, t, verb)
			if reply != "" || err != nil {
				return reply, err
			}
		}
		pause := pollEvery
		if s.record {
			pause = 0
		}
		select {
		case <-ctx.Done():
			return "", context.Cause(ctx)
		case p, ok := <-s.link.in:
			if !ok || p[0] != '$' {
				return s.interrupted(), nil
			}
		case <-time.After(pause):
		}
	}
}

// The reply is empty while the thread goes on.
func (s *Server) turn(ctx context.Context, t *thread, verb byte) (string, error) {
	status, err := t.core.Status()
	if err != nil {
		return "", err
	}
	if t.stuck {
		if !status.Paused {
			return "", nil
		}
		t.stuck = false
		if verb == 's' {
			return s.stopped(t, ""), nil
		}
	}
	if verb == 's' || !t.live && (s.record || t.log.past()) {
		return s.step(ctx, t, verb)
	}
	if !t.live {
		t.live = true
		return "", t.core.Resume()
	}
	if !status.Paused {
		return "", nil
	}
	return s.reason(t, status)
}

func (s *Server) step(ctx context.Context, t *thread, verb byte) (string, error) {
	past := t.log.past()
	err := t.forward(ctx, s.record, func(pc uint32) (uint32, bool) {
		if w, ok := s.breaks[t.place(pc)]; ok {
			return w, true
		}
		return t.word(pc)
	})
	if errors.Is(err, core.ErrStuck) {
		t.stuck = true
		return "", nil
	}
	if err != nil {
		return "", err
	}
	status, err := t.core.Status()
	if err != nil {
		return "", err
	}
	if past {
		if reply := s.stored(t, t.log.changes[t.log.at-1]); reply != "" {
			return reply, nil
		}
	} else if status.Watch || status.EBREAK {
		return s.reason(t, status)
	}
	pc, err := t.core.Register(core.PC)
	if err != nil {
		return "", err
	}
	if _, hit := s.breaks[t.place(pc)]; hit && verb == 'c' {
		return s.stopped(t, "swbreak:;"), nil
	}
	if verb == 's' {
		return s.stopped(t, ""), nil
	}
	return "", nil
}

// reason is the reply for a thread that has stopped by itself. It moves pc back to a breakpoint.
func (s *Server) reason(t *thread, status core.Status) (string, error) {
	if status.Watch {
		for w, slots := range t.watches {
			for i, slot := range slots {
				if status.Hits>>slot&1 != 0 {
					name := map[byte]string{'2': "watch", '3': "rwatch", '4': "awatch"}[w.kind]
					return s.stopped(t, fmt.Sprintf("%s:%x;", name, w.word(i))), nil
				}
			}
		}
	}
	if status.EBREAK {
		pc, err := t.core.Register(core.PC)
		if err != nil {
			return "", err
		}
		if _, mine := s.breaks[t.place(pc-4)]; mine {
			if err := t.core.SetRegister(core.PC, pc-4); err != nil {
				return "", err
			}
			return s.stopped(t, "swbreak:;"), nil
		}
	}
	return s.stopped(t, ""), nil
}

// reverse undoes one instruction (bs), or all back to a breakpoint or a watched store (bc).
func (s *Server) reverse(verb string) (string, error) {
	t := s.current
	for {
		select {
		case p, ok := <-s.link.in:
			if !ok || p[0] != '$' {
				return s.interrupted(), nil
			}
		default:
		}
		c, err := t.back()
		if errors.Is(err, errBegin) {
			return s.stopped(t, "replaylog:begin;"), nil
		}
		if err != nil {
			return "", err
		}
		if verb == "s" {
			return s.stopped(t, ""), nil
		}
		if _, hit := s.breaks[t.place(c.before.pc)]; hit {
			return s.stopped(t, "swbreak:;"), nil
		}
		if reply := s.stored(t, c); reply != "" {
			return reply, nil
		}
	}
}

func (s *Server) stored(t *thread, c change) string {
	for w := range t.watches {
		if c.stored && w.kind != '3' && w.addr < c.addr+4 && c.addr < w.addr+w.n {
			return s.stopped(t, fmt.Sprintf("watch:%x;", max(w.addr, c.addr)))
		}
	}
	return ""
}
