// Package mesh uses many chips as one. A [Mesh] is a grid of chips with any number of dimensions.
// [Buffer], [Executable], [Queue] and [Event] are those of package reprise on all chips; a trace is
// a reprise.Trace with a part for each chip.
//
//	m, err := mesh.Open(ctx, mesh.Cards(sim.QuietBox().Cards()...), mesh.Shape{2, 2})
//
// Open reads the chips' Ethernet links and finds a chip for each coordinate, so that working links
// join all neighbours. A smaller shape may fit where a larger one doesn't: see [OrShape] and
// [ShapeError].
//
// Each chip has one allocator for all its meshes. A mesh's buffer has the same address on all its
// chips. Chips with equal fingerprints ([Mesh.InStep]) are in step: equal requests give equal
// addresses. A submesh that allocates for itself takes its chips out of step; the mesh then
// searches for addresses that are free on all.
//
// An operation on several chips fails as a whole, with an [*Error] that has the state of every
// chip. Chips without a failure stay usable, by themselves or as a submesh.
package mesh
