package allocator

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
)

// The three reports have the names and columns of tt-metal's memory reporter
// (tt_metal/detail/reports/memory_reporter.cpp), so that what reads those reads these. KB are 1024
// B.

const kb = 1024

// WriteReports writes the reports l1_usage_summary.csv, memory_usage_summary.csv and
// detailed_memory_usage.csv to a directory, with a prefix to their names. Their columns are
// tt-metal's.
func (m *Map) WriteReports(dir, prefix string) error {
	var errs []error
	for _, r := range []struct {
		name  string
		write func(io.Writer) error
	}{
		{"l1_usage_summary.csv", m.WriteL1Summary},
		{"memory_usage_summary.csv", m.WriteSummary},
		{"detailed_memory_usage.csv", m.WriteDetailed},
	} {
		f, err := os.Create(filepath.Join(dir, prefix+r.name))
		if err == nil {
			err = errors.Join(r.write(f), f.Close())
		}
		errs = append(errs, err)
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("allocator: write memory reports: %w", err)
	}
	return nil
}

// WriteL1Summary writes the report l1_usage_summary.csv: the largest hole that an interleaved L1
// buffer could have in each bank, and what that is over all banks.
func (m *Map) WriteL1Summary(w io.Writer) error {
	if _, err := io.WriteString(w, "This report indicates available space for interleaving L1 buffers\n"+
		", Largest Contiguous Free Block (KB), Total Free L1 Space (KB)\n"); err != nil {
		return err
	}
	s := m.stats(L1)
	return table(w, []string{"", num(s.LargestHole / kb), num(s.LargestHole / kb * uint64(s.Banks))})
}

// WriteSummary writes the report memory_usage_summary.csv: what each bank of each kind has, DRAM
// and L1 first.
func (m *Map) WriteSummary(w io.Writer) error {
	if _, err := io.WriteString(w, ", Total Allocatable Size (KB), Total Allocated (KB), Total Free (KB), Largest Free Block (KB)\n"); err != nil {
		return err
	}
	var rows [][]string
	for _, k := range []Kind{DRAM, L1, L1Small, Trace} {
		if s := m.stats(k); s.Total != 0 {
			rows = append(rows, []string{k.Code(), num(s.Total / kb), num(s.Allocated / kb), num(s.Free / kb), num(s.LargestHole / kb)})
		}
	}
	return table(w, rows...)
}

// WriteDetailed writes the report detailed_memory_usage.csv: for each region the totals over all
// banks, then each bank with its blocks. Beside the columns of tt-metal's table of blocks it has
// kind, owner, tag and call site.
func (m *Map) WriteDetailed(w io.Writer) error {
	c := csv.NewWriter(w)
	put := func(fields ...string) { _ = c.Write(fields) } // Flush keeps the error
	for i := range m.Regions {
		r := &m.Regions[i]
		var allocated uint64
		for _, s := range r.Stats {
			allocated += s.Allocated
		}
		s := r.Stats[0]
		n := uint64(s.Banks)
		put("", r.Name)
		put("", "Total allocatable (KB):", num(s.Total*n/kb))
		put("", "Total allocated (KB):", num(allocated*n/kb))
		put("", "Total free (KB):", num(s.Free*n/kb))
		for bank := range s.Banks {
			put("Bank ID:", strconv.Itoa(bank))
			put("", "", "Total allocatable (KB):", num(s.Total/kb))
			put("", "", "Total free (KB):", num(s.Free/kb))
			put("", "", "Total allocated (KB):", num(allocated/kb))
			put("", "", "Largest free block (KB):", num(s.LargestHole/kb))
			put("", "", "", "blockID", "address", "size", "prevID", "nextID", "allocated", "kind", "owner", "tag", "call site")
			for j := range r.Entries {
				e := &r.Entries[j]
				prev, next, yes := "none", "none", "yes"
				if j > 0 {
					prev = strconv.Itoa(j - 1)
				}
				if j+1 < len(r.Entries) {
					next = strconv.Itoa(j + 1)
				}
				if e.Free {
					yes = "no"
				}
				put("", "", "", strconv.Itoa(j), num(e.Start), num(e.Bytes()), prev, next, yes, e.Kind, e.Owner, e.Tag, e.Site)
			}
		}
	}
	c.Flush()
	return c.Error()
}

// stats returns the numbers of a kind, zero if it isn't in the map.
func (m *Map) stats(k Kind) Stats {
	for i := range m.Regions {
		for _, s := range m.Regions[i].Stats {
			if s.Kind == k {
				return s
			}
		}
	}
	return Stats{Kind: k}
}

func table(w io.Writer, rows ...[]string) error {
	c := csv.NewWriter(w)
	return c.WriteAll(rows)
}

func num(v uint64) string { return strconv.FormatUint(v, 10) }
