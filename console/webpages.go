package console

import (
	"net"
	"net/http"
	"net/netip"
)

// RefuseWebPages refuses what web pages of other origins make a browser send: requests that say so in Origin or
// Sec-Fetch-Site, and those whose Host is a name other than localhost, which the page's own domain may have been made
// to resolve to (DNS rebinding). Programs other than browsers send neither header, and reach the address under the
// number that is printed. What only reads is refused, too: that another origin cannot see the answer is up to the
// browser. A link on another page may be followed.
func RefuseWebPages(next http.Handler) http.Handler {
	protection := http.NewCrossOriginProtection()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !isOwnHost(r.Host) {
			http.Error(w, "the header Host names "+r.Host+": use localhost or the number of the address",
				http.StatusForbidden)
			return
		}
		// whatever its method: GET is not checked
		asked := http.Request{Method: http.MethodPost, Header: r.Header, Host: r.Host, URL: r.URL}
		if err := protection.Check(&asked); err != nil && !isFollowedLink(r) {
			http.Error(w, err.Error(), http.StatusForbidden)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// isFollowedLink reports whether a browser shows the answer as a page of its own, which the page with the link cannot
// read.
func isFollowedLink(r *http.Request) bool {
	return r.Method == http.MethodGet && r.Header.Get("Sec-Fetch-Mode") == "navigate" &&
		r.Header.Get("Sec-Fetch-Dest") == "document"
}

// isOwnHost reports whether a Host header is localhost or the number of an address, with or without a port.
func isOwnHost(hostPort string) bool {
	host, _, err := net.SplitHostPort(hostPort)
	if err != nil {
		host = hostPort
	}
	if len(host) > 2 && host[0] == '[' && host[len(host)-1] == ']' {
		host = host[1 : len(host)-1]
	}
	_, err = netip.ParseAddr(host)
	return err == nil || host == "localhost"
}
