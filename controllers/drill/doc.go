// Package drill rehearses failures of a store in production with Chaos Mesh, and judges what clients see.
//
// A run freezes the names of the pods that it hits, measures a baseline, injects experiments that end by themselves,
// watches canaries in every data center of the cluster, verifies that everything has healed, and writes a report. What
// a drill is, whom it hits, which experiments it makes and whether its promises held are pure functions; Runner does
// the I/O around them.
//
// Failure model: the program that runs a drill may die at any time. Experiments have a duration, canaries a deadline
// and keys a time to live, so all of them end without it; the lock of the store expires. Chaos Mesh may leave things
// behind: they are looked for, named, and removed on request. Chaos Mesh is not a dependency: its objects are
// unstructured, and its kinds are looked for at run time.
package drill
