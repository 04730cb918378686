//go:build linux

package wan

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// The tests run this program in three networks: as a server and a client, and as the router between them.
const envRole = "CAUSALSTORE_WAN_TEST"

func TestMain(m *testing.M) {
	roles := map[string]func() error{"router": runRouter, "server": runServer, "push": runPush, "echo": runEcho}
	run, ok := roles[os.Getenv(envRole)]
	if !ok {
		os.Exit(m.Run())
	}
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

const serverAddress = "10.2.0.1:7000"

// runRouter sets both directions to each link that it reads, and answers with what they did so far.
func runRouter() error {
	var queues []*Queue
	for number := range uint16(2) {
		q, err := Open(context.Background(), number, Link{})
		if err != nil {
			return err
		}
		queues = append(queues, q)
	}
	fmt.Println("ready")
	for d := json.NewDecoder(os.Stdin); ; {
		var l Link
		if err := d.Decode(&l); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		for _, q := range queues {
			q.Set(l)
		}
		// What the kernel dropped itself is in the sixth and seventh column.
		kernel, err := os.ReadFile("/proc/net/netfilter/nfnetlink_queue")
		if err != nil {
			return err
		}
		fmt.Printf("%+v; kernel: %s\n", queues[0].Stats(), strings.Split(string(kernel), "\n")[0])
	}
}

// runServer answers each connection with the bytes that it gets.
func runServer() error {
	l, err := net.Listen("tcp", serverAddress)
	if err != nil {
		return err
	}
	fmt.Println("ready")
	for {
		c, err := l.Accept()
		if err != nil {
			return err
		}
		go func() {
			defer c.Close()
			first := make([]byte, 1)
			if _, err := c.Read(first); err != nil {
				return
			}
			if first[0] == 'e' {
				_, _ = c.Write(first) // the client notices
				return
			}
			n, _ := io.Copy(io.Discard, c) // the client may stop at any time
			_, _ = fmt.Fprintln(c, n)
		}()
	}
}

// runEcho prints how long a round trip takes on an open connection.
func runEcho() error {
	c, err := net.DialTimeout("tcp", serverAddress, time.Second)
	if err != nil {
		fmt.Println("no connection")
		return nil
	}
	start := time.Now()
	if _, err := c.Write([]byte("e")); err != nil {
		return err
	}
	if _, err := c.Read(make([]byte, 1)); err != nil {
		return err
	}
	fmt.Println(time.Since(start).Microseconds())
	return nil
}

// runPush sends for some seconds over some connections, and prints how many bytes per second have arrived.
func runPush() error {
	connections, err := strconv.Atoi(os.Getenv("CONNECTIONS"))
	if err != nil {
		return err
	}
	period, err := time.ParseDuration(os.Getenv("PERIOD"))
	if err != nil {
		return err
	}
	var (
		all     sync.WaitGroup
		mu      sync.Mutex
		total   int64
		problem error
	)
	start := time.Now()
	for range connections {
		all.Go(func() {
			n, err := push(start.Add(period))
			mu.Lock()
			defer mu.Unlock()
			total += n
			problem = errors.Join(problem, err)
		})
	}
	all.Wait()
	fmt.Println(int64(float64(total) / time.Since(start).Seconds()))
	return problem
}

func push(until time.Time) (int64, error) {
	c, err := net.Dial("tcp", serverAddress)
	if err != nil {
		return 0, err
	}
	defer c.Close()
	for block := make([]byte, 128<<10); time.Now().Before(until); {
		if _, err := c.Write(block); err != nil {
			return 0, err
		}
	}
	if err := c.(*net.TCPConn).CloseWrite(); err != nil {
		return 0, err
	}
	var n int64
	_, err = fmt.Fscan(c, &n)
	return n, err
}

// routed is a router between a client's and a server's network.
type routed struct {
	testing.TB
	client int // PID in the client's network
	links  *json.Encoder
	output *bufio.Scanner
}

func startRouted(t testing.TB) *routed {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("not root: the test makes networks of its own")
	}
	for _, program := range []string{"ip", "iptables", "nsenter"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skip(err)
		}
	}
	r := &routed{TB: t}
	client := exec.Command("sleep", "infinity")
	r.client = r.start(client)
	server := exec.Command(os.Args[0])
	server.Env = append(os.Environ(), envRole+"=server")
	hold := exec.Command("sleep", "infinity") // the server needs its address first
	serverPID := r.start(hold)
	routerNet := exec.Command("sleep", "infinity")
	routerPID := r.start(routerNet)
	ip := func(pid int, args string) { r.inside(pid, "", append([]string{"ip"}, strings.Fields(args)...)...) }
	for i, pid := range []int{r.client, serverPID} {
		ip(routerPID, fmt.Sprintf("link add side%d type veth peer name eth0 netns %d", i, pid))
		ip(routerPID, fmt.Sprintf("addr add 10.%d.0.254/24 dev side%d", i+1, i))
		ip(routerPID, fmt.Sprintf("link set side%d up", i))
		ip(pid, "link set lo up")
		ip(pid, "link set eth0 up")
	}
	ip(r.client, "addr add 10.1.0.1/24 dev eth0")
	ip(serverPID, "addr add 10.2.0.1/24 dev eth0")
	ip(r.client, "route add default via 10.1.0.254")
	ip(serverPID, "route add default via 10.2.0.254")
	for i := range 2 {
		rule := fmt.Sprintf("--append FORWARD --in-interface side%d --jump NFQUEUE --queue-num %d", i, i)
		r.inside(routerPID, "", append([]string{"iptables"}, strings.Fields(rule)...)...)
	}
	r.inside(routerPID, "", "sh", "-c", "echo 1 > /proc/sys/net/ipv4/ip_forward")
	router, input := r.role(routerPID, "router")
	r.links, r.output = json.NewEncoder(input), router
	r.role(serverPID, "server")
	return r
}

