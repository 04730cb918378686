// Package console serves a page that shows a deployment live: its rings on a map, what is wrong, and where a write has
// arrived.
//
// It knows nothing of the data plane. A source passes it a Snapshot once a second; it keeps those of the last ten
// minutes for playback, and streams new ones to the pages that are open. Everything that the page needs is embedded in
// the binary (folder web/dist, which `go generate` builds from web/src).
package console

// Esbuild bundles the sources. Without npm the bundle stays as it is committed.
//go:generate go run ./internal/bundle web
