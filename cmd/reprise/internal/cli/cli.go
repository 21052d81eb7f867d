// Package cli is what all commands share: output, names of devices, errors.
package cli

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/dustin/go-humanize"
	"golang.org/x/term"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/hwtest/target"
	"github.com/reprise-tt/reprise/internal/tables"
	"github.com/reprise-tt/reprise/kmd"
	"github.com/reprise-tt/reprise/sim/ttsim"
)

// IsFile reports whether a name is that of a file or a pipe, and so not of a device.
func IsFile(name string) bool {
	st, err := os.Stat(name)
	return err == nil && (st.Mode().IsRegular() || st.Mode()&fs.ModeNamedPipe != 0)
}

// Open opens a file or a pipe to read; when ctx ends it closes it. The error wraps a
// *fs.PathError, for a folder with syscall.EISDIR.
func Open(ctx context.Context, name string) (*os.File, error) {
	f, err := Until(ctx, func() (*os.File, error) { return os.Open(name) })
	if err != nil {
		return nil, err
	}
	st, err := f.Stat()
	if err == nil && st.IsDir() {
		err = fmt.Errorf("%w: name a file", &fs.PathError{Op: "read", Path: name, Err: syscall.EISDIR})
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	context.AfterFunc(ctx, func() { _ = f.Close() })
	return f, nil
}

// Read decodes a file or a pipe, for callers that end with their context.
func Read[T any](name string, decode func(io.Reader) (T, error)) (v T, err error) {
	f, err := Open(context.Background(), name)
	if err != nil {
		return v, err
	}
	defer f.Close()
	return decode(f)
}

// Until returns early when ctx ends: f, which only reads or prints, may block in a pipe.
func Until[T any](ctx context.Context, f func() (T, error)) (T, error) {
	type result struct {
		v   T
		err error
	}
	done := make(chan result, 1)
	go func() {
		v, err := f()
		done <- result{v, err}
	}()
	select {
	case r := <-done:
		return r.v, r.err
	case <-ctx.Done():
		var none T
		return none, context.Cause(ctx)
	}
}

// Process labels messages with the number of this process among several.
type Process struct {
	name atomic.Pointer[string]
	Quit func(error) // ends the process with an error at once; nil in tests
	said sync.Once
}

// Last writes the last message once: an orderly end and Quit can coincide.
func (p *Process) Last(write func()) {
	if p == nil {
		write()
	} else {
		p.said.Do(write)
	}
}

// Set notes the number of the process.
func (p *Process) Set(rank, size int) {
	if p == nil || size < 2 {
		return
	}
	name := fmt.Sprintf("process %d of %d: ", rank, size)
	p.name.Store(&name)
}

// Label puts the process into each line, after "reprise: ".
func (p *Process) Label(text string) string {
	if p == nil || p.name.Load() == nil {
		return text
	}
	var b strings.Builder
	for line := range strings.Lines(text) {
		rest, ok := strings.CutPrefix(line, "reprise: ")
		if ok {
			b.WriteString("reprise: ")
		}
		b.WriteString(*p.name.Load() + rest)
	}
	return b.String()
}

// ExitHelp ends the help of commands.
const ExitHelp = `Exit codes: 0 all is well, 1 something went wrong or a check failed, 2 wrong flags or arguments, 130 interrupted.`

// Streams are where a command reads and writes.
type Streams struct {
	Out, Err io.Writer
	Who      *Process
}

// Endings are the signals that end a command; SIGHUP unless ignored, as under nohup.
func Endings() []os.Signal {
	s := []os.Signal{os.Interrupt, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) {
		s = append(s, syscall.SIGHUP)
	}
	return s
}

// Serve answers HTTP requests until ctx ends, and returns ctx's error then.
func Serve(ctx context.Context, what, address string, h http.Handler, out io.Writer, path string) error {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	fmt.Fprintf(out, "serving http://%s%s\n", l.Addr(), path)
	srv := &http.Server{Handler: h, ReadHeaderTimeout: 5 * time.Second, WriteTimeout: time.Minute}
	ended := make(chan error, 1)
	go func() { ended <- srv.Serve(l) }()
	select {
	case err := <-ended:
		return fmt.Errorf("%s: %w", what, err)
	case <-ctx.Done():
	}
	err = srv.Close() // clients repeat what was cut
	if e := <-ended; !errors.Is(e, http.ErrServerClosed) {
		err = errors.Join(err, e)
	}
	return errors.Join(ctx.Err(), err)
}

// Reader marks commands that only read, and may end at any time.
type Reader struct{}

// OnlyReads is what main asks for.
func (Reader) OnlyReads() bool { return true }

type AsJSON struct {
	JSON bool `name:"json"`
}

// Text is output for people.
type Text = tables.Text

// Print prints a text.
var Print = tables.Print

// PrintJSON prints what a command found out as one JSON object.
func PrintJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(v)
}

