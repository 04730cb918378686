// Package storepage serves the live page of stores from the operator of a region, read-only.
//
// A Store reads what package console shows: the store and its pods from the operator's cache, and the metrics of the
// processes in the pods, which are open to everyone who reaches them. It is read only while somebody looks. It neither
// writes nor has a secret. Server is the HTTP server, which listens at a loopback address of the operator's pod: people
// reach it by a port-forward, for which the API server has authenticated and authorized them.
package storepage
