package console

import (
	"net"
	"net/http"
	"net/netip"
)

// RefuseWebPages refuses what web pages of other origins make a browser send: requests that say so in Origin or Sec-Fetch-Site,
// and those whose Host is a name other than localhost, which the page's own domain may have been made to resolve to (DNS
// rebinding). Programs other than browsers send neither header, and reach the address under the number that is printed.
func RefuseWebPages(next http.Handler) http.Handler {
	sameOrigin := http.NewCrossOriginProtection().Handler(next)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !isOwnHost(r.Host) {
			http.Error(w, "the header Host names "+r.Host+": use localhost or the number of the address", http.StatusForbidden)
			return
		}
		sameOrigin.ServeHTTP(w, r)
	})
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
