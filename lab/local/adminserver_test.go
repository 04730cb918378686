package local_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/causalstore/causalstore/lab/local"
	"github.com/causalstore/causalstore/sidecar/node"
)

func TestWebPagesCannotInjectFaults(t *testing.T) {
	d := start(t, local.Options{Scope: node.ScopePod, Cache: true, WAN: true})
	admin := d.Admin()
	for _, c := range []struct {
		what   string
		status int
		host   string
		header map[string]string
	}{
		{"curl --json", 204, "127.0.0.1:7000", map[string]string{"Content-Type": "application/json"}},
		{"another name of the same machine", 204, "localhost:7000",
			map[string]string{"Content-Type": "application/json; charset=utf-8"}},
		{"an IPv6 address", 204, "[::1]:7000", map[string]string{"Content-Type": "application/json"}},
		{"a page of the admin address itself", 204, "127.0.0.1:7000",
			map[string]string{"Content-Type": "application/json", "Origin": "http://127.0.0.1:7000",
				"Sec-Fetch-Site": "same-origin"}},
		{"a form, or fetch without a preflight", 415, "127.0.0.1:7000",
			map[string]string{"Content-Type": "text/plain"}},
		{"no type", 415, "127.0.0.1:7000", nil},
		{"a page of another origin", 403, "127.0.0.1:7000",
			map[string]string{"Content-Type": "application/json", "Origin": "https://evil.example",
				"Sec-Fetch-Site": "cross-site"}},
		{"a page of another origin in an old browser", 403, "127.0.0.1:7000",
			map[string]string{"Content-Type": "application/json", "Origin": "http://evil.example"}},
		{"a page on another port", 403, "127.0.0.1:7000",
			map[string]string{"Content-Type": "application/json", "Origin": "http://127.0.0.1:8080"}},
		{"a name that was made to resolve here", 403, "evil.example:7000",
			map[string]string{"Content-Type": "application/json", "Origin": "http://evil.example:7000",
				"Sec-Fetch-Site": "same-origin"}},
	} {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/fault",
			strings.NewReader(`{"kind":"heal"}`))
		r.Host = c.host
		for name, value := range c.header {
			r.Header.Set(name, value)
		}
		w := httptest.NewRecorder()
		admin.ServeHTTP(w, r)
		if w.Code != c.status {
			t.Errorf("%s: status %d, want %d: %s", c.what, w.Code, c.status, w.Body)
		}
	}
}

func TestWebPagesCannotReadTheState(t *testing.T) {
	admin := start(t, local.Options{Scope: node.ScopePod, Cache: true, WAN: true}).Admin()
	for _, c := range []struct {
		what, host string
		status     int
		header     map[string]string
	}{
		{"curl", "127.0.0.1:7000", 200, nil},
		{"the page itself", "127.0.0.1:7000", 200,
			map[string]string{"Sec-Fetch-Site": "same-origin", "Sec-Fetch-Mode": "cors", "Sec-Fetch-Dest": "empty"}},
		{"the address bar", "127.0.0.1:7000", 200,
			map[string]string{"Sec-Fetch-Site": "none", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}},
		{"a link on another page", "127.0.0.1:7000", 200,
			map[string]string{"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate",
				"Sec-Fetch-Dest": "document"}},
		{"a rebound name", "evil.example", 403, nil},
		{"a page of another origin", "127.0.0.1:7000", 403,
			map[string]string{"Origin": "https://evil.example", "Sec-Fetch-Site": "cross-site",
				"Sec-Fetch-Mode": "cors"}},
		{"a page of another origin in an old browser", "127.0.0.1:7000", 403,
			map[string]string{"Origin": "https://evil.example"}},
		{"a frame or script of another page", "127.0.0.1:7000", 403,
			map[string]string{"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate",
				"Sec-Fetch-Dest": "iframe"}},
	} {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/state", nil)
		r.Host = c.host
		for name, value := range c.header {
			r.Header.Set(name, value)
		}
		w := httptest.NewRecorder()
		if admin.ServeHTTP(w, r); w.Code != c.status {
			t.Errorf("GET /state by %s: status %d, want %d", c.what, w.Code, c.status)
		}
	}
}
