package tracebuf

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
)

// Decode is [DecodeAll] for the trace of one device; for others it returns ErrSeveralDevices.
func Decode(r io.Reader) (*File, error) {
	files, err := DecodeAll(r)
	if err != nil {
		return nil, err
	}
	if len(files) > 1 {
		return nil, fmt.Errorf("tracebuf: decode: %w: there are %d", ErrSeveralDevices, len(files))
	}
	return files[0], nil
}

// DecodeAll reads a trace file, which must end where r does, and checks it completely. The result
// is a trace that a recorder could have made: the target's firmware takes all commands, and these
// write only to the workers' kernel memory. Kernels are not checked. There is a File for each
// device, in the order of the capture, nil for a device on which nothing was recorded. Errors are
// ErrNotTrace, ErrVersion, ErrDamaged, ErrInvalid or those of r. Memory is a small multiple of the
// bytes that r delivers, whatever the file claims.
func DecodeAll(r io.Reader) ([]*File, error) {
	body, err := readFile(r)
	if err != nil {
		return nil, fmt.Errorf("tracebuf: decode: %w", err)
	}
	files, err := decodeSections(body)
	if err == nil {
		err = validateAll(files)
	}
	if err != nil {
		return nil, fmt.Errorf("tracebuf: decode: %w", err)
	}
	return files, nil
}

func readFile(r io.Reader) ([]byte, error) {
	head := make([]byte, fileHead)
	n, err := io.ReadFull(r, head)
	switch {
	case !IsFile(head[:n]):
		if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
			return nil, err
		}
		return nil, fmt.Errorf("%w: it begins with %q, want %q", ErrNotTrace, head[:min(n, len(FileMagic))], FileMagic)
	case errors.Is(err, io.ErrUnexpectedEOF):
		return nil, damaged("head", "it has %d bytes, want %d", n, fileHead)
	case err != nil:
		return nil, err
	}
	if version := le.Uint32(head[8:]); version != FileVersion {
		return nil, fmt.Errorf("%w: it is version %d, this program reads version %d: capture the trace again", ErrVersion, version, FileVersion)
	}
	size := le.Uint64(head[16:])
	if size < uint64(fileHead+sha256.Size) || size > maxFile || le.Uint32(head[12:]) != 0 {
		return nil, damaged("head", "the file's length is given as %d, want %d to %d", size, fileHead+sha256.Size, uint64(maxFile))
	}
	body, err := io.ReadAll(io.LimitReader(r, int64(size)-int64(fileHead))) // memory for what there is, not what the file claims
	if err != nil {
		return nil, err
	}
	if have := uint64(fileHead + len(body)); have < size {
		return nil, damaged("end", "the file has %d bytes and began as one of %d: it was cut off; copy it again", have, size)
	}
	var more [1]byte
	if _, err := io.ReadFull(r, more[:]); err == nil {
		return nil, damaged("end", "bytes follow the end of the file at %d", size)
	} else if !errors.Is(err, io.EOF) {
		return nil, err
	}
	sum := sha256.New()
	sum.Write(head)
	body, want := body[:len(body)-sha256.Size], body[len(body)-sha256.Size:]
	sum.Write(body)
	if got := sum.Sum(nil); string(got) != string(want) {
		return nil, damaged("checksum", "it is %x..., the bytes give %x...: they were changed; copy the file again", want[:6], got[:6])
	}
	return body, nil
}

func decodeSections(b []byte) ([]*File, error) {
	s := sections{b: b}
	files := []*File{{}}
	if s.more(tagDevices, false) {
		files = nil
		s.code(tagDevices, func(c *coder) { c.devices(&files) })
	}
	for _, f := range files {
		if f != nil {
			s.device(f)
		}
	}
	if s.err == nil && len(s.b) > 0 {
		s.err = invalid("end", "%d bytes follow the last section, which begin with %q", len(s.b), s.b[:min(len(s.b), 4)])
	}
	return files, s.err
}
