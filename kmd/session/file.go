package session

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"io"
)

// A recording is a magic, a version (u32, little-endian) and a gzip stream of records: a kind (one
// byte) and varint fields. Bytes are a reference: 0 for none, otherwise 1 + the number of an
// earlier blob record. The first record is a blob with the target's name, the last one an end with
// the number of events and the SHA-256 of everything before in the stream.
const (
	Magic     = "RPRSESS\x00"
	version   = 3
	maxBytes  = 1 << 30 // unpacked
	maxEvents = 1 << 22 // also of pieces of memory
)

type writer struct {
	z     *gzip.Writer
	buf   *bufio.Writer
	sum   hash.Hash
	blobs map[[sha256.Size]byte]uint64
	n     uint64 // events
	b     []byte
	err   error

	pieces, size          uint64 // of memory, and bytes, so far
	mostEvents, mostBytes uint64 // limits of Read
	full                  bool   // events were left out
}

func newWriter(w io.Writer, name string) *writer {
	o := &writer{sum: sha256.New(), blobs: map[[sha256.Size]byte]uint64{}, mostEvents: maxEvents, mostBytes: maxBytes}
	_, o.err = w.Write(binary.LittleEndian.AppendUint32([]byte(Magic), version))
	o.z = gzip.NewWriter(w)
	o.buf = bufio.NewWriter(io.MultiWriter(o.z, o.sum))
	o.blob([]byte(name))
	return o
}

func (o *writer) put(p []byte) {
	o.size += uint64(len(p))
	if o.err == nil {
		_, o.err = o.buf.Write(p)
	}
}

func (o *writer) fits(e *Event) bool {
	const number = binary.MaxVarintLen64
	pieces := len(e.Host) + len(e.Device)
	size := len(e.In) + len(e.Data) + len(e.Text) + 20*number + 4*number*pieces // with the overhead of blobs and the end
	for _, l := range [][]Delta{e.Host, e.Device} {
		for _, d := range l {
			size += len(d.Data)
		}
	}
	return o.n < o.mostEvents && o.pieces+uint64(pieces) <= o.mostEvents && o.size+uint64(size) <= o.mostBytes
}

func (o *writer) blob(p []byte) uint64 {
	if len(p) == 0 {
		return 0
	}
	sum := sha256.Sum256(p)
	if n, ok := o.blobs[sum]; ok {
		return n
	}
	n := uint64(len(o.blobs)) + 1
	o.blobs[sum] = n
	o.put(append(binary.AppendUvarint([]byte{byte(kindBlob)}, uint64(len(p))), p...))
	return n
}

func (o *writer) event(e *Event) {
	if o.full = o.full || !o.fits(e); o.full {
		return
	}
	o.pieces += uint64(len(e.Host) + len(e.Device))
	in, data, text := o.blob(e.In), o.blob(e.Data), o.blob([]byte(e.Text))
	fields := []uint64{e.At, e.File, e.Map, e.Off, e.Size, e.Value, uint64(e.Request), in, data, text, e.Errno}
	for _, l := range [...][]Delta{e.Host, e.Device} {
		fields = append(fields, uint64(len(l)))
		for _, d := range l {
			fields = append(fields, d.Pin, d.Off, o.blob(d.Data)) // its blob precedes the event
		}
	}
	b := append(o.b[:0], byte(e.Kind))
	for _, v := range fields {
		b = binary.AppendUvarint(b, v)
	}
	o.put(b)
	o.b = b
	o.n++
}

func (o *writer) close() error {
	o.put(binary.AppendUvarint([]byte{byte(kindEnd)}, o.n))
	if o.err == nil {
		o.err = o.buf.Flush()
	}
	if o.err == nil {
		_, o.err = o.z.Write(o.sum.Sum(nil))
	}
	err := errors.Join(o.err, o.z.Close())
	if err == nil && o.full {
		err = fmt.Errorf("%w: it ends after event %d", ErrTooLong, o.n-1)
	}
	if err != nil {
		return fmt.Errorf("session: record: %w", err)
	}
	return nil
}

// Session is a recording in memory.
type Session struct {
	Target string  `json:"target"` // name of the recorded target
	Events []Event `json:"events"`
}

// Read reads a recording. The error of a bad file matches ErrNotSession, ErrVersion or ErrDamaged.
func Read(r io.Reader) (*Session, error) {
	head := make([]byte, len(Magic)+4)
	if _, err := io.ReadFull(r, head); err != nil || string(head[:len(Magic)]) != Magic {
		if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
			return nil, fmt.Errorf("session: read: %w", err)
		}
		return nil, fmt.Errorf("session: read: %w: it doesn't begin with %q", ErrNotSession, Magic)
	}
	if v := binary.LittleEndian.Uint32(head[len(Magic):]); v != version {
		return nil, fmt.Errorf("session: read: %w: it is %d, this program reads %d", ErrVersion, v, version)
	}
	s, err := readStream(r)
	if err != nil {
		return nil, fmt.Errorf("session: read: %w: %w", ErrDamaged, err)
	}
	return s, nil
}

