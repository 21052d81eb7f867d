// Package allocator decides where things live on a device: in DRAM banks, in the trace region at
// their top, and in workers' L1. It is arithmetic only and never touches a device.
//
// Allocation is lockstep: an extent has one address that is valid in all banks of its kind, and
// takes the same number of bytes in each. Pages of an interleaved buffer go round the banks;
// [Extent.Page] and [Extent.PageAt] convert.
//
//	DRAM bank    base | DRAM, from the bottom up ->        <- traces, from the top down | end
//	worker L1    base |            <- L1, from the top down | L1 small, from the top down | end
//
// The trace region has a fixed size if [Config.TraceRegion] gives one. Otherwise it is whatever
// traces take, from the top of every bank downward into space that no buffer occupies, and space
// comes back when they are freed.
//
// # Layouts
//
// Interleaved is the default. A [ShardSpec] cuts a tensor of pages into shards and names the cores
// that hold them; the [Distribution] made of it says which page is where. The extent of a sharded
// buffer has as many places in each bank as the fullest core needs ([Distribution.CorePages]), for
// as many banks as hold shards.
//
// # State
//
// [Allocator.Map] is a memory map with owners and call sites, as text, JSON, a picture or CSV.
// [Allocator.Clone] copies the state: to find out what would fit ([Allocator.Fits]), to compare
// ([Allocator.Diff]) and to go back ([Allocator.Restore]). [Allocator.Fingerprint] is a hash of
// everything that decides where the next extent goes.
//
// # Cost
//
// Placement is first fit by address, unless [Config.Policy] says otherwise. Holes are a sorted list
// with an index of the largest ones, so that few numbers are looked at. The list has no pointers;
// once it has its size, allocating and freeing don't allocate memory.
package allocator
