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
// [Allocator.Map] says what lies where, its owner and its call site, as text, JSON, a picture or
// CSV. [Allocator.Clone] copies the state: to find out what would fit ([Allocator.Fits]), to
// compare ([Allocator.Diff]) and to go back ([Allocator.Restore]). [Allocator.Fingerprint] is a
// hash of everything that decides where the next extent goes: if two are equal, so are the
// addresses.
//
// # Cost
//
// Placement is first fit by address, unless [Config.Policy] says otherwise. Holes are a list in
// order of address, cut into chunks of at most 32. The largest hole of each chunk, and of each 16
// chunks, is known, so the lowest (or highest) hole that fits is found by looking at few numbers,
// and the neighbours of what is freed by a binary search. There are no pointers in it; allocating
// and freeing don't allocate memory once the list has its size.
package allocator
