package redirect_test

import (
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/causalstore/causalstore/controllers/redirect"
)

// insideNamespace makes the test binary run the part of the test that is inside a network namespace.
const insideNamespace = "CAUSALSTORE_TEST_INSIDE_NAMESPACE"

func TestMain(m *testing.M) {
	if os.Getenv(insideNamespace) != "" {
		if err := runInNamespace(); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

const (
	service = "10.96.0.10" // outside of the namespace, like the address of a Service
	other   = "10.96.0.11" // another server on the same port
	sidecar = "127.67.83.1"
)

// runInNamespace sets up a network, installs the rules twice, and connects.
func runInNamespace() error {
	for _, args := range []string{"link set lo up", "link add eth0 type veth peer name peer0",
		"address add 10.1.0.5/24 dev eth0", "link set eth0 up",
		"route add default via 10.1.0.1", "address add " + other + "/32 dev lo"} {
		if out, err := exec.Command("ip", strings.Fields(args)...).CombinedOutput(); err != nil {
			return fmt.Errorf("ip %s: %w: %s", args, err, out)
		}
	}
	for _, address := range []string{sidecar + ":6379", other + ":6379", other + ":6380"} {
		if err := listen(address); err != nil {
			return err
		}
	}
	for range 2 {
		if err := redirect.Install([]netip.AddrPort{netip.MustParseAddrPort(service + ":6379"),
			netip.MustParseAddrPort("10.96.0.12:6379"),
			netip.MustParseAddrPort(other + ":6380")}, netip.MustParseAddrPort(sidecar+":6379")); err != nil {
			return err
		}
	}
	for address, want := range map[string]string{service + ":6379": sidecar + ":6379",
		"10.96.0.12:6379": sidecar + ":6379",
		other + ":6379":   other + ":6379", other + ":6380": sidecar + ":6379"} {
		got, err := dial(address)
		if err != nil || got != want {
			return fmt.Errorf("a connection to %s reaches %q (%w), want %s", address, got, err, want)
		}
	}
	return nil
}

// listen serves an address; every client receives that address.
func listen(address string) error {
	l, err := net.Listen("tcp", address)
	if err != nil {
		return err
	}
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = io.WriteString(c, address) // a client that has gone does not read it
			_ = c.Close()
		}
	}()
	return nil
}

// dial returns the address that the server at the other end listens on.
func dial(address string) (string, error) {
	c, err := net.DialTimeout("tcp", address, 10*time.Second)
	if err != nil {
		return "", err
	}
	defer func() { _ = c.Close() }()
	b, err := io.ReadAll(c)
	return string(b), err
}

// TestOnlyConnectionsToTheServicesAreRedirectedToTheSidecar runs in network and user namespaces of its own.
func TestOnlyConnectionsToTheServicesAreRedirectedToTheSidecar(t *testing.T) {
	if _, err := exec.LookPath("ip"); err != nil {
		t.Skip("ip is not installed; install iproute2")
	}
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), insideNamespace+"=1")
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET}
	if os.Getuid() != 0 {
		cmd.SysProcAttr.Cloneflags |= syscall.CLONE_NEWUSER
		cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}}
		cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}}
	}
	var out strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		t.Skipf("cannot create a network namespace: %v", err)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("%v: %s", err, out.String())
	}
}