// counted hashes and bounds a stream.
type counted struct {
	r         *bufio.Reader
	sum       hash.Hash
	n, pieces uint64
	b         []byte
	err       error // the first one; numbers are 0 and bytes nil from then on
}

func (c *counted) ReadByte() (byte, error) {
	b, err := c.r.ReadByte()
	if err == nil {
		c.b[0] = b
		_, _ = c.sum.Write(c.b[:1]) // never fails
		c.n++
	}
	return b, err
}

// The buffer grows with the input, so a wrong length costs nothing.
func (c *counted) bytes(n uint64) []byte {
	if c.err == nil && (n > maxBytes || c.n+n > maxBytes) {
		c.err = fmt.Errorf("it unpacks to more than %d B", maxBytes)
	}
	if c.err != nil {
		return nil
	}
	var b bytes.Buffer
	got, err := io.CopyN(io.MultiWriter(&b, c.sum), c.r, int64(n))
	c.n += uint64(got)
	c.err = noEOF(err)
	return b.Bytes()
}

func (c *counted) varint() uint64 {
	if c.err != nil {
		return 0
	}
	v, err := binary.ReadUvarint(c)
	if c.err = noEOF(err); err != nil {
		return 0
	}
	return v
}

func noEOF(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

func readStream(r io.Reader) (*Session, error) {
	z, err := gzip.NewReader(r)
	if err != nil {
		return nil, noEOF(err)
	}
	c := &counted{r: bufio.NewReader(z), sum: sha256.New(), b: make([]byte, 1)}
	s := &Session{}
	var blobs [][]byte
	for {
		kind, err := c.ReadByte()
		if err != nil {
			return nil, fmt.Errorf("after event %d: %w", len(s.Events), noEOF(err))
		}
		switch Kind(kind) {
		case kindBlob:
			p := c.bytes(c.varint())
			if c.err != nil {
				return nil, c.err
			}
			if blobs == nil {
				s.Target = string(p)
			}
			blobs = append(blobs, p)
		case kindEnd:
			return s, c.end(z, len(s.Events))
		default:
			if Kind(kind) > kindEnd || kind == 0 || len(s.Events) == maxEvents || c.n > maxBytes {
				return nil, fmt.Errorf("record %d has the kind %d, or there are too many", len(s.Events), kind)
			}
			e := Event{Kind: Kind(kind)}
			if err := e.read(c, blobs); err != nil {
				return nil, fmt.Errorf("event %d: %w", len(s.Events), err)
			}
			s.Events = append(s.Events, e)
		}
	}
}

func (c *counted) end(z *gzip.Reader, events int) error {
	n := c.varint()
	if c.err != nil {
		return c.err
	}
	want := c.sum.Sum(nil)
	sum := make([]byte, sha256.Size)
	if _, err := io.ReadFull(c.r, sum); err != nil {
		return noEOF(err)
	}
	switch {
	case n != uint64(events):
		return fmt.Errorf("it has %d events, and says that it has %d", events, n)
	case !bytes.Equal(sum, want):
		return errors.New("its checksum is wrong: it was changed")
	}
	if _, err := c.r.ReadByte(); err == nil {
		return errors.New("something comes after its end")
	} else if !errors.Is(err, io.EOF) {
		return err
	}
	return z.Close()
}

func (e *Event) read(c *counted, blobs [][]byte) error {
	var request uint64
	var refs [3]uint64
	for _, f := range []*uint64{&e.At, &e.File, &e.Map, &e.Off, &e.Size, &e.Value, &request, &refs[0], &refs[1],
		&refs[2], &e.Errno} {
		*f = c.varint()
	}
	if c.err == nil && request > 1<<32-1 {
		return fmt.Errorf("request %#x", request)
	}
	e.Request = uint32(request)
	e.In, e.Data, e.Text = c.blob(blobs, refs[0]), c.blob(blobs, refs[1]), string(c.blob(blobs, refs[2]))
	for _, l := range []*[]Delta{&e.Host, &e.Device} {
		n := c.varint()
		if c.pieces += n; n > maxEvents || c.pieces > maxEvents {
			return fmt.Errorf("it has more than %d pieces of memory", maxEvents)
		}
		for i := uint64(0); i < n && c.err == nil; i++ {
			*l = append(*l, Delta{Pin: c.varint(), Off: c.varint(), Data: c.blob(blobs, c.varint())})
		}
	}
	return c.err
}

func (c *counted) blob(blobs [][]byte, n uint64) []byte {
	switch {
	case n == 0 || c.err != nil:
		return nil
	case n > uint64(len(blobs)):
		c.err = fmt.Errorf("it refers to blob %d, there are %d so far", n-1, len(blobs))
		return nil
	}
	return blobs[n-1]
}
