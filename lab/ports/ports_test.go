package ports_test

import (
	"net"
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/causalstore/causalstore/lab/ports"
)

// childEnv makes the test binary print ports instead of running tests.
const childEnv = "CAUSALSTORE_TEST_PORTS"

func TestMain(m *testing.M) {
	if os.Getenv(childEnv) == "" {
		os.Exit(m.Run())
	}
	all, err := ports.Free(500)
	if err != nil {
		panic(err)
	}
	_, _ = os.Stdout.WriteString(strings.Join(all, " ") + "\n")
	_, _ = os.Stdin.Read(make([]byte, 1)) // a process has its ports until it ends
}

func TestNoPortIsGivenTwice(t *testing.T) {
	const processes = 4 // of their 2,000 ports, many would be the same if each process chose by itself
	seen := map[string]bool{}
	take := func(all []string) {
		t.Helper()
		if len(all) != 500 {
			t.Errorf("%d ports, want 500", len(all))
		}
		for _, address := range all {
			if seen[address] {
				t.Fatalf("%s is given twice", address)
			}
			seen[address] = true
		}
	}
	for range processes - 1 {
		child := exec.Command(os.Args[0])
		child.Env, child.Stderr = append(os.Environ(), childEnv+"=1"), os.Stderr
		in, err := child.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		out, err := child.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := child.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			_ = in.Close()
			_ = child.Wait()
		})
		text := make([]byte, 0, 1<<14)
		for !strings.HasSuffix(string(text), "\n") {
			n, err := out.Read(text[len(text):cap(text)])
			if err != nil {
				t.Fatal(err)
			}
			text = text[:len(text)+n]
		}
		take(strings.Fields(string(text)))
	}
	own, err := ports.Free(500)
	if err != nil {
		t.Fatal(err)
	}
	take(own)
}

func TestAPortIsFreeAndBelowThoseOfOutgoingConnections(t *testing.T) {
	for range 100 {
		address := ports.ForTest(t)
		l, err := net.Listen("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		if port := netip.MustParseAddrPort(address).Port(); port < 15000 || port >= 30000 {
			t.Errorf("port %d is outside of the range that the package states", port)
		}
	}
}
