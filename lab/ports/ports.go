// Package ports finds free ports on 127.0.0.1 for programs that are told theirs before they listen. It is for
// deployments of tests and benchmarks.
package ports

import (
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
)

// Ports come from blocks below the range of ports for outgoing connections, which could take one while its program does
// not run. While a process listens on the first port of a block, no other process takes ports from it.
const (
	firstPort, lastPort = 15000, 29999
	portsInBlock        = 50
)

var mine struct {
	sync.Mutex
	reservations []net.Listener // the first ports of the blocks of this process; they end with it
	next, end    int            // the rest of the block in use
}

// Free returns the addresses of n ports that nobody listens on. Neither this process nor another one that uses this
// package gets one of them again.
func Free(n int) (addresses []string, err error) {
	mine.Lock()
	defer mine.Unlock()
	for len(addresses) < n {
		if mine.next == mine.end {
			if err := reserve(); err != nil {
				return nil, err
			}
		}
		if l, err := listen(mine.next); err == nil {
			addresses = append(addresses, l.Addr().String())
			if err := l.Close(); err != nil {
				return nil, err
			}
		}
		mine.next++
	}
	return addresses, nil
}

// reserve begins a block that no other process has.
func reserve() error {
	const blocks = (lastPort + 1 - firstPort) / portsInBlock
	for _, i := range rand.Perm(blocks) {
		first := firstPort + i*portsInBlock
		if l, err := listen(first); err == nil {
			mine.reservations = append(mine.reservations, l)
			mine.next, mine.end = first+1, first+portsInBlock
			return nil
		}
	}
	return fmt.Errorf(
		"found no block of %d free ports between %d and %d on 127.0.0.1; processes that use ports there must end first",
		portsInBlock, firstPort, lastPort)
}

func listen(port int) (net.Listener, error) {
	return net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
}

// Test is what ForTest uses of a test.
type Test interface {
	Helper()
	Fatal(args ...any)
}

// ForTest returns the address of a port as Free does; the test fails if there is none.
func ForTest(t Test) string {
	t.Helper()
	addresses, err := Free(1)
	if err != nil {
		t.Fatal(err)
	}
	return addresses[0]
}
