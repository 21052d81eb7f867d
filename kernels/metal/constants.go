package metal

import (
	"debug/dwarf"
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"maps"
)

// fetchEntryType is the type of the prefetch queue's entries in tt-metal's cq_prefetch.cpp.
const fetchEntryType = "prefetch_q_entry_type"

// Constants are a kernel's global constexpr variables by name, from its debug information, and the
// size in bytes of type prefetch_q_entry_type.
type Constants map[string]uint64

// ErrNoDebugInfo is returned for a file without debug information, which has the constants.
var ErrNoDebugInfo = errors.New("the file has no debug information: build it with -g, as tt-metal does, and don't strip it")

// ReadConstants reads a kernel's ELF file. The error wraps ErrNoDebugInfo without debug
// information.
func ReadConstants(r io.ReaderAt) (Constants, error) {
	all, err := readConstants(r)
	if err != nil {
		return nil, fmt.Errorf("metal: read constants: %w", err)
	}
	return all, nil
}

func readConstants(r io.ReaderAt) (Constants, error) {
	f, err := elf.NewFile(r)
	if err != nil {
		return nil, err
	}
	if f.Section(".debug_info") == nil {
		return nil, ErrNoDebugInfo
	}
	d, err := f.DWARF()
	if err != nil {
		return nil, err
	}
	all := Constants{}
	entries := d.Reader()
	for {
		unit, err := entries.Next()
		if err != nil {
			return nil, err
		}
		if unit == nil {
			return all, nil
		}
		if unit.Tag != dwarf.TagCompileUnit {
			entries.SkipChildren()
			continue
		}
		of, err := unitConstants(d, entries, unit)
		if err != nil {
			return nil, err
		}
		maps.Copy(all, of)
	}
}

// unitConstants advances r past the unit's children.
func unitConstants(d *dwarf.Data, r *dwarf.Reader, unit *dwarf.Entry) (Constants, error) {
	all := Constants{}
	if !unit.Children {
		return all, nil
	}
	for {
		e, err := r.Next()
		if err != nil {
			return nil, err
		}
		if e == nil || e.Tag == 0 {
			return all, nil
		}
		switch name, _ := e.Val(dwarf.AttrName).(string); e.Tag {
		case dwarf.TagVariable:
			if v, ok := constant(e.Val(dwarf.AttrConstValue)); ok && name != "" {
				all[name] = v
			}
		case dwarf.TagTypedef:
			if name == fetchEntryType {
				t, err := d.Type(e.Offset)
				if err != nil {
					return nil, err
				}
				all[fetchEntryType] = uint64(max(t.Size(), 0))
			}
		}
		r.SkipChildren()
	}
}

// TypeFacts returns, by name, the bytes of structures, the offsets of their fields
// ("go_msg_t.signal") and the values of enumerators that debug information has.
func TypeFacts(d *dwarf.Data) (map[string]uint64, error) {
	facts := map[string]uint64{}
	for r := d.Reader(); ; {
		e, err := r.Next()
		if err != nil || e == nil {
			return facts, err
		}
		name, _ := e.Val(dwarf.AttrName).(string)
		if e.Tag != dwarf.TagStructType && e.Tag != dwarf.TagTypedef && e.Tag != dwarf.TagEnumerationType || name == "" {
			continue
		}
		t, err := d.Type(e.Offset)
		if err != nil {
			continue // package dwarf has no char16_t
		}
		if def, ok := t.(*dwarf.TypedefType); ok {
			t = def.Type
		}
		switch t := t.(type) {
		case *dwarf.StructType:
			if t.Incomplete {
				continue
			}
			facts[name] = uint64(max(t.ByteSize, 0))
			for _, field := range t.Field {
				facts[name+"."+field.Name] = uint64(max(field.ByteOffset, 0))
			}
		case *dwarf.EnumType:
			for _, v := range t.Val {
				facts[v.Name] = uint64(v.Val)
			}
		}
	}
}

func constant(v any) (n uint64, ok bool) {
	switch v := v.(type) {
	case int64:
		return uint64(v), true
	case uint64:
		return v, true
	case bool:
		if v {
			return 1, true
		}
		return 0, true
	case []byte:
		if len(v) > 8 {
			return 0, false
		}
		for i, b := range v {
			n |= uint64(b) << (8 * i)
		}
		return n, len(v) > 0
	}
	return 0, false
}