// start starts a program in a network of its own, and returns its PID.
func (r *routed) start(cmd *exec.Cmd) int {
	r.Helper()
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET, Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		r.Skipf("cannot make a network here: %v", err)
	}
	r.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	return cmd.Process.Pid
}

// inside runs a program in the network of a process, and returns its output.
func (r *routed) inside(pid int, role string, args ...string) string {
	r.Helper()
	cmd := exec.Command("nsenter", append([]string{"--target", strconv.Itoa(pid), "--net"}, args...)...)
	cmd.Env = append(os.Environ(), envRole+"="+role)
	output, err := cmd.CombinedOutput()
	if err != nil {
		r.Fatalf("%s: %v\n%s", strings.Join(args, " "), err, output)
	}
	return strings.TrimSpace(string(output))
}

// role runs this program in the network of a process until the test ends, and waits until it is ready.
func (r *routed) role(pid int, role string) (*bufio.Scanner, io.Writer) {
	r.Helper()
	cmd := exec.Command("nsenter", "--target", strconv.Itoa(pid), "--net", os.Args[0])
	cmd.Env, cmd.Stderr = append(os.Environ(), envRole+"="+role), os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	input, err := cmd.StdinPipe()
	if err != nil {
		r.Fatal(err)
	}
	output, err := cmd.StdoutPipe()
	if err != nil {
		r.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		r.Fatal(err)
	}
	r.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	lines := bufio.NewScanner(output)
	if !lines.Scan() || lines.Text() != "ready" {
		r.Fatalf("the %s says %q", role, lines.Text())
	}
	return lines, input
}

// set sets both directions, and returns what the one from client to server did so far.
func (r *routed) set(l Link) string {
	r.Helper()
	if err := r.links.Encode(l); err != nil || !r.output.Scan() {
		r.Fatalf("the router does not take %+v: %v", l, err)
	}
	return r.output.Text()
}

func (r *routed) echo() string { r.Helper(); return r.inside(r.client, "echo", os.Args[0]) }

// push returns how many bytes per second arrive.
func (r *routed) push(connections int, period time.Duration) int64 {
	r.Helper()
	cmd := exec.Command("nsenter", "--target", strconv.Itoa(r.client), "--net", os.Args[0])
	cmd.Env = append(os.Environ(), envRole+"=push", "CONNECTIONS="+strconv.Itoa(connections), "PERIOD="+period.String())
	output, err := cmd.CombinedOutput()
	if err != nil {
		r.Fatalf("push: %v\n%s", err, output)
	}
	rate, err := strconv.ParseInt(strings.TrimSpace(string(output)), 10, 64)
	if err != nil {
		r.Fatal(err)
	}
	return rate
}

func TestARouterDelaysCutsAndCongests(t *testing.T) {
	r := startRouted(t)
	const delay = 50 * time.Millisecond
	r.set(Link{Delay: delay})
	if took, err := strconv.ParseInt(r.echo(), 10, 64); err != nil || time.Duration(took)*time.Microsecond < 2*delay {
		t.Errorf("a round trip takes %d µs (%v), want at least %s", took, err, 2*delay)
	}
	r.set(Link{Cut: true})
	if got := r.echo(); got != "no connection" {
		t.Errorf("over a link that is cut, a round trip takes %s µs", got)
	}
	const rate = 1 << 20
	r.set(Link{Rate: rate, Queue: 128 << 10})
	if got := r.push(4, time.Second); got > rate {
		t.Errorf("%d bytes per second pass, want at most %d", got, rate)
	} else {
		t.Logf("%d of %d bytes per second pass", got, rate)
	}
	r.set(Link{})
	if got := r.echo(); got == "no connection" {
		t.Error("the link does not heal")
	}
	t.Log(r.set(Link{}))
}

// BenchmarkRouter measures how much passes through a router. docs/kubernetes.md has the figures.
func BenchmarkRouter(b *testing.B) {
	r := startRouted(b)
	for _, delay := range []time.Duration{0, 40 * time.Millisecond, 125 * time.Millisecond} {
		for _, connections := range []int{1, 4, 16} {
			b.Run(fmt.Sprintf("delay=%s/connections=%d", delay, connections), func(b *testing.B) {
				r.set(Link{Delay: delay})
				total, rounds := int64(0), int64(0)
				for b.Loop() {
					total += r.push(connections, 8*time.Second)
					rounds++
				}
				b.ReportMetric(float64(total)/float64(rounds)/1e6, "MB/s")
				b.Log(r.set(Link{Delay: delay}))
			})
		}
	}
}
