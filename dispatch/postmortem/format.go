package postmortem

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
)

// A dump file is a head and a gzip stream. The head is the magic, a version (u32), the length of
// the gzip stream (u64) and its SHA-256; numbers are little-endian. The stream holds the length of
// a JSON text (u32), that text, a Dump, and the bytes of its regions.
const (
	DumpMagic   = "RPRDUMP\x00"
	dumpVersion = 1
	dumpHead    = len(DumpMagic) + 4 + 8 + sha256.Size
	maxDump     = 64 << 20
)

type header struct {
	Magic   [len(DumpMagic)]byte
	Version uint32
	Size    uint64
	Sum     [sha256.Size]byte
}

var (
	// ErrNotDump is returned for a file that doesn't begin like a dump.
	ErrNotDump = errors.New("not a dump of a hang")
	// ErrDumpVersion is returned for a dump that another release has written.
	ErrDumpVersion = errors.New("unknown version of dumps")
	// ErrDamaged is returned for a dump that was changed or cut off after it was written.
	ErrDamaged = errors.New("the dump is damaged")
)

// WriteTo writes the dump as a file.
func (d *Dump) WriteTo(w io.Writer) (int64, error) {
	var body bytes.Buffer
	z := gzip.NewWriter(&body)
	head, err := json.Marshal(d)
	pieces := [][]byte{binary.LittleEndian.AppendUint32(nil, uint32(len(head))), head}
	for i := range d.Regions {
		pieces = append(pieces, d.Regions[i].Data)
	}
	for _, p := range pieces {
		if err == nil {
			_, err = z.Write(p)
		}
	}
	if err = errors.Join(err, z.Close()); err != nil {
		return 0, fmt.Errorf("dispatch: write dump: %w", err)
	}
	fixed := header{[len(DumpMagic)]byte([]byte(DumpMagic)), dumpVersion, uint64(body.Len()), sha256.Sum256(body.Bytes())}
	file, _ := binary.Append(nil, binary.LittleEndian, fixed) // numbers always encode
	n, err := w.Write(append(file, body.Bytes()...))
	if err != nil {
		err = fmt.Errorf("dispatch: write dump: %w", err)
	}
	return int64(n), err
}

// ReadDump reads a dump file. The error may match ErrNotDump, ErrDumpVersion or ErrDamaged.
func ReadDump(r io.Reader) (*Dump, error) {
	d, err := readDump(r)
	if err != nil {
		return nil, fmt.Errorf("dispatch: read dump: %w", err)
	}
	return d, nil
}

func readDump(r io.Reader) (*Dump, error) {
	head := make([]byte, dumpHead)
	if n, err := io.ReadFull(r, head); err != nil || !bytes.HasPrefix(head, []byte(DumpMagic)) {
		switch {
		case bytes.HasPrefix(head[:n], []byte(DumpMagic)):
			return nil, fmt.Errorf("%w: it ends after %d B, in its head: %w", ErrDamaged, n, err)
		case err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF):
			return nil, err
		}
		return nil, fmt.Errorf("%w: it doesn't begin with %q", ErrNotDump, DumpMagic)
	}
	var h header
	_, _ = binary.Decode(head, binary.LittleEndian, &h) // of its size
	if h.Version != dumpVersion {
		return nil, fmt.Errorf("%w: it is %d, this program reads %d", ErrDumpVersion, h.Version, dumpVersion)
	}
	if h.Size > maxDump {
		return nil, fmt.Errorf("%w: it says that it has %d B, at most %d B make sense", ErrDamaged, h.Size, maxDump)
	}
	body, err := io.ReadAll(io.LimitReader(r, int64(h.Size)+1))
	if err != nil {
		return nil, err
	}
	if uint64(len(body)) != h.Size {
		return nil, fmt.Errorf("%w: %d B or more follow its head, which says %d B", ErrDamaged, len(body), h.Size)
	}
	if sha256.Sum256(body) != h.Sum {
		return nil, fmt.Errorf("%w: its checksum is wrong", ErrDamaged)
	}
	d, err := unpackDump(body)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	return d, nil
}

func unpackDump(body []byte) (*Dump, error) {
	z, err := gzip.NewReader(bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	all, err := io.ReadAll(io.LimitReader(z, maxDump+1))
	if err != nil {
		return nil, err
	}
	if len(all) > maxDump {
		return nil, fmt.Errorf("it unpacks to more than %d B", maxDump)
	}
	if len(all) < 4 {
		return nil, fmt.Errorf("it unpacks to %d B", len(all))
	}
	n := binary.LittleEndian.Uint32(all)
	all = all[4:]
	if uint64(n) > uint64(len(all)) {
		return nil, fmt.Errorf("its description has %d B, the file %d B", n, len(all))
	}
	d := &Dump{}
	if err := json.Unmarshal(all[:n], d); err != nil {
		var syntax *json.SyntaxError
		var form *json.UnmarshalTypeError
		switch {
		case errors.As(err, &syntax):
			err = fmt.Errorf("byte %d: %w", syntax.Offset, err)
		case errors.As(err, &form):
			err = fmt.Errorf("byte %d: %w", form.Offset, err)
		}
		return nil, fmt.Errorf("its description: %w", err)
	}
	all = all[n:]
	for i := range d.Regions {
		r := &d.Regions[i]
		if r.Size < 0 || r.Size > len(all) {
			return nil, fmt.Errorf("region %d (%q) has %d B, %d B are left", i, r.Name, r.Size, len(all))
		}
		r.Data, all = all[:r.Size:r.Size], all[r.Size:]
	}
	if len(all) != 0 {
		return nil, fmt.Errorf("%d B after its last region", len(all))
	}
	return d, nil
}

func (d *Dump) save(dir string) (name string, err error) {
	f, err := os.CreateTemp(dir, fmt.Sprintf("reprise-hang-%s-queue%d-*.dump", d.Time.Format("20060102-150405"), d.Queue))
	if err != nil {
		return "", fmt.Errorf("dispatch: write dump: %w", err)
	}
	_, err = d.WriteTo(f)
	if err = errors.Join(err, f.Close()); err != nil {
		return "", errors.Join(err, os.Remove(f.Name()))
	}
	return f.Name(), nil
}
