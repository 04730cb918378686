// Package browser tests the page of `causalstore local` in Chromium, and makes the screenshots of the documentation.
package browser