// Print prints what a command found out as one JSON object or as text.
func (s Streams) Print(asJSON bool, v any, text func(Text)) error {
	if asJSON {
		return PrintJSON(s.Out, v)
	}
	return Print(s.Out, text)
}

// PrintChecks returns an error if a check failed.
func (s Streams) PrintChecks(asJSON bool, checks []kmd.Check) error {
	failed := 0
	for _, c := range checks {
		if c.Status == kmd.StatusFailed {
			failed++
		}
	}
	err := s.Print(asJSON, struct {
		OK     bool        `json:"ok"`
		Checks []kmd.Check `json:"checks"`
	}{failed == 0, append([]kmd.Check{}, checks...)}, func(t Text) {
		table, device := t.Table(), ""
		for _, c := range checks {
			if c.Device != device {
				device = c.Device
				table.Flush()
				t.F("\n%s\n", device)
			}
			table.Row(c.Status, c.Name, c.Found)
			if c.Fix != "" {
				table.Row("", "", "fix: "+c.Fix)
			}
		}
		table.Flush()
	})
	if err == nil && failed > 0 {
		err = fmt.Errorf("doctor: %s failed", Count(failed, "check"))
	}
	return err
}

// Grid is the size of a grid of cores.
type Grid struct {
	Width  int `json:"width"`
	Height int `json:"height"`
}

// Median is in nanoseconds.
func Median(t []time.Duration) int64 {
	s := slices.Sorted(slices.Values(t))
	return s[len(s)/2].Nanoseconds()
}

// IsTerminal reports whether a writer is a terminal.
func IsTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// Status returns what replaces the last line on a terminal, or removes it for "". It does nothing
// if standard error is no terminal.
func (s Streams) Status() func(line string) {
	if !IsTerminal(s.Err) {
		return func(string) {}
	}
	return func(line string) { fmt.Fprint(s.Err, "\r\x1b[K"+line) }
}

func Bytes[T ~int | ~int64 | ~uint32 | ~uint64](n T) string { return humanize.Comma(int64(n)) + " B" }

