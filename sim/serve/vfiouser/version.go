package vfiouser

import (
	"bytes"
	"encoding/json"
	"fmt"
)

// The protocol version; lower minor versions work too.
const (
	versionMajor = 0
	versionMinor = 1
)

const maxMaps = 65535 // ranges of client memory, the protocol's default

// capabilities are a side's; a missing field means the protocol's default.
type capabilities struct {
	MaxDescriptors *uint64     `json:"max_msg_fds,omitempty"`
	MaxData        *uint64     `json:"max_data_xfer_size,omitempty"`
	MaxMaps        *uint64     `json:"max_dma_maps,omitempty"`
	PageSizes      *uint64     `json:"pgsizes,omitempty"`
	WriteMultiple  *bool       `json:"write_multiple,omitempty"`
	Twin           *twinSocket `json:"twin_socket,omitempty"`
}

type twinSocket struct {
	Supported bool `json:"supported"`
	Index     *int `json:"fd_index,omitempty"`
}

// offer is the text of a version message.
type offer struct {
	Capabilities capabilities `json:"capabilities"`
}

type version struct {
	Major, Minor uint16
	Caps         capabilities
}

func parseVersion(b []byte) (v version, err error) {
	bad := func(why string) (version, error) {
		return version{}, fmt.Errorf("vfiouser: version: %w: %s", ErrProtocol, why)
	}
	if len(b) < versionSize {
		return bad(fmt.Sprintf("%d bytes, want at least %d", len(b), versionSize))
	}
	v.Major, v.Minor = order.Uint16(b), order.Uint16(b[2:])
	text := b[versionSize:]
	if len(text) == 0 {
		return v, nil
	}
	if len(text) > 1<<16 {
		return bad(fmt.Sprintf("%d bytes of capabilities, want at most %d", len(text), 1<<16))
	}
	text, tail, ended := bytes.Cut(text, []byte{0})
	if !ended || len(tail) > 0 {
		return bad("the capabilities don't end with a zero byte")
	}
	if len(text) == 0 {
		return v, nil
	}
	var data offer
	if err := json.Unmarshal(text, &data); err != nil {
		return bad("the capabilities are no such JSON object: " + err.Error())
	}
	v.Caps = data.Capabilities
	return v, nil
}

func (v version) body() ([]byte, error) {
	text, err := json.Marshal(offer{v.Caps})
	if err != nil {
		return nil, fmt.Errorf("vfiouser: version: %w", err)
	}
	b := order.AppendUint16(nil, v.Major)
	b = order.AppendUint16(b, v.Minor)
	return append(append(b, text...), 0), nil
}

// answer is the server's, with a subset of the client's capabilities.
func (v version) answer() (version, error) {
	if v.Major != versionMajor {
		return version{}, fmt.Errorf("vfiouser: version: %w: the client speaks %d.%d, this server %d.%d",
			ErrProtocol, v.Major, v.Minor, versionMajor, versionMinor)
	}
	a := version{Major: versionMajor, Minor: min(v.Minor, versionMinor)}
	number := func(to **uint64, proposed *uint64, n uint64) {
		if proposed != nil {
			*to = &n
		}
	}
	number(&a.Caps.MaxDescriptors, v.Caps.MaxDescriptors, maxDescriptors)
	number(&a.Caps.MaxData, v.Caps.MaxData, maxData)
	number(&a.Caps.MaxMaps, v.Caps.MaxMaps, maxMaps)
	if p := v.Caps.PageSizes; p != nil {
		number(&a.Caps.PageSizes, p, *p&^(pageSize-1)|pageSize)
	}
	if v.Caps.WriteMultiple != nil && *v.Caps.WriteMultiple {
		yes := true
		a.Caps.WriteMultiple = &yes
	}
	return a, nil
}

const pageSize = 4096 // the smallest of client memory

func limit(v *uint64, otherwise int) int {
	if v == nil {
		return otherwise
	}
	return int(min(*v, 1<<30))
}
