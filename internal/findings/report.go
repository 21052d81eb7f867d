package findings

import (
	"encoding/json"
	"fmt"
	"io"
	"path/filepath"
	"strings"
)

// Print writes findings as text.
func Print(w io.Writer, list []Finding) error {
	var b strings.Builder
	for i := range list {
		f := &list[i]
		fmt.Fprintf(&b, "finding %d of %d, %s%s: %s\n", i+1, len(list), f.rule(), times(f.Count), f.Text)
		f.At.print(&b, "")
		if f.Other != nil {
			f.Other.print(&b, "after ")
		}
		if o := f.Operation; o != nil {
			fmt.Fprintf(&b, "  in operation %v\n", o)
		}
		for j, c := range f.Calls {
			fmt.Fprintf(&b, "  %s %v\n", [...]string{"called by", "      from"}[min(j, 1)], c)
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func times(n int) string {
	if n < 2 {
		return ""
	}
	return fmt.Sprintf(", %d times", n)
}

func (f *Finding) rule() string {
	if f.Check == "" {
		return "the chip stopped"
	}
	return f.Check
}

func (a *Access) print(b *strings.Builder, how string) {
	fmt.Fprintf(b, "  %s%s, address %#x\n", how, a.By, a.Addr)
	if len(a.Frames) == 0 && a.PC != 0 {
		fmt.Fprintf(b, "    pc %#x, in no kernel that is known\n", a.PC)
	}
	for i, f := range a.Frames {
		fmt.Fprintf(b, "    #%d %v\n", i, f)
	}
}

// rules say what each check finds.
var rules = map[string]string{
	"races":     "Accesses that nothing orders, and what is right only if the NoC or an engine is quick enough",
	"counters":  "Counters that can't become what is waited for, wrap, or are not up to date",
	"unwritten": "Reads of memory that was never written",
	"stalecode": "Instructions that changed after they were fetched",
	"stack":     "Stacks that overflow into data",
	"stopped":   "What every chip leaves undefined, at which the emulated one stops",
}

type object map[string]any

// SARIF writes findings in the Static Analysis Results Interchange Format (OASIS SARIF 2.1.0), for
// tools of code review.
func SARIF(w io.Writer, list []Finding) error {
	var results, known []object
	for _, id := range []string{"races", "counters", "unwritten", "stalecode", "stack", "stopped"} {
		known = append(known, object{"id": id, "shortDescription": object{"text": rules[id]}})
	}
	for i := range list {
		f := &list[i]
		id := f.Check
		if id == "" {
			id = "stopped"
		}
		r := object{"ruleId": id, "level": "error", "message": object{"text": f.Text}, "occurrenceCount": f.Count,
			"locations": []object{f.At.location()}, "relatedLocations": []object{}, "stacks": []object{f.At.stack("the later access")}}
		if f.Other != nil {
			r["relatedLocations"] = []object{f.Other.location()}
			r["stacks"] = []object{f.At.stack("the later access"), f.Other.stack("the earlier access")}
		}
		if o := f.Operation; o != nil {
			r["relatedLocations"] = append(r["relatedLocations"].([]object), location(o.Call.File, o.Call.Line, "operation "+o.String()))
		}
		if len(f.Calls) > 0 {
			var calls []object
			for _, c := range f.Calls {
				calls = append(calls, object{"location": location(c.File, c.Line, c.String())})
			}
			r["stacks"] = append(r["stacks"].([]object), object{"message": object{"text": "the host's program"}, "frames": calls})
		}
		results = append(results, r)
	}
	e := json.NewEncoder(w)
	e.SetIndent("", " ")
	return e.Encode(object{
		"version": "2.1.0", "$schema": "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json",
		"runs": []object{{
			"tool":    object{"driver": object{"name": "reprise", "rules": known}},
			"results": append([]object{}, results...),
		}},
	})
}

func (a *Access) location() object {
	for _, f := range a.Frames {
		if f.File != "" {
			return location(f.File, f.Line, a.By)
		}
	}
	return object{"message": object{"text": a.By}, "logicalLocations": []object{{"fullyQualifiedName": a.name()}}}
}

// name is that of code without lines.
func (a *Access) name() string {
	if len(a.Frames) == 0 {
		return a.By
	}
	return strings.Trim(a.Frames[0].Module+"/"+a.Frames[0].Function, "/")
}

func (a *Access) stack(what string) object {
	frames := []object{}
	for _, f := range a.Frames {
		if f.File != "" {
			frames = append(frames, object{"location": location(f.File, f.Line, f.String())})
		} else {
			frames = append(frames, object{"location": object{"message": object{"text": f.String()}}})
		}
	}
	return object{"message": object{"text": what + ": " + a.By}, "frames": frames}
}

func location(file string, line int, text string) object {
	return object{"message": object{"text": text}, "physicalLocation": object{
		"artifactLocation": object{"uri": filepath.ToSlash(file)}, "region": object{"startLine": max(line, 1)},
	}}
}