// Count returns a number and a noun in the singular or plural.
func Count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	if strings.HasSuffix(noun, "ch") {
		noun += "e"
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// Dash returns a dash for nothing.
func Dash(s string) string { return cmp.Or(s, "-") }

// Map converts a list; no list becomes an empty one, not null, in JSON.
func Map[T, U any](list []T, convert func(T) U) []U {
	out := make([]U, 0, len(list))
	for _, v := range list {
		out = append(out, convert(v))
	}
	return out
}

// List joins the texts of values, or returns a dash for none.
func List[T any](list []T, text func(T) string) string {
	return Dash(strings.Join(Map(list, text), ", "))
}

// Unit prints a value if it is known, or else a dash.
func Unit(v *float64, format string) string {
	if v == nil {
		return "-"
	}
	return fmt.Sprintf(format, *v)
}

// Save writes the file that a flag names, completely or not at all, or into a device or pipe.
func Save(ctx context.Context, flag, path string, write func(io.Writer) error) (err error) {
	f, err := Create(ctx, flag, path)
	if err != nil {
		return err
	}
	stop := context.AfterFunc(ctx, func() {
		if f.at == "" { // a pipe without a reader would block
			_ = f.Close()
		}
	})
	defer stop()
	return f.End(f.write(write))
}

// Output is a file that appears at its end, or an existing device or pipe.
type Output struct {
	*os.File
	at string // "" for a device or pipe
}

// Create begins a file, or opens an existing device or pipe.
func Create(ctx context.Context, flag, path string) (*Output, error) {
	f, through, err := begin(flag, path)
	if err != nil || through == "" {
		return f, err
	}
	file, err := Until(ctx, func() (*os.File, error) { return os.OpenFile(through, os.O_WRONLY, 0) })
	if err != nil {
		return nil, Wrong(flag, path, "it can't be written: "+reason(err), "give the path of a file").By(err)
	}
	return &Output{File: file}, nil
}

// FileText is one of several files that belong together.
type FileText struct {
	Path  string
	Write func(io.Writer) error
}

// SaveTogether writes files of a folder, all or none; the last one appears last.
func SaveTogether(flag string, files []FileText) (err error) {
	var open []*Output
	defer func() {
		for _, f := range open {
			err = f.End(err)
		}
	}()
	for _, file := range files {
		f, through, err := begin(flag, file.Path)
		if through != "" {
			err = cannotMake(flag, file.Path, errors.New("it isn't a regular file"))
		}
		if err != nil {
			return err
		}
		open = append(open, f)
		if err := f.write(file.Write); err != nil {
			return err
		}
	}
	return nil
}

// begin makes a temporary file, or returns the path of a device or pipe to write through.
func begin(flag, path string) (f *Output, through string, err error) {
	at, is, err := place(path)
	if is {
		return nil, at, nil
	}
	if err == nil {
		f = &Output{at: at}
		f.File, err = os.CreateTemp(filepath.Dir(at), filepath.Base(at)+".*")
	}
	return f, "", cannotMake(flag, path, err)
}

// End completes the file, or removes it after an error.
func (f *Output) End(err error) error {
	if f.at == "" {
		return errors.Join(err, f.Close())
	}
	if err == nil {
		err = f.Chmod(0o644) // temporary files are private
	}
	if e := f.Close(); err == nil {
		err = e
	}
	if err == nil {
		err = os.Rename(f.Name(), f.at)
	}
	if err != nil {
		err = errors.Join(err, os.Remove(f.Name()))
	}
	return err
}

func (f *Output) write(write func(io.Writer) error) error {
	w := bufio.NewWriterSize(f, 1<<16)
	if err := write(w); err != nil {
		return err
	}
	return w.Flush()
}

// place follows links. Existing devices and pipes are written through.
func place(path string) (at string, through bool, err error) {
	switch info, err := os.Stat(path); {
	case errors.Is(err, fs.ErrNotExist): // perhaps a link to nothing
	case err != nil:
		return "", false, err
	case info.IsDir():
		return "", false, syscall.EISDIR
	case !info.Mode().IsRegular():
		return path, true, nil
	}
	for { // a circle of links has no Stat
		dir, name := filepath.Split(path)
		if dir, err = filepath.EvalSymlinks(cmp.Or(dir, ".")); err != nil {
			return "", false, err
		}
		path = filepath.Join(dir, name)
		to, err := os.Readlink(path)
		if err != nil {
			return path, false, nil
		}
		if path = to; !filepath.IsAbs(to) {
			path = dir + string(filepath.Separator) + to // not cleaned: dots after another link count from where it leads to
		}
	}
}

// Creatable checks early that a file can be written; it opens no pipe.
func Creatable(flag, path string) error {
	if path == "" {
		return nil
	}
	f, through, err := begin(flag, path)
	if err == nil && through == "" {
		err = cannotMake(flag, path, errors.Join(f.Close(), os.Remove(f.Name())))
	}
	return err
}

func cannotMake(flag, path string, err error) error {
	if err == nil {
		return nil
	}
	return Wrong(flag, path, "no file can be made there: "+reason(err), "give a path in a directory that can be written").By(err)
}

func reason(err error) string {
	var e *fs.PathError
	if errors.As(err, &e) {
		return e.Err.Error()
	}
	return err.Error()
}

func SaveBytes(ctx context.Context, flag, path string, b []byte) error {
	return Save(ctx, flag, path, func(w io.Writer) error {
		_, err := w.Write(b)
		return err
	})
}

// ServeCommand is the hidden command that serves the vendor's simulator.
const ServeCommand = "ttsim-serve"

// DeviceHelp describes the devices of ParseTarget.
const DeviceHelp = target.Help

// ParseTarget parses --device.
func ParseTarget(s string) (kmd.Target, error) {
	d, err := ParseDevice("--device", s)
	if err != nil {
		return nil, err
	}
	return d.Open(), nil
}

// ParseDevice turns the value of a flag into one device.
func ParseDevice(flag, s string) (*target.Device, error) {
	d, err := parse(flag, s, target.Parse)
	if err == nil && d.Several() {
		return nil, Wrong(flag, s, "it names several device nodes, and the command takes one", "give one of them")
	}
	return d, err
}

// ParseMachine reads the value of a flag that names a machine.
func ParseMachine(flag, s string) (*target.Machine, error) {
	return parse(flag, s, target.ParseMachine)
}

func parse[T any](flag, s string, f func(string, ttsim.Option) (*T, error)) (*T, error) {
	server, err := Server()
	if err != nil {
		return nil, fmt.Errorf("%s %q: %w", flag, s, err)
	}
	d, err := f(s, server)
	var wrong *target.Error
	if errors.As(err, &wrong) {
		wrong.Flag = flag
	}
	return d, err
}

// Server is this program as the server of the vendor's simulator.
func Server() (ttsim.Option, error) {
	self, err := os.Executable()
	if err != nil {
		err = fmt.Errorf("find this program to start it as the simulator's server: %w", err)
	}
	return ttsim.Server(self, ServeCommand), err
}

// Processors are those for which ok returns true.
func Processors(ok func(chip.Processor) bool) (ps []chip.Processor) {
	for p := range chip.Processor(chip.NumProcessors) {
		if ok(p) {
			ps = append(ps, p)
		}
	}
	return ps
}

// ParseProcessors returns the values of --processor; all without names.
func ParseProcessors(names []string) ([]chip.Processor, error) {
	for _, name := range names {
		if len(Processors(func(p chip.Processor) bool { return strings.EqualFold(name, p.String()) })) == 0 {
			return nil, Wrong("--processor", name, "there is no such processor", "use brisc, ncrisc, trisc0, trisc1 or trisc2")
		}
	}
	return Processors(func(p chip.Processor) bool {
		return len(names) == 0 || slices.ContainsFunc(names, func(name string) bool { return strings.EqualFold(name, p.String()) })
	}), nil
}

func OpenChip(ctx context.Context, t kmd.Target, opts ...kmd.Option) (*kmd.Device, *chip.Chip, error) {
	d, err := kmd.Open(ctx, t, opts...)
	if err != nil {
		return nil, nil, err
	}
	h, err := d.Harvesting(ctx)
	if err != nil {
		return nil, nil, errors.Join(err, d.Close())
	}
	ch, err := chip.New(d.Arch(), h)
	if err != nil {
		return nil, nil, errors.Join(err, d.Close())
	}
	return d, ch, nil
}

// FlagError explains a wrong value of a flag.
type FlagError = target.Error

// Wrong says what to do about a flag's value.
func Wrong(flag string, value any, why, hint string) *FlagError {
	return target.Wrong(flag, value, why, hint)
}

// Nearest returns ", did you mean X?" for the name with the longest common start, "" for none.
func Nearest(word string, names []string) string {
	best, nearest := 1, ""
	for _, name := range names {
		n := 0
		for n < min(len(word), len(name)) && word[n] == name[n] {
			n++
		}
		if n > best {
			best, nearest = n, fmt.Sprintf(", did you mean %q?", name)
		}
	}
	return nearest
}

// OpenError explains why a device can't be opened. Errors of every device stay unchanged.
func OpenError(device string, err error) error {
	e := &FlagError{Flag: "--device", Value: device, Err: err}
	var lib *ttsim.LibraryError
	var op *kmd.OpError
	switch {
	case errors.As(err, &lib):
		e.Why, e.Hint = lib.Err.Error(), lib.Hint
	case !errors.As(err, &op) || op.Op != "open":
		return err
	case errors.Is(err, kmd.ErrNotDevice):
		e.Why, e.Hint = op.Err.Error(), "give a node that the driver made, such as /dev/tenstorrent/0"
	case errors.Is(err, kmd.ErrNoDevice), errors.Is(err, kmd.ErrUnsupportedSystem):
		e.Why, e.Hint = op.Err.Error(), "emu:blackhole and emu:wormhole need no card; to check the machine: reprise doctor"
	default:
		e.Why = op.Err.Error()
	}
	return e
}

// Cause is the innermost error.
func Cause(err error) error {
	for {
		inner := errors.Unwrap(err)
		if inner == nil {
			return err
		}
		err = inner
	}
}

// Exit codes.
const (
	ExitOK          = 0
	ExitFailed      = 1 // one line on standard error says why
	ExitUsage       = 2
	ExitInterrupted = 130 // ended by SIGINT, SIGTERM or SIGHUP
)

// ExitStatus is that of a program that has reported its error itself.
type ExitStatus int

func (e ExitStatus) Error() string { return fmt.Sprintf("the program exited with status %d", int(e)) }

// Hangs are the flags of commands that wait for programs.
type Hangs struct {
	DumpDir     string  `default:"${temp_dir}" placeholder:"DIR"`
	HangTimeout Seconds `env:"TT_METAL_OPERATION_TIMEOUT_SECONDS" placeholder:"SECONDS"`
}

// Options are those for opening a device.
func (h *Hangs) Options() []reprise.Option {
	return []reprise.Option{reprise.WithDumpDir(h.DumpDir), reprise.WithHangTimeout(time.Duration(h.HangTimeout))}
}

// Seconds is a time limit as in TT-NN's variable; 0 is the default.
type Seconds time.Duration

// UnmarshalText allows a fraction.
func (s *Seconds) UnmarshalText(text []byte) error {
	n, err := strconv.ParseFloat(string(text), 64)
	if err != nil || !(n >= 0 && n <= math.MaxInt64/1e9) {
		return fmt.Errorf("%q is no number of seconds", text)
	}
	*s = Seconds(n * float64(time.Second))
	return nil
}
