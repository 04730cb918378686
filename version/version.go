// Package version says which version of CausalStore a program is. The file VERSION is the only place that has the
// number; the build adds the revision.
package version

import (
	_ "embed" // for the number
	"runtime"
	"runtime/debug"
	"strings"
)

//go:embed VERSION
var number string

// revision is set by builds outside of a checkout, such as that of the image: -ldflags "-X
// github.com/causalstore/causalstore/version.revision=REVISION".
var revision string

// Number returns the version, for example 1.2.0.
func Number() string { return strings.TrimSpace(number) }

// Revision returns the revision that was built, with the suffix -dirty if it had changes, or "unknown".
func Revision() string {
	if revision != "" {
		return revision
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	found, suffix := "unknown", ""
	for _, s := range info.Settings {
		switch {
		case s.Key == "vcs.revision":
			found = s.Value
		case s.Key == "vcs.modified" && s.Value == "true":
			suffix = "-dirty"
		}
	}
	return found + suffix
}

// Exact returns the version with the revision, which differs between two builds that are not the same.
func Exact() string {
	r := Revision()
	if r == "unknown" {
		return Number()
	}
	short, suffix, _ := strings.Cut(r, "-")
	if suffix != "" {
		suffix = "." + suffix
	}
	return Number() + "+" + short[:min(len(short), 12)] + suffix
}

// Describe returns all of it for people.
func Describe() string {
	return Number() + ", revision " + Revision() + ", " + runtime.Version() + " " + runtime.GOOS + "/" + runtime.GOARCH
}
