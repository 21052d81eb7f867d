// Package mesh uses many chips as one. A [Mesh] is chips in a grid of any number of dimensions; every object of package
// reprise has a counterpart that spans them: [Buffer], [Executable], [Queue], [Event] and [Trace].
//
//	m, err := mesh.Open(ctx, mesh.Cards(sim.QuietBox().Cards()...), mesh.Shape{2, 2})
//
// # Places
//
// Which chip is where is found out: Open asks the chips for their Ethernet links and looks for a place of each coordinate
// so that neighbours in the mesh are joined by a link that works. Links that are down and chips that are missing are left
// out, so a smaller shape may fit where a larger one doesn't: see [OrShape] and [ShapeError].
//
// # Memory
//
// Each chip has one allocator, whatever meshes it is part of: a submesh takes memory of its chips alone, and nobody else is
// given it. What is allocated on a mesh has one address on all its chips. Chips with equal fingerprints ([Mesh.InStep]) are
// in step: the same requests give the same addresses, as on one chip. A submesh that allocates for itself brings its chips
// out of step with the others; from then on an address is looked for that is free on all.
//
// # Failures
//
// What spans chips fails as a whole with an [*Error] that lists the state of every chip. A chip that failed doesn't take
// the others along: they can be used by themselves, or as a submesh.
package mesh
